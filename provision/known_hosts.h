/* known_hosts lines (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"): plain, wildcard, negated, [host]:port and hashed names. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "inventory/base/mem.h"

struct rk_host_key {
	const char *type;  /* "ssh-ed25519" */
	const char *blob;  /* base64 */
	bool revoked;      /* @revoked: must be refused */
};
struct rk_host_keys {
	struct rk_host_key *items;
	size_t n;
};
/* Keys that the text has for host and port (22 is the plain name, others "[host]:port"). In the arena. Certificate authorities are not
 * used. A line that cannot be read is passed over, as ssh does. */
struct rk_host_keys rk_known_hosts_find(const char *text, size_t len, const char *host, int port, struct rk_arena *arena);
/* One pinned "type base64 [comment]". False when it is none. */
bool rk_host_key_parse(const char *text, struct rk_arena *arena, struct rk_host_key *ret);
