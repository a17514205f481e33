#!/usr/bin/env bash
# man/make.sh RACKSH FOLDER: writes the finished pages. Pages of nouns come from the command rows (RACKSH --man NOUN), the others from man/*.in.
set -eu -o pipefail
racksh=$1 folder=$2
here=$(dirname "$0")

# Rows hold paragraphs; roff wants each sentence on a line of its own. Examples stay as they are.
sentences() {
	awk '/^\.Bd/ { literal = 1 } /^\.Ed/ { literal = 0 } !literal && !/^\./ { $0 = split_text($0) } { print }
		function split_text(text,   done) {
			while (match(text, /[a-z0-9)][.!?] +[A-Z]/)) {
				done = done substr(text, 1, RSTART + 1) "\n"
				text = substr(text, RSTART + RLENGTH - 1)
			}
			return done text
		}'
}

mkdir -p "$folder"
for source in "$here"/*.in; do
	name=${source##*/}
	cp "$source" "$folder/${name%.in}"
done
nouns=$("$here/nouns.sh")
[ -n "$nouns" ] || { echo "$0: found no nouns in cli/cmds/all.c" >&2; exit 1; }
while read -r noun; do
	"$racksh" --man "$noun" | sentences >"$folder/racksh-$noun.1.part"
	mv "$folder/racksh-$noun.1.part" "$folder/racksh-$noun.1"
done <<<"$nouns
shell"
