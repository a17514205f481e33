#!/usr/bin/env bash
# Discovery on the lab: a swapped tray and a missing GPU as the NVLink switch tells them, a lost port and crossed names as the fabric tells them.
# Here nobody knows the hosts of the trays (hosts-tests.sh has them), so one witness is silent all the time: code 3 is "as recorded, but not all answered".
set -u
suite="discovery in the lab"
# shellcheck source=tests/lab/testing.sh
. "$(dirname "$0")/testing.sh"

# Other hardware in slot 5: the switch sees other GPUs at its location.
swap_tray() { sed -i 's/^gpu 0x4c8d0001000105/gpu 0x4c8d0001000199/' "$lab/nvsw/partitions"; }
lose_gpu() { sed -i '/^gpu 0x4c8d000100010703 /d' "$lab/nvsw/partitions"; }

# What the new tray is: its GPUs from the switch, its ports as before.
identity() {
	jq '.racks[0].tray["r01-t05"] | {serial: "SN-NEW-5",
		gpus: [.gpus[] | .fabricGuid |= sub("0x4c8d0001000105"; "0x4c8d0001000199")], hcas: [.hcas[] | {rail, portGuid}]}' "$lab/site.json" >"$lab/tray.json"
}

forget_hosts() { jq 'del(.racks[0].tray[].ssh)' "$lab/site.json" >"$lab/new.json" && mv "$lab/new.json" "$lab/site.json"; }

start_lab
check "forget the hosts" 0 forget_hosts
check "import" 0 "$racksh" site import "$lab/site.json"
check "discovery finds the racks as recorded" 3 "$racksh" site discover
check "the fabric is as designed" 0 "$racksh" ib check --live
check "the subnet manager's host is asked, and the fabric accepted" 0 "$racksh" ib import --live
check "what was kept is as designed" 0 "$racksh" ib check

check "swap a tray" 0 swap_tray
check "lose a GPU" 0 lose_gpu
check "unlink a port" 0 tests/lab/lab fault "$lab" unlink r01-t09 2
check "the fabric changed since it was accepted" 7 "$racksh" ib check --live
says "the cable that is gone" "^lost +.*since the fabric was accepted"
check "discovery contradicts the store" 7 "$racksh" site discover
says "the swapped tray" "^r01-t05 +hardware +.* replace "
says "the missing GPU" "^r01-t07 gpu 2 +present +yes +no +repair "
says "the lost port" "^r01-t09 rail 2 +wiring +.* missing-hca +repair "
check "nothing was changed" 0 "$racksh" site diff "$lab/site.json"
says "not a value" "^OBJECT"

check "relink it" 0 tests/lab/lab heal "$lab" relink r01-t09 2
check "name the new hardware" 0 identity
check "replacing needs a yes" 2 "$racksh" tray replace r01-t05 --identity "$lab/tray.json"
check "replace the tray" 0 "$racksh" -y tray replace r01-t05 --identity "$lab/tray.json"
check "only the lost GPU is left" 7 "$racksh" site discover
says "as before" "^r01-t07 gpu 2 "
check "the new tray is as recorded" 3 "$racksh" site discover r01-t05
check "store check" 0 "$racksh" store check
