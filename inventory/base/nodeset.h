/* Node sets: r01-t[01-18], r[01-04]-t01,r09-t[02,04], a!b difference, a&b intersection, @group (resolved by the caller).
 *
 * Grammar (field/health.md section 7): item (op item)*, op ',' union, '!' difference, '&' intersection, '^' symmetric difference,
 * evaluated left to right; an item is a literal with any number of [..]; a range is a, a-b or a-b/step; zero padding is kept, mixed
 * padding is an error. Sets are ordered (natural order) and hold each name once. Limits: RK_NODESET_MAX names. */
#pragma once
#include <stddef.h>

#include "inventory/base/err.h"
#include "inventory/base/mem.h"

enum { RK_NODESET_MAX = 2000000 };

struct rk_nodeset {
	const char **names; /* sorted in natural order, unique; in the arena */
	size_t n;
};

/* Resolves "@name" (without the '@') to names; returns RK_NOT_FOUND for an unknown group. NULL resolver: groups are an error. */
typedef int rk_group_fn(void *ctx, const char *group, struct rk_arena *arena, struct rk_nodeset *ret, struct rk_err *err);

/* Syntax errors are RK_INVALID and name the column. An empty result is RK_NOT_FOUND; alone of all errors it sets *ret (n = 0, names not
 * NULL), for callers to whom an empty set is no error. */
int rk_nodeset_parse(const char *text, rk_group_fn *group, void *ctx, struct rk_arena *arena, struct rk_nodeset *ret, struct rk_err *err);
/* Sorts and removes doubles in place. */
void rk_nodeset_sort(struct rk_nodeset *set);
/* Shortest practical text: r[01-02,04-16]-t[01-18],r03-t[01,04-18]. In the arena. Names need not be sorted. */
const char *rk_nodeset_fold(struct rk_arena *arena, const char *const *names, size_t n);
/* Natural order: digit runs compare as numbers. */
int rk_natural_cmp(const char *a, const char *b);
