#include "inventory/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/mem.h"

static const struct {
	int rc;
	const char *name;
} classes[] = {
	{ RK_OK, "ok" },
	{ RK_FAILED, "failed" },
	{ RK_INVALID, "invalid" },
	{ RK_PARTIAL, "partial" },
	{ RK_CONFLICT, "conflict" },
	{ RK_NO_CAPACITY, "no-capacity" },
	{ RK_UNREACHABLE, "unreachable" },
	{ RK_UNHEALTHY, "unhealthy" },
	{ RK_NOT_FOUND, "not-found" },
	{ RK_BUG, "bug" },
	{ RK_CANCELLED, "cancelled" },
};

const char *rk_class_name(int rc)
{
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (classes[i].rc == rc)
			return classes[i].name;
	return "bug";
}

int rk_class_exit(int rc)
{
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (classes[i].rc == rc)
			return -rc;
	return 70;
}

int rk_err_set(struct rk_err *err, int rc, const char *format, ...)
{
	va_list ap;

	if (!err)
		return rc;
	va_start(ap, format);
	/* Formatted before the old text is freed: the arguments may point into it. */
	char *message = rk_xvasprintf(format, ap);
	va_end(ap);
	rk_err_clear(err);
	err->rc = rc;
	err->message = message;
	return rc;
}

int rk_err_while(struct rk_err *err, const char *format, ...)
{
	va_list ap;

	if (!err)
		return RK_FAILED;
	va_start(ap, format);
	char *context = rk_xvasprintf(format, ap);
	va_end(ap);
	char *joined = rk_xasprintf("%s: %s", context, err->message ? err->message : "unknown error");
	free(context);
	free(err->message);
	err->message = joined;
	if (!err->rc)
		err->rc = RK_BUG;
	return err->rc;
}

void rk_err_hint(struct rk_err *err, const char *format, ...)
{
	va_list ap;

	if (!err)
		return;
	va_start(ap, format);
	char *hint = rk_xvasprintf(format, ap);
	va_end(ap);
	free(err->hint);
	err->hint = hint;
}

void rk_err_detail(struct rk_err *err, const char *format, ...)
{
	va_list ap;

	if (!err)
		return;
	va_start(ap, format);
	char *detail = rk_xvasprintf(format, ap);
	va_end(ap);
	err->details = rk_xreallocarray(err->details, err->n_details + 1, sizeof(*err->details));
	err->details[err->n_details++] = detail;
}

void rk_err_move(struct rk_err *dst, struct rk_err *src)
{
	if (!dst || dst == src)
		return;
	rk_err_clear(dst);
	*dst = *src;
	memset(src, 0, sizeof(*src));
}

void rk_err_clear(struct rk_err *err)
{
	if (!err)
		return;
	for (size_t i = 0; i < err->n_details; i++)
		free(err->details[i]);
	free(err->details);
	free(err->message);
	free(err->hint);
	memset(err, 0, sizeof(*err));
}
