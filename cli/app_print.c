#include <errno.h>
#include <langinfo.h>
#include <poll.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/app.h"
#include "inventory/base/clock.h"

int rk_screen_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	uint64_t width;

	if (!isatty(STDOUT_FILENO))
		return 0;
	if (columns && rk_parse_u64(columns, &width) && width >= 20 && width < 10000)
		return (int)width;
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 ? size.ws_col : 0;
}

/* How tables look here: plain unless standard output is a terminal. */
static struct rk_style style_of(const struct rk_globals *g)
{
	struct rk_style style = { .verbose = g->verbose };
	const char *term = getenv("TERM"), *plain = getenv("NO_COLOR");

	if (!isatty(STDOUT_FILENO))
		return style;
	bool dumb = !term || !*term || strcmp(term, "dumb") == 0;
	style.colour = !dumb && !g->no_color && !(plain && *plain);
	style.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	style.now_ms = rk_clock_unix_ms(NULL);
	style.width = rk_screen_width();
	return style;
}

bool rk_call_colour(const struct rk_call *call)
{
	return call->parsed->globals.format == RK_FORMAT_TABLE && style_of(&call->parsed->globals).colour;
}

static void write_result(const struct rk_out *out, const struct rk_parsed *p, FILE *to)
{
	const struct rk_style style = style_of(&p->globals);

	if (out->nothing)
		return;
	if (out->raw.len)
		fwrite(out->raw.text, 1, out->raw.len, to);
	if (p->globals.format == RK_FORMAT_TABLE)
		rk_out_table(out, &style, to);
	else if (!out->n_columns || (!out->command->list && !out->n_rows))
		return;
	else if (p->globals.format == RK_FORMAT_JSON)
		rk_out_json(out, to);
	else if (p->globals.format == RK_FORMAT_CSV)
		rk_out_csv(out, to);
	else
		rk_out_lines(out, to);
}

bool rk_app_reader_left(void)
{
	struct pollfd p = { STDOUT_FILENO, 0, 0 };

	return poll(&p, 1, 0) == 1 && p.revents & POLLERR;
}

int rk_app_flush(struct rk_err *err)
{
	int failed = fflush(stdout), code = errno;

	if (!failed && !ferror(stdout))
		return 0;
	__fpurge(stdout);
	clearerr(stdout);
	if (rk_app_reader_left())
		return 0;
	rk_err_set(err, RK_FAILED, "the output could not be written%s%s", failed ? ": " : "", failed ? strerror(code) : "");
	rk_err_hint(err, "what the command did is done; its result is cut");
	return RK_FAILED;
}

int rk_app_print(const struct rk_app *app, const struct rk_out *out, const struct rk_parsed *p, struct rk_err *err)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = isatty(STDOUT_FILENO) ? open_memstream(&text, &n) : NULL;

	write_result(out, p, to ? to : stdout);
	if (to) {
		fclose(to);
		rk_page(text, n, rk_vars_get(&app->lexicon.vars, "pager"));
	}
	free(text);
	return rk_app_flush(err);
}
