/* Whom a known_hosts file vouches for, and that it is read once. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/digest.h"
#include "provision/known_hosts.h"

#define KEY "AAAAC3NzaC1lZDI1NTE5AAAAIEfLG0ebGSfza0j9UJUU/rYaHT0FItcYyuVHKqR7iBR0"

static struct rk_host_keys found(const char *text, const char *host, int port, struct rk_arena *arena)
{
	struct rk_known_hosts *k = rk_known_hosts_parse("the-file", text, strlen(text));
	struct rk_host_keys keys = { 0 };

	rk_known_hosts_find(k, host, port, arena, &keys);
	rk_known_hosts_free(k);
	return keys;
}

static size_t count(const struct rk_host_keys *keys, enum rk_host_key_mark mark)
{
	size_t n = 0;

	for (size_t i = 0; i < keys->n; i++)
		n += keys->items[i].mark == mark;
	return n;
}

static void known_hosts_forms_are_understood(void **state)
{
	static const char key[] = KEY;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	uint8_t salt[20] = { 1, 2, 3 }, sum[20];
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	rk_str_add(&text, "# comment\n\nbroken line\nbad ssh-ed25519 !!!!\n@cert-authority * ssh-ed25519 ");
	rk_str_addf(&text, "%s\nplain,10.0.0.[1 ssh-ed25519 %s\nr01-*,!r01-t02 ssh-ed25519 %s\n[sw]:2222 ssh-rsa %s c o m\n|1|", key, key, key, key);
	rk_base64_add(&text, salt, 20);
	rk_hmac_sha1(salt, 20, "[sm1]:2201", 10, sum);
	rk_str_addc(&text, '|');
	rk_base64_add(&text, sum, 20);
	rk_str_addf(&text, " ssh-ed25519 %s", key); /* no newline at the end */
	static const struct {
		const char *host;
		int port;
		size_t n;
	} cases[] = { { "plain", 22, 1 }, { "PLAIN", 22, 1 }, { "plain", 2222, 0 }, { "r01-t01", 22, 1 }, { "r01-t02", 22, 0 }, { "sw", 2222, 1 }, { "sw", 22, 0 },
		      { "sm1", 2201, 1 }, { "sm1", 22, 0 }, { "bad", 22, 0 }, { "10.0.0.1", 22, 0 }, { "10.0.0.[1", 22, 1 } };
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct rk_host_keys keys = found(text.text, cases[i].host, cases[i].port, arena);
		if (count(&keys, RK_HOST_KEY_KNOWN) != cases[i].n)
			fail_msg("%s:%d: %zu keys", cases[i].host, cases[i].port, count(&keys, RK_HOST_KEY_KNOWN));
	}
}

static void digests_match_published_vectors(void **state)
{
	char hex[65];
	uint8_t mac[20], block[130];
	static const uint8_t rfc2202[20] = { 0xef, 0xfc, 0xdf, 0x6a, 0xe5, 0xeb, 0x2f, 0xa2, 0xd2, 0x74, 0x16, 0xd5, 0xf1, 0x84, 0xdf, 0x9c, 0x25, 0x9a, 0x7c, 0x79 };

	(void)state;
	rk_sha256_hex("", 0, hex);
	assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	rk_sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
	assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	rk_hmac_sha1("Jefe", 4, "what do ya want for nothing?", 28, mac);
	assert_memory_equal(mac, rfc2202, 20);
	for (size_t n = 0; n < sizeof(block); n++) {
		struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
		uint8_t back[sizeof(block)];
		memset(block, (int)n, sizeof(block));
		rk_base64_add(&text, block, n);
		assert_int_equal(rk_base64_decode(rk_str_text(&text), text.len, back, sizeof(back)), n);
		assert_memory_equal(back, block, n);
	}
}

/* Certificates name no ports: what is said of an authority or a revoked key counts for all of them; a key of the host is one of its port. */
static void marks_are_kept_apart(void **state)
{
	static const char text[] = "@cert-authority r01-* ssh-ed25519 " KEY "\n@revoked * ssh-ed25519 " KEY "\n@new-mark r01-t01 ssh-ed25519 " KEY
				   "\nr01-t01,r01-t02 ssh-ed25519 " KEY "\n@cert-authority *,!r01-t02 ssh-ed25519 " KEY "\n@revoked r02-t09 ssh-ed25519 " KEY "\n";
	static const struct {
		const char *host;
		int port;
		size_t known, revoked, authorities;
	} cases[] = { { "r01-t01", 22, 1, 1, 2 }, { "r02-t01", 22, 0, 1, 1 }, { "r01-t02", 22, 1, 1, 1 }, { "r01-t01", 2222, 0, 2, 3 }, { "r02-t09", 2222, 0, 3, 2 } };
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct rk_host_keys keys = found(text, cases[i].host, cases[i].port, arena);
		if (count(&keys, RK_HOST_KEY_KNOWN) != cases[i].known || count(&keys, RK_HOST_KEY_REVOKED) != cases[i].revoked ||
		    count(&keys, RK_HOST_KEY_AUTHORITY) != cases[i].authorities)
			fail_msg("%s:%d: %zu known, %zu revoked, %zu authorities", cases[i].host, cases[i].port, count(&keys, RK_HOST_KEY_KNOWN),
				 count(&keys, RK_HOST_KEY_REVOKED), count(&keys, RK_HOST_KEY_AUTHORITY));
	}
	struct rk_host_keys keys = found(text, "r01-t01", 22, arena);
	assert_int_equal(keys.items[0].mark, RK_HOST_KEY_AUTHORITY);
	assert_string_equal(keys.items[0].file, "the-file");
	assert_int_equal(keys.items[0].line, 1);
}

/* However many there are: one that is left out would be trusted again. */
static void every_revoked_key_is_found(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	rk_str_add(&text, "r01-* ssh-ed25519 " KEY "\n");
	for (int i = 0; i < 300; i++)
		rk_str_add(&text, "@revoked * ssh-ed25519 " KEY "\n");
	struct rk_host_keys keys = found(text.text, "r01-t01", 22, arena);
	assert_int_equal(count(&keys, RK_HOST_KEY_REVOKED), 300);
}

static size_t keys_of(const char *path, const char *host)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_host_keys keys = { 0 };

	if (rk_known_hosts_add(path, host, 22, arena, &keys, &err) != 0)
		fail_msg("%s", err.message);
	return keys.n;
}

static void put(const char *path, const char *text, const struct timespec *mtime)
{
	const struct timespec times[] = { { 0, UTIME_OMIT }, *mtime };
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	assert_int_equal(pwrite(fd, text, strlen(text), 0), strlen(text));
	assert_int_equal(ftruncate(fd, (off_t)strlen(text)), 0);
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
}

/* A file that looks the same is not read again: what it said is still known. Each thing by which a change is seen is seen. */
static void a_file_is_read_again_only_when_it_changed(void **state)
{
	static const char one[] = "a ssh-ed25519 " KEY "\n", other[] = "b ssh-ed25519 " KEY "\n", two[] = "a ssh-ed25519 " KEY "\nb ssh-ed25519 " KEY "\n";
	const struct timespec then = { 1000000000, 5 }, later = { 1000000000, 6 };
	char dir[] = "/tmp/racksh-known.XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(dir));
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/known", dir), *new RK_CLEANUP_FREE = rk_xasprintf("%s/new", dir);
	assert_int_equal(keys_of(path, "a"), 0);
	put(path, one, &then);
	assert_int_equal(keys_of(path, "a"), 1);
	put(path, other, &then);
	assert_int_equal(keys_of(path, "a"), 1); /* not read: else it would not be there any more */
	assert_int_equal(keys_of(path, "b"), 0);
	put(path, other, &later); /* the time */
	assert_int_equal(keys_of(path, "a"), 0);
	assert_int_equal(keys_of(path, "b"), 1);
	put(path, two, &later); /* the size */
	assert_int_equal(keys_of(path, "a"), 1);
	put(path, other, &then);
	assert_int_equal(keys_of(path, "b"), 1);
	put(new, one, &then); /* another file under its name, of the same size and time */
	assert_int_equal(rename(new, path), 0);
	assert_int_equal(keys_of(path, "a"), 1);
	assert_int_equal(keys_of(path, "b"), 0);
	unlink(path);
	assert_int_equal(keys_of(path, "a"), 0);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_hosts_forms_are_understood),
		cmocka_unit_test(marks_are_kept_apart),
		cmocka_unit_test(every_revoked_key_is_found),
		cmocka_unit_test(a_file_is_read_again_only_when_it_changed),
		cmocka_unit_test(digests_match_published_vectors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
