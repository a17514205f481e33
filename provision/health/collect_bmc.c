/* What the management controller of each target's tray says: leaks and power. The drivers have read and judged the Redfish answers already;
 * what is kept as evidence is what they found, in the form of the resource it is from. */
#include <math.h>
#include <string.h>

#include "inventory/base/clock.h"
#include "provision/bmc.h"
#include "provision/health/collect.h"
#include "provision/health/rules.h"
#include "provision/power_meter.h"

/* A meter at the beginning, and how long ago that was. */
struct before {
	struct rk_bmc_reading reading;
	double seconds;
};
struct rk_meters {
	struct rk_bmc_reading *readings; /* per target */
	int64_t at_ms;
};

static bool has_bmc(const struct rk_world *world, int tray)
{
	return world->sim || world->site->bmc || world->site->trays[tray].bmc;
}

/* "LeakDetector_2 Critical": detector and state. Every detector that was read and is not named is dry. */
static void write_leak(struct rk_jw *w, const struct rk_bmc_reading *r, const struct before *b, struct rk_arena *arena)
{
	(void)b;
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

static void write_reading(struct rk_jw *w, const char *key, double value)
{
	rk_jw_key(w, key);
	rk_jw_object(w);
	rk_jw_key(w, "Reading");
	rk_jw_double(w, value); /* not known gives null */
	rk_jw_end(w);
}

static void write_power(struct rk_jw *w, const struct rk_bmc_reading *r, const struct before *b, struct rk_arena *arena)
{
	(void)arena;
	write_reading(w, "PowerWatts", r->watts);
	write_reading(w, "EnergykWh", r->kwh);
	/* Redfish has no place for these: the GPU modules together, and what the validation took from its beginning to here. */
	rk_jw_key(w, "racksh");
	rk_jw_object(w);
	const struct {
		const char *key;
		double value;
	} rows[] = { { "module_watts", r->module_watts }, { "interval_seconds", b ? b->seconds : NAN },
		     { "interval_kwh", b ? rk_power_interval_kwh(r, &b->reading) : NAN }, { "mean_watts", b ? (r->watts + b->reading.watts) / 2 : NAN } };
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		rk_jw_key(w, rows[i].key);
		rk_jw_double(w, rows[i].value);
	}
	rk_jw_end(w);
}

static const struct {
	const char *collector;
	unsigned what;
	void (*write)(struct rk_jw *w, const struct rk_bmc_reading *r, const struct before *b, struct rk_arena *arena);
} rows[] = { { "leak", RK_BMC_LEAK, write_leak }, { "power", RK_BMC_METERS, write_power } };

static void add(struct rk_target *t, size_t row, const struct rk_bmc_reading *reading, const struct before *before, const struct rk_err *err,
		struct rk_arena *arena)
{
	struct rk_evidence *e = &t->evidence[t->n_evidence++];
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	*e = (struct rk_evidence){ .collector = rows[row].collector, .out = "", .err = "", .status = err->rc ? "unreachable" : "0" };
	if (err->rc) {
		e->err = rk_arena_printf(arena, "the management controller does not answer: %s", err->message);
		e->err_len = strlen(e->err);
		return;
	}
	rk_jw_init(&w, &text, 1);
	rk_jw_object(&w);
	rows[row].write(&w, reading, before, arena);
	rk_jw_end(&w);
	e->out = rk_arena_strdup(arena, rk_str_text(&text));
	e->out_len = text.len;
}

/* Asks the controllers of the targets' trays that have one. *ret_target: which target each answer, or error, is of. */
static size_t ask(struct rk_world *world, const int *vms, size_t n, unsigned what, struct rk_arena *arena, struct rk_bmc_reading **ret, struct rk_err **ret_errors,
		  size_t **ret_target)
{
	struct rk_bmc *bmc RK_CLEANUP_BMC = NULL;
	struct rk_bmc_target *asked = rk_arena_array(arena, n + 1, sizeof(*asked));
	struct rk_err failed RK_CLEANUP_ERR = RK_ERR_INIT;
	size_t n_asked = 0;

	*ret = rk_arena_array(arena, n + 1, sizeof(**ret));
	*ret_errors = rk_arena_array(arena, n + 1, sizeof(**ret_errors));
	*ret_target = rk_arena_array(arena, n + 1, sizeof(**ret_target));
	for (size_t i = 0; what && i < n; i++) {
		int tray = world->site->vms[vms[i]].tray;
		if (!has_bmc(world, tray))
			continue;
		asked[n_asked] = (struct rk_bmc_target){ tray, world->site->trays[tray].rack, 0 };
		(*ret_target)[n_asked++] = i;
	}
	int rc = n_asked ? rk_bmc_open(world, &bmc, &failed) : 0;
	for (size_t i = 0; rc && i < n_asked; i++)
		rk_err_set(&(*ret_errors)[i], rc, "%s", failed.message);
	if (!rc && n_asked)
		rk_bmc_read_all(world, bmc, asked, n_asked, what, arena, *ret, *ret_errors);
	return n_asked;
}

struct rk_meters *rk_collect_meters(struct rk_world *world, const struct rk_texts *level, const int *vms, size_t n, struct rk_arena *arena)
{
	struct rk_meters *m = rk_arena_alloc(arena, sizeof(*m));
	struct rk_bmc_reading *readings;
	struct rk_err *errors;
	size_t *target;

	m->at_ms = rk_clock_ms(world->env.clock);
	m->readings = rk_arena_array(arena, n + 1, sizeof(*m->readings));
	for (size_t i = 0; i < n; i++)
		m->readings[i] = rk_bmc_unread;
	size_t asked = ask(world, vms, n, rk_texts_have(level, "power") ? RK_BMC_METERS : 0, arena, &readings, &errors, &target);
	for (size_t i = 0; i < asked; i++) {
		if (!errors[i].rc)
			m->readings[target[i]] = readings[i];
		rk_err_clear(&errors[i]);
	}
	return m;
}

void rk_collect_bmc(struct rk_world *world, const struct rk_texts *level, const int *vms, size_t n, const struct rk_meters *meters, struct rk_arena *arena,
		    struct rk_target *targets)
{
	struct rk_bmc_reading *readings;
	struct rk_err *errors;
	size_t *target;
	unsigned what = 0;

	for (size_t r = 0; r < RK_ARRAY_SIZE(rows); r++)
		what |= rk_texts_have(level, rows[r].collector) ? rows[r].what : 0;
	size_t asked = ask(world, vms, n, what, arena, &readings, &errors, &target);
	double seconds = (double)(rk_clock_ms(world->env.clock) - meters->at_ms) / 1000;
	for (size_t i = 0; i < asked; i++) {
		const struct before before = { meters->readings[target[i]], seconds };
		for (size_t r = 0; r < RK_ARRAY_SIZE(rows); r++) {
			if (what & rows[r].what)
				add(&targets[target[i]], r, &readings[i], &before, &errors[i], arena);
		}
		rk_err_clear(&errors[i]);
	}
}
