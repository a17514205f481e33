#!/usr/bin/env bash
# A cluster changes while it lives, on the lab: it grows, shrinks, loses a tray and is repaired.
set -u
suite="growing, shrinking and repairing in the lab"
# shellcheck source=tests/lab/testing.sh
. "$(dirname "$0")/testing.sh"

# Everything that can be read agrees that cluster b is well.
expect_well() {
	check "b is healthy after $1" 0 "$racksh" validate cluster b
	check "no drift after $1" 0 "$racksh" drift
	check "isolated after $1" 0 "$racksh" isolation verify
}

vms() { "$racksh" vm list -o json | jq '[.[] | select(.cluster == "b")] | length'; }

start_lab
printf 'delay_ms=30-80\nrelease_ms=200\n' >"$lab/nvsw/config"
check "import" 0 "$racksh" site import "$lab/site.json"
check "create b" 0 "$racksh" cluster create "$lab/b.json"

check "grow" 0 "$racksh" cluster grow b 3
check "there are three VMs" 0 test "$(vms)" = 3
expect_well "growing"
check "grow again changes nothing" 0 "$racksh" cluster grow b 3
check "there are three VMs still" 0 test "$(vms)" = 3

bad=$("$racksh" vm list -o json | jq -r '.[] | select(.name == "b-02") | .tray')
check "the tray of b-02 is taken out" 0 "$racksh" tray cordon "$bad" --reason "test of repair" -y
check "repair" 0 "$racksh" cluster repair b -y
check "b-02 is on another tray" 0 test "$("$racksh" vm list -o json | jq -r '.[] | select(.name == "b-02") | .tray')" != "$bad"
expect_well "repairing"

check "shrink" 0 "$racksh" cluster shrink b 2 -y
check "there are two VMs" 0 test "$(vms)" = 2
expect_well "shrinking"

check "delete" 0 "$racksh" cluster delete b -y
# The bad tray's GPUs stay in a partition of their own until somebody mends it; all else is as before.
only_the_bad_tray() {
	! tests/lab/lab leftovers "$lab" | grep -vE "^$bad: GPU . is not in the default partition|^switch: partition [0-9]+ tray_$bad\$"
}
check "nothing is left behind but the bad tray's GPUs" 0 only_the_bad_tray
check "the bad tray's GPUs are in its own partition" 0 sh -c "tests/lab/lab leftovers '$lab' | grep -q 'tray_$bad'"
check "that tray is faulty" 0 test "$("$racksh" tray list -o json | jq -r --arg bad "$bad" '.[] | select(.name == $bad) | .state')" = faulty
