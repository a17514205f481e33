/* The collected rows, as the writers see them. */
#pragma once
#include <stdio.h>

#include "cli/cmd.h"
#include "cli/out.h"
#include "inventory/base/str.h"

enum rk_format { RK_FORMAT_TABLE, RK_FORMAT_JSON, RK_FORMAT_CSV, RK_FORMAT_LINES };

struct rk_cell {
	char *plain, *json;      /* owned; NULL = unknown */
};
struct rk_out {
	const struct rk_command *command;
	const struct rk_column *columns;
	size_t n_columns;
	struct rk_cell *cells;   /* n_rows x n_columns */
	size_t n_rows, cap;
	bool nothing;
	struct rk_str notes, raw;
	struct rk_str pending;   /* JSON of the cell being written by the handler */
	struct rk_jw jw;
	struct rk_cell *pending_cell;
};
/* How a table may look; zero is plain text of any width. */
struct rk_style {
	bool verbose, colour, utf8;
	int width;               /* columns of the terminal; 0 = no limit */
	long long now_ms;        /* for relative times; 0 = none are shown */
};
void rk_out_init(struct rk_out *out, const struct rk_command *command);
void rk_out_finish(struct rk_out *out);     /* closes a pending JSON cell */
void rk_out_clear(struct rk_out *out);
/* One writer per format. */
void rk_out_table(const struct rk_out *out, const struct rk_style *style, FILE *to);
void rk_out_json(const struct rk_out *out, FILE *to);
void rk_out_csv(const struct rk_out *out, FILE *to);
void rk_out_lines(const struct rk_out *out, FILE *to);
