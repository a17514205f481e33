#include "provision/known_hosts.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "inventory/base/digest.h"
#include "inventory/base/file.h"
#include "inventory/base/map.h"
#include "inventory/base/str.h"

enum { FILE_MAX = 32 << 20, NONE = -1 };

struct line {
	const char *patterns;         /* NULL: plain names only, found by the map */
	const char *type, *blob;
	enum rk_host_key_mark mark;
	size_t number;                /* in the file, from 1 */
};
/* "|1|salt|hash" is HMAC-SHA1(salt, name); decoded once, because every host has to try each. */
struct hashed {
	uint8_t salt[20], sum[20];
	size_t line;
};
struct link {
	size_t line;
	long next;                    /* another line with the same name, or NONE */
};
struct rk_known_hosts {
	struct rk_arena *arena;
	const char *name;
	struct rk_map *names;         /* lower case -> first link */
	struct link *links;
	struct line *lines;
	struct hashed *hashed;
	size_t *wild;                 /* lines that have to be matched */
	size_t n_links, n_lines, n_hashed, n_wild;
};

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

static bool list_match(const char *patterns, const char *name)
{
	char *copy RK_CLEANUP_FREE = rk_xstrdup(patterns), *save = NULL;
	bool match = false;

	for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		bool negated = *p == '!';
		if (!wildcard_match(p + negated, name))
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

/* Room for one more in a list that grows by doubling. */
static void *grown(void *list, size_t n, size_t size)
{
	return n & (n - 1) ? list : rk_xreallocarray(list, n ? n * 2 : 1, size);
}

static char *lower(char *text)
{
	for (char *p = text; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	return text;
}

static void add_name(struct rk_known_hosts *k, char *name, size_t line)
{
	size_t old;
	bool known = rk_map_get(k->names, lower(name), &old);

	k->links = grown(k->links, k->n_links, sizeof(*k->links));
	k->links[k->n_links] = (struct link){ line, known ? (long)old : NONE };
	rk_map_set(k->names, name, k->n_links++);
}

static bool add_hashed(struct rk_known_hosts *k, const char *pattern, size_t line)
{
	const char *salt = pattern + 3, *bar = strchr(salt, '|');
	struct hashed h = { .line = line };

	if (!bar || rk_base64_decode(salt, (size_t)(bar - salt), h.salt, sizeof(h.salt)) != 20 ||
	    rk_base64_decode(bar + 1, strlen(bar + 1), h.sum, sizeof(h.sum)) != 20)
		return false;
	k->hashed = grown(k->hashed, k->n_hashed, sizeof(*k->hashed));
	k->hashed[k->n_hashed++] = h;
	return true;
}

/* A list with wildcards or negation is matched as a whole; else each name is found by itself. */
static void index_line(struct rk_known_hosts *k, char *patterns, size_t line)
{
	char *save = NULL;

	if (strpbrk(patterns, "*?!")) {
		k->lines[line].patterns = rk_arena_strdup(k->arena, patterns);
		k->wild = grown(k->wild, k->n_wild, sizeof(*k->wild));
		k->wild[k->n_wild++] = line;
		return;
	}
	for (char *p = strtok_r(patterns, ",", &save); p; p = strtok_r(NULL, ",", &save))
		if (!rk_starts_with(p, "|1|") || !add_hashed(k, p, line))
			add_name(k, p, line);
}

static bool parse_mark(const char *word, enum rk_host_key_mark *ret)
{
	*ret = rk_streq(word, "@revoked") ? RK_HOST_KEY_REVOKED : RK_HOST_KEY_AUTHORITY;
	return *ret == RK_HOST_KEY_REVOKED || rk_streq(word, "@cert-authority");
}

static void add_line(struct rk_known_hosts *k, char *text, size_t number)
{
	char *save = NULL, *word = strtok_r(text, " \t\r", &save);
	enum rk_host_key_mark mark = RK_HOST_KEY_KNOWN;

	if (!word || *word == '#')
		return;
	if (*word == '@') {
		if (!parse_mark(word, &mark))
			return;
		word = strtok_r(NULL, " \t\r", &save);
	}
	char *type = strtok_r(NULL, " \t\r", &save), *blob = strtok_r(NULL, " \t\r", &save);
	if (!word || !key_ok(type, blob))
		return;
	k->lines = grown(k->lines, k->n_lines, sizeof(*k->lines));
	k->lines[k->n_lines] = (struct line){ NULL, rk_arena_strdup(k->arena, type), rk_arena_strdup(k->arena, blob), mark, number };
	index_line(k, word, k->n_lines++);
}

struct rk_known_hosts *rk_known_hosts_parse(const char *name, const char *text, size_t len)
{
	struct rk_known_hosts *k = rk_xcalloc(1, sizeof(*k));
	struct rk_str line RK_CLEANUP_STR = RK_STR_INIT;
	size_t number = 0;

	k->arena = rk_arena_new();
	k->name = rk_arena_strdup(k->arena, name);
	k->names = rk_map_new();
	for (const char *p = text, *end = text + len; p < end;) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((eol ? eol : end) - p);
		rk_str_reset(&line);
		rk_str_addn(&line, p, n);
		p += n + 1;
		number++;
		if (line.text)
			add_line(k, line.text, number);
	}
	return k;
}

void rk_known_hosts_free(struct rk_known_hosts *known)
{
	if (!known)
		return;
	rk_arena_free(known->arena);
	rk_map_free(known->names);
	free(known->links);
	free(known->lines);
	free(known->hashed);
	free(known->wild);
	free(known);
}

void rk_host_keys_add(struct rk_host_keys *keys, const struct rk_host_key *key, struct rk_arena *arena)
{
	if (!(keys->n & (keys->n - 1))) {
		struct rk_host_key *more = rk_arena_array(arena, keys->n ? keys->n * 2 : 1, sizeof(*more));
		for (size_t i = 0; i < keys->n; i++)
			more[i] = keys->items[i];
		keys->items = more;
	}
	keys->items[keys->n++] = *key;
}

bool rk_host_keys_have(const struct rk_host_keys *keys, enum rk_host_key_mark mark)
{
	for (size_t i = 0; i < keys->n; i++)
		if (keys->items[i].mark == mark)
			return true;
	return false;
}

/* A question: which lines are for this name? */
struct question {
	const struct rk_known_hosts *k;
	char *name;
	bool marked;                  /* only lines with a mark */
	struct rk_arena *arena;
	struct rk_host_keys *keys;
};

static bool asked(const struct question *q, size_t at)
{
	return !q->marked || q->k->lines[at].mark != RK_HOST_KEY_KNOWN;
}

static void take(const struct question *q, size_t at)
{
	const struct line *l = &q->k->lines[at];
	const struct rk_host_key key = { rk_arena_strdup(q->arena, l->type), rk_arena_strdup(q->arena, l->blob), l->mark, rk_arena_strdup(q->arena, q->k->name),
					 l->number };

	if (asked(q, at))
		rk_host_keys_add(q->keys, &key, q->arena);
}

static void find_hashed(const struct question *q, const struct hashed *h)
{
	uint8_t sum[20];

	if (!asked(q, h->line))
		return;
	rk_hmac_sha1(h->salt, sizeof(h->salt), q->name, strlen(q->name), sum);
	if (memcmp(sum, h->sum, sizeof(sum)) == 0)
		take(q, h->line);
}

static void find(const struct question *q)
{
	const struct rk_known_hosts *k = q->k;
	size_t first;

	for (size_t i = 0; i < k->n_wild; i++)
		if (asked(q, k->wild[i]) && list_match(k->lines[k->wild[i]].patterns, q->name))
			take(q, k->wild[i]);
	if (rk_map_get(k->names, lower(q->name), &first))
		for (long at = (long)first; at != NONE; at = k->links[at].next)
			take(q, k->links[at].line);
	for (size_t i = 0; i < k->n_hashed; i++)
		find_hashed(q, &k->hashed[i]);
}

void rk_known_hosts_find(const struct rk_known_hosts *known, const char *host, int port, struct rk_arena *arena, struct rk_host_keys *keys)
{
	char *plain = rk_arena_strdup(arena, host);

	find(&(struct question){ known, port == 22 ? plain : rk_arena_printf(arena, "[%s]:%d", host, port), false, arena, keys });
	if (port != 22)
		find(&(struct question){ known, plain, true, arena, keys });
}

bool rk_host_key_parse(const char *text, struct rk_arena *arena, struct rk_host_key *ret)
{
	char *copy = rk_arena_strdup(arena, text), *save = NULL;
	char *type = strtok_r(copy, " \t\r\n", &save), *blob = type ? strtok_r(NULL, " \t\r\n", &save) : NULL;

	if (!key_ok(type, blob))
		return false;
	*ret = (struct rk_host_key){ .type = type, .blob = blob, .mark = RK_HOST_KEY_KNOWN };
	return true;
}

/* --- files ------------------------------------------------------------------------------------------------------------------------- */

struct cached {
	char *path;
	struct stat seen;
	struct rk_known_hosts *known;
};
/* What this process has read: thousands of sessions ask the same file. Entries live until the process ends or the file changes. */
static struct {
	pthread_rwlock_t lock;
	struct cached *items;
	size_t n;
} cache = { PTHREAD_RWLOCK_INITIALIZER, NULL, 0 };

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static struct cached *cached(const char *path)
{
	for (size_t i = 0; i < cache.n; i++)
		if (strcmp(cache.items[i].path, path) == 0)
			return &cache.items[i];
	return NULL;
}

/* With the lock held for writing. `now` is from before the reading: a change meanwhile is seen at the next look. */
static int reload(const char *path, const struct stat *now, struct cached **ret, struct rk_err *err)
{
	char *text RK_CLEANUP_FREE = NULL;
	size_t len = 0;
	int rc = rk_file_read(path, FILE_MAX, &text, &len, err);
	struct cached *c = cached(path);

	if (rc != 0)
		return rc;
	if (!c) {
		cache.items = grown(cache.items, cache.n, sizeof(*cache.items));
		c = &cache.items[cache.n++];
		*c = (struct cached){ .path = rk_xstrdup(path) };
	}
	rk_known_hosts_free(c->known);
	c->known = rk_known_hosts_parse(path, text, len);
	c->seen = *now;
	*ret = c;
	return 0;
}

int rk_known_hosts_add(const char *path, const char *host, int port, struct rk_arena *arena, struct rk_host_keys *keys, struct rk_err *err)
{
	struct stat now;
	struct cached *c;
	int rc = 0;

	if (stat(path, &now) != 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : rk_err_set(err, RK_INVALID, "\"%s\": %s", path, strerror(errno));
	pthread_rwlock_rdlock(&cache.lock);
	c = cached(path);
	if (!c || !same_file(&c->seen, &now)) {
		pthread_rwlock_unlock(&cache.lock);
		pthread_rwlock_wrlock(&cache.lock);
		c = cached(path);
		if (!c || !same_file(&c->seen, &now))
			rc = reload(path, &now, &c, err);
	}
	if (!rc)
		rk_known_hosts_find(c->known, host, port, arena, keys);
	pthread_rwlock_unlock(&cache.lock);
	return rc == RK_NOT_FOUND ? 0 : rc;
}
