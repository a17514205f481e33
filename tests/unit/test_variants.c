/* Other versions of the tools, other languages of the host, other boards: nothing is misread, and what is not certain is absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "provision/health/parse.h"

#define PORT(rest) "\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 800\n" rest "\t\tLink layer: InfiniBand\n"
#define LINKS17                                                                                                                                \
	"\t Link 0: 53.125 GB/s\n\t Link 1: 53.125 GB/s\n\t Link 2: 53.125 GB/s\n\t Link 3: 53.125 GB/s\n\t Link 4: 53.125 GB/s\n\t Link 5: 53.125 GB/s\n" \
	"\t Link 6: 53.125 GB/s\n\t Link 7: 53.125 GB/s\n\t Link 8: 53.125 GB/s\n\t Link 9: 53.125 GB/s\n\t Link 10: 53.125 GB/s\n\t Link 11: 53.125 GB/s\n" \
	"\t Link 12: 53.125 GB/s\n\t Link 13: 53.125 GB/s\n\t Link 14: 53.125 GB/s\n\t Link 15: 53.125 GB/s\n\t Link 16: 53.125 GB/s\n"
#define BW(average, rate) "{\"test_info\": {\"Device\": \"mlx5_0\"}, \"results\": {\"MsgSize\": 8388608, \"BW_peak\": 0.00, \"BW_average\": " average ", \"MsgRate\": " rate "}}\n"
#define NCCL_OLD(error)                                                                                                                         \
	"#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"                                  \
	" 17179869184    4294967296   float     sum  37889.3  453.42  680.10  " error "  37700.2  455.70  683.55  " error "\n# Out of bounds values : 0 OK\n" \
	"# Collective test concluded: all_reduce_perf\n"
#define CHRONY_CSV "C0000205,ntp1,3,1747037662.1,-0.0055,-0.0000088,0.00002,12.4,-0.002,0.041,0.0004,0.0007,64.4,Not synchronised\n"
#define XID79(time) time "NVRM: Xid (PCI:0018:06:00): 79, pid=7, name=x, GPU has fallen off the bus.\n"
#define SMI_Q(rows) "Attached GPUs : 1\nGPU 00000008:06:00.0\n    Product Name : NVIDIA GB300\n" rows
#define BW_TABLE(unit, rows) " Dual-port       : OFF\t\tDevice         : mlx5_0\n #bytes     #iterations    BW peak[" unit "]    BW average[" unit "]   MsgRate[Mpps]\n" rows
#define MLX5 "[ 18.4] mlx5_core 0010:03:00.0: "

/* want: the value, or "!reason" when it is absent, or NULL when there must be no such metric. */
static const struct {
	const char *what, *collector, *out, *metric, *label, *want;
} rows[] = {
	/* languages */
	{ "decimal comma", "chrony", "System time     : 0,000012041 seconds slow of NTP time\n", "time.offset_ms", "", "0.012041" },
	{ "decimal comma of a large offset", "chrony", "System time     : 1,5 seconds slow of NTP time\n", "time.offset_ms", "", "1500" },
	{ "decimal comma and exponent", "gemm", "Device 0 NVIDIA GB300\nGFlops:1,8521e+06 GFlops Time: 1\n", "gemm.tflops", "gpu=0", "1852.1" },
	{ "a comma that can be read in two ways", "storage", "Smart Log for NVME device:nvme0n1\nmedia_errors : 1,234\n", "nvme.media_errors", "drive=nvme0n1", "!not a number" },
	{ "hexadecimal", "storage", "Smart Log for NVME device:nvme0n1\ncritical_warning : 0x1f\n", "nvme.critical_warning", "drive=nvme0n1", "31" },
	{ "thousands", "storage", "Smart Log for NVME device:nvme0n1\nmedia_errors : 1,234,567\n", "nvme.media_errors", "drive=nvme0n1", "1234567" },
	{ "thousands before a point", "gemm", "Device 0 NVIDIA GB300\nGFlops:1,852,100.5 GFlops Time: 1\n", "gemm.tflops", "gpu=0", "1852.1005" },
	{ "thousands by points", "gemm", "Device 0 NVIDIA GB300\nGFlops:1.852.100,5 GFlops Time: 1\n", "gemm.tflops", "gpu=0", "1852.1005" },
	{ "half speed with a comma", "nvlink-status", "GPU 0: x\n" LINKS17 "\t Link 17: 26,562 GB/s\n", "nvlink.active", "gpu=0", "!a link without a state" },
	/* terminals */
	{ "character set sequence", "ibstat", "CA 'mlx5_0'\n\tPort 1:\n\t\tState: \033[32mActive\033(B\033[m\n\t\tLink layer: InfiniBand\n", "ib.state", "dev=mlx5_0", "Active" },
	{ "title with its end", "ibstat", "CA 'mlx5_0'\n\tPort 1:\n\033]0;node 7\033\\\t\tState: Active\n\t\tLink layer: InfiniBand\n", "ib.state", "dev=mlx5_0", "Active" },
	{ "title without an end", "ibstat", "CA 'mlx5_0'\n\tPort 1:\n\033]0;node 7\n\t\tState: Active\n\t\tLink layer: InfiniBand\n", "ib.state", "dev=mlx5_0", "Active" },
	{ "colour without an end", "ibstat", "CA 'mlx5_0'\n\tPort 1:\033[3\n\t\tState: Active\n\t\tLink layer: InfiniBand\n", "ib.state", "dev=mlx5_0", "Active" },
	/* no values */
	{ "link without a state", "nvlink-status", "GPU 0: x\n" LINKS17 "\t Link 17: N/A\n", "nvlink.active", "gpu=0", "!a link without a state" },
	{ "a link that is down beside one without a state", "nvlink-status", "GPU 0: x\n\t Link 0: <inactive>\n\t Link 1: N/A\nGPU 1: x\n" LINKS17 "\t Link 17: 53.125 GB/s\n", "nvlink.active", "gpu=0", "0" },
	{ "GPU without links", "nvlink-status", "GPU 0: x\nGPU 1: x\n" LINKS17 "\t Link 17: 53.125 GB/s\n", "nvlink.active", "gpu=0", "!no links shown" },
	{ "GPU by its address", "nvlink-status", "GPU 0: x\n" LINKS17 "\t Link 17: 53.125 GB/s\nGPU 00000009:06:00.0: x\n" LINKS17 "\t Link 17: 53.125 GB/s\n", "nvlink.active", "gpu=0", "18" },
	{ "GPUs by number and by address", "nvlink-status", "GPU 0: x\n" LINKS17 "\t Link 17: 53.125 GB/s\nGPU 00000009:06:00.0: x\n" LINKS17 "\t Link 17: 53.125 GB/s\n", "nvlink.gpus", "", "!a GPU without a number" },
	{ "GPU that is not counted", "nvlink-status", "GPU zero: x\n" LINKS17 "\t Link 17: 53.125 GB/s\n", "nvlink.gpus", "", "!a GPU without a number" },
	{ "errors of a GPU without a number", "nvlink-errors", "GPU 0: x\n Link 0: Link recovery failed events: 0\nGPU one: x\n Link 0: Link recovery failed events: 3\n", "nvlink.recovery_failed", "gpu=0,link=0", "0" },
	{ "all links down", "nvlink-status", "GPU 0: x\n\tNVML: Unable to retrieve Nvlink information as all links are inActive\n", "nvlink.active", "gpu=0", "0" },
	{ "text in brackets", "nvidia-smi-q", "Attached GPUs : 1\nGPU 00000008:06:00.0\n    GPU Recovery Action : [Not Found]\nGPU\n", "gpu.recovery", "gpu=0", "!no value" },
	{ "ERR!", "nvidia-smi-q", "Attached GPUs : 1\nGPU 00000008:06:00.0\n    Remapped Rows\n        Pending : ERR!\nGPU\n", "gpu.remap.pending", "gpu=0", "!ERR!" },
	/* rows of the same name */
	{ "width that is, not that could be", "nvidia-smi-q", SMI_Q("    PCI\n        GPU Link Info\n            Link Width\n                Max : 16x\n                Current : 8x\n                Device Max : 16x\n"), "gpu.pcie.width", "gpu=0", "8" },
	{ "memory of the GPU, not of its part", "nvidia-smi-q", SMI_Q("    MIG Devices\n        MIG Device\n            FB Memory Usage\n                Total : 24000 MiB\n    FB Memory Usage\n        Total : 284208 MiB\n"), "gpu.memory_mib", "gpu=0", "284208" },
	{ "errors since the driver started", "nvidia-smi-q", SMI_Q("    ECC Errors\n        Volatile\n            DRAM Uncorrectable : 0\n        Aggregate\n            DRAM Uncorrectable : 12\n"), "gpu.ecc.dram", "gpu=0", "0" },
	{ "remapped now, not ever", "nvidia-smi-q", SMI_Q("    Remapped Rows\n        Correctable Error : 3\n        Pending : Yes\n        Remapping Failure Occurred : No\n"), "gpu.remap.pending", "gpu=0", "Yes" },
	{ "row and column of a GPU", "nvbandwidth", "Running device_to_device_memcpy_read_ce.\n           0         1         2\n 0       N/A    700.00    700.00\n 1    700.00       N/A    700.00\n 2    400.00    400.00       N/A\nSUM device_to_device_memcpy_read_ce 3600\n",
	  "nvbw.device_to_device_memcpy_read_ce", "gpu=2", "550" },
	/* InfiniBand devices */
	{ "first port of two", "ibstat", "CA 'mlx5_0'\n\tFirmware version: 28.1\n\tPort 1:\n\t\tState: Down\n\t\tLink layer: InfiniBand\n\tPort 2:\n" PORT(""), "ib.state", "dev=mlx5_0", "Down" },
	{ "second port of two", "ibstat", "CA 'mlx5_0'\n\tFirmware version: 28.1\n\tPort 1:\n\t\tState: Down\n\t\tLink layer: InfiniBand\n\tPort 2:\n" PORT(""), "ib.rate", "dev=mlx5_0,port=2", "800" },
	{ "firmware of both ports", "ibstat", "CA 'mlx5_0'\n\tFirmware version: 28.1\n\tPort 1:\n" PORT("") "\tPort 2:\n" PORT(""), "ib.fw", "dev=mlx5_0,port=2", "28.1" },
	{ "two ports of one device", "ibv-devinfo", "hca_id:\tmlx5_0\n\t\tport:\t1\n\t\t\tstate:\tPORT_DOWN (1)\n\t\t\tlink_layer:\tInfiniBand\n\t\tport:\t2\n\t\t\tstate:\tPORT_ACTIVE (4)\n\t\t\tlink_layer:\tInfiniBand\n", "ib.state", "dev=mlx5_0", "Down" },
	{ "an Ethernet port beside", "ibstat", "CA 'mlx5_0'\n\tPort 1:\n" PORT("") "\tPort 2:\n\t\tState: Active\n\t\tLink layer: Ethernet\n", "ib.ports", "", "1" },
	{ "management device", "ibstat", "CA 'mlx5_0'\n\tPort 1:\n" PORT("") "CA 'smi1'\n\tPort 1:\n" PORT("") "\tPort 2:\n" PORT(""), "ib.ports", "", "1" },
	{ "rate of a port without link", "ibstat", "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Down\n\t\tRate: 10\n\t\tLink layer: InfiniBand\n", "ib.rate", "dev=mlx5_0", "!the port is not active" },
	{ "rows nobody knows", "ibstat", "CA 'mlx5_0'\n\tPlanes: 4\n\tPort 1:\n\t\tEffective speed: 850\n" PORT("\t\tPlane state: all up\n"), "ib.rate", "dev=mlx5_0", "800" },
	{ "no answer of ibv_devinfo", "ibv-devinfo", "", "ib.ports", "", NULL },
	{ "index of the first key", "ib-pkeys", "/sys/class/infiniband/a/ports/1/pkeys/0:0x7fff\n/sys/class/infiniband/a/ports/1/pkeys/10:0x8002\n/sys/class/infiniband/a/ports/1/pkeys/2:0x8001\n", "ib.pkey.index", "dev=a", "2" },
	/* tables */
	{ "columns in another order", "topo", "\tNIC0\tGPU1\tGPU0\nNIC0\tX\tSYS\tSYS\nGPU0\tSYS\tNV18\tX\nGPU1\tSYS\tX\tNV18\n", "topo.link", "gpu=0,peer=1", "NV18" },
	{ "all GPUs in another order", "topo", "\tNIC0\tGPU1\tGPU0\nNIC0\tX\tSYS\tSYS\nGPU0\tSYS\tNV18\tX\nGPU1\tSYS\tX\tNV18\n", "topo.gpus", "", "2" },
	{ "the node that answers", "imex-nodes-text", "Nodes:\nNode #0   - *10.0.0.1*      - READY                - Version: 580.88.01\n", "imex.node.host", "node=0", "10.0.0.1" },
	{ "matrix in another order", "imex-nodes-text", "Nodes:\nNode #0 - a - READY\nNode #1 - b - READY\n Nodes From\\To 1 0\n 0 !V! C\n 1 C C\nDomain State: UP\n", "imex.link", "node=0,peer=1", "VERSION_MISMATCH" },
	/* ports without an answer keep their place */
	{ "counters of a named device", "ib-counters", "# dev a\n# Port extended counters: Lid 7 port 1\nLinkDownedCounter:...............1\n# dev b\n# dev c\n# Port extended counters: Lid 9 port 1\n"
	  "LinkDownedCounter:...............3\n", "ib.counter.link_downed", "rail=2,sample=0", "3" },
	{ "counters of a device that is silent", "ib-counters", "# dev a\n# Port extended counters: Lid 7 port 1\nLinkDownedCounter:...............1\n# dev b\n# dev c\n", "ib.counter.link_downed",
	  "rail=1,sample=0", "!row missing" },
	{ "second look at a named device", "ib-counters", "# dev a\n# Port extended counters: Lid 7 port 1\nLinkDownedCounter:...............1\n# dev b\n# dev a\n# Port extended counters: Lid 7 port 1\n"
	  "LinkDownedCounter:...............2\n", "ib.counter.link_downed", "rail=0,sample=1", "2" },
	{ "keys of a named device", "ib-pkeys", "# dev a\n# dev b\n   0: 0x7fff 0x8010\n", "ib.pkey", "dev=b,index=1", "0x8010" },
	{ "counter at its end", "ib-counters", "# Port counters: Lid 7 port 1\nPortRcvErrors:...................65535\n", "ib.counter.rcv_errors", "rail=0,sample=0", "!the counter is full (65535 or more)" },
	{ "counter before its end", "ib-counters", "# Port counters: Lid 7 port 1\nPortRcvErrors:...................65534\n", "ib.counter.rcv_errors", "rail=0,sample=0", "65534" },
	{ "large counter", "ib-counters", "# Port extended counters: Lid 7 port 1\nPortRcvErrors:...................9007199254740993\n", "ib.counter.rcv_errors", "rail=0,sample=0", "9.007199255e+15" },
	{ "counters of like names", "ib-counters", "# Port counters: Lid 7 port 1\nPortRcv:.........................3\nPortRcvErrorsLocal:..............4\n", "ib.counter.rcv_errors", "rail=0,sample=0", "!row missing" },
	/* lines that were lost */
	{ "links of a GPU whose line was lost", "nvlink-status", "GPU 0: x\n" LINKS17 "\t Link 17: 53.125 GB/s\n" LINKS17 "\t Link 17: 53.125 GB/s\n", "nvlink.active", "gpu=0", "!a link without a state" },
	{ "a drive whose line was lost", "storage", "Smart Log for NVME device:nvme0n1\ncritical_warning : 0\ncritical_warning : 0x1\n", "nvme.critical_warning", "drive=nvme0n1", "0" },
	{ "its warning", "storage", "Smart Log for NVME device:nvme0n1\ncritical_warning : 0\ncritical_warning : 0x1\n", "nvme.critical_warning", "drive=?", "1" },
	{ "CPUs of a node", "numactl", "available: 2 nodes (0-1)\nnode 0 size: 441002 MB\nnode 1 cpus: 3 4 5\nnode 1 size: 441002 MB\n", "numa.cpu_nodes", "", "!truncated" },
	{ "ranks of a list", "nccl-allreduce", "#  Rank  0 Group  0 Pid 1 on a device 0 [0x1]\n 17179869184 4294967296 float sum -1 37889.3 453.42 680.10 0 37700.2 455.70 683.55 0\n"
	  "# Collective test concluded: all_reduce_perf\n", "nccl.missing_ranks", "", "!the list of ranks is not whole" },
	/* services */
	{ "name behind its rows", "services", "LoadState=loaded\nActiveState=active\nId=nvidia-imex.service\n\nLoadState=loaded\nActiveState=failed\nId=nvidia-dcgm.service\n", "svc.nvidia-imex", "", "active" },
	{ "rows before the name of the next", "services", "LoadState=loaded\nActiveState=active\nId=nvidia-imex.service\n\nLoadState=loaded\nActiveState=failed\nId=nvidia-dcgm.service\n", "svc.nvidia-dcgm", "", "failed" },
	{ "word that nobody knows", "services", "active\nhibernating\nfailed\n", "svc.nvidia-dcgm", "", "failed" },
	{ "state that nobody knows", "services", "active\nhibernating\nfailed\n", "svc.nvidia-persistenced", "", "!hibernating" },
	/* nccl-tests */
	{ "no column of the root", "nccl-allreduce", NCCL_OLD("0e+00"), "nccl.busbw", "", "680.1" },
	{ "how far off, not how many", "nccl-allreduce", NCCL_OLD("2e-07"), "nccl.wrong", "", "0" },
	{ "not checked", "nccl-allreduce", NCCL_OLD("N/A"), "nccl.wrong", "", "!not checked (-c 0)" },
	{ "in an order of its own", "nccl-allreduce", "#  size  count  busbw  algbw  time #wrong\n 17179869184 4294967296 918.77 465.85 36878.3 3\n# Collective test concluded: all_reduce_perf\n", "nccl.busbw", "", "918.77" },
	{ "wrong in place", "nccl-allreduce", " 17179869184 4294967296 float sum -1 37889.3 453.42 680.10 0 37700.2 455.70 683.55 64\n# Collective test concluded: all_reduce_perf\n", "nccl.wrong", "", "64" },
	/* documents */
	{ "DCGM 3", "dcgm-diag", "{\"DCGM GPU Diagnostic\":{\"test_categories\":[{\"tests\":[{\"name\":\"pcie\",\"results\":[{\"gpu_ids\":\"2\",\"status\":\"FAIL\"}]}]}]}}\n", "dcgm.result", "test=pcie,gpu=2", "FAIL" },
	{ "DCGM 4, the sum alone", "dcgm-diag", "{\"DCGM Diagnostic\":{\"test_categories\":[{\"tests\":[{\"name\":\"pcie\",\"test_summary\":{\"status\":\"Fail\"}}]}]}}\n", "dcgm.result", "test=pcie,all", "Fail" },
	{ "no reading", "power", "{\"PowerWatts\":{\"Reading\":null}}\n", "power.watts", "", "!no reading" },
	{ "lscpu -J, nested", "lscpu", "{\"lscpu\":[{\"field\":\"Architecture:\",\"data\":\"aarch64\",\"children\":[{\"field\":\"CPU(s):\",\"data\":\"144\"}]}]}\n", "host.cpus", "", "144" },
	/* chronyc -c */
	{ "offset with a sign", "chrony", "System time     : -0.5 seconds\n", "time.offset_ms", "", "500" },
	{ "offset behind", "chrony", CHRONY_CSV, "time.offset_ms", "", "5.5" },
	{ "stratum of the fields", "chrony", CHRONY_CSV, "time.stratum", "", "3" },
	{ "leap of the fields", "chrony", CHRONY_CSV, "time.leap", "", "Not synchronised" },
	/* kernel log */
	{ "one event, two styles of time", "dmesg-xid", XID79("[ 9000.1] ") XID79("[Tue May 12 08:14:22 2026] ") XID79("2026-05-12T08:14:22,441207+00:00 "), "xid.fatal", "", "1" },
	{ "earliest of two", "dmesg-xid", XID79("[ 9000.1] ") "[ 9001.1] NVRM: Xid (PCI:0019:06:00): 119, Timeout\n", "xid.first", "", "Xid 79 on 0018:06:00 (drain the tray and report it)" },
	{ "when that was", "dmesg-xid", XID79("[ 9000.1] ") "[ 9001.1] NVRM: Xid (PCI:0019:06:00): 119, Timeout\n", "xid.first.time", "", "9000.1" },
	{ "an echo is not first", "dmesg-xid", "[ 8999.1] NVRM: Xid (PCI:0009:06:00): 145, RLW_REMAP Fatal XC0 i0 Link 01 (0x1 0x0)\n" XID79("[ 9000.1] "), "xid.first", "", "Xid 79 on 0018:06:00 (drain the tray and report it)" },
	{ "link down while the host boots", "dmesg-xid", "[ 1799.9] mlx5_core 0010:03:00.0 ibP16p3s0: Link down\n", "mlx5.link_down", "", "0" },
	{ "link down when it is up", "dmesg-xid", "[ 1800.0] mlx5_core 0010:03:00.0 ibP16p3s0: Link down\n", "mlx5.link_down", "", "1" },
	{ "fault of an NVSwitch", "dmesg-xid", "[ 7.1] nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n", "xid.fatal", "", "1" },
	{ "report of an NVSwitch", "dmesg-xid", "[ 7.1] nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Data {0x1, 0x0}\n", "xid.fatal", "", "0" },
	{ "sub-code that is ignored", "dmesg-xid", "[ 99.1] NVRM: Xid (PCI:0018:06:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 05 (0x02600000 0x0)\n", "xid.fatal.list", "", "none" },
	{ "nonfatal", "dmesg-xid", "[ 99.1] NVRM: Xid (PCI:0018:06:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x8)\n", "xid.fatal", "", "0" },
	{ "slot slower than the card", "dmesg-xid", MLX5 "504.112 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x16 link at 0010:02:00.0 (capable of 1008.092 Gb/s with 64.0 GT/s PCIe x16 link)\n", "mlx5.pcie_limited", "", "0" },
	{ "lanes missing", "dmesg-xid", MLX5 "252.048 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link at 0010:02:00.0 (capable of 1008.092 Gb/s with 64.0 GT/s PCIe x16 link)\n", "mlx5.pcie_limited", "", "1" },
	{ "card with eight lanes", "dmesg-xid", MLX5 "126.024 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 link at 0010:02:00.0 (capable of 252.048 Gb/s with 32.0 GT/s PCIe x8 link)\n", "mlx5.pcie_limited", "", "0" },
	{ "Ethernet port", "dmesg-xid", "[ 7001.3] mlx5_core 0006:01:00.0 enP6p1s0f0np0: Link down\n", "mlx5.link_down", "", "0" },
	{ "InfiniBand port", "dmesg-xid", "[ 7001.3] mlx5_core 0010:03:00.0 ibP16p3s0: Link down\n", "mlx5.link_down", "", "1" },
	/* perftest */
	{ "gigabits", "ib-write-bw", BW("752.31", "0.011210"), "ibbw.gbps", "dev=mlx5_0", "752.31" },
	{ "mebibytes", "ib-write-bw", BW("44840.00", "0.005605"), "ibbw.gbps", "dev=mlx5_0", "376.1451827" },
	{ "average, not peak", "ib-write-bw", BW_TABLE("Gb/sec", " 8388608    20000            760.11             752.10 \t\t     0.011207\n"), "ibbw.gbps", "dev=mlx5_0", "752.1" },
	{ "megabytes of a table", "ib-write-bw", BW_TABLE("MB/sec", " 8388608    20000            0.00             94000.00 \t\t     0.011207\n"), "ibbw.gbps", "dev=mlx5_0", "752" },
	{ "mebibytes of a table", "ib-write-bw", BW_TABLE("MiB/sec", " 8388608    20000            0.00             90000.00 \t\t     0.011207\n"), "ibbw.gbps", "dev=mlx5_0", "754.97472" },
	{ "largest message of a sweep", "ib-write-bw", BW_TABLE("Gb/sec", " 2    5000    0.10    0.09    5.1\n 8388608    5000    760.11    752.10    0.011\n"), "ibbw.gbps", "dev=mlx5_0", "752.1" },
	{ "unit that nobody knows", "ib-write-bw", BW_TABLE("Tb/sec", " 8388608    5000    0.76    0.75    0.011\n"), "ibbw.gbps", "dev=mlx5_0", "!no result row" },
	{ "decimals as text", "nvbandwidth", "{\"nvbandwidth\":{\"testcases\":[{\"name\":\"host_to_device_memcpy_ce\",\"status\":\"Passed\",\"bandwidth_matrix\":[[\"211.55\",\"N/A\"]]}]}}\n", "nvbw.host_to_device_memcpy_ce", "gpu=0", "211.55" },
	{ "no number", "nvbandwidth", "{\"nvbandwidth\":{\"testcases\":[{\"name\":\"host_to_device_memcpy_ce\",\"status\":\"Passed\",\"bandwidth_matrix\":[[\"211.55\",\"N/A\"]]}]}}\n", "nvbw.host_to_device_memcpy_ce", "gpu=1", "!no value" },
	{ "waived", "nvbandwidth", "{\"nvbandwidth\":{\"testcases\":[{\"name\":\"host_to_device_memcpy_ce\",\"status\":\"Waived\"}]}}\n", "nvbw.host_to_device_memcpy_ce", "", "!waived" },
	{ "both ways", "ib-write-bw", "                    RDMA_Write Bidirectional BW Test\n Dual-port       : OFF\t\tDevice         : mlx5_0\n #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n 8388608 20000 0.00 752.1 0.011\n", "ibbw.gbps", "", "!a sum of both ways (-b)" },
	{ "ended before its result", "ib-write-bw", " Dual-port       : OFF\t\tDevice         : mlx5_0\n", "ibbw.error", "", NULL },
};

static void shown(const struct rk_metric *x, char *text, size_t size)
{
	if (x->type == RK_METRIC_NUMBER)
		snprintf(text, size, "%.10g", x->number);
	else
		snprintf(text, size, "%s%s", x->type == RK_METRIC_ABSENT ? "!" : "", x->text);
}

static void each_form_is_read_as_it_is_meant(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
		const struct rk_evidence e = { rows[i].collector, rows[i].out, strlen(rows[i].out), "", 0, "0" };
		struct rk_metrics m = { .arena = arena };
		char got[256] = "";
		rk_collector_find(e.collector)->parse(&e, &m);
		const struct rk_metric *x = rk_metric_find(&m, rows[i].metric, rows[i].label);
		if (x)
			shown(x, got, sizeof(got));
		if ((x != NULL) != (rows[i].want != NULL) || (x && strcmp(got, rows[i].want) != 0))
			fail_msg("%s: %s{%s} is \"%s\", expected \"%s\"", rows[i].what, rows[i].metric, rows[i].label, x ? got : "not there", rows[i].want ? rows[i].want : "not there");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_form_is_read_as_it_is_meant) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
