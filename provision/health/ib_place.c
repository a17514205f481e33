/* Where InfiniBand ports are: which PCI functions have their driver, and on which leaf switch each cable ends. */
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"

enum { PORTS_MAX = 64, WORDS_MAX = 8 };

static const char *value_of(char *const *words, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (rk_starts_with(words[i], key))
			return words[i] + strlen(key);
	return "";
}

/* Lines "0000:03:00.0 driver=mlx5_core ib=mlx5_0": a function without driver or without IB device is what NCCL silently works around by TCP. */
void rk_parse_ib_driver(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line, *words[WORDS_MAX];
	int functions = 0, devices = 0;
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL && functions < PORTS_MAX) {
		size_t n = rk_words(line, words, WORDS_MAX);
		if (cut || n < 2 || strlen(words[0]) != strlen("0000:03:00.0") || words[0][4] != ':' || !rk_starts_with(words[1], "driver="))
			continue;
		bool driver = *value_of(words, n, "driver=") != '\0', device = *value_of(words, n, "ib=") != '\0';
		rk_metric_text(ret, "ib.drv", rk_labelf(ret, "pci=%s", words[0]), device ? "mlx5_ib" : driver ? "no IB device" : "no driver");
		functions++;
		devices += device;
	}
	if (!functions && !rk_status_is(evidence, "0"))
		return;
	rk_metric_count(ret, evidence, "ib.drv.functions", functions);
	rk_metric_count(ret, evidence, "ib.drv.devices", devices);
}

struct leaf {
	const char *dev, *name;
	uint64_t guid;
	int rail;
	double port;
	bool has_port;
};

/* names: those of all rails so far, in their order. */
static void emit(struct rk_metrics *m, const struct leaf *l, struct rk_str *names, bool *silent)
{
	if (!l->dev)
		return;
	const char *by_dev = rk_labelf(m, "dev=%s", l->dev);
	rk_str_addf(names, "%s%s", names->len ? "," : "", l->name ? l->name : "");
	*silent |= !l->name;
	if (l->name && l->has_port && l->guid)
		rk_metric_text(m, "ib.cable", by_dev, rk_labelf(m, "0x%016llx on %.60s/%.0f", (unsigned long long)l->guid, l->name, l->port));
	else
		rk_metric_absent(m, "ib.cable", by_dev, "the switch did not answer");
}

/* "Node Description:.leaf-g00-rail0", "LocalPort:.......................3" */
static const char *dotted(const char *line, const char *key)
{
	if (!rk_starts_with(line, key))
		return NULL;
	line += strlen(key);
	return line + strspn(line, ". ");
}

/* Per device a line "# dev mlx5_0 0xGUID", then what smpquery says of the node at the other end of the cable. */
void rk_parse_ib_leaf(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line;
	struct rk_str names RK_CLEANUP_STR = RK_STR_INIT;
	struct leaf leaf = { .rail = -1 };
	bool cut = false, silent = false;

	while ((line = rk_next_line(&at, &cut)) != NULL && leaf.rail < PORTS_MAX) {
		line = rk_trim(line);
		const char *name = dotted(line, "Node Description:"), *port = dotted(line, "LocalPort:");
		if (cut)
			continue;
		char *words[WORDS_MAX] = { NULL };
		if (rk_starts_with(line, "# dev ") && rk_words(line, words, WORDS_MAX) >= 3) {
			emit(ret, &leaf, &names, &silent);
			leaf = (struct leaf){ .dev = rk_labelf(ret, "%.40s", words[2]), .rail = leaf.rail + 1 };
			if (!words[3] || !rk_parse_u64(words[3], &leaf.guid))
				leaf.guid = 0;
		} else if (name && *name && leaf.dev) {
			leaf.name = rk_labelf(ret, "%.60s", name);
		} else if (port && leaf.dev) {
			leaf.has_port = rk_lead_number(port, &leaf.port);
		}
	}
	emit(ret, &leaf, &names, &silent);
	if (silent)
		rk_metric_absent(ret, "ib.leaves", "", "a switch did not answer");
	else if (names.len)
		rk_metric_text(ret, "ib.leaves", "", rk_str_text(&names));
}
