#include "provision/discover.h"

#include <stdlib.h>

#include "provision/sim.h"

struct rk_host_conn {
	struct rk_world *world;
	struct rk_ssh *ssh; /* NULL: the twin */
	int tray;
};

static int open_host(struct rk_world *world, const struct rk_tray *t, struct rk_ssh **ret, struct rk_err *err)
{
	const struct rk_ssh_limits limits = { .command_ms = world->env.timeout_ms, .idle_ms = world->env.timeout_ms };
	const struct rk_ssh_target target = {
		.host = t->ssh_host && *t->ssh_host ? t->ssh_host : t->name,
		.port = t->ssh.port,
		.user = t->ssh.user,
		.known_hosts = t->ssh.known_hosts,
		.identity_file = t->ssh.identity_file,
		.jump = t->ssh.jump,
	};

	return rk_ssh_open(&target, &limits, world->env.trace, world->env.cancel, ret, err);
}

int rk_host_connect(struct rk_world *world, int tray, struct rk_host_conn **ret, struct rk_err *err)
{
	struct rk_ssh *ssh = NULL;
	int rc = world->sim ? 0 : open_host(world, &world->site->trays[tray], &ssh, err);

	if (rc)
		return rc;
	*ret = rk_xcalloc(1, sizeof(**ret));
	**ret = (struct rk_host_conn){ world, ssh, tray };
	return 0;
}

int rk_host_run(struct rk_host_conn *conn, const char *const *argv, struct rk_ssh_result *result, struct rk_err *err)
{
	if (conn->ssh)
		return rk_ssh_run_tied(conn->ssh, argv, result, err);
	return rk_sim_host_run(conn->world->sim, conn->world->site, conn->tray, argv, result, err);
}

void rk_host_close(struct rk_host_conn *conn)
{
	if (!conn)
		return;
	rk_ssh_close(conn->ssh);
	free(conn);
}
