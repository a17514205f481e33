/* Logging in: by agent or key file, never by password. */
#include <libssh/libssh.h>
#include <unistd.h>

#include "inventory/base/clock.h"
#include "provision/ssh_impl.h"

static int auth_loop(struct rk_ssh *ssh, ssh_key key, int64_t until, int *ret, struct rk_err *err)
{
	for (;;) {
		int rc = key ? ssh_userauth_publickey(ssh->session, NULL, key) : ssh_userauth_agent(ssh->session, NULL);
		if (rc != SSH_AUTH_AGAIN) {
			*ret = rc;
			return 0;
		}
		if ((rc = rk_ssh_wait(ssh, until, "authentication", err)) != 0)
			return rc;
	}
}

static int auth_file(struct rk_ssh *ssh, const char *file, struct rk_arena *arena, int64_t until, int *ret, struct rk_err *err)
{
	ssh_key key = NULL;

	if (ssh_pki_import_privkey_file(file, NULL, NULL, NULL, &key) != SSH_OK) {
		rk_err_set(err, RK_UNREACHABLE, "ssh %s: authentication: the key \"%s\" cannot be read", ssh->name, file);
		rk_err_hint(err, "it must exist, be readable for you and have no passphrase; keys with one belong into the agent");
		return RK_UNREACHABLE;
	}
	ssh_key cert = NULL;
	/* OpenSSH's convention: FILE-cert.pub is the certificate of FILE. */
	const char *beside = rk_arena_printf(arena, "%s-cert.pub", file);
	if (access(beside, R_OK) == 0 && ssh_pki_import_cert_file(beside, &cert) == SSH_OK)
		(void)!ssh_pki_copy_cert_to_privkey(cert, key);
	int rc = auth_loop(ssh, key, until, ret, err);
	ssh_key_free(cert);
	ssh_key_free(key);
	return rc;
}

int rk_ssh_authenticate(struct rk_ssh *ssh, const struct rk_ssh_opening *open, struct rk_err *err)
{
	int64_t until = rk_clock_ms(NULL) + ssh->limits.auth_ms;
	const char *file = open->target->identity_file, *home = getenv("HOME");
	int rc = 0, result = SSH_AUTH_DENIED;

	if (!file && getenv("SSH_AUTH_SOCK") && (rc = auth_loop(ssh, NULL, until, &result, err)) != 0)
		return rc;
	if (!file && result != SSH_AUTH_SUCCESS && home) {
		const char *usual = rk_arena_printf(open->arena, "%s/.ssh/id_ed25519", home);
		file = access(usual, R_OK) == 0 ? usual : NULL;
	}
	if (file && result != SSH_AUTH_SUCCESS && (rc = auth_file(ssh, file, open->arena, until, &result, err)) != 0)
		return rc;
	if (result == SSH_AUTH_SUCCESS)
		return 0;
	if (!ssh_is_connected(ssh->session))
		return rk_ssh_unreachable(ssh, "authentication", ssh_get_error(ssh->session), err);
	rk_err_set(err, RK_UNREACHABLE, "ssh %s: authentication: the public key was not accepted (%s)", ssh->name, file ? file : "agent");
	rk_err_hint(err, "name a key with ssh.identityFile in the site file, or load one into the agent");
	return RK_UNREACHABLE;
}
