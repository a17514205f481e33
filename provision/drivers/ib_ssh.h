/* Reading an InfiniBand fabric over SSH with the tools of infiniband-diags on the manager's host: P_Key tables, paths, counters, discovery. Used by
 * every driver whose site entry names a host ("ssh"). */
#pragma once
#include <pthread.h>

#include "provision/drivers/session.h"
#include "provision/ib.h"

struct rk_ib_ssh {                        /* of one fabric */
	const struct rk_driver_env *env;  /* borrowed */
	const struct rk_ib *ib;           /* borrowed: its site is the newest */
	int fabric;
	pthread_mutex_t lock;             /* one command at a time */
	struct rk_session session;
	size_t way;                       /* how the reader of whole fabrics gets to the host (ib_reader.c); what did not work is not tried again */
	struct rk_map *routes;            /* port GUID -> index into route_texts, as last seen */
	struct rk_arena *route_arena;
	const char **route_texts;
};
void rk_ib_ssh_init(struct rk_ib_ssh *s, const struct rk_driver_env *env, const struct rk_ib *ib, int fabric);
void rk_ib_ssh_clear(struct rk_ib_ssh *s);

/* With the lock held: a command on manager `host`, or on the first one that can be reached. */
int rk_ib_ssh_run_at(struct rk_ib_ssh *s, size_t host, int total_ms, const char *const *argv, const char *input, size_t len,
		     struct rk_ssh_result *result, struct rk_err *err);
int rk_ib_ssh_run_any(struct rk_ib_ssh *s, int total_ms, const char *const *argv, const char *input, size_t len, struct rk_ssh_result *result,
		      struct rk_err *err);
/* Releases the lock; says in err which fabric it was. Returns rc. */
int rk_ib_ssh_finish(struct rk_ib_ssh *s, int rc, struct rk_err *err);
/* Marks our own lines in an answer that may hold anything. */
const char *rk_nonce(struct rk_arena *arena);

/* As in struct rk_ib_ops; they take the lock, but the _locked one. */
int rk_ib_ssh_tables(struct rk_ib_ssh *s, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err);
int rk_ib_ssh_tables_locked(struct rk_ib_ssh *s, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err);
/* All tables of the fabric in one go, with the lock held. RK_NOT_FOUND: that cannot be done there. */
int rk_ib_reader_tables(struct rk_ib_ssh *s, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err);
/* The same for a few ports, without looking for them when a former reading saw where they are. */
int rk_ib_reader_some(struct rk_ib_ssh *s, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err);
/* What the program printed, from its first line on. */
int rk_ib_reader_take(const char *text, const char *mark, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err);
const char *rk_ib_reader_program(size_t *ret_len);
void rk_ib_reader_forget(struct rk_ib_ssh *s); /* the routes */
extern const char rk_ib_link_down[];      /* why of a port that is down */
int rk_ib_ssh_paths(struct rk_ib_ssh *s, struct rk_ib_path *paths, size_t n, struct rk_arena *arena, struct rk_err *err);
int rk_ib_ssh_counters(struct rk_ib_ssh *s, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_reading *ret, struct rk_err *err);
int rk_ib_ssh_discover_locked(struct rk_ib_ssh *s, struct rk_arena *arena, const char **ret, struct rk_err *err);
int rk_ib_ssh_discover(struct rk_ib_ssh *s, struct rk_arena *arena, const char **ret, struct rk_err *err);
