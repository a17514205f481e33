#include "nvstate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int64_t nv_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool read_line(const char *line, struct nv_state *state)
{
	struct nv_gpu gpu;
	struct nv_part part = { 0 };

	if (state->n_gpus < NV_GPUS_MAX && sscanf(line, "gpu %" SCNx64 " %23s %d %d %" SCNd64 " %" SCNd64, &gpu.guid, gpu.location, &gpu.before,
						  &gpu.after, &gpu.effect_ms, &gpu.free_ms) == 6) {
		state->gpus[state->n_gpus++] = gpu;
		return true;
	}
	if (state->n_parts < NV_PARTS_MAX && sscanf(line, "part %d %d %23s %" SCNd64 " %" SCNd64 " %255[^\n]", &part.id, &part.groups, part.mode,
						    &part.from_ms, &part.until_ms, part.name) >= 5) {
		state->parts[state->n_parts++] = part;
		return true;
	}
	return false;
}

bool nv_load(const char *dir, struct nv_state *ret)
{
	char path[4096], line[512];

	snprintf(path, sizeof(path), "%s/partitions", dir);
	FILE *file = fopen(path, "re");
	if (!file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return false;
	}
	memset(ret, 0, sizeof(*ret));
	bool good = true;
	while (good && fgets(line, sizeof(line), file))
		good = read_line(line, ret);
	if (!good)
		fprintf(stderr, "%s: not understood: %s", path, line);
	fclose(file);
	return good;
}

bool nv_save(const char *dir, const struct nv_state *state)
{
	char path[4096], draft[4096];

	snprintf(path, sizeof(path), "%s/partitions", dir);
	snprintf(draft, sizeof(draft), "%s/partitions.new", dir);
	FILE *file = fopen(draft, "we");
	if (!file) {
		fprintf(stderr, "%s: %s\n", draft, strerror(errno));
		return false;
	}
	for (int i = 0; i < state->n_parts; i++) {
		const struct nv_part *p = &state->parts[i];
		fprintf(file, "part %d %d %s %" PRId64 " %" PRId64 " %s\n", p->id, p->groups, p->mode, p->from_ms, p->until_ms, p->name);
	}
	for (int i = 0; i < state->n_gpus; i++) {
		const struct nv_gpu *g = &state->gpus[i];
		fprintf(file, "gpu 0x%016" PRIx64 " %s %d %d %" PRId64 " %" PRId64 "\n", g->guid, g->location, g->before, g->after, g->effect_ms, g->free_ms);
	}
	/* The hardware service reads it under another account. */
	fchmod(fileno(file), 0644);
	if (fclose(file) == 0 && rename(draft, path) == 0)
		return true;
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	return false;
}

int nv_visible(const struct nv_gpu *gpu, int64_t now)
{
	return now >= gpu->effect_ms ? gpu->after : gpu->before;
}

int nv_find_gpu(const struct nv_state *state, uint64_t guid)
{
	for (int i = 0; i < state->n_gpus; i++)
		if (state->gpus[i].guid == guid)
			return i;
	return -1;
}
