/* NVLink partitions through NMX-M (NetQ NVLink). Changes are operations that are accepted first and done later; PUT replaces the whole member list,
 * so a list is only sent when the one before it was seen; partition ids are given by the network, so that a partition of ours is known by its name. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "provision/drivers/nmxm_impl.h"
#include "provision/drivers/session.h"

enum { POLL_MS = 1000, SEEN_MS = 30000, OPEN_MS = 10000, BUSY_TRIES = 5, BUSY_MS = 5000 };

struct view {
	struct rk_nmxm_gpus gpus;
	struct rk_nmxm_partition *parts;  /* of the rack's domain only */
	size_t n;
	const char *domain;
};
#define CLEANUP_VIEW __attribute__((cleanup(view_clear)))

static void view_clear(struct view *view)
{
	rk_nmxm_gpus_clear(&view->gpus);
}

/* --- reading ------------------------------------------------------------------------------------------------------------------- */

/* NMX-M's domain of the rack: that of any of its GPUs. */
static int find_domain(const struct rk_nvl_driver *nmxm, int rack, const struct rk_nmxm_gpus *gpus, const char **ret, struct rk_err *err)
{
	const struct rk_site *site = nmxm->nvl.site;
	size_t at;

	for (size_t g = 0; g < site->n_gpus; g++)
		if (site->trays[site->gpus[g].tray].rack == rack && site->gpus[g].fabric_guid && rk_map_get_u64(gpus->by_guid, site->gpus[g].fabric_guid, &at) &&
		    gpus->items[at].domain) {
			*ret = gpus->items[at].domain;
			return 0;
		}
	rk_err_set(err, RK_UNREACHABLE, "NMX-M knows no GPU of this rack");
	rk_err_hint(err, "are the fabric GUIDs of its GPUs in the site file, and its domain registered with this NMX-M?");
	return RK_UNREACHABLE;
}

/* Names are unique per NMX-M, which may have many domains: those that we give end with "@RACK". */
static char *full_name(const struct rk_nvl_driver *nmxm, int rack, const char *name)
{
	return rk_xasprintf("%s@%s", name, rk_nvl_rack(nmxm, rack)->name);
}

static bool of_rack(const struct rk_nvl_driver *nmxm, int rack, const struct rk_nmxm_partition *part, const char *domain)
{
	char *ending RK_CLEANUP_FREE = full_name(nmxm, rack, "");

	return part->domain ? strcasecmp(part->domain, domain) == 0 : rk_ends_with(part->name, ending);
}

/* With the rack's lock held. */
static int look(struct rk_nvl_driver *nmxm, int rack, struct rk_arena *arena, struct view *ret, struct rk_err *err)
{
	struct rk_json *gpus RK_CLEANUP_JSON = NULL, *parts RK_CLEANUP_JSON = NULL;
	size_t all, kept = 0;

	view_clear(ret);
	int rc = rk_nmxm_get(nmxm, rack, "/gpus", &gpus, err);
	if (rc == 0)
		rc = rk_nmxm_gpus(rk_json_root(gpus), arena, &ret->gpus, err);
	if (rc == 0)
		rc = find_domain(nmxm, rack, &ret->gpus, &ret->domain, err);
	if (rc == 0)
		rc = rk_nmxm_get(nmxm, rack, "/partitions", &parts, err);
	if (rc == 0)
		rc = rk_nmxm_partitions(rk_json_root(parts), &ret->gpus, arena, &ret->parts, &all, err);
	for (size_t i = 0; rc == 0 && i < all; i++)
		if (of_rack(nmxm, rack, &ret->parts[i], ret->domain))
			ret->parts[kept++] = ret->parts[i];
	ret->n = kept;
	return rc;
}

static void to_live(const struct rk_nvl_driver *nmxm, int rack, const struct view *view, const struct rk_nmxm_partition *part, struct rk_arena *arena,
		    struct rk_nvl_live *ret)
{
	char *ending RK_CLEANUP_FREE = full_name(nmxm, rack, "");
	size_t cut = rk_ends_with(part->name, ending) ? strlen(ending) : 0;

	*ret = (struct rk_nvl_live){ .id = part->id, .id_given = cut != 0, .name = rk_arena_strndup(arena, part->name, strlen(part->name) - cut), .health = part->health,
				     .gpus = rk_arena_array(arena, part->n_gpus, sizeof(*ret->gpus)), .n_gpus = part->n_gpus };
	for (size_t i = 0; i < part->n_gpus; i++)
		ret->gpus[i] = view->gpus.items[part->gpus[i]].guid;
	qsort(ret->gpus, ret->n_gpus, sizeof(*ret->gpus), rk_nvl_cmp_guid);
}

static int nmxm_list(struct rk_nvl *nvl, int rack, struct rk_arena *arena, struct rk_nvl_live **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_nvl_driver *nmxm = (struct rk_nvl_driver *)nvl;
	struct view view CLEANUP_VIEW = { .n = 0 };

	rk_nvl_enter(nmxm, rack);
	int rc = look(nmxm, rack, arena, &view, err);
	if (rc == 0) {
		*ret = rk_arena_array(arena, view.n, sizeof(**ret));
		*ret_n = 0;
		/* One without a number of the network is being made. */
		for (size_t i = 0; i < view.n; i++)
			if (view.parts[i].id)
				to_live(nmxm, rack, &view, &view.parts[i], arena, &(*ret)[(*ret_n)++]);
		qsort(*ret, *ret_n, sizeof(**ret), rk_nvl_cmp_live);
	}
	return rk_nvl_leave(nmxm, rack, rc, err);
}

static const struct rk_nmxm_partition *with_id(const struct view *view, int id)
{
	for (size_t i = 0; i < view->n; i++)
		if (view->parts[i].id == id)
			return &view->parts[i];
	return NULL;
}

static const struct rk_nmxm_partition *with_name(const struct view *view, const char *name)
{
	for (size_t i = 0; i < view->n; i++)
		if (rk_streq(view->parts[i].name, name))
			return &view->parts[i];
	return NULL;
}

static const struct rk_nmxm_partition *with_gpu(const struct view *view, int gpu)
{
	for (size_t i = 0; i < view->n; i++)
		for (size_t k = 0; k < view->parts[i].n_gpus; k++)
			if (view->parts[i].gpus[k] == gpu)
				return &view->parts[i];
	return NULL;
}

/* --- changing ------------------------------------------------------------------------------------------------------------------ */

struct change {
	int id;                           /* of the partition; not of create */
	const char *name;                 /* full, of create */
	int *ret_id;                      /* of create: what the network gave */
	uint64_t guid;
	bool add;
};
struct decision {
	bool reached;
	const char *method, *path, *body; /* method NULL: wait */
	const struct rk_nmxm_partition *base; /* whose list is replaced; NULL: none is */
};
/* What is to be sent, from what is there. Errors: it cannot be. */
typedef int decide_fn(const struct rk_nvl_driver *nmxm, int rack, const struct change *c, const struct view *view, struct rk_arena *arena, struct decision *ret,
		      struct rk_err *err);

static bool in_list(const struct rk_nmxm_partition *part, int gpu)
{
	for (size_t i = 0; i < part->n_gpus; i++)
		if (part->gpus[i] == gpu)
			return true;
	return false;
}

static int path_of(const struct rk_nmxm_partition *part, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	if (!rk_nmxm_is_key(part->key))
		return rk_err_set(err, RK_UNREACHABLE, "NMX-M gives partition %d an id that cannot be used", part->id);
	*ret = rk_arena_printf(arena, "/partitions/%s", part->key);
	return 0;
}

/* One of this name is the one that was asked for before, by us or by somebody whose process died: it is not made twice. */
static int decide_create(const struct rk_nvl_driver *nmxm, int rack, const struct change *c, const struct view *view, struct rk_arena *arena, struct decision *ret,
			 struct rk_err *err)
{
	const struct rk_nmxm_partition *named = with_name(view, c->name);
	struct rk_str body RK_CLEANUP_STR = RK_STR_INIT;

	(void)nmxm, (void)rack, (void)err;
	ret->reached = named && named->id;
	if (ret->reached)
		*c->ret_id = named->id;
	if (named)
		return 0;
	rk_nmxm_members_json(&body, c->name, &view->gpus, NULL, 0, false);
	*ret = (struct decision){ false, "POST", "/partitions", rk_arena_strdup(arena, rk_str_text(&body)), NULL };
	return 0;
}

static int decide_remove(const struct rk_nvl_driver *nmxm, int rack, const struct change *c, const struct view *view, struct rk_arena *arena, struct decision *ret,
			 struct rk_err *err)
{
	const struct rk_nmxm_partition *part = with_id(view, c->id);

	(void)nmxm, (void)rack;
	ret->reached = !part;
	if (!part)
		return 0;
	if (part->n_gpus)
		return rk_err_set(err, RK_FAILED, "partition %d still holds %zu GPUs", c->id, part->n_gpus);
	ret->method = "DELETE";
	return path_of(part, arena, &ret->path, err);
}

/* The list with one GPU more or less. */
static const char *new_list(const struct view *view, const struct rk_nmxm_partition *part, int gpu, bool add, struct rk_arena *arena)
{
	struct rk_str body RK_CLEANUP_STR = RK_STR_INIT;
	int *members = rk_arena_array(arena, part->n_gpus + 1, sizeof(*members));
	size_t n = 0;

	for (size_t i = 0; i < part->n_gpus; i++)
		if (part->gpus[i] != gpu)
			members[n++] = part->gpus[i];
	if (add)
		members[n++] = gpu;
	rk_nmxm_members_json(&body, NULL, &view->gpus, members, n, part->by_location);
	return rk_arena_strdup(arena, rk_str_text(&body));
}

static int decide_move(const struct rk_nvl_driver *nmxm, int rack, const struct change *c, const struct view *view, struct rk_arena *arena, struct decision *ret,
		       struct rk_err *err)
{
	const struct rk_nmxm_partition *part = with_id(view, c->id), *held;
	size_t gpu;

	(void)nmxm, (void)rack;
	if (!rk_map_get_u64(view->gpus.by_guid, c->guid, &gpu) || !view->gpus.items[gpu].domain || strcasecmp(view->gpus.items[gpu].domain, view->domain) != 0)
		return rk_err_set(err, RK_NOT_FOUND, "NMX-M has no GPU 0x%016" PRIx64 " in this domain", c->guid);
	if (!part && c->add)
		return rk_err_set(err, RK_NOT_FOUND, "partition %d does not exist", c->id);
	held = with_gpu(view, (int)gpu);
	if (c->add && held && held != part)
		return rk_err_set(err, RK_CONFLICT, "GPU 0x%016" PRIx64 " is in partition %d", c->guid, held->id);
	ret->reached = !part || in_list(part, (int)gpu) == c->add;
	if (ret->reached)
		return 0;
	ret->method = "PUT";
	ret->base = part;
	ret->body = new_list(view, part, (int)gpu, c->add, arena);
	return path_of(part, arena, &ret->path, err);
}

/* Resources of a GPU or partition that left stay taken for a while. */
static bool busy(const struct rk_err *why)
{
	static const char *const words[] = { "IN_USE", "in use", "NOT_READY", "not ready" };

	for (size_t i = 0; why->rc == RK_FAILED && i < RK_ARRAY_SIZE(words); i++)
		if (strstr(why->message, words[i]))
			return true;
	return false;
}

/* A list replaces what others put into it since it was read, so the partition is looked at once more just before. *ret: it is as it was. */
static int still_so(struct rk_nvl_driver *nmxm, int rack, const struct decision *d, const struct view *view, struct rk_arena *arena, bool *ret, struct rk_err *err)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	struct rk_nmxm_partition now;

	*ret = !d->base;
	if (*ret)
		return 0;
	int rc = rk_nmxm_get(nmxm, rack, d->path, &json, err);
	if (rc == 0)
		rc = rk_nmxm_partition(rk_json_root(json), &view->gpus, arena, &now, err);
	if (rc == RK_NOT_FOUND) {
		rk_err_clear(err);
		return 0;
	}
	*ret = rc == 0 && now.n_gpus == d->base->n_gpus;
	for (size_t i = 0; *ret && i < now.n_gpus; i++)
		*ret = in_list(d->base, now.gpus[i]);
	return rc;
}

struct progress {
	bool open;                        /* the last try failed, but its effect may yet come */
	bool sent;                        /* and accepted: nothing is sent until its effect shows, for a list made from an old one would undo it */
	int tries, waited_ms;
	struct rk_err why;                /* of the last try */
};

/* One round: looks, decides, sends or waits. *ret_over: rc is the result. */
static int round_of(struct rk_nvl_driver *nmxm, int rack, const struct change *c, decide_fn *decide, struct progress *p, bool *ret_over, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct view view CLEANUP_VIEW = { .n = 0 };
	struct decision d = { .reached = false };
	int rc = look(nmxm, rack, arena, &view, err);

	*ret_over = true;
	if (rc == 0)
		rc = decide(nmxm, rack, c, &view, arena, &d, err);
	if (rc || d.reached)
		return rc;
	if (p->why.rc && p->open && p->waited_ms < OPEN_MS) {
		*ret_over = false;
		p->waited_ms += POLL_MS;
		return rk_nmxm_pause(nmxm, POLL_MS, err);
	}
	if (p->why.rc && (!busy(&p->why) || p->tries > BUSY_TRIES)) {
		rk_err_move(err, &p->why);
		return err->rc;
	}
	*ret_over = false;
	if (p->why.rc) {
		rk_err_clear(&p->why);
		return rk_nmxm_pause(nmxm, BUSY_MS, err);
	}
	if (p->sent || !d.method) {
		p->waited_ms += POLL_MS;
		return p->waited_ms > SEEN_MS ? rk_err_set(err, RK_UNREACHABLE, "NMX-M says that the operation is done, but does not show it") :
						rk_nmxm_pause(nmxm, POLL_MS, err);
	}
	bool same;
	if ((rc = still_so(nmxm, rack, &d, &view, arena, &same, err)) != 0)
		return rc;
	if (!same) {
		p->waited_ms += POLL_MS;
		return p->waited_ms > SEEN_MS ? rk_err_set(err, RK_CONFLICT, "somebody else goes on changing the members of the partition") : rk_nmxm_pause(nmxm, POLL_MS, err);
	}
	p->tries++;
	rc = rk_nmxm_operate(nmxm, rack, d.method, d.path, d.body, &p->open, &p->why);
	p->sent = rc == 0;
	return rc == RK_CANCELLED ? rk_err_set(err, rc, "cancelled") : 0;
}

static int change(struct rk_nvl_driver *nmxm, int rack, const struct change *c, decide_fn *decide, struct rk_err *err)
{
	struct progress p = { .why = RK_ERR_INIT };
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;
	bool over = false;
	int rc = 0;

	if (nmxm->env.read_only)
		return rk_err_set(err, RK_INVALID, "--read-only: nothing is changed in NMX-M");
	rk_nvl_enter(nmxm, rack);
	err = err ? err : &ignored;
	while (rc == 0 && !over)
		rc = round_of(nmxm, rack, c, decide, &p, &over, err);
	rk_err_clear(&p.why);
	return rk_nvl_leave(nmxm, rack, rc, err);
}

/* The resiliency mode and the number of multicast groups cannot be said in this interface: NMX-M's own choice stays. */
static int nmxm_create(struct rk_nvl *nvl, int rack, int id, const char *name, const char *mode, int groups, int *ret_id, struct rk_err *err)
{
	struct rk_nvl_driver *nmxm = (struct rk_nvl_driver *)nvl;
	char *full RK_CLEANUP_FREE = full_name(nmxm, rack, name);
	struct change c = { .name = full, .ret_id = ret_id };

	(void)mode, (void)groups;
	if (rk_nvl_check_name(name, err) || rk_nvl_check_name(full, err) || rk_nvl_check_id(id, false, err))
		return RK_INVALID;
	return change(nmxm, rack, &c, decide_create, err);
}

static int nmxm_remove(struct rk_nvl *nvl, int rack, int id, struct rk_err *err)
{
	struct change c = { .id = id };

	return rk_nvl_check_id(id, false, err) ? RK_INVALID : change((struct rk_nvl_driver *)nvl, rack, &c, decide_remove, err);
}

static int nmxm_add(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err)
{
	struct change c = { .id = id, .guid = gpu, .add = true };

	return rk_nvl_check_id(id, true, err) ? RK_INVALID : change((struct rk_nvl_driver *)nvl, rack, &c, decide_move, err);
}

static int nmxm_drop(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err)
{
	struct change c = { .id = id, .guid = gpu };

	return rk_nvl_check_id(id, true, err) ? RK_INVALID : change((struct rk_nvl_driver *)nvl, rack, &c, decide_move, err);
}

static int nmxm_health(struct rk_nvl *nvl, int rack, struct rk_arena *arena, const char **ret_where, struct rk_err *err)
{
	struct rk_nvl_driver *nmxm = (struct rk_nvl_driver *)nvl;
	struct view view CLEANUP_VIEW = { .n = 0 };
	struct rk_json *json RK_CLEANUP_JSON = NULL;

	*ret_where = NULL;
	rk_nvl_enter(nmxm, rack);
	int rc = look(nmxm, rack, arena, &view, err);
	if (rc == 0)
		rc = rk_nmxm_get(nmxm, rack, "/services", &json, err);
	if (rc == 0)
		rc = rk_nmxm_services(rk_json_root(json), view.domain, err);
	return rk_nvl_leave(nmxm, rack, rc, err);
}

static void close_rack(void *state)
{
	rk_rest_manager_close(&((struct rk_nmxm_rest *)state)->rest);
}

/* NMX-M speaks for the domain; the switch trays behind it are not asked. */
static int nmxm_switches(struct rk_nvl *nvl, int rack, struct rk_arena *arena, struct rk_nvl_switch **ret, size_t *ret_n, struct rk_err *err)
{
	(void)nvl, (void)rack, (void)arena, (void)ret, (void)ret_n;
	return rk_err_set(err, RK_NOT_FOUND, "NMX-M is asked for partitions, not for switch trays");
}

static const struct rk_nvl_ops ops = { nmxm_list, nmxm_create, nmxm_remove, nmxm_add, nmxm_drop, nmxm_health, nmxm_switches, rk_nvl_driver_free };

int rk_nvl_nmxm(const struct rk_driver_env *env, struct rk_nvl **ret, struct rk_err *err)
{
	(void)err;
	*ret = rk_nvl_driver_new(&ops, env, sizeof(struct rk_nmxm_rest), NULL, close_rack);
	return 0;
}
