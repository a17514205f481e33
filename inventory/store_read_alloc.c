#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/store_reader.h"

/* From rows to a snapshot: clusters, what they hold, reservations. */

static int find_tenant(struct rk_row_reader *r, const char *name, int *ret, struct rk_err *err)
{
	size_t at = SIZE_MAX;

	rk_map_get(r->tenants, name, &at);
	return rk_read_position("tenants", at == SIZE_MAX ? -1 : (int64_t)at, r->site->n_tenants, ret, err);
}

int rk_read_cluster(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_cluster *c = &r->site->clusters[r->site->n_clusters++];
	const char *state = rk_db_text(row, 5);

	c->id = rk_db_int(row, 0);
	c->name = rk_read_column(r, row, 1);
	c->size = rk_read_column(r, row, 3);
	c->image = rk_read_column(r, row, 4);
	c->state = RK_CLUSTER_FAILED;
	for (int i = RK_CLUSTER_PLANNED; i <= RK_CLUSTER_FAILED; i++)
		if (strcmp(rk_cluster_state_name((enum rk_cluster_state)i), state) == 0)
			c->state = (enum rk_cluster_state)i;
	c->spec = rk_read_column(r, row, 6);
	c->op = rk_db_int(row, 7);
	c->segment = (int)rk_db_int(row, 8);
	c->spares_per_rack = (int)rk_db_int(row, 9);
	c->reasons = rk_read_column(r, row, 10);
	c->validation = rk_read_column(r, row, 11);
	c->next_number = (int)rk_db_int(row, 12);
	c->ib = RK_NONE;
	return find_tenant(r, rk_db_text(row, 2), &c->tenant, err);
}

/* The row number of the cluster in column 0; clusters are sorted by then. */
static int find_cluster(struct rk_row_reader *r, const struct rk_db_row *row, int *ret, struct rk_err *err)
{
	size_t at = SIZE_MAX;

	rk_map_get_u64(r->clusters, (uint64_t)rk_db_int(row, 0), &at);
	return rk_read_position("clusters", at == SIZE_MAX ? -1 : (int64_t)at, r->site->n_clusters, ret, err);
}

int rk_read_vm(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_vm *v = &r->site->vms[r->site->n_vms++];
	const char *state = rk_db_text(row, 4);
	int rc = find_cluster(r, row, &v->cluster, err);

	v->name = rk_read_column(r, row, 1);
	v->number = (int)rk_db_int(row, 3);
	v->state = RK_VM_UNKNOWN;
	for (int i = RK_VM_PLANNED; i <= RK_VM_UNKNOWN; i++)
		if (strcmp(rk_vm_state_name((enum rk_vm_state)i), state) == 0)
			v->state = (enum rk_vm_state)i;
	v->uuid = rk_read_column(r, row, 5);
	v->address = rk_read_column(r, row, 6);
	v->mac = rk_read_column(r, row, 7);
	v->ssh_port = (int)rk_db_int(row, 8);
	v->generation = (int)rk_db_int(row, 9);
	v->host_key_public = rk_read_column(r, row, 10);
	v->host_name = rk_read_column(r, row, 11);
	return rc ? rc : rk_read_position("vms", rk_db_int(row, 2), r->site->n_trays, &v->tray, err);
}

int rk_read_nvl(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_nvl_partition *p = &r->site->nvl_partitions[r->site->n_nvl_partitions++];
	int rc = find_cluster(r, row, &p->cluster, err);

	p->id = (int)rk_db_int(row, 2);
	p->name = rk_read_column(r, row, 3);
	return rc ? rc : rk_read_position("nvl_partitions", rk_db_int(row, 1), r->site->n_racks, &p->rack, err);
}

int rk_read_ib(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_ib_partition *p = &r->site->ib_partitions[r->site->n_ib_partitions++];
	int rc = find_cluster(r, row, &p->cluster, err);

	p->pkey = (uint16_t)rk_db_int(row, 2);
	p->name = rk_read_column(r, row, 3);
	p->full = rk_db_int(row, 4) != 0;
	return rc ? rc : rk_read_position("ib_partitions", rk_db_int(row, 1), r->site->n_fabrics, &p->fabric, err);
}

/* GUIDs with blanks between. */
static size_t read_servers(const char *text, struct rk_arena *arena, uint64_t **ret)
{
	size_t n = 0;

	*ret = rk_arena_array(arena, strlen(text) / 2 + 1, sizeof(**ret));
	for (const char *word = text; *word; word += strspn(word, " ")) {
		char *guid RK_CLEANUP_FREE = rk_xstrndup(word, strcspn(word, " "));
		n += rk_parse_u64(guid, &(*ret)[n]);
		word += strlen(guid);
	}
	return n;
}

/* Names with commas between; who is no tenant any more has nothing to be served with. */
static size_t read_tenants(struct rk_row_reader *r, const char *text, int **ret)
{
	size_t n = 0;

	*ret = rk_arena_array(r->arena, strlen(text) / 2 + 1, sizeof(**ret));
	for (const char *word = text; *word; word += strspn(word, ",")) {
		char *name RK_CLEANUP_FREE = rk_xstrndup(word, strcspn(word, ","));
		n += find_tenant(r, name, &(*ret)[n], NULL) == 0;
		word += strlen(name);
	}
	return n;
}

/* The place is a position; which one of two columns says what it is. */
int rk_read_remains(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_remains *m = &r->site->remains[r->site->n_remains++];
	const char *both = rk_db_text(row, 3);
	size_t len = strcspn(both, " ");
	uint64_t id = 0;

	*m = (struct rk_remains){ .rack = (int)rk_db_int(row, 0), .fabric = (int)rk_db_int(row, 1) };
	m->name = rk_arena_strndup(r->arena, both, len);
	m->why = rk_arena_strdup(r->arena, both[len] ? both + len + 1 : "");
	if (!rk_parse_u64(rk_db_text(row, 2), &id) || id > RK_NVL_DEFAULT)
		return rk_read_position("marks", RK_NONE, 0, &m->id, err);
	m->id = (int)id;
	return 0;
}

int rk_read_service(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_ib_service *s = &r->site->ib_services[r->site->n_ib_services++];
	const char *tenants = rk_db_text(row, 4);

	*s = (struct rk_ib_service){ .name = rk_read_column(r, row, 0), .pkey = (uint16_t)rk_db_int(row, 2), .all = !tenants };
	s->n_servers = read_servers(rk_db_text(row, 3), r->arena, &s->servers);
	s->n_tenants = read_tenants(r, tenants ? tenants : "", &s->tenants);
	return rk_read_position("ib_services", rk_db_int(row, 1), r->site->n_fabrics, &s->fabric, err);
}

int rk_read_reservation(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_reservation *v = &r->site->reservations[r->site->n_reservations++];

	v->id = rk_db_int(row, 0);
	v->racks = rk_read_column(r, row, 2);
	v->count = (int)rk_db_int(row, 3);
	v->from_unix_ms = rk_db_int(row, 4);
	v->to_unix_ms = rk_db_int(row, 5);
	return find_tenant(r, rk_db_text(row, 1), &v->tenant, err);
}

int rk_read_silence(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;

	(void)err;
	r->site->silences[r->site->n_silences++] = (struct rk_silence){
		.id = rk_db_int(row, 0), .trays = rk_read_column(r, row, 1), .checks = rk_read_column(r, row, 2), .reason = rk_read_column(r, row, 3),
		.from_unix_ms = rk_db_int(row, 4), .to_unix_ms = rk_db_int(row, 5), .by = rk_read_column(r, row, 6),
	};
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct rk_cluster *)a)->name, ((const struct rk_cluster *)b)->name);
}

/* In C, because databases sort texts by their locale. */
int rk_read_sort_clusters(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;

	(void)row, (void)err;
	qsort(r->site->clusters, r->site->n_clusters, sizeof(*r->site->clusters), by_name);
	for (size_t i = 0; i < r->site->n_clusters; i++)
		rk_map_set_u64(r->clusters, (uint64_t)r->site->clusters[i].id, i);
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const struct rk_vm *x = a, *y = b;

	return x->cluster != y->cluster ? (x->cluster > y->cluster) - (x->cluster < y->cluster) : (x->number > y->number) - (x->number < y->number);
}

static int by_place(const void *a, const void *b)
{
	const struct rk_nvl_partition *x = a, *y = b;

	if (x->cluster != y->cluster)
		return (x->cluster > y->cluster) - (x->cluster < y->cluster);
	return x->rack != y->rack ? (x->rack > y->rack) - (x->rack < y->rack) : (x->id > y->id) - (x->id < y->id);
}

static int by_pkey(const void *a, const void *b)
{
	const struct rk_ib_partition *x = a, *y = b;

	return x->cluster != y->cluster ? (x->cluster > y->cluster) - (x->cluster < y->cluster) : (x->pkey > y->pkey) - (x->pkey < y->pkey);
}

static int by_service(const void *a, const void *b)
{
	return strcmp(((const struct rk_ib_service *)a)->name, ((const struct rk_ib_service *)b)->name);
}

/* What belongs to a cluster lies together. */
void rk_read_link_clusters(struct rk_site *s)
{
	qsort(s->vms, s->n_vms, sizeof(*s->vms), by_number);
	qsort(s->nvl_partitions, s->n_nvl_partitions, sizeof(*s->nvl_partitions), by_place);
	qsort(s->ib_partitions, s->n_ib_partitions, sizeof(*s->ib_partitions), by_pkey);
	qsort(s->ib_services, s->n_ib_services, sizeof(*s->ib_services), by_service);
	for (size_t i = s->n_vms; i-- > 0;) {
		s->clusters[s->vms[i].cluster].first_vm = (int)i;
		s->clusters[s->vms[i].cluster].n_vms++;
	}
	for (size_t i = s->n_nvl_partitions; i-- > 0;) {
		s->clusters[s->nvl_partitions[i].cluster].first_nvl = (int)i;
		s->clusters[s->nvl_partitions[i].cluster].n_nvl++;
	}
	for (size_t i = s->n_ib_partitions; i-- > 0;)
		s->clusters[s->ib_partitions[i].cluster].ib = (int)i;
}
