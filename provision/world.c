#include "provision/world.h"

#include <string.h>

#include "inventory/base/json.h"
#include "provision/sim.h"

/* Drivers, the environment and the world look at the same snapshot. */
static void point_to(struct rk_world *world, struct rk_site *site)
{
	world->site = site;
	world->env.site = site;
	if (world->hv)
		world->hv->site = site;
	if (world->nvl)
		world->nvl->site = site;
	if (world->ib)
		world->ib->site = site;
}

int rk_world_drivers(struct rk_world *world, struct rk_err *err)
{
	int rc = 0;

	world->env.site = world->site;
	if (!world->memo)
		world->memo = rk_domain_memo_new();
	if (!world->hv)
		rc = world->sim ? rk_sim_hv(world->sim, &world->env, &world->hv, err) : rk_hv_libvirt(&world->env, &world->hv, err);
	if (rc == 0 && !world->nvl)
		rc = world->sim ? rk_sim_nvl(world->sim, &world->env, &world->nvl, err) : rk_nvl_open(&world->env, &world->nvl, err);
	if (rc == 0 && !world->ib)
		rc = world->sim ? rk_sim_ib(world->sim, &world->env, &world->ib, err) : rk_ib_open(&world->env, &world->ib, err);
	return rc;
}

static void close_drivers(struct rk_world *world)
{
	if (world->hv)
		world->hv->ops->free(world->hv);
	if (world->nvl)
		world->nvl->ops->free(world->nvl);
	if (world->ib)
		world->ib->ops->free(world->ib);
	world->hv = NULL;
	world->nvl = NULL;
	world->ib = NULL;
}

void rk_world_limits(struct rk_world *world, int jobs, int timeout_ms)
{
	if (world->env.timeout_ms != timeout_ms)
		close_drivers(world);
	world->jobs = jobs;
	world->env.timeout_ms = timeout_ms;
}

int rk_world_refresh(struct rk_world *world, struct rk_err *err)
{
	struct rk_site *fresh = NULL, *old = world->site;
	int rc = rk_store_snapshot(world->store, &fresh, err);

	if (rc != 0)
		return rc;
	/* Drivers keep state per tray, rack and fabric: another inventory needs other handles. */
	bool grown = old && (old->n_trays != fresh->n_trays || old->n_racks != fresh->n_racks || old->n_fabrics != fresh->n_fabrics), were_open = world->hv != NULL;
	if (grown)
		close_drivers(world);
	point_to(world, fresh);
	rk_site_free(old);
	return grown && were_open ? rk_world_drivers(world, err) : 0;
}

void rk_world_close(struct rk_world *world)
{
	close_drivers(world);
	rk_domain_memo_free(world->memo);
	world->memo = NULL;
	if (world->sim)
		rk_sim_close(world->sim);
	world->sim = NULL;
	rk_site_free(world->site);
	world->site = NULL;
	world->env.site = NULL;
	rk_store_close(world->store);
	world->store = NULL;
}

/* --- guests -------------------------------------------------------------------------------------------------------------------- */

struct rk_vm_conn {
	struct rk_ssh *ssh;               /* a real guest */
	struct rk_sim *sim;               /* or the twin's */
	const struct rk_site *site;       /* the world's snapshot at that time */
	int tray;
};

/* spec.ssh.user of the VM's cluster; in the arena, NULL when there is none. */
static const char *guest_user(const struct rk_cluster *cluster, struct rk_arena *arena)
{
	struct rk_json *spec RK_CLEANUP_JSON = NULL;
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;

	if (!cluster->spec || rk_json_parse(cluster->name, cluster->spec, strlen(cluster->spec), &spec, &ignored) != 0)
		return NULL;
	return rk_arena_strdup(arena, rk_jstr(rk_jget(rk_jget(rk_json_root(spec), "ssh"), "user")));
}

static int open_guest(struct rk_world *world, const struct rk_vm *vm, int total_ms, struct rk_ssh **ret, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ssh_limits limits = { .command_ms = world->env.timeout_ms, .idle_ms = world->env.timeout_ms, .total_ms = total_ms };
	const struct rk_tray *tray = vm->tray == RK_NONE ? NULL : &world->site->trays[vm->tray];

	if (!vm->address || !*vm->address)
		return rk_err_set(err, RK_UNREACHABLE, "vm \"%s\": no address is known", vm->name);
	if (!vm->host_key_public)
		return rk_err_set(err, RK_UNREACHABLE, "vm \"%s\": no host key is known, and none that was not pinned is trusted", vm->name);
	struct rk_ssh_target target = {
		.host = vm->address,
		.port = vm->ssh_port,
		.user = guest_user(&world->site->clusters[vm->cluster], arena),
		.host_key = vm->host_key_public,
		.identity_file = tray ? tray->ssh.identity_file : NULL,
		.known_hosts = tray ? tray->ssh.known_hosts : NULL, /* for jump hosts only: the guest's key is pinned */
		.jump = tray ? tray->ssh.jump : NULL,
	};
	int rc = rk_ssh_open(&target, &limits, world->env.trace, world->env.cancel, ret, err);
	return rc == 0 || rc == RK_CANCELLED ? rc : (rk_err_while(err, "vm \"%s\"", vm->name), rc);
}

int rk_vm_connect(struct rk_world *world, int vm, int total_ms, struct rk_vm_conn **ret, struct rk_err *err)
{
	struct rk_vm_conn *conn = rk_xcalloc(1, sizeof(*conn));
	/* The twin waits for nothing, but of a thousand VMs the others need not be asked any more. */
	int rc = world->cancel && *world->cancel ? rk_err_set(err, RK_CANCELLED, "cancelled") : 0;

	conn->sim = world->sim;
	conn->site = world->site;
	conn->tray = world->site->vms[vm].tray;
	if (!rc && !world->sim)
		rc = open_guest(world, &world->site->vms[vm], total_ms, &conn->ssh, err);
	if (rc != 0) {
		free(conn);
		return rc;
	}
	*ret = conn;
	return 0;
}

int rk_vm_run(struct rk_vm_conn *conn, const char *const *argv, struct rk_ssh_result *result, struct rk_err *err)
{
	if (conn->sim)
		return rk_sim_guest_run(conn->sim, conn->site, conn->tray, argv, result, err);
	return rk_ssh_run(conn->ssh, argv, NULL, 0, result, err);
}

int rk_vm_run_tied(struct rk_vm_conn *conn, const char *const *argv, struct rk_ssh_result *result, struct rk_err *err)
{
	return conn->sim ? rk_vm_run(conn, argv, result, err) : rk_ssh_run_tied(conn->ssh, argv, result, err);
}

void rk_vm_limit(struct rk_vm_conn *conn, int idle_ms, int command_ms)
{
	if (conn->ssh)
		rk_ssh_limit(conn->ssh, idle_ms, command_ms);
}

void rk_vm_close(struct rk_vm_conn *conn)
{
	if (!conn)
		return;
	rk_ssh_close(conn->ssh);
	free(conn);
}
