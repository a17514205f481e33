/* JSON schema (draft 2020-12) of the cluster spec, made from the rows that the parser reads by. */
#pragma once
#include "inventory/base/str.h"

void rk_spec_schema(struct rk_str *out);
