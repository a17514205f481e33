#include "cli/progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "inventory/base/clock.h"
#include "inventory/base/str.h"

enum { BAR = 24, WIDTH_LEAST = 60 };

void rk_progress_begin(struct rk_progress *p, FILE *to)
{
	const char *term = getenv("TERM");
	struct winsize size;

	*p = (struct rk_progress){ .to = to, .width = 80 };
	if (ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col)
		p->width = size.ws_col;
	p->bar = isatty(fileno(to)) && term && *term && strcmp(term, "dumb") != 0;
	p->began_ms = rk_clock_ms(NULL);
}

/* What is left, if the rest goes as fast as what is done. */
static void add_times(const struct rk_progress *p, char *out, size_t size)
{
	double passed = (double)(rk_clock_ms(NULL) - p->began_ms) / 1000, rate = passed > 0 ? p->done / passed : 0;

	if (p->done && p->done < p->total && passed >= 1)
		snprintf(out, size, "%.0f s, %.1f steps/s, %.0f s left", passed, rate, (p->total - p->done) / rate);
	else
		snprintf(out, size, "%.0f s", passed);
}

static void draw(const struct rk_progress *p)
{
	char bar[BAR + 1], times[64], line[400];
	unsigned full = p->total ? p->done * BAR / p->total : 0;

	for (unsigned i = 0; i < BAR; i++)
		bar[i] = i < full ? '#' : '.';
	bar[BAR] = '\0';
	add_times(p, times, sizeof(times));
	if (p->width >= WIDTH_LEAST)
		snprintf(line, sizeof(line), "[%s] %u/%u  %s  %s", bar, p->done, p->total, times, p->text);
	else
		snprintf(line, sizeof(line), "%u/%u  %s", p->done, p->total, p->text);
	/* One column stays free: a full line would scroll. */
	fprintf(p->to, "\r\033[K%.*s", p->width - 1, line);
	fflush(p->to);
}

static bool ends_well(const char *text)
{
	static const char *const ends[] = { ": done", ": undone" };
	size_t len = strlen(text);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (len > strlen(ends[i]) && strcmp(text + len - strlen(ends[i]), ends[i]) == 0)
			return true;
	return false;
}

void rk_progress_line(void *ctx, const char *said)
{
	struct rk_progress *p = ctx;
	struct rk_str safe RK_CLEANUP_STR = RK_STR_INIT;
	unsigned done, total;
	int used = 0;

	rk_str_add_lines(&safe, said); /* why a step failed may be in the words of a host */
	const char *text = rk_str_text(&safe);

	if (!p->bar) {
		fprintf(p->to, "%s\n", text);
		return;
	}
	if (sscanf(text, "[%u/%u] %n", &done, &total, &used) == 2 && used && total) {
		p->done = done;
		p->total = total;
		snprintf(p->text, sizeof(p->text), "%s", text + used);
		/* Success passes by; what went wrong stays on the screen. */
		if (!ends_well(text))
			fprintf(p->to, "\r\033[K%s\n", text);
	} else {
		fprintf(p->to, "\r\033[K%s\n", text);
	}
	if (p->total)
		draw(p);
}

void rk_progress_end(struct rk_progress *p)
{
	if (p->bar && p->total)
		fputs("\r\033[K", p->to);
	fflush(p->to);
}
