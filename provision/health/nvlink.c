/* nvidia-smi nvlink -s, nvlink -e, topo -m. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"

enum { GPUS_MAX = 64, LINKS_MAX = 64, TOPO_COLUMNS = 160, LINKS_FULL = 18 /* rows that nvlink -s prints for a GPU of this generation */ };

/* "GPU 2: NVIDIA GB300 (UUID: ...)"; false when the line is something else. */
static bool gpu_line(const char *line, int *ret)
{
	char *end;

	if (!rk_starts_with(line, "GPU "))
		return false;
	long n = strtol(line + 4, &end, 10);
	if (end == line + 4 || *end != ':' || (end[1] && end[1] != ' ') || n < 0 || n >= GPUS_MAX)
		return false;
	*ret = (int)n;
	return true;
}

/* "Link 8: rest": the number; *ret_rest behind the colon. */
static int link_line(char *line, char **ret_rest)
{
	char *end;

	if (!rk_starts_with(line, "Link "))
		return -1;
	long n = strtol(line + 5, &end, 10);
	if (end == line + 5 || *end != ':' || n < 0 || n >= LINKS_MAX)
		return -1;
	*ret_rest = rk_trim(end + 1);
	return (int)n;
}

struct gpu_links {
	bool seen, all_down;      /* its one row says that all links are inactive */
	int rows, active, unclear;
	uint64_t shown;           /* links */
	double min_gbs;
};

static void status_link(struct rk_metrics *m, struct gpu_links *g, int gpu, int number, const char *value, bool cut)
{
	double gbs;

	static const char *const down[] = { "<inactive>", "inactive", "<inActive>", "inActive", "Down", "down", "disabled", "<disabled>" };
	bool up = strstr(value, "GB/s") && rk_lead_number(value, &gbs), off = rk_word_of(value, down, RK_ARRAY_SIZE(down));

	if (cut && !up && !off)
		return; /* half a value */
	bool again = g->shown >> number & 1; /* of a GPU whose own line was lost */
	g->shown |= (uint64_t)1 << number;
	g->rows++;
	if (again) {
		g->unclear++;
	} else if (up) {
		g->active++;
		if (g->active == 1 || gbs < g->min_gbs)
			g->min_gbs = gbs;
	} else if (off) {
		rk_metric_text(m, "nvlink.down", rk_labelf(m, "gpu=%d,link=%d", gpu, number), "inactive");
	} else {
		g->unclear++;
	}
}

/* Neither up nor down, as far as is told: the count could be any. A link that is down for sure is a fault all the same. */
static void status_gpu(struct rk_metrics *m, const struct gpu_links *g, const char *label, bool truncated)
{
	if (truncated)
		rk_metric_absent(m, "nvlink.active", label, "truncated");
	else if (g->rows == 0 && !g->all_down)
		rk_metric_absent(m, "nvlink.active", label, "no links shown");
	else if (g->unclear && g->active + g->unclear == g->rows)
		rk_metric_absent(m, "nvlink.active", label, "a link without a state");
	else
		rk_metric_number(m, "nvlink.active", label, g->active);
	if (g->active)
		rk_metric_number(m, "nvlink.min_gbs", label, g->min_gbs);
}

/* odd: why nobody knows how many GPUs there are, or NULL. */
static void status_sums(struct rk_metrics *m, const struct rk_evidence *evidence, const struct gpu_links *gpus, int last, const char *odd)
{
	int max_rows = LINKS_FULL, n = 0;

	for (int i = 0; i < GPUS_MAX; i++) {
		n += gpus[i].seen;
		max_rows = gpus[i].rows > max_rows ? gpus[i].rows : max_rows;
	}
	for (int i = 0; i < GPUS_MAX; i++) {
		if (!gpus[i].seen)
			continue;
		/* Links that are down have a row too, so a short list can only be the cut end of the report. */
		bool cut = i == last && gpus[i].rows < max_rows && !gpus[i].all_down;
		odd = cut ? "truncated" : odd;
		status_gpu(m, &gpus[i], rk_labelf(m, "gpu=%d", i), cut);
	}
	if (odd)
		rk_metric_absent(m, "nvlink.gpus", "", odd);
	else if (n)
		rk_metric_count(m, evidence, "nvlink.gpus", n);
}

void rk_parse_nvlink_status(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line, *value;
	struct gpu_links gpus[GPUS_MAX] = { 0 };
	int gpu = -1;
	const char *odd = NULL;
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		line = rk_trim(line);
		if (gpu_line(line, &gpu)) {
			gpus[gpu].seen = true;
			continue;
		}
		if (rk_starts_with(line, "GPU ") && !cut) {
			odd = "a GPU without a number"; /* its links are nobody's */
			gpu = -1;
		}
		if (strstr(line, "all links are inActive") && gpu >= 0)
			gpus[gpu].all_down = true;
		else if (strstr(line, "all links are inActive"))
			rk_metric_number(ret, "nvlink.active", "", 0);
		int number = gpu < 0 ? -1 : link_line(line, &value);
		if (number >= 0)
			status_link(ret, &gpus[gpu], gpu, number, value, cut);
	}
	status_sums(ret, evidence, gpus, gpu, odd);
	if (gpu < 0 && !odd)
		rk_nvidia_smi_error(evidence, ret);
}

static const struct {
	const char *text, *metric;
} error_rows[] = {
	{ "Link recovery failed events", "nvlink.recovery_failed" },
	{ "Total link recovery events", "nvlink.recovery_total" },
	{ "Local link integrity Errors", "nvlink.integrity" },
	{ "Effective BER", "nvlink.effective_ber" },
	{ "Symbol BER", "nvlink.symbol_ber" },
	{ "Symbol Errors", "nvlink.symbol_errors" },
};

enum { ERROR_ROWS = RK_ARRAY_SIZE(error_rows) };

/* What the report has said so far: a link that lacks what other links have, at its end, was cut off, and so were links. */
struct link_errors {
	struct rk_metrics *m;
	int gpu, link, links, most_links; /* links: of the present GPU */
	bool seen[ERROR_ROWS], ever[ERROR_ROWS];
};

static void link_begin(struct link_errors *e, int gpu, int link)
{
	if (gpu == e->gpu && link == e->link)
		return;
	e->links = gpu == e->gpu ? e->links + 1 : 1;
	e->most_links = e->links > e->most_links ? e->links : e->most_links;
	e->gpu = gpu;
	e->link = link;
	memset(e->seen, 0, sizeof(e->seen));
}

static void link_row(struct link_errors *e, const char *key, const char *value)
{
	for (size_t i = 0; i < ERROR_ROWS; i++) {
		if (strcmp(error_rows[i].text, key) != 0)
			continue;
		rk_metric_value(e->m, error_rows[i].metric, rk_labelf(e->m, "gpu=%d,link=%d", e->gpu, e->link), value, true);
		e->seen[i] = e->ever[i] = true;
	}
}

static void errors_end(struct link_errors *e, bool bare)
{
	for (size_t i = 0; i < ERROR_ROWS; i++) {
		if (!e->ever[i])
			continue;
		if (!e->seen[i])
			rk_metric_absent(e->m, error_rows[i].metric, rk_labelf(e->m, "gpu=%d,link=%d", e->gpu, e->link), "truncated");
		else if (bare || e->links < e->most_links)
			rk_metric_absent(e->m, error_rows[i].metric, rk_labelf(e->m, "gpu=%d", e->gpu + bare), "truncated");
	}
}

void rk_parse_nvlink_errors(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line, *rest, *key, *value;
	struct link_errors e = { .m = ret, .gpu = -1 };
	int gpu = -1;
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		line = rk_trim(line);
		if (cut || gpu_line(line, &gpu))
			continue;
		if (rk_starts_with(line, "GPU "))
			gpu = -1;
		int number = gpu < 0 ? -1 : link_line(line, &rest);
		if (number < 0 || !rk_split_colon(rest, &key, &value))
			continue;
		link_begin(&e, gpu, number);
		link_row(&e, key, value);
	}
	errors_end(&e, gpu > e.gpu);
}

/* Which GPU each column of the head is about; -1: none. */
struct topo {
	int column[TOPO_COLUMNS];
	size_t n;
	int gpus;
};

static int topo_gpu(const char *word)
{
	char *end;

	if (!rk_starts_with(word, "GPU") || word[3] < '0' || word[3] > '9')
		return -1;
	long n = strtol(word + 3, &end, 10);
	return *end || n >= GPUS_MAX ? -1 : (int)n;
}

/* The first line that names GPU 0 and is no row of it. */
static void topo_header(struct topo *t, char *line)
{
	char *words[TOPO_COLUMNS];
	size_t n = rk_words(line, words, TOPO_COLUMNS);
	bool first = false, row = false;

	for (size_t i = 0; i < n; i++) {
		t->column[i] = topo_gpu(words[i]);
		t->gpus += t->column[i] >= 0;
		first |= t->column[i] == 0;
		row |= strcmp(words[i], "X") == 0;
	}
	t->n = first && !row ? n : 0;
	t->gpus = t->n ? t->gpus : 0;
}

/* Of a cut row the last word may be half of one, unless it is the X of the GPU itself. Returns whether the row tells of all peers. */
static bool topo_row(struct rk_metrics *m, const struct topo *t, char *line, bool cut)
{
	char *words[TOPO_COLUMNS + 1];
	size_t n = rk_words(line, words, RK_ARRAY_SIZE(words));
	int gpu = n ? topo_gpu(words[0]) : -1, told = 0;

	for (size_t i = 1; gpu >= 0 && i < n && i <= t->n; i++) {
		int peer = t->column[i - 1];
		if (peer < 0 || (cut && i + 1 == n && strcmp(words[i], "X") != 0))
			continue;
		told++;
		if (peer > gpu)
			rk_metric_text(m, "topo.link", rk_labelf(m, "gpu=%d,peer=%d", gpu, peer), words[i]);
	}
	return gpu >= 0 && told == t->gpus;
}

void rk_parse_topo(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line;
	struct topo t = { .n = 0 };
	int rows = 0;
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		line = rk_trim(line);
		if (t.n)
			rows += topo_row(ret, &t, line, cut);
		else if (!cut)
			topo_header(&t, line);
	}
	if (t.gpus && rows < t.gpus)
		rk_metric_absent(ret, "topo.gpus", "", "truncated");
	else if (t.gpus)
		rk_metric_count(ret, evidence, "topo.gpus", t.gpus);
}
