/* nvidia-smi -q -x. A small path-aware reader instead of a full XML parser: the report comes with banners, colour, cut tails and bodies such
 * as "GPU is lost" where children should be, and the same element name means different things under different parents. */
#include <stdio.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"

enum { DEPTH_MAX = 16, PATH_MAX_LEN = 256, GPUS_MAX = 64 };

struct reader {
	struct rk_metrics *m;
	char path[PATH_MAX_LEN];    /* below the root element: "gpu/fabric/state" */
	size_t length[DEPTH_MAX];   /* of path before each open element */
	int depth;                  /* open elements below the root; deeper ones than DEPTH_MAX are counted only */
	bool in_root, ended, leaf, in_gpu;
	int gpu;                    /* index of the present GPU, from 0 */
	bool lost;
	bool *seen;                 /* per row of rk_gpu_fields */
	double attached;
	bool attached_known;
};

static void decode_entities(char *s)
{
	static const struct {
		const char *name;
		char c;
	} rows[] = { { "&lt;", '<' }, { "&gt;", '>' }, { "&amp;", '&' }, { "&quot;", '"' }, { "&apos;", '\'' } };
	char *out = s;

	while (*s) {
		size_t i = 0;
		while (i < RK_ARRAY_SIZE(rows) && !rk_starts_with(s, rows[i].name))
			i++;
		if (i < RK_ARRAY_SIZE(rows)) {
			*out++ = rows[i].c;
			s += strlen(rows[i].name);
		} else {
			*out++ = *s++;
		}
	}
	*out = '\0';
}

static void gpu_value(struct reader *r, const char *path, const char *text)
{
	if (strcmp(text, "GPU is lost") == 0 || strcmp(text, "[GPU is lost]") == 0)
		r->lost = true;
	for (size_t i = 0; i < rk_gpu_fields_n; i++) {
		if (r->seen[i] || strcmp(rk_gpu_fields[i].xml, path) != 0)
			continue;
		r->seen[i] = true;
		rk_gpu_field_set(r->m, r->gpu, &rk_gpu_fields[i], text);
		return;
	}
}

static void gpu_begin(struct reader *r)
{
	r->in_gpu = true;
	r->gpu++;
	r->lost = false;
	memset(r->seen, 0, rk_gpu_fields_n * sizeof(*r->seen));
}

static void gpu_end(struct reader *r, const char *missing)
{
	r->in_gpu = false;
	for (size_t i = 0; i < rk_gpu_fields_n; i++) {
		if (!r->seen[i])
			rk_metric_absent(r->m, rk_gpu_fields[i].metric, rk_labelf(r->m, "gpu=%d", r->gpu), r->lost ? "GPU is lost" : missing);
	}
	rk_gpu_lost(r->m, r->gpu, r->lost, missing);
}

static void leaf_value(struct reader *r, char *text)
{
	decode_entities(text);
	text = rk_trim(text);
	if (r->in_gpu && rk_starts_with(r->path, "gpu/"))
		gpu_value(r, r->path + 4, text);
	else if (strcmp(r->path, "attached_gpus") == 0)
		r->attached_known = rk_lead_number(text, &r->attached);
	else if (strcmp(r->path, "driver_version") == 0)
		rk_metric_value(r->m, "driver.version", "", text, false);
}

static void element_open(struct reader *r, const char *name, size_t n, bool empty)
{
	if (!r->in_root) {
		r->in_root = n == 14 && strncmp(name, "nvidia_smi_log", n) == 0;
		return;
	}
	if (r->depth < DEPTH_MAX) {
		size_t len = strlen(r->path);
		r->length[r->depth] = len;
		if (len + n + 2 < sizeof(r->path))
			snprintf(r->path + len, sizeof(r->path) - len, "%s%.*s", len ? "/" : "", (int)n, name);
	}
	if (r->depth == 0 && n == 3 && strncmp(name, "gpu", 3) == 0 && r->gpu + 1 < GPUS_MAX)
		gpu_begin(r);
	r->depth++;
	r->leaf = !empty;
}

static void element_close(struct reader *r, char *text)
{
	if (!r->in_root)
		return;
	if (r->depth == 0) {
		r->ended = true;
		r->in_root = false;
		return;
	}
	if (r->leaf)
		leaf_value(r, text);
	r->leaf = false;
	r->depth--;
	if (r->depth < DEPTH_MAX)
		r->path[r->length[r->depth]] = '\0';
	if (r->depth == 0 && r->in_gpu)
		gpu_end(r, "row missing");
}

/* Walks the tags; text between an opening tag and its own closing tag is a value. */
static void read_tags(struct reader *r, char *p)
{
	char *text = p;

	while (!r->ended && (p = strchr(p, '<')) != NULL) {
		char *tag = p + 1, *end = strchr(tag, '>');
		if (!end)
			return;
		*p = '\0';
		p = end + 1;
		if (*tag == '?' || *tag == '!')
			continue;
		if (*tag == '/') {
			element_close(r, text);
		} else {
			bool empty = end[-1] == '/';
			size_t n = strcspn(tag, " \t\n/>");
			element_open(r, tag, n, empty);
			if (empty) {
				r->leaf = false;
				element_close(r, text);
			}
		}
		text = p;
	}
}

static void count_gpus(struct reader *r)
{
	int n = r->gpu + 1;

	if (!r->ended && (!r->attached_known || n < r->attached))
		rk_metric_absent(r->m, "gpu.count", "", "truncated");
	else
		rk_metric_number(r->m, "gpu.count", "", n);
	if (!r->ended)
		rk_metric_absent(r->m, "gpu.report", "", "truncated");
	else
		rk_metric_text(r->m, "gpu.report", "", "complete");
}

void rk_parse_nvidia_smi_xml(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *text = rk_clean(ret->arena, evidence->out, evidence->out_len);
	struct reader r = { .m = ret, .gpu = -1 };
	char *root = strstr(text, "<nvidia_smi_log");

	if (!root) {
		rk_nvidia_smi_error(evidence, ret);
		return;
	}
	r.seen = rk_arena_array(ret->arena, rk_gpu_fields_n, sizeof(*r.seen));
	read_tags(&r, root);
	if (r.in_gpu)
		gpu_end(&r, "truncated");
	count_gpus(&r);
	/* A lost GPU is reported behind or instead of its part of the report. */
	char *err = rk_clean(ret->arena, evidence->err, evidence->err_len < 65536 ? evidence->err_len : 65536);
	if (strstr(err, "Unable to determine the device handle"))
		rk_metric_text(ret, "gpu.error", "", "a GPU fell off the bus");
}
