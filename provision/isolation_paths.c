#include "provision/isolation_impl.h"

#include <inttypes.h>
#include <string.h>

/* What the subnet administrator says: no path across tenants, and, so that this means something, one inside of each. */

enum { PATHS_MAX = 256 };

struct question {
	int a, b;                         /* partitions of the store; equal: inside */
};
struct questions {
	struct rk_ib_path *paths;
	struct question *of;
	size_t n;
};

/* Ports of the partition that can be asked about: read, and holding its key as a full member; up to two. */
static size_t two_ports(const struct rk_proof *p, const struct rk_ib_partition *part, uint64_t ret[2])
{
	const struct rk_cluster *c = &p->site->clusters[part->cluster];
	size_t n = 0;

	for (int v = c->first_vm; v < c->first_vm + c->n_vms && n < 2; v++) {
		const struct rk_tray *t = p->site->vms[v].tray == RK_NONE ? NULL : &p->site->trays[p->site->vms[v].tray];
		for (int h = t ? t->first_hca : 0; t && h < t->first_hca + t->n_hcas && n < 2; h++)
			if (p->site->hcas[h].fabric == part->fabric && p->live->ports[h].known && rk_live_port_has(p->live, h, part->pkey | 0x8000u))
				ret[n++] = p->site->hcas[h].port_guid;
	}
	return n;
}

static void ask(struct questions *q, int a, int b, uint64_t from, uint64_t to)
{
	q->paths[q->n] = (struct rk_ib_path){ .from = from, .to = to };
	q->of[q->n++] = (struct question){ a, b };
}

/* Inside every partition, then across pairs of tenants, near neighbours first, until there are enough. */
static void choose_questions(struct rk_proof *p, int fabric, struct questions *q)
{
	size_t n = p->site->n_ib_partitions, used = 0;
	uint64_t (*ports)[2] = rk_arena_array(p->arena, n, sizeof(*ports));
	int *part = rk_arena_array(p->arena, n, sizeof(*part));

	for (size_t i = 0; i < n; i++) {
		uint64_t two[2] = { 0, 0 };
		if (p->site->ib_partitions[i].fabric != fabric || !two_ports(p, &p->site->ib_partitions[i], two))
			continue;
		part[used] = (int)i;
		memcpy(ports[used++], two, sizeof(two));
		if (two[1] && q->n < PATHS_MAX)
			ask(q, (int)i, (int)i, two[0], two[1]);
	}
	for (size_t step = 1; step <= used / 2; step++)
		for (size_t i = 0; i < used && q->n < PATHS_MAX; i++) {
			size_t k = (i + step) % used;
			bool twice = step * 2 == used && i >= step;
			if (!twice && p->site->clusters[p->site->ib_partitions[part[i]].cluster].tenant != p->site->clusters[p->site->ib_partitions[part[k]].cluster].tenant)
				ask(q, part[i], part[k], ports[i][0], ports[k][0]);
		}
}

static void judge_paths(struct rk_proof *p, const char *object, const struct questions *q)
{
	size_t before = p->found.n, across = 0, inside = 0, unknown = 0;
	const char *why = NULL;

	for (size_t i = 0; i < q->n; i++) {
		const struct rk_ib_path *path = &q->paths[i];
		bool same = q->of[i].a == q->of[i].b;
		int a = p->site->clusters[p->site->ib_partitions[q->of[i].a].cluster].tenant, b = p->site->clusters[p->site->ib_partitions[q->of[i].b].cluster].tenant;
		if (path->seen == RK_PATH_UNKNOWN || (same && path->seen == RK_PATH_NONE)) {
			unknown++;
			why = why ? why : path->seen == RK_PATH_UNKNOWN ? path->why : "no path inside a partition whose ports hold its key: the answers prove nothing";
		} else if (!same && path->seen == RK_PATH_FOUND) {
			rk_proof_violate(p, "infiniband", object, a, b, rk_arena_printf(p->arena, "the subnet administrator gives a path from port 0x%016" PRIx64 " to port 0x%016" PRIx64,
									       path->from, path->to));
		}
		across += !same;
		inside += same;
	}
	rk_proof_add_row(p, "infiniband", object, RK_NONE, before, unknown != 0,
		unknown ? rk_arena_printf(p->arena, "%zu of %zu paths: %s", unknown, q->n, why) :
			  rk_arena_printf(p->arena, "no path across in %zu tries, %zu inside", across, inside));
}

void rk_proof_paths(struct rk_proof *p, int fabric)
{
	const char *object = rk_arena_printf(p->arena, "%s paths", p->site->fabrics[fabric].name);
	struct questions q = { rk_arena_array(p->arena, PATHS_MAX, sizeof(*q.paths)), rk_arena_array(p->arena, PATHS_MAX, sizeof(*q.of)), 0 };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	choose_questions(p, fabric, &q);
	if (!q.n)
		return;
	int rc = p->world->ib->ops->paths(p->world->ib, fabric, q.paths, q.n, p->arena, &err);
	if (rc)
		rk_check_add(&p->checks, "infiniband", object, rc == RK_NOT_FOUND ? "skipped" : "unknown", NULL, NULL, rk_arena_strdup(p->arena, err.message));
	else
		judge_paths(p, object, &q);
}
