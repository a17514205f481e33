#!/usr/bin/env bash
# The wiring check on fabrics of 1, 8 and 64 racks as the real tools show them: the design goes to ibsim, `ibnetdiscover` walks it over simulated
# MADs, `racksh ib import` keeps what it prints, and `ib check` judges it: nothing on the clean fabric, and each of twelve planted faults under its
# name, both against the design and against the fabric as accepted. Needs ibsim and infiniband-diags; no lab, no subnet manager, no privileges.
# usage: topology-tests.sh [RACKSH]; RACKS="1 8" looks at these sizes only
set -u
cd "$(dirname "$0")/../.." || exit 1
racksh=$(realpath "${1:-${RACKSH:-build/racksh}}") || exit 1
here=$PWD/tests/lab
PATH=$PATH:/usr/sbin:/sbin
umad2sim=$(find /usr/lib /usr/lib64 /usr/local/lib -name libumad2sim.so 2>/dev/null | head -n 1)
if [ -z "$umad2sim" ] || ! command -v ibsim ibnetdiscover jq >/dev/null; then
	echo "skipped: ibsim, infiniband-diags or jq is not installed"
	exit 0
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/racksh-wiring.XXXXXX") || exit 1
pid=
finish() {
	[ -z "$pid" ] || kill "$pid" 2>/dev/null
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1
export RACKSH_STORE="sqlite:$work/site.db"
failed=0 passed=0
RATE=200 # ibsim knows no link faster than HDR

ok() { passed=$((passed + 1)); }
not_ok() {
	failed=$((failed + 1))
	printf 'not ok: %s racks: %s\n' "$racks" "$1"
	shift
	[ "$#" -eq 0 ] || sed 's/^/    /' "$@" | head -n 20
}

# The site as the operator writes it: what netfile.awk wires, by its port GUIDs.
site() {
	awk -v racks="$racks" 'BEGIN {
		for (r = 1; r <= racks; r++)
			for (t = 1; t <= 18; t++)
				for (h = 0; h < 4; h++)
					printf "r%02d r%02d-t%02d %d 0x5000e603%04x%02x%02x\n", r, r, t, h, r, t, h * 16 + 1
	}' | jq -R -s --argjson rate "$RATE" '[split("\n")[] | select(. != "") | split(" ")] as $ports |
		{apiVersion: "racksh/v1", kind: "Site", name: "wiring",
		 defaults: {profile: "gb300-nvl72", libvirt: "qemu+ssh://root@{tray}/system"},
		 infiniband: [{name: "ib0", driver: "opensm", ssh: "root@sm1", partitionsFile: "/etc/opensm/partitions.conf", rateGbps: $rate}],
		 racks: [$ports | group_by(.[0])[] | {name: .[0][0], trays: {count: 18}, tray: (group_by(.[1]) | map({key: .[0][1],
			value: {hcas: map({rail: (.[2] | tonumber), portGuid: .[3]})}}) | from_entries)}]}' >site.json
}

# discover NETFILE: what ibnetdiscover prints when it starts at a switch of that fabric. -I: two nodes may carry one GUID.
discover() {
	local try name=wiring$$ code
	IBSIM_SOCKNAME=$name ibsim -s -n -I -N 8000 -S 1000 -P 100000 "$1" >ibsim.log 2>&1 &
	pid=$!
	for try in {1..1200}; do
		grep -q "@$name:ctl" /proc/net/unix && break
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.05
	done
	env LD_PRELOAD="$umad2sim" IBSIM_SOCKNAME="$name" SIM_HOST=spine00 timeout 120 ibnetdiscover >fabric.txt 2>discover.log </dev/null
	code=$?
	kill "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	pid=
	[ "$code" -eq 0 ] || not_ok "ibnetdiscover ends with $code after $try looks" ibsim.log discover.log
	return "$code"
}

# Numbers of the fabric, as netfile.awk computes them.
shape() {
	leaves=$((4 * ((racks + 3) / 4)))
	if [ "$racks" -le 4 ]; then
		spines=2 links=$((18 * racks / 2))
	else
		for ((spines = 1; spines < leaves / 2 || 72 % spines; spines++)); do :; done
		links=$((72 / spines))
	fi
	rr=$(printf '%02d' "$racks")
	last=$(printf 'leaf%03d' $((leaves - 1)))
	last_name=$(printf 'leaf-g%02d-rail3' $((leaves / 4 - 1)))
	last_spine=$(printf 'spine%02d' $((spines - 1)))
}

# uplink LEAFNODE SPINE NTH: the end of that cable at the leaf.
uplink() { echo "$1:$((73 + $2 * links + $3))"; }

clean() {
	discover "$1" || return
	"$racksh" ib import fabric.txt >out 2>err && "$racksh" -o json ib check >found 2>err && [ "$(jq length found)" = 0 ] && ok && return
	not_ok "the fabric as designed is not clean" out err found
}

# faults: name | edits of the net file | the finding against the design: kind, object | kind of the change since accepted, - none
faults() {
	cat <<-END
		a missing HCA|cut r${rr}t07h2:1|missing-hca|r$rr-t07 rail 2|lost
		crossed rails of a tray|swap r${rr}t02h0:1 r${rr}t02h1:1|crossed|r$rr-t02 rail 0, r$rr-t02 rail 1|crossed
		crossed trays of a rack|swap r${rr}t05h3:1 r${rr}t06h3:1|crossed|r$rr-t05 rail 3, r$rr-t06 rail 3|crossed
		an HCA on a spine|move r01t01h0:1 $last_spine:1|level|r01-t01 rail 0|moved
		a missing uplink|cut $(uplink "$last" $((spines - 1)) 0)|uplinks|$last_name to $last_spine|lost
		crossed uplinks|swap $(uplink leaf000 0 0) $(uplink leaf001 1 0)|uplinks|leaf-g00-rail0 to spine00|crossed
		a cable from leaf to leaf|move $(uplink leaf000 1 0) $(uplink leaf001 1 0)|level|leaf-g00-rail0 port $((73 + links))|moved
		lost lanes|rate r${rr}t04h0:1 w=1|width|r$rr-t04 rail 0|slower
		a slow HCA|rate r${rr}t04h1:1 e=3|speed|r$rr-t04 rail 1|slower
		a slow uplink|rate $(uplink leaf001 1 $((links - 1))) e=3|speed|leaf-g00-rail1 port $((72 + 2 * links))|slower
		a stranger|add backup01 0x1070fd0300176374 backup01 mlx5_0 $(uplink leaf000 0 0)|extra|backup01 mlx5_0|new
		a GUID that two HCAs carry|guid r${rr}t01h0 0x5000e603$(printf '%04x' "$racks")0200|missing-hca|r$rr-t01 rail 0|lost
	END
}

fault() { # NAME EDITS KIND OBJECT CHANGE
	awk -v edits="$2" -f "$here/rewire.awk" net >net.bad || { not_ok "$1: cannot be planted"; return; }
	discover net.bad || return
	"$racksh" ib import fabric.txt >out 2>err || { not_ok "$1: import" err; return; }
	"$racksh" -o json ib check >found 2>err
	[ "$?" -eq 7 ] || { not_ok "$1: exit code is not 7" found err; return; }
	jq -r '.[] | "\(.kind) \(.object): \(.message)"' found >lines
	[ -z "${SHOW-}" ] || { echo "$racks: $1"; sed 's/^/    /' lines; }
	grep -qF "$3 $4: " lines || { not_ok "$1: no finding \"$3 $4\"" lines; return; }
	grep -q "^$5 .*accepted" lines || { not_ok "$1: no \"$5\" since accepted" lines; return; }
	[ "$(wc -l <lines)" -le 7 ] || { not_ok "$1: findings about the rest of the fabric" lines; return; }
	ok
}

for racks in ${RACKS:-1 8 64}; do
	shape
	awk -v racks="$racks" -v trays=18 -f "$here/netfile.awk" >net
	rm -f site.db*
	site
	"$racksh" site import site.json >out 2>err || { not_ok "site import" err; continue; }
	clean net
	while IFS='|' read -r name edits kind object change; do
		fault "$name" "$edits" "$kind" "$object" "$change"
	done < <(faults)
	clean net
done
echo "wiring check on ibsim: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
