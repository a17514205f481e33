#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "provision/op_impl.h"

/* The threads that carry steps out. They touch their node only, and only between send and receive. */

static void work_on(struct rk_run *r, struct rk_node *node)
{
	const struct rk_step_kind *kind = node->step.kind;
	const char *before = node->step.before;

	rk_err_clear(&node->err);
	node->rc = 0;
	node->present = 0;
	if (node->phase == RK_PROBE)
		node->rc = kind->probe(r->world, &node->step, &node->present, &node->err);
	else if (node->phase == RK_APPLY)
		node->rc = kind->apply(r->world, &node->step, &node->err);
	else if (kind->undo)
		node->rc = kind->undo(r->world, &node->step, &node->err);
	/* What the first attempt saw is what undo must restore; a resumed step sees its own half-done work. */
	if (before)
		node->step.before = before;
}

static void *worker(void *arg)
{
	struct rk_run *r = arg;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		while (!r->n_jobs && !r->quit)
			pthread_cond_wait(&r->work, &r->lock);
		if (!r->n_jobs)
			break;
		int at = r->jobs[r->first_job];
		r->first_job = (r->first_job + 1) % r->n;
		r->n_jobs--;
		pthread_mutex_unlock(&r->lock);
		work_on(r, &r->nodes[at]);
		pthread_mutex_lock(&r->lock);
		r->results[r->n_results++] = at;
		pthread_cond_signal(&r->back);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

void rk_pool_start(struct rk_run *r)
{
	int want = r->world->jobs < 1 ? 1 : r->world->jobs;
	pthread_condattr_t attr;

	if ((size_t)want > r->n)
		want = (int)r->n;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->work, NULL);
	pthread_cond_init(&r->back, &attr);
	pthread_condattr_destroy(&attr);
	r->threads = rk_arena_array(r->arena, (size_t)want, sizeof(*r->threads));
	for (int i = 0; i < want; i++)
		if (pthread_create(&r->threads[r->n_threads], NULL, worker, r) == 0)
			r->n_threads++;
	if (want && !r->n_threads)
		abort();
}

void rk_pool_stop(struct rk_run *r)
{
	pthread_mutex_lock(&r->lock);
	r->quit = true;
	pthread_cond_broadcast(&r->work);
	pthread_mutex_unlock(&r->lock);
	for (int i = 0; i < r->n_threads; i++)
		pthread_join(r->threads[i], NULL);
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->work);
	pthread_cond_destroy(&r->back);
	r->n_threads = 0;
	r->quit = false;
}

void rk_pool_send(struct rk_run *r, int at)
{
	pthread_mutex_lock(&r->lock);
	r->jobs[(r->first_job + r->n_jobs++) % r->n] = at;
	pthread_cond_signal(&r->work);
	pthread_mutex_unlock(&r->lock);
	r->running++;
}

size_t rk_pool_receive(struct rk_run *r, int *ret, int ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	pthread_mutex_lock(&r->lock);
	while (!r->n_results && pthread_cond_timedwait(&r->back, &r->lock, &until) != ETIMEDOUT)
		;
	size_t n = r->n_results;
	for (size_t i = 0; i < n; i++)
		ret[i] = r->results[i];
	r->n_results = 0;
	pthread_mutex_unlock(&r->lock);
	r->running -= n;
	return n;
}
