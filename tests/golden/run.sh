#!/usr/bin/env bash
# Golden tests: tests/golden/NAME/cmd is a shell line with $racksh; stdout and stderr must equal the files beside it (absent: empty), the exit
# code that in `exit` (absent: 0). JSON has to obey its schema (obeys, below). Times, host and process ids are masked. UPDATE=1 writes what came out.
set -u
cd "$(dirname "$0")/../.." || exit 1
racksh=${RACKSH:-build/racksh}
validate=$(dirname "$racksh")/tests/golden/validate
export racksh XDG_STATE_HOME
work=$(mktemp -d "${TMPDIR:-/tmp}/racksh-golden.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

mask() {
	sed -E 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z/TIME/g; s/[a-z_][a-z0-9_-]*@[A-Za-z0-9._-]+ [0-9]+/USER@HOST PID/g; s/"seconds":[0-9.e+-]+/"seconds":N/g; s/^(seconds +)[0-9.e+-]+/\1N/; s/^time: [0-9.]+ s$/time: N s/'
}

same() {
	if [ -f "$2" ]; then
		diff -u "$2" "$1"
	else
		[ ! -s "$1" ] || { cat "$1"; return 1; }
	fi
}

# one_obeys SCHEMA... FILE LINE
one_obeys() {
	local words=("${@:1:$#-2}") at="${*: -2:1} ${*: -1}"
	[ -s "$work/schema ${words[*]}" ] || "$racksh" schema "${words[@]}" >"$work/schema ${words[*]}" || return 1
	# shellcheck disable=SC2086 # file and line
	"$validate" "$work/schema ${words[*]}" $at || { echo "at ${at/ /:}"; return 1; }
}

# obeys DIR: every JSON document that is expected is valid. The file `schema` says per document of stdout at
# which line it begins and whose result it is ("-": made by another program); errors are known by their looks.
obeys() {
	local file line text command
	[ -x "$validate" ] || return 0 # said at the end
	for file in stdout stderr; do
		[ -f "$1/$file" ] || continue
		while IFS=: read -r line text; do
			command=error
			case $text in '{"error":'*) ;; *) command=$(sed -n "s/^$line //p" "$1/schema" 2>/dev/null) ;; esac
			[ -n "$command" ] || { echo "$1/$file:$line: JSON whose schema is not told in $1/schema"; return 1; }
			# shellcheck disable=SC2086 # noun and verb
			[ "$command" = - ] || one_obeys $command "$1/$file" "$line" || return 1
		done < <(grep -nE '^(\{"|\[\{)' "$1/$file")
	done
}

for dir in tests/golden/*/; do
	name=$(basename "$dir")
	XDG_STATE_HOME=$work/$name
	mkdir -p "$XDG_STATE_HOME"
	work=$work/$name bash "$dir/cmd" >"$work/out" 2>"$work/err" </dev/null
	code=$?
	mask <"$work/out" >"$work/stdout"
	mask <"$work/err" >"$work/stderr"
	if [ "${UPDATE:-}" = 1 ]; then
		rm -f "$dir/stdout" "$dir/stderr" "$dir/exit"
		[ -s "$work/stdout" ] && cp "$work/stdout" "$dir/stdout"
		[ -s "$work/stderr" ] && cp "$work/stderr" "$dir/stderr"
		[ $code -ne 0 ] && echo $code >"$dir/exit"
	fi
	want=0
	[ -f "$dir/exit" ] && want=$(cat "$dir/exit")
	if [ "$code" = "$want" ] && same "$work/stdout" "$dir/stdout" && same "$work/stderr" "$dir/stderr" && obeys "$dir"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "not ok: $name: exit $code, expected $want"
	fi
done
[ -x "$validate" ] || echo "skipped: JSON against its schema ($validate is not built)"
echo "golden: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
