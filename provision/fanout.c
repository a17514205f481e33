#include <pthread.h>
#include <stdatomic.h>

#include "provision/ssh.h"

enum { STACK_BYTES = 512 << 10, JOBS_MAX = 4096 };

struct fanout {
	atomic_size_t next;
	size_t n;
	void (*fn)(void *ctx, size_t i);
	void *ctx;
};

static void *worker(void *arg)
{
	struct fanout *f = arg;

	for (;;) {
		size_t i = atomic_fetch_add(&f->next, 1);
		if (i >= f->n)
			return NULL;
		f->fn(f->ctx, i);
	}
}

void rk_fanout(size_t n, int jobs, void (*fn)(void *ctx, size_t i), void *ctx)
{
	struct fanout f = { 0, n, fn, ctx };
	size_t want = jobs < 1 ? 1 : jobs > JOBS_MAX ? JOBS_MAX : (size_t)jobs;

	if (want > n)
		want = n;
	/* The caller is one of the workers: with a single job nothing is started, and threads that cannot be made only cost speed. */
	size_t started = 0;
	pthread_t *threads = want > 1 ? rk_xcalloc(want - 1, sizeof(*threads)) : NULL;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	while (started + 1 < want && pthread_create(&threads[started], &attr, worker, &f) == 0)
		started++;
	pthread_attr_destroy(&attr);
	worker(&f);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}
