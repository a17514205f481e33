#!/usr/bin/env bash
# usage: run.sh BUILD [SECONDS]: runs every program BUILD/tests/fuzz/fuzz_* for that long, from the seeds in tests/fuzz/seeds/NAME (fuzz_NAME.c).
# RUNS=N in the environment: for so many executions instead. ONLY="NAME NAME": these alone.
# What broke a program is kept in BUILD/fuzz/NAME; the whole corpus as well, so that the next run goes on from there.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$1 seconds=${2:-30}
passed=0 failed=0
limit=(-max_total_time="$seconds")
[ -z "${RUNS-}" ] || limit=(-runs="$RUNS")

for program in "$build"/tests/fuzz/fuzz_*; do
	case $program in *.d | *'*'*) continue ;; esac
	name=${program##*/fuzz_}
	[[ -z ${ONLY-} || " $ONLY " == *" $name "* ]] || continue
	corpus=$build/fuzz/$name
	mkdir -p "$corpus"
	seeds=()
	[ ! -d "tests/fuzz/seeds/$name" ] || seeds=("tests/fuzz/seeds/$name")
	printf '== fuzz_%s\n' "$name"
	if "$program" "${limit[@]}" -rss_limit_mb=2048 -timeout=10 -print_final_stats=0 -verbosity=0 -artifact_prefix="$corpus/broken-" "$corpus" "${seeds[@]}"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'not ok: fuzz_%s\n' "$name"
	fi
done
printf 'fuzz: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
