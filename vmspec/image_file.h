/* Disk images from outside, judged by their own words: format, size, architecture, and what must not be in one. Pure: the bytes come through
 * a reader. A qcow2 file may name other files of the host that opens it, so an image with a backing or data file is refused. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "inventory/base/err.h"

struct rk_image_source {
	bool (*read)(void *ctx, uint64_t offset, void *bytes, size_t n); /* false: not there */
	void *ctx;
	uint64_t bytes;                   /* length of the file */
};
struct rk_image_facts {
	const char *format;               /* "qcow2", "raw" */
	uint64_t disk_bytes;              /* of the disk that a guest sees */
	const char *arch;                 /* by the partition table: "aarch64", "x86_64"; NULL: it does not say */
};
/* name: of the file, for messages. RK_INVALID with the reason. */
int rk_image_judge(const char *name, const struct rk_image_source *source, struct rk_image_facts *ret, struct rk_err *err);
