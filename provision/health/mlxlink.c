/* mlxlink: JSON documents, one per rail, or the text report (coloured even into a pipe). */
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"

static const struct {
	const char *text, *metric;
	bool number;
} rows[] = {
	{ "State", "mlxlink.state", false },
	{ "Physical state", "mlxlink.phys", false },
	{ "Speed", "mlxlink.speed", false },
	{ "Width", "mlxlink.width", false },
	{ "Status Opcode", "mlxlink.opcode", true },
	{ "Recommendation", "mlxlink.recommendation", false },
	{ "Symbol BER", "mlxlink.symbol_ber", true },
	{ "Effective Physical BER", "mlxlink.effective_ber", true },
	{ "Raw Physical BER", "mlxlink.raw_ber", true },
};

struct link {
	struct rk_metrics *m;
	int rail;
};

static void value(struct rk_metrics *m, int rail, const char *key, const char *text)
{
	for (size_t i = 0; text && i < RK_ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i].text, key) == 0)
			rk_metric_value(m, rows[i].metric, rk_labelf(m, "rail=%d", rail), text, rows[i].number);
	}
}

static void document(void *ctx, const struct rk_jnode *root)
{
	struct link *link = ctx;
	const struct rk_jnode *output = rk_jget(rk_jget(root, "result"), "output");

	if (!output) {
		const char *why = rk_jstr(rk_jget(rk_jget(root, "status"), "message"));
		rk_metric_absent(link->m, "mlxlink.state", rk_labelf(link->m, "rail=%d", link->rail++), why && *why ? why : "no output");
		return;
	}
	RK_JEACH(section, output) {
		RK_JMEMBERS(row, section)
			value(link->m, link->rail, row->key, rk_jstr(row));
	}
	link->rail++;
}

static void text_report(const struct rk_evidence *evidence, struct link *link)
{
	char *at = rk_clean(link->m->arena, evidence->out, evidence->out_len), *line, *key, *text;
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		line = rk_trim(line);
		if (rk_starts_with(line, "Operational Info")) {
			link->rail++;
			continue;
		}
		if (!cut && link->rail >= 0 && rk_split_colon(line, &key, &text))
			value(link->m, link->rail, key, text);
	}
}

void rk_parse_mlxlink(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	struct link link = { ret, 0 };
	bool cut;

	if (rk_json_docs(ret, evidence, document, &link, &cut) == 0 && !cut) {
		link.rail = -1;
		text_report(evidence, &link);
	}
	if (cut)
		rk_metric_absent(ret, "mlxlink.state", rk_labelf(ret, "rail=%d", link.rail), "truncated");
}
