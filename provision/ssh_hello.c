#include "provision/ssh_hello.h"

#include <string.h>
#include <sys/random.h>

#include "inventory/base/mem.h"
#include "provision/host_cert.h"

enum {
	TAKEN_MAX = 128 << 10,        /* banner, names of algorithms and certificate */
	LINE_MAX_BYTES = 8 << 10,
	PACKET_MAX = 35000,           /* RFC 4253, 6.1 */
	COOKIE = 16, BLOCK = 8, PADDING_MIN = 4,
};
enum message { DISCONNECT = 1, IGNORE = 2, UNIMPLEMENTED = 3, DEBUG = 4, KEXINIT = 20, ECDH_INIT = 30, ECDH_REPLY = 31 };

/* Our half of the exchange is the base point of the curve, as whoever had the secret 1 would send it: nothing is kept secret here, and a server does
 * not mind. The second one is for servers that may only do what FIPS 140 allows. */
static const struct exchange {
	const char *name;
	uint8_t point[65], n;
} exchanges[] = {
	{ "curve25519-sha256", { 9 }, 32 },
	{ "curve25519-sha256@libssh.org", { 9 }, 32 },
	{ "ecdh-sha2-nistp256",
	  { 0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2, 0x77, 0x03, 0x7d, 0x81, 0x2d,
	    0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96, 0x4f, 0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb,
	    0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce, 0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5 },
	  65 },
};

/* --- what is sent -------------------------------------------------------------------------------------------------------------------- */

static void add_packet(struct rk_str *out, const struct rk_str *payload)
{
	static const char zeros[BLOCK + PADDING_MIN];
	size_t padding = BLOCK - (4 + 1 + payload->len) % BLOCK;

	padding += padding < PADDING_MIN ? BLOCK : 0;
	rk_wire_add_u32(out, (uint32_t)(1 + payload->len + padding));
	rk_str_addc(out, (char)padding);
	rk_str_addn(out, payload->text, payload->len);
	rk_str_addn(out, zeros, padding);
}

static void add_text(struct rk_str *out, const char *text)
{
	rk_wire_add_string(out, text, strlen(text));
}

static void add_kexinit(struct rk_str *out, const char *ciphers, const char *macs)
{
	struct rk_str payload RK_CLEANUP_STR = RK_STR_INIT, kex RK_CLEANUP_STR = RK_STR_INIT, certs RK_CLEANUP_STR = RK_STR_INIT;
	char cookie[COOKIE] = { 0 };

	(void)!getrandom(cookie, sizeof(cookie), 0);
	for (size_t i = 0; i < RK_ARRAY_SIZE(exchanges); i++)
		rk_str_addf(&kex, "%s%s", i ? "," : "", exchanges[i].name);
	for (size_t i = 0; i < RK_HOST_CERT_KINDS; i++)
		rk_str_addf(&certs, "%s%s", i ? "," : "", rk_host_cert_kinds[i].cert_algorithms);
	const char *const lists[] = { rk_str_text(&kex), rk_str_text(&certs), ciphers, ciphers, macs, macs, "none", "none", "", "" };
	rk_str_addc(&payload, KEXINIT);
	rk_str_addn(&payload, cookie, sizeof(cookie));
	for (size_t i = 0; i < RK_ARRAY_SIZE(lists); i++)
		add_text(&payload, lists[i]);
	rk_str_addc(&payload, 0); /* no guess follows */
	rk_wire_add_u32(&payload, 0);
	add_packet(out, &payload);
}

void rk_ssh_hello_begin(struct rk_ssh_hello *hello, const char *ciphers, const char *macs)
{
	*hello = (struct rk_ssh_hello){ .stage = RK_SSH_HELLO_VERSION, .ciphers = ciphers, .macs = macs };
	rk_str_add(&hello->out, "SSH-2.0-racksh\r\n");
}

void rk_ssh_hello_clear(struct rk_ssh_hello *hello)
{
	rk_str_clear(&hello->out);
	rk_str_clear(&hello->key);
	rk_str_clear(&hello->in);
}

/* --- what comes ---------------------------------------------------------------------------------------------------------------------- */

static int broken(struct rk_err *err, const char *what)
{
	return rk_err_set(err, RK_UNREACHABLE, "%s", what);
}

/* Lines may come before the version. 1: more is needed. */
static int take_version(struct rk_ssh_hello *h, struct rk_bytes left, size_t *ret_used, struct rk_err *err)
{
	const uint8_t *end = left.n ? memchr(left.at, '\n', left.n) : NULL;
	const char *line = (const char *)left.at;
	size_t n = end ? (size_t)(end - left.at) + 1 : left.n;

	if (n > LINE_MAX_BYTES)
		return broken(err, "it is no SSH server: a line does not end");
	if (!end)
		return 1;
	*ret_used = n;
	if (n < 4 || memcmp(line, "SSH-", 4) != 0)
		return 0;
	if (!(n > 8 && memcmp(line, "SSH-2.0-", 8) == 0) && !(n > 9 && memcmp(line, "SSH-1.99-", 9) == 0))
		return broken(err, "it does not speak version 2 of the protocol");
	h->stage = RK_SSH_HELLO_KEXINIT;
	return 0;
}

static int disconnected(struct rk_wire *payload, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	rk_wire_u32(payload);
	struct rk_bytes why = rk_wire_string(payload);
	rk_str_add_escaped(&text, (const char *)why.at, why.n < 200 ? why.n : 200);
	return rk_err_set(err, RK_UNREACHABLE, "the host ended it: %s", rk_str_text(&text));
}

static bool has_certificate(struct rk_bytes algorithms)
{
	for (size_t i = 0; i < RK_HOST_CERT_KINDS; i++)
		if (rk_name_lists_meet(algorithms, rk_host_cert_kinds[i].cert_algorithms))
			return true;
	return false;
}

/* Only now is ours sent: a server that finds nothing in it may hang up before it has said what it has. */
static int take_kexinit(struct rk_ssh_hello *h, struct rk_wire *payload, struct rk_err *err)
{
	struct rk_str answer RK_CLEANUP_STR = RK_STR_INIT;
	size_t i = 0;

	rk_wire_bytes(payload, COOKIE);
	struct rk_bytes kex = rk_wire_string(payload), algorithms = rk_wire_string(payload);
	if (payload->bad)
		return broken(err, "its list of algorithms is malformed");
	if (!has_certificate(algorithms))
		return rk_err_set(err, RK_NOT_FOUND, "it offers no certificate");
	while (i < RK_ARRAY_SIZE(exchanges) && !rk_name_lists_meet(kex, exchanges[i].name))
		i++;
	if (i == RK_ARRAY_SIZE(exchanges))
		return broken(err, "it knows none of the key exchanges by which certificates are asked for (curve25519-sha256, ecdh-sha2-nistp256)");
	add_kexinit(&h->out, h->ciphers, h->macs);
	rk_str_addc(&answer, ECDH_INIT);
	rk_wire_add_string(&answer, exchanges[i].point, exchanges[i].n);
	add_packet(&h->out, &answer);
	h->stage = RK_SSH_HELLO_REPLY;
	return 0;
}

static int take_reply(struct rk_ssh_hello *h, struct rk_wire *payload, struct rk_err *err)
{
	struct rk_bytes key = rk_wire_string(payload);

	if (payload->bad)
		return broken(err, "its answer is malformed");
	rk_str_addn(&h->key, (const char *)key.at, key.n);
	h->stage = RK_SSH_HELLO_DONE;
	return 0;
}

static int take_message(struct rk_ssh_hello *h, struct rk_bytes bytes, struct rk_err *err)
{
	struct rk_wire payload = rk_wire_of(bytes);
	uint8_t type = rk_wire_u8(&payload);

	if (type == IGNORE || type == UNIMPLEMENTED || type == DEBUG)
		return 0;
	if (type == DISCONNECT)
		return disconnected(&payload, err);
	if (type == KEXINIT && h->stage == RK_SSH_HELLO_KEXINIT)
		return take_kexinit(h, &payload, err);
	if (type == ECDH_REPLY && h->stage == RK_SSH_HELLO_REPLY)
		return take_reply(h, &payload, err);
	return rk_err_set(err, RK_UNREACHABLE, "message %d comes where none is expected", type);
}

/* 1: more is needed. */
static int take_packet(struct rk_ssh_hello *h, struct rk_bytes left, size_t *ret_used, struct rk_err *err)
{
	struct rk_wire wire = rk_wire_of(left);
	uint32_t n = rk_wire_u32(&wire);

	if (wire.bad)
		return 1;
	if (n < 1 + 1 + PADDING_MIN || n > PACKET_MAX)
		return rk_err_set(err, RK_UNREACHABLE, "it is no SSH server: a packet of %u bytes", n);
	struct rk_wire packet = rk_wire_of(rk_wire_bytes(&wire, n));
	if (wire.bad)
		return 1;
	uint8_t padding = rk_wire_u8(&packet);
	if (padding >= packet.left)
		return broken(err, "it is no SSH server: a packet without content");
	*ret_used = 4 + n;
	return take_message(h, rk_wire_bytes(&packet, packet.left - padding), err);
}

int rk_ssh_hello_take(struct rk_ssh_hello *hello, const void *bytes, size_t n, struct rk_err *err)
{
	size_t at = 0;
	int rc = 0;

	if (n > TAKEN_MAX - hello->taken)
		return broken(err, "it says too much");
	hello->taken += n;
	rk_str_addn(&hello->in, bytes, n);
	while (!rc && hello->stage != RK_SSH_HELLO_DONE) {
		struct rk_bytes left = { (const uint8_t *)hello->in.text + at, hello->in.len - at };
		size_t used = 0;
		rc = hello->stage == RK_SSH_HELLO_VERSION ? take_version(hello, left, &used, err) : take_packet(hello, left, &used, err);
		at += used;
	}
	if (at)
		memmove(hello->in.text, hello->in.text + at, hello->in.len -= at);
	return rc == 1 ? 0 : rc;
}
