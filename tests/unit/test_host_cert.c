/* Hosts that an authority vouches for, against real sshds with certificates made by ssh-keygen, and what ssh says to the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inventory/base/digest.h"
#include "provision/host_cert.h"
#include "provision/ssh_hello.h"
#include "tests/unit/ssh_server.h"
#include "tests/unit/sshd.h"

#define KEYGEN "/usr/bin/ssh-keygen"
#define SSH "/usr/bin/ssh"

static struct sshd home; /* its folder has all keys; each test has a server of its own, because what was proven of one is remembered */

/* --- keys and certificates ------------------------------------------------------------------------------------------------------------- */

static int ran(const char *const *argv)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char *text_of(const char *name)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", home.dir, name), *text = NULL;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	size_t len;

	if (rk_file_read(path, 1 << 16, &text, &len, &err) != 0)
		fail_msg("%s", err.message);
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static void make_key(const char *name, const char *type, const char *bits)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", home.dir, name);
	const char *const argv[] = { KEYGEN, "-q", "-t", type, "-N", "", "-C", name, "-f", path, "-b", bits, NULL };

	assert_int_equal(ran(argv), 0);
}

/* Makes NAME-cert.pub; args are separated by blanks. */
static void sign(const char *name, const char *authority, const char *args)
{
	char *ca RK_CLEANUP_FREE = rk_xasprintf("%s/%s", home.dir, authority), *pub RK_CLEANUP_FREE = rk_xasprintf("%s/%s.pub", home.dir, name);
	char *copy RK_CLEANUP_FREE = rk_xstrdup(args), *save = NULL;
	const char *argv[24] = { KEYGEN, "-q", "-s", ca, "-z", "7", "-I", name };
	size_t n = 8;

	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[n++] = word;
	argv[n] = pub;
	assert_int_equal(ran(argv), 0);
}

/* The hashed form of a name. */
static char *hashed(const char *name)
{
	static const uint8_t salt[20] = { 3, 1, 4, 1, 5 };
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	uint8_t sum[20];

	rk_hmac_sha1(salt, sizeof(salt), name, strlen(name), sum);
	rk_str_add(&out, "|1|");
	rk_base64_add(&out, salt, sizeof(salt));
	rk_str_addc(&out, '|');
	rk_base64_add(&out, sum, sizeof(sum));
	return rk_str_steal(&out);
}

/* {port}; {#}: "[localhost]:port", hashed; {NAME}: the public key NAME.pub. */
static char *filled(const char *text, int port)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	while (*text) {
		size_t plain = strcspn(text, "{"), n = strcspn(text + plain, "}");
		rk_str_addn(&out, text, plain);
		text += plain;
		if (!*text)
			break;
		char *word RK_CLEANUP_FREE = rk_xstrndup(text + 1, n - 1), *file RK_CLEANUP_FREE = rk_xasprintf("%s.pub", word);
		char *name RK_CLEANUP_FREE = rk_xasprintf("[localhost]:%d", port);
		char *value RK_CLEANUP_FREE = rk_streq(word, "port") ? rk_xasprintf("%d", port) : rk_streq(word, "#") ? hashed(name) : text_of(file);
		rk_str_add(&out, value);
		text += n + 1;
	}
	return rk_str_steal(&out);
}

static const struct {
	const char *name, *type, *bits;
} keys[] = { { "ed25519", "ed25519", "256" }, { "other", "ed25519", "256" }, { "ecdsa", "ecdsa", "256" }, { "rsa", "rsa", "2048" }, { "ca", "ed25519", "256" },
	     { "ca2", "ed25519", "256" }, { "ca-256", "ecdsa", "256" }, { "ca-384", "ecdsa", "384" }, { "ca-521", "ecdsa", "521" }, { "ca-rsa", "rsa", "2048" },
	     { "ca-weak", "rsa", "1024" } };

static int start(void **state)
{
	(void)state;
	if (access(KEYGEN, X_OK) != 0 || access(SSH, X_OK) != 0)
		return 0;
	sshd_start(&home, "");
	for (size_t i = 0; home.up && i < RK_ARRAY_SIZE(keys); i++)
		make_key(keys[i].name, keys[i].type, keys[i].bits);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	sshd_stop(&home);
	return 0;
}

/* --- servers --------------------------------------------------------------------------------------------------------------------------- */

/* From the next connection on it is a host with this key, and a certificate for it or none; more: a further line of its configuration. */
static void show_with(struct sshd *s, const char *key, bool certificate, const char *more)
{
	char *line RK_CLEANUP_FREE = certificate ? rk_xasprintf("HostCertificate %s/%s-cert.pub\n", home.dir, key) : rk_xstrdup("");
	char *config RK_CLEANUP_FREE = rk_xasprintf("HostKey %s/%s\n%sAuthorizedKeysFile %s/authorized\nStrictModes no\nUsePAM no\nPidFile none\nSetEnv SHLVL=2\n%s\n", home.dir, key,
						    line, home.dir, more);

	sshd_write(s, "config", config, 0600);
}

static void show(struct sshd *s, const char *key, bool certificate)
{
	show_with(s, key, certificate, "");
}

static void begin(struct sshd *s)
{
	if (!home.up)
		skip();
	sshd_start(s, "");
}

static void know(const struct sshd *s, const char *known)
{
	char *text RK_CLEANUP_FREE = filled(known, s->port), *lines RK_CLEANUP_FREE = rk_xasprintf("%s\n", text);

	sshd_write(s, "known", lines, 0600);
}

static int open_limited(const struct sshd *s, const char *host, const char *jump, const struct rk_ssh_limits *limits, struct rk_err *err)
{
	char *known RK_CLEANUP_FREE = rk_xasprintf("%s/known", s->dir);
	const struct rk_ssh_target t = { .host = host, .port = s->port, .known_hosts = known, .identity_file = home.client_key, .jump = jump };
	struct rk_ssh *ssh = NULL;
	int rc = rk_ssh_open(&t, limits, NULL, NULL, &ssh, err);

	rk_ssh_close(ssh);
	return rc;
}

static void opens(const struct sshd *s)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	if (open_limited(s, "localhost", NULL, NULL, &err) != 0)
		fail_msg("%s", err.message);
}

/* --- one table for racksh and ssh -------------------------------------------------------------------------------------------------------- */

#define CA "@cert-authority [localhost]:{port} {ca}"
#define GOOD "-h -n localhost"

/* Both take it or both refuse it. Where the releases of ssh do not agree, or take what is weak or of another port, racksh refuses. */
enum verdict { BOTH, RACKSH_REFUSES };
static const struct {
	const char *what, *key, *authority, *sign; /* no sign: no certificate */
	const char *known, *word;  /* word: in the refusal; NULL: the host is taken */
	enum verdict verdict;
	const char *host;          /* NULL: localhost */
} cases[] = {
	{ "an ed25519 key", "ed25519", "ca", GOOD, CA, NULL, BOTH, NULL },
	{ "an ECDSA key and authority", "ecdsa", "ca-256", GOOD, "@cert-authority * {ca-256}", NULL, BOTH, NULL },
	{ "an RSA key and authority", "rsa", "ca-rsa", GOOD, "@cert-authority * {ca-rsa}", NULL, BOTH, NULL },
	{ "an RSA signature with SHA-256", "ed25519", "ca-rsa", GOOD " -t rsa-sha2-256", "@cert-authority * {ca-rsa}", NULL, BOTH, NULL },
	{ "an RSA signature with SHA-1", "ed25519", "ca-rsa", GOOD " -t ssh-rsa", "@cert-authority * {ca-rsa}", "because it rests on SHA-1", BOTH, NULL },
	{ "a short RSA authority", "ed25519", "ca-weak", GOOD, "@cert-authority * {ca-weak}", "only 1024 bits", RACKSH_REFUSES, NULL },
	{ "P-384", "ed25519", "ca-384", GOOD, "@cert-authority * {ca-384}", NULL, BOTH, NULL },
	{ "P-521", "ed25519", "ca-521", GOOD, "@cert-authority * {ca-521}", NULL, BOTH, NULL },
	{ "several names", "ed25519", "ca", "-h -n r01,10.0.0.1,localhost", CA, NULL, BOTH, NULL },
	{ "another name", "ed25519", "ca", "-h -n r01,localhos", CA, "is for r01, localhos and not for localhost", BOTH, NULL },
	{ "a name in upper case", "ed25519", "ca", "-h -n LOCALHOST", CA, "is for LOCALHOST and not for localhost", BOTH, NULL },
	{ "asked for in upper case", "ed25519", "ca", GOOD, CA, NULL, BOTH, "LOCALHOST" },
	{ "a pattern for a name", "ed25519", "ca", "-h -n local*", CA, "is for local* and not for", RACKSH_REFUSES, NULL },
	{ "no name", "ed25519", "ca", "-h", CA, "is for no name at all", RACKSH_REFUSES, NULL },
	{ "expired", "ed25519", "ca", GOOD " -V 20200101:20210101", CA, "certificate \"ed25519\" (serial 7) expired at 20", BOTH, NULL },
	{ "not yet good", "ed25519", "ca", GOOD " -V 20900101:20910101", CA, "is not good before 20", BOTH, NULL },
	{ "good for ever", "ed25519", "ca", GOOD " -V always:forever", CA, NULL, BOTH, NULL },
	{ "a user's certificate", "ed25519", "ca", "-n localhost", CA, "is not one of a host", BOTH, NULL },
	{ "a critical option", "ed25519", "ca", GOOD " -O critical:x=y", CA, "has critical options", BOTH, NULL },
	{ "an extension", "ed25519", "ca", GOOD " -O extension:x=y", CA, NULL, BOTH, NULL },
	{ "another authority", "ed25519", "ca2", GOOD, CA, "is signed with SHA256:", BOTH, NULL },
	{ "several authorities", "ed25519", "ca", GOOD, "@cert-authority * {ca2}\n" CA "\n@cert-authority * {ca-384}", NULL, BOTH, NULL },
	{ "no certificate", "ed25519", NULL, NULL, CA, "offers no certificate", BOTH, NULL },
	{ "a revoked authority", "ed25519", "ca", GOOD, CA "\n@revoked * {ca}", "is signed with a revoked key", BOTH, NULL },
	{ "a revoked key", "ed25519", "ca", GOOD, CA "\n@revoked * {ed25519}", "is for a revoked key", BOTH, NULL },
	{ "something else is revoked", "ed25519", "ca", GOOD, CA "\n@revoked * {ca2}", NULL, BOTH, NULL },
	{ "an authority for every port", "ed25519", "ca", GOOD, "@cert-authority localhost {ca}", NULL, BOTH, NULL },
	{ "an authority for another port", "ed25519", "ca", GOOD, "@cert-authority [localhost]:1 {ca}", "the host is not in", BOTH, NULL },
	{ "a host that is left out", "ed25519", "ca", GOOD, "@cert-authority *,!*localhost* {ca}", "the host is not in", BOTH, NULL },
	{ "a hashed name", "ed25519", "ca", GOOD, "@cert-authority {#} {ca}", NULL, BOTH, NULL },
	{ "a key for port 22", "ed25519", "ca", GOOD, "localhost {ed25519}", "the host is not in", RACKSH_REFUSES, NULL },
	{ "the authority's key as the host's", "ed25519", "ca", GOOD, "[localhost]:{port} {ca}", "not the key that is known", BOTH, NULL },
	{ "its own key, another authority", "ed25519", "ca2", GOOD, CA "\n[localhost]:{port} {ed25519}", NULL, BOTH, NULL },
	{ "its own key, an expired certificate", "ed25519", "ca", GOOD " -V 20200101:20210101", CA "\n[localhost]:{port} {ed25519}", NULL, BOTH, NULL },
	{ "another key, a good certificate", "ed25519", "ca", GOOD, CA "\n[localhost]:{port} {other}", NULL, BOTH, NULL },
	{ "another kind of key, a good certificate", "ed25519", "ca", GOOD, CA "\n[localhost]:{port} {rsa}", NULL, BOTH, NULL },
	{ "another key, another authority", "ed25519", "ca2", GOOD, CA "\n[localhost]:{port} {other}", "not the key that is known", BOTH, NULL },
	{ "another key, no certificate", "ed25519", NULL, NULL, CA "\n[localhost]:{port} {other}", "not the key that is known", BOTH, NULL },
};

static bool ssh_takes(const struct sshd *s, const char *host)
{
	char *known RK_CLEANUP_FREE = rk_xasprintf("UserKnownHostsFile=%s/known", s->dir), *port RK_CLEANUP_FREE = rk_xasprintf("%d", s->port);
	const char *const argv[] = { SSH, "-F", "none", "-o", "StrictHostKeyChecking=yes", "-o", known, "-o", "GlobalKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-o",
				     "IdentityAgent=none", "-i", home.client_key, "-p", port, host, "true", NULL };

	return ran(argv) == 0;
}

static void situation(size_t i)
{
	const char *host = cases[i].host ? cases[i].host : "localhost";
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct sshd s = { 0 };

	begin(&s);
	if (cases[i].sign)
		sign(cases[i].key, cases[i].authority, cases[i].sign);
	show(&s, cases[i].key, cases[i].sign != NULL);
	know(&s, cases[i].known);
	int rc = open_limited(&s, host, NULL, NULL, &err);
	bool theirs = cases[i].verdict == RACKSH_REFUSES || ssh_takes(&s, host);
	sshd_stop(&s);
	if (rc != (cases[i].word ? RK_UNREACHABLE : 0) || (cases[i].word && !strstr(err.message, cases[i].word)))
		fail_msg("%s: %s", cases[i].what, rc ? err.message : "taken");
	if (cases[i].word && (!err.hint || !*err.hint))
		fail_msg("%s: no hint", cases[i].what);
	if (cases[i].verdict == BOTH && theirs != (rc == 0))
		fail_msg("%s: ssh %s", cases[i].what, theirs ? "takes it" : "refuses it");
}

static void racksh_and_ssh_judge_alike(void **state)
{
	(void)state;
	if (!home.up)
		skip();
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++)
		situation(i);
}

/* --- how often a host is asked ------------------------------------------------------------------------------------------------------------ */

static int connections(struct sshd *s)
{
	return atomic_exchange(&s->connections, 0);
}

static void a_host_is_asked_for_its_certificate_once(void **state)
{
	struct sshd s = { 0 };

	(void)state;
	begin(&s);
	sign("ed25519", "ca", GOOD);
	show(&s, "ed25519", true);
	know(&s, CA);
	opens(&s);
	assert_int_equal(connections(&s), 2);
	opens(&s);
	assert_int_equal(connections(&s), 1);
	/* Another key with a certificate of its own: the one that was kept no longer fits. */
	sign("other", "ca", GOOD);
	show(&s, "other", true);
	opens(&s);
	assert_int_equal(connections(&s), 3);
	/* What was kept is worth nothing without its authority. */
	know(&s, "@cert-authority * {ca2}");
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	assert_int_equal(open_limited(&s, "localhost", NULL, NULL, &err), RK_UNREACHABLE);
	assert_non_null(strstr(err.message, "which is no authority for the host"));
	sshd_stop(&s);
}

static void a_key_that_is_known_costs_nothing_more(void **state)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct sshd s = { 0 };

	(void)state;
	begin(&s);
	sign("ed25519", "ca", GOOD);
	show(&s, "ed25519", true);
	know(&s, CA "\n[localhost]:{port} {ed25519}");
	opens(&s);
	assert_int_equal(connections(&s), 1);
	/* Nor is one that is revoked looked for in a certificate. */
	know(&s, CA "\n[localhost]:{port} {ed25519}\n@revoked * {ed25519}");
	assert_int_equal(open_limited(&s, "localhost", NULL, NULL, &err), RK_UNREACHABLE);
	assert_non_null(strstr(err.message, "the key is revoked"));
	assert_int_equal(connections(&s), 1);
	sshd_stop(&s);
}

/* Both are told: which key was shown, and why no certificate helps. */
static void a_changed_key_is_told_with_what_its_certificate_lacks(void **state)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct sshd s = { 0 };

	(void)state;
	begin(&s);
	sign("ed25519", "ca", "-h -n elsewhere");
	show(&s, "ed25519", true);
	know(&s, CA "\n[localhost]:{port} {other}");
	assert_int_equal(open_limited(&s, "localhost", NULL, NULL, &err), RK_UNREACHABLE);
	sshd_stop(&s);
	assert_non_null(strstr(err.message, "not the key that is known"));
	assert_non_null(strstr(err.message, "; host key: the host's certificate \"ed25519\" (serial 7) is for elsewhere and not for localhost"));
}

static void a_host_that_is_silent_ends_at_the_deadline(void **state)
{
	const struct rk_ssh_limits limits = { .connect_ms = 50 };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct sshd s = { 0 };

	(void)state;
	begin(&s);
	know(&s, CA);
	s.silent = true;
	assert_int_equal(open_limited(&s, "localhost", NULL, &limits, &err), RK_UNREACHABLE);
	sshd_stop(&s);
	assert_non_null(strstr(err.message, "key exchange: timed out"));
}

/* Each way to ask for it that there is; the last one is for servers in FIPS mode. */
static void each_key_exchange_brings_a_certificate(void **state)
{
	static const char *const exchanges[] = { "curve25519-sha256", "curve25519-sha256@libssh.org", "ecdh-sha2-nistp256" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(exchanges); i++) {
		char *line RK_CLEANUP_FREE = rk_xasprintf("KexAlgorithms %s", exchanges[i]);
		struct sshd s = { 0 };
		begin(&s);
		sign("ed25519", "ca", GOOD);
		show_with(&s, "ed25519", true, line);
		know(&s, CA);
		opens(&s);
		sshd_stop(&s);
	}
}

/* Possession is proven with the plain key. */
static void a_host_that_shows_nothing_but_certificates_is_told_so(void **state)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct sshd s = { 0 };

	(void)state;
	begin(&s);
	sign("ed25519", "ca", GOOD);
	show_with(&s, "ed25519", true, "HostKeyAlgorithms ssh-ed25519-cert-v01@openssh.com");
	know(&s, CA);
	int rc = open_limited(&s, "localhost", NULL, NULL, &err);
	sshd_stop(&s);
	if (rc != RK_UNREACHABLE || !strstr(err.message, "server host key") || !err.hint || !strstr(err.hint, "HostKeyAlgorithms"))
		fail_msg("%s (%s)", err.message, err.hint);
}

/* Whatever answers there instead of a host: it costs its own time and nobody is believed. */
static const struct {
	enum ssh_server_kind kind;
	const char *word;
} bad[] = {
	{ SSH_GOOD, "offers no certificate" }, { SSH_NOT_LISTENING, "connect: Connection refused" }, { SSH_CLOSES, "key exchange: the host closed the connection" },
	{ SSH_RESETS, "key exchange: " }, { SSH_SILENT, "key exchange: timed out" }, { SSH_BANNER_SPEW, "it says too much" }, { SSH_BANNER_DRIP, "key exchange: timed out" },
	{ SSH_HALF_VERSION, "key exchange: timed out" }, { SSH_VERSION_ONLY, "key exchange: timed out" }, { SSH_OLD_VERSION, "does not speak version 2" },
	{ SSH_GARBAGE, "key exchange: " }, { SSH_HTTP, "the host closed the connection" }, { SSH_HUGE_PACKET, "a packet of 2147483647 bytes" },
	{ SSH_ZERO_PACKET, "a packet of 0 bytes" },
};
static struct {
	struct ssh_servers all;
	struct ssh_server servers[RK_ARRAY_SIZE(bad)];
	char *known;
	int rc[RK_ARRAY_SIZE(bad)];
	struct rk_err err[RK_ARRAY_SIZE(bad)];
} hostile;

static void ask_hostile(void *ctx, size_t i)
{
	const struct rk_ssh_target t = { .host = "127.0.0.1", .port = hostile.servers[i].port, .known_hosts = hostile.known, .identity_file = home.client_key };
	struct rk_ssh *ssh = NULL;

	hostile.rc[i] = rk_ssh_open(&t, ctx, NULL, NULL, &ssh, &hostile.err[i]);
	rk_ssh_close(ssh);
}

static void hostile_servers_cost_their_own_time(void **state)
{
	struct rk_ssh_limits limits = { .connect_ms = 3000 };
	char *key RK_CLEANUP_FREE = NULL, *pub RK_CLEANUP_FREE = NULL, *other RK_CLEANUP_FREE = NULL, *other_pub RK_CLEANUP_FREE = NULL;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	(void)state;
	if (!home.up)
		skip();
	assert_int_equal(rk_ssh_make_key("x", &key, &pub, &err) || rk_ssh_make_key("y", &other, &other_pub, &err), 0);
	ssh_servers_init(&hostile.all, key, other);
	for (size_t i = 0; i < RK_ARRAY_SIZE(bad); i++)
		ssh_server_start(&hostile.all, &hostile.servers[i], bad[i].kind);
	char *line RK_CLEANUP_FREE = filled("@cert-authority * {ca}\n", 0);
	sshd_write(&home, "known", line, 0600);
	hostile.known = rk_xasprintf("%s/known", home.dir);
	rk_fanout(RK_ARRAY_SIZE(bad), RK_ARRAY_SIZE(bad), ask_hostile, &limits);
	ssh_servers_stop(&hostile.all, hostile.servers, RK_ARRAY_SIZE(bad));
	for (size_t i = 0; i < RK_ARRAY_SIZE(bad); i++) {
		if (hostile.rc[i] != RK_UNREACHABLE || !strstr(hostile.err[i].message, bad[i].word))
			fail_msg("kind %d: \"%s\" does not say \"%s\"", bad[i].kind, hostile.err[i].message, bad[i].word);
		rk_err_clear(&hostile.err[i]);
	}
	free(hostile.known);
}

static void jump_hosts_and_what_is_behind_them_may_have_certificates(void **state)
{
	struct sshd bastion = { 0 }, s = { 0 };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	(void)state;
	begin(&bastion);
	begin(&s);
	sign("ed25519", "ca", GOOD);
	sign("rsa", "ca-rsa", GOOD);
	show(&bastion, "ed25519", true);
	show(&s, "rsa", true);
	know(&s, "@cert-authority * {ca}\n@cert-authority * {ca-rsa}");
	char *jump RK_CLEANUP_FREE = rk_xasprintf("localhost:%d", bastion.port);
	for (int i = 0; i < 2; i++)
		if (open_limited(&s, "localhost", jump, NULL, &err))
			fail_msg("%s", err.message);
	assert_int_equal(connections(&bastion), 3);
	assert_int_equal(connections(&s), 3);
	know(&s, "@cert-authority * {ca}");
	assert_int_equal(open_limited(&s, "localhost", jump, NULL, &err), RK_UNREACHABLE);
	sshd_stop(&s);
	sshd_stop(&bastion);
	assert_non_null(strstr(err.message, "via "));
	assert_non_null(strstr(err.message, "which is no authority for the host"));
}

/* --- a certificate that somebody changed --------------------------------------------------------------------------------------------------- */

static size_t bytes_of(const char *key, uint8_t *bytes, size_t max)
{
	char *file RK_CLEANUP_FREE = rk_xasprintf("%s-cert.pub", key), *text RK_CLEANUP_FREE = text_of(file), *save = NULL;

	strtok_r(text, " ", &save);
	char *blob = strtok_r(NULL, " ", &save);
	long n = rk_base64_decode(blob, strlen(blob), bytes, max);
	assert_true(n > 0);
	return (size_t)n;
}

static bool proves(const uint8_t *bytes, size_t n, int64_t now, const struct rk_host_keys *known)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	uint8_t *exact RK_CLEANUP_FREE = rk_xmalloc(n + 1); /* of its own length: reading past the end is seen */
	struct rk_host_cert cert;
	struct rk_host_key key;

	memcpy(exact, bytes, n);
	return rk_host_cert_parse((struct rk_bytes){ exact, n }, &cert, NULL) == 0 &&
	       rk_host_cert_judge(&cert, "localhost", now, known, arena, &key, NULL) == 0;
}

static void each_changed_byte_undoes_a_certificate(void **state)
{
	static const struct {
		const char *key, *authority;
	} pairs[] = { { "ed25519", "ca" }, { "ecdsa", "ca-256" }, { "ed25519", "ca-384" }, { "ecdsa", "ca-521" }, { "rsa", "ca-rsa" } };
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	uint8_t bytes[4096];

	(void)state;
	if (!home.up)
		skip();
	for (size_t p = 0; p < RK_ARRAY_SIZE(pairs); p++) {
		char *line RK_CLEANUP_FREE = rk_xasprintf("%s.pub", pairs[p].authority), *text RK_CLEANUP_FREE = text_of(line);
		struct rk_host_keys known = { 0 };
		struct rk_host_key ca;
		assert_true(rk_host_key_parse(text, arena, &ca));
		ca.mark = RK_HOST_KEY_AUTHORITY;
		ca.file = "f";
		rk_host_keys_add(&known, &ca, arena);
		sign(pairs[p].key, pairs[p].authority, GOOD " -V 20200101000000Z:20210101000000Z");
		size_t n = bytes_of(pairs[p].key, bytes, sizeof(bytes) - 1);
		assert_true(proves(bytes, n, 1600000000, &known));
		assert_true(proves(bytes, n, 1577836800, &known)); /* the first second, and the one before */
		assert_false(proves(bytes, n, 1577836799, &known));
		assert_true(proves(bytes, n, 1609459199, &known)); /* the last second, and the one after */
		assert_false(proves(bytes, n, 1609459200, &known));
		for (size_t i = 0; i < n; i++) {
			bytes[i] ^= 1;
			if (proves(bytes, n, 1600000000, &known))
				fail_msg("%s by %s: byte %zu of %zu may be changed", pairs[p].key, pairs[p].authority, i, n);
			bytes[i] ^= 1;
			assert_false(proves(bytes, i, 1600000000, &known));
		}
		bytes[n] = 0;
		assert_false(proves(bytes, n + 1, 1600000000, &known));
	}
}

/* --- what servers say before anything is encrypted -------------------------------------------------------------------------------------------- */

static void add_packet(struct rk_str *out, const char *payload, size_t n)
{
	rk_wire_add_u32(out, (uint32_t)(1 + n + 4));
	rk_str_addn(out, "\4", 1);
	rk_str_addn(out, payload, n);
	rk_str_addn(out, "\0\0\0\0", 4);
}

static void add_kexinit(struct rk_str *out, const char *kex, const char *keys_offered)
{
	struct rk_str payload RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_addn(&payload, "\24cookiecookiecook", 17);
	rk_wire_add_string(&payload, kex, strlen(kex));
	rk_wire_add_string(&payload, keys_offered, strlen(keys_offered));
	add_packet(out, payload.text, payload.len);
}

/* One byte at a time or all at once makes no difference. */
static int hello(const struct rk_str *said, size_t step, struct rk_ssh_hello *h, struct rk_err *err)
{
	int rc = 0;

	rk_ssh_hello_begin(h, "c", "m");
	for (size_t at = 0; !rc && at < said->len; at += step)
		rc = rk_ssh_hello_take(h, said->text + at, said->len - at < step ? said->len - at : step, err);
	return rc;
}

static const char server_certs[] = "ssh-ed25519,rsa-sha2-256-cert-v01@openssh.com";

static void a_certificate_is_taken_out_of_what_a_server_says(void **state)
{
	struct rk_str said RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	rk_str_add(&said, "Welcome\r\nto this host\nSSH-2.0-x y\r\n");
	add_packet(&said, "\2\0\0\0\0", 5);
	add_kexinit(&said, "sntrup,ecdh-sha2-nistp256", server_certs);
	add_packet(&said, "\4\0\0\0\0", 5);
	add_packet(&said, "\37\0\0\0\3abc\0\0", 10);
	add_packet(&said, "\25", 1);
	for (size_t step = 1; step <= said.len; step = step < 40 ? step + 1 : step * 3) {
		struct rk_ssh_hello h RK_CLEANUP(rk_ssh_hello_clear);
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		if (hello(&said, step, &h, &err) || h.stage != RK_SSH_HELLO_DONE)
			fail_msg("in steps of %zu: %s", step, err.message ? err.message : "not done");
		assert_string_equal(rk_str_text(&h.key), "abc");
		assert_int_equal(h.out.len % 8, strlen("SSH-2.0-racksh\r\n") % 8);
	}
}

static void servers_that_say_something_else_are_refused_with_the_reason(void **state)
{
	static const struct {
		const char *version, *packet;
		size_t n;
		const char *word;
	} said[] = {
		{ "SSH-1.5-old\r\n", NULL, 0, "version 2" },
		{ "SSH-2.0-x\n", "\x7f\xff\xff\xff\4\24", 6, "a packet of 2147483647 bytes" },
		{ "SSH-1.99-x\n", "\0\0\0\0\0\0\0\0", 8, "a packet of 0 bytes" },
		{ "SSH-2.0-x\n", "\0\0\0\6\5\24\0\0\0\0", 10, "without content" },
		{ "SSH-2.0-x\n", "\0\0\0\6\4\37\0\0\0\0", 10, "message 31 comes where none is expected" },
		{ "SSH-2.0-x\n", "\0\0\0\6\4\24\0\0\0\0", 10, "list of algorithms is malformed" },
		{ "SSH-2.0-x\n", "\0\0\0\22\4\1\0\0\0\2\0\0\0\4no\e!\0\0\0\0", 22, "the host ended it: no\\x1b!" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(said); i++) {
		struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
		struct rk_ssh_hello h RK_CLEANUP(rk_ssh_hello_clear);
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		rk_str_add(&text, said[i].version);
		rk_str_addn(&text, said[i].packet ? said[i].packet : "", said[i].n);
		if (hello(&text, 3, &h, &err) != RK_UNREACHABLE || !strstr(err.message, said[i].word))
			fail_msg("%zu: \"%s\" does not say %s", i, err.message ? err.message : "nothing", said[i].word);
	}
}

static void a_server_without_a_certificate_or_a_common_exchange_is_told_apart(void **state)
{
	static const struct {
		const char *kex, *offered;
		int rc;
	} said[] = { { "curve25519-sha256", "ssh-ed25519,rsa-sha2-512", RK_NOT_FOUND }, { "curve25519-sha256", "", RK_NOT_FOUND },
		     { "curve25519", server_certs, RK_UNREACHABLE }, { "x,curve25519-sha256@libssh.org,y", server_certs, 0 } };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(said); i++) {
		struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
		struct rk_ssh_hello h RK_CLEANUP(rk_ssh_hello_clear);
		rk_str_add(&text, "SSH-2.0-x\r\n");
		add_kexinit(&text, said[i].kex, said[i].offered);
		assert_int_equal(hello(&text, text.len, &h, NULL), said[i].rc);
	}
}

static void what_does_not_end_is_not_read_for_ever(void **state)
{
	static const char *const lines[] = { "a line\n", "a line that goes on " };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(lines); i++) {
		struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
		struct rk_ssh_hello h RK_CLEANUP(rk_ssh_hello_clear);
		while (text.len < 1 << 20)
			rk_str_add(&text, lines[i]);
		assert_int_equal(hello(&text, 1000, &h, NULL), RK_UNREACHABLE);
		assert_true(h.in.len <= 10000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(racksh_and_ssh_judge_alike),
		cmocka_unit_test(a_host_is_asked_for_its_certificate_once),
		cmocka_unit_test(a_key_that_is_known_costs_nothing_more),
		cmocka_unit_test(a_changed_key_is_told_with_what_its_certificate_lacks),
		cmocka_unit_test(a_host_that_is_silent_ends_at_the_deadline),
		cmocka_unit_test(each_key_exchange_brings_a_certificate),
		cmocka_unit_test(a_host_that_shows_nothing_but_certificates_is_told_so),
		cmocka_unit_test(hostile_servers_cost_their_own_time),
		cmocka_unit_test(jump_hosts_and_what_is_behind_them_may_have_certificates),
		cmocka_unit_test(each_changed_byte_undoes_a_certificate),
		cmocka_unit_test(a_certificate_is_taken_out_of_what_a_server_says),
		cmocka_unit_test(servers_that_say_something_else_are_refused_with_the_reason),
		cmocka_unit_test(a_server_without_a_certificate_or_a_common_exchange_is_told_apart),
		cmocka_unit_test(what_does_not_end_is_not_read_for_ever),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
