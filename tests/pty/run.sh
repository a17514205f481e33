#!/usr/bin/env bash
# Terminal tests: tests/pty/NAME.pty is played on racksh in a pseudo terminal (see drive.c); the screen must read like NAME.txt.
# A line "# terminals: NAME..." in it plays it on each of these, and the screens are in NAME.TERMINAL.txt.
# $WORK in a script is a fresh folder. UPDATE=1 writes what was seen. Arguments: only these names.
set -u
cd "$(dirname "$0")/../.." || exit 1
racksh=$(realpath "${RACKSH:-build/racksh}")
drive=$(realpath "${DRIVE:-$(dirname "$racksh")/tests/pty/drive}")
work=$(mktemp -d "${TMPDIR:-/tmp}/racksh-pty.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

mask() {
	sed -E 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z/TIME/g; s/[0-9]{4}-[0-9]{2}-$/TIME/; s/^[0-9]{2}T[0-9:]{8}Z/TIME/; s/[a-z_][a-z0-9_-]*@[A-Za-z0-9._-]+ [0-9]+/USER@HOST PID/g; s/[0-9]+\.[0-9]{3} s/N s/; s/(seconds +)[0-9.]+ s/\1N s/; s/TIME \([^)]*\)/TIME (AGO)/; s/\[[0-9]+\/[0-9]+\]/[N\/M]/; s/^( +[0-9]+  )[0-9]+ s ago /\1AGO /; s/[0-9]+ s ago$/AGO/; s/^(\[N\/M\]) .*: done$/\1 STEP: done/' |
		awk '!/STEP: done$/ || $0 != last { print } { last = $0 }' # steps end in any order
}

# What a script for several terminals begins with.
declare -A terminals=([wide]='' [narrow]='size 40 24' [dumb]='env TERM=dumb' [c]='env LC_ALL=C')

# play SCRIPT TERMINAL: with a home, a state and a configuration folder of its own.
play() {
	local home
	home=$work/$(basename "$1" .pty)$2
	mkdir -p "$home/config/racksh" "$home/state"
	echo 'set enable-bracketed-paste off' >"$home/inputrc"
	{ echo "${2:+${terminals[$2]}}"; sed "s|\$WORK|$home|g" "$1"; } >"$home/script"
	env -i PATH="$PATH" HOME="$home" XDG_CONFIG_HOME="$home/config" XDG_STATE_HOME="$home/state" INPUTRC="$home/inputrc" TERM=xterm LC_ALL=C.UTF-8 RACKSH_PAGER=cat \
		racksh="$racksh" "$drive" "$home/script" "$racksh" | sed "s|$home|WORK|g" | mask
	return "${PIPESTATUS[0]}"
}

# see SCRIPT NAME TERMINAL
see() {
	play "$1" "$3" >"$work/screen" 2>"$work/errors"
	local code=$?
	[ "${UPDATE:-}" = 1 ] && [ $code -eq 0 ] && cp "$work/screen" "tests/pty/$2.txt"
	if [ $code -eq 0 ] && diff -u "tests/pty/$2.txt" "$work/screen"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		cat "$work/errors"
		[ $code -eq 0 ] || cat "$work/screen"
		echo "not ok: pty $2"
	fi
}

for script in tests/pty/*.pty; do
	name=$(basename "$script" .pty)
	case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
	read -ra on < <(sed -n 's/^# terminals: //p' "$script")
	for terminal in "${on[@]:-}"; do
		see "$script" "$name${terminal:+.$terminal}" "$terminal"
	done
done
# The picture in the README is such a session, too.
if [ $# -eq 0 ]; then
	if DRIVE=$drive RACKSH=$racksh tests/screenshot.sh >"$work/screenshot.svg" && diff -u <(mask <man/screenshot.svg) <(mask <"$work/screenshot.svg"); then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "not ok: man/screenshot.svg (tests/screenshot.sh makes it)"
	fi
fi
echo "pty: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
