#!/usr/bin/env bash
# The finished man pages are clean, there is one per noun, and racksh(1) knows every global option.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
problems=0

for page in racksh.1 racksh-site.5 racksh-cluster.5 racksh-profile.5 racksh-batch.5 racksh-fabric.7; do
	[ -s "$build/man/$page" ] || { printf '%s: was not made in %s/man\n' "$page" "$build"; problems=1; }
done

# Nouns as the command tables have them; their pages are made from the rows.
while read -r noun; do
	[ -s "$build/man/racksh-$noun.1" ] || { printf 'racksh-%s.1: was not made in %s/man\n' "$noun" "$build"; problems=1; }
done < <(man/nouns.sh)

# Every global option is described by hand in racksh(1).
while read -r name; do
	grep -qE -- "^\.It (Fl . , )?Fl Fl $name( |\$)" man/racksh.1.in || { printf 'man/racksh.1.in: the option --%s is not described\n' "$name"; problems=1; }
done < <(sed -nE '/rk_global_options\[\] *= *\{/,/^\};/s/^[[:space:]]*\{[^"]*"([a-z-]+)".*/\1/p' cli/*.c)

# Every call of the twin that can be made to fail is named in racksh-fabric(7).
while read -r call; do
	grep -qE "(^| )$call( |\$)" man/racksh-fabric.7.in || { printf 'man/racksh-fabric.7.in: the call %s is not named\n' "$call"; problems=1; }
done < <(grep -hoE '"(hv|nvl|ib)\.[a-z_]+"' provision/sim*.c | tr -d '"' | sort -u)

# What a page refers to of ours is there, and racksh(1) refers to all of it.
while read -r name section; do
	[ -s "$build/man/$name.$section" ] || { printf 'a page refers to %s(%s), which was not made\n' "$name" "$section"; problems=1; }
done < <(sed -nE 's/^\.Xr (racksh[a-z-]*) ([0-9]).*/\1 \2/p' "$build"/man/*.[1-9] | sort -u)
for page in "$build"/man/racksh-*.[1-9]; do
	name=${page##*/}
	grep -q "^\.Xr ${name%.*} ${name##*.}" "$build/man/racksh.1" || { printf 'racksh(1) does not refer to %s\n' "$name"; problems=1; }
done

if command -v mandoc >/dev/null; then
	for page in "$build"/man/*.[1-9]; do
		[ -e "$page" ] || continue
		# Pages that are not installed (ours, those of others) are not found; what is looked for is listed below.
		mandoc -T lint "$page" 2>&1 | grep -vE 'referenced manual not found|mandoc\.db' && problems=1
	done
else
	echo 'mandoc is not installed: the pages were not checked for style'
fi
exit $problems
