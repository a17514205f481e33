#include "inventory/base/trace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/mem.h"
#include "inventory/base/str.h"

struct rk_trace {
	pthread_mutex_t lock;
	FILE *out;
};

struct rk_trace *rk_trace_open(const char *path)
{
	FILE *out = path ? fopen(path, "ae") : stderr;

	if (!out)
		return NULL;
	struct rk_trace *trace = rk_xcalloc(1, sizeof(*trace));
	pthread_mutex_init(&trace->lock, NULL);
	trace->out = out;
	return trace;
}

void rk_trace_close(struct rk_trace *trace)
{
	if (!trace)
		return;
	if (trace->out != stderr)
		fclose(trace->out);
	pthread_mutex_destroy(&trace->lock);
	free(trace);
}

void rk_trace_add(struct rk_trace *trace, const char *kind, const char *target, const char *text)
{
	if (!trace)
		return;
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		rk_str_addf(&out, "%s %s| ", kind, target);
		rk_str_add_escaped(&out, line, len);
		rk_str_addc(&out, '\n');
		line += len + (line[len] == '\n');
	}
	pthread_mutex_lock(&trace->lock);
	fputs(rk_str_text(&out), trace->out);
	fflush(trace->out);
	pthread_mutex_unlock(&trace->lock);
}
