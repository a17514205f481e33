/* known_hosts lines (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"): plain, wildcard, negated, [host]:port and hashed names; @revoked and @cert-authority. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "inventory/base/err.h"
#include "inventory/base/mem.h"

struct rk_host_key {
	const char *type;  /* "ssh-ed25519" */
	const char *blob;  /* base64 */
	bool revoked;      /* @revoked: must be refused */
};
struct rk_host_keys {
	struct rk_host_key *items;
	size_t n;
	const char *authority_file; /* where a certificate authority is named for the host, or NULL */
	size_t authority_line;
};

/* A file that was read once. Immutable: any number of threads may look. */
struct rk_known_hosts;
/* A line that cannot be read is passed over, as ssh does; name stands in authority_file. */
struct rk_known_hosts *rk_known_hosts_parse(const char *name, const char *text, size_t len);
void rk_known_hosts_free(struct rk_known_hosts *known);
/* Adds the keys that it has for host and port (22 is the plain name, others "[host]:port"); in the arena. */
void rk_known_hosts_find(const struct rk_known_hosts *known, const char *host, int port, struct rk_arena *arena, struct rk_host_keys *keys);
/* The same for a file, which is read and parsed only when it has changed; a file that is not there says nothing. Any thread. */
int rk_known_hosts_add(const char *path, const char *host, int port, struct rk_arena *arena, struct rk_host_keys *keys, struct rk_err *err);
/* One pinned "type base64 [comment]". False when it is none. */
bool rk_host_key_parse(const char *text, struct rk_arena *arena, struct rk_host_key *ret);
