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
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		;
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *user_of(struct rk_call *call, const struct rk_cluster *c)
{
	RK_CLEANUP_JSON struct rk_json *spec = NULL;

	if (rk_json_parse("spec", c->spec, strlen(c->spec), &spec, NULL))
		return "root";
	return rk_arena_strdup(call->arena, rk_jstr(rk_jget(rk_jget(rk_json_root(spec), "ssh"), "user")));
}

/* The system's client with exactly the pinned key: a known_hosts file of one line, removed afterwards. */
int rk_cmd_vm_ssh(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	char path[] = "/tmp/racksh-known.XXXXXX";
	int vm, rc = rk_one_vm(call, &vm, err);

	if (rc)
		return rc;
	if (call->world->sim)
		return rk_err_set(err, RK_INVALID, "the twin's guests have no SSH server; use vm exec");
	const struct rk_vm *v = &site->vms[vm];
	int fd = mkstemp(path);
	if (fd < 0)
		return rk_err_set(err, RK_FAILED, "cannot make a temporary file");
	dprintf(fd, "[%s]:%d %s\n%s %s\n", v->address, v->ssh_port, v->host_key_public, v->address, v->host_key_public);
	close(fd);
	const char *identity = site->trays[v->tray].ssh.identity_file;
	const char *argv[] = { "ssh", "-o", rk_arena_printf(call->arena, "UserKnownHostsFile=%s", path), "-o", "StrictHostKeyChecking=yes", "-o",
			       "GlobalKnownHostsFile=/dev/null", "-p", rk_arena_printf(call->arena, "%d", v->ssh_port), "-l", user_of(call, &site->clusters[v->cluster]),
			       identity ? "-i" : v->address, identity ? identity : NULL, v->address, NULL };
	int status = run_here(argv);
	unlink(path);
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
	int status = run_here(argv);
	if (status == 127) {
		rk_err_set(err, RK_FAILED, "there is no virsh here");
		rk_err_hint(err, "it is in the package libvirt-clients");
		return RK_FAILED;
	}
	return status ? rk_err_set(err, RK_UNREACHABLE, "the console of VM \"%s\" could not be opened", v->name) : 0;
}
