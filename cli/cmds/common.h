/* Small things that several nouns need. */
#pragma once
#include "cli/app.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "inventory/base/str.h"

#define RK_EXAMPLES(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define RK_ARGS(...) ((const struct rk_argdef[]){ __VA_ARGS__, { .name = NULL } })
#define RK_COLUMNS(...) ((const struct rk_column[]){ __VA_ARGS__, { .key = NULL } })
#define RK_NOUN(word, text, more, rows) \
	const struct rk_noun rk_noun_##word = { .name = #word, .summary = text, .description = more, .commands = rows, .n = RK_ARRAY_SIZE(rows) }

/* "no rack "x"" with a near name, or where to find them. */
int rk_no_such(const char *what, const char *name, const char *const *names, size_t n, struct rk_err *err);
/* Index of an object, or RK_NOT_FOUND as rk_no_such says it. */
int rk_get_cluster(struct rk_call *call, const char *name, int *ret, struct rk_err *err);
int rk_get_rack(struct rk_call *call, const char *name, int *ret, struct rk_err *err);
int rk_get_tenant(struct rk_call *call, const char *name, int *ret, struct rk_err *err);
int rk_get_image(struct rk_call *call, const char *name, int *ret, struct rk_err *err);
int rk_get_service(struct rk_call *call, const char *name, int *ret, struct rk_err *err);
int rk_get_fabric(struct rk_call *call, const char *name, int *ret, struct rk_err *err);
/* Changes the store in one transaction planned against the call's snapshot; data is handed to change. */
int rk_in_transaction(struct rk_call *call, int (*change)(struct rk_call *call, const void *data, struct rk_err *err), const void *data,
		      struct rk_err *err);
/* Handlers that have a file of their own. */
int rk_cmd_usage(struct rk_call *call, struct rk_err *err);
int rk_cmd_tenant_show(struct rk_call *call, struct rk_err *err);
int rk_cmd_discover(struct rk_call *call, struct rk_err *err);
/* "90s", "10m", "2h", or a number of seconds. RK_INVALID names the option. */
int rk_duration_ms(const char *option, const char *text, int *ret, struct rk_err *err);
/* --confirm-within of a row, into the world: RK_CONFIRM_OPTION. */
#define RK_CONFIRM_OPTION { .name = "confirm-within", .type = RK_ARG_TEXT, .help = "undo it unless `op confirm` comes within this time (90s, 10m, 2h)" }
int rk_call_confirm(struct rk_call *call, struct rk_err *err);
