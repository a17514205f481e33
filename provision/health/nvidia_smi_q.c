/* nvidia-smi -q: indentation makes the groups, the value column moves between driver versions, rows come and go. */
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"

enum { LEVELS = 8, GPUS_MAX = 64 };

struct state {
	struct rk_metrics *m;
	int gpu;
	double attached;
	bool attached_known, lost;
	bool *seen, *ever;         /* per row of rk_gpu_fields: of the present GPU, of one before it */
	const char *group[LEVELS]; /* title per indentation level */
};

/* end: of the report. What other GPUs have and the last one has not was cut off. */
static void gpu_end(struct state *s, bool end, const char *missing)
{
	bool shorter = false;

	if (s->gpu < 0)
		return;
	for (size_t i = 0; i < rk_gpu_fields_n; i++) {
		bool cut = end && s->ever[i] && !s->seen[i];
		shorter |= cut;
		s->ever[i] |= s->seen[i];
		if (!s->seen[i])
			rk_metric_absent(s->m, rk_gpu_fields[i].metric, rk_labelf(s->m, "gpu=%d", s->gpu), s->lost ? "GPU is lost" : cut ? "truncated" : missing);
	}
	rk_gpu_lost(s->m, s->gpu, s->lost, shorter ? "truncated" : missing);
	memset(s->seen, 0, rk_gpu_fields_n * sizeof(*s->seen));
	s->lost = false;
}

static void row(struct state *s, size_t level, const char *key, const char *value)
{
	const char *group = level && s->group[level - 1] ? s->group[level - 1] : "";

	/* The parts of a GPU cut by MIG repeat the rows of the whole one. */
	if (s->group[1] && rk_starts_with(s->group[1], "MIG Device"))
		return;

	if (strcmp(value, "GPU is lost") == 0)
		s->lost = true;
	for (size_t i = 0; i < rk_gpu_fields_n; i++) {
		const struct rk_gpu_field *f = &rk_gpu_fields[i];
		if (!s->seen[i] && strcmp(f->key, key) == 0 && strcmp(f->group, group) == 0) {
			s->seen[i] = true;
			rk_gpu_field_set(s->m, s->gpu, f, value);
			return;
		}
	}
}

static void line(struct state *s, char *text)
{
	size_t blanks = strspn(text, " ");
	char *key, *value;

	if (blanks == 0 && rk_starts_with(text, "GPU ") && strchr(text, ':') && s->gpu + 1 < GPUS_MAX) {
		gpu_end(s, false, "row missing");
		s->gpu++;
		memset(s->group, 0, sizeof(s->group));
		return;
	}
	size_t level = blanks / 4; /* 1: directly below the GPU */
	if (s->gpu < 0) {
		if (!rk_split_colon(text, &key, &value))
			return;
		if (strcmp(key, "Attached GPUs") == 0)
			s->attached_known = rk_lead_number(value, &s->attached);
		else if (strcmp(key, "Driver Version") == 0)
			rk_metric_value(s->m, "driver.version", "", value, false);
		return;
	}
	if (level == 0 || level >= LEVELS)
		return;
	bool pair = rk_split_colon(text, &key, &value);
	for (size_t i = level; i < LEVELS; i++)
		s->group[i] = NULL;
	s->group[level] = pair ? key : rk_trim(text);
	if (pair)
		row(s, level, key, value);
}

void rk_parse_nvidia_smi_q(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *text;
	struct state s = { .m = ret, .gpu = -1, .seen = rk_arena_array(ret->arena, rk_gpu_fields_n, sizeof(bool)),
			   .ever = rk_arena_array(ret->arena, rk_gpu_fields_n, sizeof(bool)) };
	bool cut = false;

	while ((text = rk_next_line(&at, &cut)) != NULL) {
		if (!cut)
			line(&s, text);
	}
	if (s.gpu < 0) {
		rk_nvidia_smi_error(evidence, ret);
		return;
	}
	bool truncated = s.attached_known && s.gpu + 1 < s.attached, alone = cut && s.gpu == 0;
	gpu_end(&s, true, truncated || alone ? "truncated" : "row missing");
	if (truncated)
		rk_metric_absent(ret, "gpu.count", "", "truncated");
	else
		rk_metric_count(ret, evidence, "gpu.count", s.gpu + 1);
}
