/* known_hosts lines (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"): plain, wildcard, negated, [host]:port and hashed names; @revoked and @cert-authority. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "inventory/base/err.h"
#include "inventory/base/mem.h"

enum rk_host_key_mark {
	RK_HOST_KEY_KNOWN,     /* a key of the host */
	RK_HOST_KEY_REVOKED,   /* must be refused, as a host's key and as an authority */
	RK_HOST_KEY_AUTHORITY, /* signs certificates of hosts */
};
struct rk_host_key {
	const char *type;  /* "ssh-ed25519" */
	const char *blob;  /* base64 */
	enum rk_host_key_mark mark;
	const char *file;  /* where it stands; NULL: it was pinned */
	size_t line;       /* from 1 */
};
/* As many as were found; starts as { 0 }. */
struct rk_host_keys {
	struct rk_host_key *items;
	size_t n;
};
void rk_host_keys_add(struct rk_host_keys *keys, const struct rk_host_key *key, struct rk_arena *arena);
bool rk_host_keys_have(const struct rk_host_keys *keys, enum rk_host_key_mark mark);

/* A file that was read once. Immutable: any number of threads may look. */
struct rk_known_hosts;
/* A line that cannot be read is passed over, as ssh does; `name` is the file of the keys. */
struct rk_known_hosts *rk_known_hosts_parse(const char *name, const char *text, size_t len);
void rk_known_hosts_free(struct rk_known_hosts *known);
/* Adds the keys that it has for host and port (22 is the plain name, others "[host]:port"); in the arena. Authorities and revoked keys of the plain
 * name count for every port: certificates name hosts and no ports. */
void rk_known_hosts_find(const struct rk_known_hosts *known, const char *host, int port, struct rk_arena *arena, struct rk_host_keys *keys);
/* The same for a file, which is read and parsed only when it has changed; a file that is not there says nothing. Any thread. */
int rk_known_hosts_add(const char *path, const char *host, int port, struct rk_arena *arena, struct rk_host_keys *keys, struct rk_err *err);
/* One pinned "type base64 [comment]". False when it is none. */
bool rk_host_key_parse(const char *text, struct rk_arena *arena, struct rk_host_key *ret);
