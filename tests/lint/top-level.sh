#!/usr/bin/env bash
# The top level of the project is fixed, and nothing that was built is kept in it.
set -u
cd "$(dirname "$0")/../.." || exit 1
problems=0
fixed='Makefile README.md LICENSE cli provision vmspec inventory tests man'

if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
	echo 'skipped: no git here, so nothing tells sources from what was built'
	exit 0
fi
while read -r name; do
	case " $fixed " in *" $name "*) continue ;; esac
	case $name in .*) continue ;; esac
	printf '%s: does not belong at the top level (%s, and dot-files)\n' "$name" "$fixed"
	problems=1
done < <(git ls-files | cut -d/ -f1 | sort -u)

if found=$(git ls-files | grep -E '\.(o|a|d|so)$|^man/.*\.[1-9]$'); then
	printf 'built files are kept in git:\n%s\n' "$found"
	problems=1
fi
exit $problems
