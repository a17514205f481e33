#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "provision/deadline.h"
#include "provision/drivers/hv_libvirt_impl.h"
#include "provision/drivers/scrub.h"

enum { OPEN_MS = 20000, KEEPALIVE_S = 5, KEEPALIVE_COUNT = 4 };

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

int rk_lv_failed(struct rk_libvirt *lv, int tray, const char *what, struct rk_err *err)
{
	virErrorPtr error = virGetLastError();
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	const char *message = error && error->message ? error->message : "libvirt tells of no error, but it was not done";
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

void rk_lv_trace(struct rk_libvirt *lv, int tray, const char *what, const char *text)
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

bool rk_lv_is_test(const char *uri)
{
	return strncmp(uri, "test:", 5) == 0;
}

static void opening_run(void *ctx)
{
	struct opening *o = ctx;
	int types[] = { VIR_CRED_AUTHNAME, VIR_CRED_PASSPHRASE, VIR_CRED_ECHOPROMPT, VIR_CRED_NOECHOPROMPT, VIR_CRED_EXTERNAL };
	virConnectAuth auth = { types, RK_ARRAY_SIZE(types), refuse, NULL };

	o->conn = virConnectOpenAuth(o->uri, &auth, rk_lv_is_test(o->uri) ? 0 : VIR_CONNECT_NO_ALIASES);
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

static void link_drop(struct rk_lv_link *link)
{
	if (link->conn)
		virConnectClose(link->conn);
	link->conn = NULL;
	free(rk_steal(&link->uri));
}

static int open_link(struct rk_libvirt *lv, int tray, struct rk_err *err)
{
	const struct rk_tray *t = &lv->hv.site->trays[tray];
	struct opening *o = rk_xcalloc(1, sizeof(*o));
	int ms = lv->env.timeout_ms > 0 ? lv->env.timeout_ms : OPEN_MS, rc;

	o->uri = rk_xstrdup(t->libvirt_uri);
	rk_lv_trace(lv, tray, "open", t->libvirt_uri);
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

int rk_lv_enter(struct rk_hv *hv, int tray, bool changes, virConnectPtr *ret, struct rk_err *err)
{
	struct rk_libvirt *lv = (struct rk_libvirt *)hv;

	if (tray < 0 || (size_t)tray >= lv->n_links)
		return rk_err_set(err, RK_BUG, "tray index %d was not there when the drivers were opened", tray);
	if (changes && lv->env.read_only)
		return rk_err_set(err, RK_INVALID, "--read-only: nothing is changed on tray \"%s\"", hv->site->trays[tray].name);
	if (!hv->site->trays[tray].libvirt_uri)
		return rk_err_set(err, RK_INVALID, "tray \"%s\": the site file gives it no libvirt URI", hv->site->trays[tray].name);
	struct rk_lv_link *link = &lv->links[tray];
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

int rk_lv_leave(struct rk_hv *hv, int tray, int rc)
{
	struct rk_lv_link *link = &((struct rk_libvirt *)hv)->links[tray];

	if (rc == RK_UNREACHABLE && virConnectIsAlive(link->conn) != 1)
		link_drop(link);
	pthread_mutex_unlock(&link->lock);
	return rc;
}

bool rk_lv_last_is(int code)
{
	virErrorPtr error = virGetLastError();

	return error && error->code == code;
}

/* --- the rest ------------------------------------------------------------------------------------------------------------------ */

static int rk_lv_scrub(struct rk_hv *hv, int tray, struct rk_err *err)
{
	struct rk_driver_env env = ((struct rk_libvirt *)hv)->env;

	env.site = hv->site;
	return rk_scrub(&env, tray, err);
}

static void rk_lv_free(struct rk_hv *hv)
{
	struct rk_libvirt *lv = (struct rk_libvirt *)hv;

	for (size_t i = 0; i < lv->n_links; i++) {
		link_drop(&lv->links[i]);
		pthread_mutex_destroy(&lv->links[i].lock);
	}
	free(lv->links);
	free(lv);
}

static const struct rk_hv_ops ops = {
	.probe = rk_lv_probe,
	.devices = rk_lv_devices,
	.domain_get = rk_lv_domain_get,
	.domain_list = rk_lv_domain_list,
	.define = rk_lv_define,
	.start = rk_lv_start,
	.shutdown = rk_lv_shutdown,
	.destroy = rk_lv_destroy,
	.undefine = rk_lv_undefine,
	.volume_get = rk_lv_volume_get,
	.volume_list = rk_lv_volume_list,
	.volume_read = rk_lv_volume_read,
	.volume_overlay = rk_lv_volume_overlay,
	.volume_upload = rk_lv_volume_upload,
	.volume_put = rk_lv_volume_put,
	.volume_delete = rk_lv_volume_delete,
	.scrub = rk_lv_scrub,
	.free = rk_lv_free,
};

int rk_hv_libvirt(const struct rk_driver_env *env, struct rk_hv **ret, struct rk_err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct rk_libvirt *lv = rk_xcalloc(1, sizeof(*lv));

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
