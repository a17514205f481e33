/* validate SCHEMA FILE [LINE]: is every JSON document of FILE (one per line, arrays and objects may span lines), or the one that begins at LINE, valid? "TIME", "N" and other masks of
 * golden results are taken for what they stand for. */
#include <stdio.h>

#include "inventory/base/file.h"
#include "tests/contract/json_schema.h"

enum { FILE_MAX = 16 << 20 };

/* Length of the document at text: up to the line end that closes all brackets. */
static size_t document(const char *text)
{
	int depth = 0;
	bool quoted = false;
	size_t at = 0;

	for (; text[at]; at++) {
		if (quoted) {
			at += text[at] == '\\' && text[at + 1];
			quoted = text[at] != '"';
			continue;
		}
		quoted = text[at] == '"';
		depth += text[at] == '[' || text[at] == '{' ? 1 : text[at] == ']' || text[at] == '}' ? -1 : 0;
		if (text[at] == '\n' && depth == 0)
			return at + 1;
	}
	return at;
}

static void unmask(char *text)
{
	static const char *const masks[][2] = { { "\"TIME\"", "null  " }, { "\"seconds\":N", "\"seconds\":0" } };

	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++)
		for (char *at = strstr(text, masks[i][0]); at; at = strstr(at + 1, masks[i][0]))
			memcpy(at, masks[i][1], strlen(masks[i][1]));
}

static int check(const char *name, const struct rk_jnode *schema, const char *text, size_t len)
{
	RK_CLEANUP_JSON struct rk_json *doc = NULL;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct schema_check c = { .root = schema, .where = "$" };

	if (rk_json_parse(name, text, len, &doc, &err)) {
		fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	if (schema_valid(&c, schema, rk_json_root(doc)))
		return 0;
	fprintf(stderr, "%s: not as its schema says: %s\n", name, c.problem);
	return 1;
}

static size_t line_start(const char *text, long line)
{
	const char *at = text;

	while (line-- > 1 && at)
		at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
	return at ? (size_t)(at - text) : strlen(text);
}

int main(int argc, char **argv)
{
	RK_CLEANUP_JSON struct rk_json *schema = NULL;
	char *schema_text RK_CLEANUP_FREE = NULL, *text RK_CLEANUP_FREE = NULL;
	size_t schema_len, len;
	int bad = 0;

	if (argc < 3 || argc > 4 || rk_file_read(argv[1], FILE_MAX, &schema_text, &schema_len, NULL) || rk_file_read(argv[2], FILE_MAX, &text, &len, NULL) ||
	    rk_json_parse(argv[1], schema_text, schema_len, &schema, NULL)) {
		fputs("usage: validate SCHEMA FILE [LINE]\n", stderr);
		return 2;
	}
	unmask(text);
	size_t at = argc == 4 ? line_start(text, atol(argv[3])) : 0;
	do {
		size_t n = document(text + at);
		bad |= check(argv[2], rk_json_root(schema), text + at, n);
		at += n;
	} while (argc == 3 && at < len);
	return bad;
}
