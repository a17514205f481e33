#include <string.h>

#include "provision/image_impl.h"
#include "provision/ssh.h"
#include "vmspec/image_file.h"

/* Images that are volumes of the trays already. */

enum { BLOCK = 64 << 10 };

struct look {
	struct rk_world *world;
	const char *pool, *name;
	int *trays;
	size_t n;
	struct rk_image_try *tries;
	struct rk_image_facts *facts;
	uint64_t *bytes;
};

/* ---- the content --------------------------------------------------------------------------------------------------------------------- */

/* A volume read through its host, a block at a time: an image is judged by many small pieces. */
struct remote {
	const struct look *look;
	int tray;
	uint64_t bytes, at;              /* at: where the block begins */
	size_t held;
	uint8_t block[BLOCK];
	struct rk_err err;               /* why a block did not come */
	int rc;
};

static bool hold(struct remote *r, uint64_t offset)
{
	struct rk_hv *hv = r->look->world->hv;
	uint64_t at = offset - offset % BLOCK;
	size_t n = r->bytes - at < BLOCK ? (size_t)(r->bytes - at) : BLOCK;

	if (r->held && r->at == at)
		return true;
	r->held = 0;
	r->rc = r->rc ? r->rc : hv->ops->volume_read(hv, r->tray, r->look->pool, r->look->name, at, r->block, n, &r->err);
	if (r->rc)
		return false;
	r->at = at;
	r->held = n;
	return true;
}

/* Within the file: whoever judges an image asks for nothing else. */
static bool read_remote(void *ctx, uint64_t offset, void *bytes, size_t n)
{
	struct remote *r = ctx;

	for (size_t done = 0, piece; done < n; done += piece) {
		if (!hold(r, offset + done))
			return false;
		size_t from = (size_t)(offset + done - r->at);
		piece = r->held - from < n - done ? r->held - from : n - done;
		memcpy((uint8_t *)bytes + done, r->block + from, piece);
	}
	return true;
}

static int judge_content(const struct look *look, size_t i, const char *volume, struct rk_err *err)
{
	struct remote *r RK_CLEANUP_FREE = rk_xcalloc(1, sizeof(*r));
	const struct rk_image_source source = { read_remote, r, look->bytes[i] };

	r->look = look;
	r->tray = look->trays[i];
	r->bytes = look->bytes[i];
	int rc = rk_image_judge(volume, &source, &look->facts[i], err);
	/* What could not be read is no fault of the image. */
	if (r->rc) {
		rk_err_move(err, &r->err);
		rc = r->rc;
	}
	rk_err_clear(&r->err);
	return rc;
}

static void look_nth(void *ctx, size_t i)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct look *l = ctx;
	struct rk_image_try *try = &l->tries[i];
	struct rk_hv *hv = l->world->hv;
	const char *tray = l->world->site->trays[l->trays[i]].name;
	struct rk_hv_volume found;

	try->rc = hv->ops->volume_get(hv, l->trays[i], l->pool, l->name, arena, &found, &try->err);
	if (!try->rc && !found.exists)
		try->rc = rk_err_set(&try->err, RK_NOT_FOUND, "tray \"%s\": there is no volume \"%s/%s\"", tray, l->pool, l->name);
	if (try->rc)
		return;
	l->bytes[i] = found.file_bytes ? found.file_bytes : found.bytes;
	try->rc = judge_content(l, i, rk_arena_printf(arena, "%s/%s", l->pool, l->name), &try->err);
	if (try->rc)
		rk_err_while(&try->err, "tray \"%s\"", tray);
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------------------- */

/* VMs of one cluster start from the same disk. */
static int agree(const struct look *l, const char *volume, struct rk_err *err)
{
	for (size_t i = 1; i < l->n; i++) {
		if (rk_streq(l->facts[i].format, l->facts[0].format) && l->facts[i].disk_bytes == l->facts[0].disk_bytes && l->bytes[i] == l->bytes[0])
			continue;
		rk_err_set(err, RK_INVALID, "volume \"%s\" is not the same everywhere: %s of %llu bytes on %s, %s of %llu bytes on %s", volume,
			   l->facts[0].format, (unsigned long long)l->bytes[0], l->world->site->trays[l->trays[0]].name, l->facts[i].format,
			   (unsigned long long)l->bytes[i], l->world->site->trays[l->trays[i]].name);
		rk_err_hint(err, "put the same volume on all of them, or leave some out with --trays and -x");
		return RK_INVALID;
	}
	return 0;
}

static int look_at_all(struct look *l, const struct rk_image_add *r, struct rk_image_added *ret, struct rk_err *err)
{
	rk_fanout(l->n, l->world->jobs, look_nth, l);
	int rc = rk_image_verdict(r->name, l->tries, l->n, &ret->trays, err);

	if (rc) {
		rk_err_hint(err, "--trays and -x leave some out");
		return rc;
	}
	rc = agree(l, r->volume, err);
	if (!rc && l->n && r->format && !rk_streq(r->format, l->facts[0].format))
		rc = rk_err_set(err, RK_INVALID, "volume \"%s\" is %s, not %s", r->volume, l->facts[0].format, r->format);
	if (rc || !l->n)
		return rc;
	ret->image.format = l->facts[0].format;
	ret->bytes = l->bytes[0];
	ret->disk_bytes = l->facts[0].disk_bytes;
	return rk_image_arch(l->world, r, l->facts[0].arch, &ret->image.arch, err);
}

/* Where there is nothing to read: by its name. */
static int by_name(const struct rk_world *world, const struct rk_image_add *r, struct rk_image_added *ret, struct rk_err *err)
{
	const char *dot = strrchr(r->volume, '.');

	ret->image.format = r->format ? r->format : dot && rk_streq(dot, ".qcow2") ? "qcow2" : dot && (rk_streq(dot, ".raw") || rk_streq(dot, ".img")) ? "raw" : NULL;
	if (ret->image.format)
		return rk_image_arch(world, r, NULL, &ret->image.arch, err);
	rk_err_set(err, RK_INVALID, "the format of volume \"%s\" is not known", r->volume);
	rk_err_hint(err, "say --format qcow2 or --format raw");
	return RK_INVALID;
}

int rk_image_volume(struct rk_world *world, const struct rk_image_add *r, struct rk_arena *arena, struct rk_image_added *ret, struct rk_err *err)
{
	const char *slash = strchr(r->volume, '/');
	struct look l = { .world = world };

	if (!slash || slash == r->volume || !slash[1] || strchr(slash + 1, '/'))
		return rk_err_set(err, RK_INVALID, "\"%s\" is neither a file nor a volume (POOL/VOLUME)", r->volume);
	ret->image.volume = r->volume;
	l.pool = rk_arena_strndup(arena, r->volume, (size_t)(slash - r->volume));
	l.name = slash + 1;
	int rc = rk_world_drivers(world, err);
	if (!rc && !world->hv->ops->volume_read)
		return by_name(world, r, ret, err);
	if (!rc)
		rc = rk_image_trays(world, r, arena, &l.trays, &l.n, err);
	if (rc)
		return rc;
	l.facts = rk_arena_array(arena, l.n, sizeof(*l.facts));
	l.bytes = rk_arena_array(arena, l.n, sizeof(*l.bytes));
	l.tries = rk_xcalloc(l.n ? l.n : 1, sizeof(*l.tries));
	rc = look_at_all(&l, r, ret, err);
	rk_image_tries_free(l.tries, l.n);
	return rc;
}
