/* The collected rows, as the writers see them. */
#pragma once
#include <stdio.h>

#include "cli/app.h"
#include "cli/out.h"
#include "inventory/base/str.h"

struct rk_cell {
	char *plain, *json;      /* owned; NULL = unknown */
};
struct rk_out {
	const struct rk_command *command;
	size_t n_columns;
	struct rk_cell *cells;   /* n_rows x n_columns */
	size_t n_rows, cap;
	struct rk_str notes, raw;
	struct rk_str pending;   /* JSON of the cell being written by the handler */
	struct rk_jw jw;
	struct rk_cell *pending_cell;
};
void rk_out_init(struct rk_out *out, const struct rk_command *command);
void rk_out_finish(struct rk_out *out);     /* closes a pending JSON cell */
void rk_out_clear(struct rk_out *out);
/* One writer per format. */
void rk_out_table(const struct rk_out *out, bool verbose, FILE *to);
void rk_out_json(const struct rk_out *out, FILE *to);
void rk_out_csv(const struct rk_out *out, FILE *to);
void rk_out_lines(const struct rk_out *out, FILE *to);
