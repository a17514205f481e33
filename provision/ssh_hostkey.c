/* Whom to trust: pinned keys, or what known_hosts files say. */
#include <libssh/libssh.h>
#include <stdio.h>
#include <string.h>

#include "provision/host_cert.h"
#include "provision/ssh_impl.h"

static const char *default_known_hosts(struct rk_arena *arena)
{
	const char *home = getenv("HOME");

	return rk_arena_printf(arena, "%s/.ssh/known_hosts /etc/ssh/ssh_known_hosts", home ? home : "");
}

static int unknown_host(struct rk_ssh *ssh, const struct rk_ssh_opening *open, const char *files, struct rk_err *err)
{
	rk_err_set(err, RK_UNREACHABLE, "ssh %s: host key: the host is not in \"%s\"", ssh->name, files);
	rk_err_hint(err, "ssh-keyscan -t ed25519 -p %d %s prints its key: compare the fingerprint on the console of the host, then add the line to the file",
		    open->port, open->target->host);
	return RK_UNREACHABLE;
}

int rk_ssh_trusted_keys(struct rk_ssh *ssh, struct rk_ssh_opening *open, struct rk_err *err)
{
	if (open->target->host_key) {
		struct rk_host_key pinned;
		if (!rk_host_key_parse(open->target->host_key, open->arena, &pinned))
			return rk_err_set(err, RK_INVALID, "ssh %s: the pinned host key is no public key", ssh->name);
		rk_host_keys_add(&open->keys, &pinned, open->arena);
		return 0;
	}
	const char *files = open->target->known_hosts ? open->target->known_hosts : default_known_hosts(open->arena);
	char *rest = rk_arena_strdup(open->arena, files);
	int rc = 0;
	for (char *file; !rc && (file = strsep(&rest, " ")) != NULL;)
		rc = *file ? rk_known_hosts_add(file, open->target->host, open->port, open->arena, &open->keys, err) : 0;
	if (rc != 0)
		return rk_err_while(err, "ssh %s: known hosts", ssh->name);
	bool known = rk_host_keys_have(&open->keys, RK_HOST_KEY_KNOWN) || rk_host_keys_have(&open->keys, RK_HOST_KEY_AUTHORITY);
	return known ? 0 : unknown_host(ssh, open, files, err);
}

static bool knows_kind(const struct rk_ssh_opening *open, const char *type)
{
	for (size_t i = 0; i < open->keys.n; i++)
		if (open->keys.items[i].mark == RK_HOST_KEY_KNOWN && rk_streq(open->keys.items[i].type, type))
			return true;
	return false;
}

static int no_kind(struct rk_ssh *ssh, struct rk_ssh_opening *open, struct rk_err *err)
{
	struct rk_str list RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < open->keys.n; i++) {
		if (open->keys.items[i].mark != RK_HOST_KEY_KNOWN)
			continue;
		rk_str_add(&list, list.len ? ", " : "");
		rk_str_add_escaped(&list, open->keys.items[i].type, strlen(open->keys.items[i].type));
	}
	open->doubted = true;
	return rk_ssh_unreachable(ssh, "host key: a key of this kind is not taken, an ed25519, ECDSA or RSA key is", rk_str_text(&list), err);
}

int rk_ssh_host_key_algorithms(struct rk_ssh *ssh, struct rk_ssh_opening *open, const char **ret, struct rk_err *err)
{
	struct rk_str list RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < RK_HOST_CERT_KINDS; i++)
		if (knows_kind(open, rk_host_cert_kinds[i].key))
			rk_str_addf(&list, "%s%s", list.len ? "," : "", rk_host_cert_kinds[i].key_algorithms);
	*ret = rk_arena_strdup(open->arena, rk_str_text(&list));
	return list.len ? 0 : no_kind(ssh, open, err);
}

static int wrong_key(struct rk_ssh *ssh, struct rk_ssh_opening *open, ssh_key key, bool revoked, struct rk_err *err)
{
	const char *why = revoked ? "the key is revoked" :
			  open->certified ? "not the key of the host's certificate: given a new one, or somebody in between" :
					    "not the key that is known: reinstalled, or somebody in between";
	unsigned char *hash = NULL;
	size_t len = 0;
	char *print = NULL;

	open->doubted = !revoked;
	if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &len) == SSH_OK)
		print = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, len);
	rk_err_set(err, RK_UNREACHABLE, "ssh %s: host key: %s (it shows %s)", ssh->name, why, print ? print : "an odd key");
	rk_err_hint(err, "find out why before you replace the known key");
	ssh_clean_pubkey_hash(&hash);
	ssh_string_free_char(print);
	return RK_UNREACHABLE;
}

int rk_ssh_check_host_key(struct rk_ssh *ssh, struct rk_ssh_opening *open, struct rk_err *err)
{
	ssh_key key = NULL;
	char *blob = NULL;
	bool marks[RK_HOST_KEY_AUTHORITY + 1] = { false };
	int rc = 0;

	if (ssh_get_server_publickey(ssh->session, &key) != SSH_OK || ssh_pki_export_pubkey_base64(key, &blob) != SSH_OK)
		rc = rk_ssh_unreachable(ssh, "host key", "none was shown", err);
	for (size_t i = 0; !rc && i < open->keys.n; i++)
		marks[open->keys.items[i].mark] |= rk_streq(open->keys.items[i].blob, blob);
	if (!rc && (!marks[RK_HOST_KEY_KNOWN] || marks[RK_HOST_KEY_REVOKED]))
		rc = wrong_key(ssh, open, key, marks[RK_HOST_KEY_REVOKED], err);
	ssh_string_free_char(blob);
	ssh_key_free(key);
	return rc;
}
