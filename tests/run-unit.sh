#!/bin/sh
# Runs every given CMocka program, shows its own lines, fails when one failed.
failed=0
for t in "$@"; do
	echo "== ${t##*/}"
	"$t" || failed=1
done
exit $failed
