/* nccl-tests: on one VM, over a rack, over two racks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"

enum { WORDS_MAX = 24, PAIRS_MAX = 64 };

struct columns {
	size_t algbw, busbw, wrong; /* wrong: of #wrong, or of "error" in older versions */
	bool counts;                /* how many values were wrong; else how far they were off */
};
struct nccl {
	struct columns at;
	double size, algbw, busbw, wrong;
	bool row, wrong_known, concluded, bounds_failed;
	int listed; /* highest "Rank N" + 1 */
};

/* "#  size  count  type  redop  root  time  algbw  busbw #wrong  time ...": the first ones are out of place. Older versions have no root. */
static void nccl_head(struct nccl *n, char *line)
{
	struct columns at = { 0 };
	char *words[WORDS_MAX];
	size_t count = rk_words(line + 1, words, WORDS_MAX);

	for (size_t i = 0; i < count; i++) {
		if (!at.algbw && strcmp(words[i], "algbw") == 0)
			at.algbw = i;
		else if (!at.busbw && strcmp(words[i], "busbw") == 0)
			at.busbw = i;
		else if (!at.wrong && (strcmp(words[i], "#wrong") == 0 || strcmp(words[i], "error") == 0))
			at = (struct columns){ at.algbw, at.busbw, i, *words[i] == '#' };
	}
	if (at.algbw && at.busbw && at.wrong && strcmp(words[0], "size") == 0)
		n->at = at;
}

/* The largest size counts, out of place. */
static void nccl_row(struct nccl *n, char **w, size_t count)
{
	const struct columns *at = &n->at;
	double size, algbw, busbw;

	if (count <= at->wrong || !rk_parse_double(w[0], &size) || !rk_parse_double(w[at->algbw], &algbw) || !rk_parse_double(w[at->busbw], &busbw))
		return;
	double wrong = 0, in_place = 0;
	bool known = rk_parse_double(w[at->wrong], &wrong);
	size_t again = at->wrong + 4; /* in place: time algbw busbw #wrong */
	if (count > again && rk_parse_double(w[again], &in_place))
		wrong += in_place;
	n->wrong += at->counts ? wrong : 0;
	n->wrong_known |= known;
	if (!n->row || size >= n->size) {
		n->size = size;
		n->algbw = algbw;
		n->busbw = busbw;
	}
	n->row = true;
}

static void nccl_line(struct nccl *n, char *line, bool cut)
{
	char *words[WORDS_MAX];
	const char *rank = strstr(line, "Rank ");

	if (*line == '#') {
		if (rank && strstr(line, " device ")) {
			int number = atoi(rank + 5);
			n->listed = number + 1 > n->listed && number >= 0 && number < 100000 ? number + 1 : n->listed;
		}
		if (strstr(line, "algbw"))
			nccl_head(n, line);
		n->concluded |= strstr(line, "concluded") != NULL;
		n->bounds_failed |= strstr(line, "Out of bounds values") && strstr(line, "FAILED");
		return;
	}
	if (!cut)
		nccl_row(n, words, rk_words(line, words, WORDS_MAX));
}

/* Where the metrics of a run go: "nccl.busbw", or "nccl.pair.busbw" with peer=r02. */
struct place {
	struct rk_metrics *m;
	const char *prefix, *label;
};

static const char *name(const struct place *p, const char *what)
{
	return rk_labelf(p->m, "%s.%s", p->prefix, what);
}

static void nccl_emit(const struct place *p, const struct nccl *n)
{
	if (n->wrong_known || n->bounds_failed)
		rk_metric_number(p->m, name(p, "wrong"), p->label, n->wrong > 0 ? n->wrong : n->bounds_failed);
	else
		rk_metric_absent(p->m, name(p, "wrong"), p->label, n->row ? "not checked (-c 0)" : "no result row");
	if (!n->row || !n->concluded) {
		rk_metric_absent(p->m, name(p, "busbw"), p->label, n->row ? "incomplete: the run has no final lines" : "no result row");
		return;
	}
	rk_metric_number(p->m, name(p, "busbw"), p->label, n->busbw);
	rk_metric_number(p->m, name(p, "size"), p->label, n->size);
	/* busbw/algbw of an all-reduce is 2(n-1)/n. */
	double ratio = n->algbw > 0 ? n->busbw / n->algbw : 0;
	if (ratio <= 0 || ratio >= 2)
		return;
	double ranks = round(2 / (2 - ratio));
	rk_metric_number(p->m, name(p, "ranks"), p->label, ranks);
	/* Above some 100 ranks the printed digits cannot tell neighbours apart. */
	if (n->listed && ranks <= 100 && n->listed >= ranks)
		rk_metric_number(p->m, name(p, "missing_ranks"), p->label, n->listed - ranks);
	else if (n->listed && ranks <= 100)
		rk_metric_absent(p->m, name(p, "missing_ranks"), p->label, "the list of ranks is not whole");
}

/* True when there is a word about why it did not run. */
static bool nccl_error(const struct place *p, const struct rk_evidence *evidence)
{
	static const char *const mnnvl[] = { "available but not working on this system" };
	static const char *const failed[] = { "Test NCCL failure", "Test CUDA failure", "unhandled system error", "NCCL WARN Cuda failure" };
	/* What mpirun and ssh say when the VMs do not let each other in: nothing was measured, so nothing is bad. */
	static const char *const closed[] = { "Permission denied (", "Host key verification failed", "unable to reliably start", "unable to launch", "ssh: connect to host",
					      "There are not enough slots" };

	if (rk_found_text(evidence, p->m->arena, mnnvl, RK_ARRAY_SIZE(mnnvl)))
		rk_metric_text(p->m, name(p, "error"), p->label, "multi-node NVLink is not working: IMEX channel");
	else if (rk_found_text(evidence, p->m->arena, failed, RK_ARRAY_SIZE(failed)))
		rk_metric_text(p->m, name(p, "error"), p->label, "the run failed");
	else if (rk_found_text(evidence, p->m->arena, closed, RK_ARRAY_SIZE(closed)))
		rk_metric_absent(p->m, name(p, "error"), p->label, "mpirun could not start it on all VMs: they have to let each other in by SSH");
	else
		return false;
	return true;
}

/* Returns the bandwidth, 0 without a result. why_none: what the metric "error" lacks when nothing says how it went; NULL: there is none then. */
static double nccl_run(const struct place *p, const struct rk_evidence *evidence, const char *why_none)
{
	char *at = rk_clean(p->m->arena, evidence->out, evidence->out_len), *line;
	struct nccl n = { .at = { 6, 7, 8, true } };
	bool cut = false, error = nccl_error(p, evidence);

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		if (rk_starts_with(line, RK_RUN_LOST))
			why_none = line + strlen(RK_RUN_LOST);
		nccl_line(&n, rk_trim(line), cut);
	}
	bool result = n.row && n.concluded;
	if (n.row || n.listed || n.concluded)
		nccl_emit(p, &n);
	if (result && !error)
		rk_metric_text(p->m, name(p, "error"), p->label, "none");
	else if (why_none && !error)
		rk_metric_absent(p->m, name(p, "error"), p->label, why_none);
	return result ? n.busbw : 0;
}

void rk_parse_nccl(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	nccl_run(&(struct place){ ret, "nccl", "" }, evidence, NULL);
}

void rk_parse_nccl_domain(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	nccl_run(&(struct place){ ret, "nccl.domain", "" }, evidence, NULL);
}

/* Runs one after another, each behind a line "# racksh: pair OWN PEER"; the best one speaks for the rack itself. */
void rk_parse_nccl_racks(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	static const char mark[] = "# racksh: pair ";
	const char *end = evidence->out + evidence->out_len, *at = memmem(evidence->out, evidence->out_len, mark, strlen(mark));
	const char *reason = rk_probe_reason(evidence, ret->arena);
	/* A pair that was lost is not known, however well the others did. */
	const char *why_none = rk_status_is(evidence, "127") ? NULL : reason ? reason : "no result";
	double best = 0;

	for (int runs = 0; at && runs < PAIRS_MAX; runs++) {
		const char *text = at + strlen(mark), *eol = memchr(text, '\n', (size_t)(end - text));
		const char *next = memmem(text, (size_t)(end - text), mark, strlen(mark));
		size_t len = (size_t)((eol ? eol : end) - text);
		char *head = rk_clean(ret->arena, text, len < RK_PARSE_LABEL ? len : RK_PARSE_LABEL), *words[3];
		struct rk_evidence run = *evidence;
		run.out = eol ? eol + 1 : end;
		run.out_len = (size_t)((next ? next : end) - run.out);
		if (eol && (!next || next > eol) && rk_words(head, words, 3) == 2) {
			const char *peer = rk_labelf(ret, "peer=%.48s", words[1]);
			double busbw = nccl_run(&(struct place){ ret, "nccl.pair", peer }, &run, why_none);
			best = busbw > best ? busbw : best;
		}
		at = next;
	}
	if (best > 0)
		rk_metric_number(ret, "nccl.racks.busbw", "", best);
}
