#!/usr/bin/env bash
# Calls and words that must not be in the sources, and sizes that must not be exceeded.
set -u
cd "$(dirname "$0")/../.." || exit 1
problems=0

# refuse WHAT PATTERN FOLDER...: no line of the C sources matches. Comments and strings count: they are read too.
refuse() {
	local what=$1 pattern=$2 found
	shift 2
	found=$(grep -rnE --include='*.[ch]' "$pattern" "$@") || return 0
	printf '%s:\n%s\n' "$what" "$found"
	problems=1
}

code='cli provision vmspec inventory'

# sources PATTERN FIND-ARGUMENTS...: source files of that name.
sources() {
	local pattern=$1
	shift
	find cli provision vmspec inventory -name "$pattern" "$@"
}

# shellcheck disable=SC2086 # a list of folders
{
	refuse 'banned call' '(^|[^_[:alnum:]])(strcpy|strcat|sprintf|vsprintf|gets|system|popen|tmpnam|mktemp)[[:space:]]*\(' $code tests
	refuse 'unfinished work' '(^|[^[:alnum:]_])(TODO|FIXME|XXX:|HACK)([^[:alnum:]_]|$)|not implemented|not yet implemented' $code tests
	refuse 'path of one machine' '"/(work|home|root)/' $code
	refuse 'code in a comment' '^[[:space:]]*//.*;[[:space:]]*$' $code
	refuse 'disabled code' '^[[:space:]]*#[[:space:]]*if[[:space:]]+0' $code
}

# Only the writers of cli/ print to stdout, and the programs that are sent to other hosts.
if found=$(grep -rnE --include='*.[ch]' --exclude-dir=remote '(^|[^_[:alnum:]])(printf|puts|putchar)[[:space:]]*\(' provision vmspec inventory cli/cmds); then
	printf 'prints to stdout outside the writers of cli/:\n%s\n' "$found"
	problems=1
fi

while read -r lines file; do
	if [ "$file" != total ] && [ "$lines" -gt 900 ]; then
		printf '%s: %d lines, at most 900\n' "$file" "$lines"
		problems=1
	fi
done < <(sources '*.[ch]' -exec wc -l {} +)

# Functions: from the line with the only "{" in column 1 to the "}" in column 1.
sources '*.c' -exec awk '
	FNR == 1 { start = 0 }
	/^\{/ { start = FNR }
	/^\}/ && start { if (FNR - start - 1 > 80) { printf "%s:%d: function of %d lines, at most 80\n", FILENAME, start, FNR - start - 1; bad = 1 } start = 0 }
	END { exit bad }' {} + || problems=1
exit $problems
