/* One definition of a partitions file: words, header, members, as OpenSM reads them. */
#include "provision/drivers/partitions_impl.h"

#include <inttypes.h>
#include <stdio.h>

const char rk_part_fails_open[] = "OpenSM would reject the file and make every port a full member of the default partition";

/* --- words --------------------------------------------------------------------------------------------------------------------- */

bool rk_part_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

struct span rk_part_trim(struct span s)
{
	while (s.n && rk_part_blank(*s.p)) {
		s.p++;
		s.n--;
	}
	while (s.n && rk_part_blank(s.p[s.n - 1]))
		s.n--;
	return s;
}

/* Takes what is before the first `sep`; false when the rest was the last. */
bool rk_part_cut(struct span *rest, char sep, struct span *ret)
{
	const char *at = rest->n ? memchr(rest->p, sep, rest->n) : NULL;

	*ret = (struct span){ rest->p, at ? (size_t)(at - rest->p) : rest->n };
	if (!at)
		return false;
	rest->n -= ret->n + 1;
	rest->p = at + 1;
	return true;
}

bool rk_part_is(struct span s, const char *word)
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

uint32_t rk_part_column(const struct reader *r, const char *at)
{
	uint32_t col = 1;

	for (const char *p = r->line_start; p < at; p++)
		col += ((unsigned char)*p & 0xc0) != 0x80;
	return col;
}

/* strtoul(…, 0) over a whole word: sign, 0x, octal. *odd: not written as 0x or plain decimal. */
bool rk_part_number(struct span s, uint64_t *ret, bool *odd, bool *overflow)
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
		if (!rk_part_is(word, memberships[i]))
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
	bool has_value = rk_part_cut(&rest, '=', &word), odd, overflow, known;
	uint64_t n;

	word = rk_part_trim(word);
	if (has_value)
		value = rk_part_trim(rest);
	if (!word.n)
		return;
	for (size_t i = 0; i < RK_ARRAY_SIZE(flags); i++) {
		if (!is_prefix(word, flags[i].word))
			continue;
		if (!rk_part_is(word, flags[i].word))
			FIND(r, word.p, "flag \"%s\" is misread as \"%s\": OpenSM takes every beginning of a word for the word", show(r, word), flags[i].word);
		if (flags[i].kind == FLAG_MEMBER) {
			bool full = has_value && membership(r, value, &known);
			if (has_value && known)
				r->full = full;
			else
				FIND(r, word.p, "\"defmember\" without full or limited is dropped: members without a word of their own are demoted to limited");
		} else if (flags[i].kind == FLAG_NUMBER && (!rk_part_number(value, &n, &odd, &overflow) || n > flags[i].max || (!n && !flags[i].zero))) {
			FIND(r, word.p, "flag \"%s\" has no valid value and is dropped", flags[i].word);
		}
		r->index0 |= rk_streq(flags[i].word, "indx0");
		return;
	}
	FIND(r, word.p, "unknown flag \"%s\" is dropped%s", show(r, word),
	     rk_starts_with(show(r, word), "def") ? ": members without a word of their own are demoted to limited" : "");
	const char *near = rk_near_name(show(r, word), flag_words, RK_ARRAY_SIZE(flag_words) - 1);
	if (near)
		rk_diag_hint(r->diags, "did you mean \"%s\"?", near);
}

size_t rk_part_at(struct reader *r, uint16_t pkey, const char *name, uint32_t line)
{
	size_t at;

	if (rk_map_get_u64(r->keys, (uint64_t)pkey + 1, &at))
		return at;
	struct part *part = rk_vec_push(&r->parts);
	*part = (struct part){ .pkey = pkey, .name = name, .line = line };
	rk_map_add_u64(r->keys, (uint64_t)pkey + 1, r->parts.n - 1, NULL);
	if (!rk_map_get(r->names, name, &at) || __builtin_bswap16(pkey) < __builtin_bswap16(r->parts.items[at].pkey))
		rk_map_set(r->names, name, r->parts.n - 1);
	return r->parts.n - 1;
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

/* Without a number OpenSM looks for a partition of that name first, and there always is one called Default. */
static void key_of_name(struct reader *r, const char *at, const char *name, uint16_t *ret)
{
	size_t part;

	if (*name && rk_map_get(r->names, name, &part)) {
		*ret = r->parts.items[part].pkey;
		if (*ret != RK_PKEY_DEFAULT)
			FIND(r, at, "no key is given: OpenSM merges this into \"%s\", key 0x%04x, of line %u", name, *ret, r->parts.items[part].line);
		return;
	}
	*ret = generated(r);
	FIND(r, at, "no key is given: OpenSM makes one up, and a later definition of that key would be merged into this partition");
}

/* "[name][=key]"; false when OpenSM rejects it. */
static bool read_key(struct reader *r, struct span token, uint16_t *ret_key, const char **ret_name)
{
	struct span rest = token, name, id = { NULL, 0 };
	bool has_id = rk_part_cut(&rest, '=', &name), odd = false, overflow = false;
	uint64_t value = 0;

	name = rk_part_trim(name);
	/* A byte order mark becomes part of the first name, which OpenSM uses for its log only. */
	if (name.n >= 3 && memcmp(name.p, "\xef\xbb\xbf", 3) == 0)
		name = (struct span){ name.p + 3, name.n - 3 };
	const char *at = name.n ? name.p : token.p;
	if (has_id) {
		id = rk_part_trim(rest);
	} else if (name.n && *name.p >= '0' && *name.p <= '9') {
		FIND(r, at, "name \"%s\" is misread as the key, because it begins with a digit and no key is given", show(r, name));
		id = name;
		has_id = true;
		name.n = 0;
	}
	*ret_name = rk_arena_strndup(r->arena, name.p, name.n);
	if (has_id && !rk_part_number(id, &value, &odd, &overflow)) {
		REJECT(r, id.n ? id.p : at, "\"%s\" is no key: %s", show(r, id));
		return false;
	}
	*ret_key = (uint16_t)(value & 0x7fff);
	if (!*ret_key) {
		key_of_name(r, id.n ? id.p : at, *ret_name, ret_key);
	} else if (odd) {
		FIND(r, id.p, "key \"%s\" is misread as 0x%04x", show(r, id), *ret_key);
	} else if (overflow || value > 0x7fff) {
		FIND(r, id.p, "key \"%s\" is misread as 0x%04x: a key has 15 bits, membership is not part of it", show(r, id), *ret_key);
	}
	return true;
}

bool rk_part_read_header(struct reader *r, struct span header)
{
	struct span token;
	const char *name;
	uint16_t key;
	bool more = rk_part_cut(&header, ',', &token);

	r->full = r->index0 = false;
	if (!read_key(r, token, &key, &name))
		return false;
	while (more) {
		more = rk_part_cut(&header, ',', &token);
		read_flag(r, token);
	}
	r->current = rk_part_at(r, key, name, r->line);
	struct part *part = &r->parts.items[r->current];
	part->index0 |= r->index0;
	if (!same_name(part, name)) {
		const char *at = rk_part_trim(token).n ? r->line_start : token.p;
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

	if (!rk_part_number(word, ret, &odd, &overflow) || !*ret) {
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
	bool has_value = rk_part_cut(&rest, '=', &word), known;

	word = rk_part_trim(word);
	if (!word.n || rk_part_is(word, "NONE"))
		return true;
	m.col = rk_part_column(r, word.p);
	if (has_value) {
		value = rk_part_trim(rest);
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
	if (m.who && !rk_part_is(word, who_names[m.who]))
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
		more = rk_part_cut(&list, ',', &token);
		word = rk_part_trim(token);
		if (word.n && (is_prefix((struct span){ word.p, 2 < word.n ? 2 : word.n }, "0x") || is_prefix(word, "ALL") || is_prefix(word, "SELF")))
			FIND(r, word.p, "\"%s\" is dropped: what follows mgid= up to the end of the line belongs to the multicast group", show(r, word));
	}
}

bool rk_part_read_members(struct reader *r, struct span list)
{
	bool more = true, good = true;

	while (more && good) {
		struct span token;
		more = rk_part_cut(&list, ',', &token);
		struct span word = rk_part_trim(token);
		if (word.n >= 5 && memcmp(word.p, "mgid=", 5) == 0) {
			read_group(r, list, more);
			return true;
		}
		good = read_member(r, token);
	}
	return good;
}
