#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/topology.h"
#include "provision/ib_counters.h"
#include "provision/sim_impl.h"

/* The subnet managers of the twin. */

struct sim_ib {
	struct rk_ib ib;
	struct rk_sim *sim;
};

static struct rk_sim *of_ib(struct rk_ib *ib)
{
	return ((struct sim_ib *)ib)->sim;
}

static const char *fabric_name(const struct rk_ib *ib, int fabric)
{
	return ib->site->fabrics[fabric].name;
}

static void read_members(const char *text, struct rk_arena *arena, struct rk_ib_live *part)
{
	size_t n = 1;

	for (const char *c = text; *c; c++)
		n += *c == ',';
	part->members = rk_arena_array(arena, n, sizeof(*part->members));
	for (const char *at = text; *at;) {
		struct rk_ib_member *m = &part->members[part->n_members++];
		m->guid = strtoull(at, (char **)&at, 16);
		m->full = at[0] == '=' && at[1] == 'f';
		at += strcspn(at, ",");
		at += *at == ',';
	}
}

static int ib_list(struct rk_ib *ib, int fabric, struct rk_arena *arena, struct rk_ib_live **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_sim *sim = of_ib(ib);
	const char *prefix = rk_arena_printf(arena, "ib:%s:", fabric_name(ib, fabric));
	struct rk_sim_call call;
	size_t first, end, n = 0;
	int rc = rk_sim_enter(sim, &call, "ib.list", fabric_name(ib, fabric), false, err);

	if (rc)
		return rc;
	rk_sim_range(sim, prefix, &first, &end);
	struct rk_ib_live *parts = rk_arena_array(arena, end - first + 1, sizeof(*parts));
	for (size_t i = first; i < end; i++) {
		const char *value = rk_sim_get_settled(sim, sim->items[i].key), *tab = value ? strchr(value, '\t') : NULL;
		if (!tab)
			continue;
		parts[n] = (struct rk_ib_live){ .pkey = (uint16_t)strtoul(sim->items[i].key + strlen(prefix), NULL, 16),
						.name = rk_arena_strndup(arena, value, (size_t)(tab - value)), .ours = true };
		read_members(tab + 1, arena, &parts[n++]);
	}
	*ret = parts;
	*ret_n = n;
	return rk_sim_leave(&call, 0, err);
}

static int cmp_member(const void *a, const void *b)
{
	uint64_t x = ((const struct rk_ib_member *)a)->guid, y = ((const struct rk_ib_member *)b)->guid;

	return (x > y) - (x < y);
}

static char *members_text(const char *name, const struct rk_ib_member *members, size_t n)
{
	struct rk_ib_member *sorted RK_CLEANUP_FREE = rk_xcalloc(n + 1, sizeof(*sorted));
	struct rk_str out = RK_STR_INIT;

	if (n)
		memcpy(sorted, members, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), cmp_member);
	rk_str_addf(&out, "%s\t", name);
	for (size_t i = 0; i < n; i++)
		rk_str_addf(&out, "%s%016" PRIx64 "=%c", i ? "," : "", sorted[i].guid, sorted[i].full ? 'f' : 'l');
	return rk_str_steal(&out);
}

static int ib_set(struct rk_ib *ib, int fabric, const struct rk_ib_wanted *w, struct rk_err *err)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("ib:%s:%04x", fabric_name(ib, fabric), w->pkey), *value RK_CLEANUP_FREE = members_text(w->name, w->members, w->n);
	struct rk_sim_call call;
	int rc = rk_sim_enter(of_ib(ib), &call, "ib.set", fabric_name(ib, fabric), true, err);

	if (rc)
		return rc;
	if (w->pkey < 1 || w->pkey >= RK_PKEY_DEFAULT)
		rc = rk_err_set(err, RK_INVALID, "key 0x%04x is not one that a tenant can have", w->pkey);
	else
		rk_sim_set(&call, key, w->n ? value : NULL, RK_SIM_IB_MS);
	return rk_sim_leave(&call, rc, err);
}

/* A port that the inventory does not have (a server) is in the fabric as soon as somebody gives it a key. */
static bool foreign_port(const struct rk_sim *sim, const struct rk_site *site, int fabric, uint64_t guid)
{
	uint16_t keys[64];

	return rk_find_hca_guid(site, guid) < 0 && rk_sim_port_keys(sim, site, fabric, guid, true, keys, RK_ARRAY_SIZE(keys)) > 1;
}

bool rk_sim_link_up(const struct rk_sim *sim, const struct rk_site *site, uint64_t guid)
{
	int hca = rk_sim_port_place(sim, site, guid);
	char *key RK_CLEANUP_FREE = hca < 0 ? NULL : rk_xasprintf("link:%s/%d", site->trays[site->hcas[hca].tray].name, site->hcas[hca].rail);

	return key && !rk_sim_get(sim, key);
}

static int ib_tables(struct rk_ib *ib, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err)
{
	struct rk_sim *sim = of_ib(ib);
	struct rk_sim_call call;
	uint16_t keys[64];
	int rc = rk_sim_enter(sim, &call, "ib.tables", fabric_name(ib, fabric), false, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		bool up = rk_sim_link_up(sim, ib->site, guids[i]) || foreign_port(sim, ib->site, fabric, guids[i]);
		ret[i] = (struct rk_ib_port){ .guid = guids[i], .known = up, .down = !up, .why = up ? NULL : "the port is not in the fabric: its link is down" };
		if (!up)
			continue;
		ret[i].n_pkeys = rk_sim_port_keys(sim, ib->site, fabric, guids[i], false, keys, RK_ARRAY_SIZE(keys));
		ret[i].pkeys = rk_arena_array(arena, ret[i].n_pkeys, sizeof(*ret[i].pkeys));
		memcpy(ret[i].pkeys, keys, ret[i].n_pkeys * sizeof(*keys));
	}
	return rk_sim_leave(&call, 0, err);
}

static int ib_discover(struct rk_ib *ib, int fabric, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_sim_call call;
	int rc = rk_sim_enter(of_ib(ib), &call, "ib.discover", fabric_name(ib, fabric), false, err);

	if (rc)
		return rc;
	rk_sim_wired(call.sim, ib->site, fabric, &text);
	*ret = rk_arena_strdup(arena, rk_str_text(&text));
	return rk_sim_leave(&call, 0, err);
}

/* The SA gives a path when the ports share a key that at least one holds as a full member; it knows no port without a link. */
static enum rk_ib_seen path_seen(const struct rk_sim *sim, const struct rk_site *site, int fabric, struct rk_ib_path *path)
{
	uint16_t a[64], b[64];

	if (!rk_sim_link_up(sim, site, path->from) || !rk_sim_link_up(sim, site, path->to)) {
		path->why = "a port is not in the fabric";
		return RK_PATH_UNKNOWN;
	}
	size_t na = rk_sim_port_keys(sim, site, fabric, path->from, false, a, RK_ARRAY_SIZE(a));
	size_t nb = rk_sim_port_keys(sim, site, fabric, path->to, false, b, RK_ARRAY_SIZE(b));
	for (size_t i = 0; i < na; i++)
		for (size_t k = 0; k < nb; k++)
			if ((a[i] & 0x7fff) == (b[k] & 0x7fff) && ((a[i] | b[k]) & 0x8000))
				return RK_PATH_FOUND;
	return RK_PATH_NONE;
}

static int ib_paths(struct rk_ib *ib, int fabric, struct rk_ib_path *paths, size_t n, struct rk_arena *arena, struct rk_err *err)
{
	struct rk_sim_call call;
	int rc = rk_sim_enter(of_ib(ib), &call, "ib.path", fabric_name(ib, fabric), false, err);

	(void)arena;
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		paths[i].seen = path_seen(call.sim, ib->site, fabric, &paths[i]);
	return rk_sim_leave(&call, 0, err);
}

static long planted(const struct rk_sim *sim, const char *what, const struct rk_site *site, int hca)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("%s:%s/%d", what, site->trays[site->hcas[hca].tray].name, site->hcas[hca].rail);
	const char *value = rk_sim_get(sim, key);

	return value ? strtol(value, NULL, 10) : 0;
}

/* Traffic of a quiet port, and what faults make it count, as time goes by. */
static void count(const struct rk_sim *sim, const struct rk_site *site, int hca, struct rk_ib_reading *ret)
{
	const struct {
		const char *counter;
		uint64_t per_minute;
	} rows[] = { { "PortXmitData", 60000000 }, { "PortRcvData", 60000000 }, { "PortXmitPkts", 600000 }, { "PortRcvPkts", 600000 },
		     { "SymbolErrorCounter", (uint64_t)planted(sim, "errors", site, hca) * 60 },
		     { "LinkDownedCounter", (uint64_t)planted(sim, "flaps", site, hca) },
		     { "PortXmitWait", (uint64_t)planted(sim, "wait", site, hca) * 60 } };
	/* From a day that is past for every twin, so that nothing runs out of its 64 bits. */
	uint64_t ms = (uint64_t)rk_clock_unix_ms(sim->clock) - UINT64_C(1700000000000);

	for (size_t c = 0; c < RK_IB_COUNTERS; c++)
		ret->have[c] = true;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		ret->value[rk_ib_counter_find(rows[i].counter, strlen(rows[i].counter))] = ms / 1000 * rows[i].per_minute / 60 + ms % 1000 * rows[i].per_minute / 60000;
	ret->known = true;
}

static int ib_counters(struct rk_ib *ib, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_reading *ret, struct rk_err *err)
{
	struct rk_sim_call call;
	int rc = rk_sim_enter(of_ib(ib), &call, "ib.counters", fabric_name(ib, fabric), false, err);

	(void)arena;
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		ret[i] = (struct rk_ib_reading){ .guid = guids[i] };
		if (rk_sim_link_up(call.sim, ib->site, guids[i])) {
			count(call.sim, ib->site, rk_sim_port_place(call.sim, ib->site, guids[i]), &ret[i]);
		} else {
			ret[i].down = true;
			ret[i].why = "the port is not in the fabric: its link is down";
		}
	}
	return rk_sim_leave(&call, 0, err);
}

static void ib_free(struct rk_ib *ib)
{
	free(ib);
}

static const struct rk_ib_ops ib_ops = { ib_list, ib_set, ib_tables, ib_discover, ib_paths, ib_counters, NULL, ib_free };

int rk_sim_ib(struct rk_sim *sim, const struct rk_driver_env *env, struct rk_ib **ret, struct rk_err *err)
{
	struct sim_ib *ib = rk_xcalloc(1, sizeof(*ib));

	(void)err;
	ib->ib = (struct rk_ib){ &ib_ops, env->site };
	ib->sim = sim;
	*ret = &ib->ib;
	return 0;
}
