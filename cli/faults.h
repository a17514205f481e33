/* What an operation leaves faulty is said, also when the command did what it was asked for: an erase that failed does not fail a delete. */
#pragma once
#include "cli/cmd.h"

struct rk_map;
/* Names of the trays that are; free with rk_map_free. */
struct rk_map *rk_faulty_trays(const struct rk_site *site);
/* Notes on those that are faulty now and were not before. Reads the store again. */
void rk_tell_new_faults(struct rk_call *call, const struct rk_map *before);
