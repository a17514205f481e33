/* Rack kinds: inventory/profiles/NAME.json, part of the program. */
#pragma once
#include "inventory/model.h"

/* Fills *ret (texts in the arena). RK_NOT_FOUND with a near-name hint for an unknown name. */
int rk_profile_load(const char *name, struct rk_arena *arena, struct rk_profile *ret, struct rk_err *err);
/* Names of the built-in profiles. */
const char *const *rk_profile_names(size_t *ret_n);
