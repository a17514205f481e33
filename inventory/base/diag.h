/* Diagnostics: all problems of one file at once, each with line and column. */
#pragma once
#include <stdint.h>

#include "inventory/base/err.h"
#include "inventory/base/json.h"

enum rk_diag_place { RK_AT_VALUE, RK_AT_KEY };

struct rk_diag {
	uint32_t line, col;  /* 0 = the file as a whole */
	char *message, *hint; /* owned; hint may be NULL */
};

struct rk_diags {
	const char *file; /* borrowed; as the user named it */
	struct rk_diag *items;
	size_t n, cap;
};
#define RK_DIAGS_INIT(name) { (name), NULL, 0, 0 }
#define RK_CLEANUP_DIAGS __attribute__((cleanup(rk_diags_clear)))
void rk_diags_clear(struct rk_diags *diags);

/* node may be NULL: the file as a whole. */
void rk_diag_at(struct rk_diags *diags, const struct rk_jnode *node, enum rk_diag_place place, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void rk_diag_line(struct rk_diags *diags, uint32_t line, uint32_t col, const char *format, ...) __attribute__((format(printf, 4, 5)));
void rk_diag_hint(struct rk_diags *diags, const char *format, ...) __attribute__((format(printf, 2, 3))); /* of the last problem */

/* 0 when there is none; else RK_INVALID with "<file>:<line>:<col>: <message>" of the first as message, its hint, and every problem
 * (sorted by place) as a detail when there are several. At most 100 details, then a count. */
int rk_diags_result(struct rk_diags *diags, struct rk_err *err);

/* Table-driven reading of an object: what a key may be. */
struct rk_jfield {
	const char *key;
	enum rk_jtype type;
	bool required;
};
/* Reports unknown keys (with a near-name hint), wrong types and missing required keys. False when node is no object. */
bool rk_diag_fields(struct rk_diags *diags, const struct rk_jnode *node, const char *what, const struct rk_jfield *fields, size_t n);
