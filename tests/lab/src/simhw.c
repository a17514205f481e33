/* The hardware of the lab's trays, as its guests can ask for it over TCP. `simhw RUN ADDRESS`: RUN is the lab's folder, ADDRESS:2222 is
 * held so that no two labs use one block of addresses; guests come to a port of 127.0.0.1 that is written to RUN/hw/port.
 *
 * A question is one line: TRAY TOOL ARG...; the answer a line "STATUS STREAM" (1 stdout, 2 stderr) and the text. Nothing is kept here:
 * every answer is read at that moment from the NVLink switch (RUN/nvsw), the fabric (ibrun) and the IMEX daemons that are connected now. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nvstate.h"

enum { GPUS = 4, RAILS = 4, LINKS = 18, NODES_MAX = 18, ARGS_MAX = 16, FILE_MAX_BYTES = 1 << 20, QUESTION_SECONDS = 30, CLAIM_PORT = 2222 };

#define DRIVER "580.173.02"

struct tray {
	char name[32];                    /* "r01-t03" */
	int rack, number;
};
struct answer {
	FILE *out;
	int status, stream;
};
struct ask {                              /* one question, in the process that answers it */
	const char *run;
	FILE *in;
	int fd;
	struct tray tray;
	char *args[ARGS_MAX];
	int n_args;
	struct answer *answer;
};

static const char *const gpu_bus[GPUS] = { "00000008:06:00.0", "00000009:06:00.0", "00000018:06:00.0", "00000019:06:00.0" };
static const int gpu_module[GPUS] = { 2, 1, 4, 3 };
static const char *const gpu_numa[GPUS] = { "2", "10", "18", "26" };

/* ---- small things ---------------------------------------------------------------------------------------------------------------- */

/* A whole file as text, malloc'ed; NULL when it cannot be read. */
static char *read_text(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = file ? calloc(1, FILE_MAX_BYTES) : NULL;

	if (text)
		text[fread(text, 1, FILE_MAX_BYTES - 1, file)] = '\0';
	if (file)
		fclose(file);
	return text;
}

__attribute__((format(printf, 2, 3))) static char *read_at(const char *run, const char *format, ...)
{
	char name[512], path[4096];
	va_list args;

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	snprintf(path, sizeof(path), "%s/%s", run, name);
	return read_text(path);
}

static bool parse_tray(const char *name, struct tray *ret)
{
	int end = 0;

	memset(ret, 0, sizeof(*ret));
	if (sscanf(name, "r%2d-t%2d%n", &ret->rack, &ret->number, &end) != 2 || name[end] || strlen(name) >= sizeof(ret->name))
		return false;
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	return true;
}

static void complain(struct ask *ask, int status, const char *text)
{
	ask->answer->status = status;
	ask->answer->stream = 2;
	fprintf(ask->answer->out, "%s\n", text);
}

static bool asked(const struct ask *ask, const char *words)
{
	char text[256] = "";

	for (int i = 0; i < ask->n_args; i++) {
		size_t len = strlen(text);
		snprintf(text + len, sizeof(text) - len, "%s%s", i ? " " : "", ask->args[i]);
	}
	return strcmp(text, words) == 0;
}

/* ---- GPUs ---------------------------------------------------------------------------------------------------------------------------- */

static uint64_t gpu_guid(const struct tray *tray, int gpu)
{
	return UINT64_C(0x4c8d000100000000) | (uint64_t)tray->rack << 16 | (uint64_t)tray->number << 8 | (uint64_t)(gpu + 1);
}

/* Partitions of a tray's GPUs as the switch shows them now; 0: in none. */
static bool gpu_partitions(const char *run, const struct tray *tray, int *ret)
{
	static struct nv_state state;
	char dir[4096];
	int64_t now = nv_now_ms();

	snprintf(dir, sizeof(dir), "%s/nvsw", run);
	if (!nv_load(dir, &state))
		return false;
	for (int i = 0; i < GPUS; i++) {
		int found = nv_find_gpu(&state, gpu_guid(tray, i));
		ret[i] = found < 0 ? 0 : nv_visible(&state.gpus[found], now);
	}
	return true;
}

static void gpu_uuid(const struct tray *tray, int gpu, char *ret, size_t size)
{
	snprintf(ret, size, "GPU-%08x-%04x-4000-8000-%012" PRIx64, 0x1ab00000u + (unsigned)gpu, (unsigned)tray->rack,
		 (uint64_t)tray->rack << 16 | (uint64_t)tray->number << 8 | (uint64_t)gpu);
}

static int slot_of(const struct tray *tray)
{
	return tray->number <= 8 ? tray->number : tray->number + 9;
}

/* Values for the @KEY@ places of a template. */
struct place {
	const char *key;
	char value[64];
};
enum place_id { BUS, DOMAIN, SERIAL, UUID, MINOR, CHASSIS, SLOT, TRAY, MODULE, GUID, STATE, STATUS, CLIQUE, CLUSTER, HEALTH, BANDWIDTH, NO, NONE, PLACES };

static void fill_places(const struct ask *ask, int gpu, int partition, struct place *p)
{
	static const char *const keys[PLACES] = { "BUS", "DOMAIN", "SERIAL", "UUID", "MINOR", "CHASSIS", "SLOT", "TRAY", "MODULE", "GUID", "STATE",
						  "STATUS", "CLIQUE", "CLUSTER", "HEALTH", "BANDWIDTH", "NO", "NONE" };
	const struct tray *t = &ask->tray;
	char *cluster = read_at(ask->run, "cluster-uuid");
	bool in = partition > 0;

	for (int i = 0; i < PLACES; i++)
		p[i].key = keys[i];
	snprintf(p[BUS].value, sizeof(p->value), "%s", gpu_bus[gpu]);
	snprintf(p[DOMAIN].value, sizeof(p->value), "%.4s", gpu_bus[gpu] + 4);
	snprintf(p[SERIAL].value, sizeof(p->value), "165%02d000%02d%03d", t->rack, t->number, gpu / 2 + 1);
	gpu_uuid(t, gpu, p[UUID].value, sizeof(p->value));
	snprintf(p[MINOR].value, sizeof(p->value), "%d", gpu);
	snprintf(p[CHASSIS].value, sizeof(p->value), "18207250000%02d", t->rack);
	snprintf(p[SLOT].value, sizeof(p->value), "%d", slot_of(t));
	snprintf(p[TRAY].value, sizeof(p->value), "%d", t->number - 1);
	snprintf(p[MODULE].value, sizeof(p->value), "%d", gpu_module[gpu]);
	snprintf(p[GUID].value, sizeof(p->value), "0x%016" PRIx64, gpu_guid(t, gpu));
	snprintf(p[STATE].value, sizeof(p->value), "%s", in ? "Completed" : "In Progress");
	snprintf(p[STATUS].value, sizeof(p->value), "%s", in ? "Success" : "N/A");
	snprintf(p[CLIQUE].value, sizeof(p->value), in ? "%d" : "N/A", partition);
	snprintf(p[CLUSTER].value, sizeof(p->value), "%.36s", in && cluster ? cluster : "N/A");
	snprintf(p[HEALTH].value, sizeof(p->value), "%s", in ? "Healthy" : "N/A");
	snprintf(p[BANDWIDTH].value, sizeof(p->value), "%s", in ? "Full" : "N/A");
	snprintf(p[NO].value, sizeof(p->value), "%s", in ? "False" : "N/A");
	snprintf(p[NONE].value, sizeof(p->value), "%s", in ? "None" : "N/A");
	free(cluster);
}

static void expand(FILE *out, const char *text, const struct place *places)
{
	while (*text) {
		size_t plain = strcspn(text, "@"), len = text[plain] ? strcspn(text + plain + 1, "@") : 0;
		fwrite(text, 1, plain, out);
		text += plain;
		for (int i = 0; i < PLACES && *text; i++)
			if (strlen(places[i].key) == len && strncmp(text + 1, places[i].key, len) == 0)
				fputs(places[i].value, out);
		text += *text ? len + 2 : 0;
	}
}

static void time_stamp(char *ret, size_t size)
{
	time_t now = time(NULL);
	struct tm tm;

	strftime(ret, size, "%a %b %e %H:%M:%S %Y", gmtime_r(&now, &tm));
}

/* `lab fault DIR gpu-off TRAY GPU` leaves a file: the GPU fell off the bus. */
static bool is_there(const struct ask *ask, int gpu)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/hw/off/%d.%d", ask->run, ask->tray.number, gpu);
	return access(path, F_OK) != 0;
}

static int gpus_there(const struct ask *ask)
{
	int n = 0;

	for (int i = 0; i < GPUS; i++)
		n += is_there(ask, i);
	return n;
}

static void each_gpu(struct ask *ask, const char *template, const int *partitions)
{
	struct place places[PLACES];
	char *text = read_at(ask->run, "share/%s", template);

	for (int i = 0; text && i < GPUS; i++) {
		if (!is_there(ask, i))
			continue;
		fill_places(ask, i, partitions[i], places);
		expand(ask->answer->out, text, places);
	}
	free(text);
}

static void smi_xml(struct ask *ask, const int *partitions)
{
	char stamp[64];

	time_stamp(stamp, sizeof(stamp));
	fprintf(ask->answer->out,
		"<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">\n<nvidia_smi_log>\n\t<timestamp>%s</timestamp>\n"
		"\t<driver_version>" DRIVER "</driver_version>\n\t<cuda_version>13.0</cuda_version>\n\t<attached_gpus>%d</attached_gpus>\n",
		stamp, gpus_there(ask));
	each_gpu(ask, "gpu.xml", partitions);
	fputs("</nvidia_smi_log>\n", ask->answer->out);
}

static void smi_text(struct ask *ask, const int *partitions)
{
	char stamp[64];

	time_stamp(stamp, sizeof(stamp));
	fprintf(ask->answer->out,
		"\n==============NVSMI LOG==============\n\nTimestamp                                 : %s\n"
		"Driver Version                            : " DRIVER "\nCUDA Version                              : 13.0\n\n"
		"Attached GPUs                             : %d\n",
		stamp, gpus_there(ask));
	each_gpu(ask, "gpu.txt", partitions);
}

static void gpu_head(struct ask *ask, int gpu)
{
	char uuid[64];

	gpu_uuid(&ask->tray, gpu, uuid, sizeof(uuid));
	fprintf(ask->answer->out, "GPU %d: NVIDIA GB300 (UUID: %s)\n", gpu, uuid);
}

static void smi_list(struct ask *ask, const int *partitions)
{
	(void)partitions;
	for (int i = 0; i < GPUS; i++)
		if (is_there(ask, i))
			gpu_head(ask, i);
}

static void smi_links(struct ask *ask, const int *partitions)
{
	for (int i = 0; i < GPUS; i++) {
		if (!is_there(ask, i))
			continue;
		gpu_head(ask, i);
		for (int k = 0; k < LINKS; k++)
			fprintf(ask->answer->out, "\t Link %d: %s\n", k, partitions[i] ? "53.125 GB/s" : "<inactive>");
	}
}

static void smi_errors(struct ask *ask, const int *partitions)
{
	char *rows = read_at(ask->run, "share/link-errors.txt"), *save;

	(void)partitions;
	for (int i = 0; rows && i < GPUS; i++) {
		if (!is_there(ask, i))
			continue;
		gpu_head(ask, i);
		for (int k = 0; k < LINKS; k++) {
			char *copy = strdup(rows);
			for (char *row = strtok_r(copy, "\n", &save); row; row = strtok_r(NULL, "\n", &save))
				fprintf(ask->answer->out, "\t Link %d: %s\n", k, row);
			free(copy);
		}
	}
	free(rows);
}

static void smi_topo(struct ask *ask, const int *partitions)
{
	FILE *out = ask->answer->out;

	fputs("\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n", out);
	for (int i = 0; i < GPUS; i++) {
		fprintf(out, "GPU%d", i);
		for (int k = 0; k < GPUS; k++)
			fprintf(out, "\t%s", i == k ? " X " : partitions[i] && partitions[i] == partitions[k] ? "NV18" : "SYS");
		fprintf(out, "\tSYS\tSYS\tSYS\tSYS\t%s\t%d\t\t%s\n", i < 2 ? "0-71" : "72-143", i / 2, gpu_numa[i]);
	}
	for (int i = 0; i < RAILS; i++) {
		fprintf(out, "NIC%d\tSYS\tSYS\tSYS\tSYS", i);
		for (int k = 0; k < RAILS; k++)
			fprintf(out, "\t%s", i == k ? " X " : "SYS");
		fputc('\n', out);
	}
	fputs("\nNIC Legend:\n\n", out);
	for (int i = 0; i < RAILS; i++)
		fprintf(out, "  NIC%d: mlx5_%d\n", i, i);
}

static void nvidia_smi(struct ask *ask)
{
	static const struct {
		const char *words;
		void (*answer)(struct ask *ask, const int *partitions);
	} rows[] = {
		{ "-q -x", smi_xml }, { "-x -q", smi_xml }, { "-q", smi_text }, { "-L", smi_list }, { "nvlink -s", smi_links },
		{ "nvlink -e", smi_errors }, { "topo -m", smi_topo },
	};
	int partitions[GPUS];

	if (!gpu_partitions(ask->run, &ask->tray, partitions)) {
		complain(ask, 1, "the simulated NVLink switch cannot be read");
		return;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (asked(ask, rows[i].words)) {
			rows[i].answer(ask, partitions);
			return;
		}
	}
	complain(ask, 2, "nvidia-smi (simulated): knows -q, -q -x, -L, nvlink -s, nvlink -e, topo -m");
}

/* ---- HCAs ------------------------------------------------------------------------------------------------------------------------------ */

/* Runs a tool on a tray's HCA; its stdout, malloc'ed. */
static char *on_hca(const struct ask *ask, int rail, const char *const *argv, int *status)
{
	char host[32], path[4096], *text = calloc(1, FILE_MAX_BYTES);
	int pipes[2];
	size_t len = 0;
	ssize_t n;

	snprintf(host, sizeof(host), "r%02dt%02dh%d", ask->tray.rack, ask->tray.number, rail);
	snprintf(path, sizeof(path), "%s/bin/ibrun", ask->run);
	if (!text || pipe2(pipes, O_CLOEXEC) != 0)
		return text;
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		setenv("SIM_HOST", host, 1);
		dup2(pipes[1], STDOUT_FILENO);
		execv(path, (char *const *)argv);
		_exit(127);
	}
	close(pipes[1]);
	while (len < FILE_MAX_BYTES - 1 && (n = read(pipes[0], text + len, FILE_MAX_BYTES - 1 - len)) > 0)
		len += (size_t)n;
	close(pipes[0]);
	waitpid(pid, status, 0);
	*status = WIFEXITED(*status) ? WEXITSTATUS(*status) : 255;
	return text;
}

/* The simulator calls every HCA ibsim0 and its link layer IB. */
static void as_hardware(FILE *out, const char *text, int rail)
{
	for (const char *at; (at = strstr(text, "ibsim0")) != NULL; text = at + 6)
		fprintf(out, "%.*smlx5_%d", (int)(at - text), text, rail);
	for (const char *at; (at = strstr(text, "Link layer: IB\n")) != NULL; text = at + 15)
		fprintf(out, "%.*sLink layer: InfiniBand\n", (int)(at - text), text);
	fputs(text, out);
}

static void hca_tool(struct ask *ask, int rail, const char *const *argv)
{
	int status = 255;
	char *text = on_hca(ask, rail, argv, &status);

	if (text)
		as_hardware(ask->answer->out, text, rail);
	if (status)
		ask->answer->status = status;
	free(text);
}

/* Takes "-C mlx5_N" and "-P 1" out of the arguments: on the simulator every HCA is the only one. Rail N, or -1. */
static int take_rail(struct ask *ask)
{
	int rail = 0, kept = 0;

	for (int i = 0; i < ask->n_args; i++) {
		if (strcmp(ask->args[i], "-C") == 0 && i + 1 < ask->n_args)
			rail = sscanf(ask->args[++i], "mlx5_%d", &rail) == 1 && rail >= 0 && rail < RAILS ? rail : -1;
		else if (strcmp(ask->args[i], "-P") == 0 && i + 1 < ask->n_args)
			i++;
		else
			ask->args[kept++] = ask->args[i];
	}
	ask->n_args = kept;
	return rail;
}

static void one_rail(struct ask *ask, const char *tool)
{
	const char *argv[ARGS_MAX + 3] = { "ibrun", tool };
	int rail = take_rail(ask);

	if (rail < 0) {
		complain(ask, 1, "no such HCA");
		return;
	}
	for (int i = 0; i < ask->n_args; i++)
		argv[2 + i] = ask->args[i];
	hca_tool(ask, rail, argv);
}

static void smpquery(struct ask *ask)
{
	one_rail(ask, "smpquery");
}

static void perfquery(struct ask *ask)
{
	one_rail(ask, "perfquery");
}

static void ibstat(struct ask *ask)
{
	static const char *const argv[] = { "ibrun", "ibstat", NULL };
	int only = -1;

	if (asked(ask, "-l")) {
		for (int rail = 0; rail < RAILS; rail++)
			fprintf(ask->answer->out, "mlx5_%d\n", rail);
		return;
	}
	if (ask->n_args && (sscanf(ask->args[0], "mlx5_%d", &only) != 1 || only < 0 || only >= RAILS)) {
		complain(ask, 255, "ibstat: no such device");
		return;
	}
	for (int rail = 0; rail < RAILS; rail++)
		if (only < 0 || only == rail)
			hca_tool(ask, rail, argv);
}

static void pkeys(struct ask *ask)
{
	static const char *const argv[] = { "ibrun", "smpquery", "-D", "pkeys", "0", NULL };

	for (int rail = 0; rail < RAILS; rail++)
		hca_tool(ask, rail, argv);
}

/* ---- IMEX ------------------------------------------------------------------------------------------------------------------------------ */

struct node {
	char address[64], host[64];
	bool registered;
	struct tray tray;
	char *list;                       /* what its daemon was started with */
	int partition;                    /* of all its GPUs; 0: none or several */
};

static int common_partition(const char *run, const struct tray *tray)
{
	int p[GPUS];

	if (!gpu_partitions(run, tray, p))
		return 0;
	for (int i = 1; i < GPUS; i++)
		if (p[i] != p[0])
			return 0;
	return p[0];
}

/* A registration is the guest's host name, a line, then its node list. */
static bool read_registration(const char *run, struct node *node)
{
	char *text = read_at(run, "hw/imex/%s", node->tray.name), *end = text ? strchr(text, '\n') : NULL;

	if (end) {
		snprintf(node->host, sizeof(node->host), "%.*s", (int)(end - text), text);
		node->list = strdup(end + 1);
		node->partition = common_partition(run, &node->tray);
	}
	free(text);
	return end != NULL;
}

/* Who listens at an address is noted by the QEMU that was started with it. */
static void look_up(const char *run, const char *address, struct node *node)
{
	char *tray = read_at(run, "hw/addr/%s", address);

	memset(node, 0, sizeof(*node));
	snprintf(node->address, sizeof(node->address), "%s", address);
	snprintf(node->host, sizeof(node->host), "%s", address);
	if (tray)
		tray[strcspn(tray, "\n")] = '\0';
	if (tray && parse_tray(tray, &node->tray))
		node->registered = read_registration(run, node);
	free(tray);
}

static int read_nodes(const char *run, const char *list, struct node *nodes)
{
	char *copy = strdup(list), *save;
	int n = 0;

	for (char *line = strtok_r(copy, "\n", &save); line && n < NODES_MAX; line = strtok_r(NULL, "\n", &save)) {
		line[strcspn(line, "# \t\r")] = '\0';
		if (*line && !strchr(line, '/'))
			look_up(run, line, &nodes[n++]);
	}
	free(copy);
	return n;
}

struct relation {
	const char *letter, *word;
};

static struct relation relate(const struct node *a, const struct node *b)
{
	if (!a->registered)
		return (struct relation){ "I", "INVALID" };
	if (!b->registered)
		return (struct relation){ "N", "NEVER_CONNECTED" };
	if (strcmp(a->list, b->list) != 0)
		return (struct relation){ "!M!", "NODE_MAP_MISMATCH" };
	if (a == b || (a->partition && a->partition == b->partition))
		return (struct relation){ "C", "CONNECTED" };
	return (struct relation){ "D", "DISCONNECTED" };
}

static const char *domain_state(const struct node *nodes, int n)
{
	int ready = 0, connected = 0;

	for (int i = 0; i < n; i++) {
		ready += nodes[i].registered;
		for (int k = 0; k < n; k++)
			connected += *relate(&nodes[i], &nodes[k]).letter == 'C';
	}
	return !ready ? "DOWN" : connected == n * n ? "UP" : "DEGRADED";
}

static void imex_stamp(char *ret, size_t size)
{
	int64_t ms = nv_now_ms();
	time_t now = (time_t)(ms / 1000);
	struct tm tm;

	gmtime_r(&now, &tm);
	snprintf(ret, size, "%d/%d/%d %02d:%02d:%02d.%03d", tm.tm_mon + 1, tm.tm_mday, tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(ms % 1000));
}

static void imex_json(FILE *out, const struct node *nodes, int n)
{
	char stamp[64];

	imex_stamp(stamp, sizeof(stamp));
	fputs("{\"nodes\": {", out);
	for (int i = 0; i < n; i++) {
		fprintf(out, "%s\"%d\": {\"status\": \"%s\", \"host\": \"%s\", \"hostName\": \"%s\", \"connections\": {", i ? ", " : "", i,
			nodes[i].registered ? "READY" : "UNAVAILABLE", nodes[i].address, nodes[i].host);
		for (int k = 0; k < n; k++)
			fprintf(out, "%s\"%d\": {\"host\": \"%s\", \"status\": \"%s\", \"changed\": true}", k ? ", " : "", k, nodes[k].address,
				relate(&nodes[i], &nodes[k]).word);
		fprintf(out, "}, \"changed\": true, \"version\": \"%s\"}", nodes[i].registered ? DRIVER : "");
	}
	fprintf(out, "}, \"timestamp\": \"%s\", \"status\": \"%s\"}\n", stamp, domain_state(nodes, n));
}

static void imex_text(struct ask *ask, const struct node *nodes, int n)
{
	FILE *out = ask->answer->out;
	char stamp[64], *legend = read_at(ask->run, "share/imex-legend.txt");

	imex_stamp(stamp, sizeof(stamp));
	fprintf(out, "%s\n%s\nNodes:\n", legend ? legend : "", stamp);
	free(legend);
	for (int i = 0; i < n; i++) {
		fprintf(out, "Node #%-3d - %-15s - ", i, nodes[i].address);
		fprintf(out, nodes[i].registered ? "%-20s - Version: " DRIVER "\n" : "%s\n", nodes[i].registered ? "READY" : "UNAVAILABLE");
	}
	fputs("\n Nodes From\\To ", out);
	for (int i = 0; i < n; i++)
		fprintf(out, " %-3d", i);
	for (int i = 0; i < n; i++) {
		fprintf(out, "\n%8d       ", i);
		for (int k = 0; k < n; k++)
			fprintf(out, " %-3s", relate(&nodes[i], &nodes[k]).letter);
	}
	fprintf(out, "\n\nDomain State: %s\n", domain_state(nodes, n));
}

static void imex_ctl(struct ask *ask)
{
	struct node nodes[NODES_MAX], self = { .tray = ask->tray };
	bool json = asked(ask, "-N -j -H") || asked(ask, "-N -j");

	self.registered = read_registration(ask->run, &self);
	if (asked(ask, "-q")) {
		fprintf(ask->answer->out, "%s\n", self.registered ? "READY" : "UNAVAILABLE");
	} else if (!json && !asked(ask, "-N")) {
		complain(ask, 1, "nvidia-imex-ctl (simulated): knows -q, -N, -N -j, -N -j -H");
	} else if (!self.registered) {
		complain(ask, 1, "nvidia-imex-ctl (simulated): the daemon does not run here");
	} else {
		int n = read_nodes(ask->run, self.list, nodes);
		if (json)
			imex_json(ask->answer->out, nodes, n);
		else
			imex_text(ask, nodes, n);
		for (int i = 0; i < n; i++)
			free(nodes[i].list);
	}
	free(self.list);
}

/* A daemon is registered as long as it stays connected: a guest that dies is gone at once. Its list ends with a line ".". */
static void imex_daemon(struct ask *ask)
{
	char path[4096], draft[4096], line[256];
	struct stat mine, now;

	snprintf(path, sizeof(path), "%s/hw/imex/%s", ask->run, ask->tray.name);
	snprintf(draft, sizeof(draft), "%s/hw/imex/.%d", ask->run, (int)getpid());
	FILE *file = fopen(draft, "we");
	if (!file)
		return;
	fprintf(file, "%s\n", ask->n_args ? ask->args[0] : ask->tray.name);
	while (fgets(line, sizeof(line), ask->in) && strcmp(line, ".\n") != 0)
		fputs(line, file);
	fstat(fileno(file), &mine);
	fclose(file);
	rename(draft, path);
	alarm(0);
	while (fgets(line, sizeof(line), ask->in))
		;
	/* A restarted daemon may have registered already. */
	if (stat(path, &now) == 0 && now.st_ino == mine.st_ino)
		unlink(path);
}

/* ---- the service ------------------------------------------------------------------------------------------------------------------------- */

static const struct tool {
	const char *name;
	void (*run)(struct ask *ask);
} tools[] = {
	{ "nvidia-smi", nvidia_smi }, { "nvidia-imex-ctl", imex_ctl }, { "imex-daemon", imex_daemon }, { "ibstat", ibstat },
	{ "smpquery", smpquery }, { "perfquery", perfquery }, { "ib-pkeys", pkeys },
};

static bool read_question(struct ask *ask, char *line, size_t size, const struct tool **ret)
{
	char *save, *word;

	*ret = NULL;
	if (!fgets(line, (int)size, ask->in) || !(word = strtok_r(line, " \r\n", &save)) || !parse_tray(word, &ask->tray))
		return false;
	word = strtok_r(NULL, " \r\n", &save);
	for (size_t i = 0; word && i < sizeof(tools) / sizeof(tools[0]); i++)
		if (strcmp(word, tools[i].name) == 0)
			*ret = &tools[i];
	while (ask->n_args < ARGS_MAX && (word = strtok_r(NULL, " \r\n", &save)) != NULL)
		ask->args[ask->n_args++] = word;
	return *ret != NULL;
}

static void serve(const char *run, int fd)
{
	char line[1024], *text = NULL;
	size_t len = 0;
	struct answer answer = { .stream = 1 };
	struct ask ask = { .run = run, .in = fdopen(fd, "r"), .fd = fd, .answer = &answer };
	const struct tool *tool;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	signal(SIGCHLD, SIG_DFL);
	alarm(QUESTION_SECONDS);
	answer.out = open_memstream(&text, &len);
	if (read_question(&ask, line, sizeof(line), &tool))
		tool->run(&ask);
	else
		complain(&ask, 1, "no such hardware");
	fclose(answer.out);
	dprintf(fd, "%d %d\n", answer.status, answer.stream);
	for (size_t at = 0; at < len;) {
		ssize_t n = write(fd, text + at, len - at);
		if (n <= 0)
			break;
		at += (size_t)n;
	}
	shutdown(fd, SHUT_RDWR);
	_exit(0);
}

static int listen_at(const char *address, int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	inet_pton(AF_INET, address, &at.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 64) != 0) {
		fprintf(stderr, "simhw: %s port %d: %s\n", address, port, strerror(errno));
		exit(1);
	}
	return fd;
}

static void write_port(const char *run, int fd)
{
	struct sockaddr_in at;
	socklen_t len = sizeof(at);
	char path[4096], draft[4096];

	getsockname(fd, (struct sockaddr *)&at, &len);
	snprintf(path, sizeof(path), "%s/hw/port", run);
	snprintf(draft, sizeof(draft), "%s/hw/port.new", run);
	FILE *file = fopen(draft, "we");
	if (!file || fprintf(file, "%d\n", ntohs(at.sin_port)) < 0 || fclose(file) != 0 || rename(draft, path) != 0) {
		perror(path);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fputs("usage: simhw RUN ADDRESS\n", stderr);
		return 2;
	}
	listen_at(argv[2], CLAIM_PORT);
	int fd = listen_at("127.0.0.1", 0);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	write_port(argv[1], fd);
	for (;;) {
		int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (client >= 0 && fork() == 0)
			serve(argv[1], client);
		if (client >= 0)
			close(client);
	}
}
