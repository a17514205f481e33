#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "provision/bundle.h"
#include "provision/cluster_impl.h"

/* Edits of the store alone, found by comparing two snapshots. An edit is {"what", "name", "was", "is", ...}: a rollback restores "was" while "is" still
 * holds; what somebody else changed since, or uses by now, is left to them. */

struct edits {
	struct rk_arena *arena;
	struct rk_jw w;
	size_t n;
};

static void pair(struct edits *e, const char *key, const char *value)
{
	rk_jw_key(&e->w, key);
	rk_jw_str(&e->w, value);
}

static void begin_edit(struct edits *e, const char *what, const char *name)
{
	rk_jw_object(&e->w);
	pair(e, "what", what);
	pair(e, "name", name);
	e->n++;
}

static void cordon_edit(struct edits *e, const char *what, const char *name, const char *was, const char *is)
{
	if (rk_streq(was, is))
		return;
	begin_edit(e, what, name);
	pair(e, "was", was);
	pair(e, "is", is);
	rk_jw_end(&e->w);
}

static void cordon_edits(struct edits *e, const struct rk_site *before, const struct rk_site *after)
{
	for (size_t i = 0; i < after->n_racks; i++) {
		int was = rk_find_rack(before, after->racks[i].name);
		if (was >= 0)
			cordon_edit(e, "rack.cordon", after->racks[i].name, before->racks[was].cordon, after->racks[i].cordon);
	}
	for (size_t i = 0; i < after->n_trays; i++) {
		int was = rk_find_tray(before, after->trays[i].name);
		if (was >= 0)
			cordon_edit(e, "tray.cordon", after->trays[i].name, before->trays[was].cordon, after->trays[i].cordon);
	}
}

static void added(struct edits *e, const char *what, const char *name)
{
	begin_edit(e, what, name);
	rk_jw_end(&e->w);
}

static const struct rk_reservation *reservation(const struct rk_site *site, int64_t id)
{
	for (size_t i = 0; i < site->n_reservations; i++)
		if (site->reservations[i].id == id)
			return &site->reservations[i];
	return NULL;
}

static void gone_reservation(struct edits *e, const struct rk_site *site, const struct rk_reservation *r)
{
	const struct {
		const char *key;
		int64_t value;
	} numbers[] = { { "count", r->count }, { "from_ms", r->from_unix_ms }, { "to_ms", r->to_unix_ms } };

	begin_edit(e, "reservation.gone", site->tenants[r->tenant].name);
	pair(e, "racks", r->racks);
	for (size_t i = 0; i < RK_ARRAY_SIZE(numbers); i++) {
		rk_jw_key(&e->w, numbers[i].key);
		rk_jw_i64(&e->w, numbers[i].value);
	}
	rk_jw_end(&e->w);
}

static void reservation_edits(struct edits *e, const struct rk_site *before, const struct rk_site *after)
{
	for (size_t i = 0; i < after->n_reservations; i++)
		if (!reservation(before, after->reservations[i].id))
			added(e, "reservation", rk_arena_printf(e->arena, "%" PRId64, after->reservations[i].id));
	for (size_t i = 0; i < before->n_reservations; i++)
		if (!reservation(after, before->reservations[i].id))
			gone_reservation(e, before, &before->reservations[i]);
}

const char *rk_edits_between(const struct rk_site *before, const struct rk_site *after, struct rk_arena *arena)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct edits e = { .arena = arena };

	rk_jw_init(&e.w, &text, 0);
	rk_jw_object(&e.w);
	pair(&e, "type", "edits");
	rk_jw_key(&e.w, "edits");
	rk_jw_array(&e.w);
	cordon_edits(&e, before, after);
	for (size_t i = 0; i < after->n_tenants; i++)
		if (rk_find_tenant(before, after->tenants[i].name) < 0)
			added(&e, "tenant", after->tenants[i].name);
	for (size_t i = 0; i < after->n_images; i++)
		if (rk_find_image(before, after->images[i].name) < 0)
			added(&e, "image", after->images[i].name);
	reservation_edits(&e, before, after);
	rk_jw_end(&e.w);
	rk_jw_end(&e.w);
	return e.n ? rk_arena_strdup(arena, rk_str_text(&text)) : NULL;
}

/* ---- taking back --------------------------------------------------------------------------------------------------------------------- */

typedef int take_back_fn(struct rk_world *world, const struct rk_jnode *edit, const char *name, struct rk_err *err);

static int undo_rack_cordon(struct rk_world *world, const struct rk_jnode *edit, const char *name, struct rk_err *err)
{
	int at = rk_find_rack(world->site, name);

	if (at < 0 || !rk_streq(world->site->racks[at].cordon, rk_jstr(rk_jget(edit, "is"))))
		return 0;
	return rk_store_set_rack_cordon(world->store, name, rk_jstr(rk_jget(edit, "was")), err);
}

static int undo_tray_cordon(struct rk_world *world, const struct rk_jnode *edit, const char *name, struct rk_err *err)
{
	int at = rk_find_tray(world->site, name);

	if (at < 0 || !rk_streq(world->site->trays[at].cordon, rk_jstr(rk_jget(edit, "is"))))
		return 0;
	return rk_store_set_tray_cordon(world->store, name, rk_jstr(rk_jget(edit, "was")), err);
}

static int undo_tenant(struct rk_world *world, const struct rk_jnode *edit, const char *name, struct rk_err *err)
{
	(void)edit;
	return rk_store_remove_tenant(world->store, name, err);
}

static int undo_image(struct rk_world *world, const struct rk_jnode *edit, const char *name, struct rk_err *err)
{
	(void)edit;
	return rk_store_remove_image(world->store, name, err);
}

static int undo_reservation(struct rk_world *world, const struct rk_jnode *edit, const char *name, struct rk_err *err)
{
	uint64_t id = 0;

	(void)edit;
	rk_parse_u64(name, &id);
	return rk_store_remove_reservation(world->store, (int64_t)id, err);
}

static int undo_gone_reservation(struct rk_world *world, const struct rk_jnode *edit, const char *name, struct rk_err *err)
{
	uint64_t count = 0, from = 0, to = 0;
	int64_t id;

	rk_ju64(rk_jget(edit, "count"), &count);
	rk_ju64(rk_jget(edit, "from_ms"), &from);
	rk_ju64(rk_jget(edit, "to_ms"), &to);
	return rk_store_add_reservation(world->store, name, rk_jstr(rk_jget(edit, "racks")), (int)count, (int64_t)from, (int64_t)to, &id, err);
}

static const struct {
	const char *what;
	take_back_fn *undo;
} kinds[] = {
	{ "rack.cordon", undo_rack_cordon }, { "tray.cordon", undo_tray_cordon }, { "tenant", undo_tenant },
	{ "image", undo_image }, { "reservation", undo_reservation }, { "reservation.gone", undo_gone_reservation },
};

static int take_back(struct rk_world *world, const struct rk_jnode *edit, struct rk_err *err)
{
	const char *what = rk_jstr(rk_jget(edit, "what"));

	for (size_t i = 0; i < RK_ARRAY_SIZE(kinds); i++) {
		if (!rk_streq(kinds[i].what, what))
			continue;
		int rc = kinds[i].undo(world, edit, rk_jstr(rk_jget(edit, "name")), err);
		/* Gone already, or somebody else's by now. */
		if (rc != RK_NOT_FOUND && rc != RK_CONFLICT)
			return rc;
		rk_err_clear(err);
		return 0;
	}
	return rk_err_set(err, RK_INVALID, "an edit \"%s\" is of a kind that this racksh does not know", what ? what : "");
}

int rk_finish_edits(struct rk_world *world, int64_t op, const struct rk_jnode *params, enum rk_op_end end, struct rk_err *err)
{
	const struct rk_jnode *list = rk_jget(params, "edits");
	const struct rk_jnode **edits = NULL;
	size_t n = 0;

	(void)op;
	if (end != RK_OP_UNDONE)
		return 0;
	/* What holds now, not what held when the operation began. */
	int rc = rk_world_refresh(world, err);
	edits = rk_xcalloc(list ? list->n : 0, sizeof(*edits));
	RK_JEACH(it, list)
		edits[n++] = it;
	while (!rc && n > 0)
		rc = take_back(world, edits[--n], err);
	free(edits);
	return rc;
}
