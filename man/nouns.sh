#!/usr/bin/env bash
# Prints the nouns of the command tables, one a line, in the order of cli/cmds/all.c.
cd "$(dirname "$0")/.." || exit 1
grep -oE '&rk_noun_[a-z0-9_]+' cli/cmds/all.c 2>/dev/null | sed 's/&rk_noun_//; s/_/-/g'
