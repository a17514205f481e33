#!/usr/bin/env bash
# All tests on a finished build: unit (CMocka), golden, lint, and the lab when it is there. Used by `make check`.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$1
export BUILD=$build # the lint reads the pages of this very build
failed=0

step() {
	echo "=== $1"
	shift
	"$@" || failed=1
}

# shellcheck disable=SC2046 # file names of our own, without blanks
step "unit tests" tests/run-unit.sh $(find "$build/tests/unit" -maxdepth 1 -type f -perm -u+x -name "test_*" | sort)
step "golden tests" tests/golden/run.sh
step "terminal tests" tests/pty/run.sh
[ -x tests/lint/run.sh ] && step "lint" tests/lint/run.sh
# LAB=1: the lab tests join when the lab passes them all (see README, "State").
[ "${LAB:-}" = 1 ] && step "lab" tests/lab-tests.sh
exit $failed
