/* All-reduce over many hosts. One VM starts it with MPI on all, so the VMs have to trust each other over SSH; where MPI is missing the
 * checks are skipped. First every rack by itself, all at once: they share nothing. Then pairs of racks in rounds: a rack is in one pair at a
 * time, and after two partners a slow rack is known from a slow path between two good ones. */
#include <stdio.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/collect.h"
#include "provision/health/parse.h"
#include "provision/health/rules.h"

enum { LIMIT_SECONDS = 300, USUAL_SECONDS = 90, NOBODY = -1 };

struct domain {
	const char *rack;
	size_t *members, n;      /* indexes of targets */
	long partner;            /* in this round, or NOBODY */
	struct rk_str out;       /* of all its runs */
	int status;              /* worst so far; -1: nothing was run */
};
struct rounds {
	struct rk_world *world;
	const int *vms;
	struct rk_target *targets;
	struct domain *domains;
	size_t n;
};

static bool can_take_part(const struct rk_target *t)
{
	return t->rack && t->address && t->expect.gpus > 0;
}

static void group(struct rounds *r, size_t n_targets, struct rk_arena *arena)
{
	r->domains = rk_arena_array(arena, n_targets + 1, sizeof(*r->domains));
	for (size_t i = 0; i < n_targets; i++) {
		size_t d = 0;
		if (!can_take_part(&r->targets[i]))
			continue;
		while (d < r->n && strcmp(r->domains[d].rack, r->targets[i].rack) != 0)
			d++;
		if (d == r->n)
			r->domains[r->n++] = (struct domain){ .rack = r->targets[i].rack, .members = rk_arena_array(arena, n_targets, sizeof(size_t)), .status = -1 };
		r->domains[d].members[r->domains[d].n++] = i;
	}
}

/* Four processes on each VM, one per GPU. Both streams in one: what MPI says belongs to the run. */
static const char *command(struct rk_arena *arena, const struct rounds *r, const struct domain *const *domains, size_t n)
{
	struct rk_str hosts RK_CLEANUP_STR = RK_STR_INIT, quoted RK_CLEANUP_STR = RK_STR_INIT;
	int ranks = 0, gpus = r->targets[domains[0]->members[0]].expect.gpus;

	for (size_t d = 0; d < n; d++)
		for (size_t i = 0; i < domains[d]->n; i++) {
			rk_str_addf(&hosts, "%s%s:%d", hosts.len ? "," : "", r->targets[domains[d]->members[i]].address, gpus);
			ranks += gpus;
		}
	rk_shell_quote(&quoted, rk_str_text(&hosts));
	return rk_arena_printf(arena, "command -v mpirun >/dev/null && command -v all_reduce_perf >/dev/null || exit 127; export LC_ALL=C; timeout %d mpirun "
				      "--allow-run-as-root --host %s -np %d --map-by ppr:%d:node -x LC_ALL -x NCCL_DEBUG=WARN all_reduce_perf -b 16G -e 16G -g 1 "
				      "-c 1 2>&1", LIMIT_SECONDS, rk_str_text(&quoted), ranks, gpus);
}

/* lost: why there is no result, or NULL. */
static void keep(struct domain *d, const char *lost, const struct rk_ssh_result *result, const char *peer)
{
	if (peer)
		rk_str_addf(&d->out, "# racksh: pair %s %s\n", d->rack, peer);
	rk_str_addn(&d->out, rk_str_text(&result->out), result->out.len);
	if (d->out.len && d->out.text[d->out.len - 1] != '\n')
		rk_str_addc(&d->out, '\n');
	if (lost) {
		rk_str_add(&d->out, RK_RUN_LOST);
		rk_str_add_escaped(&d->out, lost, strlen(lost));
		rk_str_addc(&d->out, '\n');
	}
	/* As ssh says it. A run that was lost is not one that nobody wanted. */
	int status = lost ? 255 : result->status;
	d->status = status > d->status ? status : d->status;
}

static void measure(const struct rounds *r, struct domain *a, struct domain *b)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const struct domain *both[] = { a, b };
	struct rk_ssh_result result = { .status = -1 };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	int rc = rk_measure_on(r->world, r->vms[a->members[0]], command(arena, r, both, b ? 2 : 1), LIMIT_SECONDS + 10, &result, &err);
	const char *lost = rc ? err.message : result.status < 0 ? "it was killed" : NULL;

	keep(a, lost, &result, b ? b->rack : NULL);
	if (b)
		keep(b, lost, &result, a->rack);
	rk_ssh_result_clear(&result);
}

static void one_domain(void *ctx, size_t i)
{
	const struct rounds *r = ctx;

	if (r->domains[i].n > 1)
		measure(r, &r->domains[i], NULL);
}

static void one_pair(void *ctx, size_t i)
{
	const struct rounds *r = ctx;
	long other = r->domains[i].partner;

	if (other != NOBODY && (size_t)other > i)
		measure(r, &r->domains[i], &r->domains[other]);
}

static void run_all(struct rounds *r, void (*fn)(void *ctx, size_t i), const char *text)
{
	if (r->world->progress && !r->world->sim)
		r->world->progress(r->world->progress_ctx, text);
	rk_fanout(r->n, r->world->jobs > 0 ? r->world->jobs : 64, fn, r);
}

/* The run of a rack is the evidence of each of its VMs. */
static void hand_out(struct rounds *r, const char *collector, struct rk_arena *arena)
{
	for (size_t i = 0; i < r->n; i++) {
		struct domain *d = &r->domains[i];
		if (d->status >= 0) {
			const char *out = rk_arena_strdup(arena, rk_str_text(&d->out)), *status = rk_arena_printf(arena, "%d", d->status);
			for (size_t m = 0; m < d->n; m++) {
				struct rk_target *t = &r->targets[d->members[m]];
				t->evidence[t->n_evidence++] = (struct rk_evidence){ collector, out, strlen(out), "", 0, d->status == 124 ? "timeout" : status };
			}
		}
		rk_str_clear(&d->out);
		d->status = -1;
	}
}

static void pair_up(struct rounds *r, size_t round)
{
	size_t even = r->n + r->n % 2;

	for (size_t i = 0; i < r->n; i++) {
		size_t other = rk_round_partner(i, round, even);
		r->domains[i].partner = other < r->n ? (long)other : NOBODY;
	}
}

void rk_collect_nccl(struct rk_world *world, const struct rk_texts *level, const int *vms, size_t n, struct rk_arena *arena, struct rk_target *targets)
{
	struct rounds r = { .world = world, .vms = vms, .targets = targets };
	char text[96];

	group(&r, n, arena);
	if (rk_texts_have(level, "nccl-domain")) {
		run_all(&r, one_domain, "all-reduce over all trays of each rack");
		hand_out(&r, "nccl-domain", arena);
	}
	if (!rk_texts_have(level, "nccl-racks") || r.n < 2)
		return;
	for (size_t round = 0; round < rk_rounds(r.n); round++) {
		pair_up(&r, round);
		snprintf(text, sizeof(text), "all-reduce over pairs of racks: round %zu of %zu", round + 1, rk_rounds(r.n));
		run_all(&r, one_pair, text);
	}
	hand_out(&r, "nccl-racks", arena);
}

int rk_nccl_seconds(const struct rk_texts *level, const struct rk_target *targets, size_t n, int jobs)
{
	size_t racks = 0;

	for (size_t i = 0; i < n; i++) {
		size_t k = 0;
		while (k < i && !rk_streq(targets[k].rack, targets[i].rack))
			k++;
		racks += k == i;
	}
	size_t domains = rk_texts_have(level, "nccl-domain") && n > racks ? rk_turns(racks, jobs) : 0;
	size_t pairs = rk_texts_have(level, "nccl-racks") && racks > 1 ? rk_rounds(racks) * rk_turns(racks / 2, jobs) : 0;
	return USUAL_SECONDS * (int)(domains + pairs);
}
