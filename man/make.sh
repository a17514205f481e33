#!/usr/bin/env bash
# man/make.sh RACKSH FOLDER: writes the finished pages. Pages of nouns come from the command rows (RACKSH --man NOUN), the others from man/*.in.
set -eu
racksh=$1 folder=$2
here=$(dirname "$0")

mkdir -p "$folder"
for source in "$here"/*.in; do
	name=${source##*/}
	cp "$source" "$folder/${name%.in}"
done
while read -r noun; do
	"$racksh" --man "$noun" >"$folder/racksh-$noun.1.part"
	mv "$folder/racksh-$noun.1.part" "$folder/racksh-$noun.1"
done < <("$here/nouns.sh")
