/* Completion scripts of other shells, made from the rows. */
#pragma once
#include "inventory/base/str.h"

/* shell: "bash", "zsh" or "fish". Appends. */
void rk_completion_script(const char *shell, struct rk_str *out);
