#include "provision/host_cert.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "inventory/base/clock.h"
#include "inventory/base/digest.h"
#include "provision/ssh_signature.h"

enum { TYPE_HOST = 2, NAMES_TOLD = 200, ID_TOLD = 80 };

#define CERT(name) name "-cert-v01@openssh.com"

const struct rk_host_cert_kind rk_host_cert_kinds[RK_HOST_CERT_KINDS] = {
	{ "ssh-ed25519", "ssh-ed25519", CERT("ssh-ed25519"), CERT("ssh-ed25519"), 1 },
	{ "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256", CERT("ecdsa-sha2-nistp256"), CERT("ecdsa-sha2-nistp256"), 2 },
	{ "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384", CERT("ecdsa-sha2-nistp384"), CERT("ecdsa-sha2-nistp384"), 2 },
	{ "ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521", CERT("ecdsa-sha2-nistp521"), CERT("ecdsa-sha2-nistp521"), 2 },
	{ "ssh-rsa", "rsa-sha2-512,rsa-sha2-256", CERT("ssh-rsa"), CERT("rsa-sha2-512") "," CERT("rsa-sha2-256"), 2 },
};

static const struct rk_host_cert_kind *kind_of(struct rk_bytes type)
{
	for (size_t i = 0; i < RK_HOST_CERT_KINDS; i++)
		if (rk_bytes_are(type, rk_host_cert_kinds[i].cert))
			return &rk_host_cert_kinds[i];
	return NULL;
}

static const char *told(struct rk_bytes text, size_t most, struct rk_arena *arena)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_add_escaped(&out, (const char *)text.at, text.n < most ? text.n : most);
	if (text.n > most)
		rk_str_add(&out, "...");
	return rk_arena_strdup(arena, rk_str_text(&out));
}

const char *rk_host_cert_name(const struct rk_host_cert *cert, struct rk_arena *arena)
{
	return rk_arena_printf(arena, "\"%s\" (serial %" PRIu64 ")", told(cert->id, ID_TOLD, arena), cert->serial);
}

int rk_host_cert_parse(struct rk_bytes bytes, struct rk_host_cert *ret, struct rk_err *err)
{
	struct rk_wire wire = rk_wire_of(bytes);
	struct rk_host_cert c = { .kind = kind_of(rk_wire_string(&wire)) };

	if (!c.kind)
		return rk_err_set(err, RK_INVALID, "it is no certificate of a kind that is taken");
	rk_wire_string(&wire); /* what makes each one different */
	c.key.at = wire.at;
	for (int i = 0; i < c.kind->fields; i++)
		rk_wire_string(&wire);
	c.key.n = (size_t)(wire.at - c.key.at);
	c.serial = rk_wire_u64(&wire);
	c.type = rk_wire_u32(&wire);
	c.id = rk_wire_string(&wire);
	c.principals = rk_wire_string(&wire);
	c.after = rk_wire_u64(&wire);
	c.before = rk_wire_u64(&wire);
	c.options = rk_wire_string(&wire);
	rk_wire_string(&wire); /* extensions: made to be ignored */
	rk_wire_string(&wire); /* reserved */
	c.authority = rk_wire_string(&wire);
	c.covered = (struct rk_bytes){ bytes.at, bytes.n - wire.left };
	c.signature = rk_wire_string(&wire);
	if (wire.bad || wire.left)
		return rk_err_set(err, RK_INVALID, "the certificate is cut off or malformed");
	*ret = c;
	return 0;
}

static const char *base64(struct rk_bytes bytes, struct rk_arena *arena)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	rk_base64_add(&out, bytes.at, bytes.n);
	return rk_arena_strdup(arena, rk_str_text(&out));
}

static const char *plain_key(const struct rk_host_cert *cert, struct rk_arena *arena)
{
	struct rk_str blob RK_CLEANUP_STR = RK_STR_INIT;

	rk_wire_add_string(&blob, cert->kind->key, strlen(cert->kind->key));
	rk_str_addn(&blob, (const char *)cert->key.at, cert->key.n);
	return base64((struct rk_bytes){ (const uint8_t *)blob.text, blob.len }, arena);
}

static const struct rk_host_key *find(const struct rk_host_keys *keys, enum rk_host_key_mark mark, const char *blob)
{
	for (size_t i = 0; i < keys->n; i++)
		if (keys->items[i].mark == mark && rk_streq(keys->items[i].blob, blob))
			return &keys->items[i];
	return NULL;
}

struct judging {
	const struct rk_host_cert *cert;
	const struct rk_host_keys *keys;
	struct rk_arena *arena;
	const char *name;             /* of the certificate, for messages */
	const char *key, *authority;  /* base64 */
	const struct rk_host_key *by; /* the line of the authority */
};

static int refused(const struct judging *j, struct rk_err *err, const char *why, const char *hint)
{
	rk_err_set(err, RK_UNREACHABLE, "the host's certificate %s %s", j->name, why);
	rk_err_hint(err, "%s", hint);
	return RK_UNREACHABLE;
}

static int check_type(const struct judging *j, struct rk_err *err)
{
	return j->cert->type == TYPE_HOST ? 0 : refused(j, err, "is not one of a host", "sign the key with ssh-keygen -h: without it a certificate is for a user");
}

static int check_revoked(const struct judging *j, struct rk_err *err)
{
	const struct rk_host_key *key = find(j->keys, RK_HOST_KEY_REVOKED, j->key), *authority = find(j->keys, RK_HOST_KEY_REVOKED, j->authority);
	const struct rk_host_key *line = key ? key : authority;

	if (!line)
		return 0;
	const char *why = rk_arena_printf(j->arena, "%s a revoked key (%s, line %zu)", key ? "is for" : "is signed with", line->file, line->line);
	return refused(j, err, why, key ? "give the host a new key and sign that" : "sign the host's key with an authority that is still good");
}

/* All authorities of the host, as those who compare fingerprints need them. */
static const char *known_authorities(const struct judging *j)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < j->keys->n; i++) {
		const struct rk_host_key *k = &j->keys->items[i];
		if (k->mark == RK_HOST_KEY_AUTHORITY)
			rk_str_addf(&out, "%s%s, line %zu", out.len ? "; " : "", k->file, k->line);
	}
	return rk_arena_strdup(j->arena, rk_str_text(&out));
}

static int check_authority(struct judging *j, struct rk_err *err)
{
	struct rk_str print RK_CLEANUP_STR = RK_STR_INIT;

	if ((j->by = find(j->keys, RK_HOST_KEY_AUTHORITY, j->authority)) != NULL)
		return 0;
	rk_bytes_fingerprint(j->cert->authority, &print);
	const char *why = rk_arena_printf(j->arena, "is signed with %s, which is no authority for the host (%s)", rk_str_text(&print), known_authorities(j));
	return refused(j, err, why, "if that is an authority of yours, add its @cert-authority line; else find out who answers there");
}

static int check_signature(const struct judging *j, struct rk_err *err)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;

	if (!rk_ssh_signature_check(j->cert->authority, j->cert->signature, j->cert->covered, &why))
		return 0;
	return refused(j, err, rk_arena_printf(j->arena, "is not proven: %s", why.message), "sign the host's key anew, and find out who answers there");
}

/* 0 and all ones mean without a beginning and without an end. */
static const char *moment(uint64_t seconds, char buf[32])
{
	return seconds > INT64_MAX / 1000 ? "the end of time" : rk_time_iso((int64_t)seconds * 1000, buf);
}

static int check_time(const struct judging *j, int64_t now, struct rk_err *err)
{
	uint64_t at = now < 0 ? 0 : (uint64_t)now;
	char buf[32];

	if (at < j->cert->after)
		return refused(j, err, rk_arena_printf(j->arena, "is not good before %s", moment(j->cert->after, buf)),
			       "is the clock of this machine right? Else sign the host's key anew");
	if (at >= j->cert->before)
		return refused(j, err, rk_arena_printf(j->arena, "expired at %s", moment(j->cert->before, buf)),
			       "sign the host's key anew, let sshd read it, and see that the clock of this machine is right");
	return 0;
}

/* ssh asks for names in lower case. */
static bool same_name(struct rk_bytes principal, const char *host)
{
	if (principal.n != strlen(host))
		return false;
	for (size_t i = 0; i < principal.n; i++)
		if (principal.at[i] != (uint8_t)tolower((unsigned char)host[i]))
			return false;
	return true;
}

static int check_names(const struct judging *j, const char *host, struct rk_err *err)
{
	struct rk_str others RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_wire wire = rk_wire_of(j->cert->principals);

	while (wire.left && !wire.bad) {
		struct rk_bytes principal = rk_wire_string(&wire);
		if (!wire.bad && same_name(principal, host))
			return 0;
		rk_str_add(&others, others.len ? ", " : "");
		rk_str_addn(&others, (const char *)principal.at, principal.n);
	}
	const struct rk_bytes names = { (const uint8_t *)rk_str_text(&others), others.len };
	const char *why = names.n ? rk_arena_printf(j->arena, "is for %s and not for %s", told(names, NAMES_TOLD, j->arena), host) : "is for no name at all";
	const char *hint = rk_arena_printf(j->arena, "sign the host's key for the name it is reached by (ssh-keygen -h -n %s), patterns are not taken", host);
	return refused(j, err, why, hint);
}

static int check_options(const struct judging *j, struct rk_err *err)
{
	return j->cert->options.n ? refused(j, err, "has critical options, and none is known for hosts", "sign the host's key without -O options") : 0;
}

int rk_host_cert_judge(const struct rk_host_cert *cert, const char *host, int64_t now, const struct rk_host_keys *keys, struct rk_arena *arena,
		       struct rk_host_key *ret, struct rk_err *err)
{
	struct judging j = { cert, keys, arena, rk_host_cert_name(cert, arena), plain_key(cert, arena), base64(cert->authority, arena), NULL };
	int rc;

	/* Who signed comes before what is said: nothing else in it is anybody's word until then. */
	if ((rc = check_authority(&j, err)) != 0 || (rc = check_signature(&j, err)) != 0 || (rc = check_revoked(&j, err)) != 0 ||
	    (rc = check_type(&j, err)) != 0 || (rc = check_time(&j, now, err)) != 0 || (rc = check_names(&j, host, err)) != 0 ||
	    (rc = check_options(&j, err)) != 0)
		return rc;
	*ret = (struct rk_host_key){ cert->kind->key, j.key, RK_HOST_KEY_KNOWN, j.by->file, j.by->line };
	return 0;
}
