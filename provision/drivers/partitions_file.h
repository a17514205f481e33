/* The OpenSM partitions file: what OpenSM makes of it, what a careful person finds wrong with it, and our managed section in it. Pure.
 *
 * The reader follows OpenSM 3.3.23 (field/infiniband.md 2.2, and runs of opensm against ibsim): lines of at most 4,094 bytes, prefix
 * matching of keywords, uniting of definitions by key. Everything that OpenSM rejects (and then makes every port a full member of the
 * default partition), misreads, merges, drops or demotes is a finding. */
#pragma once
#include "inventory/base/diag.h"
#include "provision/ib.h"

enum rk_part_who { RK_PART_GUID, RK_PART_ALL, RK_PART_ALL_CAS, RK_PART_ALL_SWITCHES, RK_PART_ALL_ROUTERS, RK_PART_SELF };

struct rk_part_member {
	enum rk_part_who who;
	uint64_t guid;                    /* of RK_PART_GUID */
	bool full;
	uint32_t line, col;               /* 0: implied by OpenSM, not written in the file */
};
struct rk_part {                          /* all definitions of one key */
	uint16_t pkey;                    /* 15 bit */
	const char *name;                 /* of the first definition; "" when it has none */
	bool ours;                        /* in the managed section */
	bool index0;                      /* goes to index 0 of its ports' tables */
	uint32_t line;                    /* of the first definition; 0: implied */
	struct rk_part_member *members;   /* in file order: a later one wins */
	size_t n_members;
};
struct rk_partitions {
	struct rk_part *items;            /* in order of first definition; the default partition is always there */
	size_t n;
	bool rejected;                    /* OpenSM would not take the file: every port becomes a full member of the default partition */
	bool managed;                     /* has our section: text[begin..end) including the marker lines */
	size_t begin, end;
};
const char *rk_part_who_name(enum rk_part_who who); /* "ALL", ... ; "" for a GUID */

/* Findings with line and column (sorted by the caller's rk_diags_result). 0 when clean, RK_UNHEALTHY with findings. */
int rk_partitions_lint(const char *path, const char *text, size_t len, struct rk_diags *findings);
/* The same, and what OpenSM would make of the file with all of them, unless it is
 * rejected (our section is not looked for). */
int rk_partitions_read(const char *path, const char *text, size_t len, struct rk_arena *arena, struct rk_partitions *ret, struct rk_diags *findings);
/* The keys and members. A file with findings, or with our markers damaged, is RK_UNHEALTHY with all of them as details. */
int rk_partitions_parse(const char *path, const char *text, size_t len, struct rk_arena *arena, struct rk_partitions *ret, struct rk_err *err);
/* The whole new text in which our section holds the partition as wanted (without members: does not have it) and every byte outside it is as it
 * was. A file without section gets one. Refused (RK_UNHEALTHY) where changing it would not be safe: any finding, no default rule that is
 * ALL=limited before SELF=full; RK_CONFLICT when somebody else defines the key. */
int rk_partitions_edit(const char *path, const char *text, size_t len, const struct rk_ib_wanted *wanted, struct rk_str *out, struct rk_err *err);
