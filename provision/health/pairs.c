/* RDMA between pairs: which cable is slow shows only when each port has had more than one partner. Rounds of disjoint pairs; a port keeps its
 * best result, so that a slow partner costs it nothing and only a port that is slow with everybody stands out. Those play once more, against a
 * good one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/collect.h"
#include "provision/health/parse.h"

enum { ROUNDS = 2, ROUNDS_MORE = 3, PORT = 18515, SERVER_SECONDS = 40, CLIENT_SECONDS = 30, WAY_SECONDS = 60, USUAL_SECONDS = 8, DECIDERS_MAX = 8, NOBODY = -1 };
#define SUSPECT 0.95 /* of the best of its rail: below that a port plays once more, against a good one */

/* Partner of i in a round, by the circle method; n is even. Each round pairs everybody once, no pair comes twice in n - 1 rounds. */
size_t rk_round_partner(size_t i, size_t round, size_t n)
{
	size_t last = n - 1, at;

	if (i == last)
		return round % last;
	if (i == round % last)
		return last;
	at = (2 * (round % last) + last - i) % last;
	return at;
}

/* With an odd number one rests in each round: a third one gives everybody two partners. Of four, two that are good have to meet. */
size_t rk_turns(size_t n, int jobs)
{
	size_t at_once = jobs > 0 ? (size_t)jobs : 64;

	return (n + at_once - 1) / at_once;
}

size_t rk_rounds(size_t n)
{
	size_t want = n % 2 || n == 4 ? ROUNDS_MORE : ROUNDS, most = n + n % 2 - 1;

	return want < most ? want : most;
}

struct side {
	int status;              /* of the client; -1 = not run */
	char *out, *err;         /* malloc'ed */
	double gbps;             /* below 0: no result */
	char *why;               /* there is none, as far as that is known; malloc'ed */
};
struct pairs {
	struct rk_world *world;
	const int *vms;
	size_t n;
	int rails;
	long *partner;           /* per target in this round, or NOBODY */
	struct side *best;       /* [target][rail] */
};

/* Size and queue pairs of the field notes. Devices are taken in rail order. server NULL: wait for a client; else be
 * one, and try again until the server is there. Only the client writes a report. */
static const char *command(struct rk_arena *arena, int rail, const char *server)
{
	const char *tool = "ib_write_bw -d \"$d\" -p \"$port\" -s 8388608 -q 4 -x 0 -F --report_gbits";
	const char *set = rk_arena_printf(arena, "command -v ib_write_bw >/dev/null || exit 127; rail=%d port=%d; d=$({ " RK_IB_DEVICES "; } | sed -n \"$((rail + 1))p\"); "
						 "[ -n \"$d\" ] || exit 127; ", rail, PORT + rail);

	if (!server)
		return rk_arena_printf(arena, "%stimeout %d %s >/dev/null", set, SERVER_SECONDS, tool);
	return rk_arena_printf(arena, "%sf=$(mktemp) || exit 1; trap 'rm -f \"$f\"; exit 143' TERM; for i in 1 2 3 4 5 6; do timeout %d %s --out_json --out_json_file=\"$f\" %s >&2; rc=$?; "
				      "[ $rc = 1 ] || break; sleep 1; done; cat \"$f\"; rm -f \"$f\"; exit $rc", set, CLIENT_SECONDS, tool, server);
}

int rk_measure_on(struct rk_world *world, int vm, const char *text, int seconds, struct rk_ssh_result *result, struct rk_err *err)
{
	const char *argv[] = { "sh", "-c", text, NULL };
	struct rk_vm_conn *conn = NULL;
	int rc = rk_vm_connect(world, vm, (seconds + WAY_SECONDS) * 1000, &conn, err);

	if (!rc) {
		rk_vm_limit(conn, seconds * 1000, seconds * 1000);
		rc = rk_vm_run_tied(conn, argv, result, err);
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
	struct rk_err err[2];
	int rc[2];
};

static void one_end(void *ctx, size_t i)
{
	struct duel *d = ctx;

	d->rc[i] = rk_measure_on(d->world, d->vm[i], d->text[i], SERVER_SECONDS + 10, &d->result[i], &d->err[i]);
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
static void keep(struct side *best, const struct rk_ssh_result *result, double gbps)
{
	if (best->status >= 0 && gbps <= best->gbps)
		return;
	free(best->out);
	free(best->err);
	best->out = rk_xstrdup(rk_str_text(&result->out));
	best->err = rk_xstrdup(rk_str_text(&result->err));
	best->status = result->status;
	best->gbps = gbps;
}

static struct side *side_of(const struct pairs *p, size_t target, int rail)
{
	return &p->best[target * (size_t)p->rails + (size_t)rail];
}

static void one_duel(const struct pairs *p, size_t client, size_t server, int rail)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const char *address = p->world->site->vms[p->vms[server]].address;
	struct duel d = { p->world, { p->vms[server], p->vms[client] }, { command(arena, rail, NULL), command(arena, rail, address ? address : "localhost") },
			  { { .status = -1 }, { .status = -1 } }, { RK_ERR_INIT, RK_ERR_INIT }, { 0 } };

	rk_fanout(2, 2, one_end, &d);
	struct side *s = side_of(p, client, rail);
	if (!d.rc[1])
		keep(s, &d.result[1], measured(arena, rk_str_text(&d.result[1].out)));
	const char *why = d.rc[1] ? d.err[1].message : d.rc[0] ? d.err[0].message : NULL;
	if (why && !s->why)
		s->why = rk_xstrdup(why);
	for (int i = 0; i < 2; i++) {
		rk_ssh_result_clear(&d.result[i]);
		rk_err_clear(&d.err[i]);
	}
}

/* Below the best one: the median may be of ports that met slow partners. A port without any result is for the rule to judge, it does not get
 * better by another try. */
static bool suspect(const struct pairs *p, size_t target, int rail)
{
	double best = 0, own = side_of(p, target, rail)->gbps;

	for (size_t i = 0; i < p->n; i++) {
		const struct side *s = side_of(p, i, rail);
		best = s->status == 0 && s->gbps > best ? s->gbps : best;
	}
	return own > 0 && own < SUSPECT * best;
}

static bool any_suspect(const struct pairs *p, size_t target)
{
	for (int rail = 0; rail < p->rails; rail++)
		if (suspect(p, target, rail))
			return true;
	return false;
}

static void one_pair(void *ctx, size_t i)
{
	const struct pairs *p = ctx;
	long other = p->partner[i];

	/* The pair is run by its first member. */
	if (other == NOBODY || (size_t)other <= i)
		return;
	for (int rail = 0; rail < p->rails; rail++) {
		one_duel(p, i, (size_t)other, rail);
		one_duel(p, (size_t)other, i, rail);
	}
}

static void play(struct pairs *p, const char *text)
{
	if (p->world->progress && !p->world->sim)
		p->world->progress(p->world->progress_ctx, text);
	rk_fanout(p->n, p->world->jobs > 0 ? p->world->jobs : 64, one_pair, p);
}

static void play_round(struct pairs *p, size_t round, size_t rounds)
{
	size_t even = p->n + p->n % 2;
	char text[96];

	for (size_t i = 0; i < p->n; i++) {
		size_t other = rk_round_partner(i, round, even);
		p->partner[i] = other < p->n ? (long)other : NOBODY;
	}
	snprintf(text, sizeof(text), "RDMA between pairs: round %zu of %zu", round + 1, rounds);
	play(p, text);
}

/* One round of suspects against targets that are good on every rail; who has had its turn does not come again. Returns the number of pairs. */
static size_t pair_suspects(struct pairs *p, const bool *bad, bool *played)
{
	size_t good = 0, pairs = 0;

	for (size_t i = 0; i < p->n; i++)
		p->partner[i] = NOBODY;
	for (size_t i = 0; i < p->n; i++) {
		while (good < p->n && bad[good])
			good++;
		if (!bad[i] || played[i] || good == p->n)
			continue;
		p->partner[i] = (long)good;
		p->partner[good++] = (long)i;
		played[i] = true;
		pairs++;
	}
	return pairs;
}

/* Who was slow with all its partners so far may have met slow ones only: one more match against somebody good. */
static void play_deciders(struct pairs *p)
{
	bool *bad RK_CLEANUP_FREE = rk_xcalloc(p->n, sizeof(*bad)), *played RK_CLEANUP_FREE = rk_xcalloc(p->n, sizeof(*played));
	char text[96];

	for (int round = 0; round < DECIDERS_MAX; round++) {
		for (size_t i = 0; i < p->n; i++)
			bad[i] = any_suspect(p, i);
		size_t pairs = pair_suspects(p, bad, played);
		if (!pairs)
			return;
		snprintf(text, sizeof(text), "RDMA between pairs: %zu slow ones once more, against good ones", pairs);
		play(p, text);
	}
}

int rk_pairs_seconds(size_t n, int rails, int jobs)
{
	return n < 2 ? 0 : (int)(rk_rounds(n) * rk_turns(n / 2, jobs)) * rails * 2 * USUAL_SECONDS;
}

/* What the other rails brought must not speak for it. A tool that is missing has its own status. */
static void add_lost(struct rk_str *out, const struct side *s, int rail)
{
	if (s->gbps >= 0 || s->status == 127)
		return;
	rk_str_addf(out, "%s" RK_RAIL_LOST "%d: ", out->len && out->text[out->len - 1] != '\n' ? "\n" : "", rail);
	const char *why = s->why ? s->why : "no result";
	rk_str_add_escaped(out, why, strlen(why));
	rk_str_addc(out, '\n');
}

/* "unreachable" when no connection came through. */
static const char *status_of(const struct pairs *p, size_t target, struct rk_arena *arena)
{
	int status = -1;

	for (int rail = 0; rail < p->rails; rail++) {
		int own = side_of(p, target, rail)->status;
		status = own > 0 || own > status ? own : status;
	}
	return status < 0 ? "unreachable" : rk_arena_printf(arena, "%d", status);
}

static void add_evidence(const struct pairs *p, size_t target, struct rk_arena *arena, struct rk_target *t)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT, err RK_CLEANUP_STR = RK_STR_INIT;
	const char *status = status_of(p, target, arena);
	bool reached = strcmp(status, "unreachable") != 0;

	for (int rail = 0; rail < p->rails; rail++) {
		struct side *s = side_of(p, target, rail);
		rk_str_add(&out, s->out ? s->out : "");
		rk_str_add(&err, s->err ? s->err : "");
		if (reached && rail < t->expect.rails)
			add_lost(&out, s, rail);
		else if (!reached && !err.len && s->why)
			rk_str_add(&err, s->why);
		free(s->out);
		free(s->err);
		free(s->why);
	}
	struct rk_evidence *e = &t->evidence[t->n_evidence++];
	*e = (struct rk_evidence){ "ib-write-bw", rk_arena_strdup(arena, rk_str_text(&out)), out.len, rk_arena_strdup(arena, rk_str_text(&err)), err.len, status };
}

void rk_collect_pairs(struct rk_world *world, const int *vms, size_t n, struct rk_arena *arena, struct rk_target *targets)
{
	struct pairs p = { .world = world, .vms = vms, .n = n };

	if (n < 2)
		return;
	for (size_t i = 0; i < n; i++)
		p.rails = targets[i].expect.rails > p.rails ? targets[i].expect.rails : p.rails;
	p.best = rk_xcalloc(n * (size_t)p.rails + 1, sizeof(*p.best));
	p.partner = rk_xcalloc(n, sizeof(*p.partner));
	for (size_t i = 0; i < n * (size_t)p.rails; i++)
		p.best[i] = (struct side){ .status = -1, .gbps = -1 };
	for (size_t round = 0; round < rk_rounds(n); round++)
		play_round(&p, round, rk_rounds(n));
	play_deciders(&p);
	for (size_t i = 0; i < n; i++)
		add_evidence(&p, i, arena, &targets[i]);
	free(p.partner);
	free(p.best);
}
