/* Whole files, bounded. */
#pragma once
#include <stddef.h>
#include <sys/types.h>

#include "inventory/base/err.h"

/* Reads path ("-" = standard input) into malloc'ed memory with a NUL after it. Errors: RK_NOT_FOUND when absent, RK_INVALID when
 * larger than max bytes or not a regular file/pipe, RK_FAILED otherwise. */
int rk_file_read(const char *path, size_t max, char **ret, size_t *ret_len, struct rk_err *err);
/* Temp file in the same folder, fsync, rename. Mode for a new file. */
int rk_file_write(const char *path, const void *data, size_t len, mode_t mode, struct rk_err *err);
/* mkdir -p with mode 0700 for what is made. */
int rk_mkdirs(const char *path, struct rk_err *err);
