#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "provision/discover.h"
#include "provision/sim_impl.h"

/* What the host of a tray prints: nvidia-smi and the script of discovery, from what is really in the twin's racks. */

struct host {
	const struct rk_sim *sim;
	const struct rk_site *site;
	int tray;
	struct rk_str *out;
};

static void gpu_xml(const struct host *h, int index, uint64_t guid)
{
	const struct rk_tray *t = &h->site->trays[h->tray];
	const struct rk_gpu *g = &h->site->gpus[t->first_gpu + index];
	const struct rk_rack *r = &h->site->racks[t->rack];
	const char *serial = rk_sim_serial(h->sim, h->site, h->tray);

	rk_str_addf(h->out, "\t<gpu id=\"0000%s\">\n\t\t<product_name>NVIDIA GB300</product_name>\n\t\t<serial>%s-%d</serial>\n", g->pci ? g->pci : "0000:00:00.0",
		    serial ? serial : "N/A", index / 2);
	rk_str_addf(h->out, "\t\t<uuid>GPU-%08x-0000-4000-8000-%012" PRIx64 "</uuid>\n\t\t<platformInfo>\n\t\t\t<chassis_serial_number>%s</chassis_serial_number>\n",
		    (unsigned)(guid >> 32), guid & 0xffffffffffffu, r->name);
	rk_str_addf(h->out, "\t\t\t<slot_number>%d</slot_number>\n\t\t\t<tray_index>%d</tray_index>\n\t\t\t<module_id>%d</module_id>\n"
			    "\t\t\t<gpu_fabric_guid>0x%016" PRIx64 "</gpu_fabric_guid>\n\t\t</platformInfo>\n",
		    t->slot, t->number - 1, g->module_id, guid);
	if (g->pci)
		rk_str_addf(h->out, "\t\t<pci>\n\t\t\t<pci_bus_id>0000%s</pci_bus_id>\n\t\t</pci>\n", g->pci);
	rk_str_addf(h->out, "\t\t<fabric>\n\t\t\t<state>Completed</state>\n\t\t\t<status>Success</status>\n\t\t\t<clusterUuid>%s</clusterUuid>\n\t\t</fabric>\n\t</gpu>\n",
		    r->cluster_uuid ? r->cluster_uuid : "N/A");
}

static void smi(const struct host *h)
{
	const struct rk_tray *t = &h->site->trays[h->tray];
	int n = 0;

	for (int i = 0; i < t->n_gpus; i++)
		n += rk_sim_gpu_guid(h->sim, h->site, t->first_gpu + i) != 0;
	rk_str_addf(h->out, "<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n\t<driver_version>580.173.02</driver_version>\n\t<attached_gpus>%d</attached_gpus>\n", n);
	for (int i = 0; i < t->n_gpus; i++) {
		uint64_t guid = rk_sim_gpu_guid(h->sim, h->site, t->first_gpu + i);
		if (guid)
			gpu_xml(h, i, guid);
	}
	rk_str_add(h->out, "</nvidia_smi_log>\n");
}

static void facts(const struct host *h)
{
	const struct rk_tray *t = &h->site->trays[h->tray];
	const char *serial = rk_sim_serial(h->sim, h->site, h->tray);

	for (int i = 0; i < t->n_hcas; i++) {
		const struct rk_hca *hca = &h->site->hcas[t->first_hca + i];
		uint64_t guid = rk_sim_port_guid(h->sim, h->site, t->first_hca + i);
		char *link RK_CLEANUP_FREE = rk_xasprintf("link:%s/%d", t->name, i);
		if (hca->pci)
			rk_str_addf(h->out, "port|mlx5_%d|%s|fe80:0000:0000:0000:%04x:%04x:%04x:%04x|InfiniBand|%s|40.47.1026\n", i, hca->pci, (unsigned)(guid >> 48),
				    (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff, (unsigned)guid & 0xffff,
				    rk_sim_get(h->sim, link) ? "1: DOWN" : "4: ACTIVE");
	}
	for (int i = 0; i < t->n_nvme; i++)
		rk_str_addf(h->out, "drive|%s|0\n", t->nvme[i]);
	rk_str_addf(h->out, "drive|0001:01:00.0|1\nserial|%s\npages|2048|442368|442368\nend|\n", serial ? serial : "");
}

int rk_sim_host_run(struct rk_sim *sim, const struct rk_site *site, int tray, const char *const *argv, struct rk_ssh_result *result, struct rk_err *err)
{
	struct rk_sim_call call;
	const struct host h = { sim, site, tray, &result->out };
	int rc = rk_sim_enter(sim, &call, "host.run", site->trays[tray].name, false, err);

	if (rc)
		return rc;
	if (strcmp(argv[0], "nvidia-smi") == 0) {
		smi(&h);
	} else if (strcmp(argv[0], "sh") == 0 && argv[1] && argv[2] && strstr(argv[2], RK_HOST_SCRIPT_MARK)) {
		facts(&h);
	} else {
		result->status = 127;
		rk_str_addf(&result->err, "sh: 1: %s: not found\n", argv[0]);
	}
	return rk_sim_leave(&call, 0, err);
}
