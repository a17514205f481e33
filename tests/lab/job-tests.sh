#!/usr/bin/env bash
# The main job on the lab: rack file in, two clusters out, everything read back, faults found by name, everything given back.
set -u
suite="the main job in the lab"
# shellcheck source=tests/lab/testing.sh
. "$(dirname "$0")/testing.sh"

start_lab
check "import" 0 "$racksh" site import "$lab/site.json"
check "import again changes nothing" 0 "$racksh" site import "$lab/site.json"
check "the demo's first batch: two clusters, validated and isolated" 0 "$racksh" -D LAB="$lab" -f tests/examples/demo-1-build.racksh
check "create a again converges" 0 "$racksh" cluster create "$lab/a.json"
for what in "validate cluster a" "validate cluster b" "isolation verify" "nvlink verify" "ib verify" "drift"; do
	# shellcheck disable=SC2086 # words of a racksh command
	check "$what" 0 "$racksh" $what
done

tray=$("$racksh" vm list -o json | jq -r '.[] | select(.name == "a-02") | .tray')
other=$("$racksh" vm list -o json | jq -r '.[] | select(.name == "a-01") | .tray')
part=$("$racksh" cluster show a -o json | jq -r '.nvlink[0].partition')
check "put a GPU out of its partition" 0 tests/lab/lab fault "$lab" gpu-leave "$tray" 1
check "validate finds the GPU" 7 "$racksh" validate cluster a
says "and names VM and tray as the first root cause" "root cause 1: .*a-02 on $tray.*gpu=1"
lacks "and blames nothing else" "root cause 2"
check "isolation still holds" 0 "$racksh" isolation verify
check "nvlink verify finds it" 7 "$racksh" nvlink verify
check "drift finds it" 7 "$racksh" drift
check "put it back" 0 tests/lab/lab heal "$lab" gpu-leave "$tray" 1 "$part"
check "healthy again" 0 "$racksh" validate cluster a
check "unlink a port" 0 tests/lab/lab fault "$lab" unlink "$tray" 2
check "validate finds the link" 7 "$racksh" validate cluster a
says "and names VM, tray and port as the first root cause" "root cause 1: .*a-02 on $tray.*(mlx5_2|rail=?2|rail 2)"
lacks "and blames nothing else" "root cause 2"
check "isolation still holds" 0 "$racksh" isolation verify
check "and put a GPU of another tray out of its partition" 0 tests/lab/lab fault "$lab" gpu-leave "$other" 3
check "validate finds both" 7 "$racksh" validate cluster a
says "the GPU" "root cause [12]: .*a-01 on $other.*gpu=3"
says "and the link" "root cause [12]: .*a-02 on $tray.*(mlx5_2|rail=?2|rail 2)"
lacks "and blames nothing else" "root cause 3"
check "put it back" 0 tests/lab/lab heal "$lab" gpu-leave "$other" 3 "$part"
check "relink it" 0 tests/lab/lab heal "$lab" relink "$tray" 2
check "healthy again" 0 "$racksh" validate cluster a

check "the demo's second batch: at work" 0 "$racksh" -f tests/examples/demo-2-use.racksh
check "delete needs a yes" 2 "$racksh" cluster delete a
check "the demo's third batch: all given back" 0 "$racksh" -f tests/examples/demo-3-delete.racksh
check "deleted is not found" 8 "$racksh" cluster show a
check "nothing left behind" 0 tests/lab/lab leftovers "$lab"
check "store is free" 0 store_is_free
check "no drift afterwards" 0 "$racksh" drift
