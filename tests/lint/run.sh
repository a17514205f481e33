#!/usr/bin/env bash
# Runs every check of this folder; prints what each found and one closing line.
set -u
cd "$(dirname "$0")" || exit 1
passed=0 failed=0

for check in *.sh; do
	[ "$check" = run.sh ] && continue
	if said=$("./$check" 2>&1); then
		passed=$((passed + 1))
		[ -z "$said" ] || printf 'lint %s: %s\n' "${check%.sh}" "$said"
	else
		failed=$((failed + 1))
		printf 'not ok: lint %s\n' "${check%.sh}"
		printf '%s\n' "$said" | sed 's/^/    /'
	fi
done
printf 'lint: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
