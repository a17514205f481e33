#include <string.h>

#include "provision/cluster_impl.h"
#include "provision/health/health.h"

/* A misspelt name would keep nothing apart. It is enough that the later one of two names the other. */
static int check_apart(const struct rk_site *site, const struct rk_spec *spec, struct rk_err *err)
{
	for (size_t i = 0; i < spec->placement.n_apart; i++)
		if (rk_find_cluster(site, spec->placement.apart[i]) < 0) {
			rk_err_set(err, RK_NOT_FOUND, "no cluster \"%s\" to be kept apart from", spec->placement.apart[i]);
			rk_err_hint(err, "racksh cluster list; antiAffinity counts both ways, so the later one of two names the other");
			return RK_NOT_FOUND;
		}
	return 0;
}

int rk_cluster_name_free(const struct rk_site *site, const char *name, struct rk_err *err)
{
	if (rk_find_ib_service(site, name) < 0)
		return 0;
	return rk_err_set(err, RK_CONFLICT, "there is a service \"%s\", and subnet managers call its partition so", name);
}

/* The one that the finished cluster is judged by: a mistake in it is found before anything is built. */
static int check_profile(const struct rk_spec *spec, struct rk_err *err)
{
	struct rk_hprofile *profile = NULL;
	int rc = spec->validation.profile ? rk_hprofile_load(spec->validation.profile, &profile, err) : 0;

	rk_hprofile_free(profile);
	return rc ? rk_err_while(err, "validation of cluster \"%s\"", spec->name) : 0;
}

static int check_spec(const struct rk_site *site, const struct rk_spec *spec, const struct rk_size **ret_size, struct rk_err *err)
{
	int rc = rk_cluster_name_free(site, spec->name, err);

	if (rc)
		return rc;
	*ret_size = rk_size_find(site, spec->size);
	if (!*ret_size) {
		rk_err_set(err, RK_NOT_FOUND, "no size \"%s\"", spec->size);
		rk_err_hint(err, "racksh size list");
		return RK_NOT_FOUND;
	}
	if (rk_find_image(site, spec->image) < 0) {
		rk_err_set(err, RK_NOT_FOUND, "no image \"%s\"", spec->image);
		rk_err_hint(err, "racksh image list");
		return RK_NOT_FOUND;
	}
	rc = check_profile(spec, err);
	return rc ? rc : check_apart(site, spec, err);
}

/* Ids for a new cluster: one partition per rack it touches, one PKey. */
static int choose_ids(const struct rk_site *site, const struct rk_spec *spec, const struct rk_placement *p, struct rk_layout *l, struct rk_err *err)
{
	int *ids = rk_arena_array(l->arena, site->n_racks, sizeof(*ids)), rc = 0;
	const char **names = rk_arena_array(l->arena, site->n_racks, sizeof(*names));

	for (size_t i = 0; i < p->n_trays && !rc; i++) {
		int rack = site->trays[p->trays[i]].rack;
		if (ids[rack] || !site->profiles[site->racks[rack].profile].switch_trays)
			continue;
		rc = rk_store_free_nvl_id(site, rack, &ids[rack], err);
		names[rack] = rk_free_nvl_name(site, rack, spec->name, l->arena);
	}
	l->nvl_ids = ids;
	l->nvl_names = names;
	l->fabric = site->n_fabrics ? site->hcas[site->trays[p->trays[0]].first_hca].fabric : RK_NONE;
	l->pkey = (uint16_t)spec->infiniband.pkey;
	l->tenant = rk_find_tenant(site, spec->tenant);
	if (!rc && l->fabric >= 0 && !l->pkey)
		rc = rk_store_free_pkey(site, l->fabric, &l->pkey, err);
	return rc;
}

/* Trays taken as lost are marked offline in a copy of the trays. */
static int lose(struct rk_world *world, const char *what_if, struct rk_arena *arena, struct rk_site *copy, struct rk_err *err)
{
	const char *selection = rk_starts_with(what_if, "lose=") ? what_if + strlen("lose=") : NULL;
	int *lost;
	size_t n;

	if (!selection) {
		rk_err_set(err, RK_INVALID, "unknown supposition \"%s\"", what_if);
		rk_err_hint(err, "--what-if lose=SEL, e.g. lose=r03 or lose=r01-t[01-04]");
		return RK_INVALID;
	}
	int rc = rk_select_racks(world->site, selection, NULL, arena, &lost, &n, err);
	bool racks = rc == 0;

	if (rc == RK_NOT_FOUND) {
		rk_err_clear(err);
		rc = rk_select_trays(world->site, selection, NULL, arena, &lost, &n, err);
		if (rc == RK_NOT_FOUND)
			rk_err_hint(err, "racks or trays can be lost: racksh rack list, racksh tray list");
	}
	if (rc)
		return rc;
	*copy = *world->site;
	copy->trays = rk_arena_array(arena, copy->n_trays, sizeof(*copy->trays));
	memcpy(copy->trays, world->site->trays, copy->n_trays * sizeof(*copy->trays));
	for (size_t i = 0; i < n; i++) {
		int first = racks ? copy->racks[lost[i]].first_tray : lost[i];
		int count = racks ? copy->racks[lost[i]].n_trays : 1;
		for (int t = first; t < first + count; t++)
			copy->trays[t].offline = "taken as lost";
	}
	return 0;
}

static void layout_of_spec(struct rk_layout *l, struct rk_world *world, const struct rk_spec *spec, const struct rk_placement *p, struct rk_arena *arena)
{
	*l = (struct rk_layout){
		.site = world->site,
		.arena = arena,
		.cluster = spec->name,
		.members = rk_name_members(world, spec->name, 1, p->trays, p->n_trays, arena),
		.n = p->n_trays,
		.resiliency = spec->nvlink.resiliency,
		.multicast = spec->nvlink.multicast_groups,
		.full = spec->infiniband.full,
	};
}

/* Those that have an address would fit. */
static void as_many_as_addresses(const struct rk_layout *l, const struct rk_spec *spec, struct rk_placement *p)
{
	size_t n = 0;

	while (l->members[n].address)
		n++;
	if (!n)
		return;
	int most = (int)(n + l->n_rest);
	p->changes = rk_arena_array(l->arena, p->n_changes = 1, sizeof(*p->changes));
	p->changes[0] = (struct rk_place_change){ "count", most, NULL, rk_place_at_most(spec, l->n_rest > 0, most, l->arena) };
	p->suggestion = rk_arena_printf(l->arena, "%s; or %s", p->changes[0].text, p->suggestion);
}

void rk_placement_addressed(const struct rk_layout *l, const struct rk_spec *spec, struct rk_cluster_plan *cp)
{
	RK_CLEANUP_ERR struct rk_err why = RK_ERR_INIT;
	struct rk_placement *p = &cp->placement;
	const char *address;

	if (!l->n || l->members[l->n - 1].address)
		return;
	rk_plan_free(cp->plan);
	cp->plan = NULL;
	p->feasible = false;
	p->n_trays = 0;
	for (size_t i = 0; i < p->n_reasons; i++)
		if (rk_streq(p->reasons[i].verdict, "chosen"))
			p->reasons[i].verdict = "possible";
	/* Some may be left, but held by operations. */
	bool none = rk_store_free_address(l->site, l->n - 1, l->arena, &address, &why) != 0;
	p->limit = none ? rk_arena_strdup(l->arena, why.message) : "operations hold the free VM addresses";
	p->suggestion = none && why.hint ? rk_arena_strdup(l->arena, why.hint) : "racksh op list";
	as_many_as_addresses(l, spec, p);
}

static struct rk_plan *plan_create(const struct rk_world *world, const struct rk_layout *l, const struct rk_spec *spec)
{
	struct rk_plan *plan = rk_plan_new(rk_arena_printf(l->arena, "cluster create %s", l->cluster));
	int *last = rk_arena_array(l->arena, l->n, sizeof(int));

	rk_add_build(plan, l, last);
	rk_add_gate(plan, l, spec, last, l->n);
	if (world->confirm_ms)
		rk_plan_add_confirm(plan, world->confirm_ms);
	return plan;
}

int rk_cluster_plan_layout(struct rk_world *world, const struct rk_spec *spec, const char *what_if, struct rk_arena *arena, struct rk_cluster_plan *ret,
			   struct rk_layout *l, struct rk_err *err)
{
	const struct rk_size *size;
	struct rk_site copy;
	const struct rk_site *site = world->site;
	int rc = check_spec(site, spec, &size, err);

	ret->plan = NULL;
	if (!rc && what_if)
		rc = lose(world, what_if, arena, &copy, err);
	if (what_if)
		site = &copy;
	if (!rc)
		rc = rk_place(site, spec, size, NULL, 0, arena, &ret->placement, err);
	if (rc || !ret->placement.feasible)
		return rc;
	layout_of_spec(l, world, spec, &ret->placement, arena);
	rc = choose_ids(world->site, spec, &ret->placement, l, err);
	if (rc)
		return rc;
	ret->plan = plan_create(world, l, spec);
	rk_placement_addressed(l, spec, ret);
	return 0;
}

int rk_cluster_plan(struct rk_world *world, const struct rk_spec *spec, const char *what_if, struct rk_arena *arena, struct rk_cluster_plan *ret,
		    struct rk_err *err)
{
	struct rk_layout l;

	return rk_cluster_plan_layout(world, spec, what_if, arena, ret, &l, err);
}

int rk_cluster_no_room(const struct rk_world *world, const struct rk_placement *p, const struct rk_spec *spec, struct rk_err *err)
{
	if (p->limit)
		rk_err_set(err, RK_NO_CAPACITY, "%s", p->limit);
	else
		rk_err_set(err, RK_NO_CAPACITY, "%d%s VM%s of size %s in segments of %d cannot be placed", p->count, p->count < spec->count ? " more" : "",
			   p->count == 1 ? "" : "s", spec->size, p->segment);
	rk_err_hint(err, "%s", p->suggestion);
	for (size_t i = 0; i < p->n_reasons; i++)
		rk_err_detail(err, "%s: %s", world->site->racks[p->reasons[i].rack].name, p->reasons[i].why);
	return RK_NO_CAPACITY;
}

int rk_placement_readable(const struct rk_placement *p, struct rk_err *err)
{
	if (!p->warning)
		return 0;
	rk_err_set(err, RK_INVALID, "%s on the trays chosen", p->warning);
	rk_err_hint(err, "racksh site discover, or write them into the site file");
	return RK_INVALID;
}
