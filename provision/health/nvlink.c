/* nvidia-smi nvlink -s, nvlink -e, topo -m. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"

enum { GPUS_MAX = 64, LINKS_MAX = 64, LINKS_FULL = 18 /* rows that nvlink -s prints for a GPU of this generation */ };

/* "GPU 2: NVIDIA GB300 (UUID: ...)"; false when the line is something else. */
static bool gpu_line(const char *line, int *ret)
{
	char *end;

	if (!rk_starts_with(line, "GPU "))
		return false;
	long n = strtol(line + 4, &end, 10);
	if (end == line + 4 || *end != ':' || n < 0 || n >= GPUS_MAX)
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
	bool seen;
	int rows, active;
	double min_gbs;
};

static void status_link(struct rk_metrics *m, struct gpu_links *g, int gpu, int number, const char *value, bool cut)
{
	double gbs;

	if (cut && !strstr(value, "GB/s") && !strchr(value, '>'))
		return; /* half a value */
	g->rows++;
	if (strstr(value, "GB/s") && rk_lead_number(value, &gbs)) {
		g->active++;
		if (g->active == 1 || gbs < g->min_gbs)
			g->min_gbs = gbs;
	} else {
		rk_metric_text(m, "nvlink.down", rk_labelf(m, "gpu=%d,link=%d", gpu, number), "inactive");
	}
}

static void status_sums(struct rk_metrics *m, const struct gpu_links *gpus, int last)
{
	int max_rows = LINKS_FULL, n = 0;
	bool truncated = false;

	for (int i = 0; i < GPUS_MAX; i++) {
		n += gpus[i].seen;
		max_rows = gpus[i].rows > max_rows ? gpus[i].rows : max_rows;
	}
	for (int i = 0; i < GPUS_MAX; i++) {
		const char *label = rk_labelf(m, "gpu=%d", i);
		if (!gpus[i].seen)
			continue;
		/* Links that are down have a row too, so a short list can only be the cut end of the report. */
		truncated = i == last && gpus[i].rows < max_rows;
		if (truncated)
			rk_metric_absent(m, "nvlink.active", label, "truncated");
		else
			rk_metric_number(m, "nvlink.active", label, gpus[i].active);
		if (gpus[i].active)
			rk_metric_number(m, "nvlink.min_gbs", label, gpus[i].min_gbs);
	}
	if (truncated)
		rk_metric_absent(m, "nvlink.gpus", "", "truncated");
	else if (n)
		rk_metric_number(m, "nvlink.gpus", "", n);
}

void rk_parse_nvlink_status(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line, *value;
	struct gpu_links gpus[GPUS_MAX] = { 0 };
	int gpu = -1;
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		line = rk_trim(line);
		if (gpu_line(line, &gpu)) {
			gpus[gpu].seen = true;
			continue;
		}
		if (strstr(line, "all links are inActive"))
			rk_metric_number(ret, "nvlink.active", gpu < 0 ? "" : rk_labelf(ret, "gpu=%d", gpu), 0);
		int number = gpu < 0 ? -1 : link_line(line, &value);
		if (number >= 0)
			status_link(ret, &gpus[gpu], gpu, number, value, cut);
	}
	for (int i = 0; i < GPUS_MAX; i++) {
		/* A GPU whose links are all inactive has no rows; its 0 was noted above. */
		if (gpus[i].seen && gpus[i].rows == 0 && rk_metric_find(ret, "nvlink.active", rk_labelf(ret, "gpu=%d", i)))
			gpus[i].seen = false;
	}
	status_sums(ret, gpus, gpu);
	if (gpu < 0)
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

void rk_parse_nvlink_errors(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line, *rest, *key, *value;
	int gpu = -1;
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		line = rk_trim(line);
		if (cut || gpu_line(line, &gpu) || gpu < 0)
			continue;
		int number = link_line(line, &rest);
		if (number < 0 || !rk_split_colon(rest, &key, &value))
			continue;
		for (size_t i = 0; i < RK_ARRAY_SIZE(error_rows); i++) {
			if (strcmp(error_rows[i].text, key) == 0)
				rk_metric_value(ret, error_rows[i].metric, rk_labelf(ret, "gpu=%d,link=%d", gpu, number), value, true);
		}
	}
}

/* Columns GPU0.. of the header; returns how many GPUs there are. */
static int topo_header(char *line)
{
	int n = 0;
	char *save = NULL;

	for (char *word = strtok_r(line, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		char want[16];
		snprintf(want, sizeof(want), "GPU%d", n);
		if (strcmp(word, want) != 0)
			break;
		n++;
	}
	return n;
}

static void topo_row(struct rk_metrics *m, char *line, int gpus)
{
	char *save = NULL, *word = strtok_r(line, " \t", &save);
	int gpu = word && rk_starts_with(word, "GPU") ? atoi(word + 3) : -1;

	if (gpu < 0 || gpu >= gpus)
		return;
	for (int peer = 0; peer < gpus && (word = strtok_r(NULL, " \t", &save)) != NULL; peer++) {
		if (peer > gpu)
			rk_metric_text(m, "topo.link", rk_labelf(m, "gpu=%d,peer=%d", gpu, peer), word);
	}
}

void rk_parse_topo(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line;
	int gpus = 0, rows = 0;
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		line = rk_trim(line);
		if (!rk_starts_with(line, gpus ? "GPU" : "GPU0") || (cut && !rk_status_is(evidence, "0")))
			continue;
		if (gpus) {
			topo_row(ret, line, gpus);
			rows++;
		} else {
			gpus = topo_header(line);
		}
	}
	if (gpus && rows < gpus)
		rk_metric_absent(ret, "topo.gpus", "", "truncated");
	else if (gpus)
		rk_metric_number(ret, "topo.gpus", "", gpus);
}
