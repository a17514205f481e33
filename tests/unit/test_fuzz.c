/* The kept seeds of every fuzz entry, and mutations of them: the same ones on every run. RK_FUZZ_N: how many per entry (default below). */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "tests/fuzz/fuzz.h"

enum { MUTATIONS = 3000, SEEDS_MAX = 256, SEED_BYTES = 2048, INPUT_MAX = 8192, PLACES_MAX = 240 };

struct seeds {
	uint8_t *items[SEEDS_MAX];
	size_t len[SEEDS_MAX], n;
};

static uint64_t random_state;

/* xorshift64*: repeatable everywhere. */
static size_t pick(size_t below)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return below ? (size_t)(random_state * 0x2545f4914f6cdd1du >> 33) % below : 0;
}

/* In front goes the byte by which a collector entry chooses the exit status. */
static void add_seed(struct seeds *s, const char *text, size_t len, bool collector)
{
	if (s->n == SEEDS_MAX)
		return;
	uint8_t *copy = rk_xmalloc(len + 2);
	copy[0] = '0';
	memcpy(copy + collector, text, len);
	s->items[s->n] = copy;
	s->len[s->n++] = len + collector;
}

static void add_file(struct seeds *s, const char *path, size_t max, bool collector)
{
	char *text = NULL;
	size_t len;

	if (rk_file_read(path, 16 << 20, &text, &len, NULL))
		return;
	add_seed(s, text, len < max ? len : max, collector);
	free(text);
}

/* most: bytes of the answer of a healthy host. */
static void load_seeds(struct seeds *s, const char *name, bool collector, size_t most)
{
	char path[512];

	s->n = 0;
	snprintf(path, sizeof(path), "tests/fuzz/seeds/%s", name);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
		if (*e->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "tests/fuzz/seeds/%s/%s", name, e->d_name);
		add_file(s, path, 1 << 20, false); /* as the fuzzer wrote it */
	}
	if (d)
		closedir(d);
	snprintf(path, sizeof(path), "tests/evidence/healthy/%s.stdout", name);
	add_file(s, path, most, collector);
	add_seed(s, "", 0, collector);
}

static void free_seeds(struct seeds *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->items[i]);
}

static const char *const tokens[] = { "{", "}", "[", "]", "\"", "\\", ":", ",", "\n", "\r\n", "\t", " ", "0x", "0xffffffffffffffff", "-1", "1e999", "18446744073709551616",
				      "N/A", "<", "</", "/>", "\033[31m", "\033", "\xff", "\xc3", "%", "*", "!", "@", "GPU 0:", "Link 1:", "Lid ", "Xid (PCI:" };

/* Inserts n bytes at `at`; returns the new length. */
static size_t insert(uint8_t *buf, size_t len, size_t at, const void *bytes, size_t n)
{
	if (len + n > INPUT_MAX)
		return len;
	memmove(buf + at + n, buf + at, len - at);
	memcpy(buf + at, bytes, n);
	return len + n;
}

static size_t mutate(const struct seeds *s, uint8_t *buf, size_t len)
{
	size_t at = pick(len + 1), n = pick(len - at + 1);
	uint8_t piece[256];

	switch (pick(7)) {
	case 0: /* one bit */
		if (at < len)
			buf[at] ^= (uint8_t)(1u << pick(8));
		return len;
	case 1: /* one byte */
		if (at < len)
			buf[at] = (uint8_t)pick(256);
		return len;
	case 2: /* a piece gone */
		n = n < 64 ? n : 64;
		memmove(buf + at, buf + at + n, len - at - n);
		return len - n;
	case 3: /* a piece twice */
		n = n < sizeof(piece) ? n : sizeof(piece);
		memcpy(piece, buf + at, n);
		return insert(buf, len, at, piece, n);
	case 4: { /* a word that parsers look for */
		const char *token = tokens[pick(RK_ARRAY_SIZE(tokens))];
		return insert(buf, len, at, token, strlen(token));
	}
	case 5: { /* a piece of another seed */
		size_t other = pick(s->n), from = pick(s->len[other] + 1), most = s->len[other] - from;
		n = pick((most < sizeof(piece) ? most : sizeof(piece)) + 1);
		return insert(buf, len, at, s->items[other] + from, n);
	}
	default: /* cut */
		return at;
	}
}

static void feed(const struct rk_fuzz_entry *entry, const char *collector, const uint8_t *data, size_t size)
{
	uint8_t *exact RK_CLEANUP_FREE = rk_xmalloc(size + 1); /* of its own length: reading past the end is seen */

	memcpy(exact, data, size);
	if (entry)
		entry->fn(exact, size);
	else
		rk_fuzz_collector(collector, exact, size);
}

static void run(const struct rk_fuzz_entry *entry, const char *name)
{
	static uint8_t buf[INPUT_MAX];
	static struct seeds seeds;
	const char *wanted = getenv("RK_FUZZ_N"), *only = getenv("RK_FUZZ_ONLY");
	long count = wanted ? atol(wanted) : MUTATIONS;

	if (only && strcmp(only, name) != 0)
		return;
	load_seeds(&seeds, name, !entry, SEED_BYTES);
	random_state = 88172645463325252u;
	for (size_t i = 0; i < seeds.n; i++)
		feed(entry, name, seeds.items[i], seeds.len[i]);
	for (long i = 0; i < count; i++) {
		size_t base = pick(seeds.n), len = seeds.len[base] < INPUT_MAX ? seeds.len[base] : INPUT_MAX;
		memcpy(buf, seeds.items[base], len);
		for (size_t k = pick(6) + 1; k > 0; k--)
			len = mutate(&seeds, buf, len);
		feed(entry, name, buf, len);
	}
	free_seeds(&seeds);
}

/* ---- JSON of another shape: what single bytes hardly ever make --------------------------------------------------------------- */

static const char *const shapes[] = { "null", "true", "0", "-1", "1e308", "18446744073709551616", "\"\"", "\"x\"", "[]", "{}", "[1]", "[\"x\"]", "[[1]]", "[{}]", "[null]",
				      "{\"x\":1}", "{\"x\":[\"x\"]}", "{\"x\":{}}", "{\"\":null}" };

/* Length of the value at text, of n bytes; strings and what is inside brackets belong to it. */
static size_t value_len(const uint8_t *text, size_t n)
{
	size_t depth = 0;
	bool quoted = false;

	for (size_t i = 0; i < n; i++) {
		if (quoted && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			quoted = !quoted;
		else if (quoted)
			continue;
		else if (text[i] == '{' || text[i] == '[')
			depth++;
		else if (depth == 0 && (text[i] == ',' || text[i] == '}' || text[i] == ']' || text[i] == '\n'))
			return i;
		else if (text[i] == '}' || text[i] == ']')
			depth--;
	}
	return n;
}

static void feed_shapes(const struct rk_fuzz_entry *entry, const char *name, const uint8_t *text, size_t len, size_t at)
{
	size_t n = value_len(text + at, len - at);

	for (size_t i = 0; i < RK_ARRAY_SIZE(shapes); i++) {
		size_t more = strlen(shapes[i]);
		uint8_t *changed RK_CLEANUP_FREE = rk_xmalloc(len - n + more + 1);
		memcpy(changed, text, at);
		memcpy(changed + at, shapes[i], more);
		memcpy(changed + at + more, text + at + n, len - at - n);
		feed(entry, name, changed, len - n + more);
	}
}

/* Values stand behind ':', '[' and, in arrays, ','. About so many of them, from all over the text. */
static void reshape(const struct rk_fuzz_entry *entry, const char *name, const uint8_t *text, size_t len, size_t most)
{
	size_t places = 0, step;
	bool quoted = false;

	for (size_t i = 0; i < len; i++)
		places += text[i] == ':' || text[i] == '[' || text[i] == ',';
	step = places / most + 1;
	for (size_t i = 0; i < len; i++) {
		if (quoted && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			quoted = !quoted;
		else if (!quoted && (text[i] == ':' || text[i] == '[' || text[i] == ',') && places++ % step == 0)
			feed_shapes(entry, name, text, len, i + 1);
	}
}

static void reshape_seeds(const struct rk_fuzz_entry *entry, const char *name)
{
	static struct seeds seeds;
	const char *only = getenv("RK_FUZZ_ONLY");

	if (only && strcmp(only, name) != 0)
		return;
	load_seeds(&seeds, name, !entry, INPUT_MAX);
	for (size_t i = 0; i < seeds.n; i++)
		if (memchr(seeds.items[i], '{', seeds.len[i]) && seeds.len[i] <= INPUT_MAX)
			reshape(entry, name, seeds.items[i], seeds.len[i], PLACES_MAX / seeds.n + 1);
	free_seeds(&seeds);
}

static void readers_of_json_survive_values_of_any_shape(void **state)
{
	size_t n;
	const struct rk_collector *all = rk_collectors(&n);

	(void)state;
	for (size_t i = 0; i < n; i++)
		reshape_seeds(NULL, all[i].name);
	for (size_t i = 0; i < RK_ARRAY_SIZE(rk_fuzz_entries); i++)
		reshape_seeds(&rk_fuzz_entries[i], rk_fuzz_entries[i].name);
}

static void collectors_survive_seeds_and_mutations(void **state)
{
	size_t n;
	const struct rk_collector *all = rk_collectors(&n);

	(void)state;
	for (size_t i = 0; i < n; i++)
		run(NULL, all[i].name);
}

static void other_readers_survive_seeds_and_mutations(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rk_fuzz_entries); i++)
		run(&rk_fuzz_entries[i], rk_fuzz_entries[i].name);
}

/* A reader that make fuzz would leave out, or that would begin with nothing. */
static void check_reader(const char *name, bool collector)
{
	static struct seeds seeds;
	char path[512];

	snprintf(path, sizeof(path), "tests/fuzz/fuzz_%s.c", name);
	if (access(path, R_OK) != 0)
		fail_msg("no %s", path);
	load_seeds(&seeds, name, collector, SEED_BYTES);
	if (seeds.n < 2) /* one is the empty text */
		fail_msg("no seed for %s", name);
	free_seeds(&seeds);
}

static void every_reader_has_its_program_and_seeds(void **state)
{
	size_t n;
	const struct rk_collector *all = rk_collectors(&n);

	(void)state;
	for (size_t i = 0; i < n; i++)
		check_reader(all[i].name, true);
	for (size_t i = 0; i < RK_ARRAY_SIZE(rk_fuzz_entries); i++)
		check_reader(rk_fuzz_entries[i].name, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_reader_has_its_program_and_seeds),
		cmocka_unit_test(collectors_survive_seeds_and_mutations),
		cmocka_unit_test(other_readers_survive_seeds_and_mutations),
		cmocka_unit_test(readers_of_json_survive_values_of_any_shape),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
