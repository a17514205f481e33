/* Whom to trust: pinned keys, or what known_hosts files say. */
#include <libssh/libssh.h>
#include <stdio.h>
#include <string.h>

#include "provision/ssh_impl.h"

static const char *default_known_hosts(struct rk_arena *arena)
{
	const char *home = getenv("HOME");

	return rk_arena_printf(arena, "%s/.ssh/known_hosts /etc/ssh/ssh_known_hosts", home ? home : "");
}

/* An authority vouches for hosts by certificates. The SSH library cannot check one, and to take the key in it unchecked would be no check. */
static int only_authority(struct rk_ssh *ssh, const struct rk_ssh_opening *open, struct rk_err *err)
{
	rk_err_set(err, RK_UNREACHABLE, "ssh %s: host key: only a certificate authority is named for the host (%s, line %zu), and certificates of hosts are not taken",
		   ssh->name, open->keys.authority_file, open->keys.authority_line);
	rk_err_hint(err, "the SSH library cannot verify them: add the host's own key as a plain line (ssh-keyscan -t ed25519 -p %d %s prints it)", open->port,
		    open->target->host);
	return RK_UNREACHABLE;
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
		open->keys = (struct rk_host_keys){ .items = rk_arena_alloc(open->arena, sizeof(*open->keys.items)), .n = 1 };
		if (!rk_host_key_parse(open->target->host_key, open->arena, open->keys.items))
			return rk_err_set(err, RK_INVALID, "ssh %s: the pinned host key is no public key", ssh->name);
		return 0;
	}
	const char *files = open->target->known_hosts ? open->target->known_hosts : default_known_hosts(open->arena);
	char *rest = rk_arena_strdup(open->arena, files);
	int rc = 0;
	for (char *file; !rc && (file = strsep(&rest, " ")) != NULL;)
		rc = *file ? rk_known_hosts_add(file, open->target->host, open->port, open->arena, &open->keys, err) : 0;
	if (rc != 0)
		return rk_err_while(err, "ssh %s: known hosts", ssh->name);
	for (size_t i = 0; i < open->keys.n; i++)
		if (!open->keys.items[i].revoked)
			return 0;
	return open->keys.authority_file ? only_authority(ssh, open, err) : unknown_host(ssh, open, files, err);
}

int rk_ssh_host_key_algorithms(struct rk_ssh *ssh, const struct rk_ssh_opening *open, const char **ret, struct rk_err *err)
{
	/* Cheap ones first: a server that has several shows the first it can. */
	static const struct {
		const char *type, *algorithms;
	} rows[] = {
		{ "ssh-ed25519", "ssh-ed25519" },
		{ "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256" },
		{ "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384" },
		{ "ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521" },
		{ "ssh-rsa", "rsa-sha2-512,rsa-sha2-256" },
	};
	struct rk_str list RK_CLEANUP_STR = RK_STR_INIT, other RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t r = 0; r < RK_ARRAY_SIZE(rows); r++) {
		bool known = false;
		for (size_t i = 0; i < open->keys.n; i++)
			known |= !open->keys.items[i].revoked && strcmp(open->keys.items[i].type, rows[r].type) == 0;
		if (known)
			rk_str_addf(&list, "%s%s", list.len ? "," : "", rows[r].algorithms);
	}
	for (size_t i = 0; !list.len && i < open->keys.n; i++) {
		rk_str_add(&other, other.len ? ", " : "");
		rk_str_add_escaped(&other, open->keys.items[i].type, strlen(open->keys.items[i].type));
	}
	*ret = rk_arena_strdup(open->arena, rk_str_text(&list));
	return list.len ? 0 : rk_ssh_unreachable(ssh, "host key: a key of this kind is not taken, an ed25519, ECDSA or RSA key is", rk_str_text(&other), err);
}

int rk_ssh_check_host_key(struct rk_ssh *ssh, const struct rk_ssh_opening *open, struct rk_err *err)
{
	ssh_key key = NULL;
	char *blob = NULL, *print = NULL;
	unsigned char *hash = NULL;
	size_t hash_len = 0;
	bool good = false, revoked = false;

	if (ssh_get_server_publickey(ssh->session, &key) != SSH_OK || ssh_pki_export_pubkey_base64(key, &blob) != SSH_OK) {
		ssh_key_free(key);
		return rk_ssh_unreachable(ssh, "host key", "none was shown", err);
	}
	for (size_t i = 0; i < open->keys.n; i++) {
		bool same = rk_streq(open->keys.items[i].blob, blob);
		good |= same && !open->keys.items[i].revoked;
		revoked |= same && open->keys.items[i].revoked;
	}
	if (!good || revoked) {
		if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &hash_len) == SSH_OK)
			print = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, hash_len);
		rk_err_set(err, RK_UNREACHABLE, "ssh %s: host key: %s (it shows %s)", ssh->name,
			   revoked ? "the key is revoked" : "not the key that is known: reinstalled, or somebody in between", print ? print : "an odd key");
		rk_err_hint(err, "find out why before you replace the known key");
	}
	ssh_clean_pubkey_hash(&hash);
	ssh_string_free_char(print);
	ssh_string_free_char(blob);
	ssh_key_free(key);
	return good && !revoked ? 0 : RK_UNREACHABLE;
}
