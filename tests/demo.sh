#!/usr/bin/env bash
# The whole job on the lab: real libvirt, QEMU, OpenSM and sshd. Used by `make demo`; takes the lab down again whatever happens.
set -u
cd "$(dirname "$0")/.." || exit 1

racksh=${RACKSH:-build/racksh}
lab=$(mktemp -d "${TMPDIR:-/tmp}/racksh-demo.XXXXXX") || exit 1
export RACKSH_STORE="sqlite:$lab/site.db"

end() {
	trap '' EXIT INT TERM
	tests/lab/lab down "$lab" || exit 1 # what it could not end is listed in there
	rm -rf "$lab"
}
trap end EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

# run CODE COMMAND...: shows the command, demands its exit code.
run() {
	local want=$1 got
	shift
	printf '$ %s\n' "$*"
	"$@"
	got=$?
	if [ "$got" -ne "$want" ]; then
		printf 'demo: exit code %s, expected %s\n' "$got" "$want" >&2
		exit 1
	fi
}

say "Starting the lab (libvirt, QEMU, OpenSM on ibsim, simulated NVLink switch)"
run 0 tests/lab/lab up "$lab"

say "A rack file in, two clusters out"
run 0 "$racksh" -D LAB="$lab" -f tests/examples/demo-1-build.racksh

tray=$("$racksh" vm list -o json | jq -r '.[] | select(.name == "a-02") | .tray')
part=$("$racksh" cluster show a -o json | jq -r '.nvlink[0].partition')

say "A fault: GPU 1 of $tray leaves its NVLink partition"
run 0 tests/lab/lab fault "$lab" gpu-leave "$tray" 1
run 7 "$racksh" validate cluster a
run 0 "$racksh" isolation verify
run 0 tests/lab/lab heal "$lab" gpu-leave "$tray" 1 "$part"
run 0 "$racksh" validate cluster a

say "Another one: the link of rail 2 of $tray is unplugged"
run 0 tests/lab/lab fault "$lab" unlink "$tray" 2
run 7 "$racksh" validate cluster a
run 0 "$racksh" isolation verify
run 0 tests/lab/lab heal "$lab" relink "$tray" 2
run 0 "$racksh" validate cluster a

say "Working with it"
run 0 "$racksh" -f tests/examples/demo-2-use.racksh

say "Giving everything back"
run 0 "$racksh" -f tests/examples/demo-3-delete.racksh

say "Nothing is left behind (read from the parts themselves, not from racksh)"
run 0 tests/lab/lab leftovers "$lab"
say "Done"
