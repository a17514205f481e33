/* Calls to NMX-M, and its operations: accepted first, done later, followed to their end. */
#include "provision/drivers/nmxm_impl.h"

#include <string.h>

/* An operation that makes no progress for ten minutes fails by NMX-M's own rule; nobody waits that long in a step. */
enum { POLL_MS = 1000, OPERATION_MS = 120000 };

/* --- calls --------------------------------------------------------------------------------------------------------------------- */

int rk_nmxm_call(struct rk_nvl_driver *nmxm, int rack, const char *method, const char *path, const char *body, struct rk_rest_reply *reply, struct rk_json **ret,
		struct rk_err *err)
{
	static const struct rk_rest_base base = { "/nmx/v1", NULL, RK_REST_BASIC };
	const struct rk_rest_request request = { .method = method, .path = path, .body = body };
	struct rk_driver_env env = nmxm->env;

	env.site = nmxm->nvl.site;
	return rk_rest_manager_call(rk_nmxm_rest(nmxm, rack), &env, &rk_nvl_rack(nmxm, rack)->nvlink, &base, &request, reply, ret, err);
}

int rk_nmxm_get(struct rk_nvl_driver *nmxm, int rack, const char *path, struct rk_json **ret, struct rk_err *err)
{
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;
	int rc = rk_nmxm_call(nmxm, rack, "GET", path, NULL, &reply, ret, err);

	if (rc == 0 && !*ret)
		rc = rk_err_set(err, RK_UNREACHABLE, "NMX-M's answer to %s is no JSON", path);
	return rc;
}

int rk_nmxm_pause(struct rk_nvl_driver *nmxm, int ms, struct rk_err *err)
{
	if (nmxm->env.cancel && *nmxm->env.cancel)
		return rk_err_set(err, RK_CANCELLED, "cancelled");
	rk_clock_sleep_ms(nmxm->env.clock, ms);
	return 0;
}

/* --- operations ---------------------------------------------------------------------------------------------------------------- */

bool rk_nmxm_is_key(const char *text)
{
	size_t n = text ? strlen(text) : 0;

	return n >= 1 && n <= 64 && strspn(text, "0123456789abcdefABCDEF-") == n;
}

static void cancel_operation(struct rk_nvl_driver *nmxm, int rack, const char *id, const struct rk_nmxm_operation *op)
{
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;
	char *path RK_CLEANUP_FREE = rk_xasprintf("/operations/%s", id);
	const volatile int *cancel = nmxm->env.cancel;

	if (!op->cancellable)
		return;
	/* Also when Ctrl-C is the reason: this call must go out. */
	rk_rest_manager_close(rk_nmxm_rest(nmxm, rack));
	nmxm->env.cancel = NULL;
	(void)rk_nmxm_call(nmxm, rack, "DELETE", path, NULL, &reply, NULL, NULL);
	nmxm->env.cancel = cancel;
	rk_rest_manager_close(rk_nmxm_rest(nmxm, rack));
}

static int operation_over(const struct rk_nmxm_operation *op, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	const char *details = op->details ? op->details : "no reason given";

	rk_str_add_escaped(&text, details, strnlen(details, 300));
	switch (op->state) {
	case RK_NMXM_DONE:
		return 0;
	case RK_NMXM_CANCELLED:
		return rk_err_set(err, RK_FAILED, "somebody cancelled the operation in NMX-M");
	case RK_NMXM_FAILED:
		return rk_err_set(err, RK_FAILED, "NMX-M: %s", rk_str_text(&text));
	default:
		return rk_err_set(err, RK_UNREACHABLE, "NMX-M tells a state of the operation that is not understood");
	}
}

static int wait_operation(struct rk_nvl_driver *nmxm, int rack, const char *id, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char *path = rk_arena_printf(arena, "/operations/%s", id);
	struct rk_nmxm_operation op = { .cancellable = true };

	for (int waited = 0;; waited += POLL_MS) {
		struct rk_json *json RK_CLEANUP_JSON = NULL;
		int rc = rk_nmxm_get(nmxm, rack, path, &json, err);
		if (rc == 0) {
			rk_nmxm_operation(rk_json_root(json), arena, &op);
			if (op.state != RK_NMXM_RUNNING)
				return operation_over(&op, err);
		}
		if (rc == 0 || rc == RK_UNREACHABLE)
			rc = waited >= OPERATION_MS ? RK_UNREACHABLE : rk_nmxm_pause(nmxm, POLL_MS, err);
		if (rc == 0)
			continue;
		cancel_operation(nmxm, rack, id, &op);
		return rc == RK_UNREACHABLE ? rk_err_set(err, rc, "the operation is not done after %d s (%s); whether it will be is not known", OPERATION_MS / 1000,
							 op.step ? op.step : "no step told") :
					      rc;
	}
}

int rk_nmxm_operate(struct rk_nvl_driver *nmxm, int rack, const char *method, const char *path, const char *body, bool *ret_open, struct rk_err *err)
{
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	int rc = rk_nmxm_call(nmxm, rack, method, path, body, &reply, &json, err);

	*ret_open = rc == 0 || reply.maybe_done;
	if (rc)
		return rc;
	const char *id = json ? rk_jstr(rk_jget(rk_json_root(json), "operationId")) : NULL;
	char *location RK_CLEANUP_FREE = rk_rest_header(&reply, "Location");
	if (!id && location && strrchr(location, '/'))
		id = strrchr(location, '/') + 1;
	if (!rk_nmxm_is_key(id))
		return rk_err_set(err, RK_UNREACHABLE, "NMX-M accepted the change without an operation to follow; its outcome is not known");
	rc = wait_operation(nmxm, rack, id, err);
	*ret_open = rc == RK_UNREACHABLE;
	return rc;
}
