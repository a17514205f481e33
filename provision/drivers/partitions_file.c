#include "provision/drivers/partitions_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/map.h"

enum {
	OSM_LINE = 4094,          /* fgets of OpenSM takes so many bytes of a line at once */
	KEYS_PER_PORT = 64,       /* P_Key table of a port (read on ibsim; HCAs of the field have at least that) */
};

struct member_vec {
	struct rk_part_member *items;
	size_t n, cap;
};
struct part {
	uint16_t pkey;
	const char *name;
	uint32_t line;
	struct member_vec members;
};
struct part_vec {
	struct part *items;
	size_t n, cap;
};
struct reader {
	struct rk_diags *diags;
	struct rk_arena *arena;
	struct rk_map *keys;              /* pkey -> index into parts */
	struct part_vec parts;
	const char *line_start;
	uint32_t line;
	bool open;                        /* a definition without its ';' yet */
	uint32_t open_line;
	size_t current;                   /* part of the open definition */
	bool full;                        /* defmember of the open definition */
	size_t definitions;
	bool rejected;                    /* OpenSM would not take the file */
};
struct span {
	const char *p;
	size_t n;
};

static const char fails_open[] = "OpenSM would reject the file and make every port a full member of the default partition";

/* --- words --------------------------------------------------------------------------------------------------------------------- */

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

static struct span trim(struct span s)
{
	while (s.n && blank(*s.p)) {
		s.p++;
		s.n--;
	}
	while (s.n && blank(s.p[s.n - 1]))
		s.n--;
	return s;
}

/* Takes what is before the first `sep`; false when the rest was the last. */
static bool cut(struct span *rest, char sep, struct span *ret)
{
	const char *at = rest->n ? memchr(rest->p, sep, rest->n) : NULL;

	*ret = (struct span){ rest->p, at ? (size_t)(at - rest->p) : rest->n };
	if (!at)
		return false;
	rest->n -= ret->n + 1;
	rest->p = at + 1;
	return true;
}

static bool is(struct span s, const char *word)
{
	return s.n == strlen(word) && memcmp(s.p, word, s.n) == 0;
}

/* OpenSM compares as many bytes as the file has: "A" is ALL. */
static bool is_prefix(struct span s, const char *word)
{
	return s.n <= strlen(word) && memcmp(s.p, word, s.n) == 0;
}

/* The word as a message may show it. */
static const char *show(struct reader *r, struct span s)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_add_escaped(&text, s.p, s.n < 60 ? s.n : 60);
	return rk_arena_strdup(r->arena, rk_str_text(&text));
}

static uint32_t column(const struct reader *r, const char *at)
{
	uint32_t col = 1;

	for (const char *p = r->line_start; p < at; p++)
		col += ((unsigned char)*p & 0xc0) != 0x80;
	return col;
}

#define FIND(r, at, ...) rk_diag_line((r)->diags, (r)->line, column(r, at), __VA_ARGS__)
/* The same for what makes OpenSM reject the whole file: format ends with %s. */
#define REJECT(r, at, format, ...) ((r)->rejected = true, FIND(r, at, format, ##__VA_ARGS__, fails_open))

/* strtoul(…, 0) over a whole word: sign, 0x, octal. *odd: not written as 0x or plain decimal. */
static bool number(struct span s, uint64_t *ret, bool *odd, bool *overflow)
{
	unsigned base = 10;
	bool minus = false;
	size_t i = 0;

	if (s.n && (*s.p == '-' || *s.p == '+'))
		minus = s.p[i++] == '-';
	if (s.n > i + 2 && s.p[i] == '0' && (s.p[i + 1] == 'x' || s.p[i + 1] == 'X')) {
		base = 16;
		i += 2;
	} else if (s.n > i + 1 && s.p[i] == '0') {
		base = 8;
	}
	*odd = base == 8 || (s.n && (*s.p == '-' || *s.p == '+'));
	*overflow = false;
	*ret = 0;
	if (i == s.n)
		return false;
	for (; i < s.n; i++) {
		unsigned c = (unsigned char)s.p[i], digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
		if (digit >= base)
			return false;
		*overflow |= *ret > (UINT64_MAX - digit) / base;
		*ret = *ret * base + digit;
	}
	if (*overflow)
		*ret = UINT64_MAX;
	if (minus)
		*ret = -*ret;
	return true;
}

/* --- header -------------------------------------------------------------------------------------------------------------------- */

enum flag_kind { FLAG_NUMBER, FLAG_ALONE, FLAG_MEMBER };
static const struct flag {
	const char *word;
	enum flag_kind kind;
	uint64_t max;                     /* larger ones are ignored by OpenSM */
	bool zero;                        /* 0 is a value */
} flags[] = { /* in OpenSM's order, which decides what an abbreviation means */
	{ "mtu", FLAG_NUMBER, UINT32_MAX, false }, { "rate", FLAG_NUMBER, UINT32_MAX, false }, { "scope", FLAG_NUMBER, 15, false },
	{ "Q_Key", FLAG_NUMBER, UINT32_MAX, true }, { "TClass", FLAG_NUMBER, UINT32_MAX, true }, { "sl", FLAG_NUMBER, 15, true },
	{ "FlowLabel", FLAG_NUMBER, 0xfffff, true }, { "ipoib", FLAG_ALONE, 0, false }, { "indx0", FLAG_ALONE, 0, false },
	{ "defmember", FLAG_MEMBER, 0, false },
};
static const char *const flag_words[] = { "mtu", "rate", "scope", "Q_Key", "TClass", "sl", "FlowLabel", "ipoib", "indx0", "defmember", NULL };

static const char *const memberships[] = { "full", "both", "limited" };

/* Membership that a word gives. *known: one of OpenSM's words or a beginning of one. */
static bool membership(struct reader *r, struct span word, bool *known)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(memberships); i++) {
		if (!is_prefix(word, memberships[i]))
			continue;
		*known = true;
		if (!is(word, memberships[i]))
			FIND(r, word.p, "\"%s\" is misread as \"%s\": OpenSM takes every beginning of a word for the word", show(r, word), memberships[i]);
		else if (i == 1)
			FIND(r, word.p, "\"both\" is misread as \"full\" unless opensm.conf sets allow_both_pkeys");
		return i < 2;
	}
	*known = false;
	return false;
}

static void read_flag(struct reader *r, struct span token)
{
	struct span rest = token, word, value = { NULL, 0 };
	bool has_value = cut(&rest, '=', &word), odd, overflow, known;
	uint64_t n;

	word = trim(word);
	if (has_value)
		value = trim(rest);
	if (!word.n)
		return;
	for (size_t i = 0; i < RK_ARRAY_SIZE(flags); i++) {
		if (!is_prefix(word, flags[i].word))
			continue;
		if (!is(word, flags[i].word))
			FIND(r, word.p, "flag \"%s\" is misread as \"%s\": OpenSM takes every beginning of a word for the word", show(r, word), flags[i].word);
		if (flags[i].kind == FLAG_MEMBER) {
			bool full = has_value && membership(r, value, &known);
			if (has_value && known)
				r->full = full;
			else
				FIND(r, word.p, "\"defmember\" without full or limited is dropped: members without a word of their own are demoted to limited");
		} else if (flags[i].kind == FLAG_NUMBER && (!number(value, &n, &odd, &overflow) || n > flags[i].max || (!n && !flags[i].zero))) {
			FIND(r, word.p, "flag \"%s\" has no valid value and is dropped", flags[i].word);
		}
		return;
	}
	FIND(r, word.p, "unknown flag \"%s\" is dropped%s", show(r, word),
	     rk_starts_with(show(r, word), "def") ? ": members without a word of their own are demoted to limited" : "");
	const char *near = rk_near_name(show(r, word), flag_words, RK_ARRAY_SIZE(flag_words) - 1);
	if (near)
		rk_diag_hint(r->diags, "did you mean \"%s\"?", near);
}

static size_t part_at(struct reader *r, uint16_t pkey, const char *name, uint32_t line)
{
	size_t at;

	if (rk_map_get_u64(r->keys, (uint64_t)pkey + 1, &at))
		return at;
	struct part *part = rk_vec_push(&r->parts);
	*part = (struct part){ .pkey = pkey, .name = name, .line = line };
	rk_map_add_u64(r->keys, (uint64_t)pkey + 1, r->parts.n - 1, NULL);
	return r->parts.n - 1;
}

static void implied(struct reader *r, size_t part, enum rk_part_who who, bool full)
{
	*rk_vec_push(&r->parts.items[part].members) = (struct rk_part_member){ .who = who, .full = full };
}

/* A key that OpenSM makes up: the lowest that the file has not used so far. */
static uint16_t generated(const struct reader *r)
{
	uint16_t key = 1;
	size_t at;

	while (rk_map_get_u64(r->keys, (uint64_t)key + 1, &at))
		key++;
	return key;
}

static bool same_name(const struct part *part, const char *name)
{
	return rk_streq(part->name, name);
}

/* "[name][=key]"; false when OpenSM rejects it. */
static bool read_key(struct reader *r, struct span token, uint16_t *ret_key, const char **ret_name)
{
	struct span rest = token, name, id = { NULL, 0 };
	bool has_id = cut(&rest, '=', &name), odd = false, overflow = false;
	uint64_t value = 0;

	name = trim(name);
	/* A byte order mark becomes part of the first name, which OpenSM uses for its log only. */
	if (name.n >= 3 && memcmp(name.p, "\xef\xbb\xbf", 3) == 0)
		name = (struct span){ name.p + 3, name.n - 3 };
	const char *at = name.n ? name.p : token.p;
	if (has_id) {
		id = trim(rest);
	} else if (name.n && *name.p >= '0' && *name.p <= '9') {
		FIND(r, at, "name \"%s\" is misread as the key, because it begins with a digit and no key is given", show(r, name));
		id = name;
		has_id = true;
		name.n = 0;
	}
	*ret_name = rk_arena_strndup(r->arena, name.p, name.n);
	if (has_id && !number(id, &value, &odd, &overflow)) {
		REJECT(r, id.n ? id.p : at, "\"%s\" is no key: %s", show(r, id));
		return false;
	}
	*ret_key = (uint16_t)(value & 0x7fff);
	/* Without a number OpenSM looks for a partition of that name first, and there always is one called Default. */
	if (!has_id && is(name, "Default")) {
		*ret_key = RK_PKEY_DEFAULT;
		return true;
	}
	if (!*ret_key) {
		*ret_key = generated(r);
		FIND(r, id.n ? id.p : at, "no key is given: OpenSM makes one up, and a later definition of that key would be merged into this partition");
	} else if (odd) {
		FIND(r, id.p, "key \"%s\" is misread as 0x%04x", show(r, id), *ret_key);
	} else if (overflow || value > 0x7fff) {
		FIND(r, id.p, "key \"%s\" is misread as 0x%04x: a key has 15 bits, membership is not part of it", show(r, id), *ret_key);
	}
	return true;
}

static bool read_header(struct reader *r, struct span header)
{
	struct span token;
	const char *name;
	uint16_t key;
	bool more = cut(&header, ',', &token);

	r->full = false;
	if (!read_key(r, token, &key, &name))
		return false;
	while (more) {
		more = cut(&header, ',', &token);
		read_flag(r, token);
	}
	r->current = part_at(r, key, name, r->line);
	struct part *part = &r->parts.items[r->current];
	if (!same_name(part, name)) {
		const char *at = trim(token).n ? r->line_start : token.p;
		FIND(r, at > r->line_start ? r->line_start : at, "key 0x%04x is defined as \"%s\" %s: OpenSM merges \"%s\" into it", key, part->name,
		     part->line ? rk_arena_printf(r->arena, "in line %u", part->line) : "by OpenSM itself", name);
	} else if (!part->line) {
		part->line = r->line;
	}
	return true;
}

/* --- members ------------------------------------------------------------------------------------------------------------------- */

static const char *const who_names[] = { "", "ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF" };

const char *rk_part_who_name(enum rk_part_who who)
{
	return who_names[who];
}

static bool read_guid(struct reader *r, struct span word, uint64_t *ret)
{
	bool odd, overflow, hex = word.n > 2 && word.p[0] == '0' && (word.p[1] == 'x' || word.p[1] == 'X');

	if (!number(word, ret, &odd, &overflow) || !*ret) {
		REJECT(r, word.p, "\"%s\" is no port GUID: %s", show(r, word));
		if (memchr(word.p, ' ', word.n) || memchr(word.p, '\t', word.n))
			rk_diag_hint(r->diags, "members are separated by ','");
		return false;
	}
	if (overflow)
		FIND(r, word.p, "\"%s\" has more than 64 bits and is misread as 0xffffffffffffffff: the port is dropped", show(r, word));
	else if (!hex || odd)
		FIND(r, word.p, "\"%s\" is misread as the number 0x%016" PRIx64 ": a GUID begins with 0x", show(r, word), *ret);
	return true;
}

/* One "who[=membership]". False when OpenSM rejects the file. */
static bool read_member(struct reader *r, struct span token)
{
	struct rk_part_member m = { .full = r->full, .line = r->line };
	struct span rest = token, word, value;
	bool has_value = cut(&rest, '=', &word), known;

	word = trim(word);
	if (!word.n || is(word, "NONE"))
		return true;
	m.col = column(r, word.p);
	if (has_value) {
		value = trim(rest);
		m.full = membership(r, value, &known);
		if (!known && (memchr(value.p, ' ', value.n) || memchr(value.p, '\t', value.n)))
			FIND(r, value.p, "a ',' is missing: \"%s\" is demoted to limited and what follows it is dropped", show(r, word));
		else if (!known)
			FIND(r, value.p, "\"%s\" is no membership: \"%s\" is demoted to limited", show(r, value), show(r, word));
	}
	if (is_prefix(word, "NONE")) {
		FIND(r, word.p, "\"%s\" is misread as \"NONE\": OpenSM takes every beginning of a word for the word", show(r, word));
		return true;
	}
	for (enum rk_part_who who = RK_PART_ALL; who <= RK_PART_SELF && !m.who; who++)
		if (is_prefix(word, who_names[who]))
			m.who = who;
	if (m.who && !is(word, who_names[m.who]))
		FIND(r, word.p, "\"%s\" is misread as \"%s\": OpenSM takes every beginning of a word for the word", show(r, word), who_names[m.who]);
	if (!m.who && !read_guid(r, word, &m.guid))
		return false;
	*rk_vec_push(&r->parts.items[r->current].members) = m;
	return true;
}

/* A multicast group takes the rest of its line as its own flags. */
static void read_group(struct reader *r, struct span list, bool more)
{
	while (more) {
		struct span token, word;
		more = cut(&list, ',', &token);
		word = trim(token);
		if (word.n && (is_prefix((struct span){ word.p, 2 < word.n ? 2 : word.n }, "0x") || is_prefix(word, "ALL") || is_prefix(word, "SELF")))
			FIND(r, word.p, "\"%s\" is dropped: what follows mgid= up to the end of the line belongs to the multicast group", show(r, word));
	}
}

static bool read_members(struct reader *r, struct span list)
{
	bool more = true, good = true;

	while (more && good) {
		struct span token;
		more = cut(&list, ',', &token);
		struct span word = trim(token);
		if (word.n >= 5 && memcmp(word.p, "mgid=", 5) == 0) {
			read_group(r, list, more);
			return true;
		}
		good = read_member(r, token);
	}
	return good;
}

/* --- lines --------------------------------------------------------------------------------------------------------------------- */

/* Does a piece that should go on with a list look like a new definition? Then the ';' before it is missing. */
static bool new_definition(struct span s)
{
	const char *colon = memchr(s.p, ':', s.n), *equals = memchr(s.p, '=', s.n);
	struct span first = trim((struct span){ s.p, colon ? (size_t)((equals && equals < colon ? equals : colon) - s.p) : 0 });
	uint64_t n;
	bool odd, overflow;

	if (!colon || is(first, "mgid") || (first.n > 2 && first.p[0] == '0' && number(first, &n, &odd, &overflow)))
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
	s = trim(s);
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
		good = read_header(r, header);
		s.n -= header.n + 1;
		s.p = colon + 1;
	}
	good = good && read_members(r, s);
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
		while (s.n && blank(*s.p)) {
			s.p++;
			s.n--;
		}
		if (!s.n)
			return;
		more = cut(&s, ';', &piece);
		read_piece(r, piece, more);
	}
}

static void read_line(struct reader *r, struct span line)
{
	if (line.n > OSM_LINE)
		rk_diag_line(r->diags, r->line, OSM_LINE + 1, "the line has more than %d bytes: OpenSM cuts it here and reads the rest as a line of its own, "
			     "so members are dropped, a comment comes alive, or %s", OSM_LINE, fails_open);
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
				     says_at_winner ? who_names[items[winner].who] : items[i].who ? who_names[items[i].who] : "the port", part->pkey, items[winner].line);
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

/* Reads everything; findings go to diags. The default partition is there before the first line, as in OpenSM. */
static void read_all(struct reader *r, const char *text, size_t len)
{
	size_t standard = part_at(r, RK_PKEY_DEFAULT, "Default", 0);

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
		rk_diag_line(r->diags, 0, 0, "no definition in the file: %s", fails_open);
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
}

static void export_parts(const struct reader *r, struct rk_arena *arena, struct rk_partitions *ret)
{
	*ret = (struct rk_partitions){ .items = rk_arena_array(arena, r->parts.n ? r->parts.n : 1, sizeof(*ret->items)), .n = r->parts.n, .rejected = r->rejected };
	for (size_t i = 0; i < r->parts.n; i++) {
		const struct part *from = &r->parts.items[i];
		struct rk_part *to = &ret->items[i];
		*to = (struct rk_part){ .pkey = from->pkey, .name = rk_arena_strdup(arena, from->name), .line = from->line, .n_members = from->members.n };
		to->members = rk_arena_array(arena, from->members.n ? from->members.n : 1, sizeof(*to->members));
		if (from->members.n)
			memcpy(to->members, from->members.items, from->members.n * sizeof(*to->members));
	}
}

int rk_partitions_read(const char *path, const char *text, size_t len, struct rk_arena *arena, struct rk_partitions *ret, struct rk_diags *findings)
{
	struct reader r = { .diags = findings, .arena = arena, .keys = rk_map_new() };

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
