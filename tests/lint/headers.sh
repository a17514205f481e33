#!/usr/bin/env bash
# Every header compiles alone, with all warnings, and is protected against double inclusion.
set -u
cd "$(dirname "$0")/../.." || exit 1
problems=0
flags='-std=gnu17 -D_GNU_SOURCE -I. -Wall -Wextra -Wstrict-prototypes -Wundef -Werror -fsyntax-only -x c'

while read -r header; do
	# shellcheck disable=SC2086 # a list of flags
	if ! printf '#include "%s"\n#include "%s"\n' "$header" "$header" | ${CC:-cc} $flags -; then
		printf '%s: does not compile alone\n' "$header"
		problems=1
	fi
done < <(find cli provision vmspec inventory -name '*.h' | sort)
exit $problems
