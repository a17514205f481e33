/* Our section in the OpenSM partitions file, and changing it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/digest.h"
#include "provision/drivers/partitions_file.h"

enum { EDIT_LINE = 4000, GUIDS_PER_LINE = 180 };

/* --- the managed section ------------------------------------------------------------------------------------------------------- */

static const char begin_mark[] = "# BEGIN racksh managed", end_mark[] = "# END racksh managed";

struct section {
	size_t begins, ends;              /* how many marker lines */
	size_t begin, body, body_end, end;
	uint32_t first_line, last_line;
};

static struct section find_section(const char *text, size_t len)
{
	struct section s = { 0 };
	uint32_t line = 0;

	for (size_t at = 0; at < len;) {
		const char *eol = memchr(text + at, '\n', len - at);
		size_t next = eol ? (size_t)(eol - text) + 1 : len, n = next - at;
		line++;
		if (n >= strlen(begin_mark) && memcmp(text + at, begin_mark, strlen(begin_mark)) == 0) {
			s.begins++;
			s.begin = at;
			s.body = next;
			s.first_line = line;
		} else if (n >= strlen(end_mark) && memcmp(text + at, end_mark, strlen(end_mark)) == 0) {
			s.ends++;
			s.body_end = at;
			s.end = next;
			s.last_line = line;
		}
		at = next;
	}
	return s;
}

static uint32_t count_lines(const char *text, size_t len)
{
	uint32_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += text[i] == '\n';
	return n;
}

static char *marker(const char *body, size_t len)
{
	char sum[65];

	rk_sha256_hex(body, len, sum);
	return rk_xasprintf("%s %u sha256=%s\n", begin_mark, count_lines(body, len), sum);
}

/* Absent is fine; damaged is not: somebody worked in it, and rewriting it would throw that away. */
static void check_section(const char *text, const struct section *s, struct rk_diags *diags)
{
	if (!s->begins && !s->ends)
		return;
	if (s->begins != 1 || s->ends != 1 || s->body_end < s->body) {
		rk_diag_line(diags, s->first_line ? s->first_line : s->last_line, 1, "the markers of the section managed by racksh are doubled or incomplete");
	} else {
		char *want RK_CLEANUP_FREE = marker(text + s->body, s->body_end - s->body);
		if (s->body - s->begin == strlen(want) && memcmp(text + s->begin, want, strlen(want)) == 0)
			return;
		rk_diag_line(diags, s->first_line, 1, "the section managed by racksh was edited: its checksum does not fit");
	}
	rk_diag_hint(diags, "move your own definitions out of it and take both marker lines and what is between them away");
}

static int unhealthy(struct rk_diags *diags, struct rk_err *err)
{
	if (rk_diags_result(diags, err) == 0)
		return 0;
	if (err)
		err->rc = RK_UNHEALTHY;
	return RK_UNHEALTHY;
}

int rk_partitions_parse(const char *path, const char *text, size_t len, struct rk_arena *arena, struct rk_partitions *ret, struct rk_err *err)
{
	struct rk_diags diags RK_CLEANUP_DIAGS = RK_DIAGS_INIT(path);
	struct section s = find_section(text, len);

	(void)rk_partitions_read(path, text, len, arena, ret, &diags);
	check_section(text, &s, &diags);
	for (size_t i = 0; i < ret->n; i++)
		ret->items[i].ours = s.begins && ret->items[i].line > s.first_line && ret->items[i].line < s.last_line;
	ret->managed = s.begins == 1;
	ret->begin = s.begin;
	ret->end = s.end;
	return unhealthy(&diags, err);
}

/* --- changing the file --------------------------------------------------------------------------------------------------------- */

struct wanted {
	uint16_t pkey;
	const char *name;
	struct rk_ib_member *members;
	size_t n;
	bool index0;
};

/* Stricter than reading: what makes a later hand edit or a second tool likely to go wrong is refused, too. */
static void check_editable(const char *text, size_t len, const struct rk_partitions *parts, struct rk_diags *diags)
{
	const struct rk_part *standard = &parts->items[0];
	uint32_t line = 0;
	bool limited_all = false, full_self = false;

	for (size_t at = 0; at < len;) {
		const char *eol = memchr(text + at, '\n', len - at);
		size_t next = eol ? (size_t)(eol - text) + 1 : len;
		line++;
		if (next - at > EDIT_LINE)
			rk_diag_line(diags, line, EDIT_LINE, "a line of more than %d bytes is too near to where OpenSM cuts", EDIT_LINE);
		at = next;
	}
	for (size_t i = 0; i < standard->n_members; i++) {
		const struct rk_part_member *m = &standard->members[i];
		if (!m->line)
			continue;
		if (m->who == RK_PART_ALL) {
			limited_all = !m->full;
			full_self = false;
		}
		if (m->who == RK_PART_SELF)
			full_self = m->full && limited_all;
		if (m->who == RK_PART_ALL_CAS && m->full)
			limited_all = false;
	}
	if (!limited_all || !full_self) {
		rk_diag_line(diags, standard->line, 1, "the default partition is not written as ALL=limited before SELF=full: tenants would not be apart");
		rk_diag_hint(diags, "write: Default=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;");
	}
}

/* indx0: at index 0 of the port's table, where collective libraries look; OpenSM moves the default key to another index, and back when ours goes. */
static void add_membership(struct rk_str *out, const struct wanted *w, bool full)
{
	size_t on_line = 0;

	for (size_t i = 0; i < w->n; i++) {
		if (w->members[i].full != full)
			continue;
		if (on_line == 0)
			rk_str_addf(out, "%s=0x%04x%s, defmember=%s : ", w->name, w->pkey, w->index0 ? ", indx0" : "", full ? "full" : "limited");
		rk_str_addf(out, "%s0x%016" PRIx64, on_line ? "," : "", w->members[i].guid);
		if (++on_line == GUIDS_PER_LINE) {
			rk_str_add(out, " ;\n");
			on_line = 0;
		}
	}
	if (on_line)
		rk_str_add(out, " ;\n");
}

static int cmp_wanted(const void *a, const void *b)
{
	return (int)((const struct wanted *)a)->pkey - (int)((const struct wanted *)b)->pkey;
}

static int cmp_member(const void *a, const void *b)
{
	uint64_t x = ((const struct rk_ib_member *)a)->guid, y = ((const struct rk_ib_member *)b)->guid;

	return (x > y) - (x < y);
}

/* Our partitions of the file as they shall be: those of the section, the one that changes replaced. */
static size_t collect(const struct rk_partitions *parts, const struct wanted *change, struct rk_arena *arena, struct wanted *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < parts->n; i++) {
		const struct rk_part *part = &parts->items[i];
		if (!part->ours || part->pkey == change->pkey)
			continue;
		struct wanted *w = &ret[n++];
		*w = (struct wanted){ part->pkey, part->name, rk_arena_array(arena, part->n_members + 1, sizeof(*w->members)), 0, part->index0 };
		for (size_t k = 0; k < part->n_members; k++)
			if (part->members[k].who == RK_PART_GUID)
				w->members[w->n++] = (struct rk_ib_member){ part->members[k].guid, part->members[k].full };
		qsort(w->members, w->n, sizeof(*w->members), cmp_member);
	}
	if (change->n)
		ret[n++] = *change;
	qsort(ret, n, sizeof(*ret), cmp_wanted);
	return n;
}

static bool name_ok(const char *name)
{
	size_t n = strlen(name);

	return n >= 1 && n <= 63 && strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == n && !rk_streq(name, "Default");
}

static int check_change(const char *path, const struct rk_partitions *parts, const struct wanted *change, struct rk_err *err)
{
	if (change->pkey < 1 || change->pkey >= RK_PKEY_DEFAULT)
		return rk_err_set(err, RK_INVALID, "key 0x%04x is not one that a tenant can have", change->pkey);
	if (!name_ok(change->name))
		return rk_err_set(err, RK_INVALID, "an InfiniBand partition cannot have the name \"%s\"", change->name);
	for (size_t i = 0; i < change->n; i++)
		if (!change->members[i].guid)
			return rk_err_set(err, RK_INVALID, "partition \"%s\": a member has no GUID", change->name);
	for (size_t i = 0; i < parts->n; i++)
		if (!parts->items[i].ours && parts->items[i].pkey == change->pkey)
			return rk_err_set(err, RK_CONFLICT, "%s:%u: key 0x%04x is defined outside the section managed by racksh, as \"%s\"", path, parts->items[i].line,
					  change->pkey, parts->items[i].name);
	return 0;
}

static bool has_ours(const struct rk_partitions *parts, uint16_t pkey)
{
	for (size_t i = 0; i < parts->n; i++)
		if (parts->items[i].ours && parts->items[i].pkey == pkey)
			return true;
	return false;
}

static void splice(const char *text, size_t len, const struct rk_partitions *parts, const char *body, size_t body_len, struct rk_str *out)
{
	char *mark RK_CLEANUP_FREE = marker(body, body_len);
	size_t begin = parts->managed ? parts->begin : len, end = parts->managed ? parts->end : len;

	rk_str_addn(out, text, begin);
	if (begin && text[begin - 1] != '\n')
		rk_str_addc(out, '\n');
	rk_str_add(out, mark);
	rk_str_addn(out, body, body_len);
	rk_str_addf(out, "%s\n", end_mark);
	rk_str_addn(out, text + end, len - end);
}

int rk_partitions_edit(const char *path, const char *text, size_t len, const struct rk_ib_wanted *wanted, struct rk_str *out, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_diags diags RK_CLEANUP_DIAGS = RK_DIAGS_INIT(path);
	struct rk_str body RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_partitions parts, check;
	struct wanted change = { wanted->pkey, wanted->name, rk_arena_array(arena, wanted->n + 1, sizeof(*change.members)), wanted->n, !wanted->shared };
	int rc = rk_partitions_parse(path, text, len, arena, &parts, err);

	if (rc != 0)
		return rc;
	check_editable(text, len, &parts, &diags);
	if ((rc = unhealthy(&diags, err)) != 0)
		return rc;
	if (change.n)
		memcpy(change.members, wanted->members, change.n * sizeof(*change.members));
	qsort(change.members, change.n, sizeof(*change.members), cmp_member);
	if ((rc = check_change(path, &parts, &change, err)) != 0)
		return rc;
	if (!change.n && !has_ours(&parts, change.pkey)) {
		rk_str_addn(out, text, len);
		return 0;
	}
	struct wanted *all = rk_arena_array(arena, parts.n + 1, sizeof(*all));
	size_t count = collect(&parts, &change, arena, all);
	for (size_t i = 0; i < count; i++) {
		add_membership(&body, &all[i], true);
		add_membership(&body, &all[i], false);
	}
	splice(text, len, &parts, rk_str_text(&body), body.len, out);
	/* What we wrote must be as clean as what we demand: too many keys on a port, a name already in use, or a fault of our own. */
	rc = rk_partitions_parse(path, rk_str_text(out), out->len, arena, &check, err);
	if (rc != 0)
		rk_err_while(err, "the new text of the partitions file");
	return rc;
}
