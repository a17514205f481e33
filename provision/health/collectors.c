#include <string.h>

#include "provision/health/collect.h"
#include "provision/health/parse.h"

/* Fixed texts for sh; nothing from outside gets in. The sysfs table needs neither tools nor root, so it comes first; each rail else. */
#define PKEYS                                                                                             \
	"if ls /sys/class/infiniband/*/ports/1/pkeys/0 >/dev/null 2>&1; then "                              \
	"for l in /sys/class/infiniband/*/ports/1/link_layer; do d=${l%/link_layer}; "                       \
	"grep -q InfiniBand \"$l\" && for k in \"$d\"/pkeys/*; do printf '%s:%s\\n' \"$k\" \"$(cat \"$k\")\"; done; done; true; " \
	"else smp=0; for d in $(" RK_IB_DEVICES "); do echo \"# dev $d\"; smpquery -C \"$d\" -P 1 -D pkeys 0 || smp=$?; done; "          \
	"[ -n \"$(ibstat -l)\" ] && exit $smp; command -v ibstat >/dev/null || exit 127; fi"
/* Functions of the class "InfiniBand controller", with their driver and IB device. */
#define IB_DRIVER                                                                                         \
	"for d in /sys/bus/pci/devices/*; do [ -r \"$d/class\" ] && read -r c <\"$d/class\" || continue; "     \
	"case $c in 0x0207*) ;; *) continue ;; esac; drv=$(readlink \"$d/driver\"); ib=; "                      \
	"for i in \"$d\"/infiniband/*; do [ -e \"$i\" ] && ib=${i##*/}; done; "                                \
	"printf '%s driver=%s ib=%s\n' \"${d##*/}\" \"${drv##*/}\" \"$ib\"; done; true"
/* Who is at the other end of each cable, asked over that cable: the first hop of a directed route. The last half of GID 0 is the port's GUID. */
#define IB_LEAF                                                                                           \
	"command -v smpquery >/dev/null || exit 127; rc=0; for d in $(" RK_IB_DEVICES "); do "                        \
	"g=$(tr -d : </sys/class/infiniband/\"$d\"/ports/1/gids/0); printf '# dev %s 0x%s\n' \"$d\" \"${g#????????????????}\"; " \
	"smpquery -C \"$d\" -P 1 -D nodedesc 0,1 || rc=$?; smpquery -C \"$d\" -P 1 -D nodeinfo 0,1 || rc=$?; done; exit $rc"
/* Two samples: one says nothing about a cumulative counter. Each names its device, so that a port without an answer keeps its place. How long the host is up comes first: counters grow while links are trained. */
#define COUNTERS                                                                                          \
	"command -v perfquery >/dev/null || exit 127; rc=0; read -r up rest </proc/uptime && printf '# Host up for %s s\\n' \"${up%%.*}\"; for s in 1 2; do [ $s = 2 ] && sleep 2; "         \
	"for d in $(" RK_IB_DEVICES "); do echo \"# dev $d\"; perfquery -C \"$d\" -P 1 -x || rc=$?; done; done; exit $rc"
/* The documents do not name their device, so one that is not there would give its place to the next. */
#define MLXLINK                                                                                           \
	"command -v mlxlink >/dev/null || exit 127; rc=0; for d in $(" RK_IB_DEVICES "); do "                \
	"j=$(mlxlink -d \"$d\" -c -e --json) || rc=$?; case $j in *{*) ;; *) j='{\"status\":{\"code\":1,\"message\":\"no answer\"}}' ;; esac; " \
	"printf '%s\\n' \"$j\"; done; exit $rc"
/* The device file of IMEX channel 0 is told as one more unit: without it imports fail although the domain is up. */
#define SERVICES                                                                                          \
	"systemctl show -p Id -p LoadState -p ActiveState -p SubState -p UnitFileState nvidia-imex nvidia-persistenced nvidia-dcgm " \
	"nvidia-fabricmanager chrony; rc=$?; "                                                                  \
	"if [ -c /dev/nvidia-caps-imex-channels/channel0 ]; then l=loaded a=active; else l=not-found a=inactive; fi; " \
	"printf '\\nId=imex-channel0\\nLoadState=%s\\nActiveState=%s\\n' $l $a; exit $rc"
#define STORAGE                                                                                           \
	"command -v nvme >/dev/null || exit 127; rc=0; for d in /dev/nvme*n1; do [ -e \"$d\" ] && { nvme smart-log \"$d\" || rc=$?; }; " \
	"done; exit $rc"
#define FIO                                                                                               \
	"command -v fio >/dev/null || exit 127; set --; for d in /dev/nvme*n1; do [ -e \"$d\" ] && "          \
	"set -- \"$@\" --name=\"${d#/dev/}\" --filename=\"$d\"; done; [ $# -gt 0 ] || exit 127; "              \
	"fio --readonly --output-format=json --rw=read --bs=1M --iodepth=32 --ioengine=libaio --direct=1 --runtime=30 --time_based \"$@\""

static const struct rk_collector collectors[] = {
	{ "nvidia-smi-xml", "nvidia-smi -q -x", rk_parse_nvidia_smi_xml, 0 },
	{ "nvidia-smi-q", "nvidia-smi -q", rk_parse_nvidia_smi_q, 0 },
	{ "nvlink-status", "nvidia-smi nvlink -s", rk_parse_nvlink_status, 0 },
	{ "nvlink-errors", "nvidia-smi nvlink -e", rk_parse_nvlink_errors, 0 },
	{ "topo", "nvidia-smi topo -m", rk_parse_topo, 0 },
	{ "imex-nodes", "nvidia-imex-ctl -N -j -H", rk_parse_imex_nodes, 0 },
	{ "imex-nodes-text", "nvidia-imex-ctl -N", rk_parse_imex_nodes_text, 0 },
	{ "imex-config", "cat /etc/nvidia-imex/nodes_config.cfg", rk_parse_imex_config, 0 },
	{ "ibstat", "ibstat", rk_parse_ibstat, 0 },
	{ "ib-driver", IB_DRIVER, rk_parse_ib_driver, 0 },
	{ "ib-leaf", IB_LEAF, rk_parse_ib_leaf, 0 },
	{ "ibv-devinfo", "ibv_devinfo", rk_parse_ibv_devinfo, 0 },
	{ "ib-pkeys", PKEYS, rk_parse_ib_pkeys, 0 },
	{ "ib-counters", COUNTERS, rk_parse_ib_counters, 0 },
	{ "mlxlink", MLXLINK, rk_parse_mlxlink, 0 },
	{ "dmesg-xid", "dmesg", rk_parse_dmesg_xid, 0 },
	{ "dcgm-diag", "dcgmi diag -r 2 -j", rk_parse_dcgm_diag, 150 },
	{ "nccl-allreduce", "all_reduce_perf -b 1G -e 16G -f 2 -g 4 -c 1", rk_parse_nccl, 90 },
	{ "nccl-domain", NULL, rk_parse_nccl_domain, 0 }, /* these two need all VMs of one rack or two: nccl_rounds.c */
	{ "nccl-racks", NULL, rk_parse_nccl_racks, 0 },
	{ "nvbandwidth", "nvbandwidth -j -t host_to_device_memcpy_ce device_to_host_memcpy_ce device_to_device_memcpy_read_ce -i 10",
	  rk_parse_nvbandwidth, 60 },
	{ "ib-write-bw", NULL, rk_parse_ib_write_bw, 0 }, /* needs a partner: pairs.c runs it */
	{ "fio", FIO, rk_parse_fio, 35 },
	{ "gemm", "command -v ubergemm >/dev/null || exit 127; ubergemm", rk_parse_gemm, 65 },
	{ "lscpu", "lscpu", rk_parse_lscpu, 0 },
	{ "numactl", "numactl -H", rk_parse_numactl, 0 },
	{ "chrony", "chronyc tracking", rk_parse_chrony, 0 },
	{ "services", SERVICES, rk_parse_services, 0 },
	{ "storage", STORAGE, rk_parse_storage, 0 },
	{ "leak", NULL, rk_parse_leak, 0 },   /* from the BMC, not from a shell on the VM */
	{ "power", NULL, rk_parse_power, 0 },
};

const struct rk_collector *rk_collectors(size_t *ret_n)
{
	*ret_n = RK_ARRAY_SIZE(collectors);
	return collectors;
}

const struct rk_collector *rk_collector_find(const char *name)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(collectors); i++) {
		if (strcmp(collectors[i].name, name) == 0)
			return &collectors[i];
	}
	return NULL;
}
