/* Shared by the parsers of provision/health: text of a remote host made harmless, and the readers for its usual shapes.
 * Everything here is bounded by the length of the evidence; nothing recurses on input depth. */
#pragma once
#include "inventory/base/json.h"
#include "provision/health/health.h"

enum { RK_PARSE_MAX = 8 << 20, RK_PARSE_LABEL = 96 };

/* Arena copy of stdout (or of any bytes): ANSI sequences removed, CR and CRLF as newline, NUL as blank, invalid UTF-8 as '?'. At most
 * RK_PARSE_MAX bytes. */
char *rk_clean(struct rk_arena *arena, const char *bytes, size_t n);
/* Next line of *at (cut in place, NUL terminated), or NULL. *ret_cut (may be NULL): the line has no newline, so it may be cut short, whatever the
 * status says: only a value that cannot be the beginning of another one is taken from it. */
char *rk_next_line(char **at, bool *ret_cut);
char *rk_trim(char *s); /* in place; returns the first non-blank */
/* Splits "Key   : value" at the first colon followed by a blank or the end; both trimmed. False when there is none. */
bool rk_split_colon(char *line, char **ret_key, char **ret_value);
/* Leading number of "53.125 GB/s", "15E-255", "16x", "0x1", "1,234,567", "0,000012 seconds". False when there is none, or when it can be read in
 * two ways ("53,125"). */
bool rk_lead_number(const char *s, double *ret);
/* Reason when a value says that it is none: "N/A", "[Unknown Error]", "GPU is lost", "" ... ; else NULL. */
const char *rk_no_value(const char *s);
/* Text that is a number becomes a number, one that says "no value" is absent with that reason. */
void rk_metric_value(struct rk_metrics *m, const char *name, const char *label, const char *text, bool number);
/* How many there are of something; not known when the probe was stopped or could not look. */
void rk_metric_count(struct rk_metrics *m, const struct rk_evidence *evidence, const char *name, double n);
bool rk_word_of(const char *word, const char *const *words, size_t n);
const char *rk_labelf(struct rk_metrics *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Lines of evidence about what was lost: all measurements of a rail (ib-write-bw; behind it its number, ": " and why), or a run (nccl-domain and
 * nccl-racks; behind it why). */
#define RK_RAIL_LOST "# racksh: no result of rail "
#define RK_RUN_LOST "# racksh: no result: "

/* Absent with this reason is what has nothing to say: no value is expected where there is no link, or no configuration. */
#define RK_PORT_NOT_ACTIVE "the port is not active"
#define RK_NOT_CONFIGURED "not configured"

/* Words between blanks, in place; at most max. */
size_t rk_words(char *line, char **words, size_t max);
/* First of the texts that occurs in stdout or stderr, or NULL. */
const char *rk_found_text(const struct rk_evidence *evidence, struct rk_arena *arena, const char *const *texts, size_t n);

/* Why a probe brought nothing: "command missing", "timed out", "not permitted", "unreachable ..."; NULL when it ran. */
const char *rk_probe_reason(const struct rk_evidence *evidence, struct rk_arena *arena);
bool rk_status_is(const struct rk_evidence *evidence, const char *status);

/* JSON documents one after another with noise before, between and behind; fn gets each root. Returns the number of documents; *ret_cut:
 * the last one has no end. */
size_t rk_json_docs(struct rk_metrics *m, const struct rk_evidence *evidence, void (*fn)(void *ctx, const struct rk_jnode *root), void *ctx,
		    bool *ret_cut);

typedef void rk_parse_fn(const struct rk_evidence *evidence, struct rk_metrics *ret);
rk_parse_fn rk_parse_nvidia_smi_xml, rk_parse_nvidia_smi_q, rk_parse_nvlink_status, rk_parse_nvlink_errors, rk_parse_topo;
rk_parse_fn rk_parse_imex_nodes, rk_parse_imex_nodes_text, rk_parse_imex_config;
rk_parse_fn rk_parse_ib_driver, rk_parse_ib_leaf, rk_parse_ibstat, rk_parse_ibv_devinfo, rk_parse_ib_pkeys, rk_parse_ib_counters, rk_parse_mlxlink;
rk_parse_fn rk_parse_dmesg_xid, rk_parse_dcgm_diag;
rk_parse_fn rk_parse_nccl, rk_parse_nccl_domain, rk_parse_nccl_racks, rk_parse_nvbandwidth, rk_parse_ib_write_bw, rk_parse_fio, rk_parse_gemm;
rk_parse_fn rk_parse_lscpu, rk_parse_numactl, rk_parse_chrony, rk_parse_services, rk_parse_storage;
rk_parse_fn rk_parse_leak, rk_parse_power;

/* nvidia_smi.c: fields that -q -x and -q share. `path` is the XML path below <gpu>, or the text key below its group. */
struct rk_gpu_field {
	const char *xml, *group, *key, *metric;
	bool number;
};
extern const struct rk_gpu_field rk_gpu_fields[];
extern const size_t rk_gpu_fields_n;
/* Error texts of nvidia-smi instead of a report: gpu.count 0, gpu.error. True when one was found. */
bool rk_nvidia_smi_error(const struct rk_evidence *evidence, struct rk_metrics *ret);
/* gpu.lost; not known of a GPU whose part of the report is cut. missing: why rows are missing. */
void rk_gpu_lost(struct rk_metrics *m, int gpu, bool lost, const char *missing);
void rk_gpu_field_set(struct rk_metrics *m, int gpu, const struct rk_gpu_field *field, const char *text);
