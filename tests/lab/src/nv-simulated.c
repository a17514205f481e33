/* The command line of an NVLink switch, as far as racksh uses it: `nv-simulated DIR`, the command in SSH_ORIGINAL_COMMAND, or
 * `nv-simulated DIR nv WORD...`. "Action succeeded" is said before the effect can be seen, and a GPU that left a partition cannot be
 * added to another at once, as on the real one. DIR/config may hold, one per line: delay_ms=LOW-HIGH, release_ms=N, cluster=disabled,
 * lie=1 (success without effect), fail=1 (effect, but an error), null_body=1, grpc_down=1. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "nvstate.h"

enum { WORDS_MAX = 32, COMMAND_MAX = 4096 };

struct config {
	int delay_low_ms, delay_high_ms, release_ms;
	bool cluster_disabled, lie, fail, null_body, grpc_down;
};
struct nv {
	const char *dir;
	struct config config;
	struct nv_state state;
	int64_t now;
};

/* ---- words -------------------------------------------------------------------------------------------------------------------- */

/* Copies one quoted part; returns the place after it or NULL when the quote does not end. */
static const char *quoted(const char *in, char quote, char **out)
{
	for (; *in && *in != quote; in++) {
		if (quote == '"' && *in == '\\' && in[1] && strchr("\"\\$`", in[1]))
			in++;
		*(*out)++ = *in;
	}
	return *in ? in + 1 : NULL;
}

/* Splits as a shell would, without expanding anything. Returns the number of words, -1 when the text is no simple command. */
static int split(const char *in, char *buffer, char **words)
{
	int n = 0;

	for (in += strspn(in, " \t\n"); *in; in += strspn(in, " \t\n")) {
		if (n == WORDS_MAX)
			return -1;
		words[n++] = buffer;
		while (*in && !isspace((unsigned char)*in)) {
			if (strchr(";|&<>()$`", *in))
				return -1;
			if (*in == '\'' || *in == '"') {
				in = quoted(in + 1, *in, &buffer);
				if (!in)
					return -1;
				continue;
			}
			if (*in == '\\' && in[1])
				in++;
			*buffer++ = *in++;
		}
		*buffer++ = '\0';
	}
	return n;
}

static bool number(const char *text, uint64_t *ret)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0';
}

/* ---- configuration --------------------------------------------------------------------------------------------------------------- */

static void config_line(const char *key, const char *value, struct config *c)
{
	struct {
		const char *key;
		bool *flag;
	} flags[] = { { "lie", &c->lie }, { "fail", &c->fail }, { "null_body", &c->null_body }, { "grpc_down", &c->grpc_down } };

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (strcmp(key, flags[i].key) == 0)
			*flags[i].flag = strcmp(value, "1") == 0;
	if (strcmp(key, "release_ms") == 0)
		c->release_ms = atoi(value);
	if (strcmp(key, "cluster") == 0)
		c->cluster_disabled = strcmp(value, "disabled") == 0;
	if (strcmp(key, "delay_ms") == 0) {
		int n = sscanf(value, "%d-%d", &c->delay_low_ms, &c->delay_high_ms);
		c->delay_high_ms = n == 2 ? c->delay_high_ms : c->delay_low_ms;
	}
}

static struct config read_config(const char *dir)
{
	struct config config = { .delay_low_ms = 300, .delay_high_ms = 800, .release_ms = 1000 };
	char path[4096], key[32], value[32];

	snprintf(path, sizeof(path), "%s/config", dir);
	FILE *file = fopen(path, "re");
	while (file && fscanf(file, " %31[^=\n]=%31s", key, value) == 2)
		config_line(key, value, &config);
	if (file)
		fclose(file);
	return config;
}

/* Differs from command to command, so that nobody can rely on an order. */
static int64_t effect_time(const struct nv *nv)
{
	int range = nv->config.delay_high_ms - nv->config.delay_low_ms;

	return nv->now + nv->config.delay_low_ms + (range > 0 ? nv->now * 7919 % range : 0);
}

/* ---- the state -------------------------------------------------------------------------------------------------------------------- */

static bool part_visible(const struct nv_part *p, int64_t now)
{
	return now >= p->from_ms && (!p->until_ms || now < p->until_ms);
}

/* A partition that was not deleted yet, visible or not. */
static struct nv_part *accepted(struct nv *nv, int id)
{
	for (int i = 0; i < nv->state.n_parts; i++)
		if (nv->state.parts[i].id == id && !nv->state.parts[i].until_ms)
			return &nv->state.parts[i];
	return NULL;
}

/* Forgets partitions whose resources are released. */
static void forget_deleted(struct nv *nv)
{
	int kept = 0;

	for (int i = 0; i < nv->state.n_parts; i++) {
		const struct nv_part *p = &nv->state.parts[i];
		if (!p->until_ms || nv->now < p->until_ms + nv->config.release_ms)
			nv->state.parts[kept++] = *p;
	}
	nv->state.n_parts = kept;
}

static bool id_or_name_taken(const struct nv *nv, int id, const char *name)
{
	for (int i = 0; i < nv->state.n_parts; i++)
		if (nv->state.parts[i].id == id || strcmp(nv->state.parts[i].name, name) == 0)
			return true;
	return false;
}

static void move_gpu(const struct nv *nv, struct nv_gpu *gpu, int partition)
{
	gpu->before = nv_visible(gpu, nv->now);
	gpu->after = partition;
	gpu->effect_ms = effect_time(nv);
	gpu->free_ms = gpu->effect_ms + nv->config.release_ms;
}

static struct nv_gpu *named_gpu(struct nv *nv, const char *kind, const char *which)
{
	uint64_t guid;

	for (int i = 0; i < nv->state.n_gpus; i++) {
		struct nv_gpu *gpu = &nv->state.gpus[i];
		if (strcmp(kind, "uuid") == 0 ? number(which, &guid) && gpu->guid == guid : strcmp(gpu->location, which) == 0)
			return gpu;
	}
	return NULL;
}

/* ---- show ------------------------------------------------------------------------------------------------------------------------- */

static void json_text(const char *text)
{
	putchar('"');
	for (; *text; text++)
		printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
	putchar('"');
}

static int members(const struct nv *nv, int id)
{
	int n = 0;

	for (int i = 0; i < nv->state.n_gpus; i++)
		n += nv_visible(&nv->state.gpus[i], nv->now) == id;
	return n;
}

/* The count comes as a number or as a string, as on the real one. */
static void part_fields(const struct nv *nv, const struct nv_part *p, const char *indent)
{
	const char *quote = p->id % 2 ? "" : "\"";

	printf("%s\"name\": ", indent);
	json_text(p->name);
	printf(",\n%s\"num-gpus\": %s%d%s,\n%s\"health\": \"healthy\",\n", indent, quote, members(nv, p->id), quote, indent);
	printf("%s\"resiliency-mode\": \"%s\",\n%s\"mcast-limit\": %d,\n", indent, p->mode, indent, p->groups);
	printf("%s\"partition-type\": \"gpuuid_based\"", indent);
}

static int absent(void)
{
	puts("Error: The requested item does not exist.");
	return 1;
}

static int show_all(struct nv *nv, char **words, int n)
{
	const char *comma = "";

	(void)words;
	(void)n;
	if (nv->config.null_body || nv->config.grpc_down || nv->config.cluster_disabled) {
		puts(nv->config.null_body ? "null" : "{}");
		return 0;
	}
	fputs("{", stdout);
	for (int i = 0; i < nv->state.n_parts; i++) {
		const struct nv_part *p = &nv->state.parts[i];
		if (!part_visible(p, nv->now))
			continue;
		printf("%s\n  \"%d\": {\n", comma, p->id);
		part_fields(nv, p, "    ");
		fputs("\n  }", stdout);
		comma = ",";
	}
	puts("\n}");
	return 0;
}

static void show_members(const struct nv *nv, int id)
{
	const char *comma = "";

	fputs(",\n  \"locations\": {", stdout);
	for (int i = 0; i < nv->state.n_gpus; i++) {
		const struct nv_gpu *gpu = &nv->state.gpus[i];
		if (nv_visible(gpu, nv->now) != id)
			continue;
		printf("%s\n    \"%s\": {\n      \"uuid\": \"%" PRIu64 "\"\n    }", comma, gpu->location, gpu->guid);
		comma = ",";
	}
	puts(*comma ? "\n  }\n}" : "}\n}");
}

static int show_one(struct nv *nv, char **words, int n)
{
	(void)n;
	for (int i = 0; i < nv->state.n_parts; i++) {
		const struct nv_part *p = &nv->state.parts[i];
		if (p->id != atoi(words[4]) || !part_visible(p, nv->now))
			continue;
		if (nv->config.null_body) {
			puts("null");
			return 0;
		}
		puts("{");
		part_fields(nv, p, "  ");
		show_members(nv, p->id);
		return 0;
	}
	return absent();
}

static int show_cluster(struct nv *nv, char **words, int n)
{
	(void)words;
	(void)n;
	printf("{\n  \"state\": \"%s\",\n  \"nmxc-conn\": \"%s\"\n}\n", nv->config.cluster_disabled ? "disabled" : "enabled",
	       nv->config.grpc_down || nv->config.cluster_disabled ? "down" : "up");
	return 0;
}

static int show_apps(struct nv *nv, char **words, int n)
{
	bool good = !nv->config.grpc_down && !nv->config.cluster_disabled;

	(void)words;
	(void)n;
	printf("{\n  \"nmx-controller\": {\n    \"app-id\": \"nmx-c-nvos\",\n    \"app-ver\": \"1.0-simulated\",\n"
	       "    \"components-ver\": \"sm:0.0.0, gfm:0.0.0, fib-fe:0.0.0\",\n    \"capabilities\": \"sm, gfm, fib, gw-api\",\n"
	       "    \"addition-info\": \"\",\n    \"status\": \"%s\",\n    \"reason\": \"%s\"\n  }\n}\n",
	       good ? "ok" : "not ok", good ? "" : "gRPC connection is down");
	return 0;
}

static int show_chassis(struct nv *nv, char **words, int n)
{
	(void)nv;
	(void)words;
	(void)n;
	puts("{\n  \"chassis-sn\": \"1820725000001\",\n  \"slot-number\": 9,\n  \"topology-id\": \"GB300 NVL72\",\n  \"tray-index\": 0\n}");
	return 0;
}

static int show_version(struct nv *nv, char **words, int n)
{
	(void)nv;
	(void)words;
	(void)n;
	puts("{\n  \"build-date\": \"simulated\",\n  \"image\": \"nvos-25.02.2553\",\n  \"kernel\": \"simulated\"\n}");
	return 0;
}

/* ---- actions -------------------------------------------------------------------------------------------------------------------------- */

static int failed(const char *what, int id, const char *kind, const char *which)
{
	puts("Error: Action failed with the following issue:");
	if (kind)
		printf("  failed to %s partition %d %s %s\n", what, id, kind, which);
	else
		printf("  failed to %s partition %d\n", what, id);
	return 1;
}

/* Saves what was done and says so; `lie` and `fail` separate the two. */
static int done(struct nv *nv, const char *what, const char *past, int id, const char *kind, const char *which)
{
	if (!nv->config.lie && !nv_save(nv->dir, &nv->state))
		return failed(what, id, kind, which);
	if (nv->config.fail)
		return failed(what, id, kind, which);
	printf("Partition %d was successfully %s\nAction succeeded\n", id, past);
	return 0;
}

static bool usable(const struct nv *nv)
{
	if (!nv->config.cluster_disabled && !nv->config.grpc_down)
		return true;
	printf("Error: Action failed with the following issue:\n  %s\n", nv->config.cluster_disabled ? "cluster is not enabled" : "gRPC connection is down");
	return false;
}

struct wanted {
	const char *name, *mode, *groups, *kind, *which;
};

static bool create_options(char **words, int n, struct wanted *ret)
{
	for (int i = 6; i + 1 < n; i += 2) {
		const char **place = strcmp(words[i], "name") == 0 ? &ret->name
				     : strcmp(words[i], "resiliency-mode") == 0 ? &ret->mode
				     : strcmp(words[i], "mcast-limit") == 0 ? &ret->groups
				     : strcmp(words[i], "uuid") == 0 || strcmp(words[i], "location") == 0 ? &ret->which
				     : NULL;
		if (!place || *place)
			return false;
		*place = words[i + 1];
		if (place == &ret->which)
			ret->kind = words[i];
	}
	return n % 2 == 0 && ret->name && ret->mode && ret->groups;
}

static bool valid_options(const struct wanted *w, uint64_t *groups)
{
	static const char *const modes[] = { "full_bandwidth", "adaptive_bandwidth", "user_action" };
	bool known = false, range = number(w->groups, groups) && *groups <= 1024;

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		known = known || strcmp(w->mode, modes[i]) == 0;
	if (!range)
		puts("Error: At mcast-limit: Valid range for mcast-limit is 0 - 1024");
	if (!known)
		printf("Error: At resiliency-mode: '%s' is not one of ['full_bandwidth', 'adaptive_bandwidth', 'user_action']\n", w->mode);
	return known && range;
}

static bool valid_name(const char *name)
{
	for (const char *c = name; *c; c++)
		if (*c < ' ' || *c > '~')
			return false;
	return *name && strlen(name) <= NV_NAME_MAX;
}

static int create(struct nv *nv, char **words, int n)
{
	struct wanted w = { 0 };
	struct nv_gpu *gpu = NULL;
	uint64_t groups;
	int id = atoi(words[5]);

	if (!create_options(words, n, &w)) {
		puts("Error: Invalid command.");
		return 1;
	}
	if (!valid_options(&w, &groups))
		return 1;
	puts("Action executing ...");
	if (!usable(nv))
		return 1;
	if (w.which)
		gpu = named_gpu(nv, w.kind, w.which);
	if (!valid_name(w.name) || id_or_name_taken(nv, id, w.name) || nv->state.n_parts == NV_PARTS_MAX || (w.which && !gpu))
		return failed("create", id, NULL, NULL);
	if (gpu && (gpu->after || nv->now < gpu->free_ms))
		return failed("create", id, NULL, NULL);
	struct nv_part *p = &nv->state.parts[nv->state.n_parts++];
	*p = (struct nv_part){ .id = id, .groups = (int)groups, .from_ms = effect_time(nv) };
	snprintf(p->mode, sizeof(p->mode), "%s", w.mode);
	snprintf(p->name, sizeof(p->name), "%s", w.name);
	if (gpu)
		move_gpu(nv, gpu, id);
	return done(nv, "create", "created", id, NULL, NULL);
}

static int delete(struct nv *nv, char **words, int n)
{
	int id = atoi(words[5]);

	(void)n;
	puts("Action executing ...");
	if (!usable(nv))
		return 1;
	struct nv_part *p = accepted(nv, id);
	if (!p)
		return failed("delete", id, NULL, NULL);
	p->until_ms = effect_time(nv);
	for (int i = 0; i < nv->state.n_gpus; i++)
		if (nv->state.gpus[i].after == id)
			move_gpu(nv, &nv->state.gpus[i], 0);
	return done(nv, "delete", "deleted", id, NULL, NULL);
}

/* One text covers every cause, as on the real one. */
static int add(struct nv *nv, char **words, int n)
{
	int id = atoi(words[5]);

	(void)n;
	puts("Action executing ...");
	if (!usable(nv))
		return 1;
	struct nv_gpu *gpu = named_gpu(nv, words[6], words[7]);
	if (!gpu || !accepted(nv, id) || gpu->after || nv->now < gpu->free_ms)
		return failed("update", id, words[6], words[7]);
	move_gpu(nv, gpu, id);
	return done(nv, "update", "updated", id, words[6], words[7]);
}

static int drop(struct nv *nv, char **words, int n)
{
	int id = atoi(words[5]);

	(void)n;
	puts("Action executing ...");
	if (!usable(nv))
		return 1;
	struct nv_gpu *gpu = named_gpu(nv, words[6], words[7]);
	if (!gpu || gpu->after != id)
		return failed("restore", id, words[6], words[7]);
	move_gpu(nv, gpu, 0);
	return done(nv, "restore", "restored", id, words[6], words[7]);
}

static int config_done(struct nv *nv, char **words, int n)
{
	(void)nv;
	(void)n;
	puts(strcmp(words[2], "save") == 0 ? "saved" : "applied");
	return 0;
}

static int nothing(struct nv *nv, char **words, int n)
{
	(void)nv;
	(void)words;
	(void)n;
	return 0;
}

/* ---- commands --------------------------------------------------------------------------------------------------------------------------- */

/* '#' stands for a partition id, '?' for "uuid" or "location", '*' for one word, a final "..." for any words. */
static const struct command {
	const char *pattern;
	bool json;                        /* only the JSON form is known */
	int (*run)(struct nv *nv, char **words, int n);
} commands[] = {
	{ "true", false, nothing },
	{ "nv show sdn partition", true, show_all },
	{ "nv show sdn partition #", true, show_one },
	{ "nv show cluster", true, show_cluster },
	{ "nv show cluster apps", true, show_apps },
	{ "nv show platform chassis-location", true, show_chassis },
	{ "nv show system version", true, show_version },
	{ "nv action create sdn partition # ...", false, create },
	{ "nv action delete sdn partition #", false, delete },
	{ "nv action update sdn partition # ? *", false, add },
	{ "nv action update sdn partition # ? * no-reroute", false, add },
	{ "nv action restore sdn partition # ? *", false, drop },
	{ "nv action restore sdn partition # ? * no-reroute", false, drop },
	{ "nv config save", false, config_done },
	{ "nv config apply", false, config_done },
};

static bool word_matches(const char *pattern, size_t len, const char *word)
{
	uint64_t id;

	if (len == 1 && *pattern == '#')
		return number(word, &id) && id >= 1 && id <= NV_DEFAULT;
	if (len == 1 && *pattern == '?')
		return strcmp(word, "uuid") == 0 || strcmp(word, "location") == 0;
	if (len == 1 && *pattern == '*')
		return true;
	return strlen(word) == len && strncmp(pattern, word, len) == 0;
}

static bool matches(const char *pattern, char **words, int n)
{
	int i = 0;

	for (; *pattern; i++) {
		size_t len = strcspn(pattern, " ");
		if (len == 3 && strncmp(pattern, "...", 3) == 0)
			return true;
		if (i == n || !word_matches(pattern, len, words[i]))
			return false;
		pattern += len + (pattern[len] == ' ');
	}
	return i == n;
}

/* Takes "-o json" out of the words. */
static bool take_json(char **words, int *n)
{
	for (int i = 0; i + 1 < *n; i++) {
		if ((strcmp(words[i], "-o") == 0 || strcmp(words[i], "--output") == 0) && strcmp(words[i + 1], "json") == 0) {
			memmove(&words[i], &words[i + 2], sizeof(*words) * (size_t)(*n - i - 2));
			*n -= 2;
			return true;
		}
	}
	return false;
}

static int dispatch(struct nv *nv, char **words, int n)
{
	bool json = take_json(words, &n);

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (!matches(commands[i].pattern, words, n))
			continue;
		if (commands[i].json && !json) {
			fputs("nv-simulated: only the JSON form is known: -o json\n", stderr);
			return 1;
		}
		return commands[i].run(nv, words, n);
	}
	puts("Error: Invalid command.");
	return 1;
}

static bool lock(const char *dir)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/lock", dir);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd >= 0 && flock(fd, LOCK_EX) == 0)
		return true;
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	return false;
}

int main(int argc, char **argv)
{
	static struct nv nv;
	char buffer[COMMAND_MAX], *split_words[WORDS_MAX], **words = argv + 2;
	const char *command = getenv("SSH_ORIGINAL_COMMAND");
	int n = argc - 2;

	if (argc < 2) {
		fputs("usage: nv-simulated DIR [nv WORD...]\n", stderr);
		return 2;
	}
	if (n == 0) {
		n = command && strlen(command) < COMMAND_MAX ? split(command, buffer, split_words) : -1;
		words = split_words;
	}
	if (n < 1) {
		fputs("nv-simulated: no simple command\n", stderr);
		return 1;
	}
	nv.dir = argv[1];
	nv.config = read_config(nv.dir);
	nv.now = nv_now_ms();
	if (!lock(nv.dir) || !nv_load(nv.dir, &nv.state))
		return 1;
	nv.now = nv_now_ms();
	forget_deleted(&nv);
	return dispatch(&nv, words, n);
}
