#include <stdio.h>
#include <string.h>

#include "cli/app.h"

/* Does a headline, perhaps behind what was being done, say that already? */
static bool ends_with(const char *message, const char *detail)
{
	size_t m = strlen(message), d = strlen(detail);

	return m >= d && strcmp(message + m - d, detail) == 0 && (m == d || (m >= d + 2 && strncmp(message + m - d - 2, ": ", 2) == 0));
}

static bool says_hint(const struct rk_err *err)
{
	bool said = err->message && strstr(err->message, err->hint);

	for (size_t i = 0; i < err->n_details; i++)
		said |= strstr(err->details[i], err->hint) != NULL;
	return said;
}

/* Words of hosts are in messages, and this goes to a terminal. */
static void put(const char *head, const char *place, const char *text)
{
	struct rk_str safe RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_add_lines(&safe, text);
	fprintf(stderr, "%s%s%s\n", head, place, rk_str_text(&safe));
}

void rk_print_error(const struct rk_err *err, const char *place, enum rk_format format)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	const char *message = err->message ? err->message : "unknown error";

	if (format != RK_FORMAT_JSON) {
		put("racksh: ", place, message);
		for (size_t i = 0; i < err->n_details; i++)
			if (!ends_with(message, err->details[i]))
				put("  ", "", err->details[i]);
		if (err->hint && !says_hint(err))
			put("hint: ", "", err->hint);
		return;
	}
	struct rk_jw w;
	char *placed RK_CLEANUP_FREE = rk_xasprintf("%s%s", place, message);
	rk_jw_init(&w, &out, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "error");
	rk_jw_object(&w);
	rk_jw_key(&w, "code");
	rk_jw_i64(&w, rk_class_exit(err->rc));
	rk_jw_key(&w, "class");
	rk_jw_str(&w, rk_class_name(err->rc));
	rk_jw_key(&w, "message");
	rk_jw_str(&w, placed);
	rk_jw_key(&w, "hint");
	rk_jw_str(&w, err->hint);
	rk_jw_key(&w, "details");
	rk_jw_array(&w);
	for (size_t i = 0; i < err->n_details; i++)
		rk_jw_str(&w, err->details[i]);
	rk_jw_end(&w);
	rk_jw_end(&w);
	rk_jw_end(&w);
	fprintf(stderr, "%s\n", rk_str_text(&out));
}
