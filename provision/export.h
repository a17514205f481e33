/* What other programs need to know of the site: pure functions from a snapshot to text.
 *
 * Everything is listed in stable order: racks in site order, then positions. A rack always shows all its positions: where a tray is absent
 * the name it would have stands for it, because schedulers count by position. */
#pragma once
#include "inventory/base/str.h"
#include "inventory/model.h"

/* One place in a block of nodes. */
struct rk_export_node {
	const char *name;
	int tray;                        /* RK_NONE: a placeholder */
	int vm;                          /* RK_NONE: the tray itself */
};
struct rk_export_block {
	const char *name;                /* of the rack */
	int rack;
	struct rk_export_node *nodes;    /* n == base of the export */
	size_t n;
};
struct rk_export {
	const struct rk_site *site;
	int cluster;                     /* RK_NONE: the whole site */
	struct rk_export_block *blocks; size_t n;
	size_t base;                     /* nodes per block */
	size_t placeholders;
};
/* cluster RK_NONE: the trays of every rack; else its VMs by rack and tray. In the arena. */
void rk_export_collect(const struct rk_site *site, int cluster, struct rk_arena *arena, struct rk_export *ret);

void rk_export_slurm_conf(const struct rk_export *e, struct rk_str *out);
void rk_export_slurm_yaml(const struct rk_export *e, struct rk_str *out);
void rk_export_kubernetes(const struct rk_export *e, struct rk_str *out);
void rk_export_ansible(const struct rk_export *e, struct rk_str *out);
void rk_export_dot(const struct rk_export *e, struct rk_str *out);
void rk_export_svg(const struct rk_export *e, struct rk_str *out);

/* A difference between an existing file and the export. */
struct rk_export_diff {
	int line;                        /* of the file; 0: something that is missing there */
	const char *what;
};
/* Compares a topology.conf or topology.yaml by meaning: blocks, nodes and their order, block sizes. In the arena. RK_INVALID: no such file. */
int rk_export_check_slurm(const struct rk_export *e, const char *name, const char *text, bool yaml, struct rk_arena *arena, struct rk_export_diff **ret,
			  size_t *ret_n, struct rk_err *err);
/* Any other form, line by line; comments, blank lines and indentation do not count. */
void rk_export_check_text(const char *wanted, const char *text, struct rk_arena *arena, struct rk_export_diff **ret, size_t *ret_n);
