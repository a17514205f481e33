/* Several changes as one operation: one id, one journal, one way forward and one way back.
 *
 * Between rk_bundle_begin and rk_bundle_run a write transaction of the store is open and world->bundle is set. rk_change_run then only takes the change's
 * steps over and makes its reservations inside that transaction, so that the next change is planned on what the ones before will hold; what a change
 * frees is free only when the operation is done. Edits of the store alone (cordons, tenants, images, reservations, silences) are made in the transaction,
 * too: they count from its commit on, and a rollback of the operation takes them back unless somebody else changed the same thing since.
 *
 * Two parts that are about the same cluster, VM, tray or partition are refused (but for turning several VMs of a cluster on and off): nothing would
 * say which of them comes first.
 *
 * Every part begins with a step "op.part" whose params are those of the change. Steps of changes that cannot be undone are final: they are begun
 * when everything else of all parts is done. */
#pragma once
#include "provision/bundle_heard.h"
#include "provision/op.h"

struct rk_bundle;
/* Opens the transaction against the snapshot's revision. RK_CONFLICT: the store moved on. The bundle belongs to the caller: rk_bundle_run or rk_bundle_drop.
 * heard: what hosts said so far, borrowed until the bundle ends; a part that fails may have left a question there (provision/bundle_heard.h). */
int rk_bundle_begin(struct rk_world *world, const char *command, struct rk_heard *heard, struct rk_bundle **ret, struct rk_err *err);
struct rk_heard *rk_bundle_heard(const struct rk_bundle *bundle);
/* What is changed from here to the next part is what this command asks for. */
int rk_bundle_part(struct rk_bundle *bundle, const char *command, struct rk_err *err);
/* The part is complete: its edits of the inventory are noted. The snapshot is read anew. */
int rk_bundle_part_done(struct rk_bundle *bundle, struct rk_err *err);
/* The plan so far; lives as long as the bundle. */
const struct rk_plan *rk_bundle_plan(const struct rk_bundle *bundle);
/* Commits and carries it out (or hands it over under --no-wait); frees the bundle in every case. Errors of rk_op_run; RK_UNHEALTHY when a cluster
 * came out degraded. *ret_op 0: nothing was written. */
int rk_bundle_run(struct rk_bundle *bundle, int64_t *ret_op, struct rk_err *err);
/* Nothing was done. */
void rk_bundle_drop(struct rk_bundle *bundle);
/* For rk_change_run. */
int rk_bundle_take(struct rk_bundle *bundle, const struct rk_change *change, int64_t *ret_op, struct rk_err *err);

/* ---- edits of the inventory (provision/bundle_edits.c) ---- */
/* JSON params of a part that turned `before` into `after`; NULL: it edited nothing. In the arena. */
const char *rk_edits_between(const struct rk_site *before, const struct rk_site *after, struct rk_arena *arena);
