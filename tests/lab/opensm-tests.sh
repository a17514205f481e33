#!/usr/bin/env bash
# What others do to a real OpenSM's partitions file, against two tenants on the lab: racksh refuses to touch a file that is not safe, never opens the
# fabric itself, and tells what others opened within one verification.
set -u
suite="OpenSM in the lab"
# shellcheck source=tests/lab/opensm.sh
. "$(dirname "$0")/opensm.sh"

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
