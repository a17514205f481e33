#include "provision/drivers/partitions_impl.h"

enum {
	OSM_LINE = 4094,          /* fgets of OpenSM takes so many bytes of a line at once */
	KEYS_PER_PORT = 64,       /* P_Key table of a port (read on ibsim; HCAs of the field have at least that) */
};

/* --- lines --------------------------------------------------------------------------------------------------------------------- */

/* Does a piece that should go on with a list look like a new definition? Then the ';' before it is missing. */
static bool new_definition(struct span s)
{
	const char *colon = memchr(s.p, ':', s.n), *equals = memchr(s.p, '=', s.n);
	struct span first = rk_part_trim((struct span){ s.p, colon ? (size_t)((equals && equals < colon ? equals : colon) - s.p) : 0 });
	uint64_t n;
	bool odd, overflow;

	if (!colon || rk_part_is(first, "mgid") || (first.n > 2 && first.p[0] == '0' && rk_part_number(first, &n, &odd, &overflow)))
		return false;
	/* "00:02:c9:..." is a GUID in another notation. */
	size_t hex = 0;
	while (hex < first.n && strchr("0123456789abcdefABCDEF", first.p[hex]))
		hex++;
	return hex < first.n || (hex != 2 && hex != 4);
}

/* What stands between two ';'. */
static void read_piece(struct reader *r, struct span s, bool ends)
{
	s = rk_part_trim(s);
	if (!s.n) {
		if (ends)
			REJECT(r, s.p, "a ';' with nothing before it: OpenSM reads on into old memory; %s");
		r->open &= !ends;
		return;
	}
	if (r->open && new_definition(s)) {
		REJECT(r, s.p, "the definition of line %u has no ';': %s", r->open_line);
		r->open = false;
	}
	bool good = true;
	if (!r->open) {
		const char *colon = memchr(s.p, ':', s.n);
		if (!colon) {
			REJECT(r, s.p, "no definition (\"name=key : members ;\"): %s");
			return;
		}
		struct span header = { s.p, (size_t)(colon - s.p) };
		r->definitions++;
		r->open_line = r->line;
		good = rk_part_read_header(r, header);
		s.n -= header.n + 1;
		s.p = colon + 1;
	}
	good = good && rk_part_read_members(r, s);
	/* After a rejected piece OpenSM stops; the search for more goes on behind the next ';' or line end. */
	r->open = good && !ends;
}

/* At most OSM_LINE bytes as fgets hands them out, without the newline. */
static void read_chunk(struct reader *r, struct span s)
{
	const char *nul = s.n ? memchr(s.p, '\0', s.n) : NULL;

	if (nul) {
		FIND(r, nul, "a NUL byte: the rest of the line is dropped");
		s.n = (size_t)(nul - s.p);
	}
	const char *hash = s.n ? memchr(s.p, '#', s.n) : NULL;
	if (hash)
		s.n = (size_t)(hash - s.p);
	const char *cr = s.n ? memchr(s.p, '\r', s.n) : NULL;
	if (cr) {
		REJECT(r, cr, "a carriage return is part of the text for OpenSM: %s");
		s.n = (size_t)(cr - s.p);
	}
	for (bool more = true; more;) {
		struct span piece;
		while (s.n && rk_part_blank(*s.p)) {
			s.p++;
			s.n--;
		}
		if (!s.n)
			return;
		more = rk_part_cut(&s, ';', &piece);
		read_piece(r, piece, more);
	}
}

static void read_line(struct reader *r, struct span line)
{
	if (line.n > OSM_LINE)
		rk_diag_line(r->diags, r->line, OSM_LINE + 1, "the line has more than %d bytes: OpenSM cuts it here and reads the rest as a line of its own, "
			     "so members are dropped, a comment comes alive, or %s", OSM_LINE, rk_part_fails_open);
	while (line.n > OSM_LINE) {
		read_chunk(r, (struct span){ line.p, OSM_LINE });
		line.p += OSM_LINE;
		line.n -= OSM_LINE;
	}
	read_chunk(r, line);
}

/* --- findings over the whole ----------------------------------------------------------------------------------------------------- */

static bool covers(const struct rk_part_member *group, const struct rk_part_member *m)
{
	if (group->who == RK_PART_GUID)
		return false;
	return group->who == m->who || group->who == RK_PART_ALL || (group->who == RK_PART_ALL_CAS && (m->who == RK_PART_GUID || m->who == RK_PART_SELF));
}

/* Full members that a later entry of the same key makes limited, and ports named twice with different words. */
static void find_demoted(struct reader *r, const struct part *part)
{
	struct rk_map *last RK_CLEANUP_MAP = rk_map_new();
	const struct rk_part_member *items = part->members.items;
	bool self_written = false;

	for (size_t i = 0; i < part->members.n; i++) {
		if (items[i].who == RK_PART_GUID)
			rk_map_set_u64(last, items[i].guid, i);
		self_written |= items[i].who == RK_PART_SELF && items[i].line;
	}
	for (size_t i = 0; i < part->members.n; i++) {
		size_t winner = i;
		if (!items[i].line && self_written)
			continue;
		if (items[i].who == RK_PART_GUID)
			rk_map_get_u64(last, items[i].guid, &winner);
		for (size_t g = winner + 1; g < part->members.n; g++)
			if (covers(&items[g], &items[i]))
				winner = g;
		if (winner == i || items[winner].full == items[i].full || (items[winner].full && items[i].who != RK_PART_GUID))
			continue;
		bool says_at_winner = items[i].line == 0;
		const struct rk_part_member *at = says_at_winner ? &items[winner] : &items[i];
		if (!items[winner].full)
			rk_diag_line(r->diags, at->line, at->col, says_at_winner ? "%s demotes the port of the subnet manager to limited in key 0x%04x (put SELF=full behind it, line %u)"
				     : "%s is demoted to limited in key 0x%04x by line %u: the last word wins",
				     says_at_winner ? rk_part_who_name(items[winner].who) : items[i].who ? rk_part_who_name(items[i].who) : "the port", part->pkey, items[winner].line);
		else if (items[winner].who == RK_PART_GUID)
			rk_diag_line(r->diags, at->line, at->col, "limited is dropped: the port is a full member of key 0x%04x by line %u", part->pkey, items[winner].line);
	}
}

/* Ports with more keys than a table has. */
static void find_full_tables(struct reader *r)
{
	struct rk_map *count RK_CLEANUP_MAP = rk_map_new(), *seen RK_CLEANUP_MAP = NULL;
	size_t everywhere = 0;

	for (size_t i = 0; i < r->parts.n; i++)
		for (size_t k = 0; k < r->parts.items[i].members.n; k++)
			if (r->parts.items[i].members.items[k].who == RK_PART_ALL) {
				everywhere++;
				break;
			}
	for (size_t i = 0; i < r->parts.n; i++) {
		seen = rk_map_new();
		for (size_t k = 0; k < r->parts.items[i].members.n; k++) {
			const struct rk_part_member *m = &r->parts.items[i].members.items[k];
			size_t n = 0;
			if (m->who != RK_PART_GUID || !rk_map_add_u64(seen, m->guid, 0, NULL))
				continue;
			rk_map_get_u64(count, m->guid, &n);
			rk_map_set_u64(count, m->guid, ++n);
			if (n + everywhere == KEYS_PER_PORT + 1)
				rk_diag_line(r->diags, m->line, m->col, "the port has more than %d keys: OpenSM drops those that its table has no room for", KEYS_PER_PORT);
		}
		rk_map_free(seen);
		seen = NULL;
	}
}

static void implied(struct reader *r, size_t part, enum rk_part_who who, bool full)
{
	*rk_vec_push(&r->parts.items[part].members) = (struct rk_part_member){ .who = who, .full = full };
}

/* Reads everything; findings go to diags. The default partition is there before the first line, as in OpenSM. */
static void read_all(struct reader *r, const char *text, size_t len)
{
	size_t standard = rk_part_at(r, RK_PKEY_DEFAULT, "Default", 0);

	implied(r, standard, RK_PART_ALL, false);
	implied(r, standard, RK_PART_SELF, true);
	for (const char *p = text, *end = text + len; p < end;) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((eol ? eol : end) - p);
		r->line++;
		r->line_start = p;
		read_line(r, (struct span){ p, n });
		p += n + 1;
	}
	if (!r->definitions) {
		r->rejected = true;
		rk_diag_line(r->diags, 0, 0, "no definition in the file: %s", rk_part_fails_open);
	}
	for (size_t i = 0; i < r->parts.n; i++)
		find_demoted(r, &r->parts.items[i]);
	find_full_tables(r);
}

static void reader_free(struct reader *r)
{
	for (size_t i = 0; i < r->parts.n; i++)
		free(r->parts.items[i].members.items);
	free(r->parts.items);
	rk_map_free(r->keys);
	rk_map_free(r->names);
}

static void export_parts(const struct reader *r, struct rk_arena *arena, struct rk_partitions *ret)
{
	*ret = (struct rk_partitions){ .items = rk_arena_array(arena, r->parts.n ? r->parts.n : 1, sizeof(*ret->items)), .n = r->parts.n, .rejected = r->rejected };
	for (size_t i = 0; i < r->parts.n; i++) {
		const struct part *from = &r->parts.items[i];
		struct rk_part *to = &ret->items[i];
		*to = (struct rk_part){ .pkey = from->pkey, .name = rk_arena_strdup(arena, from->name), .line = from->line, .index0 = from->index0,
				       .n_members = from->members.n };
		to->members = rk_arena_array(arena, from->members.n ? from->members.n : 1, sizeof(*to->members));
		if (from->members.n)
			memcpy(to->members, from->members.items, from->members.n * sizeof(*to->members));
	}
}

int rk_partitions_read(const char *path, const char *text, size_t len, struct rk_arena *arena, struct rk_partitions *ret, struct rk_diags *findings)
{
	struct reader r = { .diags = findings, .arena = arena, .keys = rk_map_new(), .names = rk_map_new() };

	findings->file = path;
	read_all(&r, text, len);
	export_parts(&r, arena, ret);
	reader_free(&r);
	return findings->n ? RK_UNHEALTHY : 0;
}

int rk_partitions_lint(const char *path, const char *text, size_t len, struct rk_diags *findings)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_partitions ignored;

	return rk_partitions_read(path, text, len, arena, &ignored, findings);
}
