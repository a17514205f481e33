#!/usr/bin/env bash
# man/make.sh RACKSH FOLDER: writes the finished pages. Pages of nouns come from the command rows (RACKSH --man NOUN), the others from man/*.in.
set -eu -o pipefail
racksh=$1 folder=$2
here=$(dirname "$0")

# Rows hold paragraphs; roff wants each sentence on a line of its own, and short lines. Examples stay as they are.
sentences() {
	awk '/^\.Bd/ { literal = 1 } /^\.Ed/ { literal = 0 } literal || /^\./ { print; next } { split_text($0) }
		function split_text(text) {
			while (match(text, /[a-z0-9)][.!?] +[A-Z]/)) {
				fold(substr(text, 1, RSTART + 1))
				text = substr(text, RSTART + RLENGTH - 1)
			}
			fold(text)
		}
		function fold(text,   at) {
			sub(/ +$/, "", text)
			while (length(text) > 78) {
				for (at = 78; at > 1 && (substr(text, at, 1) != " " || substr(text, at + 1, 1) ~ /[.\047]/); at--);
				if (at == 1) break
				print substr(text, 1, at - 1)
				text = substr(text, at + 1)
			}
			print text
		}'
}

# The pages that a noun has to do with.
see_also() {
	local pages=()
	[ -f "$here/racksh-$1.5.in" ] && pages+=("racksh-$1 5")
	case $1 in
	nvlink | ib | isolation | drift | switch | link) pages+=("racksh-fabric 7") ;;
	validate | report | silence) pages+=("racksh-profile 5") ;;
	vm | image | size) pages+=("racksh-cluster 5") ;;
	rehearse | tutorial) pages+=("racksh-batch 5") ;;
	esac
	for page in "${pages[@]}"; do printf ' ,\n.Xr %s' "$page"; done
	echo
}

# For racksh(1): a line per noun, and the shell.
all_nouns() {
	{ echo "$nouns"; echo shell; } | sort | sed 's/.*/.Xr racksh-& 1 ,/'
}

mkdir -p "$folder"
nouns=$("$here/nouns.sh")
[ -n "$nouns" ] || { echo "$0: found no nouns in cli/cmds/all.c" >&2; exit 1; }
for source in "$here"/*.in; do
	name=${source##*/}
	sentences <"$source" | sed -e '/^@NOUNS@$/{r '<(all_nouns) -e 'd}' >"$folder/${name%.in}.part"
	mv "$folder/${name%.in}.part" "$folder/${name%.in}"
done
while read -r noun; do
	{ "$racksh" --man "$noun" | sentences | head -c -1; see_also "$noun"; } >"$folder/racksh-$noun.1.part"
	mv "$folder/racksh-$noun.1.part" "$folder/racksh-$noun.1"
done <<<"$nouns
shell"
