/* A jump host drops connections early when many arrive at once (MaxStartups is 10): of all threads only so many log in at the same one at the same
 * time. Each jump host has its own gate, so that one that hangs holds up only who has to go through it. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "inventory/base/clock.h"
#include "provision/ssh_impl.h"

enum { HANDSHAKES_MAX = 8 };

struct rk_ssh_gate {
	struct rk_ssh_gate *next;
	char *name;
	size_t users, inside;             /* users: those that wait, too; the last one takes it away */
	pthread_cond_t left;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rk_ssh_gate *gates;

/* With the lock held, as in the other functions without a prefix. */
static struct rk_ssh_gate *join(const char *name)
{
	struct rk_ssh_gate *g = gates;

	while (g && strcmp(g->name, name) != 0)
		g = g->next;
	if (!g) {
		g = rk_xcalloc(1, sizeof(*g));
		*g = (struct rk_ssh_gate){ .next = gates, .name = rk_xstrdup(name) };
		pthread_cond_init(&g->left, NULL);
		gates = g;
	}
	g->users++;
	return g;
}

static void part(struct rk_ssh_gate *g)
{
	struct rk_ssh_gate **at = &gates;

	if (--g->users > 0)
		return;
	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	pthread_cond_destroy(&g->left);
	free(g->name);
	free(g);
}

static void wait_a_little(struct rk_ssh_gate *g, int64_t ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (ms < RK_SSH_SLICE_MS ? ms : RK_SSH_SLICE_MS) * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_clockwait(&g->left, &lock, CLOCK_MONOTONIC, &until);
}

int rk_ssh_gate_enter(const char *name, int64_t until, const volatile int *cancel, struct rk_ssh_gate **ret, struct rk_err *err)
{
	bool cancelled = false;
	int64_t left = 1;

	pthread_mutex_lock(&lock);
	struct rk_ssh_gate *g = join(name);
	while (g->inside >= HANDSHAKES_MAX && !(cancelled = cancel && *cancel) && (left = until - rk_clock_ms(NULL)) > 0)
		wait_a_little(g, left);
	bool in = g->inside < HANDSHAKES_MAX;
	if (in)
		g->inside++;
	else
		part(g);
	pthread_mutex_unlock(&lock);
	if (!in)
		return cancelled ? rk_err_set(err, RK_CANCELLED, "cancelled") :
				   rk_err_set(err, RK_UNREACHABLE, "ssh %s: jump: timed out: the logins before this one have not ended", name);
	*ret = g;
	return 0;
}

void rk_ssh_gate_leave(struct rk_ssh_gate *gate)
{
	pthread_mutex_lock(&lock);
	gate->inside--;
	pthread_cond_signal(&gate->left);
	part(gate);
	pthread_mutex_unlock(&lock);
}
