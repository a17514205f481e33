#!/usr/bin/env bash
# All tests on a finished build: unit (CMocka), golden, lint, and those on labs. Used by `make check`.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$1
export BUILD=$build # the lint reads the pages of this very build
failed=0

step() {
	local begin=$SECONDS what=$1
	echo "=== $what"
	shift
	"$@" || { failed=1; echo "not ok: $what"; }
	echo "=== $what: $((SECONDS - begin)) s"
}

# shellcheck disable=SC2046 # file names of our own, without blanks
step "unit tests" tests/run-unit.sh $(find "$build/tests/unit" -maxdepth 1 -type f -perm -u+x -name "test_*" | sort)
step "golden tests" tests/golden/run.sh
step "terminal tests" tests/pty/run.sh
step "other programs" tests/programs.sh
step "lint" tests/lint/run.sh
step "lab tests" tests/lab-tests.sh
exit $failed
