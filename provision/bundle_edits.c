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

struct number {
	const char *key;
	int64_t value;
};

static void numbers(struct edits *e, const struct number *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rk_jw_key(&e->w, items[i].key);
		rk_jw_i64(&e->w, items[i].value);
	}
}

static int64_t number_in(const struct rk_jnode *edit, const char *key)
{
	uint64_t value = 0;

	rk_ju64(rk_jget(edit, key), &value);
	return (int64_t)value;
}

static void tenant_edits(struct edits *e, const struct rk_site *before, const struct rk_site *after)
{
	for (size_t i = 0; i < after->n_tenants; i++)
		if (rk_find_tenant(before, after->tenants[i].name) < 0)
			added(e, "tenant", after->tenants[i].name);
	for (size_t i = 0; i < before->n_tenants; i++) {
		const struct rk_tenant *t = &before->tenants[i];
		const struct number quota[] = { { "vms", t->quota_vms }, { "pkeys", t->quota_pkeys } };
		if (rk_find_tenant(after, t->name) >= 0)
			continue;
		begin_edit(e, "tenant.gone", t->name);
		numbers(e, quota, RK_ARRAY_SIZE(quota));
		rk_jw_end(&e->w);
	}
}

static void gone_image(struct edits *e, const struct rk_image *image)
{
	const struct {
		const char *key, *value;
	} texts[] = { { "volume", image->volume }, { "arch", image->arch }, { "format", image->format }, { "checksum", image->checksum },
		      { "kernel", image->kernel }, { "initrd", image->initrd }, { "cmdline", image->cmdline } };

	begin_edit(e, "image.gone", image->name);
	for (size_t i = 0; i < RK_ARRAY_SIZE(texts); i++)
		pair(e, texts[i].key, texts[i].value);
	rk_jw_end(&e->w);
}

static void image_edits(struct edits *e, const struct rk_site *before, const struct rk_site *after)
{
	for (size_t i = 0; i < after->n_images; i++)
		if (rk_find_image(before, after->images[i].name) < 0)
			added(e, "image", after->images[i].name);
	for (size_t i = 0; i < before->n_images; i++)
		if (rk_find_image(after, before->images[i].name) < 0)
			gone_image(e, &before->images[i]);
}

static const struct rk_silence *silence(const struct rk_site *site, int64_t id)
{
	for (size_t i = 0; i < site->n_silences; i++)
		if (site->silences[i].id == id)
			return &site->silences[i];
	return NULL;
}

static void silence_edits(struct edits *e, const struct rk_site *before, const struct rk_site *after)
{
	for (size_t i = 0; i < after->n_silences; i++)
		if (!silence(before, after->silences[i].id))
			added(e, "silence", rk_arena_printf(e->arena, "%" PRId64, after->silences[i].id));
	for (size_t i = 0; i < before->n_silences; i++) {
		const struct rk_silence *s = &before->silences[i];
		const struct number times[] = { { "from_ms", s->from_unix_ms }, { "to_ms", s->to_unix_ms } };
		if (silence(after, s->id))
			continue;
		begin_edit(e, "silence.gone", s->trays);
		pair(e, "checks", s->checks);
		pair(e, "reason", s->reason);
		pair(e, "by", s->by);
		numbers(e, times, RK_ARRAY_SIZE(times));
		rk_jw_end(&e->w);
	}
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
	const struct number facts[] = { { "count", r->count }, { "from_ms", r->from_unix_ms }, { "to_ms", r->to_unix_ms } };

	begin_edit(e, "reservation.gone", site->tenants[r->tenant].name);
	pair(e, "racks", r->racks);
	numbers(e, facts, RK_ARRAY_SIZE(facts));
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
	tenant_edits(&e, before, after);
	image_edits(&e, before, after);
	reservation_edits(&e, before, after);
	silence_edits(&e, before, after);
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
	int64_t id;

	return rk_store_add_reservation(world->store, name, rk_jstr(rk_jget(edit, "racks")), (int)number_in(edit, "count"), number_in(edit, "from_ms"),
					number_in(edit, "to_ms"), &id, err);
}

static int undo_gone_tenant(struct rk_world *world, const struct rk_jnode *edit, const char *name, struct rk_err *err)
{
	int rc = rk_store_add_tenant(world->store, name, err);

	return rc ? rc : rk_store_set_tenant_quota(world->store, name, (int)number_in(edit, "vms"), (int)number_in(edit, "pkeys"), err);
}

static int undo_gone_image(struct rk_world *world, const struct rk_jnode *edit, const char *name, struct rk_err *err)
{
	const struct rk_image image = {
		.name = name, .volume = rk_jstr(rk_jget(edit, "volume")), .arch = rk_jstr(rk_jget(edit, "arch")), .format = rk_jstr(rk_jget(edit, "format")),
		.checksum = rk_jstr(rk_jget(edit, "checksum")), .kernel = rk_jstr(rk_jget(edit, "kernel")), .initrd = rk_jstr(rk_jget(edit, "initrd")),
		.cmdline = rk_jstr(rk_jget(edit, "cmdline")),
	};

	return rk_store_add_image(world->store, &image, err);
}

static int undo_silence(struct rk_world *world, const struct rk_jnode *edit, const char *name, struct rk_err *err)
{
	uint64_t id = 0;

	(void)edit;
	rk_parse_u64(name, &id);
	return rk_store_remove_silence(world->store, (int64_t)id, err);
}

static int undo_gone_silence(struct rk_world *world, const struct rk_jnode *edit, const char *name, struct rk_err *err)
{
	const struct rk_silence s = {
		.trays = name, .checks = rk_jstr(rk_jget(edit, "checks")), .reason = rk_jstr(rk_jget(edit, "reason")), .by = rk_jstr(rk_jget(edit, "by")),
		.from_unix_ms = number_in(edit, "from_ms"), .to_unix_ms = number_in(edit, "to_ms"),
	};
	int64_t id;

	return rk_store_add_silence(world->store, &s, &id, err);
}

static const struct {
	const char *what;
	take_back_fn *undo;
} kinds[] = {
	{ "rack.cordon", undo_rack_cordon }, { "tray.cordon", undo_tray_cordon }, { "tenant", undo_tenant },
	{ "image", undo_image }, { "reservation", undo_reservation }, { "reservation.gone", undo_gone_reservation },
	{ "tenant.gone", undo_gone_tenant }, { "image.gone", undo_gone_image }, { "silence", undo_silence }, { "silence.gone", undo_gone_silence },
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
