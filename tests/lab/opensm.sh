# shellcheck shell=bash
# What the suites about OpenSM begin with (opensm-tests.sh, opensm-managers-tests.sh): a lab with one tenant, its good partitions file in $lab/good, and how to
# see that OpenSM did what its file says. The caller sets `suite` before.
# shellcheck source=tests/lab/testing.sh
. "$(dirname "$0")/testing.sh"

start_lab
run=$(jq -r '.infiniband[0].partitionsFile' "$lab/site.json")
pidfile=$(jq -r '.infiniband[0].pidFile // empty' "$lab/site.json")
[ -n "$pidfile" ] || pidfile=$(dirname "$run")/opensm.pid

log=$(dirname "$pidfile")/opensm.log
sweeps() { grep -c 'SUBNET UP' "$log"; }
hup() {
	swept=$(sweeps)
	kill -HUP "$(cat "$pidfile")"
}
# OpenSM has read the file and set all tables since the last `hup`.
obeyed() {
	for _ in {1..60}; do
		[ "$(sweeps)" -le "$swept" ] || return 0
		sleep 0.5
	done
	return 1
}
# The next reading of all tables that is as wanted (0 passes, 7 is a breach) within ten seconds.
verifies() {
	local try code=1
	for try in {1..20}; do
		"$racksh" isolation verify -o json >"$lab/isolation" 2>/dev/null
		code=$?
		[ "$code" -eq "$1" ] && return 0
		sleep 0.5
	done
	echo "after $try tries: $code"
	cat "$lab/isolation"
	return 1
}

# The next comparison of all keys with the ports' tables is as wanted (0: as they should be, 7: some are not) within ten seconds or so.
key_is() {
	local try code=1
	for try in {1..20}; do
		"$racksh" ib verify >"$lab/keys" 2>&1
		code=$?
		[ "$code" -eq "$1" ] && return 0
		sleep 0.5
	done
	echo "after $try tries: $code"
	cat "$lab/keys"
	return 1
}

put_good() { cp "$lab/good" "$run.new" && mv "$run.new" "$run"; }

check "import" 0 "$racksh" site import "$lab/site.json"
jq '.count = 1 | .placement.segment = 1 | .validation.required = false' "$lab/a.json" >"$lab/a1.json"
jq '.count = 1 | .placement.segment = 1 | .validation.required = false' "$lab/b.json" >"$lab/b1.json"
check "create a, after a try in a simulated fabric" 0 "$racksh" --twin-check cluster create "$lab/a1.json"
check "isolation holds" 0 "$racksh" isolation verify
cp "$run" "$lab/good"
