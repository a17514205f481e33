/* The reader of a partitions file inside: one definition (partitions_definition.c) and the whole (partitions_file.c). */
#pragma once
#include <string.h>

#include "inventory/base/map.h"
#include "provision/drivers/partitions_file.h"

struct member_vec {
	struct rk_part_member *items;
	size_t n, cap;
};
struct part {
	uint16_t pkey;
	const char *name;
	uint32_t line;
	bool index0;
	struct member_vec members;
};
struct part_vec {
	struct part *items;
	size_t n, cap;
};
struct reader {
	struct rk_diags *diags;
	struct rk_arena *arena;
	struct rk_map *keys;              /* pkey -> index into parts */
	struct rk_map *names;             /* name -> index of the part that OpenSM finds by it: the first in its order, which is by the bytes of the key as they go over the wire */
	struct part_vec parts;
	const char *line_start;
	uint32_t line;
	bool open;                        /* a definition without its ';' yet */
	uint32_t open_line;
	size_t current;                   /* part of the open definition */
	bool full, index0;                /* defmember and indx0 of the open definition */
	size_t definitions;
	bool rejected;                    /* OpenSM would not take the file */
};
struct span {
	const char *p;
	size_t n;
};

extern const char rk_part_fails_open[];
#define FIND(r, at, ...) rk_diag_line((r)->diags, (r)->line, rk_part_column(r, at), __VA_ARGS__)
/* The same for what makes OpenSM reject the whole file: format ends with %s. */
#define REJECT(r, at, format, ...) ((r)->rejected = true, FIND(r, at, format, ##__VA_ARGS__, rk_part_fails_open))

bool rk_part_blank(char c);
struct span rk_part_trim(struct span s);
/* Takes what is before the first `sep`; false when the rest was the last. */
bool rk_part_cut(struct span *rest, char sep, struct span *ret);
bool rk_part_is(struct span s, const char *word);
/* strtoul(..., 0) over a whole word: sign, 0x, octal. *odd: not written as 0x or plain decimal. */
bool rk_part_number(struct span s, uint64_t *ret, bool *odd, bool *overflow);
uint32_t rk_part_column(const struct reader *r, const char *at);
/* Index of the partition of the key, made when there is none. */
size_t rk_part_at(struct reader *r, uint16_t pkey, const char *name, uint32_t line);
/* "[name][=key][, flags]"; false when OpenSM rejects it. */
bool rk_part_read_header(struct reader *r, struct span header);
/* What stands behind the ':' up to the end of the piece; false when OpenSM rejects it. */
bool rk_part_read_members(struct reader *r, struct span list);
