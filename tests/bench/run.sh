#!/usr/bin/env bash
# usage: run.sh BUILD [NAME]: runs the benches (programs BUILD/tests/bench/bench_*, scripts tests/bench/bench_*.sh) whose name holds NAME and prints one table.
# A bench prints lines "what TAB value TAB unit TAB peer TAB peer's value TAB limit" (see bench.h; "-" for none). A missed limit is shown, not an
# error: machines differ. What a broken run would print (no number, none above 0, a ratio without a peer) never meets a limit. Exit 1 when a bench
# itself failed, or printed something else than measurements.
set -u
cd "$(dirname "$0")/../.." || exit 1
export BUILD=$1
only=${2-}
export RACKSH=${RACKSH:-$BUILD/racksh}
rows=$(mktemp) || exit 1
trap 'rm -f "$rows"' EXIT
failed=0

for bench in "$BUILD"/tests/bench/bench_* tests/bench/bench_*.sh; do
	case $bench in *.d | *'*'*) continue ;; esac
	[[ ${bench##*/} == *"$only"* ]] || continue
	printf 'running %s\n' "${bench##*/}" >&2
	if ! "$bench" >>"$rows"; then
		failed=$((failed + 1))
		printf 'not ok: %s\n' "$bench"
	fi
done

awk -F '\t' -v failed="$failed" '
	function number(text) { return text ~ /^[0-9]+[.]?[0-9]*(e[-+]?[0-9]+)?$/ }
	function judge(value, peer, limit) {
		if (limit ~ /^<=/) return value > 0 && value <= substr(limit, 3) + 0 ? "ok" : "OVER"
		if (limit ~ /^>=.*x$/) return value > 0 && peer / value >= substr(limit, 3) + 0 ? "ok" : "OVER"
		return ""
	}
	NF != 6 || !number($2) || !number($5) { printf "not a measurement: %s\n", $0; wrong++; next }
	!n++ { printf "%-52s %12s %-4s %9s  %-38s %9s %7s\n", "MEASURED", "VALUE", "UNIT", "LIMIT", "BESIDE", "VALUE", "RATIO" }
	{
		verdict = judge($2 + 0, $4 == "-" ? 0 : $5 + 0, $6)
		over += verdict == "OVER"
		printf "%-52s %12.4g %-4s %9s  %-38s %9s %7s %s\n", $1, $2, $3, $6 == "-" ? "" : $6, $4 == "-" ? "" : $4,
			$4 == "-" ? "" : sprintf("%.4g", $5), $4 == "-" || $2 <= 0 ? "" : sprintf("%.2fx", $5 / $2), verdict
	}
	END { printf "bench: %d measured, %d over their limit, %d benches failed\n", n, over, failed; exit wrong > 0 }' "$rows" || failed=$((failed + 1))
[ "$failed" -eq 0 ]
