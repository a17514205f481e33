#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provision/sim_impl.h"

static const char SOURCE[] = "made-from";

/* ---- state ----------------------------------------------------------------------------------------------------------------------- */

static size_t lower_bound(const struct rk_sim *sim, const char *key)
{
	size_t low = 0, high = sim->n;

	while (low < high) {
		size_t mid = (low + high) / 2;
		if (strcmp(sim->items[mid].key, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct rk_sim_entry *find(const struct rk_sim *sim, const char *key)
{
	size_t at = lower_bound(sim, key);

	return at < sim->n && strcmp(sim->items[at].key, key) == 0 ? &sim->items[at] : NULL;
}

/* A value that is empty is one that will be gone or is not there yet. */
const char *rk_sim_see(const struct rk_sim *sim, const struct rk_sim_entry *entry)
{
	const char *v = entry->old && rk_clock_ms(sim->clock) < entry->due_ms ? entry->old : entry->value;

	return *v ? v : NULL;
}

const char *rk_sim_get(const struct rk_sim *sim, const char *key)
{
	const struct rk_sim_entry *e = find(sim, key);

	return e ? rk_sim_see(sim, e) : NULL;
}

const char *rk_sim_get_settled(const struct rk_sim *sim, const char *key)
{
	const struct rk_sim_entry *e = find(sim, key);

	return e && *e->value ? e->value : NULL;
}

static struct rk_sim_entry *insert(struct rk_sim *sim, const char *key)
{
	size_t at = lower_bound(sim, key);

	(void)rk_vec_push(sim);
	memmove(&sim->items[at + 1], &sim->items[at], (sim->n - 1 - at) * sizeof(*sim->items));
	sim->items[at] = (struct rk_sim_entry){ .key = rk_xstrdup(key), .value = rk_xstrdup("") };
	return &sim->items[at];
}

void rk_sim_set(struct rk_sim_call *call, const char *key, const char *value, int settle_ms)
{
	struct rk_sim_entry *e = find(call->sim, key);

	if (call->mode == RK_SIM_LIE || (!e && !value))
		return;
	if (!e)
		e = insert(call->sim, key);
	const char *seen = rk_sim_see(call->sim, e);
	char *old = settle_ms ? rk_xstrdup(seen ? seen : "") : NULL;
	free(e->old);
	free(e->value);
	e->old = old;
	e->value = rk_xstrdup(value ? value : "");
	e->due_ms = rk_clock_ms(call->sim->clock) + settle_ms;
	rk_sim_db_put(call->sim, key, value);
}

void rk_sim_range(const struct rk_sim *sim, const char *prefix, size_t *ret_first, size_t *ret_end)
{
	size_t end = lower_bound(sim, prefix);

	*ret_first = end;
	while (end < sim->n && rk_starts_with(sim->items[end].key, prefix))
		end++;
	*ret_end = end;
}

void rk_sim_load(struct rk_sim *sim, const char *key, const char *value)
{
	struct rk_sim_entry *e = find(sim, key);

	if (!e)
		e = insert(sim, key);
	free(e->value);
	e->value = rk_xstrdup(value);
}

void rk_sim_forget(struct rk_sim *sim)
{
	for (size_t i = 0; i < sim->n; i++) {
		free(sim->items[i].key);
		free(sim->items[i].value);
		free(sim->items[i].old);
	}
	sim->n = 0;
}

/* ---- calls and faults ------------------------------------------------------------------------------------------------------------ */

static const char *const mode_words[] = { [RK_SIM_FAIL] = "fail", [RK_SIM_HANG] = "hang", [RK_SIM_LIE] = "lie", [RK_SIM_LOST] = "lost", [RK_SIM_CRASH] = "crash",
					   [RK_SIM_DROP] = "drop", [RK_SIM_KILL] = "kill" };

static struct rk_sim_fault *fault_for(struct rk_sim *sim, const char *what, const char *target)
{
	struct rk_sim_fault *hit = NULL;

	for (size_t i = 0; i < sim->n_faults; i++) {
		struct rk_sim_fault *f = &sim->faults[i];
		if ((strcmp(f->call, "call") != 0 && strcmp(f->call, what) != 0) || (f->target && !rk_streq(f->target, target)))
			continue;
		f->seen++;
		if (!f->nth || f->nth == f->seen)
			hit = f;
	}
	return hit;
}

int rk_sim_enter(struct rk_sim *sim, struct rk_sim_call *call, const char *what, const char *target, bool changes, struct rk_err *err)
{
	pthread_mutex_lock(&sim->lock);
	sim->calls++;
	const struct rk_sim_fault *fault = fault_for(sim, what, target);
	*call = (struct rk_sim_call){ .sim = sim, .what = what, .target = target, .changes = changes, .mode = fault ? fault->mode : RK_SIM_OK,
				      .message = fault ? fault->message : NULL };
	if (call->mode == RK_SIM_KILL)
		_exit(137);
	int rc = rk_sim_db_begin(sim, changes, err);
	if (!rc && call->mode == RK_SIM_FAIL)
		rc = rk_err_set(err, RK_FAILED, "%s on %s: %s", what, target, call->message ? call->message : "the twin was told to fail here");
	if (!rc && call->mode == RK_SIM_HANG)
		rc = rk_err_set(err, RK_UNREACHABLE, "%s on %s: %s", what, target, call->message ? call->message : "no answer in time");
	if (!rc)
		return 0;
	rk_sim_db_end(sim, false, NULL);
	pthread_mutex_unlock(&sim->lock);
	return rc;
}

int rk_sim_leave(struct rk_sim_call *call, int rc, struct rk_err *err)
{
	struct rk_sim *sim = call->sim;
	int stored = rk_sim_db_end(sim, rc == 0 && call->changes, rc ? NULL : err);

	if (call->mode == RK_SIM_CRASH)
		_exit(137);
	pthread_mutex_unlock(&sim->lock);
	if (rc || stored)
		return rc ? rc : stored;
	if (call->mode == RK_SIM_LOST)
		return rk_err_set(err, RK_UNREACHABLE, "%s on %s: %s", call->what, call->target,
				  call->message ? call->message : "the connection broke before the answer came");
	return 0;
}

static char *field_until(const char **at, const char *stop)
{
	size_t n = strcspn(*at, stop);
	char *text = rk_xstrndup(*at, n);

	*at += n;
	return text;
}

/* Words that change the twin itself. */
static const struct {
	const char *(*word)(size_t i);
	int (*make)(struct rk_sim *sim, const char *what, const char *target, int *ret, struct rk_err *err);
} changes[] = { { rk_sim_change_word, rk_sim_change }, { rk_sim_coolant_word, rk_sim_change_coolant }, { rk_sim_plant_word, rk_sim_plant } };

const char *rk_sim_fault_word(size_t i)
{
	for (size_t k = 0; k < RK_ARRAY_SIZE(changes); k++) {
		size_t n = 0;
		while (changes[k].word(n))
			n++;
		if (i < n)
			return changes[k].word(i);
		i -= n;
	}
	return NULL;
}

static int no_fault(const char *text, const char *call, struct rk_err *err)
{
	enum { WORDS_MAX = 64 };
	const char *words[WORDS_MAX];
	size_t n = 0;

	while (n < WORDS_MAX && (words[n] = rk_sim_fault_word(n)) != NULL)
		n++;
	rk_err_set(err, RK_INVALID, "\"%s\" is no fault of the twin", text);
	const char *near = rk_near_name(call, words, n);
	if (rk_streq(near, call))
		rk_err_hint(err, "say where: %s@...: racksh-fabric(7)", call);
	else if (near)
		rk_err_hint(err, "did you mean \"%s\"?", near);
	else
		rk_err_hint(err, "PLANE.CALL[@TARGET][#N]=fail|hang|lie|lost|crash|kill[:MESSAGE], hv.define...=drop:ELEMENT, call#K=..., gpu-leave@TRAY/INDEX, link-down@TRAY/RAIL and others: racksh-fabric(7)");
	return RK_INVALID;
}

static int add_one(struct rk_sim *sim, const char *text, struct rk_err *err)
{
	const char *at = text;
	struct rk_sim_fault f = { .call = field_until(&at, "@#=") };
	size_t mode = 0;

	if (*at == '@' && at++)
		f.target = field_until(&at, "#=");
	int changed = 0, rc = 0;
	for (size_t i = 0; i < RK_ARRAY_SIZE(changes) && !rc && !changed && f.target && !*at; i++)
		rc = changes[i].make(sim, f.call, f.target, &changed, err);
	if (rc == RK_INVALID)
		rk_err_hint(err, "what \"%s\" takes: racksh-fabric(7)", f.call);
	if (rc || changed) {
		free(f.call);
		free(f.target);
		return rc;
	}
	if (*at == '#')
		f.nth = strtol(at + 1, (char **)&at, 10);
	char *word RK_CLEANUP_FREE = *at == '=' && at++ ? field_until(&at, ":") : NULL;
	for (size_t i = RK_SIM_FAIL; word && i < RK_ARRAY_SIZE(mode_words); i++)
		if (strcmp(word, mode_words[i]) == 0)
			mode = i;
	bool aimless = mode == RK_SIM_DROP && (strcmp(f.call, "hv.define") != 0 || *at != ':' || !at[1]);
	if (!mode || aimless || f.nth < 0 || !*f.call) {
		rc = no_fault(text, f.call, err);
		free(f.call);
		free(f.target);
		return rc;
	}
	f.mode = (enum rk_sim_mode)mode;
	f.message = *at == ':' ? rk_xstrdup(at + 1) : NULL;
	if (sim->n_faults == sim->cap_faults) {
		sim->cap_faults = sim->cap_faults ? sim->cap_faults * 2 : 8;
		sim->faults = rk_xreallocarray(sim->faults, sim->cap_faults, sizeof(*sim->faults));
	}
	sim->faults[sim->n_faults++] = f;
	return 0;
}

int rk_sim_fault_add(struct rk_sim *sim, const char *spec, struct rk_err *err)
{
	int rc = 0;

	for (const char *at = spec; !rc && *at; at += *at == ',') {
		char *one RK_CLEANUP_FREE = field_until(&at, ",");
		rc = add_one(sim, one, err);
	}
	return rc;
}

void rk_sim_fault_clear(struct rk_sim *sim)
{
	for (size_t i = 0; i < sim->n_faults; i++) {
		free(sim->faults[i].call);
		free(sim->faults[i].target);
		free(sim->faults[i].message);
	}
	sim->n_faults = 0;
}

long rk_sim_calls(const struct rk_sim *sim)
{
	return sim->calls;
}

/* ---- the twin ---------------------------------------------------------------------------------------------------------------------- */

int rk_sim_open(const struct rk_site *site, const char *state_file, struct rk_clock *clock, struct rk_sim **ret, struct rk_err *err)
{
	struct rk_sim *sim = rk_xcalloc(1, sizeof(*sim));

	pthread_mutex_init(&sim->lock, NULL);
	sim->site = site;
	sim->clock = clock;
	int rc = state_file ? rk_sim_db_open(sim, state_file, err) : 0;
	if (rc) {
		rk_sim_close(sim);
		return rc;
	}
	*ret = sim;
	return 0;
}

int rk_sim_note_source(struct rk_sim *sim, const char *digest, struct rk_err *err)
{
	struct rk_sim_call call = { .sim = sim, .changes = true };

	/* No driver call: it neither counts as one nor can be told to fail. */
	pthread_mutex_lock(&sim->lock);
	int rc = rk_sim_db_begin(sim, true, err);
	if (!rc) {
		rk_sim_set(&call, SOURCE, digest, 0);
		rc = rk_sim_db_end(sim, true, err);
	}
	pthread_mutex_unlock(&sim->lock);
	return rc;
}

void rk_sim_source(struct rk_sim *sim, char ret[65])
{
	pthread_mutex_lock(&sim->lock);
	const char *kept = rk_sim_get_settled(sim, SOURCE);
	snprintf(ret, 65, "%s", kept ? kept : "");
	pthread_mutex_unlock(&sim->lock);
}

void rk_sim_close(struct rk_sim *sim)
{
	if (!sim)
		return;
	rk_sim_db_close(sim);
	rk_sim_forget(sim);
	free(sim->items);
	rk_sim_fault_clear(sim);
	free(sim->faults);
	pthread_mutex_destroy(&sim->lock);
	free(sim);
}

int rk_sim_guid_at(const struct rk_sim *sim, const char *rack, uint64_t guid, bool settled)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("gpu:%s:%016" PRIx64, rack, guid);
	const char *value = settled ? rk_sim_get_settled(sim, key) : rk_sim_get(sim, key);

	return value ? atoi(value) : RK_NONE;
}

int rk_sim_gpu_at(const struct rk_sim *sim, const struct rk_site *site, int gpu, bool settled)
{
	const struct rk_gpu *g = &site->gpus[gpu];
	int at = rk_sim_guid_at(sim, site->racks[site->trays[g->tray].rack].name, g->fabric_guid, settled);

	return at == RK_NONE ? RK_NVL_DEFAULT : at;
}

/* Words that no partition gives: somebody else's doing. Membership of the default partition takes the place of what keys[0] says of it. */
static size_t add_planted(const struct rk_sim *sim, const struct rk_site *site, uint64_t guid, uint16_t *keys, size_t n, size_t max)
{
	int hca = rk_find_hca_guid(site, guid);
	char *key RK_CLEANUP_FREE = hca < 0 ? NULL : rk_xasprintf("keys:%s/%d", site->trays[site->hcas[hca].tray].name, site->hcas[hca].rail);
	const char *at = key ? rk_sim_get(sim, key) : NULL;

	for (; at && *at && n < max; at += *at == ',') {
		uint16_t word = (uint16_t)strtoul(at, (char **)&at, 16);
		keys[(word & 0x7fff) == RK_PKEY_DEFAULT ? 0 : n++] = word;
	}
	return n;
}

size_t rk_sim_port_keys(const struct rk_sim *sim, const struct rk_site *site, int fabric, uint64_t guid, bool settled, uint16_t *keys, size_t max)
{
	char *prefix RK_CLEANUP_FREE = rk_xasprintf("ib:%s:", site->fabrics[fabric].name);
	char member[24];
	size_t first, end, n = 0;

	snprintf(member, sizeof(member), "%016" PRIx64 "=", guid);
	keys[n++] = RK_PKEY_DEFAULT;
	rk_sim_range(sim, prefix, &first, &end);
	for (size_t i = first; i < end && n < max; i++) {
		const char *value = settled ? rk_sim_get_settled(sim, sim->items[i].key) : rk_sim_see(sim, &sim->items[i]);
		const char *at = value ? strstr(value, member) : NULL;
		if (at)
			keys[n++] = (uint16_t)(strtoul(sim->items[i].key + strlen(prefix), NULL, 16) | (at[strlen(member)] == 'f' ? 0x8000u : 0));
	}
	return add_planted(sim, site, guid, keys, n, max);
}
