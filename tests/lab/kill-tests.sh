#!/usr/bin/env bash
# racksh is killed by SIGKILL in the middle of an operation, at moments spread over all calls by which something leaves it (see src/killat.c);
# `op rollback` or `op resume` afterwards, itself killed at times, leaves all or nothing, on libvirt, switch, subnet manager and in the store.
# usage: kill-tests.sh [PART/PARTS]: only every PARTS-th row of the plan. LAB_KILLS=all: the whole plan, else every third row of it.
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
	END
}

kills=0

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

# calls_of COMMAND...: how many calls it makes when nothing kills it; sets `calls`.
calls_of() {
	check "$2 $3 undisturbed" 0 env LAB_CALLS="$lab/calls" LD_PRELOAD="$killat" ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0" "$@"
	calls=$(cat "$lab/calls" 2>/dev/null || echo 0)
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

expect_nothing() {
	check "nothing left after $1" 0 tests/lab/lab leftovers "$lab"
	check "store is free after $1" 0 store_is_free
}

expect_cluster() {
	check "b is ready after $1" 0 sh -c "'$racksh' cluster show b -o json | jq -e '.state == \"ready\"'"
	check "no drift after $1" 0 "$racksh" drift
	check "isolated after $1" 0 "$racksh" isolation verify
	check "delete b after $1" 0 "$racksh" cluster delete b -y
	expect_nothing "$1 and delete"
}

row() {
	local what=$1 percent=$2 recovery=$3 again=$4 command recovery_calls=$delete_calls all=$create_calls call when before op end
	command=(cluster create "$lab/b.json")
	if [ "$what" = delete ]; then
		check "create b" 0 "$racksh" cluster create "$lab/b.json"
		command=(cluster delete b -y)
		all=$delete_calls
	fi
	[ "$recovery" = rollback ] || recovery_calls=$((all - all * percent / 100))
	call=$((all * percent / 100 + 1))
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
		end="$what:none"
	else
		case $recovery:$(op_state "$op") in
		rollback:done) end='done' ;; # it was killed after its end: nothing to roll back
		rollback:*) end=rolled-back ;;
		resume:*) end='done' ;;
		esac
		recover "$when" "$recovery" $((recovery_calls * again / 100)) "$op" "$end"
		end=$what:$end
	fi
	case $end in
	create:done) expect_cluster "$when" ;;
	delete:none) check "delete after $when" 0 "$racksh" "${command[@]}"; expect_nothing "$when" ;;
	*) expect_nothing "$when" ;;
	esac
}

start_lab
killat=$(cat "$lab/run")/bin/killat.so
printf 'delay_ms=30-80\nrelease_ms=200\n' >"$lab/nvsw/config" # the switch's own delays are not the matter here
check "import" 0 "$racksh" site import "$lab/site.json"
calls_of "$racksh" cluster create "$lab/b.json"
create_calls=$calls
calls_of "$racksh" cluster delete b -y
delete_calls=$calls
while read -r -a words; do
	row "${words[@]}"
done < <(plan | awk -v step="$([ "${LAB_KILLS:-}" = all ] && echo 1 || echo 3)" 'NR % step == 1 % step' |
	awk -v part="${part%/*}" -v parts="${part#*/}" 'NR % parts == part % parts')
printf '%d times killed; create makes %d calls, delete %d\n' "$kills" "$create_calls" "$delete_calls"
