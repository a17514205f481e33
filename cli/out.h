/* Typed rows out: the only way a handler shows results. One writer per format (table, json, csv, lines); nothing else prints to stdout.
 *
 * A list command: rk_out_row, then one rk_cell_* per column in any order, for each row. A show command: the same with one row.
 * Nested values go in as JSON (RK_COL_JSON: rk_cell_json gives a writer). Unknown values: leave the cell out (null / "-"). Text of remote hosts
 * is escaped by the writers. */
#pragma once
#include "inventory/base/json.h"

struct rk_out;
struct rk_column;
/* Before the first row: this call prints other columns than its command's (a dry run that prints a plan). */
void rk_out_columns(struct rk_out *out, const struct rk_column *columns);
void rk_out_row(struct rk_out *out);
void rk_cell_text(struct rk_out *out, const char *key, const char *value);   /* NULL = unknown */
void rk_cell_number(struct rk_out *out, const char *key, long long value);
void rk_cell_real(struct rk_out *out, const char *key, double value);
void rk_cell_bool(struct rk_out *out, const char *key, bool value);
void rk_cell_hex64(struct rk_out *out, const char *key, unsigned long long value); /* 0 = unknown */
void rk_cell_pkey(struct rk_out *out, const char *key, unsigned value);
void rk_cell_time(struct rk_out *out, const char *key, long long unix_ms);
void rk_cell_list(struct rk_out *out, const char *key, const char *const *values, size_t n);
struct rk_jw *rk_cell_json(struct rk_out *out, const char *key);             /* write exactly one value, before the next call */
/* Free text for people, shown only in table format: above or below the rows, in call order. */
void rk_out_note(struct rk_out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A list command that had nothing to list: prints nothing at all. */
void rk_out_nothing(struct rk_out *out);
/* RK_CMD_RAW: bytes as they are. */
void rk_out_raw(struct rk_out *out, const char *text, size_t n);
