/* Logging in: by agent or key file, never by password. */
#include <libssh/libssh.h>
#include <string.h>
#include <unistd.h>

#include "inventory/base/clock.h"
#include "provision/ssh_impl.h"

struct login {
	struct rk_ssh *ssh;
	struct rk_arena *arena;
	int64_t until;
	int result;                   /* SSH_AUTH_... of the last try */
	struct rk_str tried;          /* for people */
};

static void tried(struct login *l, const char *what)
{
	rk_str_addf(&l->tried, "%s%s", l->tried.len ? ", " : "", what);
}

static int hung_up(struct login *l, struct rk_err *err)
{
	const char *why = ssh_get_error(l->ssh->session);
	int rc = rk_ssh_unreachable(l->ssh, "authentication", why, err);

	if (strstr(why, "Too many"))
		rk_err_hint(err, "each key that is offered counts (MaxAuthTries of its sshd): name the right one with ssh.identityFile in the site file");
	return rc;
}

/* key: NULL for those of the agent. */
static int try_key(struct login *l, ssh_key key, struct rk_err *err)
{
	for (;;) {
		l->result = key ? ssh_userauth_publickey(l->ssh->session, NULL, key) : ssh_userauth_agent(l->ssh->session, NULL);
		if (l->result != SSH_AUTH_SUCCESS && !ssh_is_connected(l->ssh->session))
			return hung_up(l, err);
		if (l->result != SSH_AUTH_AGAIN)
			return 0;
		int rc = rk_ssh_wait(l->ssh, l->until, "authentication", err);
		if (rc != 0)
			return rc;
	}
}

static int silent_agent(struct login *l, struct rk_err *err)
{
	if (l->ssh->cancel && *l->ssh->cancel)
		return rk_err_set(err, RK_CANCELLED, "cancelled");
	rk_ssh_unreachable(l->ssh, "authentication", "timed out: the agent (SSH_AUTH_SOCK) does not answer", err);
	rk_err_hint(err, "an agent that was forwarded is gone with its connection: unset SSH_AUTH_SOCK, or name a key with ssh.identityFile in the site file");
	return RK_UNREACHABLE;
}

static int try_agent(struct login *l, struct rk_err *err)
{
	struct rk_ssh_agent *agent;
	int fd, rc = rk_ssh_agent_open(l->ssh, l->until, &agent, &fd, err);

	if (rc)
		return rc == RK_NOT_FOUND ? 0 : rc;
	tried(l, "keys of the agent");
	ssh_set_agent_socket(l->ssh->session, fd);
	rc = try_key(l, NULL, err);
	bool cut = rk_ssh_agent_close(agent);
	return !rc && cut && l->result != SSH_AUTH_SUCCESS ? silent_agent(l, err) : rc;
}

static int try_plain(struct login *l, const char *file, struct rk_err *err)
{
	ssh_key key = NULL;

	if (ssh_pki_import_privkey_file(file, NULL, NULL, NULL, &key) != SSH_OK) {
		rk_err_set(err, RK_UNREACHABLE, "ssh %s: authentication: the key \"%s\" cannot be read", l->ssh->name, file);
		rk_err_hint(err, "it must exist, be readable for you and have no passphrase; keys with one belong into the agent");
		return RK_UNREACHABLE;
	}
	tried(l, file);
	int rc = try_key(l, key, err);
	ssh_key_free(key);
	return rc;
}

/* OpenSSH's convention: FILE-cert.pub is the certificate of FILE. One that is no good is as one that is not there: the key itself may be. */
static int try_certified(struct login *l, const char *file, struct rk_err *err)
{
	const char *beside = rk_arena_printf(l->arena, "%s-cert.pub", file);
	ssh_key key = NULL, cert = NULL;
	int rc = 0;

	if (access(beside, F_OK) != 0)
		return 0;
	bool good = ssh_pki_import_privkey_file(file, NULL, NULL, NULL, &key) == SSH_OK && ssh_pki_import_cert_file(beside, &cert) == SSH_OK &&
		    ssh_pki_copy_cert_to_privkey(cert, key) == SSH_OK;
	tried(l, good ? beside : rk_arena_printf(l->arena, "%s cannot be used", beside));
	if (good)
		rc = try_key(l, key, err);
	ssh_key_free(cert);
	ssh_key_free(key);
	return rc;
}

static int try_file(struct login *l, const char *file, struct rk_err *err)
{
	int rc = try_certified(l, file, err);

	return rc || l->result == SSH_AUTH_SUCCESS ? rc : try_plain(l, file, err);
}

static int not_accepted(struct login *l, struct rk_err *err)
{
	if (l->tried.len)
		rk_err_set(err, RK_UNREACHABLE, "ssh %s: authentication: the public key was not accepted (%s)", l->ssh->name, l->tried.text);
	else
		rk_err_set(err, RK_UNREACHABLE, "ssh %s: authentication: there is no key: no agent answers, and ~/.ssh/id_ed25519 is not there", l->ssh->name);
	rk_err_hint(err, "name a key with ssh.identityFile in the site file, or load one into the agent; ssh-keygen -L -f CERTIFICATE says whom it is for and until when");
	return RK_UNREACHABLE;
}

static int try_all(struct login *l, const char *file, struct rk_err *err)
{
	const char *home = getenv("HOME");
	int rc = file ? 0 : try_agent(l, err);

	if (!rc && !file && l->result != SSH_AUTH_SUCCESS && home) {
		const char *usual = rk_arena_printf(l->arena, "%s/.ssh/id_ed25519", home);
		file = access(usual, R_OK) == 0 ? usual : NULL;
	}
	if (!rc && file && l->result != SSH_AUTH_SUCCESS)
		rc = try_file(l, file, err);
	return rc || l->result == SSH_AUTH_SUCCESS ? rc : not_accepted(l, err);
}

int rk_ssh_authenticate(struct rk_ssh *ssh, const struct rk_ssh_opening *open, struct rk_err *err)
{
	struct login l = { ssh, open->arena, rk_clock_ms(NULL) + ssh->limits.auth_ms, SSH_AUTH_DENIED, RK_STR_INIT };
	int rc = try_all(&l, open->target->identity_file, err);

	rk_str_clear(&l.tried);
	return rc;
}
