/* What the host of a tray is and has. */
#include <stdlib.h>

#include "provision/drivers/hv_libvirt_impl.h"

static void trace_versions(struct rk_libvirt *lv, int tray, const struct rk_hostcaps *caps)
{
	char daemon[32], client[32], qemu[32];

	rk_version_text(caps->libvirt, daemon);
	rk_version_text(caps->client, client);
	rk_version_text(caps->qemu, qemu);
	char *text RK_CLEANUP_FREE = rk_xasprintf("daemon %s, client library %s, hypervisor %s", daemon, client, qemu);
	rk_lv_trace(lv, tray, "versions", text);
}

int rk_lv_probe(struct rk_hv *hv, int tray, struct rk_arena *arena, struct rk_hostcaps *ret, struct rk_err *err)
{
	struct rk_libvirt *lv = (struct rk_libvirt *)hv;
	virConnectPtr conn;
	int rc = rk_lv_enter(hv, tray, false, &conn, err);

	if (rc != 0)
		return rc;
	struct rk_hostcaps caps = { .probed = true };
	char *xml RK_CLEANUP_FREE = virConnectGetCapabilities(conn);
	if (!xml || virConnectGetLibVersion(conn, &caps.libvirt) != 0)
		return rk_lv_leave(hv, tray, rk_lv_failed(lv, tray, "reading the capabilities", err));
	if (virConnectGetVersion(conn, &caps.qemu) != 0)
		caps.qemu = 0;
	if (virGetVersion(&caps.client, NULL, NULL) != 0)
		caps.client = 0;
	rc = rk_hostcaps_read(xml, arena, &caps, err);
	if (rc)
		return rk_lv_leave(hv, tray, rc);
	trace_versions(lv, tray, &caps);
	/* Domain capabilities for type kvm exist only where KVM can be used. */
	char *kvm RK_CLEANUP_FREE = virConnectGetDomainCapabilities(conn, NULL, caps.arch, NULL, "kvm", 0);
	char *any RK_CLEANUP_FREE = kvm ? NULL : virConnectGetDomainCapabilities(conn, NULL, caps.arch, NULL, NULL, 0);
	const char *domain = kvm ? kvm : any;
	caps.kvm = kvm != NULL;
	if (domain)
		rc = rk_hostcaps_read_domain(domain, &caps, err);
	*ret = caps;
	return rk_lv_leave(hv, tray, rc);
}

int rk_lv_devices(struct rk_hv *hv, int tray, struct rk_arena *arena, const char ***ret_xml, size_t *ret_n, struct rk_err *err)
{
	struct rk_libvirt *lv = (struct rk_libvirt *)hv;
	virNodeDevicePtr *all = NULL;
	virConnectPtr conn;
	int rc = rk_lv_enter(hv, tray, false, &conn, err);

	if (rc != 0)
		return rc;
	int n = virConnectListAllNodeDevices(conn, &all, VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV);
	if (n < 0)
		return rk_lv_leave(hv, tray, rk_lv_failed(lv, tray, "listing the PCI functions", err));
	const char **list = rk_arena_array(arena, (size_t)n + 1, sizeof(*list));
	*ret_n = 0;
	for (int i = 0; i < n; i++) {
		/* One that vanishes meanwhile is just not there. */
		char *xml RK_CLEANUP_FREE = virNodeDeviceGetXMLDesc(all[i], 0);
		if (xml)
			list[(*ret_n)++] = rk_arena_strdup(arena, xml);
		virNodeDeviceFree(all[i]);
	}
	free(all);
	*ret_xml = list;
	return rk_lv_leave(hv, tray, 0);
}
