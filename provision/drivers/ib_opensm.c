/* InfiniBand partitions through OpenSM's partitions file over SSH (field/infiniband.md 2.4). OpenSM fails open on a broken file and reads
 * it again at any heavy sweep, so the file is only ever replaced whole, by rename, after it was read by rules stricter than OpenSM's. */
#include <pthread.h>
#include <string.h>

#include "provision/drivers/opensm_impl.h"

const struct rk_fabric *rk_opensm_fabric(const struct opensm *sm, int fabric)
{
	return &sm->ib.site->fabrics[fabric];
}

const char *rk_opensm_path(const struct opensm *sm, int fabric)
{
	const char *file = rk_opensm_fabric(sm, fabric)->partitions_file;

	return file ? file : "/etc/opensm/partitions.conf";
}

static int cmp_member(const void *a, const void *b)
{
	uint64_t x = ((const struct rk_ib_member *)a)->guid, y = ((const struct rk_ib_member *)b)->guid;

	return (x > y) - (x < y);
}

static void to_live(const struct rk_part *part, struct rk_arena *arena, struct rk_ib_live *ret)
{
	*ret = (struct rk_ib_live){ part->pkey, part->name, part->ours, rk_arena_array(arena, part->n_members + 1, sizeof(*ret->members)), 0 };
	for (size_t i = 0; i < part->n_members; i++)
		if (part->members[i].who == RK_PART_GUID)
			ret->members[ret->n_members++] = (struct rk_ib_member){ part->members[i].guid, part->members[i].full };
	qsort(ret->members, ret->n_members, sizeof(*ret->members), cmp_member);
	/* A port written twice with the same word (with different ones the file was refused) is one member. */
	size_t kept = 0;
	for (size_t i = 0; i < ret->n_members; i++)
		if (!kept || ret->members[kept - 1].guid != ret->members[i].guid)
			ret->members[kept++] = ret->members[i];
	ret->n_members = kept;
}

static int sm_list(struct rk_ib *ib, int fabric, struct rk_arena *arena, struct rk_ib_live **ret, size_t *ret_n, struct rk_err *err)
{
	struct opensm *sm = (struct opensm *)ib;
	struct rk_partitions parts;
	struct opensm_file file;
	size_t host = 0, n = rk_opensm_fabric(sm, fabric)->manager.n_ssh;
	int rc;

	pthread_mutex_lock(&sm->fabrics[fabric].lock);
	do
		rc = rk_opensm_read(sm, fabric, host, arena, &file, err);
	while (rc == RK_UNREACHABLE && ++host < n);
	if (rc == 0)
		rc = rk_partitions_parse(rk_opensm_path(sm, fabric), file.text, file.len, arena, &parts, err);
	if (rc == 0) {
		*ret = rk_arena_array(arena, parts.n, sizeof(**ret));
		*ret_n = parts.n;
		for (size_t i = 0; i < parts.n; i++)
			to_live(&parts.items[i], arena, &(*ret)[i]);
	}
	return rk_ib_ssh_finish(&sm->fabrics[fabric], rc, err);
}

static struct rk_ib_ssh *reader(struct rk_ib *ib, int fabric)
{
	return &((struct opensm *)ib)->fabrics[fabric];
}

static int sm_tables(struct rk_ib *ib, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err)
{
	return rk_ib_ssh_tables(reader(ib, fabric), guids, n, arena, ret, err);
}

static int sm_discover(struct rk_ib *ib, int fabric, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	return rk_ib_ssh_discover(reader(ib, fabric), arena, ret, err);
}

static int sm_paths(struct rk_ib *ib, int fabric, struct rk_ib_path *paths, size_t n, struct rk_arena *arena, struct rk_err *err)
{
	return rk_ib_ssh_paths(reader(ib, fabric), paths, n, arena, err);
}

static int sm_counters(struct rk_ib *ib, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_reading *ret, struct rk_err *err)
{
	return rk_ib_ssh_counters(reader(ib, fabric), guids, n, arena, ret, err);
}

static void sm_free(struct rk_ib *ib)
{
	struct opensm *sm = (struct opensm *)ib;

	for (size_t i = 0; i < sm->n_fabrics; i++)
		rk_ib_ssh_clear(&sm->fabrics[i]);
	free(sm->fabrics);
	free(sm);
}

static const struct rk_ib_ops ops = { sm_list, rk_opensm_set, sm_tables, sm_discover, sm_paths, sm_counters, NULL, sm_free };

int rk_ib_opensm(const struct rk_driver_env *env, struct rk_ib **ret, struct rk_err *err)
{
	struct opensm *sm = rk_xcalloc(1, sizeof(*sm));

	(void)err;
	sm->ib = (struct rk_ib){ &ops, env->site };
	sm->env = *env;
	sm->n_fabrics = env->site->n_fabrics;
	sm->fabrics = rk_xcalloc(sm->n_fabrics ? sm->n_fabrics : 1, sizeof(*sm->fabrics));
	for (size_t i = 0; i < sm->n_fabrics; i++)
		rk_ib_ssh_init(&sm->fabrics[i], &sm->env, &sm->ib, (int)i);
	*ret = &sm->ib;
	return 0;
}
