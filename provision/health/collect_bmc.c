/* What the management controller of each target's tray says: leaks and power. The drivers have read and judged the Redfish answers already;
 * what is kept as evidence is what they found, in the form of the resource it is from. */
#include <math.h>
#include <string.h>

#include "provision/bmc.h"
#include "provision/health/collect.h"
#include "provision/health/rules.h"

static bool has_bmc(const struct rk_world *world, int tray)
{
	return world->sim || world->site->bmc || world->site->trays[tray].bmc;
}

/* "LeakDetector_2 Critical": detector and state. Every detector that was read and is not named is dry. */
static void write_leak(struct rk_jw *w, const struct rk_bmc_reading *r, struct rk_arena *arena)
{
	char *id = rk_arena_strdup(arena, r->leak ? r->leak : "all"), *state = strchr(id, ' ');

	if (state)
		*state++ = '\0';
	rk_jw_key(w, "Members");
	rk_jw_array(w);
	if (r->leak || r->leak_read) {
		rk_jw_object(w);
		rk_jw_key(w, "Id");
		rk_jw_str(w, id);
		rk_jw_key(w, "DetectorState");
		rk_jw_str(w, r->leak ? state ? state : "Critical" : "OK");
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static void write_power(struct rk_jw *w, const struct rk_bmc_reading *r, struct rk_arena *arena)
{
	(void)arena;
	rk_jw_key(w, "PowerWatts");
	rk_jw_object(w);
	rk_jw_key(w, "Reading");
	rk_jw_double(w, r->watts); /* not known gives null */
	rk_jw_end(w);
}

static const struct {
	const char *collector;
	unsigned what;
	void (*write)(struct rk_jw *w, const struct rk_bmc_reading *r, struct rk_arena *arena);
} rows[] = { { "leak", RK_BMC_LEAK, write_leak }, { "power", RK_BMC_METERS, write_power } };

static void add(struct rk_target *t, size_t row, const struct rk_bmc_reading *reading, const struct rk_err *err, struct rk_arena *arena)
{
	struct rk_evidence *e = &t->evidence[t->n_evidence++];
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	*e = (struct rk_evidence){ .collector = rows[row].collector, .out = "", .err = "", .status = err->rc ? "1" : "0" };
	if (err->rc) {
		e->err = rk_arena_printf(arena, "the management controller does not answer: %s", err->message);
		e->err_len = strlen(e->err);
		return;
	}
	rk_jw_init(&w, &text, 1);
	rk_jw_object(&w);
	rows[row].write(&w, reading, arena);
	rk_jw_end(&w);
	e->out = rk_arena_strdup(arena, rk_str_text(&text));
	e->out_len = text.len;
}

void rk_collect_bmc(struct rk_world *world, const struct rk_texts *level, const int *vms, size_t n, struct rk_arena *arena, struct rk_target *targets)
{
	struct rk_bmc *bmc RK_CLEANUP_BMC = NULL;
	struct rk_bmc_target *asked = rk_arena_array(arena, n + 1, sizeof(*asked));
	struct rk_bmc_reading *readings = rk_arena_array(arena, n + 1, sizeof(*readings));
	struct rk_err *errors = rk_arena_array(arena, n + 1, sizeof(*errors)), failed RK_CLEANUP_ERR = RK_ERR_INIT;
	size_t *target_of = rk_arena_array(arena, n + 1, sizeof(*target_of)), n_asked = 0;
	unsigned what = 0;

	for (size_t r = 0; r < RK_ARRAY_SIZE(rows); r++)
		what |= rk_texts_have(level, rows[r].collector) ? rows[r].what : 0;
	for (size_t i = 0; what && i < n; i++) {
		int tray = world->site->vms[vms[i]].tray;
		if (!has_bmc(world, tray))
			continue;
		asked[n_asked] = (struct rk_bmc_target){ tray, world->site->trays[tray].rack, 0 };
		target_of[n_asked++] = i;
	}
	if (!n_asked || rk_bmc_open(world, &bmc, &failed))
		return;
	rk_bmc_read_all(world, bmc, asked, n_asked, what, arena, readings, errors);
	for (size_t i = 0; i < n_asked; i++) {
		for (size_t r = 0; r < RK_ARRAY_SIZE(rows); r++) {
			if (what & rows[r].what)
				add(&targets[target_of[i]], r, &readings[i], &errors[i], arena);
		}
		rk_err_clear(&errors[i]);
	}
}
