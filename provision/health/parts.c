/* Which parts of a target a metric is about, by its label. */
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/judge.h"

int rk_rail_of(const struct rk_judge *j, size_t target, const char *text)
{
	const struct rk_target_metrics *t = &j->targets[target];
	const struct rk_expect *e = &t->target->expect;
	size_t n = text && rk_starts_with(text, "dev=") ? strcspn(text, ":,") : 0;

	for (size_t i = 0; n && i < t->target->n_evidence; i++) {
		const struct rk_metric *first;
		size_t count = rk_metrics_range(&t->of[i], "ib.guid", &first);
		for (size_t k = 0; k < count; k++) {
			uint64_t guid;
			if (strlen(first[k].label) != n || strncmp(first[k].label, text, n) != 0 || !rk_parse_u64(first[k].text, &guid))
				continue;
			for (size_t r = 0; r < e->n_port_guids; r++)
				if (e->port_guids[r] == guid)
					return (int)r;
		}
	}
	return -1;
}

static uint64_t bit(int number)
{
	return number >= 0 && number < RK_PARTS_OF_A_KIND ? (uint64_t)1 << number : 0;
}

/* "gpu=1": 1. -1: another word, or a PCI address. */
static int number_of(const char *field, const char *key)
{
	size_t n = strlen(key), digits = strspn(field + n, "0123456789");

	if (strncmp(field, key, n) != 0 || digits == 0 || digits > 2 || (field[n + digits] && field[n + digits] != ','))
		return -1;
	return digits == 1 ? field[n] - '0' : (field[n] - '0') * 10 + field[n + 1] - '0';
}

uint64_t rk_part_of(const struct rk_judge *j, size_t target, const char *label)
{
	for (const char *at = label; *at; at += strcspn(at, ",")) {
		at += *at == ',';
		uint64_t part = bit(number_of(at, "gpu=")) | bit(number_of(at, "rail=")) << RK_FIRST_RAIL | bit(rk_rail_of(j, target, at)) << RK_FIRST_RAIL;
		if (part)
			return part;
		if (rk_starts_with(at, "pci="))
			return RK_PART_PORTLESS;
	}
	return 0;
}
