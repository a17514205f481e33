#!/usr/bin/env bash
# Every script (a file with a shell in its first line) passes shellcheck.
set -u
cd "$(dirname "$0")/../.." || exit 1

if ! command -v shellcheck >/dev/null; then
	echo 'skipped: shellcheck is not installed'
	exit 0
fi
mapfile -t scripts < <(find . \( -name '.git' -o -name 'build*' \) -prune -o -type f -exec awk 'FNR == 1 && /^#!.*(\/|[[:space:]])(ba|da)?sh([[:space:]]|$)/ { print FILENAME } { nextfile }' {} + | sort)
[ "${#scripts[@]}" -gt 0 ] || { echo 'found no script at all'; exit 1; }
shellcheck -x "${scripts[@]}"
