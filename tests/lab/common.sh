# shellcheck shell=bash
# Folders, processes and waiting. A lab has two folders: DIR, named by the user, and RUN below /tmp with a short name (socket paths are
# short) that every account of the lab can read. DIR/run holds RUN's name; DIR/pids and RUN/qemu.pids hold every process.

RACK=r01
ALL_TRAYS=18
LIVE_TRAYS=${RACKSH_LAB_TRAYS:-6}
SSH_PORT=2222

die() { printf 'lab: %s\n' "$*" >&2; exit 1; }

# open_lab DIR: sets DIR, RUN and NET of a lab that is up.
open_lab() {
	DIR=$1
	[ -r "$DIR/run" ] && RUN=$(cat "$DIR/run") && [ -r "$RUN/net" ] && NET=$(cat "$RUN/net") || die "no lab is up in $DIR"
}

# Started by root, the parts still run without privileges.
set_account() {
	AS=()
	[ "$(id -u)" -ne 0 ] || AS=(setpriv --reuid=nobody --regid="$(id -gn nobody)" --clear-groups --inh-caps=-all)
}

# start NAME COMMAND...: a daemon of the lab, in DIR/pids before it runs. Its output goes to RUN/log/NAME; its input is $INPUT.
start() {
	local name=$1
	shift
	# shellcheck disable=SC2016 # expanded by the started shell
	setsid sh -c 'pids=$1 name=$2; shift 2
		read -r stat <"/proc/$$/stat"; echo "$$ $(echo "$stat" | cut -d " " -f 22) $name" >>"$pids"; exec "$@"' \
		sh "$DIR/pids" "$name" "$@" <>"${INPUT:-/dev/null}" >>"$RUN/log/$name" 2>&1 &
}

# start_as NAME COMMAND...: the same under the lab's account.
start_as() {
	local name=$1
	shift
	start "$name" "${AS[@]}" "$@"
}

# wait_for SECONDS WHAT COMMAND...: until the command succeeds.
wait_for() {
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" 2>/dev/null; do
		[ "$SECONDS" -lt "$end" ] || { printf 'lab: waited in vain for %s\n' "$what" >&2; return 1; }
		sleep 0.05
	done
}

# alive_of FILE...: pids of these lists that still are the same processes.
alive_of() {
	local pid started rest stat
	cat "$@" 2>/dev/null | while read -r pid started rest; do
		stat=$(cut -d ' ' -f 22 "/proc/$pid/stat" 2>/dev/null) || continue
		[ "$stat" = "$started" ] || stat=$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -d ' ' -f 20)
		[ "$stat" = "$started" ] && echo "$pid"
	done
}

# with_children PID...: these and everything below them.
with_children() {
	local parents=("$@") next
	while [ "${#parents[@]}" -gt 0 ]; do
		printf '%s\n' "${parents[@]}"
		mapfile -t next < <(ps -o pid= --ppid "$(IFS=,; echo "${parents[*]}")" | tr -d ' ')
		parents=("${next[@]}")
	done
}

# Guests as libvirt notes them, in case one was not noted when it started.
guests_of_libvirt() {
	local file pid
	for file in "$RUN"/*/run/libvirt/qemu/run/*.pid; do
		[ -r "$file" ] && pid=$(cat "$file") && grep -qsF "$RUN/" "/proc/$pid/cmdline" && echo "$pid"
	done
}

lab_processes() {
	local pids
	[ -n "$RUN" ] || return 0
	mapfile -t pids < <(alive_of "$DIR/pids" "$RUN/qemu.pids"; guests_of_libvirt)
	[ "${#pids[@]}" -eq 0 ] || with_children "${pids[@]}"
}

# Asks first, insists after two seconds. Lists are read again each time: a dying libvirt may still start something.
stop_processes() {
	local round signal=TERM pids
	for round in {1..100}; do
		mapfile -t pids < <(lab_processes)
		[ "${#pids[@]}" -gt 0 ] || return 0
		[ "$round" -lt 20 ] || signal=KILL
		[ $((round % 10)) -ne 1 ] && [ "$signal" = TERM ] || kill -"$signal" "${pids[@]}" 2>/dev/null
		sleep 0.1
	done
	printf 'lab: still running: %s\n' "${pids[*]}" >&2
	return 1
}

down() {
	DIR=$1 RUN=
	[ ! -e "$DIR/run" ] || RUN=$(cat "$DIR/run")
	stop_processes || return
	if [[ $RUN == /tmp/rlab.?????? ]]; then
		rm -f "$DIR/log" "$DIR/sm" "$DIR/sm2" "$DIR/nvsw"
		[ ! -d "$RUN/log" ] || cp -rT "$RUN/log" "$DIR/log"
		rm -rf "$RUN"
	fi
	rm -f "$DIR/run" "$DIR/pids"
}

# make_folders DIR
make_folders() {
	mkdir -p "$1" || return
	DIR=$(realpath "$1")
	[ ! -e "$DIR/run" ] || die "a lab is up in $DIR, or was not taken down: lab down $DIR"
	RUN=/tmp/rlab.$(head -c 64 /dev/urandom | base64 -w 0 | tr -dc 'a-zA-Z0-9' | cut -c 1-6)
	echo "$RUN" >"$DIR/run"
	rm -rf "$DIR/log"
	mkdir "$RUN" && chmod 755 "$RUN" && mkdir "$RUN"/{bin,log,hw,hw/addr,hw/imex,nvsw,ib,sm,sm/bin,ssh,image,s} || return
	cp -r "$LAB_HOME/share" "$RUN/"
	install "$LAB_BIN"/* "$RUN/bin/"
	install -m 644 "$LAB_IMAGE"/{vmlinux,initrd.img,lab-linux.qcow2} "$RUN/image/"
	tr -d '\n' </proc/sys/kernel/random/uuid >"$RUN/cluster-uuid"
	ln -sfn "$RUN/sm" "$DIR/sm"
	ln -sfn "$RUN/nvsw" "$DIR/nvsw"
	ln -sfn "$RUN/log" "$DIR/log"
	own "$RUN" "$RUN"/{log,hw,hw/addr,hw/imex,ib,sm}
}

# own PATH...: gives them to the lab's account.
own() { [ "${#AS[@]}" -eq 0 ] || chown nobody: "$@"; }

tray_name() { printf '%s-t%02d' "$RACK" "$((10#$1))"; }

# tray_number r01-t03: 3
tray_number() {
	[[ $1 =~ ^$RACK-t([0-9]{2})$ ]] && [ "$((10#${BASH_REMATCH[1]}))" -ge 1 ] && [ "$((10#${BASH_REMATCH[1]}))" -le "$ALL_TRAYS" ] || die "no such tray: $1"
	echo "$((10#${BASH_REMATCH[1]}))"
}

# fabric_guid TRAYNUMBER GPUINDEX, port_guid TRAYNUMBER RAIL
fabric_guid() { printf '0x4c8d00010001%02x%02x' "$1" "$(($2 + 1))"; }
port_guid() { printf '0x5000e6030001%02x%01x1' "$1" "$2"; }
