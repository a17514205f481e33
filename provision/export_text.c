#include <stdlib.h>
#include <string.h>

#include "provision/export.h"

/* Lines that count, without blanks at either end. */
struct line {
	const char *text;
	int number;
};
struct lines {
	struct line *items;
	size_t n, cap;
};

static struct lines split(const char *text, struct rk_arena *arena)
{
	struct lines out = { 0 };
	int number = 0;

	for (const char *at = text; *at;) {
		size_t len = strcspn(at, "\n"), from = strspn(at, " \t");
		size_t end = len;
		number++;
		while (end > from && strchr(" \t\r", at[end - 1]))
			end--;
		if (from < end && at[from] != '#')
			*rk_vec_push(&out) = (struct line){ rk_arena_strndup(arena, at + from, end - from), number };
		at += len + (at[len] == '\n');
	}
	return out;
}

static size_t find_from(const struct lines *l, size_t from, const char *text)
{
	size_t i = from;

	while (i < l->n && strcmp(l->items[i].text, text) != 0)
		i++;
	return i;
}

/* Walks both: a line that comes later on the other side means that what stands before it is extra there. */
void rk_export_check_text(const char *wanted, const char *text, struct rk_arena *arena, struct rk_export_diff **ret, size_t *ret_n)
{
	struct lines want = split(wanted, arena), have = split(text, arena);
	struct rk_export_diff *diffs = rk_arena_array(arena, want.n + have.n + 1, sizeof(*diffs));
	size_t n = 0, w = 0, h = 0;

	while (w < want.n || h < have.n) {
		if (w < want.n && h < have.n && strcmp(want.items[w].text, have.items[h].text) == 0) {
			w++;
			h++;
		} else if (h < have.n && (w == want.n || find_from(&want, w, have.items[h].text) == want.n)) {
			diffs[n++] = (struct rk_export_diff){ have.items[h].number, rk_arena_printf(arena, "is too much: %s", have.items[h].text) };
			h++;
		} else {
			diffs[n++] = (struct rk_export_diff){ h < have.n ? have.items[h].number : 0, rk_arena_printf(arena, "is missing here: %s", want.items[w].text) };
			w++;
		}
	}
	free(want.items);
	free(have.items);
	*ret = diffs;
	*ret_n = n;
}
