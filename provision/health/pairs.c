/* RDMA between pairs: which cable is slow shows only when each port has had more than one partner. Rounds of disjoint pairs; a port keeps its
 * best result, so that a slow partner costs it nothing and only a port that is slow with everybody stands out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/collect.h"
#include "provision/health/parse.h"

enum { ROUNDS = 2, PORT = 18515, SERVER_SECONDS = 40, CLIENT_SECONDS = 30 };

/* Partner of i in a round, by the circle method; n is even. Each round pairs everybody once, no pair comes twice in n - 1 rounds. */
static size_t partner(size_t i, size_t round, size_t n)
{
	size_t last = n - 1, at;

	if (i == last)
		return round % last;
	if (i == round % last)
		return last;
	at = (2 * (round % last) + last - i) % last;
	return at;
}

struct side {
	int status;              /* of the client; -1 = not run */
	char *out, *err;         /* malloc'ed */
	double gbps;
};
struct pairs {
	struct rk_world *world;
	const int *vms;
	size_t n, even, round;
	int rails;
	struct side *best;       /* [target][rail] */
};

/* Size and queue pairs of the field notes. Devices are taken in the order in which the host lists them. server NULL: wait for a client; else be
 * one, and try again until the server is there. Only the client writes a report. */
static const char *command(struct rk_arena *arena, int rail, const char *server)
{
	const char *tool = "ib_write_bw -d \"$d\" -p \"$port\" -s 8388608 -q 4 -x 0 -F --report_gbits";
	const char *set = rk_arena_printf(arena, "command -v ib_write_bw >/dev/null || exit 127; rail=%d port=%d; d=$(ibstat -l | sed -n \"$((rail + 1))p\"); "
						 "[ -n \"$d\" ] || exit 127; ", rail, PORT + rail);

	if (!server)
		return rk_arena_printf(arena, "%stimeout %d %s >/dev/null", set, SERVER_SECONDS, tool);
	return rk_arena_printf(arena, "%sf=$(mktemp) || exit 1; for i in 1 2 3 4 5 6; do timeout %d %s --out_json --out_json_file=\"$f\" %s >&2; rc=$?; "
				      "[ $rc = 1 ] || break; sleep 1; done; cat \"$f\"; rm -f \"$f\"; exit $rc", set, CLIENT_SECONDS, tool, server);
}

static int run(struct rk_world *world, int vm, const char *text, struct rk_ssh_result *result)
{
	const char *argv[] = { "sh", "-c", text, NULL };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_vm_conn *conn = NULL;
	int rc = rk_vm_connect(world, vm, &conn, &err);

	if (!rc) {
		rk_vm_limit(conn, (SERVER_SECONDS + 10) * 1000, (SERVER_SECONDS + 10) * 1000);
		rc = rk_vm_run(conn, argv, result, &err);
	}
	rk_vm_close(conn);
	return rc;
}

/* The server waits for one client. */
struct duel {
	struct rk_world *world;
	int vm[2];
	const char *text[2];
	struct rk_ssh_result result[2];
	int rc[2];
};

static void one_end(void *ctx, size_t i)
{
	struct duel *d = ctx;

	d->rc[i] = run(d->world, d->vm[i], d->text[i], &d->result[i]);
}

static double measured(struct rk_arena *arena, const char *out)
{
	struct rk_evidence e = { "ib-write-bw", out, strlen(out), "", 0, "0" };
	struct rk_metrics m = { .arena = arena };

	rk_parse_ib_write_bw(&e, &m);
	for (size_t i = 0; i < m.n; i++) {
		if (strcmp(m.items[i].name, "ibbw.gbps") == 0 && m.items[i].type == RK_METRIC_NUMBER)
			return m.items[i].number;
	}
	return -1;
}

/* The better one stays; any answer is better than none. */
static void keep(struct side *best, int status, const struct rk_ssh_result *result, double gbps)
{
	if (best->status >= 0 && gbps <= best->gbps)
		return;
	free(best->out);
	free(best->err);
	*best = (struct side){ status, rk_xstrdup(rk_str_text(&result->out)), rk_xstrdup(rk_str_text(&result->err)), gbps };
}

static void one_duel(const struct pairs *p, size_t client, size_t server, int rail)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const char *address = p->world->site->vms[p->vms[server]].address;
	struct duel d = { p->world, { p->vms[server], p->vms[client] }, { command(arena, rail, NULL), command(arena, rail, address ? address : "localhost") },
			  { { .status = -1 }, { .status = -1 } }, { 0 } };

	rk_fanout(2, 2, one_end, &d);
	if (!d.rc[1])
		keep(&p->best[client * (size_t)p->rails + (size_t)rail], d.result[1].status, &d.result[1], measured(arena, rk_str_text(&d.result[1].out)));
	rk_ssh_result_clear(&d.result[0]);
	rk_ssh_result_clear(&d.result[1]);
}

static void one_pair(void *ctx, size_t i)
{
	const struct pairs *p = ctx;
	size_t other = partner(i, p->round, p->even);

	/* The pair is run by its first member; with an odd number one target rests. */
	if (other <= i || i >= p->n || other >= p->n)
		return;
	for (int rail = 0; rail < p->rails; rail++) {
		one_duel(p, i, other, rail);
		one_duel(p, other, i, rail);
	}
}

static void add_evidence(const struct pairs *p, size_t target, struct rk_arena *arena, struct rk_target *t)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT, err RK_CLEANUP_STR = RK_STR_INIT;
	const char *status = "unreachable";

	for (int rail = 0; rail < p->rails; rail++) {
		struct side *s = &p->best[target * (size_t)p->rails + (size_t)rail];
		if (s->status >= 0) {
			bool first = strcmp(status, "unreachable") == 0;
			status = first || s->status ? rk_arena_printf(arena, "%d", s->status) : status;
			rk_str_add(&out, s->out);
			rk_str_add(&err, s->err);
		}
		free(s->out);
		free(s->err);
	}
	struct rk_evidence *e = &t->evidence[t->n_evidence++];
	*e = (struct rk_evidence){ "ib-write-bw", rk_arena_strdup(arena, rk_str_text(&out)), out.len, rk_arena_strdup(arena, rk_str_text(&err)), err.len, status };
}

void rk_collect_pairs(struct rk_world *world, const int *vms, size_t n, struct rk_arena *arena, struct rk_target *targets)
{
	struct pairs p = { .world = world, .vms = vms, .n = n, .even = n + n % 2 };

	if (n < 2)
		return;
	for (size_t i = 0; i < n; i++)
		p.rails = targets[i].expect.rails > p.rails ? targets[i].expect.rails : p.rails;
	p.best = rk_xcalloc(n * (size_t)p.rails + 1, sizeof(*p.best));
	for (size_t i = 0; i < n * (size_t)p.rails; i++)
		p.best[i].status = -1;
	for (p.round = 0; p.round < ROUNDS && p.round + 1 < p.even; p.round++) {
		char text[96];
		snprintf(text, sizeof(text), "RDMA between pairs: round %zu of %d", p.round + 1, p.even - 1 < ROUNDS ? (int)p.even - 1 : ROUNDS);
		if (world->progress && !world->sim)
			world->progress(world->progress_ctx, text);
		rk_fanout(n, world->jobs > 0 ? world->jobs : 64, one_pair, &p);
	}
	for (size_t i = 0; i < n; i++)
		add_evidence(&p, i, arena, &targets[i]);
	free(p.best);
}
