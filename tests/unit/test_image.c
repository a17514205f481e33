/* Images on their way to the trays: which trays, what is remembered, what is said. The trays are made up here. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/digest.h"
#include "inventory/base/file.h"
#include "inventory/site_file.h"
#include "provision/image.h"

enum { BYTES = 1 << 20, PIECE = 1 << 18 };

/* What each tray's volume_upload does: so many pieces, then a class. */
struct tray_plan {
	int pieces, rc;
	uint64_t from;   /* where it was told to go on */
	uint64_t have;   /* bytes acknowledged */
	int calls;
};

struct fixture {
	struct rk_hv hv;
	struct rk_world world;
	char folder[64], *path;
	struct tray_plan plans[18];
	pthread_mutex_t lock;
	char *last;      /* last line of progress */
};

static struct fixture *at;

static int upload(struct rk_hv *hv, int tray, const char *pool, const char *name, const struct rk_hv_upload *up, struct rk_err *err)
{
	struct tray_plan *plan = &at->plans[tray];

	(void)hv;
	assert_string_equal(pool, "default");
	assert_string_equal(name, "new.raw");
	assert_true(up->bytes == BYTES);
	plan->calls++;
	plan->from = up->done;
	plan->have = up->done;
	for (int i = 0; plan->have < BYTES && (plan->rc == 0 || i < plan->pieces); i++) {
		plan->have += PIECE;
		if (!up->progress(up->ctx, plan->have))
			return rk_err_set(err, RK_CANCELLED, "stopped");
	}
	return plan->rc ? rk_err_set(err, plan->rc, "tray %d: broken", tray) : 0;
}

/* Tray 3 has no volume "some.raw", tray 4 one of another length, tray 5 does not answer when it is read. */
static int volume_get(struct rk_hv *hv, int tray, const char *pool, const char *name, struct rk_arena *arena, struct rk_hv_volume *ret, struct rk_err *err)
{
	uint64_t bytes = tray == 4 ? 2 * BYTES : BYTES;

	(void)hv, (void)pool, (void)arena, (void)err;
	*ret = (struct rk_hv_volume){ .exists = tray != 3 || strcmp(name, "some.raw") != 0, .bytes = bytes, .path = "/pool/x", .file_bytes = bytes };
	return 0;
}

static int volume_read(struct rk_hv *hv, int tray, const char *pool, const char *name, uint64_t offset, void *bytes, size_t n, struct rk_err *err)
{
	(void)hv;
	assert_string_equal(pool, "default");
	assert_true(offset + n <= (tray == 4 ? 2 * BYTES : BYTES));
	memset(bytes, 0, n);
	if (!offset && strcmp(name, "packed.raw") == 0)
		memcpy(bytes, "\x1f\x8b", 2);
	return tray == 5 ? rk_err_set(err, RK_UNREACHABLE, "tray 5 does not answer") : 0;
}

static void nothing(struct rk_hv *hv)
{
	(void)hv;
}

static const struct rk_hv_ops ops = { .volume_upload = upload, .volume_get = volume_get, .volume_read = volume_read, .free = nothing };

static void progress(void *ctx, const char *text)
{
	(void)ctx;
	pthread_mutex_lock(&at->lock);
	free(at->last);
	at->last = rk_xstrdup(text);
	pthread_mutex_unlock(&at->lock);
}

static int set_up(void **state)
{
	static const struct rk_actor me = { "me", "here", 1 };
	struct fixture *f = at = rk_xcalloc(1, sizeof(*f));
	struct rk_site *site = NULL;
	char *image RK_CLEANUP_FREE = rk_xcalloc(1, BYTES);

	pthread_mutex_init(&f->lock, NULL);
	snprintf(f->folder, sizeof(f->folder), "%s", "/tmp/racksh-image.XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	f->path = rk_xasprintf("%s/new.raw", f->folder);
	memset(image, 'x', 100);
	assert_int_equal(rk_file_write(f->path, image, BYTES, 0600, NULL), 0);
	assert_int_equal(rk_site_load("tests/examples/site-1.json", &site, NULL), 0);
	rk_site_invent(site);
	assert_int_equal(rk_store_open("mem:", RK_STORE_WRITE, &me, &f->world.store, NULL), 0);
	assert_int_equal(rk_store_begin(f->world.store, -1, NULL), 0);
	assert_int_equal(rk_store_put_site(f->world.store, site, NULL), 0);
	assert_int_equal(rk_store_commit(f->world.store, NULL), 0);
	rk_site_free(site);
	assert_int_equal(rk_store_snapshot(f->world.store, &f->world.site, NULL), 0);
	f->hv = (struct rk_hv){ &ops, f->world.site };
	f->world.hv = &f->hv;
	f->world.jobs = 4;
	f->world.progress = progress;
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	pid_t pid = fork();

	if (pid == 0)
		execlp("rm", "rm", "-rf", f->folder, (char *)NULL);
	waitpid(pid, NULL, 0);
	rk_world_close(&f->world);
	free(f->path);
	free(f->last);
	free(f);
	return 0;
}

static int add(struct fixture *f, const char *trays, struct rk_image_added *added, struct rk_arena *arena, struct rk_err *err)
{
	const struct rk_image_add request = { .name = "new", .path = f->path, .trays = trays, .state_folder = f->folder };

	return rk_image_add(&f->world, &request, arena, added, err);
}

static int stored(struct fixture *f)
{
	RK_CLEANUP_SITE struct rk_site *site = NULL;

	assert_int_equal(rk_store_snapshot(f->world.store, &site, NULL), 0);
	return rk_find_image(site, "new");
}

static void an_image_is_written_down_when_every_tray_has_it(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct fixture *f = *state;
	struct rk_image_added added;

	assert_int_equal(add(f, NULL, &added, arena, &err), 0);
	assert_int_equal(added.trays, 18);
	assert_string_equal(added.image.volume, "default/new.raw");
	assert_string_equal(added.image.arch, "aarch64");
	assert_true(rk_starts_with(added.image.checksum, "sha256:"));
	assert_string_equal(f->last, "image new: 100 % of 1 MiB on 18 trays");
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	assert_int_equal(rk_store_snapshot(f->world.store, &site, NULL), 0);
	const struct rk_image *image = &site->images[rk_find_image(site, "new")];
	assert_string_equal(image->format, "raw");
	assert_string_equal(image->checksum, added.image.checksum);
}

static void an_upload_goes_on_where_it_was_broken_off(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct fixture *f = *state;
	struct rk_image_added added;

	f->plans[3] = (struct tray_plan){ .pieces = 3, .rc = RK_UNREACHABLE };
	assert_int_equal(add(f, NULL, &added, arena, &err), RK_PARTIAL);
	assert_string_equal(err.message, "image \"new\" is not on 1 of 18 trays");
	assert_int_equal(err.n_details, 1);
	assert_string_equal(err.details[0], "tray 3: broken");
	assert_int_equal(stored(f), RK_NONE);
	f->plans[3].rc = 0;
	assert_int_equal(add(f, NULL, &added, arena, &err), 0);
	assert_true(f->plans[3].from == 3 * PIECE);
	/* Another tray was complete: its mark is gone, the host is asked to compare from the start. */
	assert_true(f->plans[4].from == 0);
	assert_int_not_equal(stored(f), RK_NONE);
}

static void another_file_of_the_same_name_starts_anew(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	char *image RK_CLEANUP_FREE = rk_xcalloc(1, BYTES);
	struct fixture *f = *state;
	struct rk_image_added added;

	f->plans[0] = (struct tray_plan){ .pieces = 2, .rc = RK_FAILED };
	assert_int_equal(add(f, "r01-t01", &added, arena, &err), RK_FAILED);
	f->plans[0].rc = 0;
	assert_int_equal(rk_file_write(f->path, image, BYTES, 0600, NULL), 0);
	assert_int_equal(add(f, "r01-t01", &added, arena, &err), 0);
	assert_true(f->plans[0].from == 0);
}

static void only_the_chosen_trays_get_it(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct fixture *f = *state;
	struct rk_image_added added;

	assert_int_equal(add(f, "r01-t[02-03]", &added, arena, &err), 0);
	assert_int_equal(added.trays, 2);
	for (int i = 0; i < 18; i++)
		assert_int_equal(f->plans[i].calls, i == 1 || i == 2);
}

static void all_silent_trays_are_one_class(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct fixture *f = *state;
	struct rk_image_added added;

	for (int i = 0; i < 18; i++)
		f->plans[i].rc = RK_UNREACHABLE;
	assert_int_equal(add(f, NULL, &added, arena, &err), RK_UNREACHABLE);
	assert_int_equal(err.n_details, 18);
}

static void a_cancelled_upload_can_go_on(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct fixture *f = *state;
	struct rk_image_added added;
	volatile int cancel = 0;

	f->world.cancel = &cancel;
	f->plans[0] = (struct tray_plan){ .pieces = 1, .rc = RK_FAILED };
	assert_int_equal(add(f, "r01-t01", &added, arena, &err), RK_FAILED);
	cancel = 1;
	assert_int_equal(add(f, "r01-t01", &added, arena, &err), RK_CANCELLED);
	cancel = 0;
	f->plans[0].rc = 0;
	assert_int_equal(add(f, "r01-t01", &added, arena, &err), 0);
	assert_true(f->plans[0].from == PIECE);
}

static int add_volume(struct fixture *f, const char *volume, const char *trays, struct rk_image_added *added, struct rk_arena *arena, struct rk_err *err)
{
	const struct rk_image_add request = { .name = "new", .volume = volume, .trays = trays };

	return rk_image_add(&f->world, &request, arena, added, err);
}

static void a_volume_is_written_down_when_it_is_the_same_image_on_every_tray(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct fixture *f = *state;
	struct rk_image_added added;

	assert_int_equal(add_volume(f, "default/other.raw", "r01-t[01-04]", &added, arena, &err), 0);
	assert_int_equal(added.trays, 4);
	assert_string_equal(added.image.format, "raw");
	assert_true(added.bytes == BYTES && added.disk_bytes == BYTES);
	assert_null(added.image.checksum);
	assert_int_not_equal(stored(f), RK_NONE);
}

static void a_volume_that_is_not_the_same_everywhere_is_refused(void **state)
{
	static const struct {
		const char *volume, *trays, *message, *detail;
		int rc;
	} cases[] = {
		{ "default/some.raw", "r01-t[01-04]", "image \"new\" is not on 1 of 4 trays", "tray \"r01-t04\": there is no volume \"default/some.raw\"", RK_PARTIAL },
		{ "default/some.raw", "r01-t04", "image \"new\" is not on 1 of 1 trays", "there is no volume", RK_NOT_FOUND },
		{ "default/other.raw", "r01-t[01-06]", "image \"new\" is not on 1 of 6 trays", "tray 5 does not answer", RK_PARTIAL },
		{ "default/other.raw", "r01-t[01-05]", "not the same everywhere: raw of 1048576 bytes on r01-t01, raw of 2097152 bytes on r01-t05", NULL, RK_INVALID },
		{ "default/packed.raw", "r01-t01", "image \"new\" is not on 1 of 1 trays", "is gzip-compressed, neither qcow2 nor raw", RK_INVALID },
		{ "default", "r01-t01", "\"default\" is neither a file nor a volume", NULL, RK_INVALID },
	};
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fixture *f = *state;
	struct rk_image_added added;

	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		assert_int_equal(add_volume(f, cases[i].volume, cases[i].trays, &added, arena, &err), cases[i].rc);
		assert_non_null(strstr(err.message, cases[i].message));
		if (cases[i].detail)
			assert_non_null(strstr(err.details[0], cases[i].detail));
		assert_int_equal(stored(f), RK_NONE);
	}
}

static void pieces_give_the_digest_of_the_whole(void **state)
{
	static const size_t steps[] = { 1, 7, 63, 64, 65, 1000 };
	char text[4096], whole[65], pieces[65];

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 31 % 251);
	for (size_t s = 0; s < RK_ARRAY_SIZE(steps); s++)
		for (size_t len = 0; len < sizeof(text); len += 131) {
			struct rk_sha256 sum = RK_SHA256_INIT;
			for (size_t done = 0; done < len; done += steps[s])
				rk_sha256_add(&sum, text + done, len - done < steps[s] ? len - done : steps[s]);
			rk_sha256_end(&sum, pieces);
			rk_sha256_hex(text, len, whole);
			assert_string_equal(pieces, whole);
		}
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(an_image_is_written_down_when_every_tray_has_it),
		EACH(an_upload_goes_on_where_it_was_broken_off),
		EACH(another_file_of_the_same_name_starts_anew),
		EACH(only_the_chosen_trays_get_it),
		EACH(all_silent_trays_are_one_class),
		EACH(a_cancelled_upload_can_go_on),
		EACH(a_volume_is_written_down_when_it_is_the_same_image_on_every_tray),
		EACH(a_volume_that_is_not_the_same_everywhere_is_refused),
		cmocka_unit_test(pieces_give_the_digest_of_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
