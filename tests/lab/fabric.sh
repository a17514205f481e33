# shellcheck shell=bash
# The InfiniBand fabric: ibsim, and a real OpenSM. It runs on a managed switch, so no tray's port is its port, and no HCA stands in the
# fabric that the site does not have.
SM_NODE=spine00
STANDBY_NODE=leaf000 # spines do not reach each other

# netfile RACKS: four rails, a two-level fat tree of 144-port switches, four racks to a group of leaves.
netfile() {
	awk -v racks="$1" -v trays="$ALL_TRAYS" -f "$LAB_HOME/netfile.awk"
}

start_fabric() {
	local slot
	SOCK=$(basename "$RUN")
	netfile 1 >"$RUN/ib/net"
	for slot in {0..7}; do
		mkdir -m 777 "$RUN/ib/slot$slot"
	done
	mkfifo -m 600 "$RUN/ib/console"
	own "$RUN/ib/console" "$RUN"/ib/slot*
	INPUT=$RUN/ib/console start_as ibsim env IBSIM_SOCKNAME="$SOCK" ibsim -s "$RUN/ib/net"
	wait_for 10 "the fabric simulator" grep -q "@$SOCK:ctl" /proc/net/unix || return
	start_sm
}

# sm_files FOLDER PRIORITY
sm_files() {
	printf 'Default=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;\n' >"$1/partitions.conf"
	cat >"$1/opensm.conf" <<-END
		partition_config_file $1/partitions.conf
		part_enforce both
		force_log_flush TRUE
		routing_engine ftree,minhop
		sm_priority $2
		sminfo_polling_timeout 500
		polling_retry_number 3
	END
	own "$1"/*.conf
}

start_sm() {
	sm_files "$RUN/sm" 5
	run_sm partitions.conf
}

# run_sm FILE: OpenSM with this partitions file, which lies beside the usual one.
run_sm() {
	run_opensm opensm "$RUN/sm" "$SM_NODE" "$1"
}

# run_opensm NAME FOLDER NODE FILE
run_opensm() {
	SOCK=$(basename "$RUN")
	# shellcheck disable=SC2016 # expanded by the started shell
	start_as "$1" sh -c 'cd "$1" && echo $$ >opensm.pid && umask 022 &&
		exec env LD_PRELOAD="$2" IBSIM_SOCKNAME="$3" SIM_HOST="$4" OSM_TMP_DIR="$1" OSM_CACHE_DIR="$1" \
		opensm -F opensm.conf -P "$1/$5" -f "$1/opensm.log"' sh "$2" "$(umad2sim)" "$SOCK" "$3" "$4"
}

standby_is_up() { grep -qE 'Entering (STANDBY|MASTER) state' "$RUN/sm2/opensm.log"; }

# A second host with a subnet manager of its own, which takes over within seconds when the first one dies.
start_standby() {
	mkdir -p "$RUN/sm2/bin" && own "$RUN/sm2" && ln -sfn "$RUN/sm2" "$DIR/sm2" || return
	sm_files "$RUN/sm2" 0
	sm_shell "$RUN/sm2" "$STANDBY_NODE"
	start_sshd sm2 "$NET.252" "$RUN/sm2/shell" && run_opensm opensm2 "$RUN/sm2" "$STANDBY_NODE" partitions.conf &&
		wait_for 30 "the standby manager" standby_is_up && wait_for 10 "its host" listens "$NET.252"
}

sm_pid() { cat "$RUN/sm/opensm.pid"; }

sm_is_gone() { ! kill -0 "$(sm_pid)"; }

# What happens to subnet managers: it dies, and it or another one with a file of its own takes over.
kill_sm() { kill -9 "$(sm_pid)" && wait_for 10 "OpenSM to die" sm_is_gone; }

take_over() {
	rm -f "$RUN/sm/opensm.log"
	run_sm "${1:-partitions.conf}" && wait_for 60 "the subnet" fabric_is_up
}

fabric_is_up() { grep -q 'SUBNET UP' "$RUN/sm/opensm.log"; }

# on_node NODE TOOL ARG...: an InfiniBand tool on a node of the fabric.
on_node() {
	local node=$1
	shift
	IBSIM_SOCKNAME=$(basename "$RUN") SIM_HOST=$node LAB_IB=$RUN/ib "$RUN/bin/ibrun" "$@"
}

hca_node() { printf '%st%02dh%d' "$RACK" "$1" "$2"; }

console() { printf '%s\n' "$*" >"$RUN/ib/console"; }

# held_pkeys TRAYNUMBER RAIL: the PKeys a port holds, one per line, without holes.
held_pkeys() {
	on_node "$(hca_node "$1" "$2")" smpquery -D pkeys 0 | grep -o '0x[0-9a-f]*' | grep -v 0x0000
}

port_is_active() { on_node "$(hca_node "$1" "$2")" smpquery -D portinfo 0 1 | grep -q '^LinkState:\.*Active'; }

# port_is_back TRAYNUMBER RAIL: active, with every PKey that the partitions file gives it.
port_is_back() {
	local wanted held
	port_is_active "$1" "$2" || return
	held=$(held_pkeys "$1" "$2") || return
	for wanted in $(grep -i "$(port_guid "$1" "$2")" "$RUN/sm/partitions.conf" | sed -n 's/^[^=:]*=\(0x[0-9a-fA-F]*\).*/\1/p'); do
		grep -qix "0x$(printf '%04x' "$((wanted | 0x8000))")" <<<"$held" || grep -qix "0x$(printf '%04x' "$((wanted))")" <<<"$held" || return
	done
}
