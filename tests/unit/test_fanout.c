#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include <cmocka.h>

#include "provision/deadline.h"
#include "provision/ssh.h"

enum { N = 5000 };

static void count(void *ctx, size_t i)
{
	atomic_fetch_add(&((atomic_int *)ctx)[i], 1);
}

static void every_index_runs_exactly_once(void **state)
{
	static const int jobs[] = { -3, 0, 1, 2, 64, 100000 };

	(void)state;
	for (size_t j = 0; j < RK_ARRAY_SIZE(jobs); j++) {
		atomic_int *runs = calloc(N, sizeof(*runs));
		rk_fanout(N, jobs[j], count, runs);
		for (size_t i = 0; i < N; i++)
			assert_int_equal(runs[i], 1);
		free(runs);
	}
}

static void must_not_run(void *ctx, size_t i)
{
	(void)ctx;
	(void)i;
	fail();
}

static void no_work_starts_nothing(void **state)
{
	(void)state;
	rk_fanout(0, 64, must_not_run, NULL);
}

struct meet {
	pthread_barrier_t barrier;
};

static void wait_for_the_others(void *ctx, size_t i)
{
	(void)i;
	pthread_barrier_wait(&((struct meet *)ctx)->barrier);
}

/* Would hang if the jobs ran one after another. */
static void jobs_run_at_the_same_time(void **state)
{
	struct meet meet;

	(void)state;
	pthread_barrier_init(&meet.barrier, NULL, 8);
	rk_fanout(8, 8, wait_for_the_others, &meet);
	pthread_barrier_destroy(&meet.barrier);
}

/* Never destroyed: the thread that posts last may still be inside. */
static sem_t release, disposed;

struct slow {
	int result;
};

static void answers(void *ctx)
{
	((struct slow *)ctx)->result = 42;
}

static void hangs(void *ctx)
{
	(void)ctx;
	sem_wait(&release);
}

static void dispose(void *ctx)
{
	free(ctx);
	sem_post(&disposed);
}

static void a_call_in_time_gives_its_result_back(void **state)
{
	struct slow slow = { 0 };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	(void)state;
	assert_int_equal(rk_deadline_run(answers, dispose, &slow, 60000, NULL, &err), 0);
	assert_int_equal(slow.result, 42);
}

static void abandon(int ms, const volatile int *cancel, int want)
{
	struct slow *slow = calloc(1, sizeof(*slow));
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	sem_init(&release, 0, 0);
	sem_init(&disposed, 0, 0);
	assert_int_equal(rk_deadline_run(hangs, dispose, slow, ms, cancel, &err), want);
	sem_post(&release);
	sem_wait(&disposed); /* hangs for ever if the abandoned context were not freed */
}

static void a_call_that_hangs_is_abandoned_and_its_context_freed_later(void **state)
{
	(void)state;
	abandon(1, NULL, RK_UNREACHABLE);
}

static void a_cancelled_call_is_abandoned_at_once(void **state)
{
	volatile int cancel = 1;

	(void)state;
	abandon(600000, &cancel, RK_CANCELLED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_index_runs_exactly_once),
		cmocka_unit_test(no_work_starts_nothing),
		cmocka_unit_test(jobs_run_at_the_same_time),
		cmocka_unit_test(a_call_in_time_gives_its_result_back),
		cmocka_unit_test(a_call_that_hangs_is_abandoned_and_its_context_freed_later),
		cmocka_unit_test(a_cancelled_call_is_abandoned_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
