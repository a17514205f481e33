# shellcheck shell=bash
# Hosts of the trays, reached over SSH: sshd with an address per tray. Commands run here, as the lab's user; what they are told of hardware
# comes from simhw (nvidia-smi) and from a /sys of the tray's own (InfiniBand ports, drives, serial number).

HCA_PCI=(0000:03:00.0 0002:03:00.0 0010:03:00.0 0012:03:00.0)

host_address() { printf '%s.%d' "$NET" "$((100 + $1))"; }

# GID 0 of a port: the link-local prefix and its GUID.
port_gid() { port_guid "$1" "$2" | sed 's/^0x\(....\)\(....\)\(....\)\(....\)$/fe80:0000:0000:0000:\1:\2:\3:\4/'; }

host_port() {
	local class=$1/class/infiniband/mlx5_$3 pci=$1/devices/${HCA_PCI[$3]}
	mkdir -p "$class/ports/1/gids" "$pci"
	ln -s "$(realpath --relative-to="$class" "$pci")" "$class/device"
	port_gid "$2" "$3" >"$class/ports/1/gids/0"
	echo InfiniBand >"$class/ports/1/link_layer"
	echo '4: ACTIVE' >"$class/ports/1/state"
	echo 40.45.1020 >"$class/fw_ver"
}

host_sys() {
	local rail sys=$RUN/hosts/$1
	for rail in 0 1 2 3; do
		host_port "$sys" "$1" "$rail"
	done
	mkdir -p "$sys/class/dmi/id"
	printf 'LAB%04d\n' "$1" >"$sys/class/dmi/id/product_serial"
}

# What answers as nvidia-smi on a host: the tray's hardware, as for its guest.
host_tools() {
	mkdir -p "$RUN/hosts/bin"
	cat >"$RUN/hosts/bin/nvidia-smi" <<-END
		#!/bin/bash
		exec 3<>"/dev/tcp/127.0.0.1/\$(cat $RUN/hw/port)"
		printf '%s nvidia-smi %s\n' "\$LAB_TRAY" "\$*" >&3
		read -r status stream <&3 || exit 255
		cat <&3 >&"\$stream"
		exit "\$status"
	END
	cat >"$RUN/hosts/shell" <<-END
		#!/bin/bash
		read -r _ _ address _ <<<"\$SSH_CONNECTION"
		number=\$((\${address##*.} - 100))
		export PATH=$RUN/hosts/bin:\$PATH LAB_TRAY=\$(printf '$RACK-t%02d' "\$number")
		exec /bin/bash -c "\${SSH_ORIGINAL_COMMAND//\\/sys\\//$RUN/hosts/\$number/}"
	END
	chmod 755 "$RUN/hosts/bin/nvidia-smi" "$RUN/hosts/shell"
}

# One sshd listens on 16 addresses at most: each of two has half of the trays.
start_hosts() {
	local n addresses=()
	mkdir "$RUN/hosts"
	host_tools
	for ((n = 1; n <= ALL_TRAYS; n++)); do
		host_sys "$n"
		addresses+=("$(host_address "$n")")
	done
	start_sshd hosts-1 "${addresses[*]:0:9}" "$RUN/hosts/shell" && start_sshd hosts-2 "${addresses[*]:9}" "$RUN/hosts/shell"
}
