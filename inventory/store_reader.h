/* What the files share that read a snapshot from rows. Private to inventory/store_read*.c. */
#pragma once
#include "inventory/base/map.h"
#include "inventory/store_impl.h"

enum { COLUMNS_MAX = 32 };

struct rk_row_reader {
	struct rk_site *site;
	struct rk_arena *arena;
	struct rk_map *tenants, *clusters;  /* name -> index; row id -> index */
	const char *last[COLUMNS_MAX];      /* last text of each column: neighbours often say the same */
};

/* A text of the row in the arena; NULL for SQL NULL. */
const char *rk_read_column(struct rk_row_reader *r, const struct rk_db_row *row, int column);
/* A position in a table as an index; RK_FAILED when there is no such row. */
int rk_read_position(const char *table, int64_t value, size_t n, int *ret, struct rk_err *err);
/* Row functions (store_read_alloc.c). */
int rk_read_cluster(void *ctx, const struct rk_db_row *row, struct rk_err *err);
int rk_read_vm(void *ctx, const struct rk_db_row *row, struct rk_err *err);
int rk_read_nvl(void *ctx, const struct rk_db_row *row, struct rk_err *err);
int rk_read_ib(void *ctx, const struct rk_db_row *row, struct rk_err *err);
int rk_read_service(void *ctx, const struct rk_db_row *row, struct rk_err *err);
int rk_read_remains(void *ctx, const struct rk_db_row *row, struct rk_err *err);
int rk_read_reservation(void *ctx, const struct rk_db_row *row, struct rk_err *err);
int rk_read_silence(void *ctx, const struct rk_db_row *row, struct rk_err *err);
/* Once all clusters were read: by name, with their row ids known. */
int rk_read_sort_clusters(void *ctx, const struct rk_db_row *row, struct rk_err *err);
/* At the end: what belongs to a cluster lies together. */
void rk_read_link_clusters(struct rk_site *s);
