# shellcheck shell=bash
# Breaking parts, mending them, and looking for what somebody left behind. All of it on the parts themselves.

uuid_of() { printf '%u' "$(fabric_guid "$1" "$2")"; }

# gpu_partition TRAYNUMBER GPUINDEX: its partition as the switch shows it; nothing when it is in none.
gpu_partition() {
	local id uuid
	uuid=$(uuid_of "$1" "$2")
	for id in $(nv show sdn partition -o json | jq -r 'keys[]'); do
		if nv show sdn partition "$id" -o json | grep -q "\"$uuid\""; then
			echo "$id"
		fi
	done
}

gpu_is_in() { [ "$(gpu_partition "$1" "$2")" = "$3" ]; }

gpu_leave() {
	local at
	at=$(gpu_partition "$1" "$2")
	[ -n "$at" ] || return 0
	nv action restore sdn partition "$at" uuid "$(uuid_of "$1" "$2")" >/dev/null && wait_for 10 "the GPU to leave" gpu_is_in "$1" "$2" ''
}

gpu_return() {
	gpu_is_in "$1" "$2" "$3" && return
	wait_for 10 "the switch to take the GPU" nv action update sdn partition "$3" uuid "$(uuid_of "$1" "$2")" >/dev/null &&
		wait_for 10 "the GPU to return" gpu_is_in "$1" "$2" "$3"
}

port_is_down() { ! port_is_active "$1" "$2"; }

unlink_port() {
	console "Unlink \"$(hca_node "$1" "$2")\"[1]"
	wait_for 10 "the link to go down" port_is_down "$1" "$2"
}

relink_port() {
	console "ReLink \"$(hca_node "$1" "$2")\"[1]"
	wait_for 30 "OpenSM to bring the port back" port_is_back "$1" "$2"
}

gpu_off() { mkdir -p "$RUN/hw/off" && : >"$RUN/hw/off/$1.$2"; }

check_index() { [[ $2 =~ ^[0-3]$ ]] || die "$1 is 0 to 3, not \"$2\""; }

fault() {
	local kind=${2-} tray
	open_lab "$1"
	tray=$(tray_number "${3-}") || exit
	check_index "the index" "${4-}"
	case $kind in
	gpu-leave) gpu_leave "$tray" "$4" ;;
	gpu-off) gpu_off "$tray" "$4" ;;
	unlink) unlink_port "$tray" "$4" ;;
	*) die "no such fault: $kind" ;;
	esac
}

heal() {
	local kind=${2-} tray
	open_lab "$1"
	tray=$(tray_number "${3-}") || exit
	check_index "the index" "${4-}"
	case $kind in
	gpu-leave) gpu_return "$tray" "$4" "${5:?the partition}" ;;
	gpu-off) rm -f "$RUN/hw/off/$tray.$4" ;;
	relink) relink_port "$tray" "$4" ;;
	*) die "cannot heal: $kind" ;;
	esac
}

# ---- leftovers ----

left_on_tray() {
	on_tray "$1" list --all --name | sed "/^$/d; s/^/$2: domain /"
	on_tray "$1" pool-refresh default >/dev/null
	on_tray "$1" vol-list default | awk -v tray="$2" '$1 != "lab-linux.qcow2" && NF { print tray ": volume " $1 }'
}

left_on_trays() {
	local n
	for ((n = 1; n <= LIVE_TRAYS + 1; n++)); do
		left_on_tray "$n" "$(tray_name "$n")"
	done
}

left_on_switch() {
	local tray gpu held
	held=$(nv show sdn partition 32766 -o json | jq -r '.locations[].uuid')
	for ((tray = 1; tray <= ALL_TRAYS; tray++)); do
		for gpu in 0 1 2 3; do
			grep -qx "$(uuid_of "$tray" "$gpu")" <<<"$held" || echo "$(tray_name "$tray"): GPU $gpu is not in the default partition"
		done
	done
	nv show sdn partition -o json | jq -r 'to_entries[] | select(.key != "32766") | "switch: partition \(.key) \(.value.name)"'
}

left_at_port() {
	local key keys
	keys=$(held_pkeys "$1" "$2") || { echo "$(tray_name "$1") rail $2: PKeys cannot be read"; return; }
	for key in $keys; do
		case $key in
		0x7fff | 0xffff) ;;
		*) echo "$(tray_name "$1") rail $2: PKey $key" ;;
		esac
	done
}

left_on_fabric() {
	local tray rail
	for ((tray = 1; tray <= ALL_TRAYS; tray++)); do
		for rail in 0 1 2 3; do
			left_at_port "$tray" "$rail"
		done
	done
}

leftovers() {
	local found
	open_lab "$1"
	found=$(left_on_trays; left_on_switch; left_on_fabric)
	[ -z "$found" ] || { printf '%s\n' "$found"; return 1; }
}
