#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/contract/store_kinds.h"

/* Processes that allocate at random in one store, all at once. */

enum { WRITERS = 8, ATTEMPTS = 20000, ATTEMPTS_SERVER = 4000 };

/* Of each writer. A server takes minutes for so many on two cores: RACKSH_ALLOCATIONS=20000 is for a long run. */
static int rounds_wanted(const struct fixture *f)
{
	const char *text = getenv("RACKSH_ALLOCATIONS");
	int all = text && atoi(text) > 0 ? atoi(text) : f->kind == &postgresql ? ATTEMPTS_SERVER : ATTEMPTS;

	return (all + WRITERS - 1) / WRITERS;
}

/* One writer: takes and gives back at random; a refusal is fine, anything else is not. Exit code 0 when all went as it should. */
static int wild_writer(const struct fixture *f, int who)
{
	const struct rk_actor actor = { "w", "console", getpid() };
	RK_CLEANUP_STORE struct rk_store *store = NULL;
	unsigned seed = (unsigned)who * 7919 + 1;
	char cluster[32];

	if (rk_store_open(f->uri, RK_STORE_WRITE, &actor, &store, NULL))
		return 2;
	snprintf(cluster, sizeof(cluster), "w%d", who);
	const struct rk_new_cluster c = { cluster, "heron", "s", NULL, "{}", "[]", 1, 0, 0 };
	if (rk_store_add_cluster(store, &c, NULL))
		return 3;
	for (int i = 1, rounds = rounds_wanted(f); i <= rounds; i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		int rc = rk_store_begin(store, -1, &err), what = rand_r(&seed) % 4, n = rand_r(&seed) % 6 + 1;
		if (!rc)
			rc = what == 0	 ? rk_store_add_nvl_partition(store, "k1", n * 3 + what, cluster, "p", &err)
			     : what == 1 ? rk_store_add_ib_partition(store, "ib0", (uint16_t)(0x100 + n * 4), cluster, "p", true, &err)
					 : try_vm(store, f->site, cluster, i, rand_r(&seed) % 12, &err);
		rc = rc ? rc : rk_store_commit(store, &err);
		rk_store_rollback(store);
		if (rc && rc != RK_CONFLICT) {
			fprintf(stderr, "writer %d: %s\n", who, err.message);
			return 4;
		}
		if (i % 5)
			continue;
		/* Everything it has goes back, so that others have their turn. */
		if (rk_store_remove_cluster(store, cluster, NULL) || rk_store_add_cluster(store, &c, NULL))
			return 5;
	}
	return 0;
}

/* What the constraints promise, looked at from outside while everybody writes. */
static void nothing_is_held_twice(const struct rk_site *s)
{
	for (size_t i = 0; i < s->n_vms; i++)
		for (size_t j = i + 1; j < s->n_vms; j++)
			assert_int_not_equal(s->vms[i].tray, s->vms[j].tray);
	for (size_t i = 0; i < s->n_nvl_partitions; i++)
		for (size_t j = i + 1; j < s->n_nvl_partitions; j++)
			assert_false(s->nvl_partitions[i].rack == s->nvl_partitions[j].rack && s->nvl_partitions[i].id == s->nvl_partitions[j].id);
	for (size_t i = 0; i < s->n_ib_partitions; i++)
		for (size_t j = i + 1; j < s->n_ib_partitions; j++)
			assert_int_not_equal(s->ib_partitions[i].pkey, s->ib_partitions[j].pkey);
}

static void eight_writers_never_hold_a_thing_twice(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	pid_t pids[WRITERS];

	rk_store_close(rk_steal(&f->store)); /* neither database likes a handle across fork */
	for (int w = 0; w < WRITERS; w++) {
		pids[w] = fork();
		if (pids[w] == 0)
			_exit(wild_writer(f, w));
	}
	f->store = open_as(f->uri, &alice, RK_STORE_WRITE);
	for (int i = 0; i < 50; i++) {
		RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
		nothing_is_held_twice(s);
	}
	for (int w = 0; w < WRITERS; w++) {
		int status = -1;
		assert_int_equal(waitpid(pids[w], &status, 0), pids[w]);
		assert_int_equal(status, 0);
	}
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_int_equal(s->n_clusters, WRITERS);
	nothing_is_held_twice(s);
	must(rk_store_check(f->store, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(eight_writers_never_hold_a_thing_twice, sqlite),
		EACH(eight_writers_never_hold_a_thing_twice, postgresql),
	};

	/* Twenty thousand times waiting for a disk would test the disk. */
	if (access("/dev/shm", W_OK) == 0)
		snprintf(folder, sizeof(folder), "/dev/shm/racksh-store-XXXXXX");
	return run_store_tests(tests);
}
