/* JSON schemas (draft 2020-12), made from the rows; what their columns cannot say (nested values, words of a state) is in one table of shapes.
 *
 * A shape: s string, i integer, n number, b boolean, t time, x 64-bit identity, k PKey, any, words joined by '|', [SHAPE], {KEY:SHAPE,...};
 * behind it '?': or null. KEY~ may be left out. {*:SHAPE}: any key. {!...}: no other keys. */
#pragma once
#include "cli/cmd.h"
#include "inventory/base/json.h"

/* One value: the schema of what the command prints with -o json. */
void rk_schema_command(const struct rk_command *command, struct rk_jw *w);
/* A document of its own with "$schema" and a title. noun and verb as for help; also "cluster-spec", "site-file" and "error". Without a noun:
 * all of them as "$defs". RK_NOT_FOUND with a near name. */
int rk_schema(const char *noun, const char *verb, struct rk_str *out, struct rk_err *err);
/* The shape of a site file, made of the rows of its reader (cli/schema_site.c). */
void rk_schema_site(struct rk_str *out);
/* Rows of the table of shapes ("cluster show.vms"), for its self-check: NULL at the end. */
const char *rk_schema_shape_name(size_t i);
/* The shape of a column, or NULL: its type says all. */
const char *rk_schema_shape(const struct rk_command *command, const struct rk_column *column);
