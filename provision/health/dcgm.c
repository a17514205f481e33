/* dcgmi diag -j of DCGM 4 (entities) and 3 (gpu_ids), and the table it prints without -j. */
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"

static void result(struct rk_metrics *m, const char *test, const char *entity, const char *status)
{
	rk_metric_value(m, "dcgm.result", rk_labelf(m, "test=%.32s,%s", test, entity), status ? status : "", false);
}

static void warning(struct rk_metrics *m, const struct rk_jnode *node, const char *test)
{
	const struct rk_jnode *first = rk_jget(node, "warnings");

	first = first ? first->child : NULL;
	const char *text = first && first->type == RK_JOBJECT ? rk_jstr(rk_jget(first, "warning")) : rk_jstr(first);
	if (text)
		rk_metric_text(m, "dcgm.warning", rk_labelf(m, "test=%.32s", test), text);
}

static void test(struct rk_metrics *m, const struct rk_jnode *node)
{
	const char *name = rk_jstr(rk_jget(node, "name"));

	if (!name)
		return;
	RK_JEACH(item, rk_jget(node, "results")) {
		const struct rk_jnode *id = rk_jget(item, "entity_id"), *gpus = rk_jget(item, "gpu_ids"), *gpu = rk_jget(item, "gpu_id");
		const char *group = rk_jstr(rk_jget(item, "entity_group"));
		const char *ids = id && id->text ? id->text : gpus && gpus->text ? gpus->text : gpu && gpu->text ? gpu->text : "?";
		result(m, name, rk_labelf(m, "%s=%.16s", group && strcmp(group, "GPU") != 0 ? "entity" : "gpu", ids), rk_jstr(rk_jget(item, "status")));
		warning(m, item, name);
	}
	const char *sum = rk_jstr(rk_jget(rk_jget(node, "test_summary"), "status"));
	if (sum)
		result(m, name, "all", sum);
}

static void document(void *ctx, const struct rk_jnode *root)
{
	struct rk_metrics *m = ctx;
	const struct rk_jnode *diag = rk_jget(root, "DCGM Diagnostic");
	const char *error = rk_jstr(rk_jget(root, "runtime_error"));

	if (!diag)
		diag = rk_jget(root, "DCGM GPU Diagnostic");
	if (!error)
		error = rk_jstr(rk_jget(diag, "runtime_error"));
	if (error)
		rk_metric_absent(m, "dcgm.result", "", error);
	RK_JEACH(category, rk_jget(diag, "test_categories")) {
		RK_JEACH(item, rk_jget(category, "tests"))
			test(m, item);
	}
}

/* "| pcie                      | Pass                |": name and verdict of the table form. */
static void table_row(struct rk_metrics *m, char *line)
{
	static const char *const words[] = { "Pass", "Fail", "Warn", "Skip" };
	char *bar = strchr(line + 1, '|');

	if (!bar)
		return;
	*bar = '\0';
	char *name = rk_trim(line + 1), *status = rk_trim(bar + 1);
	for (size_t i = 0; *name && i < RK_ARRAY_SIZE(words); i++) {
		if (rk_starts_with(status, words[i]))
			result(m, name, "all", words[i]);
	}
}

/* A border without a title is the last line of the table; what stands below a title has not been shown before it. */
static void table(const struct rk_evidence *evidence, struct rk_metrics *m)
{
	char *at = rk_clean(m->arena, evidence->out, evidence->out_len), *line;
	bool rows = false, closed = false;

	while ((line = rk_next_line(&at, NULL)) != NULL) {
		line = rk_trim(line);
		if (*line == '|') {
			rows = true;
			closed = false;
			table_row(m, line);
		} else if (*line == '+') {
			closed = strspn(line, "+-") == strlen(line);
		} else if (rk_starts_with(line, "Error:")) {
			rk_metric_absent(m, "dcgm.result", "", rk_trim(line + 6));
		}
	}
	if (rows && !closed)
		rk_metric_absent(m, "dcgm.result", "", "truncated");
}

void rk_parse_dcgm_diag(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	bool cut;

	if (rk_json_docs(ret, evidence, document, ret, &cut))
		return;
	if (cut) {
		rk_metric_absent(ret, "dcgm.result", "", "truncated");
		return;
	}
	table(evidence, ret);
}
