#!/usr/bin/env bash
# Discovery on the lab with all witnesses: it agrees with a true site file, and names exchanged trays and a GPU that fell off its bus.
set -u
suite="discovery of hosts in the lab"
# shellcheck source=tests/lab/testing.sh
. "$(dirname "$0")/testing.sh"

start_lab
check "import" 0 "$racksh" site import "$lab/site.json"
check "a true file has no contradiction" 0 "$racksh" site discover
check "its proposals are applied" 0 "$racksh" site discover --apply
check "afterwards there is nothing to say" 0 "$racksh" site discover
check "a GPU falls off its bus" 0 tests/lab/lab fault "$lab" gpu-off r01-t04 2
check "discovery finds it" 7 "$racksh" site discover
says "and names tray and GPU" "r01-t04.*2"
check "it comes back" 0 tests/lab/lab heal "$lab" gpu-off r01-t04 2
check "and all is well" 0 "$racksh" site discover

# Two trays stand in each other's place: the file says so, the hardware does not move.
jq '.racks[0].tray |= ((."r01-t02" | {gpus, hcas}) as $two | (."r01-t03" | {gpus, hcas}) as $three | ."r01-t02" += $three | ."r01-t03" += $two)' \
	"$lab/site.json" >"$lab/swapped.json"
export RACKSH_STORE="sqlite:$lab/swapped.db"
check "import of a file with two trays exchanged" 0 "$racksh" site import "$lab/swapped.json"
check "discovery finds the exchange" 7 "$racksh" site discover
says "and names one tray" "r01-t02.*exchange|exchange.*r01-t02"
says "and the other" "r01-t03.*exchange|exchange.*r01-t03"
