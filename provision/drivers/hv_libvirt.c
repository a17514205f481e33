/* The only file that includes libvirt. One connection per tray, opened when first needed and kept.
 *
 * virConnectOpen to a hung daemon blocks for ever, so opens run in a thread with a deadline; calls after that are ended by the keepalive
 * (an event loop thread must run for it). An expired call is "outcome unknown": the caller reads again. */
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inventory/base/str.h"
#include "provision/deadline.h"
#include "provision/drivers/scrub.h"
#include "provision/drivers/volume_xml.h"
#include "provision/hv.h"

enum { OPEN_MS = 20000, KEEPALIVE_S = 5, KEEPALIVE_COUNT = 4, DESTROY_MS = 90000, PIECE = 64 << 10, CHUNK = 64 << 20 /* of an upload, acknowledged as a whole */ };
static const char namespace[] = "urn:racksh:domain:1";

struct link {
	pthread_mutex_t lock;
	virConnectPtr conn;
	char *uri;                        /* what conn was opened with */
};
struct libvirt {
	struct rk_hv hv;
	struct rk_driver_env env;
	struct link *links;               /* one per tray */
	size_t n_links;
};

/* --- library-wide set-up ------------------------------------------------------------------------------------------------------- */

static void keep_quiet(void *ctx, virErrorPtr error)
{
	(void)ctx;
	(void)error;
}

static void tick(int timer, void *ctx)
{
	(void)timer;
	(void)ctx;
}

static void *event_loop(void *arg)
{
	while (virEventRunDefaultImpl() == 0)
		;
	return arg;
}

/* Once per process: the event loop serves the keepalives of all connections. The timer keeps the loop from sleeping for ever. */
static void set_up(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	virSetErrorFunc(NULL, keep_quiet);
	virEventRegisterDefaultImpl();
	virInitialize();
	virEventAddTimeout(1000, tick, NULL, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_create(&thread, &attr, event_loop, NULL);
	pthread_attr_destroy(&attr);
}

/* --- errors -------------------------------------------------------------------------------------------------------------------- */

static const struct {
	int code, class;
} classes[] = {
	{ VIR_ERR_NO_DOMAIN, RK_NOT_FOUND },
	{ VIR_ERR_NO_STORAGE_POOL, RK_NOT_FOUND },
	{ VIR_ERR_NO_STORAGE_VOL, RK_NOT_FOUND },
	{ VIR_ERR_NO_CONNECT, RK_UNREACHABLE },
	{ VIR_ERR_SYSTEM_ERROR, RK_UNREACHABLE },
	{ VIR_ERR_RPC, RK_UNREACHABLE },
	{ VIR_ERR_OPERATION_TIMEOUT, RK_UNREACHABLE },
	{ VIR_ERR_AUTH_FAILED, RK_UNREACHABLE },
	{ VIR_ERR_AUTH_CANCELLED, RK_UNREACHABLE },
	{ VIR_ERR_AUTH_UNAVAILABLE, RK_UNREACHABLE },
	{ VIR_ERR_ACCESS_DENIED, RK_UNREACHABLE },
	{ VIR_ERR_INVALID_CONN, RK_UNREACHABLE },
	{ VIR_ERR_XML_ERROR, RK_INVALID },
	{ VIR_ERR_XML_DETAIL, RK_INVALID },
	{ VIR_ERR_XML_INVALID_SCHEMA, RK_INVALID },
	{ VIR_ERR_CONFIG_UNSUPPORTED, RK_INVALID },
	{ VIR_ERR_INVALID_ARG, RK_INVALID },
	{ VIR_ERR_ARGUMENT_UNSUPPORTED, RK_INVALID },
	{ VIR_ERR_NO_SUPPORT, RK_INVALID },
};

/* The thread's last libvirt error as one of ours. */
static int failed(struct libvirt *lv, int tray, const char *what, struct rk_err *err)
{
	virErrorPtr error = virGetLastError();
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	const char *message = error && error->message ? error->message : "no reason given";
	int class = RK_FAILED;

	for (size_t i = 0; error && i < RK_ARRAY_SIZE(classes); i++)
		if (error->code == classes[i].code)
			class = classes[i].class;
	/* A connection lost by keepalive is an internal error of the RPC domain. */
	if (error && error->code == VIR_ERR_INTERNAL_ERROR && error->domain == VIR_FROM_RPC)
		class = RK_UNREACHABLE;
	rk_str_add_escaped(&text, message, strnlen(message, 600));
	return rk_err_set(err, class, "tray \"%s\": %s: %s", lv->hv.site->trays[tray].name, what, rk_str_text(&text));
}

static void trace(struct libvirt *lv, int tray, const char *what, const char *text)
{
	if (!lv->env.trace)
		return;
	char *line RK_CLEANUP_FREE = rk_xasprintf("%s%s%s", what, *text ? "\n" : "", text);
	rk_trace_add(lv->env.trace, "libvirt", lv->hv.site->trays[tray].name, line);
}

/* --- connections --------------------------------------------------------------------------------------------------------------- */

struct opening {
	char *uri, *message;
	virConnectPtr conn;
};

/* No prompt, ever: whatever is asked is refused. */
static int refuse(virConnectCredentialPtr cred, unsigned int n, void *ctx)
{
	(void)cred;
	(void)n;
	(void)ctx;
	return -1;
}

/* libvirt's own test driver is in this process: it knows no flags on opening, and would read the whole schema again for each domain. */
static bool is_test(const char *uri)
{
	return strncmp(uri, "test:", 5) == 0;
}

static void opening_run(void *ctx)
{
	struct opening *o = ctx;
	int types[] = { VIR_CRED_AUTHNAME, VIR_CRED_PASSPHRASE, VIR_CRED_ECHOPROMPT, VIR_CRED_NOECHOPROMPT, VIR_CRED_EXTERNAL };
	virConnectAuth auth = { types, RK_ARRAY_SIZE(types), refuse, NULL };

	o->conn = virConnectOpenAuth(o->uri, &auth, is_test(o->uri) ? 0 : VIR_CONNECT_NO_ALIASES);
	if (!o->conn)
		o->message = rk_xstrdup(virGetLastErrorMessage());
	else
		virConnectSetKeepAlive(o->conn, KEEPALIVE_S, KEEPALIVE_COUNT);
}

static void opening_free(void *ctx)
{
	struct opening *o = ctx;

	if (o->conn)
		virConnectClose(o->conn);
	free(o->uri);
	free(o->message);
	free(o);
}

static void link_drop(struct link *link)
{
	if (link->conn)
		virConnectClose(link->conn);
	link->conn = NULL;
	free(rk_steal(&link->uri));
}

static int open_link(struct libvirt *lv, int tray, struct rk_err *err)
{
	const struct rk_tray *t = &lv->hv.site->trays[tray];
	struct opening *o = rk_xcalloc(1, sizeof(*o));
	int ms = lv->env.timeout_ms > 0 ? lv->env.timeout_ms : OPEN_MS, rc;

	o->uri = rk_xstrdup(t->libvirt_uri);
	trace(lv, tray, "open", t->libvirt_uri);
	rc = rk_deadline_run(opening_run, opening_free, o, ms, lv->env.cancel, err);
	if (rc != 0) {
		if (rc != RK_CANCELLED)
			rk_err_while(err, "tray \"%s\": libvirt at %s", t->name, t->libvirt_uri);
		return rc;
	}
	if (o->conn) {
		lv->links[tray].conn = rk_steal(&o->conn);
		lv->links[tray].uri = rk_steal(&o->uri);
	} else {
		struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
		rk_str_add_escaped(&text, o->message, strnlen(o->message, 600));
		rc = rk_err_set(err, RK_UNREACHABLE, "tray \"%s\": libvirt at %s: %s", t->name, t->libvirt_uri, rk_str_text(&text));
		rk_err_hint(err, "try: virsh -c '%s' list", t->libvirt_uri);
	}
	opening_free(o);
	return rc;
}

/* Takes the tray's lock; on success the caller gives it back with `leave`. */
static int enter(struct rk_hv *hv, int tray, bool changes, virConnectPtr *ret, struct rk_err *err)
{
	struct libvirt *lv = (struct libvirt *)hv;

	if (tray < 0 || (size_t)tray >= lv->n_links)
		return rk_err_set(err, RK_BUG, "tray index %d was not there when the drivers were opened", tray);
	if (changes && lv->env.read_only)
		return rk_err_set(err, RK_INVALID, "--read-only: nothing is changed on tray \"%s\"", hv->site->trays[tray].name);
	if (!hv->site->trays[tray].libvirt_uri)
		return rk_err_set(err, RK_INVALID, "tray \"%s\": the site file gives it no libvirt URI", hv->site->trays[tray].name);
	struct link *link = &lv->links[tray];
	pthread_mutex_lock(&link->lock);
	if (link->conn && (virConnectIsAlive(link->conn) != 1 || !rk_streq(link->uri, hv->site->trays[tray].libvirt_uri)))
		link_drop(link);
	int rc = link->conn ? 0 : open_link(lv, tray, err);
	if (rc != 0)
		pthread_mutex_unlock(&link->lock);
	else
		*ret = link->conn;
	return rc;
}

static int leave(struct rk_hv *hv, int tray, int rc)
{
	struct link *link = &((struct libvirt *)hv)->links[tray];

	if (rc == RK_UNREACHABLE && virConnectIsAlive(link->conn) != 1)
		link_drop(link);
	pthread_mutex_unlock(&link->lock);
	return rc;
}

static void cleanup_domain(virDomainPtr *domain)
{
	if (*domain)
		virDomainFree(*domain);
}
#define CLEANUP_DOMAIN RK_CLEANUP(cleanup_domain)

static void cleanup_pool(virStoragePoolPtr *pool)
{
	if (*pool)
		virStoragePoolFree(*pool);
}
#define CLEANUP_POOL RK_CLEANUP(cleanup_pool)

static void cleanup_volume(virStorageVolPtr *volume)
{
	if (*volume)
		virStorageVolFree(*volume);
}
#define CLEANUP_VOLUME RK_CLEANUP(cleanup_volume)

static bool last_is(int code)
{
	virErrorPtr error = virGetLastError();

	return error && error->code == code;
}

/* --- probe --------------------------------------------------------------------------------------------------------------------- */

static int lv_probe(struct rk_hv *hv, int tray, struct rk_arena *arena, struct rk_hostcaps *ret, struct rk_err *err)
{
	struct libvirt *lv = (struct libvirt *)hv;
	virConnectPtr conn;
	int rc = enter(hv, tray, false, &conn, err);

	if (rc != 0)
		return rc;
	struct rk_hostcaps caps = { .probed = true };
	char *xml RK_CLEANUP_FREE = virConnectGetCapabilities(conn);
	if (!xml || virConnectGetLibVersion(conn, &caps.libvirt) != 0)
		return leave(hv, tray, failed(lv, tray, "reading the capabilities", err));
	if (virConnectGetVersion(conn, &caps.qemu) != 0)
		caps.qemu = 0;
	rc = rk_hostcaps_read(xml, arena, &caps, err);
	if (rc)
		return leave(hv, tray, rc);
	/* Domain capabilities for type kvm exist only where KVM can be used. */
	char *kvm RK_CLEANUP_FREE = virConnectGetDomainCapabilities(conn, NULL, caps.arch, NULL, "kvm", 0);
	char *any RK_CLEANUP_FREE = kvm ? NULL : virConnectGetDomainCapabilities(conn, NULL, caps.arch, NULL, NULL, 0);
	const char *domain = kvm ? kvm : any;
	caps.kvm = kvm != NULL;
	if (domain)
		rc = rk_hostcaps_read_domain(domain, &caps, err);
	*ret = caps;
	return leave(hv, tray, rc);
}

static int lv_devices(struct rk_hv *hv, int tray, struct rk_arena *arena, const char ***ret_xml, size_t *ret_n, struct rk_err *err)
{
	struct libvirt *lv = (struct libvirt *)hv;
	virNodeDevicePtr *all = NULL;
	virConnectPtr conn;
	int rc = enter(hv, tray, false, &conn, err);

	if (rc != 0)
		return rc;
	int n = virConnectListAllNodeDevices(conn, &all, VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV);
	if (n < 0)
		return leave(hv, tray, failed(lv, tray, "listing the PCI functions", err));
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
	return leave(hv, tray, 0);
}

/* --- domains ------------------------------------------------------------------------------------------------------------------- */

/* Fills *ret from a domain that may vanish meanwhile. */
static int describe(struct libvirt *lv, int tray, virDomainPtr domain, struct rk_arena *arena, struct rk_hv_domain *ret, struct rk_err *err)
{
	char uuid[VIR_UUID_STRING_BUFLEN];
	int state = 0, reason = 0;

	if (virDomainGetState(domain, &state, &reason, 0) != 0 || virDomainGetUUIDString(domain, uuid) != 0)
		return last_is(VIR_ERR_NO_DOMAIN) ? 0 : failed(lv, tray, "reading the state of a domain", err);
	char *xml RK_CLEANUP_FREE = virDomainGetXMLDesc(domain, VIR_DOMAIN_XML_INACTIVE);
	if (!xml)
		return last_is(VIR_ERR_NO_DOMAIN) ? 0 : failed(lv, tray, "reading a domain", err);
	ret->exists = true;
	ret->running = state != VIR_DOMAIN_SHUTOFF && state != VIR_DOMAIN_CRASHED;
	ret->ours = strstr(xml, namespace) != NULL;
	ret->name = rk_arena_strdup(arena, virDomainGetName(domain));
	ret->uuid = rk_arena_strdup(arena, uuid);
	ret->xml = rk_arena_strdup(arena, xml);
	return 0;
}

static int lv_domain_get(struct rk_hv *hv, int tray, const char *name, struct rk_arena *arena, struct rk_hv_domain *ret, struct rk_err *err)
{
	struct libvirt *lv = (struct libvirt *)hv;
	virConnectPtr conn;
	int rc = enter(hv, tray, false, &conn, err);

	if (rc != 0)
		return rc;
	*ret = (struct rk_hv_domain){ .name = rk_arena_strdup(arena, name) };
	virDomainPtr domain CLEANUP_DOMAIN = virDomainLookupByName(conn, name);
	if (domain)
		rc = describe(lv, tray, domain, arena, ret, err);
	else if (!last_is(VIR_ERR_NO_DOMAIN))
		rc = failed(lv, tray, "looking for a domain", err);
	return leave(hv, tray, rc);
}

static int lv_domain_list(struct rk_hv *hv, int tray, struct rk_arena *arena, struct rk_hv_domain **ret, size_t *ret_n, struct rk_err *err)
{
	struct libvirt *lv = (struct libvirt *)hv;
	virConnectPtr conn;
	virDomainPtr *all = NULL;
	int rc = enter(hv, tray, false, &conn, err);

	if (rc != 0)
		return rc;
	int n = virConnectListAllDomains(conn, &all, 0);
	if (n < 0)
		return leave(hv, tray, failed(lv, tray, "listing the domains", err));
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
	return leave(hv, tray, rc);
}

static int lv_define(struct rk_hv *hv, int tray, const char *xml, struct rk_arena *arena, const char **ret_xml, struct rk_err *err)
{
	struct libvirt *lv = (struct libvirt *)hv;
	virConnectPtr conn;
	int rc = enter(hv, tray, true, &conn, err);

	if (rc != 0)
		return rc;
	trace(lv, tray, "define", xml);
	virDomainPtr domain CLEANUP_DOMAIN = virDomainDefineXMLFlags(conn, xml, is_test(lv->links[tray].uri) ? 0 : VIR_DOMAIN_DEFINE_VALIDATE);
	char *kept RK_CLEANUP_FREE = domain ? virDomainGetXMLDesc(domain, VIR_DOMAIN_XML_INACTIVE | VIR_DOMAIN_XML_SECURE) : NULL;
	if (!kept)
		rc = failed(lv, tray, domain ? "reading the domain back" : "defining the domain", err);
	else
		*ret_xml = rk_arena_strdup(arena, kept);
	return leave(hv, tray, rc);
}

/* Runs act on the named domain. absent_rc is what an absent domain means. */
static int on_domain(struct rk_hv *hv, int tray, const char *name, const char *what, int absent_rc, int (*act)(struct libvirt *, virDomainPtr),
		     struct rk_err *err)
{
	struct libvirt *lv = (struct libvirt *)hv;
	virConnectPtr conn;
	int rc = enter(hv, tray, true, &conn, err);

	if (rc != 0)
		return rc;
	trace(lv, tray, what, name);
	virDomainPtr domain CLEANUP_DOMAIN = virDomainLookupByName(conn, name);
	if (!domain && last_is(VIR_ERR_NO_DOMAIN))
		return leave(hv, tray, absent_rc ? rk_err_set(err, absent_rc, "tray \"%s\": there is no domain \"%s\"", hv->site->trays[tray].name, name) : 0);
	if (!domain || act(lv, domain) != 0)
		rc = failed(lv, tray, what, err);
	return leave(hv, tray, rc);
}

static bool dead(virDomainPtr domain)
{
	int state = VIR_DOMAIN_NOSTATE, reason;

	if (virDomainGetState(domain, &state, &reason, 0) != 0)
		return last_is(VIR_ERR_NO_DOMAIN);
	return state == VIR_DOMAIN_SHUTOFF;
}

static int act_start(struct libvirt *lv, virDomainPtr domain)
{
	(void)lv;
	return virDomainIsActive(domain) == 1 ? 0 : virDomainCreate(domain);
}

static int act_shutdown(struct libvirt *lv, virDomainPtr domain)
{
	(void)lv;
	return dead(domain) ? 0 : virDomainShutdown(domain);
}

/* libvirt itself waits up to 64 s for a guest with 12 host devices; then the death is looked for, not believed. */
static int act_destroy(struct libvirt *lv, virDomainPtr domain)
{
	if (dead(domain))
		return 0;
	int rc = virDomainDestroy(domain);
	if (rc != 0 && !last_is(VIR_ERR_OPERATION_INVALID) && !last_is(VIR_ERR_NO_DOMAIN))
		return dead(domain) ? 0 : rc;
	for (int waited = 0; waited <= DESTROY_MS; waited += 250) {
		if (dead(domain))
			return 0;
		rk_clock_sleep_ms(lv->env.clock, 250);
	}
	return -1;
}

static int act_undefine(struct libvirt *lv, virDomainPtr domain)
{
	/* Older daemons and drivers refuse flags they do not know: from the most thorough to the plain form. */
	static const unsigned int flags[] = {
		VIR_DOMAIN_UNDEFINE_NVRAM | VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA | VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA,
		VIR_DOMAIN_UNDEFINE_NVRAM | VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA,
		VIR_DOMAIN_UNDEFINE_NVRAM,
		0,
	};

	(void)lv;
	for (size_t i = 0; i < RK_ARRAY_SIZE(flags); i++)
		if (virDomainUndefineFlags(domain, flags[i]) == 0 || last_is(VIR_ERR_NO_DOMAIN))
			return 0;
	return -1;
}

static int lv_start(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	return on_domain(hv, tray, name, "starting the domain", RK_NOT_FOUND, act_start, err);
}

static int lv_shutdown(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	return on_domain(hv, tray, name, "shutting the domain down", RK_NOT_FOUND, act_shutdown, err);
}

static int lv_destroy(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	return on_domain(hv, tray, name, "stopping the domain", 0, act_destroy, err);
}

static int lv_undefine(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	return on_domain(hv, tray, name, "undefining the domain", 0, act_undefine, err);
}

/* --- volumes ------------------------------------------------------------------------------------------------------------------- */

/* The pool, active and with a fresh listing: volumes may have come or gone behind libvirt's back. */
static virStoragePoolPtr open_pool(virConnectPtr conn, const char *name)
{
	virStoragePoolPtr pool = virStoragePoolLookupByName(conn, name);

	if (pool && virStoragePoolIsActive(pool) == 0 && virStoragePoolCreate(pool, 0) != 0) {
		virStoragePoolFree(pool);
		return NULL;
	}
	if (pool)
		virStoragePoolRefresh(pool, 0);
	return pool;
}

static int lv_volume_get(struct rk_hv *hv, int tray, const char *pool_name, const char *name, struct rk_arena *arena, struct rk_hv_volume *ret,
			 struct rk_err *err)
{
	struct libvirt *lv = (struct libvirt *)hv;
	virConnectPtr conn;
	virStorageVolInfo info;
	int rc = enter(hv, tray, false, &conn, err);

	if (rc != 0)
		return rc;
	*ret = (struct rk_hv_volume){ 0 };
	virStoragePoolPtr pool CLEANUP_POOL = open_pool(conn, pool_name);
	if (!pool)
		return leave(hv, tray, failed(lv, tray, "opening the storage pool", err));
	virStorageVolPtr volume CLEANUP_VOLUME = virStorageVolLookupByName(pool, name);
	if (!volume)
		return leave(hv, tray, last_is(VIR_ERR_NO_STORAGE_VOL) ? 0 : failed(lv, tray, "looking for a volume", err));
	char *path RK_CLEANUP_FREE = virStorageVolGetPath(volume);
	if (!path || virStorageVolGetInfo(volume, &info) != 0)
		return leave(hv, tray, failed(lv, tray, "reading a volume", err));
	*ret = (struct rk_hv_volume){ true, info.capacity, rk_arena_strdup(arena, path) };
	return leave(hv, tray, 0);
}

static int lv_volume_list(struct rk_hv *hv, int tray, const char *pool_name, struct rk_arena *arena, const char ***ret, size_t *ret_n, struct rk_err *err)
{
	struct libvirt *lv = (struct libvirt *)hv;
	virConnectPtr conn;
	virStorageVolPtr *all = NULL;
	int rc = enter(hv, tray, false, &conn, err);

	if (rc != 0)
		return rc;
	virStoragePoolPtr pool CLEANUP_POOL = open_pool(conn, pool_name);
	int n = pool ? virStoragePoolListAllVolumes(pool, &all, 0) : -1;
	if (n < 0)
		return leave(hv, tray, failed(lv, tray, "listing the volumes", err));
	const char **names = rk_arena_array(arena, n ? (size_t)n : 1, sizeof(*names));
	for (int i = 0; i < n; i++) {
		names[i] = rk_arena_strdup(arena, virStorageVolGetName(all[i]));
		virStorageVolFree(all[i]);
	}
	free(all);
	*ret = names;
	*ret_n = (size_t)n;
	return leave(hv, tray, 0);
}

struct backing {
	char *path;
	const char *format;
	uint64_t bytes;
};

/* "pool/volume" -> path, format and size on the host. */
static int find_backing(struct libvirt *lv, int tray, virConnectPtr conn, const char *where, struct backing *ret, struct rk_err *err)
{
	const char *slash = strchr(where, '/');
	virStorageVolInfo info;

	if (!slash || slash == where || !slash[1])
		return rk_err_set(err, RK_INVALID, "image volume \"%s\" is not \"pool/volume\"", where);
	char *pool_name RK_CLEANUP_FREE = rk_xstrndup(where, (size_t)(slash - where));
	virStoragePoolPtr pool CLEANUP_POOL = open_pool(conn, pool_name);
	virStorageVolPtr volume CLEANUP_VOLUME = pool ? virStorageVolLookupByName(pool, slash + 1) : NULL;
	char *xml RK_CLEANUP_FREE = volume ? virStorageVolGetXMLDesc(volume, 0) : NULL;
	if (!xml || virStorageVolGetInfo(volume, &info) != 0) {
		int rc = failed(lv, tray, "opening the image", err);
		rk_err_hint(err, "the image \"%s\" must be in the storage pool of the tray", where);
		return rc;
	}
	ret->format = rk_volume_format(xml);
	if (!ret->format)
		return rk_err_set(err, RK_INVALID, "tray \"%s\": image \"%s\" is neither qcow2 nor raw", lv->hv.site->trays[tray].name, where);
	ret->bytes = info.capacity;
	ret->path = virStorageVolGetPath(volume);
	return ret->path ? 0 : failed(lv, tray, "reading the path of the image", err);
}

static int lv_volume_overlay(struct rk_hv *hv, int tray, const char *pool_name, const char *name, const char *backing, struct rk_err *err)
{
	struct libvirt *lv = (struct libvirt *)hv;
	struct rk_str xml RK_CLEANUP_STR = RK_STR_INIT;
	struct backing base = { 0 };
	virConnectPtr conn;
	int rc = enter(hv, tray, true, &conn, err);

	if (rc != 0)
		return rc;
	if ((rc = find_backing(lv, tray, conn, backing, &base, err)) != 0)
		return leave(hv, tray, rc);
	char *path RK_CLEANUP_FREE = base.path;
	rk_volume_xml(&xml, name, base.bytes, "qcow2", path, base.format);
	virStoragePoolPtr pool CLEANUP_POOL = open_pool(conn, pool_name);
	if (!pool)
		return leave(hv, tray, failed(lv, tray, "opening the storage pool", err));
	trace(lv, tray, "volume create", rk_str_text(&xml));
	virStorageVolPtr volume CLEANUP_VOLUME = virStorageVolCreateXML(pool, rk_str_text(&xml), 0);
	if (!volume)
		rc = last_is(VIR_ERR_STORAGE_VOL_EXIST) ? rk_err_set(err, RK_CONFLICT, "tray \"%s\": volume \"%s\" is there already", hv->site->trays[tray].name, name)
							: failed(lv, tray, "creating the overlay", err);
	return leave(hv, tray, rc);
}

/* Bytes of the file behind a volume, whatever disk it describes; 0 when they cannot be read. */
static uint64_t physical_bytes(virStorageVolPtr volume)
{
	virStorageVolInfo info;

	return virStorageVolGetInfoFlags(volume, &info, VIR_STORAGE_VOL_GET_PHYSICAL) == 0 ? info.allocation : 0;
}

/* Ends a transfer that went so far with rc: only a finished stream is data on the host. stream may be NULL. Returns the transfer's rc. */
static int end_stream(virStreamPtr stream, int rc)
{
	if (!stream)
		return rc;
	if (rc == 0)
		rc = virStreamFinish(stream);
	else
		virStreamAbort(stream);
	virStreamFree(stream);
	return rc;
}

static int upload(virConnectPtr conn, virStorageVolPtr volume, const char *data, size_t len)
{
	virStreamPtr stream = virStreamNew(conn, 0);
	int rc = stream ? virStorageVolUpload(volume, stream, 0, len, 0) : -1;

	for (size_t sent = 0; rc == 0 && sent < len;) {
		int n = virStreamSend(stream, data + sent, len - sent < 65536 ? len - sent : 65536);
		if (n < 0)
			rc = -1;
		else
			sent += (size_t)n;
	}
	return end_stream(stream, rc);
}

static int lv_volume_put(struct rk_hv *hv, int tray, const char *pool_name, const char *name, const void *data, size_t len, struct rk_err *err)
{
	struct libvirt *lv = (struct libvirt *)hv;
	struct rk_str xml RK_CLEANUP_STR = RK_STR_INIT;
	virConnectPtr conn;
	int rc = enter(hv, tray, true, &conn, err);

	if (rc != 0)
		return rc;
	virStoragePoolPtr pool CLEANUP_POOL = open_pool(conn, pool_name);
	if (!pool)
		return leave(hv, tray, failed(lv, tray, "opening the storage pool", err));
	virStorageVolPtr old CLEANUP_VOLUME = virStorageVolLookupByName(pool, name);
	if (old && physical_bytes(old) == len) {
		trace(lv, tray, "volume upload in place", name);
		return leave(hv, tray, upload(conn, old, data, len) != 0 ? failed(lv, tray, "uploading a volume", err) : 0);
	}
	if (old && virStorageVolDelete(old, 0) != 0 && !last_is(VIR_ERR_NO_STORAGE_VOL))
		return leave(hv, tray, failed(lv, tray, "replacing a volume", err));
	rk_volume_xml(&xml, name, len, "raw", NULL, NULL);
	trace(lv, tray, "volume create and upload", rk_str_text(&xml));
	virStorageVolPtr volume CLEANUP_VOLUME = virStorageVolCreateXML(pool, rk_str_text(&xml), 0);
	if (!volume)
		return leave(hv, tray, failed(lv, tray, "creating a volume", err));
	if (upload(conn, volume, data, len) != 0) {
		rc = failed(lv, tray, "uploading a volume", err);
		virStorageVolDelete(volume, 0); /* half a seed must not look like one */
	}
	return leave(hv, tray, rc);
}

/* Bytes [offset, offset + n) of a local file into the volume. */
static int upload_piece(virConnectPtr conn, virStorageVolPtr volume, int fd, uint64_t offset, uint64_t n)
{
	char *buffer RK_CLEANUP_FREE = rk_xmalloc(PIECE);
	virStreamPtr stream = virStreamNew(conn, 0);
	int rc = stream ? virStorageVolUpload(volume, stream, offset, n, 0) : -1;

	for (uint64_t sent = 0; rc == 0 && sent < n;) {
		ssize_t got = pread(fd, buffer, n - sent < PIECE ? (size_t)(n - sent) : PIECE, (off_t)(offset + sent));
		int went = got > 0 ? virStreamSend(stream, buffer, (size_t)got) : -1;
		if (went < 0)
			rc = -1;
		else
			sent += (uint64_t)went;
	}
	return end_stream(stream, rc);
}

/* Does the host have the same bytes there as the local file? */
static bool same_bytes(virConnectPtr conn, virStorageVolPtr volume, int fd, uint64_t offset, size_t n)
{
	char *ours RK_CLEANUP_FREE = rk_xmalloc(PIECE), *theirs RK_CLEANUP_FREE = rk_xmalloc(PIECE);
	virStreamPtr stream = virStreamNew(conn, 0);
	bool good = stream && virStorageVolDownload(volume, stream, offset, n, 0) == 0;
	size_t got = 0;

	while (good && got < n) {
		int came = virStreamRecv(stream, theirs + got, n - got);
		good = came > 0;
		got += good ? (size_t)came : 0;
	}
	if (stream && (!good || virStreamFinish(stream) != 0))
		virStreamAbort(stream);
	if (stream)
		virStreamFree(stream);
	return good && pread(fd, ours, n, (off_t)offset) == (ssize_t)n && memcmp(ours, theirs, n) == 0;
}

static int upload_all(struct libvirt *lv, int tray, virConnectPtr conn, virStorageVolPtr volume, const struct rk_hv_upload *up, struct rk_err *err)
{
	uint64_t end = up->bytes < PIECE ? up->bytes : PIECE, done = up->done;

	if (done > up->bytes || done < end || !same_bytes(conn, volume, up->fd, done - end, (size_t)end))
		done = 0;
	while (done < up->bytes) {
		uint64_t n = up->bytes - done < CHUNK ? up->bytes - done : CHUNK;
		if (upload_piece(conn, volume, up->fd, done, n) != 0)
			return failed(lv, tray, "uploading an image", err);
		done += n;
		if (!up->progress(up->ctx, done))
			return rk_err_set(err, RK_CANCELLED, "tray \"%s\": stopped after %llu of %llu bytes", lv->hv.site->trays[tray].name,
					  (unsigned long long)done, (unsigned long long)up->bytes);
	}
	if (!same_bytes(conn, volume, up->fd, 0, (size_t)end) || !same_bytes(conn, volume, up->fd, up->bytes - end, (size_t)end))
		return rk_err_set(err, RK_FAILED, "tray \"%s\": the image reads back otherwise than it was written", lv->hv.site->trays[tray].name);
	return 0;
}

static int lv_volume_upload(struct rk_hv *hv, int tray, const char *pool_name, const char *name, const struct rk_hv_upload *up, struct rk_err *err)
{
	struct libvirt *lv = (struct libvirt *)hv;
	struct rk_str xml RK_CLEANUP_STR = RK_STR_INIT;
	virConnectPtr conn;
	int rc = enter(hv, tray, true, &conn, err);

	if (rc != 0)
		return rc;
	virStoragePoolPtr pool CLEANUP_POOL = open_pool(conn, pool_name);
	if (!pool)
		return leave(hv, tray, failed(lv, tray, "opening the storage pool", err));
	virStorageVolPtr volume CLEANUP_VOLUME = virStorageVolLookupByName(pool, name);
	if (volume && physical_bytes(volume) != up->bytes)
		return leave(hv, tray, rk_err_set(err, RK_CONFLICT, "tray \"%s\": volume \"%s/%s\" is there with another length", hv->site->trays[tray].name,
						  pool_name, name));
	if (!volume) {
		/* Raw, whatever is inside: libvirt looks at the content when it lists the pool again. */
		rk_volume_xml(&xml, name, up->bytes, "raw", NULL, NULL);
		trace(lv, tray, "volume create and upload", rk_str_text(&xml));
		volume = virStorageVolCreateXML(pool, rk_str_text(&xml), 0);
	}
	rc = volume ? upload_all(lv, tray, conn, volume, up, err) : failed(lv, tray, "creating a volume", err);
	virStoragePoolRefresh(pool, 0);
	return leave(hv, tray, rc);
}

static int lv_volume_delete(struct rk_hv *hv, int tray, const char *pool_name, const char *name, struct rk_err *err)
{
	struct libvirt *lv = (struct libvirt *)hv;
	virConnectPtr conn;
	int rc = enter(hv, tray, true, &conn, err);

	if (rc != 0)
		return rc;
	virStoragePoolPtr pool CLEANUP_POOL = open_pool(conn, pool_name);
	if (!pool)
		return leave(hv, tray, failed(lv, tray, "opening the storage pool", err));
	trace(lv, tray, "volume delete", name);
	virStorageVolPtr volume CLEANUP_VOLUME = virStorageVolLookupByName(pool, name);
	if (!volume ? !last_is(VIR_ERR_NO_STORAGE_VOL) : virStorageVolDelete(volume, 0) != 0 && !last_is(VIR_ERR_NO_STORAGE_VOL))
		rc = failed(lv, tray, "deleting a volume", err);
	return leave(hv, tray, rc);
}

/* --- the rest ------------------------------------------------------------------------------------------------------------------ */

static int lv_scrub(struct rk_hv *hv, int tray, struct rk_err *err)
{
	struct rk_driver_env env = ((struct libvirt *)hv)->env;

	env.site = hv->site;
	return rk_scrub(&env, tray, err);
}

static void lv_free(struct rk_hv *hv)
{
	struct libvirt *lv = (struct libvirt *)hv;

	for (size_t i = 0; i < lv->n_links; i++) {
		link_drop(&lv->links[i]);
		pthread_mutex_destroy(&lv->links[i].lock);
	}
	free(lv->links);
	free(lv);
}

static const struct rk_hv_ops ops = {
	.probe = lv_probe,
	.devices = lv_devices,
	.domain_get = lv_domain_get,
	.domain_list = lv_domain_list,
	.define = lv_define,
	.start = lv_start,
	.shutdown = lv_shutdown,
	.destroy = lv_destroy,
	.undefine = lv_undefine,
	.volume_get = lv_volume_get,
	.volume_list = lv_volume_list,
	.volume_overlay = lv_volume_overlay,
	.volume_upload = lv_volume_upload,
	.volume_put = lv_volume_put,
	.volume_delete = lv_volume_delete,
	.scrub = lv_scrub,
	.free = lv_free,
};

int rk_hv_libvirt(const struct rk_driver_env *env, struct rk_hv **ret, struct rk_err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct libvirt *lv = rk_xcalloc(1, sizeof(*lv));

	(void)err;
	pthread_once(&once, set_up);
	lv->hv = (struct rk_hv){ &ops, env->site };
	lv->env = *env;
	lv->n_links = env->site->n_trays;
	lv->links = rk_xcalloc(lv->n_links ? lv->n_links : 1, sizeof(*lv->links));
	for (size_t i = 0; i < lv->n_links; i++)
		pthread_mutex_init(&lv->links[i].lock, NULL);
	*ret = &lv->hv;
	return 0;
}
