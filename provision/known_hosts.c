#include "provision/known_hosts.h"

#include <fnmatch.h>
#include <stdint.h>
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/base/digest.h"

enum { KEYS_MAX = 64 };

/* "|1|salt|hash" is HMAC-SHA1(salt, name), both in base64. */
static bool hashed_match(const char *pattern, const char *name)
{
	const char *salt = pattern + 3, *bar = strchr(salt, '|');
	uint8_t key[20], want[20], sum[20];

	if (!bar || rk_base64_decode(salt, (size_t)(bar - salt), key, sizeof(key)) != 20 ||
	    rk_base64_decode(bar + 1, strlen(bar + 1), want, sizeof(want)) != 20)
		return false;
	rk_hmac_sha1(key, sizeof(key), name, strlen(name), sum);
	return memcmp(sum, want, sizeof(sum)) == 0;
}

/* Only '*' and '?' are special in this file, '[' is part of "[host]:port". */
static bool wildcard_match(const char *pattern, const char *name)
{
	char *escaped RK_CLEANUP_FREE = rk_xmalloc(strlen(pattern) * 2 + 1), *out = escaped;

	for (const char *p = pattern; *p; p++) {
		if (*p == '[' || *p == '\\')
			*out++ = '\\';
		*out++ = *p;
	}
	*out = '\0';
	return fnmatch(escaped, name, FNM_CASEFOLD) == 0;
}

static bool list_match(char *patterns, const char *name)
{
	bool match = false;
	char *save = NULL;

	for (char *p = strtok_r(patterns, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		bool negated = *p == '!';
		p += negated;
		if (rk_starts_with(p, "|1|") ? !hashed_match(p, name) : !wildcard_match(p, name))
			continue;
		if (negated)
			return false;
		match = true;
	}
	return match;
}

static bool key_ok(const char *type, const char *blob)
{
	uint8_t bytes[4096];

	return type && blob && strlen(type) < 64 && rk_base64_decode(blob, strlen(blob), bytes, sizeof(bytes)) > 4;
}

static bool line_key(char *line, const char *name, struct rk_host_key *ret)
{
	char *save = NULL, *word = strtok_r(line, " \t\r", &save);
	const char *marker = NULL;

	if (!word || *word == '#')
		return false;
	if (*word == '@') {
		marker = word;
		word = strtok_r(NULL, " \t\r", &save);
	}
	char *type = strtok_r(NULL, " \t\r", &save), *blob = strtok_r(NULL, " \t\r", &save);
	if (!word || !key_ok(type, blob) || rk_streq(marker, "@cert-authority") || !list_match(word, name))
		return false;
	*ret = (struct rk_host_key){ type, blob, marker != NULL };
	return true;
}

struct rk_host_keys rk_known_hosts_find(const char *text, size_t len, const char *host, int port, struct rk_arena *arena)
{
	struct rk_host_keys keys = { rk_arena_array(arena, KEYS_MAX, sizeof(*keys.items)), 0 };
	const char *name = port == 22 ? host : rk_arena_printf(arena, "[%s]:%d", host, port);
	struct rk_str line RK_CLEANUP_STR = RK_STR_INIT;

	for (const char *p = text, *end = text + len; p < end && keys.n < KEYS_MAX;) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((eol ? eol : end) - p);
		struct rk_host_key key;
		rk_str_reset(&line);
		rk_str_addn(&line, p, n);
		p += n + 1;
		if (line.text && line_key(line.text, name, &key))
			keys.items[keys.n++] = (struct rk_host_key){ rk_arena_strdup(arena, key.type), rk_arena_strdup(arena, key.blob), key.revoked };
	}
	return keys;
}

bool rk_host_key_parse(const char *text, struct rk_arena *arena, struct rk_host_key *ret)
{
	char *copy = rk_arena_strdup(arena, text), *save = NULL;
	char *type = strtok_r(copy, " \t\r\n", &save), *blob = type ? strtok_r(NULL, " \t\r\n", &save) : NULL;

	if (!key_ok(type, blob))
		return false;
	*ret = (struct rk_host_key){ type, blob, false };
	return true;
}
