#include <string.h>

#include "provision/steps.h"

/* After the first boot the private host key is needed nowhere but in the guest: it goes from the seed on the tray and from the store. */

/* Ends of `cloud-init status`; a guest without cloud-init has taken its key in some other way before SSH answered with it. */
static bool finished(const struct rk_ssh_result *result)
{
	static const char *const words[] = { "status: done", "status: error", "status: disabled", "status: degraded" };
	const char *text = rk_str_text(&result->out);

	for (size_t i = 0; i < RK_ARRAY_SIZE(words); i++)
		if (strstr(text, words[i]))
			return true;
	return result->status == 127;
}

static int first_boot_over(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	static const char *const argv[] = { "cloud-init", "status", NULL };
	struct rk_ssh_result result = { .status = -1 };
	struct rk_vm_conn *conn = NULL;
	int vm, rc = rk_param_vm(world, step, &vm, err);

	if (!rc)
		rc = rk_vm_connect(world, vm, 0, &conn, err);
	if (!rc)
		rc = rk_vm_run(conn, argv, &result, err);
	*ret = !rc && finished(&result);
	rk_ssh_result_clear(&result);
	rk_vm_close(conn);
	return rc;
}

/* A guest without a disk of its own has nowhere to keep its key: it reads the seed at every boot, and the seed stays as it is. */
static int seal_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err late = RK_ERR_INIT;
	struct rk_vm_job j;
	int rc = rk_vm_job_to_make(world, step, &j, err);

	if (rc || !step->data || !j.image->volume)
		return rc;
	rc = rk_wait_until(world, step, "the end of the first boot", first_boot_over, &late);
	if (rc == RK_UNREACHABLE) {
		/* The guest works; its key lies in two places longer than it should. */
		step->note = "cloud-init did not finish in time: the seed keeps the host key until vm reboot or start finds it finished";
		step->data = NULL;
		return 0;
	}
	if (rc) {
		if (err)
			rk_err_move(err, &late);
		return rc;
	}
	return rk_put_seed(world, step, &j, true, err);
}

static int seal_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	return undone || !step->data ? 0 : rk_store_clear_vm_host_key(world->store, rk_param(step, "vm"), err);
}

const struct rk_step_kind rk_seal_steps[] = {
	{ .name = "vm.seal", .summary = "take the private host key out of the seed and the store", .deadline_ms = 600000, .prepare = rk_fetch_host_key,
	  .apply = seal_apply, .settle = seal_settle },
	{ .name = NULL },
};
