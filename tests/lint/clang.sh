#!/usr/bin/env bash
# The other compiler warns of other things: every source compiles with clang too, without a warning (only looked at, nothing is built).
set -u
cd "$(dirname "$0")/../.." || exit 1

if ! command -v clang >/dev/null; then
	echo 'skipped: clang is not installed'
	exit 0
fi
flags=(-std=gnu17 -D_GNU_SOURCE -I. -I"${BUILD:-build}/gen" '-DRK_VERSION="0"' '-DUMAD2SIM=""' -fsyntax-only -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
	-Wwrite-strings -Wformat=2 -Wundef -Wvla -Werror)
libraries='libvirt libvirt-qemu libssh libcrypto readline jansson sqlite3 libcurl libxml-2.0 libisofs-1'
if pkg-config --exists libpq; then
	flags+=(-DRK_WITH_LIBPQ=1)
	libraries="$libraries libpq"
fi
# shellcheck disable=SC2046,SC2086 # lists
find cli provision vmspec inventory tests/unit tests/bench tests/lab/src -name '*.c' -print0 |
	xargs -0 -n 8 -P 2 clang "${flags[@]}" $(pkg-config --cflags $libraries)
