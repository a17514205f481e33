#!/usr/bin/env bash
# Prints an SVG of a real session on the twin (for the README): tests/screenshot.sh >man/screenshot.svg
# The session is played in a pseudo terminal; what it shows is what racksh printed, colours included.
set -eu -o pipefail
cd "$(dirname "$0")/.."
racksh=$(realpath "${RACKSH:-build/racksh}")
drive=$(realpath "${DRIVE:-$(dirname "$racksh")/tests/pty/drive}")
home=$(mktemp -d "${TMPDIR:-/tmp}/racksh-screenshot.XXXXXX")
trap 'rm -rf "$home"' EXIT
printf 'set enable-bracketed-paste off\n' >"$home/inputrc"
cat >"$home/script" <<'END'
size 110 40
colours
run --sim tests/examples/site-1.json -q
wait example-1> 
line cluster plan tests/examples/cluster-a.json
wait (chosen
wait example-1> 
line cluster create tests/examples/cluster-a.json
wait example-1> 
line use cluster reasoning-a
wait reasoning-a> 
line vm list
wait reasoning-a> 
line validate
wait reasoning-a> 
line isolation verify
wait reasoning-a> 
line begin
wait +0 staged
wait > 
line tray cordon r01-t18 --reason 'fan tray'
wait +1 staged
wait > 
line diff
wait +1 staged
wait > 
line commit
wait reasoning-a> 
line quit
end
END
env -i PATH="$PATH" HOME="$home" XDG_STATE_HOME="$home" XDG_CONFIG_HOME="$home" INPUTRC="$home/inputrc" TERM=xterm LC_ALL=C.UTF-8 \
	"$drive" "$home/script" "$racksh" | grep -v '^exit 0$' | awk '
	BEGIN {
		colour[""] = "#d0d0d0"; colour["1"] = "#ffffff"; colour["31"] = "#f38ba8"; colour["32"] = "#a6e3a1"; colour["35"] = "#cba6f7"
		high = 17
	}
	{ lines[++n] = $0 }
	END {
		while (n && lines[n] == "") n--
		printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"940\" height=\"%d\" font-family=\"monospace\" font-size=\"14\">\n", n * high + 24
		print "<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1e1e2e\"/>"
		for (i = 1; i <= n; i++) {
			text = lines[i]
			gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text)
			out = ""
			while (match(text, /\{[0-9]*\}/)) {
				mark = substr(text, RSTART + 1, RLENGTH - 2)
				out = out substr(text, 1, RSTART - 1) (open ? "</tspan>" : "") (mark == "" ? "" : "<tspan fill=\"" colour[mark] "\">")
				open = mark != ""
				text = substr(text, RSTART + RLENGTH)
			}
			out = out text (open ? "</tspan>" : "")
			open = 0
			printf "<text x=\"12\" y=\"%d\" fill=\"%s\" xml:space=\"preserve\">%s</text>\n", i * high + 8, colour[""], out
		}
		print "</svg>"
	}'
