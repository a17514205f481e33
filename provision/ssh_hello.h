/* The unencrypted beginning of SSH (RFC 4253 sections 4.2, 6 to 8; RFC 5656; RFC 8731), as far as the certificate that a server shows, and no further:
 * no secret comes of it, and nothing a server says here is trusted. Bytes in, bytes out; whoever uses it moves them. */
#pragma once
#include "inventory/base/err.h"
#include "provision/ssh_wire.h"

enum rk_ssh_hello_stage { RK_SSH_HELLO_VERSION, RK_SSH_HELLO_KEXINIT, RK_SSH_HELLO_REPLY, RK_SSH_HELLO_DONE };
struct rk_ssh_hello {
	enum rk_ssh_hello_stage stage; /* what is waited for */
	struct rk_str out;             /* to be sent; whoever sends takes it away */
	struct rk_str key;             /* DONE: the certificate, as it was shown */
	struct rk_str in;              /* came and is not used yet */
	size_t taken;                  /* bytes, all together */
	const char *ciphers, *macs;    /* to offer; borrowed */
};
/* ciphers, macs: name-lists, which must live as long. Clear with rk_ssh_hello_clear. */
void rk_ssh_hello_begin(struct rk_ssh_hello *hello, const char *ciphers, const char *macs);
void rk_ssh_hello_clear(struct rk_ssh_hello *hello);
/* What the server sent. RK_NOT_FOUND: it has no certificate of a kind that is taken. RK_UNREACHABLE: it is no SSH server, gave up, or says too much. */
int rk_ssh_hello_take(struct rk_ssh_hello *hello, const void *bytes, size_t n, struct rk_err *err);
