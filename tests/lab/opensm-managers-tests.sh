#!/usr/bin/env bash
# What happens to a real OpenSM and its host while racksh changes the partitions file: the disk is full, a signal is lost, it dies at each step, another
# manager takes over. Isolation holds, what was not seen done is told, and the way back is there.
set -u
suite="OpenSM and its host in the lab"
# shellcheck source=tests/lab/opensm.sh
. "$(dirname "$0")/opensm.sh"

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
