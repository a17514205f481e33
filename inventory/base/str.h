/* Growing byte string, and the small text helpers everybody needs. The text is always NUL terminated; it may hold NULs. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rk_str {
	char *text; /* owned; NULL while empty: use rk_str_text */
	size_t len, cap;
};
#define RK_STR_INIT { NULL, 0, 0 }
#define RK_CLEANUP_STR __attribute__((cleanup(rk_str_clear)))

void rk_str_add(struct rk_str *s, const char *text);
void rk_str_addn(struct rk_str *s, const char *bytes, size_t n);
void rk_str_addc(struct rk_str *s, char c);
void rk_str_addf(struct rk_str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Bytes of a remote host, made safe for a terminal: control bytes and invalid UTF-8 become \xNN, newline \n, tab \t. */
void rk_str_add_escaped(struct rk_str *s, const char *bytes, size_t n);
void rk_str_add_lines(struct rk_str *s, const char *text); /* the same for text of several lines: they stay */
const char *rk_str_text(const struct rk_str *s); /* never NULL; borrowed */
char *rk_str_steal(struct rk_str *s);            /* never NULL; the caller frees */
void rk_str_reset(struct rk_str *s);             /* length 0, keeps the memory */
void rk_str_clear(struct rk_str *s);

bool rk_streq(const char *a, const char *b);     /* NULL equals NULL only */
bool rk_starts_with(const char *s, const char *prefix);
bool rk_ends_with(const char *s, const char *suffix);
/* Is it UTF-8 (RFC 3629: no surrogates, no overlong forms)? Returns the offset of the first bad byte, or n. */
size_t rk_utf8_valid(const char *s, size_t n);

/* Names of objects: 1..63 of [a-z0-9-], begins with a letter or digit, does not end in '-'. (DNS label.) */
bool rk_name_valid(const char *s);
/* Whole-string numbers. rk_parse_u64 takes decimal or 0x hex, no sign, no blanks; false on overflow or rest. */
bool rk_parse_u64(const char *s, uint64_t *ret);
bool rk_parse_double(const char *s, double *ret); /* finite, C locale */

/* Edit distance based suggestion: the entry of names[0..n) nearest to word, or NULL when none is near. */
const char *rk_near_name(const char *word, const char *const *names, size_t n);
