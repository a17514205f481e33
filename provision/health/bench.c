/* Measurements: nvbandwidth, perftest, fio, GEMM. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"

enum { GPUS_MAX = 16, WORDS_MAX = 24, STDERR_MAX = 1 << 20 };

size_t rk_words(char *line, char **words, size_t max)
{
	char *save = NULL;
	size_t n = 0;

	for (char *word = strtok_r(line, " \t", &save); word && n < max; word = strtok_r(NULL, " \t", &save))
		words[n++] = word;
	return n;
}

static bool full_number(const char *s, double *ret)
{
	return rk_parse_double(s, ret);
}

const char *rk_found_text(const struct rk_evidence *evidence, struct rk_arena *arena, const char *const *texts, size_t n)
{
	const char *streams[] = { rk_clean(arena, evidence->out, evidence->out_len),
				  rk_clean(arena, evidence->err, evidence->err_len < STDERR_MAX ? evidence->err_len : STDERR_MAX) };

	for (size_t s = 0; s < RK_ARRAY_SIZE(streams); s++) {
		for (size_t i = 0; i < n; i++) {
			if (strstr(streams[s], texts[i]))
				return texts[i];
		}
	}
	return NULL;
}

static bool has_result(const struct rk_metrics *m)
{
	for (size_t i = 0; i < m->n; i++) {
		if (m->items[i].type == RK_METRIC_NUMBER)
			return true;
	}
	return false;
}

struct matrix {
	double value[GPUS_MAX][GPUS_MAX]; /* 0 = none */
	int rows, columns;
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Per GPU: the median of its row and column, so that one slow GPU does not colour the others. */
static void matrix_emit(struct rk_metrics *m, const char *test, const struct matrix *x)
{
	const char *name = rk_labelf(m, "nvbw.%.60s", test);

	for (int gpu = 0; gpu < x->columns; gpu++) {
		double values[2 * GPUS_MAX];
		size_t n = 0;
		for (int i = 0; i < x->rows; i++) {
			if (x->value[i][gpu] > 0)
				values[n++] = x->value[i][gpu];
		}
		for (int i = 0; x->rows > 1 && gpu < x->rows && i < x->columns; i++) {
			if (x->value[gpu][i] > 0)
				values[n++] = x->value[gpu][i];
		}
		if (!n) {
			rk_metric_absent(m, name, rk_labelf(m, "gpu=%d", gpu), "no value");
			continue;
		}
		qsort(values, n, sizeof(values[0]), by_value);
		rk_metric_number(m, name, rk_labelf(m, "gpu=%d", gpu), n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2);
	}
}

static void nvbw_case(struct rk_metrics *m, const struct rk_jnode *node)
{
	const char *name = rk_jstr(rk_jget(node, "name")), *status = rk_jstr(rk_jget(node, "status"));
	struct matrix x = { 0 };

	if (!name)
		return;
	if (status && strcmp(status, "Passed") != 0) {
		const char *metric = rk_labelf(m, "nvbw.%.60s", name);
		if (strcmp(status, "Waived") == 0)
			rk_metric_absent(m, metric, "", "waived");
		else
			rk_metric_text(m, "nvbw.error", rk_labelf(m, "test=%.60s", name), status);
		return;
	}
	RK_JEACH(row, rk_jget(node, "bandwidth_matrix")) {
		int column = 0;
		RK_JEACH(cell, row) {
			double v = 0;
			if (x.rows < GPUS_MAX && column < GPUS_MAX && rk_jdouble(cell, &v))
				x.value[x.rows][column] = v;
			column += column < GPUS_MAX;
		}
		x.columns = column > x.columns ? column : x.columns;
		x.rows += x.rows < GPUS_MAX;
	}
	matrix_emit(m, name, &x);
}

static void nvbw_document(void *ctx, const struct rk_jnode *root)
{
	const char *error = rk_jstr(rk_jget(rk_jget(root, "nvbandwidth"), "error"));

	if (error)
		rk_metric_text(ctx, "nvbw.error", "", error);
	RK_JEACH(item, rk_jget(rk_jget(root, "nvbandwidth"), "testcases"))
		nvbw_case(ctx, item);
}

static void nvbw_text(const struct rk_evidence *evidence, struct rk_metrics *m)
{
	char *at = rk_clean(m->arena, evidence->out, evidence->out_len), *line, *words[WORDS_MAX];
	const char *name = NULL;
	struct matrix x = { 0 };

	while ((line = rk_next_line(&at, NULL)) != NULL) {
		line = rk_trim(line);
		if (rk_starts_with(line, "Running ")) {
			name = line + 8;
			line[strcspn(line, ".")] = '\0';
			memset(&x, 0, sizeof(x));
			continue;
		}
		if (name && rk_starts_with(line, "SUM ")) {
			matrix_emit(m, name, &x);
			name = NULL;
			continue;
		}
		size_t n = name ? rk_words(line, words, WORDS_MAX) : 0;
		/* A row begins with its number and its values have a point; the head line has whole numbers only. */
		if (n < 2 || x.rows == GPUS_MAX || strcspn(words[0], "0123456789") || (!strchr(words[1], '.') && strcmp(words[1], "N/A")))
			continue;
		for (size_t i = 1; i < n && i <= GPUS_MAX; i++) {
			double v;
			if (full_number(words[i], &v))
				x.value[x.rows][i - 1] = v;
		}
		x.columns = (int)n - 1 > x.columns ? (int)n - 1 : x.columns;
		x.columns = x.columns > GPUS_MAX ? GPUS_MAX : x.columns;
		x.rows++;
	}
	if (name)
		rk_metric_absent(m, rk_labelf(m, "nvbw.%.60s", name), "", "truncated");
}

void rk_parse_nvbandwidth(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	static const char *const failed[] = { "CUDA_ERROR_SYSTEM_NOT_READY", "CUDA_ERROR_" };
	const char *error = rk_found_text(evidence, ret->arena, failed, RK_ARRAY_SIZE(failed));
	bool cut;

	if (error)
		rk_metric_text(ret, "nvbw.error", "", error == failed[0] ? "system not ready: no NVLink partition, or the fabric is not ready"
									 : "a CUDA call failed");
	if (rk_json_docs(ret, evidence, nvbw_document, ret, &cut) == 0 && !cut)
		nvbw_text(evidence, ret);
	if (cut)
		rk_metric_absent(ret, "nvbw.host_to_device_memcpy_ce", "", "truncated");
	if (!error && has_result(ret) && !rk_metric_find(ret, "nvbw.error", ""))
		rk_metric_text(ret, "nvbw.error", "", "none");
}

#define MIB_PER_S (8 * 1.048576e-3) /* in Gb/s */

static bool near(double a, double b)
{
	return fabs(a - b) <= 0.1 * b;
}

/* Number behind the key between p and end; false when it is not there, or stands at the very end, where it may be half of one. */
static bool key_number(const char *p, const char *end, const char *key, double *ret)
{
	const char *at = strstr(p, key), *colon = at && at < end ? strchr(at, ':') : NULL;

	return colon && colon[strcspn(colon, ",}\n")] && rk_lead_number(colon + 1, ret);
}

/* One result in Gb/s. The JSON does not tell its unit, which without --report_gbits is MiB/s; message size and rate do (Mpps). */
static bool result_gbps(const char *p, const char *end, double *ret_size, double *ret)
{
	double rate;

	if (!key_number(p, end, "MsgSize", ret_size) || !key_number(p, end, "BW_average", ret))
		return false;
	if (!key_number(p, end, "MsgRate", &rate) || rate <= 0)
		return true;
	double gbps = *ret_size * 8 * rate / 1000;
	if (!near(*ret, gbps) && near(*ret * MIB_PER_S, gbps))
		*ret *= MIB_PER_S;
	return true;
}

/* perftest's JSON is often no JSON (commas, bare keys), so its keys are looked for in the text. */
static void write_bw_json(struct rk_metrics *m, char *text)
{
	char *device = text, *next;

	for (int rail = 0; rail < GPUS_MAX && (device = strstr(device, "\"Device\"")) != NULL; rail++, device = next) {
		char name[48] = "?";
		double best = -1, best_size = -1;
		sscanf(device, "\"Device\" : \"%40[^\"]\"", name);
		next = strstr(device + 8, "\"Device\"");
		if (!next)
			next = device + strlen(device);
		for (char *p = device; (p = strstr(p, "MsgSize")) != NULL && p < next; p++) {
			double size, value;
			if (result_gbps(p, next, &size, &value) && size >= best_size) {
				best_size = size;
				best = value;
			}
		}
		if (best >= 0)
			rk_metric_number(m, "ibbw.gbps", rk_labelf(m, "dev=%s", name), best);
		else
			rk_metric_absent(m, "ibbw.gbps", rk_labelf(m, "dev=%s", name), "no result");
	}
}

struct write_bw {
	char device[48];
	double factor, best, best_size; /* factor: unit of the header to Gb/s; 0 before the header */
	bool row;
};

static void write_bw_emit(struct rk_metrics *m, struct write_bw *w)
{
	if (!*w->device)
		return;
	if (w->row)
		rk_metric_number(m, "ibbw.gbps", rk_labelf(m, "dev=%s", w->device), w->best);
	else
		rk_metric_absent(m, "ibbw.gbps", rk_labelf(m, "dev=%s", w->device), "no result row");
	memset(w, 0, sizeof(*w));
}

static void write_bw_line(struct rk_metrics *m, struct write_bw *w, char *line, bool cut)
{
	const char *device = strstr(line, "Device         :");
	char *words[WORDS_MAX];
	double size, average;

	if (device) {
		write_bw_emit(m, w);
		sscanf(device, "Device : %40s", w->device);
		return;
	}
	if (strstr(line, "BW average[")) {
		const char *unit = strstr(line, "BW average[") + 11;
		w->factor = rk_starts_with(unit, "Gb/sec") ? 1 : rk_starts_with(unit, "MiB/sec") ? MIB_PER_S : rk_starts_with(unit, "MB/sec") ? 8e-3 : 0;
		return;
	}
	if (w->factor <= 0 || cut)
		return;
	size_t n = rk_words(line, words, WORDS_MAX);
	if (n < 4 || !full_number(words[0], &size) || !full_number(words[3], &average) || size < w->best_size)
		return;
	w->row = true;
	w->best_size = size;
	w->best = average * w->factor;
}

static const struct {
	const char *printed, *means;
} write_bw_failures[] = {
	{ "Completion with error", "completion error: cable, PKey or service level" }, { "Did not detect devices", "no InfiniBand device" },
	{ "Unable to find the Infiniband", "no InfiniBand device" },		       { "Failed status", "completion error: cable, PKey or service level" },
};

/* NULL: none of them. */
static const char *write_bw_failure(const char *text)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(write_bw_failures); i++) {
		if (strstr(text, write_bw_failures[i].printed))
			return write_bw_failures[i].means;
	}
	return NULL;
}

/* Rails without a result; what a rail printed stands before. Says whether one of them told why. */
static bool lost_rails(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line;
	const char *failure = NULL;
	bool told = false;
	int lost = 0;

	while ((line = rk_next_line(&at, NULL)) != NULL && lost < RK_RAILS_MAX) {
		const char *now = write_bw_failure(line);
		double rail;
		failure = now ? now : strstr(line, "Device") ? NULL : failure;
		if (!rk_starts_with(line, RK_RAIL_LOST) || !rk_lead_number(line + strlen(RK_RAIL_LOST), &rail) || rail < 0 || rail >= RK_RAILS_MAX)
			continue;
		const char *why = strstr(line + strlen(RK_RAIL_LOST), ": "), *label = rk_labelf(ret, "rail=%.0f", rail);
		rk_metric_absent(ret, "ibbw.gbps", label, why ? why + 2 : "no result");
		if (failure)
			rk_metric_text(ret, "ibbw.error", label, failure);
		told |= failure != NULL;
		failure = NULL;
		lost++;
	}
	return told;
}

void rk_parse_ib_write_bw(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line;
	const char *error = write_bw_failure(at);
	struct write_bw w = { 0 };
	bool cut = false;

	if (!error)
		error = write_bw_failure(rk_clean(ret->arena, evidence->err, evidence->err_len < STDERR_MAX ? evidence->err_len : STDERR_MAX));
	if (strstr(at, "Bidirectional")) {
		rk_metric_absent(ret, "ibbw.gbps", "", "a sum of both ways (-b)");
	} else if (strstr(at, "\"Device\"")) {
		write_bw_json(ret, at);
	} else {
		while ((line = rk_next_line(&at, &cut)) != NULL)
			write_bw_line(ret, &w, line, cut);
		write_bw_emit(ret, &w);
	}
	if (!error && has_result(ret))
		rk_metric_text(ret, "ibbw.error", "", "none");
	if (!lost_rails(evidence, ret) && error)
		rk_metric_text(ret, "ibbw.error", "", error);
}

static void fio_document(void *ctx, const struct rk_jnode *root)
{
	struct rk_metrics *m = ctx;
	int number = 0;

	RK_JEACH(job, rk_jget(root, "jobs")) {
		const char *name = rk_jstr(rk_jget(job, "jobname")), *label = rk_labelf(m, "job=%.32s", name ? name : "?");
		double error = 0, read = 0, write = 0, iops = 0;
		if (number++ > 256)
			return;
		if (rk_jdouble(rk_jget(job, "error"), &error))
			rk_metric_number(m, "fio.error", label, error);
		else
			rk_metric_absent(m, "fio.error", label, "row missing");
		if (error > 0)
			continue;
		bool reads = rk_jdouble(rk_jget(rk_jget(job, "read"), "bw_bytes"), &read);
		bool writes = rk_jdouble(rk_jget(rk_jget(job, "write"), "bw_bytes"), &write);
		if (reads || writes)
			rk_metric_number(m, "fio.bytes_per_second", label, read + write);
		if (rk_jdouble(rk_jget(rk_jget(job, "read"), "iops"), &iops))
			rk_metric_number(m, "fio.read_iops", label, iops);
	}
}

void rk_parse_fio(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	bool cut;

	if (rk_json_docs(ret, evidence, fio_document, ret, &cut) == 0 && cut)
		rk_metric_absent(ret, "fio.error", "", "truncated");
}

void rk_parse_gemm(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line;
	int device = -1;
	bool cut = false, open = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		double v;
		line = rk_trim(line);
		if (rk_starts_with(line, "Device ") && line[7] >= '0' && line[7] <= '9') {
			if (open)
				rk_metric_absent(ret, "gemm.tflops", rk_labelf(ret, "gpu=%d", device), "no result");
			device = atoi(line + 7);
			open = true;
		} else if (open && rk_starts_with(line, "GFlops:") && (!cut || strstr(line, "Time")) && rk_lead_number(line + 7, &v)) {
			rk_metric_number(ret, "gemm.tflops", rk_labelf(ret, "gpu=%d", device), v / 1000);
			open = false;
		}
	}
	if (open)
		rk_metric_absent(ret, "gemm.tflops", rk_labelf(ret, "gpu=%d", device), "truncated");
}
