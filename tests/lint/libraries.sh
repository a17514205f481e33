#!/usr/bin/env bash
# Each outside library is included by the files named here and by no other one.
set -u
cd "$(dirname "$0")/../.." || exit 1
problems=0

# PATTERN of the header, blank, MOST FILES that may include it.
rows='libvirt/ 1
libssh/ 1
curl/ 1
jansson\.h 1
readline/ 1
sqlite3\.h 1
libpq-fe\.h 1
libisofs/ 1
libxml/ 2'

while read -r header most; do
	files=$(grep -rlE --include='*.[ch]' "^[[:space:]]*#[[:space:]]*include[[:space:]]*<$header" cli provision vmspec inventory | sort)
	n=$(grep -c . <<<"$files")
	if [ "$n" -gt "$most" ]; then
		printf '<%s is included by %d files, at most %d may:\n%s\n' "$header" "$n" "$most" "$files"
		problems=1
	fi
	if grep -q '\.h$' <<<"$files"; then
		printf '<%s is included by a header; keep the library behind one .c file:\n%s\n' "$header" "$files"
		problems=1
	fi
done <<<"$rows"
exit $problems
