/* What the files of the store share. Private to inventory/store*.c. */
#pragma once
#include <pthread.h>

#include "inventory/db.h"
#include "inventory/store.h"

struct rk_store {
	char *uri;               /* as given */
	char *shown;             /* the same without password */
	struct rk_db *db;
	enum rk_store_mode mode;
	char *user, *host, *by;  /* by: "user@host pid" */
	long pid;
	bool blank;              /* db is an empty stand-in in memory for a store that is not there yet */
	const struct rk_site *given; /* what db will begin with when it is made; NULL: it is there */
	int schema;
	pthread_mutex_t lock;    /* recursive; held over every call and from begin to commit: steps run on threads and share the handle */
	bool in_change, touched; /* touched: this change is about more than the journal */
	bool composing, in_part; /* begin..commit inside a change are parts of it; one is open */
	bool trying;             /* nothing is kept */
	int64_t revision;        /* inside a change: what it started from */
	char *what;              /* inside a change: its description, for whoever runs into it; the first one wins */
};

struct rk_migration {
	int schema;                    /* number reached by it */
	const char *const *statements; /* ends with NULL */
};
struct rk_store *rk_store_lock(struct rk_store *store);
void rk_store_unlock(struct rk_store **store);
#define RK_STORE_HOLD(store) struct rk_store *held_ __attribute__((cleanup(rk_store_unlock), unused)) = rk_store_lock(store)

extern const struct rk_migration rk_store_migrations[]; /* ends with schema == 0 */
extern const char *const rk_store_tables[];             /* of the newest schema; ends with NULL */
/* Reads the schema number of a database; 0 when it holds no store. */
int rk_store_read_schema(struct rk_db *db, int *ret, struct rk_err *err);
/* Runs the migrations from `from` up to `to` inside one write transaction; another process may have been faster. */
int rk_store_apply_schema(struct rk_db *db, int to, struct rk_err *err);

/* Is the schema the one this program knows? RK_FAILED with a hint otherwise. */
int rk_store_ready(const struct rk_store *store, struct rk_err *err);
/* A function that changes things takes part in the caller's transaction, or runs in one of its own: rk_store_join begins one when there is
 * none (*own), rk_store_part commits it (raising the revision), or rolls it back when rc is not 0. Every join is followed by one part, also when it failed. The "journal" variant leaves the revision
 * alone: journal, leases and audit are no part of a snapshot. */
int rk_store_join(struct rk_store *store, bool *own, struct rk_err *err);
int rk_store_part(struct rk_store *store, bool own, int rc, struct rk_err *err);
int rk_store_part_journal(struct rk_store *store, bool own, int rc, struct rk_err *err);
/* Describes the running change, for the conflict message of others. */
void rk_store_what(struct rk_store *store, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A statement that may be refused by a constraint without ending the transaction (PostgreSQL would). guard, statements, unguard. */
int rk_store_guard(struct rk_store *store, struct rk_err *err);
void rk_store_unguard(struct rk_store *store, int rc);
/* Is there a row? One text argument. */
int rk_store_exists(struct rk_store *store, const char *sql, const char *name, bool *ret, struct rk_err *err);
/* RK_NOT_FOUND `no <kind> "<name>"` when there is none. */
int rk_store_need(struct rk_store *store, const char *kind, const char *sql, const char *name, struct rk_err *err);
/* RK_CONFLICT when a service has the port as a server; of a transaction. */
int rk_store_port_not_server(struct rk_store *store, uint64_t guid, struct rk_err *err);
/* RK_CONFLICT when the key is that of a service; of a transaction. */
int rk_store_key_not_served(struct rk_store *store, const char *fabric, uint16_t pkey, struct rk_err *err);
/* RK_CONFLICT when one of this number was left behind; of a transaction. */
int rk_store_nvl_not_remains(struct rk_store *store, const char *rack, int id, struct rk_err *err);
int rk_store_ib_not_remains(struct rk_store *store, const char *fabric, uint16_t pkey, struct rk_err *err);
/* Next number of a counter ("op", "cluster", ...), never given twice. */
int rk_store_next(struct rk_store *store, const char *counter, int64_t *ret, struct rk_err *err);
int64_t rk_store_now_ms(void);

/* Of operations and their leases (store_op.c, store_lease.c). */
bool rk_store_op_is_final(const char *state);
int64_t rk_store_process_start(long pid);
int rk_store_renew(struct rk_store *store, int64_t op, struct rk_err *err);

/* The log of use: a VM, which is there by then, gets its tray; it, or all VMs of a cluster, lose theirs. Inside the caller's transaction. */
int rk_store_usage_begin(struct rk_store *store, const char *vm, struct rk_err *err);
int rk_store_usage_end(struct rk_store *store, const char *vm, struct rk_err *err);
int rk_store_usage_end_cluster(struct rk_store *store, const char *cluster, struct rk_err *err);

/* Every table of `from`, at one moment, into a database of the newest schema with a write transaction open. */
int rk_store_copy_tables(struct rk_store *from, struct rk_db *to, struct rk_err *err);

/* Reads the snapshot inside the transaction that is open. */
int rk_store_read_site(struct rk_store *store, struct rk_site **ret, struct rk_err *err);
/* Places the HCAs of `site` on the leaves of every imported fabric and keeps that. */
int rk_store_place_leaves(struct rk_store *store, struct rk_err *err);

/* A row of the table "images". */
#define RK_IMAGE_COLUMNS "pos, name, volume, arch, format, checksum, kernel, initrd, cmdline"
#define RK_IMAGE_VALUES(i)                                                                                                        \
	RK_DB_S((i)->name), RK_DB_S((i)->volume), RK_DB_S((i)->arch), RK_DB_S((i)->format), RK_DB_S((i)->checksum), RK_DB_S((i)->kernel), \
		RK_DB_S((i)->initrd), RK_DB_S((i)->cmdline)

/* What is asked for, as far as a constraint may refuse it. */
struct rk_wanted {
	const char *name, *tray, *uuid, *address, *cluster, *place;
	int number, ssh_port, id;
	uint64_t guid;
};
/* The violation of the last statement (rc) becomes "... is held by ..."; every other rc is returned as it is. */
int rk_store_explain(struct rk_store *store, int rc, const struct rk_wanted *w, struct rk_err *err);
