/* What is shown while an operation works: on a terminal one line with a bar, counts, time so far and left; elsewhere a line per step. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

struct rk_progress {
	FILE *to;
	bool bar;                        /* a terminal that can redraw a line */
	int width;
	long long began_ms;
	unsigned done, total;
	char text[160];
};
/* to: stderr of the process. */
void rk_progress_begin(struct rk_progress *progress, FILE *to);
/* struct rk_world.progress; ctx is the struct rk_progress. "[7/22] what" moves the bar, any other text is printed above it. */
void rk_progress_line(void *ctx, const char *text);
/* Takes the bar away. */
void rk_progress_end(struct rk_progress *progress);
