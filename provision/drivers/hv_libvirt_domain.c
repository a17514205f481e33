/* Domains: found, defined and read back, turned on and off, undefined. */
#include <stdlib.h>
#include <string.h>

#include "provision/drivers/hv_libvirt_impl.h"

enum { DESTROY_MS = 90000 };
static const char namespace[] = "urn:racksh:domain:1";

/* Fills *ret from a domain that may vanish meanwhile. */
static int describe(struct rk_libvirt *lv, int tray, virDomainPtr domain, struct rk_arena *arena, struct rk_hv_domain *ret, struct rk_err *err)
{
	char uuid[VIR_UUID_STRING_BUFLEN];
	int state = 0, reason = 0;

	if (virDomainGetState(domain, &state, &reason, 0) != 0 || virDomainGetUUIDString(domain, uuid) != 0)
		return rk_lv_last_is(VIR_ERR_NO_DOMAIN) ? 0 : rk_lv_failed(lv, tray, "reading the state of a domain", err);
	char *xml RK_CLEANUP_FREE = virDomainGetXMLDesc(domain, VIR_DOMAIN_XML_INACTIVE);
	if (!xml)
		return rk_lv_last_is(VIR_ERR_NO_DOMAIN) ? 0 : rk_lv_failed(lv, tray, "reading a domain", err);
	ret->exists = true;
	ret->running = state != VIR_DOMAIN_SHUTOFF && state != VIR_DOMAIN_CRASHED;
	ret->ours = strstr(xml, namespace) != NULL;
	ret->name = rk_arena_strdup(arena, virDomainGetName(domain));
	ret->uuid = rk_arena_strdup(arena, uuid);
	ret->xml = rk_arena_strdup(arena, xml);
	return 0;
}

int rk_lv_domain_get(struct rk_hv *hv, int tray, const char *name, struct rk_arena *arena, struct rk_hv_domain *ret, struct rk_err *err)
{
	struct rk_libvirt *lv = (struct rk_libvirt *)hv;
	virConnectPtr conn;
	int rc = rk_lv_enter(hv, tray, false, &conn, err);

	if (rc != 0)
		return rc;
	*ret = (struct rk_hv_domain){ .name = rk_arena_strdup(arena, name) };
	virDomainPtr domain RK_LV_CLEANUP_DOMAIN = virDomainLookupByName(conn, name);
	if (domain)
		rc = describe(lv, tray, domain, arena, ret, err);
	else if (!rk_lv_last_is(VIR_ERR_NO_DOMAIN))
		rc = rk_lv_failed(lv, tray, "looking for a domain", err);
	return rk_lv_leave(hv, tray, rc);
}

int rk_lv_domain_list(struct rk_hv *hv, int tray, struct rk_arena *arena, struct rk_hv_domain **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_libvirt *lv = (struct rk_libvirt *)hv;
	virConnectPtr conn;
	virDomainPtr *all = NULL;
	int rc = rk_lv_enter(hv, tray, false, &conn, err);

	if (rc != 0)
		return rc;
	int n = virConnectListAllDomains(conn, &all, 0);
	if (n < 0)
		return rk_lv_leave(hv, tray, rk_lv_failed(lv, tray, "listing the domains", err));
	struct rk_hv_domain *list = rk_arena_array(arena, n ? (size_t)n : 1, sizeof(*list));
	size_t kept = 0;
	for (int i = 0; i < n; i++) {
		if (rc == 0)
			rc = describe(lv, tray, all[i], arena, &list[kept], err);
		kept += list[kept].exists;
		virDomainFree(all[i]);
	}
	free(all);
	*ret = list;
	*ret_n = kept;
	return rk_lv_leave(hv, tray, rc);
}

int rk_lv_define(struct rk_hv *hv, int tray, const char *xml, struct rk_arena *arena, const char **ret_xml, struct rk_err *err)
{
	struct rk_libvirt *lv = (struct rk_libvirt *)hv;
	virConnectPtr conn;
	int rc = rk_lv_enter(hv, tray, true, &conn, err);

	if (rc != 0)
		return rc;
	rk_lv_trace(lv, tray, "define", xml);
	virDomainPtr domain RK_LV_CLEANUP_DOMAIN = virDomainDefineXMLFlags(conn, xml, rk_lv_is_test(lv->links[tray].uri) ? 0 : VIR_DOMAIN_DEFINE_VALIDATE);
	char *kept RK_CLEANUP_FREE = domain ? virDomainGetXMLDesc(domain, VIR_DOMAIN_XML_INACTIVE | VIR_DOMAIN_XML_SECURE) : NULL;
	if (!kept)
		rc = rk_lv_failed(lv, tray, domain ? "reading the domain back" : "defining the domain", err);
	else
		*ret_xml = rk_arena_strdup(arena, kept);
	return rk_lv_leave(hv, tray, rc);
}

struct act {                              /* on a domain, as it is told */
	struct rk_libvirt *lv;
	int tray;
	const char *what;
};

/* Runs it on the named domain. absent_rc is what an absent domain means. */
static int on_domain(struct rk_hv *hv, int tray, const char *name, const char *what, int absent_rc,
		     int (*run)(const struct act *act, virDomainPtr domain, struct rk_err *err), struct rk_err *err)
{
	const struct act act = { (struct rk_libvirt *)hv, tray, what };
	virConnectPtr conn;
	int rc = rk_lv_enter(hv, tray, true, &conn, err);

	if (rc != 0)
		return rc;
	rk_lv_trace(act.lv, tray, what, name);
	virDomainPtr domain RK_LV_CLEANUP_DOMAIN = virDomainLookupByName(conn, name);
	if (!domain && rk_lv_last_is(VIR_ERR_NO_DOMAIN))
		return rk_lv_leave(hv, tray, absent_rc ? rk_err_set(err, absent_rc, "tray \"%s\": there is no domain \"%s\"", hv->site->trays[tray].name, name) : 0);
	return rk_lv_leave(hv, tray, domain ? run(&act, domain, err) : rk_lv_failed(act.lv, tray, what, err));
}

static bool dead(virDomainPtr domain)
{
	int state = VIR_DOMAIN_NOSTATE, reason;

	if (virDomainGetState(domain, &state, &reason, 0) != 0)
		return rk_lv_last_is(VIR_ERR_NO_DOMAIN);
	return state == VIR_DOMAIN_SHUTOFF;
}

static int act_start(const struct act *act, virDomainPtr domain, struct rk_err *err)
{
	return virDomainIsActive(domain) == 1 || virDomainCreate(domain) == 0 ? 0 : rk_lv_failed(act->lv, act->tray, act->what, err);
}

static int act_shutdown(const struct act *act, virDomainPtr domain, struct rk_err *err)
{
	return dead(domain) || virDomainShutdown(domain) == 0 ? 0 : rk_lv_failed(act->lv, act->tray, act->what, err);
}

/* libvirt itself waits up to 64 s for a guest with 12 host devices; then the death is looked for, not believed. */
static int act_destroy(const struct act *act, virDomainPtr domain, struct rk_err *err)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;

	if (dead(domain))
		return 0;
	if (virDomainDestroy(domain) != 0 && !rk_lv_last_is(VIR_ERR_OPERATION_INVALID) && !rk_lv_last_is(VIR_ERR_NO_DOMAIN)) {
		int rc = rk_lv_failed(act->lv, act->tray, act->what, &why);
		if (dead(domain))
			return 0;
		rk_err_move(err, &why);
		return rc;
	}
	for (int waited = 0; waited <= DESTROY_MS; waited += 250) {
		if (dead(domain))
			return 0;
		rk_clock_sleep_ms(act->lv->env.clock, 250);
	}
	return rk_err_set(err, RK_FAILED, "tray \"%s\": %s: it is still there after %d s", act->lv->hv.site->trays[act->tray].name, act->what, DESTROY_MS / 1000);
}

/* Older daemons and drivers refuse flags that they do not know. */
static bool flags_refused(void)
{
	return rk_lv_last_is(VIR_ERR_INVALID_ARG) || rk_lv_last_is(VIR_ERR_ARGUMENT_UNSUPPORTED) || rk_lv_last_is(VIR_ERR_NO_SUPPORT);
}

static int act_undefine(const struct act *act, virDomainPtr domain, struct rk_err *err)
{
	/* From the most thorough to the plain form. */
	static const unsigned int flags[] = {
		VIR_DOMAIN_UNDEFINE_NVRAM | VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA | VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA,
		VIR_DOMAIN_UNDEFINE_NVRAM | VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA,
		VIR_DOMAIN_UNDEFINE_NVRAM,
		0,
	};
	int rc = -1;

	for (size_t i = 0; rc != 0 && i < RK_ARRAY_SIZE(flags) && (i == 0 || flags_refused()); i++)
		rc = virDomainUndefineFlags(domain, flags[i]);
	return rc == 0 || rk_lv_last_is(VIR_ERR_NO_DOMAIN) ? 0 : rk_lv_failed(act->lv, act->tray, act->what, err);
}

int rk_lv_start(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	return on_domain(hv, tray, name, "starting the domain", RK_NOT_FOUND, act_start, err);
}

int rk_lv_shutdown(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	return on_domain(hv, tray, name, "shutting the domain down", RK_NOT_FOUND, act_shutdown, err);
}

int rk_lv_destroy(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	return on_domain(hv, tray, name, "stopping the domain", 0, act_destroy, err);
}

int rk_lv_undefine(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	return on_domain(hv, tray, name, "undefining the domain", 0, act_undefine, err);
}
