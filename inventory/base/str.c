#include "inventory/base/str.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/mem.h"

static char *room(struct rk_str *s, size_t more)
{
	if (s->len + more + 1 > s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		while (cap < s->len + more + 1)
			cap *= 2;
		s->text = rk_xreallocarray(s->text, cap, 1);
		s->cap = cap;
	}
	return s->text + s->len;
}

void rk_str_addn(struct rk_str *s, const char *bytes, size_t n)
{
	char *at = room(s, n);

	if (n)
		memcpy(at, bytes, n);
	s->len += n;
	s->text[s->len] = '\0';
}

void rk_str_add(struct rk_str *s, const char *text)
{
	rk_str_addn(s, text, strlen(text));
}

void rk_str_addc(struct rk_str *s, char c)
{
	rk_str_addn(s, &c, 1);
}

void rk_str_addf(struct rk_str *s, const char *format, ...)
{
	va_list ap, again;

	va_start(ap, format);
	va_copy(again, ap);
	int len = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	if (len > 0) {
		vsnprintf(room(s, (size_t)len), (size_t)len + 1, format, again);
		s->len += (size_t)len;
	}
	va_end(again);
}

/* Length of the UTF-8 sequence at s (1..4), or 0 when it is none. */
static size_t utf8_len(const unsigned char *s, size_t n)
{
	static const struct {
		unsigned char mask, lead;
		unsigned min;
	} forms[] = { { 0x80, 0x00, 0 }, { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 } };

	for (size_t len = 1; len <= 4; len++) {
		if ((s[0] & forms[len - 1].mask) != forms[len - 1].lead)
			continue;
		if (len > n)
			return 0;
		unsigned code = s[0] & (unsigned char)~forms[len - 1].mask;
		for (size_t i = 1; i < len; i++) {
			if ((s[i] & 0xc0) != 0x80)
				return 0;
			code = code << 6 | (s[i] & 0x3f);
		}
		bool bad = code < forms[len - 1].min || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff);
		return bad ? 0 : len;
	}
	return 0;
}

size_t rk_utf8_valid(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n) {
		size_t len = utf8_len((const unsigned char *)s + i, n - i);
		if (!len)
			return i;
		i += len;
	}
	return n;
}

/* Valid UTF-8 that is not shown but does something: C1 controls (U+0080..U+009F) drive terminals, marks of direction (U+202A..U+202E,
 * U+2066..U+2069) let text read as another one, line separators (U+2028, U+2029) end a line, and U+FFFE and U+FFFF are no characters of XML. */
static bool is_hidden(const unsigned char *s, size_t len)
{
	if (len == 2)
		return s[0] == 0xc2 && s[1] < 0xa0;
	if (len != 3)
		return false;
	unsigned code = (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
	return (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code >= 0xfffe;
}

void rk_str_add_escaped(struct rk_str *s, const char *bytes, size_t n)
{
	const unsigned char *b = (const unsigned char *)bytes;

	for (size_t i = 0; i < n;) {
		size_t len = utf8_len(b + i, n - i);
		if (b[i] == '\n' || b[i] == '\t') {
			rk_str_add(s, b[i] == '\n' ? "\\n" : "\\t");
			i++;
		} else if (!len || b[i] < 0x20 || b[i] == 0x7f || is_hidden(b + i, len)) {
			rk_str_addf(s, "\\x%02x", b[i]);
			i++;
		} else {
			rk_str_addn(s, bytes + i, len);
			i += len;
		}
	}
}

void rk_str_add_lines(struct rk_str *s, const char *text)
{
	for (const char *end; *text; text = end) {
		end = text + strcspn(text, "\n");
		rk_str_add_escaped(s, text, (size_t)(end - text));
		if (*end) {
			rk_str_addc(s, '\n');
			end++;
		}
	}
}

const char *rk_str_text(const struct rk_str *s)
{
	return s->text ? s->text : "";
}

char *rk_str_steal(struct rk_str *s)
{
	char *text = s->text ? s->text : rk_xstrdup("");

	*s = (struct rk_str)RK_STR_INIT;
	return text;
}

void rk_str_reset(struct rk_str *s)
{
	s->len = 0;
	if (s->text)
		s->text[0] = '\0';
}

void rk_str_clear(struct rk_str *s)
{
	free(s->text);
	*s = (struct rk_str)RK_STR_INIT;
}

bool rk_streq(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

bool rk_starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool rk_ends_with(const char *s, const char *suffix)
{
	size_t ls = strlen(s), lx = strlen(suffix);

	return ls >= lx && strcmp(s + ls - lx, suffix) == 0;
}

bool rk_name_valid(const char *s)
{
	size_t len = strlen(s);

	if (len < 1 || len > 63 || s[0] == '-' || s[len - 1] == '-')
		return false;
	return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

bool rk_parse_u64(const char *s, uint64_t *ret)
{
	bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
	const char *digits = hex ? s + 2 : s;
	char *end;

	if (!isxdigit((unsigned char)digits[0]))
		return false;
	errno = 0;
	unsigned long long v = strtoull(digits, &end, hex ? 16 : 10);
	if (errno || *end || end == digits)
		return false;
	*ret = v;
	return true;
}

bool rk_parse_double(const char *s, double *ret)
{
	char *end;

	/* strtod would also take "inf", "nan" and leading blanks. */
	if (!strchr("+-.0123456789", s[0]) || !s[0])
		return false;
	double v = strtod(s, &end);
	if (*end || end == s || !isfinite(v))
		return false;
	*ret = v;
	return true;
}

enum { NEAR_MAX = 64 };

/* Optimal string alignment distance (insert, delete, replace, swap of neighbours); long words never match. */
static size_t distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	size_t rows[3][NEAR_MAX + 1];

	if (la > NEAR_MAX || lb > NEAR_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= lb; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= la; i++) {
		size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
		now[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			now[j] = best;
		}
	}
	return rows[la % 3][lb];
}

const char *rk_near_name(const char *word, const char *const *names, size_t n)
{
	const char *best = NULL;
	size_t best_distance = strlen(word) / 3 + 1;

	for (size_t i = 0; i < n; i++) {
		size_t d = distance(word, names[i]);
		if (d >= strlen(word) && *word) /* nothing in common */
			continue;
		if (d < best_distance || (d == best_distance && !best)) {
			best = names[i];
			best_distance = d;
		}
	}
	return best;
}
