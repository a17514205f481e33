#include "provision/ib_show.h"

#include <stdlib.h>
#include <string.h>

#include "provision/verify.h"

/* ---- one partition ----------------------------------------------------------------------------------------------------------------- */

static const char *word_of(bool full)
{
	return full ? "full" : "limited";
}

static int partition_of(const struct rk_site *site, int fabric, uint16_t pkey)
{
	for (size_t i = 0; i < site->n_ib_partitions; i++)
		if (site->ib_partitions[i].fabric == fabric && site->ib_partitions[i].pkey == pkey)
			return (int)i;
	return RK_NONE;
}

static const struct rk_ib_member *member_of(const struct rk_ib_live *part, uint64_t guid)
{
	for (size_t i = 0; part && i < part->n_members; i++)
		if (part->members[i].guid == guid)
			return &part->members[i];
	return NULL;
}

static void see_port(const struct rk_ib_port *port, uint16_t pkey, struct rk_ib_show_member *m, struct rk_arena *arena)
{
	bool full = false, limited = false;

	for (size_t i = 0; i < port->n_pkeys; i++) {
		full |= port->pkeys[i] == (pkey | 0x8000u);
		limited |= port->pkeys[i] == pkey;
	}
	if (port->known)
		m->live = full ? "full" : limited ? "limited" : "absent";
	else if (port->down)
		m->live = "down";
	else
		m->why = rk_arena_strdup(arena, port->why);
}

static void add_member(const struct rk_live *live, const struct rk_ib_live *part, int wanted_by, int hca, uint16_t pkey, struct rk_arena *arena,
		       struct rk_ib_show *ret)
{
	const struct rk_site *site = live->site;
	const struct rk_ib_partition *p = wanted_by == RK_NONE ? NULL : &site->ib_partitions[wanted_by];
	const struct rk_ib_service *s = rk_ib_service_of(site, site->hcas[hca].fabric, pkey);
	const struct rk_ib_member *configured = member_of(part, site->hcas[hca].port_guid);
	bool server = s && rk_ib_server(s, site->hcas[hca].port_guid), full = server || (p && p->full);
	bool wanted = server || (p && rk_tray_cluster(site, site->hcas[hca].tray) == p->cluster) || (s && rk_ib_service_has(site, s, hca));
	struct rk_ib_show_member m = { .guid = site->hcas[hca].port_guid, .port = rk_hca_label(site, hca, arena), .wanted = wanted ? word_of(full) : NULL,
				       .configured = configured ? word_of(configured->full) : NULL };

	see_port(&live->ports[hca], pkey, &m, arena);
	if (wanted || configured || rk_streq(m.live, "full") || rk_streq(m.live, "limited"))
		ret->members[ret->n++] = m;
}

/* A server that the inventory does not have. */
static void add_server(const struct rk_live *live, const struct rk_ib_service *s, size_t i, const struct rk_ib_live *part, struct rk_arena *arena, struct rk_ib_show *ret)
{
	const struct rk_ib_member *configured = member_of(part, s->servers[i]);
	struct rk_ib_show_member m = { .guid = s->servers[i], .wanted = word_of(true), .configured = configured ? word_of(configured->full) : NULL };

	see_port(&live->servers[s - live->site->ib_services][i], s->pkey, &m, arena);
	ret->members[ret->n++] = m;
}

static void describe(const struct rk_site *site, const struct rk_ib_live *part, int partition, const struct rk_ib_service *s, struct rk_arena *arena, struct rk_ib_show *ret)
{
	const struct rk_ib_partition *p = partition == RK_NONE ? NULL : &site->ib_partitions[partition];
	const struct rk_cluster *c = p ? &site->clusters[p->cluster] : NULL;

	*ret = (struct rk_ib_show){ .name = rk_arena_strdup(arena, p ? p->name : s ? s->name : part->name), .tenant = c ? site->tenants[c->tenant].name : NULL,
				    .cluster = c ? c->name : NULL, .membership = p ? word_of(p->full) : s ? word_of(false) : NULL,
				    .state = c ? rk_cluster_state_name(c->state) : s ? "service" : "foreign" };
	ret->members = rk_arena_array(arena, site->n_hcas + (s ? s->n_servers : 0) + (part ? part->n_members : 0), sizeof(*ret->members));
}

/* A reservation that follows the key changes with the partition. */
static void ask_sharp(struct rk_world *world, int fabric, uint16_t pkey, struct rk_arena *arena, struct rk_ib_show *ret)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	const char *names;

	if (!world->ib->ops->sharp)
		ret->sharp_why = "the subnet manager does not tell of SHARP";
	else if (world->ib->ops->sharp(world->ib, fabric, pkey, arena, &names, &why) == 0)
		ret->sharp = *names ? names : "none";
	else
		ret->sharp_why = rk_arena_strdup(arena, why.message);
}

int rk_ib_show(struct rk_world *world, int fabric, uint16_t pkey, struct rk_arena *arena, struct rk_ib_show *ret, struct rk_err *err)
{
	struct rk_live *live RK_CLEANUP_LIVE = NULL;
	const struct rk_site *site = world->site;
	bool *fabrics = rk_arena_array(arena, site->n_fabrics, sizeof(bool)), *hcas = rk_arena_array(arena, site->n_hcas, sizeof(bool));
	const struct rk_live_scope scope = { .fabrics = fabrics, .hcas = hcas };
	int partition = partition_of(site, fabric, pkey);

	fabrics[fabric] = true;
	for (size_t h = 0; h < site->n_hcas; h++)
		hcas[h] = site->hcas[h].fabric == fabric;
	int rc = rk_live_read(world, &scope, &live, err);
	if (rc)
		return rc;
	const struct rk_ib_live *part = rk_live_ib_part(live, fabric, pkey);
	const struct rk_ib_service *s = rk_ib_service_of(site, fabric, pkey);
	if (partition == RK_NONE && !part && !s)
		return live->ib[fabric].read ? rk_err_set(err, RK_NOT_FOUND, "no InfiniBand partition 0x%04x in fabric \"%s\"", pkey, site->fabrics[fabric].name) :
					       rk_err_set(err, RK_UNREACHABLE, "%s", live->ib[fabric].why);
	describe(site, part, partition, s, arena, ret);
	ask_sharp(world, fabric, pkey, arena, ret);
	for (size_t h = 0; h < site->n_hcas; h++)
		if (hcas[h])
			add_member(live, part, partition, (int)h, pkey, arena, ret);
	for (size_t i = 0; s && i < s->n_servers; i++)
		if (rk_find_hca_guid(site, s->servers[i]) < 0)
			add_server(live, s, i, part, arena, ret);
	for (size_t i = 0; part && i < part->n_members; i++)
		if (rk_find_hca_guid(site, part->members[i].guid) < 0 && !(s && rk_ib_server(s, part->members[i].guid)))
			ret->members[ret->n++] = (struct rk_ib_show_member){ .guid = part->members[i].guid, .configured = word_of(part->members[i].full),
									     .why = "not in the inventory" };
	return 0;
}

/* ---- counters ---------------------------------------------------------------------------------------------------------------------- */

struct counted {
	uint64_t *guids;
	int *hcas;
	struct rk_ib_reading *before, *after;
	size_t n;
};

static int read_counters(struct rk_world *world, int fabric, const struct counted *c, struct rk_ib_reading *into, struct rk_arena *arena, struct rk_err *err)
{
	for (size_t i = 0; i < c->n; i++)
		into[i] = (struct rk_ib_reading){ .guid = c->guids[i] };
	return c->n ? world->ib->ops->counters(world->ib, fabric, c->guids, c->n, arena, into, err) : 0;
}

static int choose_ports(struct rk_world *world, const char *selection, const char *except, struct rk_arena *arena, struct counted *per_fabric, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	int *trays, rc;
	size_t n;

	for (size_t f = 0; f < site->n_fabrics; f++)
		per_fabric[f] = (struct counted){ rk_arena_array(arena, site->n_hcas, sizeof(uint64_t)), rk_arena_array(arena, site->n_hcas, sizeof(int)),
						  rk_arena_array(arena, site->n_hcas, sizeof(struct rk_ib_reading)),
						  rk_arena_array(arena, site->n_hcas, sizeof(struct rk_ib_reading)), 0 };
	if ((rc = rk_select_trays(site, selection ? selection : "@all", except, arena, &trays, &n, err)) != 0)
		return rc;
	for (size_t i = 0; i < n; i++)
		for (int h = site->trays[trays[i]].first_hca; h < site->trays[trays[i]].first_hca + site->trays[trays[i]].n_hcas; h++) {
			struct counted *c = site->hcas[h].fabric < 0 || !site->hcas[h].port_guid ? NULL : &per_fabric[site->hcas[h].fabric];
			if (!c)
				continue;
			c->guids[c->n] = site->hcas[h].port_guid;
			c->hcas[c->n++] = h;
		}
	return 0;
}

static int verdict_of(const struct rk_ib_port_change *ports, size_t n, struct rk_err *err)
{
	size_t failed = 0, unknown = 0;

	for (size_t i = 0; i < n; i++) {
		failed += rk_streq(ports[i].change.verdict, "fail");
		unknown += rk_streq(ports[i].change.verdict, "unknown");
	}
	if (failed)
		return rk_err_set(err, RK_UNHEALTHY, "%zu of %zu ports have errors", failed, n);
	return unknown ? rk_err_set(err, RK_UNREACHABLE, "%zu of %zu ports are not known", unknown, n) : 0;
}

static int pause_ms(struct rk_world *world, int ms, struct rk_err *err)
{
	for (int slept = 0; slept < ms; slept += 100) {
		if (world->cancel && *world->cancel)
			return rk_err_set(err, RK_CANCELLED, "cancelled between the two readings");
		rk_clock_sleep_ms(world->env.clock, ms - slept < 100 ? ms - slept : 100);
	}
	return 0;
}

int rk_ib_counters(struct rk_world *world, const char *selection, const char *except, int interval_ms, const struct rk_ib_thresholds *thresholds,
		   struct rk_arena *arena, struct rk_ib_port_change **ret, size_t *ret_n, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	struct counted *fabrics = rk_arena_array(arena, site->n_fabrics, sizeof(*fabrics));
	int64_t *began = rk_arena_array(arena, site->n_fabrics, sizeof(*began));
	int rc = rk_world_drivers(world, err);

	*ret_n = 0;
	if (!rc)
		rc = choose_ports(world, selection, except, arena, fabrics, err);
	for (size_t f = 0; !rc && f < site->n_fabrics; f++) {
		began[f] = rk_clock_ms(world->env.clock);
		rc = read_counters(world, (int)f, &fabrics[f], fabrics[f].before, arena, err);
	}
	if (!rc)
		rc = pause_ms(world, interval_ms, err);
	if (rc)
		return rc;
	*ret = rk_arena_array(arena, site->n_hcas, sizeof(**ret));
	for (size_t f = 0; f < site->n_fabrics; f++) {
		double seconds = (double)(rk_clock_ms(world->env.clock) - began[f]) / 1000;
		if ((rc = read_counters(world, (int)f, &fabrics[f], fabrics[f].after, arena, err)) != 0)
			return rc;
		for (size_t i = 0; i < fabrics[f].n; i++) {
			struct rk_ib_port_change *port = &(*ret)[(*ret_n)++];
			*port = (struct rk_ib_port_change){ .port = rk_hca_label(site, fabrics[f].hcas[i], arena), .guid = fabrics[f].guids[i] };
			rk_ib_compare(&fabrics[f].before[i], &fabrics[f].after[i], seconds, thresholds, arena, &port->change);
		}
	}
	return verdict_of(*ret, *ret_n, err);
}
