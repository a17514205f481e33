#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"

/* Bytes to skip for the escape sequence at p (p[0] is ESC). */
static size_t escape_len(const char *p, const char *end)
{
	const char *q = p + 1;

	if (q == end)
		return 1;
	if (*q == ']') {
		/* A title, ended by a bell or by ESC \; one without an end takes no other line with it. */
		for (q++; q < end && *q != '\a' && *q != '\033' && *q != '\n'; q++)
			;
		if (q < end && *q == '\033')
			q++;
		return (size_t)(q - p) + (q < end && *q != '\n');
	}
	/* "ESC [ parameters final", or "ESC intermediates final" as in ESC ( B. */
	const char *last = *q == '[' ? "?" : "/";
	for (q += *q == '['; q < end && *q >= ' ' && *q <= *last; q++)
		;
	return (size_t)(q - p) + (q < end && *q > *last && *q < 0x7f);
}

/* Bytes from p on that stay as they are: nearly all of them are plain ASCII. */
static size_t plain_len(const char *p, const char *end)
{
	const char *q = p;

	while (q < end && (unsigned char)*q < 0x80 && *q && *q != '\033' && *q != '\r')
		q++;
	return (size_t)(q - p);
}

/* The character at p, which is not plain, into *out; returns how many bytes it was. */
static size_t clean_one(const char *p, const char *end, char **out)
{
	const unsigned char lead = (unsigned char)*p;
	size_t len = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;

	if (*p == '\033')
		return escape_len(p, end);
	if (*p == '\r') {
		if (p + 1 == end || p[1] != '\n')
			*(*out)++ = '\n';
		return 1;
	}
	if (len > (size_t)(end - p) || !lead || rk_utf8_valid(p, len) != len) {
		*(*out)++ = lead ? '?' : ' ';
		return 1;
	}
	memcpy(*out, p, len);
	*out += len;
	return len;
}

char *rk_clean(struct rk_arena *arena, const char *bytes, size_t n)
{
	size_t max = n < RK_PARSE_MAX ? n : RK_PARSE_MAX;
	char *text = rk_arena_alloc(arena, max + 1), *out = text;
	const char *p = bytes, *end = bytes + max;

	while (p < end) {
		size_t plain = plain_len(p, end);
		memcpy(out, p, plain);
		out += plain;
		p += plain;
		if (p < end)
			p += clean_one(p, end, &out);
	}
	*out = '\0';
	return text;
}

char *rk_next_line(char **at, bool *ret_cut)
{
	char *line = *at;

	if (!line || !*line)
		return NULL;
	char *end = strchr(line, '\n');
	if (ret_cut)
		*ret_cut = !end;
	if (end)
		*end = '\0';
	*at = end ? end + 1 : line + strlen(line);
	return line;
}

char *rk_trim(char *s)
{
	while (isspace((unsigned char)*s))
		s++;
	size_t n = strlen(s);
	while (n && isspace((unsigned char)s[n - 1]))
		s[--n] = '\0';
	return s;
}

bool rk_split_colon(char *line, char **ret_key, char **ret_value)
{
	char *colon = line;

	do {
		colon = strchr(colon, ':');
		if (!colon)
			return false;
		colon++;
	} while (*colon && !isspace((unsigned char)*colon));
	colon[-1] = '\0';
	*ret_key = rk_trim(line);
	*ret_value = rk_trim(colon);
	return true;
}

enum comma { NO_COMMA, THOUSANDS, DECIMAL, UNCLEAR };

/* What the commas of the digits s..end mean; a tool may follow the host's language. "53,125" can be read in two ways, so it is not read. */
static enum comma commas(const char *s, const char *end)
{
	size_t n = (size_t)(end - s);
	const char *first = memchr(s, ',', n), *last = memrchr(s, ',', n), *point = memchr(s, '.', n);

	if (!first)
		return NO_COMMA;
	if (point)
		return last < point ? THOUSANDS : first == last ? DECIMAL : UNCLEAR;
	if (first == last)
		return end - first == 4 && first - s <= 3 && *s != '0' ? UNCLEAR : DECIMAL;
	for (const char *p = first; p < end; p += 4) {
		if (*p != ',' || end - p < 4)
			return UNCLEAR;
	}
	return THOUSANDS;
}

/* Digits with their separators; a comma belongs to them only between two of them. */
static const char *digits_end(const char *s)
{
	const char *p = s;

	while (isdigit((unsigned char)*p) || *p == '.' || (*p == ',' && p > s && isdigit((unsigned char)p[-1]) && isdigit((unsigned char)p[1])))
		p++;
	return p;
}

static bool is_exponent(const char *s)
{
	return tolower((unsigned char)*s) == 'e' && isdigit((unsigned char)s[1 + (s[1] == '-' || s[1] == '+')]);
}

bool rk_lead_number(const char *s, double *ret)
{
	char digits[64];
	size_t n = 0;

	while (isspace((unsigned char)*s))
		s++;
	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X') && isxdigit((unsigned char)s[2])) {
		*ret = (double)strtoull(s, NULL, 16);
		return true;
	}
	if (*s == '-' || *s == '+')
		digits[n++] = *s++;
	const char *end = digits_end(s);
	enum comma comma = commas(s, end);
	if (comma == UNCLEAR || (size_t)(end - s) > sizeof(digits) / 2)
		return false;
	for (; s < end; s++) {
		if ((comma == THOUSANDS && *s == ',') || (comma == DECIMAL && *s == '.'))
			continue;
		digits[n++] = *s == ',' ? '.' : *s;
	}
	if (n && is_exponent(s)) {
		do
			digits[n++] = *s++;
		while (n + 1 < sizeof(digits) && (isdigit((unsigned char)*s) || *s == '-' || *s == '+'));
	}
	digits[n] = '\0';
	char *stop = NULL;
	double v = strtod(digits, &stop);
	if (stop == digits || !isfinite(v))
		return false;
	*ret = v;
	return true;
}

const char *rk_no_value(const char *s)
{
	static const char *const none[] = {
		"N/A", "Not Supported", "Unknown Error", "GPU requires reset", "GPU is lost", "Requested functionality has been deprecated",
		"Insufficient Permissions", "Not Available", "None Available", "Unknown", "ERR!",
	};
	size_t n = strlen(s);

	if (n == 0)
		return "empty";
	bool bracket = s[0] == '[' && s[n - 1] == ']';
	for (size_t i = 0; i < RK_ARRAY_SIZE(none); i++) {
		size_t len = strlen(none[i]);
		if (len == n - 2 * bracket && strncasecmp(s + bracket, none[i], len) == 0)
			return none[i];
	}
	/* Whatever nvidia-smi puts into brackets is said instead of a value. */
	return bracket ? "no value" : NULL;
}

void rk_metric_value(struct rk_metrics *m, const char *name, const char *label, const char *text, bool number)
{
	const char *none = rk_no_value(text);
	double v;

	if (none)
		rk_metric_absent(m, name, label, none);
	else if (!number)
		rk_metric_text(m, name, label, text);
	else if (rk_lead_number(text, &v))
		rk_metric_number(m, name, label, v);
	else
		rk_metric_absent(m, name, label, "not a number");
}

const char *rk_labelf(struct rk_metrics *m, const char *format, ...)
{
	char label[RK_PARSE_LABEL];
	va_list ap;

	va_start(ap, format);
	vsnprintf(label, sizeof(label), format, ap);
	va_end(ap);
	label[rk_utf8_valid(label, strlen(label))] = '\0'; /* a cut inside a character */
	return rk_arena_strdup(m->arena, label);
}

bool rk_word_of(const char *word, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(words[i], word) == 0)
			return true;
	}
	return false;
}

void rk_metric_count(struct rk_metrics *m, const struct rk_evidence *evidence, const char *name, double n)
{
	const char *reason = rk_probe_reason(evidence, m->arena);

	if (reason)
		rk_metric_absent(m, name, "", reason);
	else
		rk_metric_number(m, name, "", n);
}

bool rk_status_is(const struct rk_evidence *evidence, const char *status)
{
	return evidence->status && strcmp(evidence->status, status) == 0;
}

/* Texts that mean "the probe could not look", with what they mean. */
static const struct {
	const char *text, *reason;
} refusals[] = {
	{ "command not found", "command missing" },
	{ "not found\n", "command missing" },
	{ "No such file or directory", "file missing" },
	{ "Operation not permitted", "not permitted" },
	{ "a password is required", "not permitted: sudo wants a password" },
	{ "a terminal is required", "not permitted: sudo wants a password" },
	{ "Permission denied (", "unreachable: login refused" },
	{ "Permission denied", "not permitted" },
	{ "Host key verification failed", "unreachable: host key not accepted" },
	{ "REMOTE HOST IDENTIFICATION HAS CHANGED", "unreachable: host key changed" },
	{ "Connection timed out", "unreachable: connection timed out" },
	{ "No route to host", "unreachable: no route" },
	{ "Connection refused", "unreachable: connection refused" },
	{ "kex_exchange_identification", "unreachable: connection dropped before the key exchange" },
	{ "client_loop: send disconnect", "unreachable: connection lost" },
	{ "closed by remote host", "unreachable: connection lost" },
};

static const char *refusal(const char *text)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(refusals); i++) {
		if (strstr(text, refusals[i].text))
			return refusals[i].reason;
	}
	return NULL;
}

/* How a shell tells that a command was killed, as by `timeout -k`: 128 and the signal. */
static const char *shell_signal(const char *status, struct rk_arena *arena)
{
	enum { KILLED = 128, SIGNALS = 31 };
	uint64_t code;

	return rk_parse_u64(status, &code) && code > KILLED && code <= KILLED + SIGNALS ? rk_arena_printf(arena, "%u", (unsigned)code - KILLED) : NULL;
}

const char *rk_probe_reason(const struct rk_evidence *evidence, struct rk_arena *arena)
{
	static const struct {
		const char *status, *reason;
	} rows[] = {
		{ "timeout", "timed out" }, { "124", "timed out" }, { "unreachable", "unreachable" },
		{ "127", "command missing" }, { "126", "not permitted" },
	};
	const char *status = evidence->status;

	if (!status || !*status || strcmp(status, "0") == 0)
		return NULL;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		if (strcmp(status, rows[i].status) == 0)
			return rows[i].reason;
	}
	const char *signal = rk_starts_with(status, "signal:") ? status + 7 : shell_signal(status, arena);
	if (signal)
		return rk_arena_printf(arena, "killed by signal %.8s", signal);
	size_t err = evidence->err_len < 65536 ? evidence->err_len : 65536;
	const char *reason = refusal(rk_clean(arena, evidence->err, err));
	/* Some collectors mix the streams; a long stdout is a report, whatever it says. */
	return reason || evidence->out_len > 512 ? reason : refusal(rk_clean(arena, evidence->out, evidence->out_len));
}

/* End of the JSON document that begins at p ('{' or '['), or NULL when it is cut. */
static const char *document_end(const char *p)
{
	long depth = 0;

	for (; *p; p++) {
		if (*p == '"') {
			for (p++; *p && *p != '"'; p++) {
				if (*p == '\\' && p[1])
					p++;
			}
			if (!*p)
				return NULL;
		} else if (*p == '{' || *p == '[') {
			depth++;
		} else if ((*p == '}' || *p == ']') && --depth == 0) {
			return p + 1;
		}
	}
	return NULL;
}

size_t rk_json_docs(struct rk_metrics *m, const struct rk_evidence *evidence, void (*fn)(void *ctx, const struct rk_jnode *root), void *ctx,
		    bool *ret_cut)
{
	const char *p = rk_clean(m->arena, evidence->out, evidence->out_len);
	bool lost = false; /* a document without an end; what is whole inside of it is still read */
	size_t n = 0;

	*ret_cut = false;
	/* A banner may hold braces of its own: what does not parse is passed over, up to a few times. */
	for (int tries = 0; n < 64 && tries < 256 && (p = strchr(p, '{')) != NULL; tries++) {
		struct rk_json *json RK_CLEANUP_JSON = NULL;
		const char *end = document_end(p);
		if (!end) {
			*ret_cut = true;
			p++;
			lost |= p[strspn(p, " \t\n")] == '"';
			continue;
		}
		if (rk_json_parse("evidence", p, (size_t)(end - p), &json, NULL)) {
			p++;
			continue;
		}
		*ret_cut = false;
		fn(ctx, rk_json_root(json));
		n++;
		p = end;
	}
	*ret_cut |= lost || (p && strchr(p, '{'));
	return n;
}
