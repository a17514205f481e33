#!/usr/bin/env bash
# The main job on the lab, as a test: create, verify, faults, kill -9 at several moments, delete, nothing left behind.
# Prints one "N passed, M failed" line; exit 1 when something failed. The lab is taken down in any case.
set -u
cd "$(dirname "$0")/.." || exit 1

racksh=${RACKSH:-build/racksh}
lab=$(mktemp -d "${TMPDIR:-/tmp}/racksh-labtest.XXXXXX") || exit 1
export RACKSH_STORE="sqlite:$lab/site.db"
passed=0 failed=0

end() {
	trap - EXIT INT TERM
	tests/lab/lab down "$lab"
	rm -rf "$lab"
	printf 'lab: %d passed, %d failed\n' "$passed" "$failed"
	[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
	exit
}
trap end EXIT
trap 'failed=$((failed + 1)); exit 130' INT TERM

# check NAME CODE COMMAND...: the command ends with that exit code.
check() {
	local name=$1 want=$2 got
	shift 2
	"$@" >"$lab/out" 2>"$lab/err"
	got=$?
	if [ "$got" -eq "$want" ]; then
		passed=$((passed + 1))
		return 0
	fi
	failed=$((failed + 1))
	printf 'not ok: %s: exit %s, expected %s\n' "$name" "$got" "$want"
	sed 's/^/    /' "$lab/out" "$lab/err" | tail -n 40
	return 1
}

# says NAME PATTERN: the output of the last check matches.
says() {
	if grep -qE "$2" "$lab/out" "$lab/err"; then
		passed=$((passed + 1))
		return 0
	fi
	failed=$((failed + 1))
	printf 'not ok: %s: no match for %s\n' "$1" "$2"
	sed 's/^/    /' "$lab/out" | tail -n 40
}

# The k-th of n moments at which a running create is killed: as soon as its journal shows that many finished steps.
steps_done() {
	"$racksh" op list -o json 2>/dev/null | jq -r '.[0].id // empty' | {
		read -r id || id=
		[ -n "$id" ] || { echo 0; return; }
		"$racksh" op show "$id" -o json 2>/dev/null | jq '[.steps[] | select(.state == "done")] | length'
	}
}

kill_create_after() {
	local want=$1 pid id
	"$racksh" cluster create "$lab/a.json" >"$lab/create.out" 2>&1 &
	pid=$!
	while kill -0 "$pid" 2>/dev/null && [ "$(steps_done)" -lt "$want" ]; do
		sleep 0.1
	done
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	id=$("$racksh" op list -o json | jq -r '.[0].id')
	check "rollback after kill -9 at $want steps" 0 "$racksh" op rollback "$id" -y
	check "nothing left after kill -9 at $want steps" 0 tests/lab/lab leftovers "$lab"
	check "store is free after kill -9 at $want steps" 0 sh -c "[ \"\$($racksh cluster list -o json)\" = '[]' ] && ! $racksh tray list -o json | grep -q '\"allocated\"'"
	check "rollback again is a no-op" 0 "$racksh" op rollback "$id" -y
}

check "lab starts" 0 tests/lab/lab up "$lab" || exit
check "import" 0 "$racksh" site import "$lab/site.json"
check "import again changes nothing" 0 "$racksh" site import "$lab/site.json"
check "fabric is as designed" 0 "$racksh" ib check

for moment in 1 3 6 9 12; do
	kill_create_after "$moment"
done

check "create a" 0 "$racksh" cluster create "$lab/a.json"
check "create a again converges" 0 "$racksh" cluster create "$lab/a.json"
check "create b" 0 "$racksh" cluster create "$lab/b.json"
for what in "validate cluster a" "validate cluster b" "isolation verify" "nvlink verify" "ib verify" "drift"; do
	# shellcheck disable=SC2086 # words of a racksh command
	check "$what" 0 "$racksh" $what
done

tray=$("$racksh" vm list -o json | jq -r '.[] | select(.name == "a-02") | .tray')
part=$("$racksh" cluster show a -o json | jq -r '.nvlink[0].partition')
check "put a GPU out of its partition" 0 tests/lab/lab fault "$lab" gpu-leave "$tray" 1
check "validate finds the GPU" 7 "$racksh" validate cluster a
says "and names the VM" "a-02"
check "isolation still holds" 0 "$racksh" isolation verify
check "nvlink verify finds it" 7 "$racksh" nvlink verify
check "drift finds it" 7 "$racksh" drift
check "put it back" 0 tests/lab/lab heal "$lab" gpu-leave "$tray" 1 "$part"
check "healthy again" 0 "$racksh" validate cluster a
check "unlink a port" 0 tests/lab/lab fault "$lab" unlink "$tray" 2
check "validate finds the link" 7 "$racksh" validate cluster a
says "and names the VM" "a-02"
check "isolation still holds" 0 "$racksh" isolation verify
check "relink it" 0 tests/lab/lab heal "$lab" relink "$tray" 2
check "healthy again" 0 "$racksh" validate cluster a

check "exec on every VM" 0 "$racksh" vm exec @cluster:a -- uname -n
check "delete needs a yes" 2 "$racksh" cluster delete a
check "delete a" 0 "$racksh" cluster delete a -y
check "delete b" 0 "$racksh" cluster delete b -y
check "deleted is not found" 8 "$racksh" cluster show a
check "nothing left behind" 0 tests/lab/lab leftovers "$lab"
check "no drift afterwards" 0 "$racksh" drift
