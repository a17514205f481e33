/* lscpu, numactl -H, chronyc tracking, systemctl show, nvme smart-log. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"

static const struct {
	const char *key, *metric;
	bool number;
} lscpu_rows[] = {
	{ "Architecture", "host.arch", false }, { "CPU(s)", "host.cpus", true }, { "Socket(s)", "host.sockets", true },
	{ "Thread(s) per core", "host.threads", true }, { "Model name", "host.cpu_model", false }, { "NUMA node(s)", "host.numa_nodes", true },
};

static void lscpu_value(struct rk_metrics *m, const char *key, const char *value)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(lscpu_rows); i++) {
		if (strcmp(lscpu_rows[i].key, key) == 0)
			rk_metric_value(m, lscpu_rows[i].metric, "", value, lscpu_rows[i].number);
	}
}

/* One level of children is enough: the rows that count are never nested deeper than sockets. */
static void lscpu_rows_of(struct rk_metrics *m, const struct rk_jnode *rows)
{
	RK_JEACH(row, rows) {
		const char *field = rk_jstr(rk_jget(row, "field")), *data = rk_jstr(rk_jget(row, "data"));
		if (!field || !data)
			continue;
		char *key = rk_arena_strdup(m->arena, field);
		key[strcspn(key, ":")] = '\0';
		lscpu_value(m, key, data);
	}
}

static void lscpu_document(void *ctx, const struct rk_jnode *root)
{
	const struct rk_jnode *rows = rk_jget(root, "lscpu");

	lscpu_rows_of(ctx, rows);
	RK_JEACH(row, rows) {
		lscpu_rows_of(ctx, rk_jget(row, "children"));
		RK_JEACH(child, rk_jget(row, "children"))
			lscpu_rows_of(ctx, rk_jget(child, "children"));
	}
}

void rk_parse_lscpu(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at, *line, *key, *value;
	bool cut, short_line = false;

	if (rk_json_docs(ret, evidence, lscpu_document, ret, &cut))
		return;
	at = rk_clean(ret->arena, evidence->out, evidence->out_len);
	while ((line = rk_next_line(&at, &short_line)) != NULL) {
		if (!short_line && rk_split_colon(line, &key, &value))
			lscpu_value(ret, key, value);
	}
}

struct node {
	bool cpus;
	double mb;
};

void rk_parse_numactl(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	enum { NODES = 256 };
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line;
	struct node nodes[NODES] = { 0 };
	int available = 0, sized = 0, listed = 0, n, used;
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		double mb;
		if (sscanf(line, "available: %d nodes", &n) == 1)
			available = n;
		else if (sscanf(line, "node %d cpus:%n", &n, &used) == 1 && n >= 0 && n < NODES && strstr(line, "cpus:")) {
			nodes[n].cpus = strspn(line + used, " \t") < strlen(line + used);
			listed++;
		}
		else if (!cut && sscanf(line, "node %d size: %lf MB", &n, &mb) == 2 && n >= 0 && n < NODES) {
			nodes[n].mb = mb;
			sized++;
		}
	}
	if (!available)
		return;
	double cpu_mb = 0;
	int cpu_nodes = 0, gpu_nodes = 0;
	for (n = 0; n < NODES; n++) {
		cpu_nodes += nodes[n].cpus;
		cpu_mb += nodes[n].cpus ? nodes[n].mb : 0;
		gpu_nodes += !nodes[n].cpus && nodes[n].mb > 0;
	}
	if (sized < available || listed < available) {
		rk_metric_absent(ret, "numa.cpu_nodes", "", "truncated");
		rk_metric_absent(ret, "numa.cpu_mb", "", "truncated");
		rk_metric_absent(ret, "numa.gpu_nodes", "", "truncated");
		return;
	}
	rk_metric_number(ret, "numa.cpu_nodes", "", cpu_nodes);
	rk_metric_number(ret, "numa.cpu_mb", "", cpu_mb);
	rk_metric_number(ret, "numa.gpu_nodes", "", gpu_nodes);
}

static bool is_leap(const char *text)
{
	static const char *const words[] = { "Normal", "Insert second", "Delete second", "Not synchronised" };

	return rk_word_of(text, words, RK_ARRAY_SIZE(words));
}

static void chrony_value(struct rk_metrics *m, const char *key, const char *value)
{
	double v;

	if (strcmp(key, "Stratum") == 0)
		rk_metric_value(m, "time.stratum", "", value, true);
	else if (strcmp(key, "Leap status") == 0)
		rk_metric_value(m, "time.leap", "", value, false);
	else if (strcmp(key, "System time") == 0 && rk_lead_number(value, &v))
		rk_metric_number(m, "time.offset_ms", "", fabs(v) * 1000);
}

/* chronyc -c tracking: id, name, stratum, time, system time offset, ..., leap status as the 14th field. */
static bool chrony_csv(struct rk_metrics *m, char *line, bool cut)
{
	char *fields[14], *p = line;
	size_t n = 0;
	double v;

	while (n < RK_ARRAY_SIZE(fields) && p) {
		fields[n++] = p;
		p = strchr(p, ',');
		if (p)
			*p++ = '\0';
	}
	if (n != RK_ARRAY_SIZE(fields) || p || !rk_lead_number(fields[4], &v) || (cut && !is_leap(rk_trim(fields[13]))))
		return false;
	rk_metric_value(m, "time.stratum", "", fields[2], true);
	rk_metric_number(m, "time.offset_ms", "", fabs(v) * 1000);
	rk_metric_value(m, "time.leap", "", rk_trim(fields[13]), false);
	return true;
}

void rk_parse_chrony(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line, *key, *value;
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		if (strstr(line, "Cannot talk to daemon"))
			rk_metric_absent(ret, "time.leap", "", "the time daemon does not answer");
		else if (!rk_split_colon(line, &key, &value))
			chrony_csv(ret, line, cut);
		else if (!cut || is_leap(value))
			chrony_value(ret, key, value);
	}
}

/* The order in which the collector asks; systemctl is-active prints words without names. */
static const char *const units[] = { "nvidia-imex", "nvidia-persistenced", "nvidia-dcgm", "nvidia-fabricmanager", "chrony" };

struct unit {
	char name[64];
	const char *load, *active;
};

static bool is_state(const char *word)
{
	static const char *const words[] = { "active", "inactive", "failed", "activating", "deactivating", "reloading", "refreshing", "maintenance" };

	return rk_word_of(word, words, RK_ARRAY_SIZE(words));
}

/* Words of systemctl is-active are told by their place, so one that nobody knows has its place, too. */
static bool is_word(const char *line)
{
	return *line && strspn(line, "abcdefghijklmnopqrstuvwxyz-") == strlen(line);
}

/* systemd says "unknown" as well, and nothing when it was interrupted. */
static void unit_state(struct rk_metrics *m, const char *name, const char *word)
{
	if (is_state(word))
		rk_metric_text(m, name, "", word);
	else
		rk_metric_absent(m, name, "", *word ? word : "empty");
}

static void unit_end(struct rk_metrics *m, struct unit *u)
{
	const char *name = rk_labelf(m, "svc.%s", u->name);
	bool absent = u->load && strcmp(u->load, "not-found") == 0;

	if (!*u->name)
		; /* rows of nobody */
	else if (absent)
		rk_metric_text(m, name, "", "not installed");
	else if (u->active)
		unit_state(m, name, u->active);
	else
		rk_metric_absent(m, name, "", "truncated");
	memset(u, 0, sizeof(*u));
}

static void unit_line(struct rk_metrics *m, struct unit *u, char *line, bool cut)
{
	if (cut && !(rk_starts_with(line, "ActiveState=") && is_state(line + 12)))
		return; /* half a row */
	if (!*line) {
		unit_end(m, u);
	} else if (rk_starts_with(line, "Id=")) {
		if (*u->name)
			unit_end(m, u);
		snprintf(u->name, sizeof(u->name), "%s", line + 3);
		char *dot = strstr(u->name, ".service");
		if (dot)
			*dot = '\0';
	} else if (rk_starts_with(line, "LoadState=")) {
		u->load = line + 10;
	} else if (rk_starts_with(line, "ActiveState=")) {
		u->active = line + 12;
	}
}

void rk_parse_services(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line;
	struct unit unit = { 0 };
	size_t words = 0;
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		line = rk_trim(line);
		if (is_word(line) && (!cut || is_state(line)) && words < RK_ARRAY_SIZE(units))
			unit_state(ret, rk_labelf(ret, "svc.%s", units[words++]), line);
		else
			unit_line(ret, &unit, line, cut);
	}
	unit_end(ret, &unit);
}

static const struct {
	const char *key, *metric;
} drive_rows[] = {
	{ "critical_warning", "nvme.critical_warning" }, { "media_errors", "nvme.media_errors" }, { "available_spare", "nvme.spare" },
	{ "percentage_used", "nvme.used" },
};

struct drives {
	struct rk_metrics *m;
	const char *label;       /* of the present drive */
	int n, rows, most_rows;  /* rows: of the present one */
	bool seen[RK_ARRAY_SIZE(drive_rows)];
};

static void drive_end(struct drives *d, const char *missing)
{
	for (size_t i = 0; d->label && i < RK_ARRAY_SIZE(drive_rows); i++) {
		if (!d->seen[i])
			rk_metric_absent(d->m, drive_rows[i].metric, d->label, missing);
		d->seen[i] = false;
	}
	d->most_rows = d->rows > d->most_rows ? d->rows : d->most_rows;
}

/* "Smart Log for NVME device:nvme0n1 namespace-id:ffffffff" */
static void drive_begin(struct drives *d, const char *name)
{
	int n = (int)strcspn(name, " ");

	drive_end(d, "row missing");
	d->label = rk_labelf(d->m, "drive=%.*s", n > 32 ? 32 : n, name);
	d->rows = 0;
	d->n++;
}

static void drive_row(struct drives *d, const char *key, const char *value)
{
	d->rows++;
	for (size_t i = 0; i < RK_ARRAY_SIZE(drive_rows); i++) {
		if (strcmp(drive_rows[i].key, key) != 0)
			continue;
		if (d->seen[i])
			drive_begin(d, "?"); /* whose own line was lost */
		rk_metric_value(d->m, drive_rows[i].metric, d->label, value, true);
		d->seen[i] = true;
	}
}

void rk_parse_storage(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line, *key, *value;
	struct drives d = { .m = ret };
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		const char *device = strstr(line, "NVME device:");
		if (device && !cut)
			drive_begin(&d, device + strlen("NVME device:"));
		else if (d.label && rk_split_colon(line, &key, &value) && !cut)
			drive_row(&d, key, value);
		else
			d.rows += d.label && cut;
	}
	/* All drives show the same rows; the last one of a list that was cut shows fewer. */
	bool shorter = d.rows < d.most_rows;
	drive_end(&d, cut || shorter ? "truncated" : "row missing");
	if (d.n && shorter)
		rk_metric_absent(ret, "nvme.drives", "", "truncated");
	else if (d.n)
		rk_metric_count(ret, evidence, "nvme.drives", d.n);
}
