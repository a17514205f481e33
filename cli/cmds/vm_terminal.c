#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cmds/vm.h"
#include "inventory/base/json.h"

/* Programs of the system that take over the terminal. */

/* Runs argv here and waits for it. Its exit status, -1 when it did not end by itself. */
static int run_here(const char *const *argv)
{
	int status = 0;

	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGPIPE, SIG_DFL);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		if (rk_app_ending())
			kill(pid, SIGTERM);
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *user_of(struct rk_call *call, const struct rk_cluster *c)
{
	RK_CLEANUP_JSON struct rk_json *spec = NULL;

	if (rk_json_parse("spec", c->spec, strlen(c->spec), &spec, NULL))
		return "root";
	return rk_arena_strdup(call->arena, rk_jstr(rk_jget(rk_jget(rk_json_root(spec), "ssh"), "user")));
}

static FILE *temporary(char *path)
{
	int fd = mkstemp(path);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (!file && fd >= 0) {
		close(fd);
		unlink(path);
	}
	return file;
}

static void close_temporary(FILE *file, const char *path)
{
	if (!file)
		return;
	fclose(file);
	unlink(path);
}

/* The way of the system's client through the jump hosts, each with its pinned key; nothing without any. */
static int write_jumps(struct rk_call *call, const struct rk_vm *vm, FILE *config, struct rk_err *err)
{
	const struct rk_ssh_conf *conf = &call->world->site->trays[vm->tray].ssh;
	struct rk_ssh_target hops[RK_SSH_HOPS_MAX] = { 0 };
	size_t n = 0;
	int rc = conf->jump && *conf->jump ? rk_ssh_parse_jump(conf->jump, call->arena, hops, &n, err) : 0;

	for (size_t i = 0; !rc && i < n; i++) {
		fprintf(config, "Host racksh-hop-%zu\nHostName %s\nPort %d\nStrictHostKeyChecking yes\n", i, hops[i].host, hops[i].port ? hops[i].port : 22);
		if (hops[i].user)
			fprintf(config, "User %s\n", hops[i].user);
		if (conf->known_hosts)
			fprintf(config, "UserKnownHostsFile %s\n", conf->known_hosts);
		if (conf->identity_file)
			fprintf(config, "IdentityFile %s\n", conf->identity_file);
		if (i)
			fprintf(config, "ProxyJump racksh-hop-%zu\n", i - 1);
	}
	if (!rc && n)
		fprintf(config, "Host %s\nProxyJump racksh-hop-%zu\n", vm->address, n - 1);
	return rc;
}

/* The system's client with exactly the pinned key: a known_hosts file of one line, removed afterwards. */
int rk_cmd_vm_ssh(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	char path[] = "/tmp/racksh-known.XXXXXX", config_path[] = "/tmp/racksh-ssh.XXXXXX";
	int vm, rc = rk_one_vm(call, &vm, err);

	if (rc)
		return rc;
	if (call->world->sim)
		return rk_err_set(err, RK_INVALID, "the twin's guests have no SSH server; use vm exec");
	const struct rk_vm *v = &site->vms[vm];
	if (call->dry_run)
		return rk_out_note(call->out, "would log in to %s", v->name), 0;
	FILE *known = temporary(path), *config = known ? temporary(config_path) : NULL;
	if (!known || !config) {
		close_temporary(known, path);
		return rk_err_set(err, RK_FAILED, "cannot make a temporary file");
	}
	fprintf(known, "[%s]:%d %s\n%s %s\n", v->address, v->ssh_port, v->host_key_public, v->address, v->host_key_public);
	rc = write_jumps(call, v, config, err);
	fflush(config);
	bool jumps = ftell(config) > 0;
	fflush(known);
	const char *identity = site->trays[v->tray].ssh.identity_file;
	const char *argv[17] = { "ssh", "-o", rk_arena_printf(call->arena, "UserKnownHostsFile=%s", path), "-o", "StrictHostKeyChecking=yes", "-o",
				 "GlobalKnownHostsFile=/dev/null", "-p", rk_arena_printf(call->arena, "%d", v->ssh_port), "-l",
				 user_of(call, &site->clusters[v->cluster]) };
	size_t n = 11;
	if (jumps) {
		argv[n++] = "-F";
		argv[n++] = config_path;
	}
	if (identity) {
		argv[n++] = "-i";
		argv[n++] = identity;
	}
	argv[n] = v->address;
	int status = rc ? 0 : run_here(argv);
	close_temporary(known, path);
	close_temporary(config, config_path);
	if (rc)
		return rc;
	if (status < 0)
		return rk_err_set(err, RK_FAILED, "the ssh client did not end normally");
	if (status == 255)
		return rk_err_set(err, RK_UNREACHABLE, "the ssh client could not reach VM \"%s\"", v->name);
	return status ? rk_err_set(err, RK_FAILED, "the session on VM \"%s\" ended with status %d", v->name, status) : 0;
}

int rk_cmd_vm_console(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	int vm, rc = rk_one_vm(call, &vm, err);

	if (rc)
		return rc;
	if (call->world->sim)
		return rk_err_set(err, RK_INVALID, "the twin's guests have no console; use vm exec");
	const struct rk_vm *v = &site->vms[vm];
	const char *uri = site->trays[v->tray].libvirt_uri;
	const char *argv[] = { "virsh", "-q", "-c", uri, "console", "--safe", rk_vm_domain_name(call->arena, rk_vm_host_name(v)), NULL };
	if (!uri)
		return rk_err_set(err, RK_INVALID, "no libvirt URI is known for tray %s", site->trays[v->tray].name);
	if (call->dry_run)
		return rk_out_note(call->out, "would open the console of %s", v->name), 0;
	int status = run_here(argv);
	if (status == 127) {
		rk_err_set(err, RK_FAILED, "there is no virsh here");
		rk_err_hint(err, "it is in the package libvirt-clients");
		return RK_FAILED;
	}
	return status ? rk_err_set(err, RK_UNREACHABLE, "the console of VM \"%s\" could not be opened", v->name) : 0;
}
