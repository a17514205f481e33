#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/sim_guest.h"

/* What the tools of a guest print, made from what the twin holds now: an assignment that was not made cannot look right. */

#define DRIVER RK_SIM_DRIVER
#define HCA_FIRMWARE "40.47.1026"

const char *rk_sim_gpu_pci(const struct rk_sim_guest *g, int gpu)
{
	const char *pci = g->site->gpus[g->tray->first_gpu + gpu].pci;

	return pci ? pci : "0000:00:00.0";
}

static int gpu_partition(const struct rk_sim_guest *g, int i)
{
	return rk_sim_gpu_at(g->sim, g->site, g->tray->first_gpu + i, false);
}

/* A GPU that fell off the bus is not there for any tool; those behind it move up. */
static bool gpu_there(const struct rk_sim_guest *g, int i)
{
	return rk_sim_gpu_guid(g->sim, g->site, g->tray->first_gpu + i) != 0;
}

/* How the guest numbers it: those before it that are there. */
static int gpu_number(const struct rk_sim_guest *g, int i)
{
	int n = 0;

	for (int k = 0; k < i; k++)
		n += gpu_there(g, k);
	return n;
}

static int gpus_there(const struct rk_sim_guest *g)
{
	return gpu_number(g, g->tray->n_gpus);
}

static const char *serial_of(const struct rk_sim_guest *g)
{
	return g->tray->serial ? g->tray->serial : "N/A";
}

/* ---- GPUs ----------------------------------------------------------------------------------------------------------------------- */

/* Name, indent and value of the rows both forms of `nvidia-smi -q` share; %: filled in below. */
struct gpu_view {
	const struct rk_gpu *gpu;
	int index, partition;
	char uuid[64], pci[32], serial[64];
	unsigned long memory_mib;
};

static void view_gpu(const struct rk_sim_guest *g, int i, struct gpu_view *v)
{
	const struct rk_gpu *gpu = &g->site->gpus[g->tray->first_gpu + i];
	const char *pci = gpu->pci ? gpu->pci : "0000:00:00.0";

	*v = (struct gpu_view){ .gpu = gpu, .index = i, .partition = gpu_partition(g, i), .memory_mib = 284208 };
	snprintf(v->pci, sizeof(v->pci), "0000%s", pci);
	snprintf(v->serial, sizeof(v->serial), "%s", gpu->serial ? gpu->serial : serial_of(g));
	if (gpu->uuid)
		snprintf(v->uuid, sizeof(v->uuid), "%s", gpu->uuid);
	else
		snprintf(v->uuid, sizeof(v->uuid), "GPU-%08x-0000-4000-8000-%012" PRIx64, (unsigned)(gpu->fabric_guid >> 32), gpu->fabric_guid & 0xffffffffffffu);
}

static void gpu_xml(const struct rk_sim_guest *g, const struct gpu_view *v)
{
	bool in = v->partition > 0;
	const char *na = "N/A";
	char clique[16];

	snprintf(clique, sizeof(clique), "%d", v->partition);
	rk_str_addf(g->out,
		    "\t<gpu id=\"%s\">\n\t\t<product_name>NVIDIA GB300</product_name>\n\t\t<product_architecture>Blackwell</product_architecture>\n"
		    "\t\t<serial>%s</serial>\n\t\t<uuid>%s</uuid>\n\t\t<minor_number>%d</minor_number>\n\t\t<platformInfo>\n"
		    "\t\t\t<chassis_serial_number>%s</chassis_serial_number>\n\t\t\t<slot_number>%d</slot_number>\n\t\t\t<tray_index>%d</tray_index>\n"
		    "\t\t\t<host_id>1</host_id>\n\t\t\t<peer_type>Switch Connected</peer_type>\n\t\t\t<module_id>%d</module_id>\n"
		    "\t\t\t<gpu_fabric_guid>0x%016" PRIx64 "</gpu_fabric_guid>\n\t\t</platformInfo>\n\t\t<gpu_recovery_action>None</gpu_recovery_action>\n",
		    v->pci, v->serial, v->uuid, gpu_number(g, v->index), g->rack->name, g->tray->slot, g->tray->number - 1, v->gpu->module_id, v->gpu->fabric_guid);
	rk_str_addf(g->out,
		    "\t\t<pci>\n\t\t\t<pci_device_id>31C210DE</pci_device_id>\n\t\t\t<pci_bus_id>%s</pci_bus_id>\n\t\t\t<pci_gpu_link_info>\n\t\t\t\t<link_widths>\n"
		    "\t\t\t\t\t<max_link_width>16x</max_link_width>\n\t\t\t\t\t<current_link_width>16x</current_link_width>\n\t\t\t\t</link_widths>\n"
		    "\t\t\t</pci_gpu_link_info>\n\t\t</pci>\n\t\t<clocks_event_reasons>\n"
		    "\t\t\t<clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>\n"
		    "\t\t\t<clocks_event_reason_hw_thermal_slowdown>Not Active</clocks_event_reason_hw_thermal_slowdown>\n"
		    "\t\t\t<clocks_event_reason_hw_power_brake_slowdown>Not Active</clocks_event_reason_hw_power_brake_slowdown>\n"
		    "\t\t</clocks_event_reasons>\n\t\t<fb_memory_usage>\n\t\t\t<total>%lu MiB</total>\n\t\t</fb_memory_usage>\n"
		    "\t\t<ecc_mode>\n\t\t\t<current_ecc>Enabled</current_ecc>\n\t\t</ecc_mode>\n",
		    v->pci, v->memory_mib);
	rk_str_add(g->out, "\t\t<ecc_errors>\n\t\t\t<volatile>\n\t\t\t\t<sram_uncorrectable_parity>0</sram_uncorrectable_parity>\n"
			   "\t\t\t\t<sram_uncorrectable_secded>0</sram_uncorrectable_secded>\n\t\t\t\t<dram_uncorrectable>0</dram_uncorrectable>\n"
			   "\t\t\t</volatile>\n\t\t\t<aggregate>\n\t\t\t\t<sram_threshold_exceeded>No</sram_threshold_exceeded>\n\t\t\t</aggregate>\n"
			   "\t\t\t<channel_repair_pending>No</channel_repair_pending>\n\t\t\t<tpc_repair_pending>No</tpc_repair_pending>\n"
			   "\t\t\t<unrepairable_memory>No</unrepairable_memory>\n\t\t</ecc_errors>\n\t\t<remapped_rows>\n"
			   "\t\t\t<remapped_row_pending>No</remapped_row_pending>\n");
	rk_str_addf(g->out, "\t\t\t<remapped_row_failure>%s</remapped_row_failure>\n\t\t</remapped_rows>\n",
		    rk_sim_knob(g, "remap", v->index) ? "Yes" : "No");
	rk_str_add(g->out, "\t\t<temperature>\n\t\t\t<gpu_temp>37 C</gpu_temp>\n\t\t</temperature>\n"
			   "\t\t<gpu_power_readings>\n\t\t\t<average_power_draw>184.20 W</average_power_draw>\n\t\t</gpu_power_readings>\n");
	rk_str_addf(g->out,
		    "\t\t<fabric>\n\t\t\t<state>%s</state>\n\t\t\t<status>%s</status>\n\t\t\t<cliqueId>%s</cliqueId>\n\t\t\t<clusterUuid>%s</clusterUuid>\n"
		    "\t\t\t<health>\n\t\t\t\t<summary>%s</summary>\n\t\t\t\t<bandwidth>%s</bandwidth>\n"
		    "\t\t\t\t<route_recovery_in_progress>%s</route_recovery_in_progress>\n\t\t\t\t<route_unhealthy>%s</route_unhealthy>\n"
		    "\t\t\t\t<access_timeout_recovery>%s</access_timeout_recovery>\n\t\t\t\t<incorrect_configuration>%s</incorrect_configuration>\n"
		    "\t\t\t\t<partition_assigned>N/A</partition_assigned>\n\t\t\t</health>\n\t\t</fabric>\n\t</gpu>\n",
		    in ? "Completed" : "In Progress", in ? "Success" : na, in ? clique : na, in && g->rack->cluster_uuid ? g->rack->cluster_uuid : na,
		    in ? "Healthy" : na, in ? "Full" : na, in ? "False" : na, in ? "False" : na, in ? "False" : na, in ? "None" : na);
}

static void smi_xml(const struct rk_sim_guest *g)
{
	struct gpu_view v;

	rk_str_addf(g->out, "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">\n<nvidia_smi_log>\n"
			    "\t<driver_version>" DRIVER "</driver_version>\n\t<cuda_version>13.0</cuda_version>\n\t<attached_gpus>%d</attached_gpus>\n",
		    gpus_there(g));
	for (int i = 0; i < g->tray->n_gpus; i++) {
		if (!gpu_there(g, i))
			continue;
		view_gpu(g, i, &v);
		gpu_xml(g, &v);
	}
	rk_str_add(g->out, "</nvidia_smi_log>\n");
}

static void smi_row(const struct rk_sim_guest *g, int level, const char *key, const char *value)
{
	rk_str_addf(g->out, "%*s%-*s: %s\n", level * 4, "", 42 - level * 4, key, value);
}

static void smi_fabric(const struct rk_sim_guest *g, const struct gpu_view *v)
{
	static const char *const health[][2] = { { "Summary", "Healthy" }, { "Bandwidth", "Full" }, { "Route Recovery in progress", "False" },
						 { "Route Unhealthy", "False" }, { "Access Timeout Recovery", "False" },
						 { "Incorrect Configuration", "None" } };
	bool in = v->partition > 0;
	char clique[16];

	snprintf(clique, sizeof(clique), "%d", v->partition);
	rk_str_add(g->out, "    Fabric\n");
	smi_row(g, 2, "State", in ? "Completed" : "In Progress");
	smi_row(g, 2, "Status", in ? "Success" : "N/A");
	smi_row(g, 2, "CliqueId", in ? clique : "N/A");
	smi_row(g, 2, "ClusterUUID", in && g->rack->cluster_uuid ? g->rack->cluster_uuid : "N/A");
	rk_str_add(g->out, "        Health\n");
	for (size_t i = 0; i < RK_ARRAY_SIZE(health); i++)
		smi_row(g, 3, health[i][0], in ? health[i][1] : "N/A");
	smi_row(g, 3, "Partition Assigned", "N/A");
}

static void smi_text(const struct rk_sim_guest *g)
{
	struct gpu_view v;
	char number[32];

	rk_str_add(g->out, "\n==============NVSMI LOG==============\n\n");
	smi_row(g, 0, "Driver Version", DRIVER);
	snprintf(number, sizeof(number), "%d", gpus_there(g));
	rk_str_add(g->out, "\n");
	smi_row(g, 0, "Attached GPUs", number);
	for (int i = 0; i < g->tray->n_gpus; i++) {
		if (!gpu_there(g, i))
			continue;
		view_gpu(g, i, &v);
		rk_str_addf(g->out, "GPU %s\n", v.pci);
		smi_row(g, 1, "Product Name", "NVIDIA GB300");
		smi_row(g, 1, "Serial Number", v.serial);
		smi_row(g, 1, "GPU UUID", v.uuid);
		rk_str_add(g->out, "    Platform Info\n");
		snprintf(number, sizeof(number), "%d", v.gpu->module_id);
		smi_row(g, 2, "Module Id", number);
		snprintf(number, sizeof(number), "0x%016" PRIx64, v.gpu->fabric_guid);
		smi_row(g, 2, "GPU Fabric GUID", number);
		smi_row(g, 1, "GPU Recovery Action", "None");
		smi_fabric(g, &v);
		rk_str_add(g->out, "\n");
	}
}

static void gpu_heading(const struct rk_sim_guest *g, int i)
{
	struct gpu_view v;

	view_gpu(g, i, &v);
	rk_str_addf(g->out, "GPU %d: NVIDIA GB300 (UUID: %s)\n", gpu_number(g, i), v.uuid);
}

static void smi_list(const struct rk_sim_guest *g)
{
	for (int i = 0; i < g->tray->n_gpus; i++)
		if (gpu_there(g, i))
			gpu_heading(g, i);
}

enum { LINKS = 18 };

static void nvlink_status(const struct rk_sim_guest *g)
{
	for (int i = 0; i < g->tray->n_gpus; i++) {
		if (!gpu_there(g, i))
			continue;
		gpu_heading(g, i);
		for (int l = 0; l < LINKS; l++) {
			char *key RK_CLEANUP_FREE = rk_xasprintf("nvlink:%s/%d/%d", g->tray->name, i, l);
			rk_str_addf(g->out, "\t Link %d: %s\n", l, rk_sim_get(g->sim, key) ? "<inactive>" : "53.125 GB/s");
		}
	}
}

static void nvlink_errors(const struct rk_sim_guest *g)
{
	static const char *const rows[] = { "Malformed packet Errors: 0", "Buffer overrun Errors: 0", "Rx Errors: 0", "Local link integrity Errors: 0",
					    "Link recovery successful events: 0", "Link recovery failed events: 0", "Total link recovery events: 0",
					    "Effective Errors: 0", "Effective BER: 15e-255", "Symbol Errors: 0", "Symbol BER: 15e-255" };

	for (int i = 0; i < g->tray->n_gpus; i++) {
		if (!gpu_there(g, i))
			continue;
		gpu_heading(g, i);
		for (int l = 0; l < LINKS; l++)
			for (size_t r = 0; r < RK_ARRAY_SIZE(rows); r++)
				rk_str_addf(g->out, "\t Link %d: %s\n", l, rows[r]);
	}
}

static void topo(const struct rk_sim_guest *g)
{
	int n = gpus_there(g), half = g->tray->n_gpus / 2;

	for (int i = 0; i < n; i++)
		rk_str_addf(g->out, "\tGPU%d", i);
	rk_str_add(g->out, "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n");
	for (int i = 0; i < g->tray->n_gpus; i++) {
		if (!gpu_there(g, i))
			continue;
		rk_str_addf(g->out, "GPU%d", gpu_number(g, i));
		for (int k = 0; k < n; k++)
			rk_str_add(g->out, gpu_number(g, i) == k ? "\t X " : "\tNV18");
		rk_str_addf(g->out, "\t%s\t%d\t%d\n", i < half ? "0-71" : "72-143", i < half ? 0 : 1, 2 + 8 * i);
	}
}

/* ---- IMEX ----------------------------------------------------------------------------------------------------------------------- */

/* The list a guest holds: a line per address. */
static const char *imex_list(const struct rk_sim_guest *g, const char *tray)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("imex:%s", tray);
	const char *list = rk_sim_get(g->sim, key);

	return list ? list : "";
}

static const struct rk_vm *vm_at(const struct rk_site *site, const char *address, size_t len)
{
	for (size_t v = 0; v < site->n_vms; v++)
		if (site->vms[v].address && strlen(site->vms[v].address) == len && strncmp(site->vms[v].address, address, len) == 0)
			return &site->vms[v];
	return NULL;
}

/* The list that its daemon goes by: that of the file, unless it missed a change. */
static const char *imex_daemon_list(const struct rk_sim_guest *g, const char *tray)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("imex-kept:%s", tray);
	const char *kept = rk_sim_get(g->sim, key);

	return kept ? kept : imex_list(g, tray);
}

/* A line of the daemon's list. */
struct node {
	const char *address;         /* len bytes */
	int len;
	const struct rk_vm *vm;      /* NULL: no VM has this address (now) */
};

/* The nodes that this guest's daemon knows, in its order; false when that is all. */
static bool imex_node(const struct rk_sim_guest *g, size_t n, struct node *ret)
{
	const char *at = imex_daemon_list(g, g->tray->name);

	for (size_t len; *at; at += len + (at[len] == '\n')) {
		len = strcspn(at, "\n");
		if (len == 0 || n-- != 0)
			continue;
		*ret = (struct node){ at, (int)len, vm_at(g->site, at, len) };
		return true;
	}
	return false;
}

/* A node is there when its guest answers, holds the same list, and its GPUs are in one and our NVLink partition. */
static bool imex_ready(const struct rk_sim_guest *g, const struct node *node)
{
	if (!node->vm)
		return false;
	const struct rk_tray *t = &g->site->trays[node->vm->tray];
	char *up RK_CLEANUP_FREE = rk_xasprintf("up:%s", t->name), *down RK_CLEANUP_FREE = rk_xasprintf("imex-down:%s/0", t->name);

	if (rk_sim_get(g->sim, down))
		return false;
	for (int i = 0; i < t->n_gpus; i++)
		if (rk_sim_gpu_at(g->sim, g->site, t->first_gpu + i, false) != gpu_partition(g, 0))
			return false;
	return gpu_partition(g, 0) > 0 && rk_sim_get(g->sim, up) && strcmp(imex_daemon_list(g, t->name), imex_daemon_list(g, g->tray->name)) == 0;
}

static bool imex_all_ready(const struct rk_sim_guest *g)
{
	struct node node;

	for (size_t i = 0; imex_node(g, i, &node); i++)
		if (!imex_ready(g, &node))
			return false;
	return true;
}

static void imex_config(const struct rk_sim_guest *g)
{
	rk_str_add(g->out, imex_list(g, g->tray->name));
}

static void imex_json(const struct rk_sim_guest *g)
{
	struct node a, b;

	rk_str_add(g->out, "{\"nodes\": {");
	for (size_t i = 0; imex_node(g, i, &a); i++) {
		rk_str_addf(g->out, "%s\"%zu\": {\"status\": \"%s\", \"host\": \"%.*s\", \"hostName\": \"%.*s\", \"connections\": {", i ? ", " : "", i,
			    imex_ready(g, &a) ? "READY" : "UNAVAILABLE", a.len, a.address, a.vm ? (int)strlen(a.vm->name) : a.len, a.vm ? a.vm->name : a.address);
		for (size_t k = 0; imex_node(g, k, &b); k++)
			rk_str_addf(g->out, "%s\"%zu\": {\"host\": \"%.*s\", \"status\": \"%s\", \"changed\": true}", k ? ", " : "", k, b.len, b.address,
				    !imex_ready(g, &a) ? "INVALID" : imex_ready(g, &b) ? "CONNECTED" : "DISCONNECTED");
		rk_str_add(g->out, "}, \"changed\": true, \"version\": \"" DRIVER "\"}");
	}
	rk_str_addf(g->out, "}, \"timestamp\": \"11/30/2026 06:00:00.000\", \"status\": \"%s\"}\n", imex_all_ready(g) ? "UP" : "DEGRADED");
}

static void imex_text(const struct rk_sim_guest *g)
{
	struct node a, b;

	rk_str_add(g->out, "Connectivity Table Legend:\nI - Invalid\nD - Disconnected\nC - Connected - Ready for operation\n\n11/30/2026 06:00:00.000\nNodes:\n");
	for (size_t i = 0; imex_node(g, i, &a); i++)
		rk_str_addf(g->out, "Node #%-3zu - %-15.*s - %-12s- Version: " DRIVER "\n", i, a.len, a.address, imex_ready(g, &a) ? "READY" : "UNAVAILABLE");
	rk_str_add(g->out, "\n Nodes From\\To");
	for (size_t i = 0; imex_node(g, i, &a); i++)
		rk_str_addf(g->out, " %3zu", i);
	rk_str_add(g->out, "\n");
	for (size_t i = 0; imex_node(g, i, &a); i++) {
		rk_str_addf(g->out, "%8zu     ", i);
		for (size_t k = 0; imex_node(g, k, &b); k++)
			rk_str_addf(g->out, "   %s", !imex_ready(g, &a) ? "I" : imex_ready(g, &b) ? "C" : "D");
		rk_str_add(g->out, "\n");
	}
	rk_str_addf(g->out, "\nDomain State: %s\n", imex_all_ready(g) ? "UP" : "DEGRADED");
}

/* ---- InfiniBand ------------------------------------------------------------------------------------------------------------------ */

bool rk_sim_rail_up(const struct rk_sim_guest *g, int rail)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("link:%s/%d", g->tray->name, rail);

	return !rk_sim_get(g->sim, key);
}

int rk_sim_rate(const struct rk_sim_guest *g, int rail)
{
	const struct rk_hca *h = &g->site->hcas[g->tray->first_hca + rail];
	int set = rk_sim_knob(g, "rate", rail);

	int rate = h->fabric >= 0 ? g->site->fabrics[h->fabric].rate_gbps : 0;

	if (set)
		return set;
	return rate ? rate : g->site->profiles[g->rack->profile].rate_gbps;
}

int rk_sim_knob(const struct rk_sim_guest *g, const char *what, int number)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("%s:%s/%d", what, g->tray->name, number);
	const char *value = rk_sim_get(g->sim, key);

	return value ? atoi(value) : 0;
}

static void ibstat(const struct rk_sim_guest *g)
{
	for (int i = 0; i < g->tray->n_hcas; i++) {
		if (rk_sim_knob(g, "no-ib", i))
			continue;
		uint64_t guid = rk_sim_port_guid(g->sim, g->site, g->tray->first_hca + i);
		bool up = rk_sim_rail_up(g, i);
		rk_str_addf(g->out, "CA 'mlx5_%d'\n\tCA type: MT4131\n\tNumber of ports: 1\n\tFirmware version: " HCA_FIRMWARE "\n\tHardware version: 0\n"
				    "\tNode GUID: 0x%016" PRIx64 "\n\tSystem image GUID: 0x%016" PRIx64 "\n\tPort 1:\n\t\tState: %s\n\t\tPhysical state: %s\n"
				    "\t\tRate: %d\n\t\tBase lid: %d\n\t\tLMC: 0\n\t\tSM lid: 1\n\t\tCapability mask: 0xa741ec48\n\t\tPort GUID: 0x%016" PRIx64 "\n"
				    "\t\tLink layer: InfiniBand\n",
			    i, guid, guid, up ? "Active" : "Down", up ? "LinkUp" : "Polling", up ? rk_sim_rate(g, i) : 10,
			    up ? g->tray->first_hca + i + 100 : 65535, guid);
	}
}

/* A port whose module is missing has its PCI function and nothing else. */
static void ib_driver(const struct rk_sim_guest *g)
{
	for (int i = 0; i < g->tray->n_hcas; i++) {
		const char *pci = g->site->hcas[g->tray->first_hca + i].pci;
		rk_str_addf(g->out, "%s driver=mlx5_core ib=", pci ? pci : "0000:03:00.0");
		if (rk_sim_knob(g, "no-ib", i))
			rk_str_add(g->out, "\n");
		else
			rk_str_addf(g->out, "mlx5_%d\n", i);
	}
}

/* Four racks share the leaves of their rails, unless a topology says where the cables are. "moved" is 1 + the rail of the leaf where it ends now. */
static void ib_leaf(const struct rk_sim_guest *g)
{
	for (int i = 0; i < g->tray->n_hcas; i++) {
		int moved = rk_sim_knob(g, "moved", i), rail = moved ? moved - 1 : i;
		const struct rk_hca *h = &g->site->hcas[g->tray->first_hca + i], *there = rail < g->tray->n_hcas ? h + rail - i : h;
		rk_str_addf(g->out, "# dev mlx5_%d 0x%016" PRIx64 "\n", i, rk_sim_port_guid(g->sim, g->site, g->tray->first_hca + i));
		if (!rk_sim_rail_up(g, i))
			continue;
		if (there->leaf)
			rk_str_addf(g->out, "Node Description:.%s\n", there->leaf);
		else
			rk_str_addf(g->out, "Node Description:.leaf-g%02d-rail%d\n", g->tray->rack / 4, rail);
		rk_str_addf(g->out, "# Node info: DR path slid 65535; dlid 65535; 0,1\nBaseVers:........................1\nNodeType:........................Switch\n"
				    "NumPorts:........................144\nLocalPort:.......................%d\n",
			    there->leaf ? there->leaf_port : g->tray->rack % 4 * 18 + g->tray->number);
	}
}

static void ibv_devinfo(const struct rk_sim_guest *g)
{
	for (int i = 0; i < g->tray->n_hcas; i++)
		rk_str_addf(g->out, "hca_id:\tmlx5_%d\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t" HCA_FIRMWARE "\n\tphys_port_cnt:\t\t\t1\n"
				    "\t\tport:\t1\n\t\t\tstate:\t\t\t%s\n\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t4096 (5)\n\t\t\tsm_lid:\t\t\t1\n"
				    "\t\t\tport_lid:\t\t%d\n\t\t\tport_lmc:\t\t0x00\n\t\t\tlink_layer:\t\tInfiniBand\n\n",
			    i, rk_sim_rail_up(g, i) ? "PORT_ACTIVE (4)" : "PORT_DOWN (1)", g->tray->first_hca + i + 100);
}

static void ib_pkeys(const struct rk_sim_guest *g)
{
	uint16_t keys[64];

	for (int i = 0; i < g->tray->n_hcas; i++) {
		const struct rk_hca *h = &g->site->hcas[g->tray->first_hca + i];
		size_t n = h->fabric >= 0 ? rk_sim_port_keys(g->sim, g->site, h->fabric, h->port_guid, false, keys, RK_ARRAY_SIZE(keys)) : 0;
		for (size_t k = 0; k < n + 2; k++)
			rk_str_addf(g->out, "/sys/class/infiniband/mlx5_%d/ports/1/pkeys/%zu:0x%04x\n", i, k, k < n ? keys[k] : 0);
	}
}

/* Two looks, two seconds apart: what the port counts in that time. */
static long counted(const struct rk_sim_guest *g, const char *counter, int rail, int sample)
{
	static const char *const rows[][2] = { { "SymbolErrorCounter", "errors" }, { "LinkDownedCounter", "flaps" }, { "PortXmitWait", "wait" } };

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i][0], counter) == 0)
			return 2L * sample * rk_sim_knob(g, rows[i][1], rail);
	}
	return 0;
}

static void ib_counters(const struct rk_sim_guest *g)
{
	static const char *const errors[] = { "SymbolErrorCounter", "LinkErrorRecoveryCounter", "LinkDownedCounter", "PortRcvErrors", "PortRcvRemotePhysicalErrors",
					      "PortRcvSwitchRelayErrors", "PortXmitDiscards", "PortXmitConstraintErrors", "PortRcvConstraintErrors",
					      "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors", "VL15Dropped", "PortXmitWait", "QP1Dropped" };

	for (int sample = 0; sample < 2; sample++)
		for (int i = 0; i < g->tray->n_hcas; i++) {
			rk_str_addf(g->out, "# Port extended counters: Lid %d port 1 (CapMask: 0x5A00 CapMask2: 0x0000002)\nPortSelect:......................1\n"
					    "CounterSelect:...................0x0000\nPortXmitData:....................%d\nPortRcvData:.....................%d\n"
					    "CounterSelect2:..................0x0000\n",
				    g->tray->first_hca + i + 100, 81234631 + sample * 4096, 81234635 + sample * 4096);
			for (size_t e = 0; e < RK_ARRAY_SIZE(errors); e++) {
				rk_str_addf(g->out, "%s:", errors[e]);
				for (size_t dots = strlen(errors[e]); dots < 32; dots++)
					rk_str_addc(g->out, '.');
				rk_str_addf(g->out, "%ld\n", counted(g, errors[e], i, sample));
			}
		}
}

static void mlxlink(const struct rk_sim_guest *g)
{
	for (int i = 0; i < g->tray->n_hcas; i++) {
		bool up = rk_sim_rail_up(g, i);
		rk_str_addf(g->out, "{\"result\": {\"output\": {\"Operational Info\": {\"Physical state\": \"%s\", \"Speed\": \"%s\", \"State\": \"%s\", \"Width\": \"%s\"}, "
				    "\"Physical Counters and BER Info\": {\"Effective Physical BER\": \"15E-255\", \"Effective Physical Errors\": \"0\", "
				    "\"Link Down Counter\": \"0\", \"Raw Physical BER\": \"4E-10\", \"Symbol BER\": \"15E-255\", \"Symbol Errors\": \"0\"}, "
				    "\"Troubleshooting Info\": {\"Recommendation\": \"%s\", \"Status Opcode\": \"%s\"}}}, "
				    "\"status\": {\"code\": 0, \"message\": \"success\"}}\n",
			    up ? "LinkUp" : "Polling", up ? "IB-XDR" : "N/A", up ? "Active" : "Down", up ? "4x" : "N/A",
			    up ? "No issue was observed" : "The cable is unplugged", up ? "0" : "1024");
	}
}

/* ---- host ------------------------------------------------------------------------------------------------------------------------ */

/* What the driver logs of a GPU in trouble, and which recovery it asks for. */
static void gpu_trouble(const struct rk_sim_guest *g, int gpu)
{
	static const struct {
		int code;
		const char *text;
	} texts[] = { { 79, "GPU has fallen off the bus." }, { 149, "NETIR_LINK_EVT Fatal XC0 i0 Link 05 (0x004505c6 0x00000000 0x00000000 0x00000000)" },
		      { 145, "RLW_REMAP Fatal XC0 i0 Link 05 (0x00000004 0x00000000 0x00000000 0x00000000)" }, { 48, "DBE (double bit error) ECC Error" },
		      { 94, "Contained: SM (0x1)" } };
	int code = rk_sim_knob(g, "xid", gpu);
	const char *text = "error";

	for (size_t i = 0; i < RK_ARRAY_SIZE(texts); i++)
		text = texts[i].code == code ? texts[i].text : text;
	if (code)
		rk_str_addf(g->out, "[ 8123.%d41207] NVRM: Xid (PCI:%.7s): %d, %s\n", gpu, rk_sim_gpu_pci(g, gpu), code, text);
}

static void dmesg(const struct rk_sim_guest *g)
{
	rk_str_add(g->out, "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd4f0]\n"
			   "[   14.301882] NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  " DRIVER "  Release Build\n");
	for (int i = 0; i < g->tray->n_hcas; i++)
		rk_str_addf(g->out, "[   1%d.402211] mlx5_core %s: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)\n", 5 + i,
			    g->site->hcas[g->tray->first_hca + i].pci ? g->site->hcas[g->tray->first_hca + i].pci : "0000:00:00.0");
	for (int i = 0; i < g->tray->n_gpus; i++)
		gpu_trouble(g, i);
}

static void services(const struct rk_sim_guest *g)
{
	bool imex_down = rk_sim_knob(g, "imex-down", 0) != 0;
	static const char *const units[][4] = { { "nvidia-imex", "active", "running", "enabled" }, { "nvidia-persistenced", "active", "running", "enabled" },
						{ "nvidia-dcgm", "active", "running", "enabled" }, { "nvidia-fabricmanager", "inactive", "dead", "disabled" },
						{ "chrony", "active", "running", "enabled" }, { "imex-channel0", "active", "", "" } };

	for (size_t i = 0; i < RK_ARRAY_SIZE(units); i++)
		rk_str_addf(g->out, "%sId=%s.service\nLoadState=loaded\nActiveState=%s\nSubState=%s\nUnitFileState=%s\n", i ? "\n" : "", units[i][0],
			    i == 0 && imex_down ? "failed" : units[i][1], i == 0 && imex_down ? "failed" : units[i][2], units[i][3]);
}

static void chrony(const struct rk_sim_guest *g)
{
	rk_str_add(g->out, "Reference ID    : 0A000001 (10.0.0.1)\nStratum         : 3\nRef time (UTC)  : Mon Nov 30 05:58:11 2026\n"
			   "System time     : 0.000009120 seconds slow of NTP time\nLast offset     : -0.000004133 seconds\n"
			   "RMS offset      : 0.000018204 seconds\nFrequency       : 9.204 ppm fast\nResidual freq   : -0.001 ppm\nSkew            : 0.038 ppm\n"
			   "Root delay      : 0.000391022 seconds\nRoot dispersion : 0.000650331 seconds\nUpdate interval : 64.2 seconds\nLeap status     : Normal\n");
}

static void lscpu(const struct rk_sim_guest *g)
{
	int cpus = g->site->profiles[g->rack->profile].cpus_per_tray, sockets = g->site->profiles[g->rack->profile].sockets;

	rk_str_addf(g->out, "Architecture:                            aarch64\nByte Order:                              Little Endian\n"
			    "CPU(s):                                  %d\nOn-line CPU(s) list:                     0-%d\n"
			    "Vendor ID:                               ARM\nModel name:                              Neoverse-V2\n"
			    "Thread(s) per core:                      1\nCore(s) per socket:                      %d\nSocket(s):                               %d\n"
			    "NUMA node(s):                            2\n",
		    cpus, cpus - 1, sockets ? cpus / sockets : cpus, sockets);
}

static void storage(const struct rk_sim_guest *g)
{
	for (int i = 0; i < g->tray->n_nvme; i++)
		rk_str_addf(g->out, "Smart Log for NVME device:nvme%dn1 namespace-id:ffffffff\ncritical_warning\t\t\t: 0\ntemperature\t\t\t\t: %d\xc2\xb0" "C (%d Kelvin)\n"
				    "available_spare\t\t\t\t: 100%%\navailable_spare_threshold\t\t: 10%%\npercentage_used\t\t\t\t: 1%%\nmedia_errors\t\t\t\t: 0\n"
				    "num_err_log_entries\t\t\t: 0\n",
			    i, 38 + i, 311 + i);
}

static void quiet(const struct rk_sim_guest *g)
{
	(void)g;
}

static void cloud_init(const struct rk_sim_guest *g)
{
	rk_str_addf(g->out, "status: %s\n", rk_sim_knob(g, "boot-hangs", 0) ? "running" : "done");
}

static void hostname(const struct rk_sim_guest *g)
{
	rk_str_addf(g->out, "%s\n", g->vm ? g->vm->name : "localhost");
}

/* What computes on the GPUs. */
static void compute_apps(const struct rk_sim_guest *g)
{
	for (int i = 0; i < g->tray->n_gpus; i++)
		if (rk_sim_knob(g, "busy", i))
			rk_str_addf(g->out, "%d\n", 4000 + i);
}

static void uptime(const struct rk_sim_guest *g)
{
	(void)g;
	rk_str_add(g->out, " 06:00:00 up 2 days,  3:12,  0 users,  load average: 0.08, 0.03, 0.01\n");
}

static void uname_all(const struct rk_sim_guest *g)
{
	rk_str_addf(g->out, "Linux %s 6.14.0-1013-nvidia-64k #13-Ubuntu SMP PREEMPT_DYNAMIC aarch64 GNU/Linux\n", g->vm ? g->vm->name : "localhost");
}

/* The first row whose text is in the command answers; what nobody knows is "command not found". */
static const struct {
	const char *text;
	void (*print)(const struct rk_sim_guest *g);
} tools[] = {
	{ "nvidia-smi -q -x", smi_xml }, { "nvidia-smi -q", smi_text }, { "nvlink -s", nvlink_status }, { "nvlink -e", nvlink_errors }, { "topo -m", topo },
	{ "nvidia-imex-ctl -N -j", imex_json }, { "nvidia-imex-ctl -N", imex_text }, { "nodes_config.cfg", imex_config }, { "/pkeys", ib_pkeys },
	{ "bus/pci/devices", ib_driver }, { "nodedesc", ib_leaf },
	{ "perfquery", ib_counters }, { "mlxlink", mlxlink }, { "ibv_devinfo", ibv_devinfo }, { "ibstat", ibstat }, { "dmesg", dmesg },
	{ "systemctl show", services }, { "chronyc tracking", chrony }, { "lscpu", lscpu }, { "nvme smart-log", storage }, { "hostname", hostname },
	{ "nvidia-smi -L", smi_list }, { "query-compute-apps", compute_apps }, { "uptime", uptime }, { "uname -a", uname_all }, { "true", quiet },
	{ "cloud-init status", cloud_init },
};

enum { DRIVER_DOWN = 9 };                 /* exit code of nvidia-smi without its driver */

static void answer(const struct rk_sim_guest *g, const char *command, struct rk_ssh_result *result)
{
	rk_sim_tool *measure = rk_sim_measure(command);

	if (measure) {
		result->status = measure(g, command);
		return;
	}
	if (strstr(command, "nvidia-smi") && rk_sim_knob(g, "driver-down", 0)) {
		rk_str_add(g->out, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n");
		result->status = DRIVER_DOWN;
		return;
	}
	for (size_t i = 0; i < RK_ARRAY_SIZE(tools); i++)
		if (strstr(command, tools[i].text)) {
			tools[i].print(g);
			result->status = 0;
			return;
		}
	result->status = 127;
	rk_str_addf(&result->err, "sh: 1: %.*s: not found\n", (int)strcspn(command, " "), command);
}

/* A script that is handed the nodes behind its own name. */
static void write_list(struct rk_sim_call *call, const char *tray, const char *const *words, struct rk_ssh_result *result)
{
	struct rk_str list RK_CLEANUP_STR = RK_STR_INIT;
	char *key RK_CLEANUP_FREE = rk_xasprintf("imex:%s", tray), *kept RK_CLEANUP_FREE = rk_xasprintf("imex-kept:%s", tray);
	char *deaf RK_CLEANUP_FREE = rk_xasprintf("imex-deaf:%s/0", tray);

	for (size_t i = 1; words[0] && words[i]; i++)
		rk_str_addf(&list, "%s\n", words[i]);
	/* A daemon that does not hear the signal goes on with what it has. */
	if (rk_sim_get(call->sim, deaf) && !rk_sim_get(call->sim, kept))
		rk_sim_set(call, kept, rk_sim_get(call->sim, key) ? rk_sim_get(call->sim, key) : "", 0);
	rk_sim_set(call, key, rk_str_text(&list), 0);
	result->status = 0;
}

static void restart_imex(struct rk_sim_call *call, const char *tray, struct rk_ssh_result *result)
{
	char *kept RK_CLEANUP_FREE = rk_xasprintf("imex-kept:%s", tray), *down RK_CLEANUP_FREE = rk_xasprintf("imex-down:%s/0", tray);

	rk_sim_set(call, kept, NULL, 0);
	rk_sim_set(call, down, NULL, 0);
	result->status = 0;
}

int rk_sim_guest_run(struct rk_sim *sim, const struct rk_site *site, int tray, const char *const *argv, struct rk_ssh_result *result, struct rk_err *err)
{
	struct rk_str command RK_CLEANUP_STR = RK_STR_INIT;
	bool shell = argv[0] && strcmp(argv[0], "sh") == 0 && argv[1] && argv[2];
	bool writes = shell && strstr(argv[2], "tee ") && strstr(argv[2], "nodes_config.cfg"), restarts = shell && strstr(argv[2], "systemctl restart nvidia-imex");
	struct rk_sim_call call;
	const char *name = site->trays[tray].name;
	char *up RK_CLEANUP_FREE = rk_xasprintf("up:%s", name);

	for (size_t i = shell ? 2 : 0; argv[i]; i++)
		rk_str_addf(&command, "%s%s", command.len ? " " : "", argv[i]);
	int rc = rk_sim_enter(sim, &call, "guest.run", name, writes || restarts, err);
	if (rc)
		return rc;
	if (!rk_sim_get(sim, up))
		return rk_sim_leave(&call, rk_err_set(err, RK_UNREACHABLE, "the guest on tray %s does not answer", name), err);
	const struct rk_sim_guest g = {
		.sim = sim,
		.site = site,
		.tray = &site->trays[tray],
		.rack = &site->racks[site->trays[tray].rack],
		.vm = site->trays[tray].vm == RK_NONE ? NULL : &site->vms[site->trays[tray].vm],
		.out = &result->out,
	};
	if (writes)
		write_list(&call, name, argv + 3, result);
	else if (restarts)
		restart_imex(&call, name, result);
	else
		answer(&g, rk_str_text(&command), result);
	return rk_sim_leave(&call, 0, err);
}
