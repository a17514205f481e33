#include "cli/notice.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inventory/base/mem.h"

struct seen {
	int64_t id;
	char *state;
};
struct rk_notices {
	bool looked;
	struct rk_str pulse;             /* of the store when it was looked at last */
	size_t unfinished;
	int64_t revision, newest;        /* newest: operation that was there */
	struct {
		struct seen *items;
		size_t n, cap;
	} ops;                           /* those that were not over */
};

struct rk_notices *rk_notices_new(void)
{
	return rk_xcalloc(1, sizeof(struct rk_notices));
}

void rk_notices_free(struct rk_notices *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->ops.n; i++)
		free(n->ops.items[i].state);
	free(n->ops.items);
	rk_str_clear(&n->pulse);
	free(n);
}

static bool unfinished(const char *state)
{
	return strcmp(state, "running") == 0 || strcmp(state, "resumable") == 0 || strcmp(state, "awaiting-confirm") == 0;
}

/* by is "user@host pid". */
static bool by_me(const char *by)
{
	const char *pid = by ? strrchr(by, ' ') : NULL;

	return pid && strtol(pid + 1, NULL, 10) == (long)getpid();
}

static struct seen *known(struct rk_notices *n, int64_t id)
{
	for (size_t i = n->ops.n; i > 0; i--)
		if (n->ops.items[i - 1].id == id)
			return &n->ops.items[i - 1];
	return NULL;
}

static void tell(struct rk_str *out, const struct rk_op_row *op)
{
	if (out)
		rk_str_addf(out, "* operation %lld of %s is %s: %s\n", (long long)op->id, op->by ? op->by : "somebody", op->state, op->command);
}

static bool look_at_op(struct rk_notices *n, const struct rk_op_row *op, struct rk_str *out)
{
	struct seen *s = known(n, op->id);

	if (s && strcmp(s->state, op->state) == 0)
		return false;
	if (!s) {
		s = rk_vec_push(&n->ops);
		s->id = op->id;
	}
	free(s->state);
	s->state = rk_xstrdup(op->state);
	if (n->looked && !by_me(op->by) && strcmp(op->state, "running") != 0)
		tell(out, op);
	return true;
}

/* Those that were not over when it was looked last, and those that began since. */
static bool look_at_each(struct rk_notices *n, struct rk_world *world, struct rk_arena *arena, struct rk_str *out)
{
	struct rk_op_row *rows, row;
	size_t n_rows, n_known = n->ops.n;
	bool changed = false;

	if (!n->looked && !rk_store_op_newest(world->store, 1, arena, &rows, &n_rows, NULL) && n_rows)
		n->newest = rows[0].id;
	for (size_t i = 0; i < n_known; i++)
		if (!rk_store_op_get(world->store, n->ops.items[i].id, arena, &row, NULL))
			changed |= look_at_op(n, &row, out);
	if (rk_store_op_open(world->store, n->newest + 1, arena, &rows, &n_rows, NULL))
		return changed;
	n->unfinished = 0;
	for (size_t i = n_rows; i > 0; i--) {
		changed |= look_at_op(n, &rows[i - 1], out);
		n->unfinished += unfinished(rows[i - 1].state) && !(by_me(rows[i - 1].by) && strcmp(rows[i - 1].state, "running") == 0);
	}
	if (n_rows && rows[0].id > n->newest)
		n->newest = rows[0].id;
	return changed;
}

static void forget_those_over(struct rk_notices *n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n->ops.n; i++) {
		if (unfinished(n->ops.items[i].state))
			n->ops.items[kept++] = n->ops.items[i];
		else
			free(n->ops.items[i].state);
	}
	n->ops.n = kept;
}

static bool look_at_ops(struct rk_notices *n, struct rk_world *world, struct rk_str *out)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	size_t before = n->unfinished;
	bool changed = look_at_each(n, world, arena, out);

	forget_those_over(n);
	return changed || before != n->unfinished;
}

/* What is bad about a tray, worst first; NULL: nothing. */
static const char *bad_state(const struct rk_tray *tray, const char **ret_text)
{
	const struct {
		const char *what, *text;
	} states[] = { { "leaks", tray->leak }, { "is offline", tray->offline }, { "is faulty", tray->faulty } };

	for (size_t i = 0; i < RK_ARRAY_SIZE(states); i++)
		if (states[i].text) {
			*ret_text = states[i].text;
			return states[i].what;
		}
	*ret_text = NULL;
	return NULL;
}

/* The snapshot that is held is the old one: what is bad now and was not then. */
static void look_at_trays(const struct rk_site *old, const struct rk_site *now, struct rk_str *out)
{
	for (size_t i = 0; i < now->n_trays; i++) {
		int before = rk_find_tray(old, now->trays[i].name);
		const char *was = NULL, *is, *what = bad_state(&now->trays[i], &is);
		if (before >= 0)
			bad_state(&old->trays[before], &was);
		if (what && !rk_streq(was, is))
			rk_str_addf(out, "* tray %s %s: %s\n", now->trays[i].name, what, is);
	}
}

static bool look_at_site(struct rk_notices *n, struct rk_world *world, struct rk_str *out)
{
	RK_CLEANUP_SITE struct rk_site *now = NULL;

	if (rk_store_snapshot(world->store, &now, NULL))
		return false;
	bool changed = now->revision != n->revision;
	if (n->looked && changed && out && world->site)
		look_at_trays(world->site, now, out);
	n->revision = now->revision;
	return changed && rk_world_refresh(world, NULL) == 0;
}

/* Is there anything to look at? When that cannot be told, yes. */
static bool moved(struct rk_notices *n, struct rk_world *world)
{
	struct rk_str now RK_CLEANUP_STR = RK_STR_INIT;
	bool same = rk_store_pulse(world->store, &now, NULL) == 0 && rk_streq(rk_str_text(&now), rk_str_text(&n->pulse));

	rk_str_reset(&n->pulse);
	rk_str_add(&n->pulse, rk_str_text(&now));
	return !same;
}

bool rk_notices_poll(struct rk_notices *n, struct rk_world *world, struct rk_str *out)
{
	if (!world->store || (!moved(n, world) && n->looked))
		return false;
	bool changed = look_at_ops(n, world, out);
	changed |= look_at_site(n, world, out);
	n->looked = true;
	return changed;
}

size_t rk_notices_unfinished(const struct rk_notices *n)
{
	return n->unfinished;
}
