/* The glass box: --trace shows every libvirt XML, SSH command and REST call. Secrets are masked by the caller before they get here. */
#pragma once
#include <stddef.h>

struct rk_trace; /* NULL = off; thread safe */
struct rk_trace *rk_trace_open(const char *path /* NULL = stderr */);
void rk_trace_close(struct rk_trace *trace);
/* kind: "libvirt", "ssh", "rest"; target: host or URI; text may have several lines and is escaped line by line. */
void rk_trace_add(struct rk_trace *trace, const char *kind, const char *target, const char *text);
