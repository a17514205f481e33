/* Errors: one object, one class, one exit code.
 *
 * A fallible function returns 0 or a negative class (enum rk_class) and takes `struct rk_err *err` last.
 * The lowest layer says what happened (rk_err_set), upper layers add "while ..." (rk_err_while), the CLI prints once.
 * Messages: lower case, no full stop, the error first, names in quotes.
 *
 * Ownership: a struct rk_err starts as RK_ERR_INIT and is emptied with rk_err_clear (RK_CLEANUP_ERR does it at scope end).
 * `err` may be NULL everywhere: the class alone is then returned. */
#pragma once
#include <stddef.h>

/* Negative class = -(exit code of CLI.md). */
enum rk_class {
	RK_OK = 0,
	RK_FAILED = -1,       /* the operation failed and was rolled back */
	RK_INVALID = -2,      /* bad usage or bad input; nothing was tried */
	RK_PARTIAL = -3,      /* some targets failed, or an operation is left resumable */
	RK_CONFLICT = -4,     /* changed or held by somebody else */
	RK_NO_CAPACITY = -5,  /* cannot be placed */
	RK_UNREACHABLE = -6,  /* no answer in time, or the outcome is unknown */
	RK_UNHEALTHY = -7,    /* a verification found faults */
	RK_NOT_FOUND = -8,
	RK_BUG = -70,
	RK_CANCELLED = -130,
};

struct rk_err {
	int rc;             /* class; 0 = nothing set */
	char *message;      /* owned; NULL when nothing is set */
	char *hint;         /* owned; what to do, or NULL */
	char **details;     /* owned strings, n_details of them: e.g. one reason per rack, one problem per line of a file */
	size_t n_details;
};
#define RK_ERR_INIT { 0, NULL, NULL, NULL, 0 }

/* Sets class and message (replacing what was there) and returns rc, so that `return rk_err_set(...)` reads well. */
int rk_err_set(struct rk_err *err, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Prefixes the message: "<context>: <message>". Returns err->rc (or rc of the caller's choice when err is NULL: RK_FAILED). */
int rk_err_while(struct rk_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rk_err_hint(struct rk_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rk_err_detail(struct rk_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Moves src into dst (dst is cleared first); src is empty afterwards. */
void rk_err_move(struct rk_err *dst, struct rk_err *src);
void rk_err_clear(struct rk_err *err);
#define RK_CLEANUP_ERR __attribute__((cleanup(rk_err_clear)))

/* "no-capacity" for RK_NO_CAPACITY, ... (the class names of CLI.md); "ok" for 0. */
const char *rk_class_name(int rc);
/* Process exit code of a class: 0, 1..8, 70, 130. */
int rk_class_exit(int rc);
