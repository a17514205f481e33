#!/usr/bin/env bash
# What others do to a real OpenSM's partitions file, against two tenants on the lab: racksh refuses to touch a file that is not safe, never opens the
# fabric itself, and tells what others opened within one verification.
set -u
suite="OpenSM in the lab"
# shellcheck source=tests/lab/testing.sh
. "$(dirname "$0")/testing.sh"

start_lab
run=$(jq -r '.infiniband[0].partitionsFile' "$lab/site.json")
pidfile=$(jq -r '.infiniband[0].pidFile // empty' "$lab/site.json")
[ -n "$pidfile" ] || pidfile=$(dirname "$run")/opensm.pid

hup() { kill -HUP "$(cat "$pidfile")"; }
same_bytes() { cmp -s "$run" "$lab/good"; }
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

check "import" 0 "$racksh" site import "$lab/site.json"
jq '.count = 1 | .placement.segment = 1 | .validation.required = false' "$lab/a.json" >"$lab/a1.json"
jq '.count = 1 | .placement.segment = 1 | .validation.required = false' "$lab/b.json" >"$lab/b1.json"
check "create a" 0 "$racksh" cluster create "$lab/a1.json"
check "isolation holds" 0 "$racksh" isolation verify
cp "$run" "$lab/good"
port=$("$racksh" hca list -o json | jq -r '[.[] | select(.cluster == "a")][0].port_guid')
free=$("$racksh" hca list -o json | jq -r '[.[] | select(.cluster == null)][-1].port_guid')
key=$("$racksh" ib list -o json | jq -r '.[0].pkey')

# NAME, what it does to the file as a sed script or text to append, what lint says, exit code of isolation verify after a HUP, `try`: a change is
# tried, too (it takes long until it is rolled back).
row() {
	local name=$1 edit=$2 says=$3 code=$4 try=${5:-}
	cp "$lab/good" "$lab/bad"
	case $edit in
	s/* | */d | 1*) sed "$edit" "$lab/good" >"$lab/bad" ;;
	*) printf '%b' "$edit" >>"$lab/bad" ;;
	esac
	cp "$lab/bad" "$run.new" && mv "$run.new" "$run"
	if [ -n "$says" ]; then
		check "$name: lint finds it" 7 "$racksh" ib lint "$run"
		says "$name: and says what" "$says"
	fi
	if [ -n "$try" ]; then
		check "$name: the file is not touched" 1 "$racksh" cluster create "$lab/b1.json"
		check "$name: not a byte" 0 cmp -s "$run" "$lab/bad"
	fi
	hup
	check "$name: isolation" 0 verifies "$code"
	cp "$lab/good" "$run.new" && mv "$run.new" "$run"
	hup
	check "$name: and holds again afterwards" 0 verifies 0
}
row "garbage" 'garbage\n' 'no definition' 7 try
row "carriage returns" 's/$/\r/' 'carriage return' 7
row "long line" "# $(printf 'x%.0s' {1..4080}) tZ=0x0966, defmember=full : ALL ;\n" 'more than 4094 bytes' 7
row "our key under another name" "other=$key, defmember=full : $free ;\n" 'merges' 7
row "everybody full" "1i Default=0x7fff : ALL=full ;" '' 7
row "our key for a free port, same name" "a=$key, defmember=full : $free ;\n" '' 7
row "a foreign key of a free port" "storage=0x0a00, defmember=full : $free ;\n" '' 0
row "a shared service" "storage=0x0a00 : $free=full, $port=limited ;\n" '' 0
row "an unknown port" "x=0x0a01, defmember=full : 0x5000e603ffff0001 ;\n" '' 0

# Without a manager there is nobody to find ports with: what was not read is unknown, neither broken nor fine.
kill -9 "$(cat "$pidfile")"
check "without a manager nothing is known" 0 verifies 6
