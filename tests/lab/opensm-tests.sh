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
		check "$name: a change is refused" 1 "$racksh" cluster create "$lab/b1.json"
		check "$name: not a byte" 0 cmp -s "$run" "$lab/bad"
	fi
	hup
	# A pass is also what was true before.
	[ "$code" -ne 0 ] || check "$name: OpenSM reads it" 0 obeyed
	check "$name: isolation" 0 verifies "$code"
	put_good
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

# Everything else that opens a fabric, or makes something else of a line than it says.
row "an empty file" '1,99999d' 'no definition|empty' 7
row "nothing but comments" 's/^[^#]/#&/' 'no definition' 7
row "a line with only ;" ';\n' '' 7
row "a header over two lines" 'x=0x0a02,\ndefmember=full : ALL ;\n' '' 7
row "a GUID that is none" "x=0x0a02 : 0x12g4 ;\n" 'GUID' 7
row "no ; before the next definition" "x=0x0a02 : $free\ny=0x0a03 : $free ;\n" '' 7
row "a name with a colon" "x:y=0x0a02 : $free ;\n" '' 7
row "a tenant with the default key" "x=0x7fff, defmember=full : $free ;\n" '' 7
row "A means ALL" "x=$key : A=full ;\n" '' 7
row "full, then limited" "x=0x0a04 : $free=full, $free=limited ;\n" 'limited' 7
row "a member of ours made limited by others" "a=$key : $port=limited ;\n" 'limited' 7

# More keys than a port has room for, on every tray that could be taken.
ports=$("$racksh" hca list -o json | jq -r '[.[] | select(.cluster == null and .rail == 0) | .port_guid + "=full"] | join(", ")')
for n in {1..70}; do
	printf 'many%d=0x%04x : %s ;\n' "$n" $((0x0b00 + n)) "$ports"
done >"$lab/many"
row "seventy keys on a port" "$(cat "$lab/many")\n" 'more than 64 keys' 7 try

# What follows changes the file without virtual machines: it is one from before, without the tenant's key, and `drift --fix` is the way back.
{ printf 'Default=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;\n' && printf '# %02000d\n' 0; } >"$lab/sm/stale.conf"
lose_key() { cp "$lab/sm/stale.conf" "$run.new" && mv "$run.new" "$run" && hup && key_is 7; }

# A disk that is full in the middle of the write: OpenSM's file stays as it is.
check "disk full: the key is lost" 0 lose_key
sed -i '2i ulimit -f 2' "$lab/sm/shell"
check "disk full: the change fails" 1 "$racksh" drift --fix -y
says "disk full: and says so" 'could not be written|did not arrive whole'
sed -i '2d' "$lab/sm/shell"
check "disk full: not a byte is changed" 0 cmp -s "$run" "$lab/sm/stale.conf"
check "disk full: isolation holds" 0 verifies 0

# The tenant's key is back, whatever was left half done.
mend() {
	local op
	for op in $("$racksh" op list -o json | jq -r '.[] | select(.state as $s | ["done", "failed", "rolled-back", "cancelled"] | index($s) | not) | .id'); do
		"$racksh" op rollback "$op" -y
	done
	"$racksh" drift --fix -y && key_is 0
}
check "disk full: with room again all is well" 0 mend

# A signal that is never obeyed: the change is not seen, so it is taken back; the file that OpenSM finds when it wakes up is the former one.
check "HUP lost: the key is lost" 0 lose_key
kill -STOP "$(cat "$pidfile")"
check "HUP lost: the change fails" 1 "$racksh" drift --fix -y
says "HUP lost: it is not taken for done" 'does not hold what it should'
kill -CONT "$(cat "$pidfile")"
check "HUP lost: isolation holds" 0 verifies 0
check "HUP lost: the former file is in place" 0 cmp -s "$run" "$lab/sm/stale.conf"
check "HUP lost: obeyed again, all is well" 0 mend

# A second manager, with files of its own (before anybody dies: the simulator keeps the place of a dead one for a while). A change reaches both, so that whoever takes over gives everybody the keys that they have; one that was left
# with an older file takes them away, and that is found.
check "two managers: the second one starts" 0 tests/lab/lab sm "$lab" standby
jq '.infiniband[0] |= (.partitionsFile = "partitions.conf" | .pidFile = "opensm.pid" | .ssh |= sub("[.]250:"; ".[250,252]:"))' "$lab/site.json" >"$lab/two.json"
check "two managers: import" 0 "$racksh" site import "$lab/two.json"
both() { cp "$1" "$run.new" && mv "$run.new" "$run" && cp "$1" "$lab/sm2/new" && mv "$lab/sm2/new" "$lab/sm2/partitions.conf"; }
masters() { grep -c 'Entering MASTER' "$lab/sm2/opensm.log"; }
second_takes_over() {
	local before
	before=$(masters)
	kill -9 "$(cat "$pidfile")"
	for _ in {1..120}; do
		[ "$(masters)" -le "$before" ] || return 0
		sleep 0.5
	done
	return 1
}
printf 'Default=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;\n' >"$lab/old.conf"
lose_both() { both "$lab/old.conf" && hup && key_is 7; }
check "two managers: the key is lost" 0 lose_both
check "two managers: a change reaches both" 0 mend
check "two managers: with equal bytes" 0 cmp "$run" "$lab/sm2/partitions.conf"
cp "$run" "$lab/new.conf"
check "two managers: the first one dies" 0 second_takes_over
check "two managers: the tenant keeps its key" 0 key_is 0
check "two managers: isolation holds" 0 verifies 0
# Which is master at once, for its priority, and sweeps only when there is a reason: the lab waits for that in vain.
first_is_back() { tests/lab/lab sm "$lab" start || grep -q 'Entering MASTER' "$log"; }
check "two managers: the first one is back" 0 first_is_back
check "two managers: and all is well" 0 key_is 0
cp "$lab/old.conf" "$lab/sm2/new" && mv "$lab/sm2/new" "$lab/sm2/partitions.conf"
check "stale standby: takes over" 0 second_takes_over
check "stale standby: the lost key is found" 0 key_is 7
check "stale standby: isolation holds" 0 verifies 0
check "stale standby: all is well again, with the second one as master" 0 mend
check "stale standby: with equal bytes" 0 cmp "$run" "$lab/sm2/partitions.conf"
kill -9 "$(cat "$lab/sm2/opensm.pid")"
check "one manager again: it starts" 0 tests/lab/lab sm "$lab" start
check "one manager again: import" 0 "$racksh" site import "$lab/site.json"
check "one manager again: all is well" 0 mend

# OpenSM dies before command number N on its host: isolation holds, with and without it, and another one finds a sound file.
# shellcheck disable=SC2016 # expanded by the manager's shell
hook='n=$(($(cat "${0%/*}/count") + 1)); echo "$n" >"${0%/*}/count"; [ "$n" -ne "$(cat "${0%/*}/deadly")" ] || kill -9 "$(cat "${0%/*}/opensm.pid")"'
for nth in 4 6; do
	check "killed before command $nth: the key is lost" 0 lose_key
	echo 0 >"$lab/sm/count"
	echo "$nth" >"$lab/sm/deadly"
	sed -i "2i $hook" "$lab/sm/shell"
	check "killed before command $nth: the change is not taken for done" 6 "$racksh" drift --fix -y
	sed -i '2d' "$lab/sm/shell"
	check "killed before command $nth: another one starts" 0 tests/lab/lab sm "$lab" start
	check "killed before command $nth: isolation holds" 0 verifies 0
	check "killed before command $nth: the file is sound" 0 "$racksh" ib lint "$run"
	check "killed before command $nth: all is well again" 0 mend
done

# OpenSM dies at a point of the procedure: where the NTH call of a program of its host begins. What was not seen done is told and another one finds a sound
# file.
die_at() {
	local where=$1 program=$2 nth=$3
	shift 3
	check "killed $where: the key is lost" 0 lose_key
	echo 0 >"$lab/sm/count"
	chmod 666 "$lab/sm/count"
	cat >"$lab/sm/bin/$program" <<-END
		#!/bin/sh
		d=\${0%/bin/*} n=\$((\$(cat "\$d/count") + 1))
		echo "\$n" >"\$d/count"
		[ "\$n" -ne $nth ] || kill -9 "\$(cat "\$d/opensm.pid")"
		exec $(PATH=$PATH:/usr/sbin:/sbin command -v "$program") "\$@"
	END
	chmod 755 "$lab/sm/bin/$program"
	check "killed $where: the change is not taken for done" 6 "$racksh" "$@" drift --fix -y
	check "killed $where: it was killed" 1 kill -0 "$(cat "$pidfile")"
	rm "$lab/sm/bin/$program"
	check "killed $where: another one starts" 0 tests/lab/lab sm "$lab" start
	check "killed $where: isolation holds" 0 verifies 0
	check "killed $where: the file is sound" 0 "$racksh" ib lint "$run"
	check "killed $where: all is well again" 0 mend
}
die_at "before the file is tried" ibsim 1 --twin-check
die_at "before the file is locked" flock 1
die_at "before it is replaced" mv 1
die_at "before it is told" sync 2

# Without a manager there is nobody to find ports with: what was not read is unknown, neither broken nor fine.
kill -9 "$(cat "$pidfile")"
check "without a manager nothing is known" 0 verifies 6
