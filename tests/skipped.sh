#!/bin/sh
# Reads what the tests said and lists, once each and with the program it belongs to, what was skipped: nothing is known of that.
awk '
	/^== / { where = $2 ": " }
	/^=== / { where = "" }
	/^\[  SKIPPED \] [A-Za-z0-9_]+$/ { say(where $4) }
	/^(skipped|SKIPPED): / { sub(/^[a-zA-Z]*: /, ""); say(where $0) }
	/^lab tests are skipped, / { say($0) }
	function say(what) { if (!seen[what]++) list[++n] = what }
	END {
		for (i = 1; i <= n; i++) print "not tested here: " list[i]
		print n + 0 " skipped"
	}'
