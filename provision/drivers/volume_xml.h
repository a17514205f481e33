/* The few words of libvirt's storage XML that racksh writes and reads. Private to the libvirt driver. */
#pragma once
#include "inventory/base/mem.h"
#include "inventory/base/str.h"

void rk_volume_xml(struct rk_str *out, const char *name, uint64_t bytes, const char *format, const char *backing, const char *backing_format);
/* Format of a volume as the host detected it, "qcow2" or "raw", else NULL: a backing file whose format is guessed at start time is a way out
 * of the guest. Static text. */
const char *rk_volume_format(const char *xml);
