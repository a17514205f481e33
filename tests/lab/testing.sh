# shellcheck shell=bash
# For the tests of this folder: a lab of their own in $lab, checks, one "N passed, M failed" line. The lab is taken down in any case.
# usage: suite=NAME; . testing.sh; start_lab; check ...; the rest happens at the end of the script.

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
racksh=$(realpath "${RACKSH:-build/racksh}")
passed=0 failed=0 running='' lab=''
exec 3>&1 4>&2 # a signal can come while a check's output is redirected

finish() {
	trap '' EXIT INT TERM
	exec >&3 2>&4
	[ -z "$running" ] || kill "$running" 2>/dev/null
	if [ -n "$lab" ]; then
		tests/lab/lab down "$lab" || failed=$((failed + 1))
		rm -rf "$lab"
	fi
	printf '%s: %d passed, %d failed\n' "${suite:-lab}" "$passed" "$failed"
	exit "$((failed > 0))" # in a trap, `exit` alone would end with what was before it
}

# In the background and waited for, so that a signal does not have to wait for the command's end.
in_background() {
	"$@" &
	running=$!
	wait "$running"
	set -- "$?"
	running=
	return "$1"
}

start_lab() {
	lab=$(mktemp -d "${TMPDIR:-/tmp}/racksh-lab.XXXXXX") || exit 1
	export RACKSH_STORE="sqlite:$lab/site.db"
	trap finish EXIT
	trap 'failed=$((failed + 1)); exit 130' INT TERM
	check "lab starts" 0 tests/lab/lab up "$lab" || exit 1
}

tell_output() { tail -n 40 "$lab/out" "$lab/err" | sed 's/^/    /'; }

# check NAME CODE COMMAND...: the command ends with that exit code. Its output is in $lab/out and $lab/err.
check() {
	local name=$1 want=$2 got
	shift 2
	in_background "$@" >"$lab/out" 2>"$lab/err"
	got=$?
	if [ "$got" -eq "$want" ]; then
		passed=$((passed + 1))
		return 0
	fi
	failed=$((failed + 1))
	printf 'not ok: %s: exit %s, expected %s: %s\n' "$name" "$got" "$want" "$*"
	tell_output
	return 1
}

# told NAME WHAT COMMAND...: one more check, without a command's output of its own; WHAT is wrong when it fails.
told() {
	local name=$1 what=$2
	shift 2
	if "$@"; then
		passed=$((passed + 1))
		return 0
	fi
	failed=$((failed + 1))
	printf 'not ok: %s: %s\n' "$name" "$what"
	tell_output
	return 1
}

has_line() { grep -qE -- "$1" "$lab/out" "$lab/err"; }
has_no_line() { ! has_line "$1"; }

# says NAME PATTERN: the output of the last check has such a line. lacks NAME PATTERN: it has none.
says() { told "$1" "no line like \"$2\"" has_line "$2"; }
lacks() { told "$1" "a line like \"$2\"" has_no_line "$2"; }

# Nobody holds anything in the store.
store_is_free() {
	[ "$("$racksh" cluster list -o json)" = '[]' ] && [ "$("$racksh" tray list -o json | jq '[.[] | select(.state == "allocated")] | length')" = 0 ]
}
