#!/bin/sh
# usage: embed.sh PREFIX FILE...: writes a C file that holds each given file as an array; the table is declared in inventory/base/data.h. PREFIX is
# left out of names.
set -eu
prefix=$1
shift
echo '#include "inventory/base/data.h"'
i=0
for f in "$@"; do
	echo "static const char d${i}[] = {"
	od -An -v -tx1 "$f" | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'
	echo "0};"
	i=$((i + 1))
done
echo "const struct rk_data rk_data_files[] = {"
i=0
for f in "$@"; do
	echo "{\"${f#"$prefix"}\", d${i}, sizeof(d${i}) - 1},"
	i=$((i + 1))
done
echo "{0, 0, 0}};"
