#!/usr/bin/env bash
# What `ib lint` says of a partitions file is what OpenSM makes of it: every case goes through racksh and, in a simulated fabric of three ports,
# through the real opensm; the P_Key tables that come out must be those that racksh says. Needs ibsim and opensm; no lab, no privileges.
# usage: lint-vs-opensm.sh [RACKSH [FILES [SEED]]]; FILES: so many random files after the cases, the same ones for the same SEED.
set -u
cd "$(dirname "$0")/../.." || exit 1
racksh=$(realpath "${1:-${RACKSH:-build/racksh}}") || exit 1
PATH=$PATH:/usr/sbin:/sbin
umad2sim=$(find /usr/lib /usr/lib64 /usr/local/lib -name libumad2sim.so 2>/dev/null | head -n 1)
if [ -z "$umad2sim" ] || ! command -v ibsim opensm smpquery >/dev/null; then
	echo "skipped: ibsim, opensm or infiniband-diags is not installed"
	exit 0
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/racksh-lint.XXXXXX") || exit 1
pid=
finish() {
	[ -z "$pid" ] || kill "$pid" 2>/dev/null
	rm -rf "$work"
}
trap finish EXIT
cd "$work" || exit 1
failed=0 passed=0

# Three HCAs on one switch; the subnet manager runs on the first.
P1=0x5000e60300010001 P2=0x5000e60300020001 P3=0x5000e60300030001
{
	for i in 1 2 3; do
		printf 'vendid=0x2c9\ndevid=0x1023\ncaguid=0x5000e603000%d0000\nCa\t1 "h%d"\t\t# "h%d"\n[1]\t"sw"[%d]\n\n' $i $i $i $i
	done
	printf 'vendid=0x2c9\ndevid=0xd2f4\nswitchguid=0x5000e604000a0000\nSwitch\t8 "sw"\t\t# "sw" enhanced port 0\n[1]\t"h1"[1]\n[2]\t"h2"[1]\n[3]\t"h3"[1]\n\n'
} >net

simulated() { # NODE TOOL ARG...
	local node=$1
	shift
	env LD_PRELOAD="$umad2sim" IBSIM_SOCKNAME="lint$$" SIM_HOST="$node" OSM_TMP_DIR="$work" OSM_CACHE_DIR="$work" timeout 30 "$@" </dev/null
}

# The words of a port's table, sorted.
table_of() { simulated "$1" smpquery -D pkeys 0 2>/dev/null | sed -n 's/^ *[0-9]*: *//p' | tr ' ' '\n' | grep -i -e '^0x' | grep -v 0x0000 | sort -u | tr '\n' ' '; }

really() { # FILE
	local try
	rm -f opensm.log
	IBSIM_SOCKNAME=lint$$ ibsim -s -n net >ibsim.log 2>&1 &
	pid=$!
	for try in {1..100}; do
		grep -q "@lint$$:ctl" /proc/net/unix && break
		sleep 0.05
	done
	simulated h1 opensm -o -P "$work/$1" -f "$work/opensm.log" >opensm.out 2>&1
	for try in h1 h2 h3; do table_of $try; echo; done
	kill "$pid"
	wait "$pid" 2>/dev/null
	pid=
}

# What the JSON of `ib lint` says the tables will be: the last word for a port wins.
predicted() {
	"$racksh" -o json ib lint "$1" 2>/dev/null | tee lint.json | awk -v p1=$P1 -v p2=$P2 -v p3=$P3 '
		function matches(who, port) { return (who "") == (port "") || who == "ALL" || who == "ALL_CAS" || (who == "SELF" && port == p1) }
		function table(port,    i, n, parts, members, m, k, key, word, field, line) {
			n = split(text, parts, "{\"pkey\":\"")
			line = ""
			for (i = 2; i <= n; i++) {
				key = substr(parts[i], 1, 6)
				word = ""
				m = split(parts[i], members, "{\"port\":\"")
				for (k = 2; k <= m; k++) {
					split(members[k], field, "\"")
					if (matches(field[1], port))
						word = field[5]
				}
				if (word == "full")
					line = line sprintf("0x%x%s\n", index("01234567", substr(key, 3, 1)) + 7, substr(key, 4))
				else if (word != "")
					line = line key "\n"
			}
			return line
		}
		{ text = text $0 }
		END {
			at = index(text, "\"partitions\":")
			open = index(text, "\"rejected\":true")
			text = substr(text, at)
			for (i = 1; i <= 3; i++) {
				line = open ? "0xffff" : table(i == 1 ? p1 : i == 2 ? p2 : p3)
				cmd = "sort -u | tr \"\\n\" \" \"; echo"
				printf "%s", line (line ~ /\n$/ ? "" : "\n") | cmd
				close(cmd)
			}
		}'
}

# try NAME TEXT: the text as printf reads it, with $P1..$P3 replaced.
try() {
	local text=${2//P1/$P1}
	text=${text//P2/$P2}
	# shellcheck disable=SC2059 # the text is the format: it holds \n and \t
	printf "${text//P3/$P3}" >"case.conf"
	compare "$1"
}

compare() { # NAME: of case.conf
	predicted case.conf >said
	really case.conf >made
	if cmp -s said made; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'not ok: %s\n' "$1"
		sed 's/^/  file   /' case.conf | cat -A
		paste -d '|' said made | sed 's/|/   OpenSM: /; s/^/  racksh: /'
		grep -h -e PARSE -e 'in error' opensm.out opensm.log | sort -u | sed 's/^/  /'
		grep -o '"message":"[^}]*' lint.json | sed 's/^/  /'
	fi
}

S='Default=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;\n'
try 'good' "${S}tA=0x10, defmember=full : P1,P2 ;\ntB=0x20 : P3=full ;\n"
try 'no default rule' 'tA=0x10, defmember=full : P2,P3 ;\n'
try 'default by name alone' 'Default : ALL=limited, SELF=full ;\ntA=0x10 : P2 ;\n'
try 'empty file' ''
try 'only comments' '# nothing\n\n# here\n'
try 'garbage' "${S}garbage\n"
try 'missing semicolon before a definition' "${S}tA=0x10 : P2=full\ntB=0x20 : P3=full ;\n"
try 'lone semicolon' "${S};\n"
try 'semicolon twice' "${S}tA=0x10 : P2=full ;;\n"
try 'bad digit in a GUID' "${S}tA=0x10 : 0x12g4 ;\n"
try 'GUID without 0x' "${S}tA=0x10 : 5000e60300020001 ;\n"
try 'decimal number as GUID' "${S}tA=0x10 : 12345678, P2=full ;\n"
try 'GUID with colons' "${S}tA=0x10 : 50:00:e6:03:00:02:00:01 ;\n"
try 'lower case all' "${S}tA=0x10 : all ;\n"
try 'carriage returns' "Default=0x7fff : ALL=limited, SELF=full ;\r\ntA=0x10 : P2 ;\r\n"
try 'header over two lines' "${S}tA=0x10,\ndefmember=full : P2 ;\n"
try 'list over lines' "${S}tA=0x10, defmember=full : P2,\n  P3\n ;\n"
try 'list over lines without comma' "${S}tA=0x10 : P2=full\nP3=full ;\n"
try 'one key twice, one name' "${S}tA=0x10 : P2=full ;\ntA=0x10 : P3=full ;\n"
try 'one key twice, two names' "${S}tA=0x10 : P2=full ;\ntB=0x10 : P3=full ;\n"
try 'membership bit in a key' "${S}tA=0x8010 : P2=full ;\ntB=0x10 : P3=full ;\n"
try 'key of more than 16 bits' "${S}tA=0x10010 : P2=full ;\n"
try 'key 0' "${S}tA=0x0 : P2=full ;\n"
try 'key 0x8000' "${S}tA=0x8000 : P2=full ;\n"
try 'no key' "${S}tA : P2=full ;\n"
try 'generated and explicit key meet' "${S}tA : P2=full ;\ntB=0x1 : P3=full ;\n"
try 'two generated keys' "${S}tA : P2=full ;\ntB : P3=full ;\n"
try 'key of an earlier definition of the name' "${S}tA=0x10 : P2=full ;\ntA : P3=full ;\n"
try 'two earlier definitions of the name' "${S}tA=0x120 : P2=full ;\ntA=0x30 : P1=full ;\ntA : P3=full ;\n"
try 'key 0 and an earlier definition of the name' "${S}tA=0x10 : P2=full ;\ntA=0x0 : P3=full ;\n"
try 'key 0 for the default' "${S}Default=0 : P3=full ;\n"
try 'empty key' "${S}tA= : P2=full ;\n"
try 'octal key' "${S}tA=010 : P2=full ;\n"
try 'negative key' "${S}tA=-1 : P2=full ;\n"
try 'key that is no number' "${S}tA=0x10g : P2=full ;\n"
try 'default key for a tenant' "${S}tA=0x7fff : P2=full ;\n"
try 'name that begins with a digit' "${S}16, defmember=full : P2 ;\n"
try 'digits and a key' "${S}9a=0x10 : P2=full ;\n"
try 'misspelt flag' "${S}tA=0x10, defmembr=full : P2 ;\n"
try 'membership in capitals' "${S}tA=0x10, defmember=Full : P2, P3=FULL ;\n"
try 'abbreviated flag' "${S}tA=0x10, def=full : P2 ;\n"
try 'abbreviated membership' "${S}tA=0x10 : P2=f, P3=l ;\n"
try 'abbreviated ALL' "${S}tA=0x10, defmember=full : A ;\n"
try 'abbreviated SELF' "${S}tA=0x10, defmember=full : S ;\n"
try 'ALL_CAS' "${S}tA=0x10, defmember=full : ALL_CAS ;\n"
try 'ALL_SWITCHES' "${S}tA=0x10, defmember=full : ALL_SWITCHES ;\n"
try 'both' "${S}tA=0x10, defmember=both : P2, P3=both ;\n"
try 'missing comma' "${S}tA=0x10 : P2=full P3=full ;\n"
try 'missing comma, no membership' "${S}tA=0x10 : P2 P3 ;\n"
try 'later word wins, limited' "${S}tA=0x10 : P2=full, P2=limited ;\n"
try 'later word wins, full' "${S}tA=0x10 : P2=limited, P2=full ;\n"
try 'ALL after one' "${S}tA=0x10 : P2=full, ALL=limited ;\n"
try 'default in the wrong order' 'Default=0x7fff : SELF=full, ALL=limited ;\ntA=0x10 : P2=full ;\n'
try 'everybody full' 'Default=0x7fff : ALL=full ;\n'
try 'default of nobody' 'Default=0x7fff : ;\n'
try 'unknown GUID' "${S}tA=0x10, defmember=full : 0x5000e603000f0001, P2 ;\n"
try 'node GUID' "${S}tA=0x10, defmember=full : 0x5000e60300020000 ;\n"
try 'index 0' "${S}tA=0x10, indx0, defmember=full : P2 ;\n"
try 'flags of IPoIB' "${S}tA=0x10, ipoib, rate=3, mtu=4, sl=0, scope=2, defmember=full : P2 ;\n"
try 'bad flag values' "${S}tA=0x10, ipoib, rate=x, sl=99, defmember=full : P2 ;\n"
try 'comment at the end' "${S}tA=0x10, defmember=full : P2 ; # P3 ;\n"
try 'comment inside' "${S}tA=0x10, defmember=full : P2, # P3,\n P3 ;\n"
try 'two definitions on a line' "${S}tA=0x10 : P2=full ; tB=0x20 : P3=full ;\n"
try 'no end of line' "${S}tA=0x10 : P2=full ;"
try 'no semicolon at the end' "${S}tA=0x10 : P2=full\n"
try 'blanks and tabs' "${S}\ttA = 0x10 , defmember = full :  P2 ,\tP3=limited ;  \n"
try 'byte order mark' "\xef\xbb\xbf${S}tA=0x10 : P2=full ;\n"
try 'name with blanks' "${S}my tenant=0x10 : P2=full ;\n"
try 'name with a colon' "${S}a:b=0x10 : P2=full ;\n"
try 'upper case 0X' "${S}tA=0X10 : 0X5000E60300020001=full ;\n"
try 'NUL byte' "${S}tA=0x10 : P2=full \x00, P3=full ;\n"
try 'multicast group' "${S}tA=0x10, ipoib : mgid=ff12:401b::0707, P2=full\nP3=full ;\n"
try 'empty members' "${S}tA=0x10 : ;\ntB=0x20 : ,,P2=full,, ;\n"
try 'NONE' "${S}tA=0x10 : NONE, P2=full ;\n"
try 'long line' "${S}tA=0x10, defmember=full : $(printf '0x5000e603000f%04x,' {1..210}) P2 ;\n"
try 'long comment' "${S}# $(printf 'x%.0s' {1..4080}) tZ=0x66, defmember=full : ALL ;\ntA=0x10 : P2=full ;\n"

# ---- random files: good pieces, and now and then a bad one ---------------------------------------------------------------------

# one_of WORD...: sets `word`; `bad` is how many of 100 pieces are wrong.
one_of() { word=${*:RANDOM % $# + 1:1}; }
wrong() { [ $((RANDOM % 100)) -lt "$bad" ]; }

random_member() {
	local who
	if wrong; then one_of 0x1 0x 5000e60300020001 al ALLX NONE S ''; else one_of P1 P2 P3 P1 P2 P3 ALL SELF ALL_CAS ALL_SWITCHES 0x5000e603000f0001; fi
	who=$word
	if wrong; then one_of "=" =fullx =Full "=full=limited" =l; else one_of '' '' '' =full =limited =both ' = full'; fi
	text+=$who$word
}

random_definition() {
	local left
	if wrong; then one_of '' 1x 'my t' default a:b; else one_of tA tB tC tA Default; fi
	text+=$word
	if wrong; then one_of '' "=" =0 =0x10010 =0x2g =010 =-1; else one_of '=0x10' =0x20 =0x130 =0x10 =0x8010 ' = 0x30' =0x7fff; fi
	text+=$word
	for ((left = RANDOM % 3; left > 0; left--)); do
		if wrong; then one_of defmember foo sl=16 mtu mgid=ff12:401b::0707 def=full; else one_of defmember=full defmember=limited ipoib rate=3 indx0 scope=2; fi
		text+=", $word"
	done
	if wrong; then one_of '' ' : :'; else one_of ' : '; fi
	text+=$word
	for ((left = RANDOM % 4; left >= 0; left--)); do
		random_member
		[ "$left" -eq 0 ] || if wrong; then one_of ' ' ',,' '\n'; else one_of , ', ' ',\n'; fi
		[ "$left" -eq 0 ] || text+=$word
	done
	if wrong; then one_of '' ';;'; else one_of ';'; fi
	text+=$word
	if wrong; then one_of '\r\n' ''; else one_of '\n' '\n' ' # ; x\n' '\n\n'; fi
	text+=$word
}

files=${2:-0} seed=${3:-1}
for ((n = seed; n < seed + files; n++)); do
	RANDOM=$n
	one_of 0 0 2 6
	bad=$word text=
	one_of '' "$S" "$S" 'Default=0x7fff : ALL=full ;\n' 'Default : ALL=limited ;\n'
	text=$word
	for ((definitions = RANDOM % 4; definitions >= 0; definitions--)); do random_definition; done
	try "random file $n" "$text"
done

echo "lint against opensm: $passed agree, $failed do not"
[ "$failed" -eq 0 ]
