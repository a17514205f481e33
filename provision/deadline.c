#include "provision/deadline.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "inventory/base/mem.h"

enum { SLICE_MS = 100, STACK_BYTES = 1 << 20 };

struct job {
	pthread_mutex_t lock;
	pthread_cond_t done_cond;
	void (*fn)(void *ctx);
	void (*dispose)(void *ctx);
	void *ctx;
	bool done, abandoned;
};

static void job_free(struct job *job)
{
	pthread_mutex_destroy(&job->lock);
	pthread_cond_destroy(&job->done_cond);
	free(job);
}

static void *job_main(void *arg)
{
	struct job *job = arg;

	job->fn(job->ctx);
	pthread_mutex_lock(&job->lock);
	job->done = true;
	bool abandoned = job->abandoned;
	pthread_cond_signal(&job->done_cond);
	pthread_mutex_unlock(&job->lock);
	if (abandoned) {
		job->dispose(job->ctx);
		job_free(job);
	}
	return NULL;
}

static struct job *job_start(void (*fn)(void *ctx), void (*dispose)(void *ctx), void *ctx)
{
	struct job *job = rk_xcalloc(1, sizeof(*job));
	pthread_condattr_t cond;
	pthread_attr_t attr;
	pthread_t thread;

	job->fn = fn;
	job->dispose = dispose;
	job->ctx = ctx;
	pthread_mutex_init(&job->lock, NULL);
	pthread_condattr_init(&cond);
	pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
	pthread_cond_init(&job->done_cond, &cond);
	pthread_condattr_destroy(&cond);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	int rc = pthread_create(&thread, &attr, job_main, job);
	pthread_attr_destroy(&attr);
	if (rc == 0)
		return job;
	job_free(job);
	return NULL;
}

static void add_ms(struct timespec *t, int ms)
{
	t->tv_sec += ms / 1000;
	t->tv_nsec += (long)(ms % 1000) * 1000000;
	if (t->tv_nsec >= 1000000000) {
		t->tv_sec++;
		t->tv_nsec -= 1000000000;
	}
}

static bool later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec >= b->tv_nsec;
}

/* With the lock held; true when the job is done. */
static bool job_wait(struct job *job, int ms, const volatile int *cancel)
{
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	add_ms(&end, ms);
	while (!job->done && !(cancel && *cancel)) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (later(&now, &end))
			break;
		add_ms(&now, SLICE_MS);
		pthread_cond_timedwait(&job->done_cond, &job->lock, later(&now, &end) ? &end : &now);
	}
	return job->done;
}

int rk_deadline_run(void (*fn)(void *ctx), void (*dispose)(void *ctx), void *ctx, int ms, const volatile int *cancel, struct rk_err *err)
{
	struct job *job = job_start(fn, dispose, ctx);

	if (!job) {
		dispose(ctx);
		return rk_err_set(err, RK_FAILED, "no thread can be started");
	}
	pthread_mutex_lock(&job->lock);
	bool done = job_wait(job, ms, cancel);
	job->abandoned = !done;
	pthread_mutex_unlock(&job->lock);
	if (done) {
		job_free(job);
		return 0;
	}
	if (cancel && *cancel)
		return rk_err_set(err, RK_CANCELLED, "cancelled");
	return rk_err_set(err, RK_UNREACHABLE, "no answer within %d ms", ms);
}
