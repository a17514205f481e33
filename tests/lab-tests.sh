#!/usr/bin/env bash
# All tests on labs, several labs at a time: most of their time is waiting. Used by `make check`; exit 1 when one failed.
# usage: lab-tests.sh [NAME...]: only the suites whose command holds one of the names.
set -u
cd "$(dirname "$0")/.." || exit 1
at_once=${LAB_JOBS:-3}
logs=$(mktemp -d "${TMPDIR:-/tmp}/racksh-labtests.XXXXXX") || exit 1
failed=0 started=0
declare -A suite_of=()

# Longest first.
suites() {
	cat <<-END
		tests/lab/opensm-managers-tests.sh
		tests/lab/opensm-tests.sh
		tests/lab/kill-tests.sh 1/2
		tests/lab/kill-tests.sh 2/2
		tests/lab/change-tests.sh
		tests/lab/job-tests.sh
		tests/lab/discover-tests.sh
		tests/lab/topology-tests.sh
		tests/lab/hosts-tests.sh
		tests/lab/selftest.sh
		tests/lab/lint-vs-opensm.sh
	END
}

end() {
	trap '' EXIT INT TERM
	[ "${#suite_of[@]}" -eq 0 ] || { kill "${!suite_of[@]}" 2>/dev/null; wait "${!suite_of[@]}"; }
	rm -rf "$logs"
	exit "$1"
}
trap 'end 1' EXIT
trap 'end 130' INT TERM

# What no package brings. Packages are installed by `make check` before.
cannot_run() {
	[ "$(uname -m)" = x86_64 ] || echo "the lab's guests are x86_64"
	for program in libvirtd qemu-system-x86_64 opensm ibsim sshd dropbear busybox jq; do
		PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || echo "$program is not installed"
	done
}

chosen() {
	local line name
	suites | while read -r line; do
		[ "$#" -gt 0 ] || echo "$line"
		for name in "$@"; do
			[[ $line != *"$name"* ]] || echo "$line"
		done
	done
}

# Waits for one suite to end and shows what it said.
reap() {
	local pid code
	wait -n -p pid "${!suite_of[@]}"
	code=$?
	printf '== %s\n' "${suite_of[$pid]}"
	cat "$logs/$pid"
	[ "$code" -eq 0 ] || failed=1
	unset "suite_of[$pid]"
}

why=$(cannot_run)
if [ -n "$why" ]; then
	printf 'lab tests are skipped, this machine cannot run them: %s\n' "$(paste -sd ';' <<<"$why")"
	end 0
fi
while read -r suite; do
	[ "${#suite_of[@]}" -lt "$at_once" ] || reap
	# shellcheck disable=SC2086 # a command and its argument
	bash -c 'exec "$@" >"$0/$$" 2>&1' "$logs" $suite &
	suite_of[$!]=$suite
	started=$((started + 1))
done < <(chosen "$@")
while [ "${#suite_of[@]}" -gt 0 ]; do
	reap
done
[ "$started" -gt 0 ] || { echo "no lab suite is called $*"; end 1; }
end "$failed"
