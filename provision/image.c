#include "provision/image_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inventory/base/digest.h"
#include "inventory/base/file.h"
#include "inventory/site_values.h"
#include "provision/bundle.h"
#include "provision/ssh.h"
#include "vmspec/image_file.h"

enum { HASH_STEP = 1 << 20, STATE_MAX = 64, PERCENT_STEP = 10 };

/* ---- the file ------------------------------------------------------------------------------------------------------------------------ */

struct file {
	int fd;
	uint64_t bytes;
};

static bool read_at(void *ctx, uint64_t offset, void *bytes, size_t n)
{
	return pread(((struct file *)ctx)->fd, bytes, n, (off_t)offset) == (ssize_t)n;
}

static int open_file(const char *path, struct file *f, struct rk_err *err)
{
	struct stat st;

	f->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (f->fd < 0 || fstat(f->fd, &st) != 0)
		return rk_err_set(err, errno == ENOENT ? RK_NOT_FOUND : RK_FAILED, "cannot open \"%s\": %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return rk_err_set(err, RK_INVALID, "\"%s\" is no regular file", path);
	f->bytes = (uint64_t)st.st_size;
	return 0;
}

static int hash_file(const struct rk_world *world, const char *path, const struct file *f, char ret[65], struct rk_err *err)
{
	char *buffer RK_CLEANUP_FREE = rk_xmalloc(HASH_STEP);
	struct rk_sha256 sum = RK_SHA256_INIT;

	for (uint64_t at = 0; at < f->bytes;) {
		ssize_t got = pread(f->fd, buffer, HASH_STEP, (off_t)at);
		if (got <= 0)
			return rk_err_set(err, RK_FAILED, "cannot read \"%s\": %s", path, got < 0 ? strerror(errno) : "it became shorter");
		rk_sha256_add(&sum, buffer, (size_t)got);
		at += (uint64_t)got;
		if (world->cancel && *world->cancel)
			return rk_err_set(err, RK_CANCELLED, "cancelled");
	}
	rk_sha256_end(&sum, ret);
	return 0;
}

static int check_sum(const struct rk_image_add *r, const char *sum, struct rk_err *err)
{
	const char *want = r->checksum && rk_starts_with(r->checksum, "sha256:") ? r->checksum + strlen("sha256:") : r->checksum;

	if (!want || strcasecmp(want, sum) == 0)
		return 0;
	rk_err_set(err, RK_INVALID, "image \"%s\" has the SHA-256 %s, not %s", r->path, sum, want);
	rk_err_hint(err, "fetch the file again, and compare the checksum with what its maker tells");
	return RK_INVALID;
}

/* ---- architecture and format --------------------------------------------------------------------------------------------------------- */

int rk_image_arch(const struct rk_world *world, const struct rk_image_add *r, const char *found, const char **ret, struct rk_err *err)
{
	const char *site = world->site->hypervisor.arch;

	*ret = r->arch ? r->arch : found ? found : site;
	if (!*ret) {
		rk_err_set(err, RK_INVALID, "the architecture of image \"%s\" is not known", r->name);
		rk_err_hint(err, "say --arch aarch64 or --arch x86_64");
		return RK_INVALID;
	}
	if (found && !rk_streq(found, *ret))
		return rk_err_set(err, RK_INVALID, "the partition table of \"%s\" is one of %s, not of %s", r->path ? r->path : r->volume, found, *ret);
	if (site && !rk_streq(site, *ret))
		return rk_err_set(err, RK_INVALID, "image \"%s\" is for %s, the trays of the site are %s", r->name, *ret, site);
	return 0;
}

static int judge_file(const struct rk_world *world, const struct rk_image_add *r, struct file *f, struct rk_arena *arena, struct rk_image_added *ret,
		      struct rk_err *err)
{
	const struct rk_image_source source = { read_at, f, f->bytes };
	const char *pool = r->pool ? r->pool : world->site->pool;
	struct rk_image_facts facts;
	int rc = rk_image_judge(r->path, &source, &facts, err);

	if (!rc && r->format && !rk_streq(r->format, facts.format))
		rc = rk_err_set(err, RK_INVALID, "image \"%s\" is %s, not %s", r->path, facts.format, r->format);
	if (!rc)
		rc = rk_image_arch(world, r, facts.arch, &ret->image.arch, err);
	if (rc)
		return rc;
	ret->bytes = f->bytes;
	ret->disk_bytes = facts.disk_bytes;
	ret->image.format = facts.format;
	ret->image.volume = rk_arena_printf(arena, "%s/%s.%s", pool, r->name, facts.format);
	return 0;
}

/* ---- upload -------------------------------------------------------------------------------------------------------------------------- */

struct upload {
	struct rk_world *world;
	const struct rk_image_add *request;
	const struct rk_image_added *image;
	const char *pool, *volume, *sum;
	struct file file;
	int *trays;
	size_t n;
	_Atomic uint64_t sent;           /* by all trays together */
	atomic_int percent;              /* last told */
	struct one {
		struct upload *all;
		char *state;             /* file that says how far this one came; NULL */
		uint64_t done;
	} *ones;
	struct rk_image_try *tries;
};

static void tell(struct upload *u, uint64_t more)
{
	uint64_t sent = atomic_fetch_add(&u->sent, more) + more, total = u->file.bytes * u->n;
	int percent = total ? (int)(sent * 100 / total / PERCENT_STEP) * PERCENT_STEP : 100, last = atomic_load(&u->percent);

	if (percent <= last || !atomic_compare_exchange_strong(&u->percent, &last, percent) || !u->world->progress)
		return;
	char *line RK_CLEANUP_FREE = rk_xasprintf("image %s: %d %% of %" PRIu64 " MiB on %zu tray%s", u->request->name, percent, u->file.bytes >> 20, u->n,
						  u->n == 1 ? "" : "s");
	u->world->progress(u->world->progress_ctx, line);
}

static bool piece_done(void *ctx, uint64_t done)
{
	struct one *one = ctx;
	char text[STATE_MAX];
	int n = snprintf(text, sizeof(text), "%" PRIu64 "\n", done);

	/* Not written: the next run sends a piece again. */
	if (one->state)
		rk_file_write(one->state, text, (size_t)n, 0600, NULL);
	if (done > one->done)
		tell(one->all, done - one->done);
	one->done = done;
	return !(one->all->world->cancel && *one->all->world->cancel);
}

static uint64_t state_of(const char *path)
{
	char *text RK_CLEANUP_FREE = NULL;
	uint64_t done = 0;
	size_t len;

	if (!path || rk_file_read(path, STATE_MAX, &text, &len, NULL))
		return 0;
	text[strcspn(text, "\n")] = '\0';
	return rk_parse_u64(text, &done) ? done : 0;
}

static void upload_nth(void *ctx, size_t i)
{
	struct upload *u = ctx;
	struct one *one = &u->ones[i];
	struct rk_hv *hv = u->world->hv;
	const char *tray = u->world->site->trays[u->trays[i]].name, *folder = u->request->state_folder;

	one->all = u;
	one->state = folder ? rk_xasprintf("%s/uploads/%.16s-%s", folder, u->sum, tray) : NULL;
	struct rk_hv_upload up = { .fd = u->file.fd, .bytes = u->file.bytes, .done = state_of(one->state), .progress = piece_done, .ctx = one };
	one->done = up.done <= up.bytes ? up.done : 0;
	tell(u, one->done);
	u->tries[i].rc = hv->ops->volume_upload(hv, u->trays[i], u->pool, u->volume, &up, &u->tries[i].err);
	if (!u->tries[i].rc && one->state)
		unlink(one->state);
}

int rk_image_verdict(const char *image, const struct rk_image_try *tries, size_t n, size_t *ret_good, struct rk_err *err)
{
	int rc = 0, same = 0;

	*ret_good = 0;
	for (size_t i = 0; i < n; i++) {
		*ret_good += tries[i].rc == 0;
		same += tries[i].rc && tries[i].rc == tries[0].rc;
		rc = rc ? rc : tries[i].rc;
	}
	if (!rc)
		return 0;
	/* One class for all of them, else some have it and some do not. */
	rc = (size_t)same == n ? tries[0].rc : RK_PARTIAL;
	rk_err_set(err, rc, "image \"%s\" is not on %zu of %zu trays", image, n - *ret_good, n);
	for (size_t i = 0; i < n; i++)
		if (tries[i].rc)
			rk_err_detail(err, "%s", tries[i].err.message);
	return rc;
}

void rk_image_tries_free(struct rk_image_try *tries, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rk_err_clear(&tries[i].err);
	free(tries);
}

int rk_image_trays(const struct rk_world *world, const struct rk_image_add *r, struct rk_arena *arena, int **ret, size_t *ret_n, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	int rc = rk_select_trays(site, r->trays ? r->trays : "@all", r->except, arena, ret, ret_n, err);
	size_t kept = 0;

	for (size_t i = 0; !rc && i < *ret_n; i++)
		if (r->trays || !site->trays[(*ret)[i]].offline)
			(*ret)[kept++] = (*ret)[i];
	*ret_n = kept;
	if (!rc && !kept) {
		rk_err_set(err, RK_NOT_FOUND, "there is no tray for image \"%s\": all of them are offline", r->name);
		rk_err_hint(err, "racksh tray list; --trays names some all the same");
		return RK_NOT_FOUND;
	}
	return rc;
}

static int upload(struct upload *u, struct rk_image_added *ret, struct rk_err *err)
{
	const char *slash = strchr(ret->image.volume, '/');
	char *pool RK_CLEANUP_FREE = rk_xstrndup(ret->image.volume, (size_t)(slash - ret->image.volume)), *folder RK_CLEANUP_FREE = NULL;
	int rc = rk_world_drivers(u->world, err);

	if (rc)
		return rc;
	u->pool = pool;
	u->volume = slash + 1;
	u->ones = rk_xcalloc(u->n ? u->n : 1, sizeof(*u->ones));
	u->tries = rk_xcalloc(u->n ? u->n : 1, sizeof(*u->tries));
	if (u->request->state_folder) {
		folder = rk_xasprintf("%s/uploads", u->request->state_folder);
		rc = rk_mkdirs(folder, err);
	}
	if (!rc) {
		rk_fanout(u->n, u->world->jobs, upload_nth, u);
		rc = rk_image_verdict(u->request->name, u->tries, u->n, &ret->trays, err);
		if (rc)
			rk_err_hint(err, rc == RK_CONFLICT ? "take another name, or delete that volume on the trays"
							   : "the same command goes on where it stopped; --trays leaves some out");
	}
	for (size_t i = 0; i < u->n; i++)
		free(u->ones[i].state);
	free(u->ones);
	rk_image_tries_free(u->tries, u->n);
	return rc;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------------------- */

static int check_name(const struct rk_world *world, const char *name, struct rk_err *err)
{
	if (!rk_image_name_valid(name)) {
		rk_err_set(err, RK_INVALID, "\"%s\" is no valid name of an image", name);
		rk_err_hint(err, "names have 1 to 63 of A-Z a-z 0-9 . _ and '-', and begin with a letter or digit");
		return RK_INVALID;
	}
	if (rk_find_image(world->site, name) >= 0)
		return rk_err_set(err, RK_CONFLICT, "there is an image \"%s\" already", name);
	return 0;
}

static int put_on_trays(struct rk_world *world, const struct rk_image_add *r, struct file *f, struct rk_arena *arena, struct rk_image_added *ret,
			struct rk_err *err)
{
	struct upload u = { .world = world, .request = r, .image = ret };
	char sum[65];
	int rc = judge_file(world, r, f, arena, ret, err);

	if (!rc)
		rc = rk_image_trays(world, r, arena, &u.trays, &u.n, err);
	if (!rc)
		rc = hash_file(world, r->path, f, sum, err);
	if (!rc)
		rc = check_sum(r, sum, err);
	if (rc)
		return rc;
	ret->image.checksum = rk_arena_printf(arena, "sha256:%s", sum);
	ret->trays = r->dry_run ? u.n : 0;
	u.file = *f;
	u.sum = sum;
	return r->dry_run ? 0 : upload(&u, ret, err);
}

static int write_down(struct rk_world *world, const struct rk_image *image, struct rk_err *err)
{
	/* Uploads take long: whatever else changed meanwhile is nobody's conflict, a name that was taken is. */
	int rc = rk_store_begin(world->store, -1, err);

	if (rc)
		return rc;
	rc = rk_store_add_image(world->store, image, err);
	if (!rc)
		return rk_store_commit(world->store, err);
	rk_store_rollback(world->store);
	return rc;
}

int rk_image_add(struct rk_world *world, const struct rk_image_add *request, struct rk_arena *arena, struct rk_image_added *ret, struct rk_err *err)
{
	struct file f = { .fd = -1 };
	int rc = check_name(world, request->name, err);

	*ret = (struct rk_image_added){ .image.name = request->name };
	if (!rc && request->path)
		rc = open_file(request->path, &f, err);
	if (!rc)
		rc = request->path   ? put_on_trays(world, request, &f, arena, ret, err)
		     : world->bundle ? rk_heard_volume(rk_bundle_heard(world->bundle), world, request, arena, ret, err)
				     : rk_image_volume(world, request, arena, ret, err);
	if (f.fd >= 0)
		close(f.fd);
	return rc || request->dry_run ? rc : write_down(world, &ret->image, err);
}
