#include "provision/bundle_heard.h"

#include <stdlib.h>
#include <string.h>

#include "inventory/base/map.h"
#include "provision/image_impl.h"
#include "provision/steps.h"

struct tray {
	const char *name, *lack; /* lack: what it has not, or NULL */
	bool answered;
};

struct volume {
	struct rk_image_add request; /* its trays by name: selections may speak of what only the bundle has */
	struct rk_image_added added;
	bool answered;
};

struct rk_heard {
	struct rk_arena *arena;
	struct rk_map *by_name;      /* trays */
	struct {
		struct tray *items;
		size_t n, cap;
	} trays;
	struct {
		struct volume *items;
		size_t n, cap;
	} volumes;
};

struct rk_heard *rk_heard_new(void)
{
	struct rk_heard *h = rk_xcalloc(1, sizeof(*h));

	h->arena = rk_arena_new();
	h->by_name = rk_map_new();
	return h;
}

void rk_heard_free(struct rk_heard *h)
{
	if (!h)
		return;
	rk_map_free(h->by_name);
	rk_arena_free(h->arena);
	free(h->trays.items);
	free(h->volumes.items);
	free(h);
}

void rk_cleanup_heard(struct rk_heard **h)
{
	rk_heard_free(*h);
}

bool rk_heard_open(const struct rk_heard *h)
{
	for (size_t i = 0; i < h->trays.n; i++)
		if (!h->trays.items[i].answered)
			return true;
	for (size_t i = 0; i < h->volumes.n; i++)
		if (!h->volumes.items[i].answered)
			return true;
	return false;
}

/* ---- trays ---------------------------------------------------------------------------------------------------------------------------- */

int rk_heard_lack(struct rk_heard *h, const char *tray, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	size_t at = h->trays.n;

	if (rk_map_add(h->by_name, tray, at, &at))
		*rk_vec_push(&h->trays) = (struct tray){ .name = rk_arena_strdup(h->arena, tray) };
	const struct tray *t = &h->trays.items[at];
	*ret = rk_arena_strdup(arena, t->lack);
	return t->answered ? 0 : rk_err_set(err, RK_CONFLICT, "tray \"%s\" was not looked at", tray);
}

struct look {
	struct rk_world *world;
	struct tray **trays;
	char **lacks;
};

static void look_at(void *ctx, size_t i)
{
	struct look *look = ctx;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	int at = rk_find_tray(look->world->site, look->trays[i]->name);
	const char *lack = NULL;

	if (at >= 0 && !rk_tray_lacks(look->world, at, arena, &lack, NULL) && lack)
		look->lacks[i] = rk_xstrdup(lack);
}

static void ask_trays(struct rk_world *world, struct rk_heard *h)
{
	struct tray **open RK_CLEANUP_FREE = rk_xcalloc(h->trays.n + 1, sizeof(*open));
	char **lacks RK_CLEANUP_FREE = rk_xcalloc(h->trays.n + 1, sizeof(*lacks));
	struct look look = { world, open, lacks };
	size_t n = 0;

	for (size_t i = 0; i < h->trays.n; i++)
		if (!h->trays.items[i].answered)
			open[n++] = &h->trays.items[i];
	rk_fanout(n, world->jobs, look_at, &look);
	for (size_t i = 0; i < n; i++) {
		open[i]->lack = rk_arena_strdup(h->arena, lacks[i]);
		open[i]->answered = true;
		free(lacks[i]);
	}
}

/* ---- volumes -------------------------------------------------------------------------------------------------------------------------- */

static const char *names_of(const struct rk_site *site, const int *trays, size_t n, struct rk_arena *arena)
{
	const char **names = rk_arena_array(arena, n, sizeof(*names));

	for (size_t i = 0; i < n; i++)
		names[i] = site->trays[trays[i]].name;
	return rk_nodeset_fold(arena, names, n);
}

static struct volume *find_volume(struct rk_heard *h, const struct rk_image_add *r)
{
	for (size_t i = 0; i < h->volumes.n; i++) {
		const struct rk_image_add *q = &h->volumes.items[i].request;
		if (rk_streq(q->name, r->name) && rk_streq(q->volume, r->volume) && rk_streq(q->arch, r->arch) && rk_streq(q->format, r->format) &&
		    rk_streq(q->trays, r->trays))
			return &h->volumes.items[i];
	}
	return NULL;
}

static struct volume *add_volume(struct rk_heard *h, const struct rk_image_add *r)
{
	struct volume *v = rk_vec_push(&h->volumes);

	*v = (struct volume){ .request = {
		.name = rk_arena_strdup(h->arena, r->name), .volume = rk_arena_strdup(h->arena, r->volume), .arch = rk_arena_strdup(h->arena, r->arch),
		.format = rk_arena_strdup(h->arena, r->format), .trays = rk_arena_strdup(h->arena, r->trays),
	} };
	return v;
}

int rk_heard_volume(struct rk_heard *h, const struct rk_world *world, const struct rk_image_add *request, struct rk_arena *arena,
		    struct rk_image_added *ret, struct rk_err *err)
{
	struct rk_image_add r = *request;
	int *trays;
	size_t n;
	int rc = rk_image_trays(world, request, arena, &trays, &n, err);

	if (rc)
		return rc;
	r.trays = names_of(world->site, trays, n, arena);
	const struct volume *v = find_volume(h, &r);
	v = v ? v : add_volume(h, &r);
	if (!v->answered)
		return rk_err_set(err, RK_CONFLICT, "volume \"%s\" was not looked at", r.volume);
	*ret = v->added;
	/* The caller's own: it outlives the answers. */
	ret->image.name = request->name;
	ret->image.volume = request->volume;
	ret->image.arch = rk_arena_strdup(arena, ret->image.arch);
	ret->image.format = rk_arena_strdup(arena, ret->image.format);
	return 0;
}

static int ask_volume(struct rk_world *world, struct rk_heard *h, struct volume *v, struct rk_err *err)
{
	int rc = v->answered ? 0 : rk_image_volume(world, &v->request, h->arena, &v->added, err);

	v->answered = true;
	/* The text may be a literal, the driver's or the snapshot's, which is about to be read anew. */
	v->added.image.arch = rk_arena_strdup(h->arena, v->added.image.arch);
	v->added.image.format = rk_arena_strdup(h->arena, v->added.image.format);
	return rc ? (rk_err_while(err, "image add %s %s", v->request.name, v->request.volume), rc) : 0;
}

int rk_heard_ask(struct rk_world *world, struct rk_heard *h, struct rk_err *err)
{
	int rc = rk_world_drivers(world, err);

	if (!rc)
		ask_trays(world, h);
	for (size_t i = 0; !rc && i < h->volumes.n; i++)
		rc = ask_volume(world, h, &h->volumes.items[i], err);
	return rc ? rc : rk_world_refresh(world, err);
}
