/* Evidence folders of a cluster of eight VMs in two racks, all collectors, judged at the deepest level. tests/evidence/healthy holds what a
 * healthy VM answers; each case spoils one answer of one VM and names what an expert would say. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/clock.h"
#include "inventory/base/file.h"
#include "inventory/base/str.h"
#include "provision/health/health.h"

#define HEALTHY "tests/evidence/healthy"
#define UUID "0b5e7a31-52c4-4c1d-9a77-3f1e55aa0042"
enum { VMS = 8, PER_RACK = 4, BAD = 1 /* a-02 */ };

/* from NULL: `to` is the whole answer. err: stderr. check: the row that must hold exactly the VMs of `folded`; NULL: none is looked at.
 * cause: text of the only root cause; NULL: there must be none. action: what it says is to be done; NULL: not looked at. */
static const struct {
	const char *what, *collector, *from, *to, *status, *err, *verdict, *check, *folded, *cause, *action;
} cases[] = {
	{ "healthy", "chrony", "Normal", "Normal", "0", "", "pass", "ssh", "a-[01-08]", NULL, NULL },
	/* NVLink membership */
	{ "in another partition", "nvidia-smi-xml", "<cliqueId>11<", "<cliqueId>12<", "0", "", "fail", "gpu.fabric.partition", "a-02", "NVLink partition: a-02 on r01-t02", "drift --fix returns the GPUs to their partition" },
	{ "in no partition", "nvidia-smi-xml", "<cliqueId>11<", "<cliqueId>0<", "0", "", "fail", "gpu.fabric.clique", "a-02", "NVLink partition: a-02", "drift --fix returns the GPUs to their partition" },
	{ "not registered", "nvidia-smi-xml", "<state>Completed<", "<state>In Progress<", "0", "", "fail", "gpu.fabric.state", "a-02", "registration: a-02 on r01-t02 in NVLink partition 11", "drift --fix returns the GPUs to their partition" },
	{ "route unhealthy", "nvidia-smi-xml", "<route_unhealthy>False<", "<route_unhealthy>True<", "0", "", "fail", "gpu.fabric.route", "a-02", "NVLink fabric registration: a-02", NULL },
	{ "degraded bandwidth", "nvidia-smi-xml", "<bandwidth>Full<", "<bandwidth>Degraded<", "0", "", "fail", "gpu.fabric.bandwidth", "a-02", "NVLink: a-02", NULL },
	{ "recovering", "nvidia-smi-xml", "<route_recovery_in_progress>False<", "<route_recovery_in_progress>True<", "0", "", "warn", "gpu.fabric.recovery", "a-02", NULL, NULL },
	{ "health not told", "nvidia-smi-xml", "<summary>Healthy<", "<summary>N/A<", "0", "", "unknown", "gpu.fabric.health", "a-02", NULL, NULL },
	{ "cabled to another rack", "nvidia-smi-xml", UUID, "0b5e7a31-52c4-4c1d-9a77-3f1e55aa0099", "0", "", "fail", "gpu.fabric.domain", "a-02", "NVLink partition: a-02", NULL },
	/* GPUs */
	{ "three GPUs of four", "nvidia-smi-xml", "<attached_gpus>4<", "<attached_gpus>5<", "0", "", "pass", NULL, NULL, NULL, NULL },
	{ "GPU lost", "nvidia-smi-xml", "<serial>1650017<", "<serial>GPU is lost<", "0", "", "fail", "gpu.lost", "a-02", "GPU: a-02", NULL },
	{ "no devices", "nvidia-smi-xml", NULL, "No devices were found\n", "6", "", "fail", "gpu.driver", "a-02", "GPU driver: a-02", NULL },
	{ "library mismatch", "nvidia-smi-xml", NULL, "", "18", "Failed to initialize NVML: Driver/library version mismatch\n", "fail", "gpu.driver", "a-02", "GPU driver", NULL },
	{ "row remap failed", "nvidia-smi-xml", "remapped_row_failure>No<", "remapped_row_failure>Yes<", "0", "", "fail", "gpu.ecc.remap", "a-02", "GPU: a-02", "the GPU has to be replaced" },
	{ "uncorrectable DRAM", "nvidia-smi-xml", "<dram_uncorrectable>0<", "<dram_uncorrectable>3<", "0", "", "fail", "gpu.ecc.dram", "a-02", "GPU: a-02", "reset the GPU" },
	{ "PCIe x8", "nvidia-smi-xml", "current_link_width>16x<", "current_link_width>8x<", "0", "", "fail", "gpu.pcie", "a-02", "GPU: a-02", NULL },
	{ "hardware slowdown", "nvidia-smi-xml", "thermal_slowdown>Not Active<", "thermal_slowdown>Active<", "0", "", "warn", "gpu.throttle.thermal", "a-02", NULL, NULL },
	{ "wants a reboot", "nvidia-smi-xml", "recovery_action>None<", "recovery_action>Node Reboot Required<", "0", "", "fail", "gpu.recovery", "a-02", "GPU: a-02", "reboot" },
	{ "another driver", "nvidia-smi-xml", "580.88.01", "580.77.02", "0", "", "warn", "gpu.driver.same", "a-02", NULL, NULL },
	{ "another kind of GPU", "nvidia-smi-xml", "31C210DE", "234110DE", "0", "", "fail", "gpu.kind", "a-02", NULL, NULL },
	/* NVLinks */
	{ "link down", "nvlink-status", "Link 7: 53.125 GB/s", "Link 7: <inactive>", "0", "", "fail", "gpu.nvlink.count", "a-02", "NVLink: a-02", "reset the GPU" },
	{ "link at half speed", "nvlink-status", "Link 7: 53.125 GB/s", "Link 7: 26.562 GB/s", "0", "", "fail", "gpu.nvlink.speed", "a-02", "NVLink: a-02", NULL },
	{ "recovery failed", "nvlink-errors", "recovery failed events: 0", "recovery failed events: 2", "0", "", "fail", "gpu.nvlink.errors", "a-02", "NVLink: a-02", NULL },
	{ "pair without NVLink", "topo", "NV18", "SYS", "0", "", "fail", "gpu.topo", "a-02", "NVLink: a-02", NULL },
	/* Kernel log */
	{ "fell off the bus", "dmesg-xid", NULL, "[ 99.1] NVRM: Xid (PCI:0018:06:00): 79, GPU has fallen off the bus.\n", "0", "", "fail", "xid", "a-02", "GPU fault: a-02 on r01-t02: Xid 79", "drain the tray and report it" },
	{ "link signal", "dmesg-xid", NULL, "[ 99.1] NVRM: Xid (PCI:0018:06:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 05 (0x004505c6 0x0)\n", "0", "", "fail", "xid", "a-02", "link signal", NULL },
	{ "memory onlining", "dmesg-xid", NULL, "[ 9.1] NVRM: GPU memory zone movable auto onlining failed!\n", "0", "", "fail", "kernel.memory", "a-02", "GPU driver: a-02", "memhp_default_state=online_movable" },
	{ "log not permitted", "dmesg-xid", NULL, "", "1", "dmesg: read kernel buffer failed: Operation not permitted\n", "unknown", "xid", "a-02", NULL, NULL },
	{ "HCA lost its health", "dmesg-xid", NULL, "[ 9.1] mlx5_core 0000:03:00.0: device's health compromised - reached miss count\n", "0", "", "fail", "ib.hca.health", "a-02", "InfiniBand port: a-02", "drain the tray and report it" },
	{ "link came up at boot", "dmesg-xid", NULL, "[   31.2] mlx5_core 0000:03:00.0 ibp3s0: Link down\n", "0", "", "pass", NULL, NULL, NULL, NULL },
	{ "link flapped", "dmesg-xid", NULL, "[ 7001.3] mlx5_core 0000:03:00.0 ibp3s0: Link down\n", "0", "", "warn", "ib.flap", "a-02", NULL, NULL },
	/* IMEX */
	{ "other node list", "imex-config", "10.77.0.1\n10.77.0.2\n", "10.77.0.2\n10.77.0.1\n", "0", "", "fail", "imex.list.same", "a-02", "IMEX node list: a-02", "write the same ordered list to every VM" },
	{ "node list that is none", "imex-config", "10.77.0.1\n10.77.0.2\n", "10.77.0.1 10.77.0.2\n", "0", "", "unknown", "imex.list.same", "a-02", NULL, NULL },
	{ "node list differs as seen by IMEX", "imex-nodes", "\"CONNECTED\"", "\"NODE_MAP_MISMATCH\"", "0", "", "fail", "imex.list", "a-02", "IMEX node list", NULL },
	{ "IMEX version", "imex-nodes", "\"version\": \"580.88.01\"", "\"version\": \"575.10.01\"", "0", "", "fail", "imex.driver", "a-02", "IMEX version: a-02", NULL },
	{ "IMEX node down", "imex-nodes", "{\"status\": \"READY\", \"host\": \"10.77.0.3\"", "{\"status\": \"UNAVAILABLE\", \"host\": \"10.77.0.3\"", "0", "", "fail", "imex.node", "a-02", "a-03 on r01-t03 is UNAVAILABLE", NULL },
	{ "IMEX not configured", "imex-nodes", NULL, "", "255", "Failed to read node configuration file\n", "fail", "imex.configured", "a-02", "IMEX node list: a-02", "write the node list of the cluster to the VM" },
	{ "IMEX failed", "services", "Id=nvidia-imex.service\nLoadState=loaded\nActiveState=active", "Id=nvidia-imex.service\nLoadState=loaded\nActiveState=failed", "0", "", "fail", "svc.imex", "a-02", "IMEX service: a-02", NULL },
	{ "no channel device", "services", "channel0\nLoadState=loaded\nActiveState=active", "channel0\nLoadState=not-found\nActiveState=inactive", "0", "", "fail", "imex.channel", "a-02", "IMEX channel device: a-02", "NVreg_CreateImexChannel0=1" },
	{ "service still starting", "services", "Id=nvidia-persistenced.service\nLoadState=loaded\nActiveState=active", "Id=nvidia-persistenced.service\nLoadState=loaded\nActiveState=activating", "0", "", "unknown", "svc.persistenced", "a-02", NULL, NULL },
	/* InfiniBand */
	{ "port down", "ibstat", "State: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 800\n\t\tBase lid: 202", "State: Down\n\t\tPhysical state: Polling\n\t\tRate: 10\n\t\tBase lid: 65535", "0", "", "fail", "ib.phys", "a-02", "InfiniBand port: a-02", "cable r01-t02 rail 2 to leaf-02 port 6" },
	{ "no subnet manager", "ibstat", "State: Active", "State: Initializing", "0", "", "fail", "ib.state", "a-02", "InfiniBand port: a-02", NULL },
	{ "port of another tray", "ibstat", "0x5c25730300aa0002", "0x5c25730300aa1002", "0", "", "fail", "ib.rail", "a-02", "InfiniBand port: a-02", NULL },
	{ "port of a tray whose number ends alike", "ibstat", "0x5c25730300aa0002", "0x6c25730300aa0002", "0", "", "fail", "ib.rail", "a-02", "InfiniBand port: a-02", NULL },
	{ "what one tool lost the other tells", "ibstat", "\t\tState: Active\n", "", "0", "", "pass", NULL, NULL, NULL, NULL },
	{ "half rate", "ibstat", "Rate: 800", "Rate: 400", "0", "", "fail", "ib.rate", "a-02", "InfiniBand port: a-02", "cable r01-t02 rail 0 to leaf-00 port 6" },
	{ "no devices", "ibstat", NULL, "", "0", "", "fail", "ib.ports", "a-02", "InfiniBand port: a-02", NULL },
	{ "other firmware", "ibstat", "40.46.1006", "40.40.0001", "0", "", "warn", "ib.fw", "a-02", NULL, NULL },
	{ "not joined", "ib-pkeys", "0:0x8055", "0:0x0000", "0", "", "fail", "ib.pkey", "a-02", "InfiniBand partition: a-02 on r01-t02", "drift --fix gives the ports their key back" },
	{ "limited member", "ib-pkeys", "0:0x8055", "0:0x0055", "0", "", "fail", "ib.pkey", "a-02", "InfiniBand partition: a-02", NULL },
	{ "key of another tenant", "ib-pkeys", "2:0x0000", "2:0x8066", "0", "", "fail", "ib.pkey.foreign", "a-02", "InfiniBand partition: a-02", "isolation fault" },
	{ "full member of the default", "ib-pkeys", "1:0x7fff", "1:0xffff", "0", "", "fail", "ib.pkey.default", "a-02", "InfiniBand partition: a-02", NULL },
	{ "symbol errors grow", "ib-counters", "SymbolErrorCounter:..............7", "SymbolErrorCounter:..............9000", "0", "", "pass", NULL, NULL, NULL, NULL },
	{ "one sample", "ib-counters", NULL, "# Port extended counters: Lid 9 port 1 (CapMask: 0x5A00)\nSymbolErrorCounter:..............70\nLinkErrorRecoveryCounter:........0\n"
	  "LinkDownedCounter:...............3\nPortRcvErrors:...................0\nPortXmitDiscards:................0\nLocalLinkIntegrityErrors:........0\n"
	  "ExcessiveBufferOverrunErrors:....0\n", "0", "", "pass", NULL, NULL, NULL, NULL },
	{ "stopped before the second sample", "ib-counters", NULL, "# Port extended counters: Lid 9 port 1\nLinkDownedCounter:...............3\n", "timeout", "", "unknown", "ib.counters.down", "a-02", NULL, NULL },
	{ "one sample of a part", "ib-counters", NULL, "# Port extended counters: Lid 9 port 1 (CapMask: 0x5A00)\nLinkDownedCounter:...............3\n", "0", "", "pass", NULL, NULL, NULL, NULL },
	{ "a port was read only once", "ib-counters", "# Port extended counters: Lid 203 port 1", "# gone", "0", "", "unknown", "ib.counters.down", "a-02", NULL, NULL },
	{ "a port without an answer", "mlxlink", "\"output\": {", "\"outpux\": {", "0", "", "unknown", "ib.link.state", "a-02", NULL, NULL },
	{ "a drive without an answer", "storage", "critical_warning", "critical_warming", "0", "", "unknown", "host.nvme", "a-02", NULL, NULL },
	{ "link goes down", "ib-counters", NULL, "# Port extended counters: Lid 9 port 1\nLinkDownedCounter:...............3\n# Port extended counters: Lid 9 port 1\nLinkDownedCounter:...............4\n", "0", "", "fail", "ib.counters.down", "a-02", "InfiniBand port: a-02", NULL },
	{ "counter is full", "ib-counters", NULL, "# Port counters: Lid 9 port 1\nLinkDownedCounter:...............255\n# Port counters: Lid 9 port 1\nLinkDownedCounter:...............255\n", "0", "", "unknown", "ib.counters.down", "a-02", NULL, NULL },
	{ "cable unplugged", "mlxlink", "\"Status Opcode\": \"0\"", "\"Status Opcode\": \"1024\"", "0", "", "fail", "ib.link.opcode", "a-02", "InfiniBand port: a-02", "cable r01-t02 rail 0 to leaf-00 port 6" },
	{ "bit errors", "mlxlink", "\"Symbol BER\": \"15E-255\"", "\"Symbol BER\": \"4E-8\"", "0", "", "fail", "ib.ber", "a-02", "InfiniBand port: a-02", "cable r01-t02 rail 0 to leaf-00 port 6" },
	{ "some bit errors", "mlxlink", "\"Symbol BER\": \"15E-255\"", "\"Symbol BER\": \"3E-14\"", "0", "", "warn", "ib.ber", "a-02", NULL, NULL },
	/* Host */
	{ "CPUs missing", "lscpu", "128", "96", "0", "", "fail", "host.cpu.vm", "a-02", "host: a-02", NULL },
	{ "memory missing", "numactl", "441002", "221002", "0", "", "fail", "host.mem.vm", "a-02", "host: a-02", NULL },
	{ "clock not synchronised", "chrony", "Normal", "Not synchronised", "0", "", "warn", "host.time", "a-02", NULL, NULL },
	{ "drive near its end", "storage", "critical_warning\t\t\t: 0", "critical_warning\t\t\t: 0x1", "0", "", "fail", "host.nvme", "a-02", "host: a-02", "replace the drive" },
	{ "leak", "leak", "\"DetectorState\": \"OK\"", "\"DetectorState\": \"Critical\"", "0", "", "fail", "env.leak", "a-02", "liquid cooling: a-02", "power the tray off" },
	{ "no power reading", "power", "1710.5", "null", "0", "", "unknown", "env.power", "a-02", NULL, NULL },
	/* Under load */
	{ "diag found a fault", "dcgm-diag", "\"entity_id\": 2, \"status\": \"Pass\"", "\"entity_id\": 2, \"status\": \"Fail\"", "226", "", "fail", "act.diag", "a-02", "GPU: a-02", NULL },
	{ "diag could not look", "dcgm-diag", NULL, "Error: unable to establish a connection to the specified host: localhost\n", "255", "", "unknown", "act.diag", "a-02", NULL, NULL },
	{ "slow all-reduce", "nccl-allreduce", "683.55", "341.78", "0", "", "fail", "act.nccl.busbw", "a-02", "NVLink: a-02", NULL },
	{ "wrong data", "nccl-allreduce", "683.55 0 37700.2", "683.55 64 37700.2", "1", "", "fail", "act.nccl.wrong", "a-02", "GPU: a-02", NULL },
	{ "MNNVL does not work", "nccl-allreduce", NULL, "a-02: NCCL WARN MNNVL (cliqueSize 4) is available but not working on this system\n", "3", "", "fail", "act.nccl.run", "a-02", "IMEX channel device: a-02", NULL },
	{ "slow copies", "nvbandwidth", "209.80", "101.80", "0", "", "fail", "act.nvbw.h2d", "a-02", "GPU: a-02", NULL },
	{ "system not ready", "nvbandwidth", NULL, "", "1", "CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized\n", "fail", "act.nvbw.run", "a-02", "NVLink fabric registration: a-02", NULL },
	{ "slow rail", "ib-write-bw", "752.20", "187.10", "0", "", "fail", "act.ib", "a-02", "InfiniBand port: a-02", "cable r01-t02 rail 2 to leaf-02 port 6" },
	{ "slow GPU", "gemm", "1842210.5", "1702210.5", "0", "", "fail", "act.gemm", "a-02", "GPU: a-02", NULL },
	{ "slightly slow GPU", "gemm", "1842210.5", "1762210.5", "0", "", "warn", "act.gemm", "a-02", NULL, NULL },
	{ "slow drive", "fio", "6902000000", "3902000000", "0", "", "warn", "act.fio", "a-02", NULL, NULL },
	{ "drive with an error", "fio", "\"nvme2n1\", \"error\": 0", "\"nvme2n1\", \"error\": 5", "1", "", "fail", "act.fio.run", "a-02", "host: a-02", NULL },
	/* What the fields of the two tables above leave */
	{ "row remap pending", "nvidia-smi-xml", "remapped_row_pending>No<", "remapped_row_pending>Yes<", "0", "", "fail", "gpu.ecc.remap.pending", "a-02", "GPU: a-02", "reset the GPU when it is free" },
	{ "power brake", "nvidia-smi-xml", "power_brake_slowdown>Not Active<", "power_brake_slowdown>Active<", "0", "", "warn", "gpu.throttle.brake", "a-02", NULL, NULL },
	{ "wants a reset", "nvidia-smi-xml", "recovery_action>None<", "recovery_action>GPU Reset Required<", "0", "", "fail", "gpu.recovery", "a-02", "GPU: a-02", "GPU Reset Required" },
	{ "fabric health limited", "nvidia-smi-xml", "<summary>Healthy<", "<summary>Limited Capacity<", "0", "", "fail", "gpu.fabric.health", "a-02", "NVLink fabric registration: a-02", NULL },
	{ "insufficient resources", "nvidia-smi-xml", "<status>Success<", "<status>Insufficient Resources<", "0", "", "fail", "gpu.fabric.status", "a-02", "NVLink fabric registration: a-02", "no partition" },
	{ "a GPU is missing", "nvidia-smi-xml", "<gpu id=\"00000019:06:00.0\">", "<was id=\"00000019:06:00.0\">", "0", "", "fail", "gpu.count", "a-02", "GPU: a-02", "a missing GPU needs the tray drained and reported" },
	{ "ECC of two bits", "dmesg-xid", NULL, "[ 99.1] NVRM: Xid (PCI:0009:06:00): 48, pid=7, name=x, DBE\n", "0", "", "fail", "xid", "a-02", "GPU fault: a-02 on r01-t02: Xid 48 on 0009:06:00", "drain and reset the GPU" },
	{ "row was remapped", "dmesg-xid", NULL, "[ 99.1] NVRM: Xid (PCI:0009:06:00): 63, Row Remapper: New row marked for remapping\n", "0", "", "warn", "xid.warn", "a-02", NULL, NULL },
	{ "row could not be remapped", "dmesg-xid", NULL, "[ 99.1] NVRM: Xid (PCI:0009:06:00): 64, Row Remapper: Remapping Failed\n", "0", "", "fail", "xid", "a-02", "Xid 64", "reset the GPU" },
	{ "error of an application", "dmesg-xid", NULL, "[ 99.1] NVRM: Xid (PCI:0009:06:00): 31, pid=7, name=x, MMU Fault\n", "0", "", "pass", NULL, NULL, NULL, NULL },
	{ "firmware does not answer", "dmesg-xid", NULL, "[ 99.1] NVRM: Xid (PCI:0009:06:00): 119, pid=7, name=x, Timeout\n", "0", "", "fail", "xid", "a-02", "Xid 119", "reset the GPU" },
	{ "code that nobody knows", "dmesg-xid", NULL, "[ 99.1] NVRM: Xid (PCI:0009:06:00): 999, something\n", "0", "", "warn", "xid.warn", "a-02", NULL, NULL },
	{ "wants a reboot as the log says", "dmesg-xid", NULL, "[ 99.1] NVRM: Xid (PCI:0009:06:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)\n", "0", "", "fail", "xid.action", "a-02", "GPU: a-02", "2 node reboot" },
	{ "wanted a reset and got it", "dmesg-xid", NULL, "[ 99.1] NVRM: Xid (PCI:0009:06:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)\n"
	  "[ 150.1] NVRM: Xid (PCI:0009:06:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)\n", "0", "", "pass", NULL, NULL, NULL, NULL },
	{ "link that other GPUs lost", "dmesg-xid", NULL, "[ 99.1] NVRM: Xid (PCI:0018:06:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 05 (0x021425c6 0x0)\n", "0", "", "fail", "xid", "a-02", "look at the peer device", "reset the GPU" },
	{ "HCA with half of its lanes", "dmesg-xid", NULL, "[ 18.4] mlx5_core 0000:03:00.0: 252.048 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link at 0000:02:00.0 "
	  "(capable of 1008.092 Gb/s with 64.0 GT/s PCIe x16 link)\n", "0", "", "fail", "ib.hca.pcie", "a-02", "InfiniBand port: a-02", "reseat or report the tray" },
	{ "congestion", "ib-counters", "PortXmitWait:....................0\n# Port extended counters: Lid 201", "PortXmitWait:....................88123456\n# Port extended counters: Lid 201", "0", "", "pass", NULL, NULL, NULL, NULL },
	{ "clock is off", "chrony", "0.000021400", "0.012021400", "0", "", "warn", "host.time.offset", "a-02", NULL, NULL },
	{ "clock follows itself", "chrony", "Stratum         : 4", "Stratum         : 10", "0", "", "warn", "host.time.stratum", "a-02", NULL, NULL },
	{ "detector that cannot tell", "leak", "\"DetectorState\": \"OK\"", "\"DetectorState\": \"Unavailable\"", "0", "", "unknown", "env.leak", "a-02", NULL, NULL },
	{ "GPU draws next to nothing", "nvidia-smi-xml", "<average_power_draw>", "<average_power_draw>64.9 W</average_power_draw><old>", "0", "", "warn", "env.gpu-power", "a-02", NULL, NULL },
	/* Probes that did not work */
	{ "timed out", "ibstat", NULL, "", "timeout", "", "unknown", "ib.phys", "a-02", NULL, NULL },
	{ "one of two tools timed out", "ibv-devinfo", NULL, "", "timeout", "", "unknown", "probes", "a-02", NULL, NULL },
	{ "one of two tools is missing", "ibv-devinfo", NULL, "", "127", "sh: 1: ibv_devinfo: not found\n", "unknown", "probes", "a-02", NULL, NULL },
	{ "tool is missing", "mlxlink", NULL, "", "127", "sh: 1: mlxlink: not found\n", "unknown", "ib.link.state", "a-02", NULL, NULL },
	{ "killed", "gemm", NULL, "Device 0 NVIDIA GB300\n", "signal:9", "", "unknown", "act.gemm", "a-02", NULL, NULL },
	{ "timed out after a full answer", "chrony", "Normal", "Normal", "timeout", "", "unknown", "host.time", "a-02", NULL, NULL },
};

/* The answers of a healthy VM. */
struct answers {
	const char **names, **texts;
	size_t n;
};

static struct answers load_answers(struct rk_arena *arena)
{
	size_t n;
	const struct rk_collector *all = rk_collectors(&n);
	struct answers a = { rk_arena_array(arena, n, sizeof(char *)), rk_arena_array(arena, n, sizeof(char *)), 0 };

	for (size_t i = 0; i < n; i++) {
		char path[256], *text = NULL;
		size_t len;
		snprintf(path, sizeof(path), HEALTHY "/%s.stdout", all[i].name);
		if (rk_file_read(path, 1 << 20, &text, &len, NULL))
			continue;
		a.names[a.n] = all[i].name;
		a.texts[a.n++] = rk_arena_strndup(arena, text, len);
		free(text);
	}
	assert_true(a.n >= 25);
	return a;
}

/* The first occurrence replaced. */
static const char *replaced(struct rk_arena *arena, const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);

	if (!at)
		fail_msg("\"%s\" is not in the answer", from);
	return rk_arena_printf(arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static void make_targets(struct rk_arena *arena, const struct answers *a, struct rk_target *targets)
{
	for (int i = 0; i < VMS; i++) {
		struct rk_target *t = &targets[i];
		const char *rack = i < PER_RACK ? "r01" : "r02";
		*t = (struct rk_target){ .name = rk_arena_printf(arena, "a-%02d", i + 1), .kind = "vm", .rack = rack, .cluster = "a",
					 .tray = rk_arena_printf(arena, "%s-t%02d", rack, i % PER_RACK + 1),
					 .evidence = rk_arena_array(arena, a->n, sizeof(struct rk_evidence)), .n_evidence = a->n,
					 .expect = { .nvlink_partition = 11, .cluster_uuid = UUID, .pkeys = { 0x0055 }, .n_pkeys = 1, .gpus = 4, .rails = 4,
						     .port_guids = { 0x5c25730300aa0000, 0x5c25730300aa0001, 0x5c25730300aa0002, 0x5c25730300aa0003 }, .n_port_guids = 4,
						     .leaves = { "leaf-00", "leaf-01", "leaf-02", "leaf-03" }, .leaf_ports = { i + 5, i + 5, i + 5, i + 5 } } };
		for (size_t k = 0; k < a->n; k++)
			t->evidence[k] = (struct rk_evidence){ a->names[k], a->texts[k], strlen(a->texts[k]), "", 0, "0" };
	}
}

static struct rk_evidence *answer_of(struct rk_target *t, const char *collector)
{
	for (size_t i = 0; i < t->n_evidence; i++) {
		if (strcmp(t->evidence[i].collector, collector) == 0)
			return &t->evidence[i];
	}
	fail_msg("no answer of %s", collector);
	return NULL;
}

static void replay(struct rk_arena *arena, const struct rk_target *targets, const char *level, struct rk_report *report)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_hprofile *profile RK_CLEANUP(rk_cleanup_hprofile) = NULL;
	int rc = rk_hprofile_load("gb300-acceptance", &profile, &err);

	if (!rc)
		rc = rk_judge(profile, level, targets, VMS, arena, report, &err);
	if (rc)
		fail_msg("%s", err.message);
}

static const struct rk_check *find(const struct rk_report *r, const char *id, const char *verdict)
{
	for (size_t i = 0; i < r->n_checks; i++) {
		if (strcmp(r->checks[i].id, id) == 0 && strcmp(r->checks[i].verdict, verdict) == 0)
			return &r->checks[i];
	}
	return NULL;
}

/* Nobody but the one VM is blamed. */
static void only_the_bad_one(const char *what, const struct rk_report *r)
{
	for (size_t i = 0; i < r->n_checks; i++) {
		const struct rk_check *c = &r->checks[i];
		bool well = strcmp(c->verdict, "pass") == 0 || strcmp(c->verdict, "skipped") == 0;
		if (!well && strcmp(c->folded, "a-02") != 0)
			fail_msg("%s: %s says %s of %s", what, c->id, c->verdict, c->folded);
	}
}

static void check_case(const struct answers *a, size_t i)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_target targets[VMS];
	struct rk_report r;

	make_targets(arena, a, targets);
	struct rk_evidence *e = answer_of(&targets[BAD], cases[i].collector);
	e->out = cases[i].from ? replaced(arena, e->out, cases[i].from, cases[i].to) : cases[i].to;
	e->out_len = strlen(e->out);
	e->err = cases[i].err;
	e->err_len = strlen(e->err);
	e->status = cases[i].status;
	replay(arena, targets, "deep", &r);
	if (strcmp(r.verdict, cases[i].verdict) != 0)
		fail_msg("%s: %s, expected %s (first: %s %s)", cases[i].what, r.verdict, cases[i].verdict, r.checks[0].id, r.checks[0].value);
	const struct rk_check *c = cases[i].check ? find(&r, cases[i].check, cases[i].verdict) : NULL;
	if (cases[i].check && (!c || strcmp(c->folded, cases[i].folded) != 0))
		fail_msg("%s: %s is not %s for %s alone", cases[i].what, cases[i].check, cases[i].verdict, cases[i].folded);
	only_the_bad_one(cases[i].what, &r);
	if (cases[i].cause ? !r.n_root_causes || !strstr(r.root_causes[0], cases[i].cause) : r.n_root_causes != 0)
		fail_msg("%s: root cause %s", cases[i].what, r.n_root_causes ? r.root_causes[0] : "missing");
	if (r.n_root_causes > 1)
		fail_msg("%s: also blamed: %s", cases[i].what, r.root_causes[1]);
	if (cases[i].action && !strstr(r.root_causes[0], cases[i].action))
		fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].what, r.root_causes[0], cases[i].action);
}

static void each_fault_is_found_where_it_is_and_nowhere_else(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct answers a = load_answers(arena);

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++)
		check_case(&a, i);
}

static const char *crlf(struct rk_arena *arena, const char *text)
{
	struct rk_str s RK_CLEANUP_STR = RK_STR_INIT;

	for (; *text; text++)
		rk_str_addf(&s, *text == '\n' ? "\r%c" : "%c", *text);
	return rk_arena_strdup(arena, rk_str_text(&s));
}

static const char *banner(struct rk_arena *arena, const char *text)
{
	return rk_arena_printf(arena, "*** Authorised use only {maintenance: none} ***\nState: ACTIVE window [4]\n\n%s", text);
}

static const char *coloured(struct rk_arena *arena, const char *text)
{
	return rk_arena_printf(arena, "\033[32m\033[0m%s\033[0m", text);
}

static const char *merged(struct rk_arena *arena, const char *text)
{
	return rk_arena_printf(arena, "bash: warning: setlocale: LC_ALL: cannot change locale (de_DE.UTF-8)\n%sWarning: something harmless\xff\n", text);
}

static void noise_around_an_answer_changes_nothing(void **state)
{
	static const struct {
		const char *what;
		const char *(*fn)(struct rk_arena *arena, const char *text);
	} noises[] = { { "crlf", crlf }, { "banner", banner }, { "colour", coloured }, { "merged stderr", merged } };
	RK_CLEANUP_ARENA struct rk_arena *all = rk_arena_new();
	struct answers a = load_answers(all);

	(void)state;
	for (size_t n = 0; n < RK_ARRAY_SIZE(noises); n++) {
		for (size_t c = 0; c < a.n; c++) {
			RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
			struct rk_target targets[VMS];
			struct rk_report r;
			/* Words in a list of nodes leave open which nodes are meant. */
			bool open = strcmp(a.names[c], "imex-config") == 0 && noises[n].fn != crlf && noises[n].fn != coloured;
			make_targets(arena, &a, targets);
			struct rk_evidence *e = answer_of(&targets[BAD], a.names[c]);
			e->out = noises[n].fn(arena, e->out);
			e->out_len = strlen(e->out);
			replay(arena, targets, "deep", &r);
			if (strcmp(r.verdict, open ? "unknown" : "pass") != 0)
				fail_msg("%s with %s: %s (%s: %s)", a.names[c], noises[n].what, r.verdict, r.checks[0].id, r.checks[0].value);
		}
	}
}

/* Checks of how many there are, of lists that look whole wherever they end. */
static bool counts_a_list(const char *check)
{
	static const char *const checks[] = { "gpu.nvlink.gpus", "ib.ports", "ib.pkey.ports", "host.nvme.count" };

	for (size_t i = 0; i < RK_ARRAY_SIZE(checks); i++) {
		if (strcmp(checks[i], check) == 0)
			return true;
	}
	return false;
}

/* Cut anywhere, an answer may say less, but never something else. An own count is all that can be wrong, and only when the tool is said to have ended well. */
static void a_cut_answer_is_never_a_fault(void **state)
{
	static const char *const statuses[] = { "signal:15", "timeout", "0" };
	RK_CLEANUP_ARENA struct rk_arena *all = rk_arena_new();
	struct answers a = load_answers(all);
	struct rk_hprofile *profile RK_CLEANUP(rk_cleanup_hprofile) = NULL;

	(void)state;
	assert_int_equal(rk_hprofile_load("gb300-acceptance", &profile, NULL), 0);
	for (size_t c = 0; c < a.n; c++) {
		size_t len = strlen(a.texts[c]);
		for (size_t n = 0; n < len * RK_ARRAY_SIZE(statuses); n += 1 + len / 37) {
			RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
			struct rk_target targets[VMS];
			struct rk_report r;
			make_targets(arena, &a, targets);
			struct rk_evidence *e = answer_of(&targets[BAD], a.names[c]);
			e->out_len = n % len;
			e->status = statuses[n / len];
			assert_int_equal(rk_judge(profile, "deep", &targets[BAD], 1, arena, &r, NULL), 0);
			if (strcmp(r.verdict, "fail") == 0 && !(counts_a_list(r.checks[0].id) && strcmp(e->status, "0") == 0))
				fail_msg("%s cut at %zu of %zu, status %s: %s says %s", a.names[c], e->out_len, len, e->status, r.checks[0].id, r.checks[0].value);
		}
	}
}

/* One VM out of a partition takes the IMEX domain down for all: the others are not to blame. */
static void what_follows_from_a_fault_is_no_root_cause(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct answers a = load_answers(arena);
	struct rk_target targets[VMS];
	struct rk_report r;

	(void)state;
	make_targets(arena, &a, targets);
	struct rk_evidence *e = answer_of(&targets[BAD], "nvidia-smi-xml");
	e->out = replaced(arena, e->out, "<state>Completed<", "<state>In Progress<");
	e->out_len = strlen(e->out);
	e = answer_of(&targets[BAD], "nvlink-status");
	e->out = replaced(arena, e->out, "53.125 GB/s", "<inactive>");
	e->out_len = strlen(e->out);
	for (int i = 0; i < PER_RACK; i++) {
		e = answer_of(&targets[i], "imex-nodes");
		e->out = replaced(arena, e->out, "\"status\": \"UP\"", "\"status\": \"DEGRADED\"");
		e->out = replaced(arena, e->out, "{\"status\": \"READY\", \"host\": \"10.77.0.2\"", "{\"status\": \"UNAVAILABLE\", \"host\": \"10.77.0.2\"");
		e->out_len = strlen(e->out);
	}
	replay(arena, targets, "deep", &r);
	assert_string_equal(r.verdict, "fail");
	assert_string_equal(find(&r, "imex.domain", "fail")->folded, "a-[01-04]");
	assert_string_equal(find(&r, "gpu.nvlink.count", "fail")->folded, "a-02");
	assert_int_equal(r.n_root_causes, 1);
	assert_non_null(strstr(r.root_causes[0], "registration: a-02 on r01-t02"));
}

/* A free tray is in nobody's partition: no key is as it should be, and one is a leak. */
static void a_tray_without_a_tenant_has_no_tenant_key(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct answers a = load_answers(arena);
	struct rk_target targets[VMS];
	struct rk_report r;

	(void)state;
	make_targets(arena, &a, targets);
	for (int i = 0; i < VMS; i++) {
		targets[i].expect.n_pkeys = 0;
		targets[i].expect.no_pkeys = true;
		for (size_t k = 0; i != BAD && k < PER_RACK; k++) {
			struct rk_evidence *e = answer_of(&targets[i], "ib-pkeys");
			e->out = replaced(arena, e->out, "0:0x8055", "0:0x0000");
			e->out_len = strlen(e->out);
		}
	}
	replay(arena, targets, "quick", &r);
	assert_null(find(&r, "ib.pkey", "fail"));
	assert_string_equal(find(&r, "ib.pkey.foreign", "fail")->folded, "a-02");
	assert_string_equal(find(&r, "ib.pkey.foreign", "pass")->folded, "a-[01,03-08]");
}

/* Both forms of a report are one answer, and what one of them lost the other still tells. */
static void two_tools_that_tell_the_same_are_one_answer(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct answers a = load_answers(arena);
	struct rk_target targets[VMS];
	struct rk_report r;

	(void)state;
	make_targets(arena, &a, targets);
	struct rk_evidence *e = answer_of(&targets[BAD], "ibv-devinfo");
	e->out = replaced(arena, e->out, "\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n", "");
	e->out_len = strlen(e->out);
	replay(arena, targets, "standard", &r);
	assert_string_equal(r.verdict, "pass");
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static void put_file(const char *path, const char *text)
{
	assert_int_equal(rk_file_write(path, text, strlen(text), 0600, NULL), 0);
}

static void a_folder_tells_what_was_put_into_it(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct answers a = load_answers(arena);
	const char *tmp = getenv("TMPDIR");
	char *dir = rk_arena_printf(arena, "%s/racksh-replay.XXXXXX", tmp ? tmp : P_tmpdir);
	struct rk_target targets[VMS], *loaded = NULL;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_report r;
	int64_t kept_ms = 0, before_ms = rk_clock_unix_ms(NULL) / 1000 * 1000;
	size_t n = 0;

	(void)state;
	make_targets(arena, &a, targets);
	targets[BAD].address = "10.77.0.2";
	answer_of(&targets[BAD], "gemm")->status = "signal:9";
	assert_non_null(mkdtemp(dir));
	int rc = rk_evidence_save(dir, targets, VMS, &err);
	if (!rc)
		rc = rk_evidence_load(dir, arena, &loaded, &n, &kept_ms, &err);
	assert_int_equal(rk_evidence_save(dir, targets, VMS, NULL), RK_CONFLICT); /* not over an older one */
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (rc)
		fail_msg("%s", err.message);
	assert_int_equal(n, VMS);
	assert_true(kept_ms >= before_ms && kept_ms <= rk_clock_unix_ms(NULL));
	assert_string_equal(loaded[BAD].address, "10.77.0.2");
	assert_string_equal(loaded[BAD].tray, "r01-t02");
	assert_int_equal(loaded[BAD].expect.pkeys[0], 0x0055);
	assert_true(loaded[BAD].expect.port_guids[3] == 0x5c25730300aa0003);
	replay(arena, loaded, "deep", &r);
	assert_string_equal(r.verdict, "unknown");
	assert_string_equal(find(&r, "act.gemm", "unknown")->folded, "a-02");
}

static void put_link(const char *path)
{
	assert_int_equal(symlink("/etc/passwd", path), 0);
}

static void put_fifo(const char *path)
{
	assert_int_equal(mkfifo(path, 0600), 0);
}

static void put_folder(const char *path)
{
	assert_int_equal(mkdir(path, 0700), 0);
}

static void put_huge(const char *path)
{
	put_file(path, "");
	assert_int_equal(truncate(path, (off_t)1 << 40), 0);
}

static void put_strangers(const char *path)
{
	for (int i = 0; i < 100; i++) {
		char *one RK_CLEANUP_FREE = rk_xasprintf("%.*s/stranger%d.status", (int)(strrchr(path, '/') - path), path, i);
		put_file(one, "0");
	}
}

/* Names, kinds and sizes of files are the sender's choice. */
static void a_folder_that_is_no_evidence_is_refused_and_left_alone(void **state)
{
	static const struct {
		void (*put)(const char *path);
		const char *says;
	} rows[] = {
		{ put_link, "\"lscpu.stdout\": it is a link" }, { put_fifo, "\"lscpu.stdout\" is not a plain file" }, { put_folder, "\"lscpu.stdout\" is not a plain file" },
		{ put_huge, "\"lscpu.stdout\" is larger than" }, { put_strangers, "files of more than 64 collectors" },
	};
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const char *tmp = getenv("TMPDIR");

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		char *dir = rk_arena_printf(arena, "%s/racksh-replay.XXXXXX", tmp ? tmp : P_tmpdir);
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_target *loaded;
		int64_t kept_ms;
		size_t n;

		assert_non_null(mkdtemp(dir));
		put_file(rk_arena_printf(arena, "%s/manifest.json", dir),
			 "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Evidence\",\"created\":\"2026-01-01T00:00:00Z\",\"targets\":{\"a-01\":{\"kind\":\"vm\"}}}");
		put_folder(rk_arena_printf(arena, "%s/a-01", dir));
		rows[i].put(rk_arena_printf(arena, "%s/a-01/lscpu.stdout", dir));
		int rc = rk_evidence_load(dir, arena, &loaded, &n, &kept_ms, &err);
		nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
		if (rc != RK_INVALID || !strstr(err.message, rows[i].says))
			fail_msg("%s: %d, %s", rows[i].says, rc, err.message);
	}
}

/* An expectation that is dropped over its form would let a fault pass. */
static void an_expectation_of_another_form_is_refused(void **state)
{
	static const char *const bad[] = {
		"{\"kind\":1}", "{\"rack\":[]}", "{\"tray\":{}}", "{\"expect\":[]}", "{\"expect\":{\"pkeys\":\"0x0055\"}}", "{\"expect\":{\"pkeys\":{\"a\":1}}}",
		"{\"expect\":{\"port_guids\":1}}", "{\"expect\":{\"cluster_uuid\":7}}", "{\"expect\":{\"pkey_limited\":\"yes\"}}", "{\"expect\":{\"leaves\":\"a/1\"}}",
	};
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const char *tmp = getenv("TMPDIR");
	char *dir = rk_arena_printf(arena, "%s/racksh-replay.XXXXXX", tmp ? tmp : P_tmpdir);
	size_t taken = 0;

	(void)state;
	assert_non_null(mkdtemp(dir));
	for (size_t i = 0; i < RK_ARRAY_SIZE(bad); i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_target *loaded;
		int64_t kept_ms;
		size_t n;

		put_file(rk_arena_printf(arena, "%s/manifest.json", dir), rk_arena_printf(arena, "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Evidence\",\"targets\":{\"a-01\":%s}}", bad[i]));
		if (rk_evidence_load(dir, arena, &loaded, &n, &kept_ms, &err) == RK_INVALID && strstr(err.message, "must be"))
			continue;
		print_message("taken: %s\n", bad[i]);
		taken++;
	}
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	assert_int_equal(taken, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_fault_is_found_where_it_is_and_nowhere_else),
		cmocka_unit_test(noise_around_an_answer_changes_nothing),
		cmocka_unit_test(a_cut_answer_is_never_a_fault),
		cmocka_unit_test(what_follows_from_a_fault_is_no_root_cause),
		cmocka_unit_test(a_folder_tells_what_was_put_into_it),
		cmocka_unit_test(a_folder_that_is_no_evidence_is_refused_and_left_alone),
		cmocka_unit_test(an_expectation_of_another_form_is_refused),
		cmocka_unit_test(a_tray_without_a_tenant_has_no_tenant_key),
		cmocka_unit_test(two_tools_that_tell_the_same_are_one_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
