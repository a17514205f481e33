#!/usr/bin/env bash
# Each outside library is included by the files named here and by no other one.
set -u
cd "$(dirname "$0")/../.." || exit 1
problems=0

# PATTERN of the header, blank, MOST FILES that may include it.
rows='libvirt/ 1
libssh/ 6
openssl/ 1
curl/ 1
jansson\.h 1
readline/ 1
sqlite3\.h 1
libpq-fe\.h 1
libisofs/ 1
libxml/ 2'

# kept_private X_impl.h: only files X*.c include it.
kept_private() {
	[[ $1 == *_impl.h ]] && ! grep -rlF --include='*.[ch]' "#include \"$1\"" cli provision vmspec inventory tests | grep -qv "^${1%_impl.h}[a-z_]*\.c$"
}

while read -r header most; do
	files=$(grep -rlE --include='*.[ch]' "^[[:space:]]*#[[:space:]]*include[[:space:]]*<$header" cli provision vmspec inventory | sort)
	n=$(grep -c . <<<"$files")
	if [ "$n" -gt "$most" ]; then
		printf '<%s is included by %d files, at most %d may:\n%s\n' "$header" "$n" "$most" "$files"
		problems=1
	fi
	for file in $files; do
		[[ $file != *.h ]] || kept_private "$file" && continue
		printf '<%s is included by a header that is not private to one module (X_impl.h, included by X*.c only): %s\n' "$header" "$file"
		problems=1
	done
done <<<"$rows"
exit $problems
