/* Certificates of hosts (OpenSSH, PROTOCOL.certkeys): an authority that known_hosts names has signed which key belongs to which names and when. */
#pragma once
#include "inventory/base/err.h"
#include "inventory/base/mem.h"
#include "provision/known_hosts.h"
#include "provision/ssh_wire.h"

/* The kinds of keys that are taken, cheap ones first: a server that has several shows the first that it can. */
struct rk_host_cert_kind {
	const char *key, *key_algorithms; /* how the key is called, and what to ask a server for to be shown one */
	const char *cert, *cert_algorithms; /* its certificate likewise */
	int fields;                   /* strings that make up the key */
};
enum { RK_HOST_CERT_KINDS = 5 };
extern const struct rk_host_cert_kind rk_host_cert_kinds[RK_HOST_CERT_KINDS];

/* All borrowed from the bytes it was parsed from. */
struct rk_host_cert {
	const struct rk_host_cert_kind *kind;
	struct rk_bytes key;          /* the fields of the plain key, without its type */
	uint64_t serial, after, before; /* good from `after` until just before `before`, seconds since 1970 */
	uint32_t type;                /* 1: of a user, 2: of a host */
	struct rk_bytes id, principals, options, authority, signature;
	struct rk_bytes covered;      /* what the signature is of */
};
/* RK_INVALID: no certificate of a kind that is taken. Says nothing of whether it is true. */
int rk_host_cert_parse(struct rk_bytes bytes, struct rk_host_cert *ret, struct rk_err *err);
/* Does it prove its key for a host of this name (as it was asked for, without a port), at that time, by one of the authorities among `keys`? The key is
 * then *ret (in the arena); file and line are those of the authority. Accepted is what every release of OpenSSH accepts: names are compared literally
 * but for the case of `host`, a certificate without names is for no host. RK_UNREACHABLE with the reason. Still to be shown: that the host has the key. */
int rk_host_cert_judge(const struct rk_host_cert *cert, const char *host, int64_t now, const struct rk_host_keys *keys, struct rk_arena *arena,
		       struct rk_host_key *ret, struct rk_err *err);
/* "id" (serial N) for people; in the arena, fit for a terminal. */
const char *rk_host_cert_name(const struct rk_host_cert *cert, struct rk_arena *arena);
