#!/usr/bin/env bash
# All tests on a finished build: unit (CMocka), golden, lint, and those on labs. Used by `make check`.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$1
export BUILD=$build # the lint reads the pages of this very build
failed=0
said=$(mktemp "${TMPDIR:-/tmp}/racksh-check.XXXXXX") || exit 1
trap 'rm -f "$said"' EXIT

step() {
	local begin=$SECONDS what=$1 tee
	echo "=== $what"
	shift
	exec 3> >(exec tee -a "$said")
	tee=$!
	"$@" >&3 2>&1 3>&- || { failed=1; echo "not ok: $what"; }
	exec 3>&-
	# What a test left running may hold the pipe: it is not waited for long.
	timeout 5 tail -s 0.1 --pid=$tee -f /dev/null
	echo "=== $what: $((SECONDS - begin)) s" | tee -a "$said"
}

# shellcheck disable=SC2046 # file names of our own, without blanks
step "unit tests" tests/run-unit.sh $(find "$build/tests/unit" -maxdepth 1 -type f -perm -u+x -name "test_*" | sort)
step "golden tests" tests/golden/run.sh
step "terminal tests" tests/pty/run.sh
step "other programs" tests/programs.sh
step "lint" tests/lint/run.sh
step "lab tests" tests/lab-tests.sh
tests/skipped.sh <"$said"
exit $failed
