/* A rack as it stands there, U by U, from the profile and the trays. Pure. */
#pragma once
#include "inventory/base/str.h"
#include "inventory/model.h"

enum rk_unit_kind { RK_UNIT_EMPTY, RK_UNIT_TRAY, RK_UNIT_ABSENT_TRAY, RK_UNIT_NVSWITCH, RK_UNIT_POWER, RK_UNIT_MANAGEMENT };
struct rk_unit {
	int u;                       /* from 1 at the bottom */
	enum rk_unit_kind kind;
	int tray;                    /* RK_UNIT_TRAY: index into site->trays, else RK_NONE */
	int number;                  /* from 1 at the bottom within its kind; an absent tray's own number */
};
/* From the top down, in the arena. */
void rk_elevation(const struct rk_site *site, int rack, struct rk_arena *arena, struct rk_unit **ret, size_t *ret_n);
/* As text, trays coloured by state, and by tenant where one holds them, when colour is wanted. Appends to out. */
void rk_elevation_draw(const struct rk_site *site, int rack, bool colour, struct rk_str *out);
