#!/usr/bin/env bash
# racksh is killed by SIGKILL in the middle of an operation, at moments spread over all calls by which something leaves it (see src/killat.c);
# `op rollback` or `op resume` afterwards, itself killed at times, leaves all or nothing, on libvirt, switch, subnet manager and in the store.
# A change that gives VMs up has no way back once it erases: those are resumed.
# usage: kill-tests.sh [PART/PARTS]: only every PARTS-th row of the plan. LAB_KILLS=all: the whole plan, else every fourth row of it.
set -u
part=${1:-1/1}
suite="kill -9 in the lab ($part)"
# shellcheck source=tests/lab/testing.sh
. "$(dirname "$0")/testing.sh"

# WHAT is killed after PERCENT of its calls, which RECOVERY follows, after how many percent of its calls that is killed too (0: not).
plan() {
	cat <<-END
		create  2 rollback  0
		create  7 resume    0
		create 12 rollback  0
		create 17 rollback 50
		create 22 resume   20
		create 27 rollback 20
		create 32 rollback  0
		create 37 resume    0
		create 42 rollback  0
		create 47 rollback 80
		create 52 resume   60
		create 57 rollback 35
		create 62 rollback  0
		create 67 rollback 65
		create 72 resume    0
		create 77 rollback  0
		create 82 rollback 90
		create 87 rollback  0
		create 92 resume   30
		create 97 rollback  0
		delete 15 resume    0
		delete 35 resume   50
		delete 55 resume    0
		delete 75 resume   40
		delete 95 resume    0
		shrink 10 resume    0
		shrink 40 resume   50
		shrink 75 resume    0
		grow   20 rollback  0
		grow   50 resume   30
		grow   80 rollback 40
		repair 80 resume    0
		repair 45 resume   40
	END
}

kills=0
declare -A calls=()                                                              # of an undisturbed run
declare -A vms_before=([create]=0 [delete]=2 [grow]=2 [shrink]=2 [repair]=2)
declare -A vms_after=([create]=2 [delete]=0 [grow]=3 [shrink]=1 [repair]=2)

# killed_at CALL COMMAND...: 0 when it was killed there, 1 when it ended before.
killed_at() {
	local call=$1 got
	shift
	in_background env LAB_KILL_AT="$call" LD_PRELOAD="$killat" ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0" \
		"$@" >"$lab/out" 2>"$lab/err"
	got=$?
	[ "$got" -eq 137 ] || return 1
	kills=$((kills + 1))
}

tray_of() { "$racksh" vm list -o json | jq -r --arg vm "$1" '.[] | select(.name == $vm) | .tray'; }

bad_trays=none # as a pattern: those that a repair was about; here nobody knows their drives, so they are never erased and stay faulty

# prepare WHAT: what it needs is there; sets `command`.
prepare() {
	local bad
	[ "$1" = create ] || check "create b" 0 "$racksh" cluster create "$lab/b.json"
	case $1 in
	create) command=(cluster create "$lab/b.json") ;;
	delete) command=(cluster delete b -y) ;;
	grow) command=(cluster grow b 3) ;;
	shrink) command=(cluster shrink b 1 -y) ;;
	repair)
		command=(cluster repair b -y)
		bad=$(tray_of b-02)
		bad_trays="$bad_trays|$bad"
		check "the tray of b-02 is taken out" 0 "$racksh" tray cordon "$bad" --reason "test of repair" -y
		;;
	esac
}

# count_calls WHAT: how many it makes when nothing kills it.
count_calls() {
	prepare "$1"
	check "$1 undisturbed" 0 env LAB_CALLS="$lab/calls" LD_PRELOAD="$killat" ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0" \
		"$racksh" "${command[@]}"
	calls[$1]=$(cat "$lab/calls" 2>/dev/null || echo 0)
	expect_vms "${vms_after[$1]}" "$1 undisturbed"
}

op_state() { "$racksh" op show "$1" -o json | jq -r .state; }
newest_op() { "$racksh" op list -o json | jq -r '[.[].id] | max // 0'; }

# recover WHEN RECOVERY KILL-CALL OP
recover() {
	local when=$1 recovery=$2 call=$3 op=$4
	if [ "$call" -gt 0 ] && killed_at "$call" "$racksh" op "$recovery" "$op" -y; then
		when="$when, $recovery killed at call $call"
	fi
	check "$recovery after $when" 0 "$racksh" op "$recovery" "$op" -y
	check "$recovery once more after $when" 0 "$racksh" op "$recovery" "$op" -y
	check "$recovery is what happened after $when" 0 test "$(op_state "$op")" = "$5"
}

# A bad tray's GPUs stay in a partition of their own until somebody mends it.
nothing_is_left() {
	! tests/lab/lab leftovers "$lab" | grep -vE "^($bad_trays): GPU . is not in the default partition|^switch: partition [0-9]+ tray_($bad_trays)\$"
}

expect_nothing() {
	check "nothing left after $1" 0 nothing_is_left
	check "store is free after $1" 0 store_is_free
}

# expect_vms N WHEN: b has so many and is well, or is not there; and is taken away.
expect_vms() {
	if [ "$1" -gt 0 ]; then
		check "b is ready with $1 VMs after $2" 0 sh -c "'$racksh' cluster show b -o json | jq -e '.state == \"ready\" and (.vms | length) == $1'"
		check "no drift after $2" 0 "$racksh" drift
		check "isolated after $2" 0 "$racksh" isolation verify
		check "delete b after $2" 0 "$racksh" cluster delete b -y
		set -- 0 "$2 and delete"
	fi
	expect_nothing "$2"
}

row() {
	local what=$1 percent=$2 recovery=$3 again=$4 all call so_far when before op state end=none
	[ -n "${calls[$what]-}" ] || count_calls "$what"
	prepare "$what"
	all=${calls[$what]}
	so_far=$((all * percent / 100))
	call=$((so_far + 1))
	when="$what killed at call $call"
	before=$(newest_op)
	if ! killed_at "$call" "$racksh" "${command[@]}"; then
		failed=$((failed + 1))
		printf 'not ok: %s: it was not killed\n' "$when"
		tell_output
	fi
	op=$(newest_op)
	if [ "$op" = "$before" ]; then
		when="$when, before the operation began"
	else
		state=$(op_state "$op")
		end='done' # also when it was killed after its end: nothing to roll back
		[ "$recovery $state" = "rollback done" ] || [ "$recovery" = resume ] || end=rolled-back
		[ "$recovery" = rollback ] || so_far=$((all - so_far))
		recover "$when" "$recovery" $((so_far * again / 100)) "$op" "$end"
	fi
	if [ "$end" = 'done' ]; then
		expect_vms "${vms_after[$what]}" "$when"
	else
		expect_vms "${vms_before[$what]}" "$when"
	fi
}

start_lab
killat=$(cat "$lab/run")/bin/killat.so
printf 'delay_ms=30-80\nrelease_ms=200\n' >"$lab/nvsw/config" # the switch's own delays are not the matter here
check "import" 0 "$racksh" site import "$lab/site.json"
while read -r -a words; do
	row "${words[@]}"
done < <(plan | awk -v step="$([ "${LAB_KILLS:-}" = all ] && echo 1 || echo 4)" 'NR % step == 1 % step' |
	awk -v part="${part%/*}" -v parts="${part#*/}" 'NR % parts == part % parts')
printf '%d times killed;' "$kills"
for what in "${!calls[@]}"; do
	printf ' %s makes %d calls' "$what" "${calls[$what]}"
done
echo
