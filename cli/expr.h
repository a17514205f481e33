/* Conditions on JSON results, for `assert`.
 *
 *   EXPR  = AND ('||' AND)*          AND = NOT ('&&' NOT)*         NOT = '!' NOT | '(' EXPR ')' | TEST
 *   TEST  = ['all'|'any'|'none'] PATH [OP VALUE]                   OP  = == != < <= > >= ~ (contains)
 *   PATH  = KEY or [N], joined by '.'; on an array a key means that key of every element; `length` counts. '.' may stand in front (.all)
 *   VALUE = number, true, false, null, 'text', "text" or a bare word
 *
 * A test without all, any or none has to hold for every value the path reaches, and for at least one. Without OP: the value is there and is
 * neither null, false, 0 nor empty. */
#pragma once
#include "inventory/base/json.h"

/* Form only. RK_INVALID with the column. */
int rk_expr_check(const char *text, struct rk_err *err);
/* *ret: does it hold? found: gets the values that the tests saw (may be NULL). RK_INVALID also when < or > meets something that is no number. */
int rk_expr_holds(const char *text, const struct rk_jnode *root, bool *ret, struct rk_str *found, struct rk_err *err);
