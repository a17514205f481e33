#include "provision/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rk_checks_verdict(const struct rk_checks *c, const char *what, const char *missing, struct rk_err *err)
{
	size_t failed = 0, unknown = 0;

	if (!c->n) {
		rk_err_set(err, RK_UNREACHABLE, "the store knows of %s: there is nothing to verify", missing);
		rk_err_hint(err, "racksh site import FILE, or -s STORE");
		return RK_UNREACHABLE;
	}
	for (size_t i = 0; i < c->n; i++) {
		failed += rk_streq(c->items[i].verdict, "fail");
		unknown += rk_streq(c->items[i].verdict, "unknown");
	}
	if (failed)
		return rk_err_set(err, RK_UNHEALTHY, "%zu of %zu %s are not as the store says", failed, c->n, what);
	if (unknown)
		return rk_err_set(err, RK_UNREACHABLE, "%zu of %zu %s could not be read", unknown, c->n, what);
	return 0;
}

void rk_checks_hand_over(struct rk_checks *c, struct rk_arena *arena, struct rk_plane_check **ret, size_t *ret_n)
{
	*ret = rk_arena_array(arena, c->n, sizeof(**ret));
	if (c->n)
		memcpy(*ret, c->items, c->n * sizeof(**ret));
	*ret_n = c->n;
	free(c->items);
}

/* "missing r01-t01/[0-3]; also there r01-t05/0; not read r01-t02/0: no answer" */
static const char *say(struct rk_arena *arena, const struct rk_member_diff *d, const char *wrong)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	const struct {
		const char *word;
		const struct rk_names *names;
		const char *why;
	} rows[] = { { "missing", &d->missing, NULL }, { "also there", &d->extra, NULL }, { wrong, &d->wrong, NULL }, { "without a link", &d->down, NULL }, { "unknown", &d->unknown, d->why } };

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (rows[i].names->n)
			rk_str_addf(&out, "%s%s %s%s%s", out.len ? "; " : "", rows[i].word, rk_nodeset_fold(arena, rows[i].names->items, rows[i].names->n),
				    rows[i].why ? ": " : "", rows[i].why ? rows[i].why : "");
	return out.len ? rk_arena_strdup(arena, rk_str_text(&out)) : NULL;
}

static const char *judge(const struct rk_member_diff *d)
{
	if (d->missing.n || d->extra.n || d->wrong.n || d->down.n)
		return "fail";
	return d->unknown.n ? "unknown" : "pass";
}

void rk_check_members(struct rk_checks *c, const struct rk_live *live, const char *plane, const char *object, int cluster, const char *thing, struct rk_arena *arena,
		      struct rk_member_diff *d)
{
	const struct rk_cluster *cl = cluster == RK_NONE ? NULL : &live->site->clusters[cluster];

	*rk_vec_push(c) = (struct rk_plane_check){
		.plane = plane,
		.object = object,
		.tenant = cl ? live->site->tenants[cl->tenant].name : NULL,
		.cluster = cl ? cl->name : NULL,
		.verdict = judge(d),
		.wanted = rk_arena_printf(arena, "%zu %s", d->wanted, thing),
		.live = d->unknown.n ? NULL : rk_arena_printf(arena, "%zu %s", d->there + d->extra.n, thing),
		.message = say(arena, d, "with other keys too"),
		.partition = RK_NONE,
	};
	rk_member_diff_clear(d);
}

void rk_check_add(struct rk_checks *c, const char *plane, const char *object, const char *verdict, const char *wanted, const char *live, const char *message)
{
	*rk_vec_push(c) = (struct rk_plane_check){ .plane = plane, .object = object, .verdict = verdict, .wanted = wanted, .live = live, .message = message,
						     .partition = RK_NONE };
}

bool *rk_flags_all(struct rk_arena *arena, size_t n)
{
	bool *flags = rk_arena_array(arena, n, sizeof(*flags));

	memset(flags, 1, n);
	return flags;
}

/* ---- InfiniBand ------------------------------------------------------------------------------------------------------------------ */

/* Somebody else's partition that takes in a tenant's port, and not as a limited member as a shared service does. */
static const char *tenant_port_in(const struct rk_live *live, const struct rk_ib_live *part, struct rk_arena *arena)
{
	for (size_t i = 0; i < part->n_members; i++) {
		int hca = rk_find_hca_guid(live->site, part->members[i].guid);
		if (hca >= 0 && part->members[i].full && rk_tray_cluster(live->site, live->site->hcas[hca].tray) != RK_NONE)
			return rk_hca_label(live->site, hca, arena);
	}
	return NULL;
}

static void check_strangers(struct rk_checks *c, const struct rk_live *live, int fabric, struct rk_arena *arena)
{
	const struct rk_live_ib *f = &live->ib[fabric];

	for (size_t i = 0; i < f->n; i++) {
		const struct rk_ib_live *part = &f->parts[i];
		if (rk_ib_in_store(live->site, fabric, part->pkey))
			continue;
		const char *port = tenant_port_in(live, part, arena);
		if (part->ours || port)
			rk_check_add(c, "infiniband", rk_arena_printf(arena, "%s/0x%04x", live->site->fabrics[fabric].name, part->pkey), "fail",
				  part->ours ? "absent" : "no port of a tenant", rk_arena_printf(arena, "%zu ports", part->n_members),
				  port ? rk_arena_printf(arena, "the store knows of no such partition, and %s of a tenant is in it", port)
				       : "the store knows of no such partition");
	}
}

static void check_fabric(struct rk_checks *c, const struct rk_live *live, int fabric, struct rk_arena *arena)
{
	const struct rk_site *site = live->site;
	const char *name = site->fabrics[fabric].name;
	struct rk_member_diff d;

	if (live->ib[fabric].read)
		rk_check_add(c, "infiniband", name, "pass", "configuration readable", "configuration readable", NULL);
	else
		rk_check_add(c, "infiniband", name, "unknown", "configuration readable", NULL, rk_arena_strdup(arena, live->ib[fabric].why));
	for (size_t i = 0; i < site->n_ib_partitions; i++)
		if (site->ib_partitions[i].fabric == fabric) {
			const struct rk_ib_partition *p = &site->ib_partitions[i];
			rk_live_ib_diff(live, (int)i, arena, &d);
			rk_check_members(c, live, "infiniband", rk_arena_printf(arena, "%s/0x%04x", name, p->pkey), p->cluster,
					 p->full ? "full members" : "limited members", arena, &d);
		}
	for (size_t i = 0; i < site->n_ib_services; i++)
		if (site->ib_services[i].fabric == fabric) {
			const struct rk_ib_service *s = &site->ib_services[i];
			rk_live_service_diff(live, (int)i, arena, &d);
			rk_check_members(c, live, "infiniband", rk_arena_printf(arena, "%s/0x%04x", name, s->pkey), RK_NONE,
					 rk_arena_printf(arena, "members of service %s", s->name), arena, &d);
		}
	check_strangers(c, live, fabric, arena);
}

static void check_infiniband(struct rk_checks *c, const struct rk_live *live, struct rk_arena *arena)
{
	for (size_t f = 0; f < live->site->n_fabrics; f++)
		check_fabric(c, live, (int)f, arena);
}

int rk_ib_verify(struct rk_world *world, struct rk_arena *arena, struct rk_plane_check **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_live *live RK_CLEANUP_LIVE = NULL;
	struct rk_checks c = { NULL, 0, 0 };
	const struct rk_live_scope scope = { .fabrics = rk_flags_all(arena, world->site->n_fabrics), .hcas = rk_flags_all(arena, world->site->n_hcas) };
	int rc = rk_live_read(world, &scope, &live, err);

	*ret_n = 0;
	if (rc)
		return rc;
	check_infiniband(&c, live, arena);
	rc = rk_checks_verdict(&c, "InfiniBand checks", "no subnet manager", err);
	rk_checks_hand_over(&c, arena, ret, ret_n);
	return rc;
}
