# shellcheck shell=bash
# What is reached over SSH: the host of the subnet manager and the NVLink switch. Real sshd, each with an address of its own.

SM_TOOLS=(smpquery saquery ibnetdiscover iblinkinfo perfquery sminfo ibstat ibqueryerrors ibportstate ibhosts ibswitches racksh-ib-pkeys)

make_keys() {
	ssh-keygen -q -t ed25519 -N '' -C lab -f "$RUN/ssh/id_ed25519" || return
	install -m 600 "$RUN/ssh/id_ed25519" "$DIR/id_ed25519"
	install -m 644 "$RUN/ssh/id_ed25519.pub" "$DIR/id_ed25519.pub"
	mv "$RUN/ssh/id_ed25519.pub" "$RUN/ssh/authorized_keys"
	rm "$RUN/ssh/id_ed25519"
	: >"$DIR/known_hosts"
}

# An account with a locked password is let in by PAM only.
use_pam() {
	if [ "$(id -u)" -eq 0 ] && getent shadow "$(id -un)" | cut -d : -f 2 | grep -q '^!'; then echo yes; else echo no; fi
}

# start_sshd NAME ADDRESSES COMMAND [BANNER]: ADDRESSES is one word, divided by blanks.
start_sshd() {
	local address
	ssh-keygen -q -t ed25519 -N '' -C "$1" -f "$RUN/ssh/$1" || return
	for address in $2; do
		printf '[%s]:%d %s\n' "$address" "$SSH_PORT" "$(cut -d ' ' -f 1,2 "$RUN/ssh/$1.pub")" >>"$DIR/known_hosts"
		printf 'ListenAddress %s:%d\n' "$address" "$SSH_PORT"
	done >"$RUN/ssh/$1.conf"
	cat >>"$RUN/ssh/$1.conf" <<-END
		HostKey $RUN/ssh/$1
		AuthorizedKeysFile $RUN/ssh/authorized_keys
		PidFile none
		UsePAM $(use_pam)
		PermitRootLogin prohibit-password
		PasswordAuthentication no
		KbdInteractiveAuthentication no
		StrictModes no
		PrintMotd no
		PrintLastLog no
		AllowTcpForwarding no
		X11Forwarding no
		MaxStartups 200
		MaxSessions 100
		UseDNS no
		Banner ${4:-none}
		ForceCommand $3
	END
	start "sshd-$1" /usr/sbin/sshd -D -e -f "$RUN/ssh/$1.conf"
}

# sm_shell FOLDER NODE: a plain shell in which the InfiniBand tools work on a node of the simulated fabric.
sm_shell() {
	local tool
	for tool in "${SM_TOOLS[@]}"; do
		ln -s ../../bin/ibrun "$1/bin/$tool"
	done
	cat >"$1/shell" <<-END
		#!/bin/sh
		export PATH=$1/bin:\$PATH:/usr/sbin:/sbin LAB_IB=$RUN/ib IBSIM_SOCKNAME=$(basename "$RUN") SIM_HOST=$2
		cd $1
		[ -n "\$SSH_ORIGINAL_COMMAND" ] || exec "\${SHELL:-/bin/sh}"
		exec "\${SHELL:-/bin/sh}" -c "\$SSH_ORIGINAL_COMMAND"
	END
	chmod 755 "$1/shell"
}

# Every GPU in the default partition, as after bring-up. Locations are chassis.slot.host.module.
switch_state() {
	local tray gpu slot modules=(2 1 4 3)
	echo "part 32766 1024 adaptive_bandwidth 0 0 Default Partition"
	for ((tray = 1; tray <= ALL_TRAYS; tray++)); do
		slot=$((tray <= 8 ? tray : tray + 9))
		for gpu in 0 1 2 3; do
			echo "gpu $(fabric_guid "$tray" "$gpu") 1.$slot.1.${modules[gpu]} 32766 32766 0 0"
		done
	done
}

# nv WORD...: the switch's command line, from here.
nv() { "$RUN/bin/nv-simulated" "$RUN/nvsw" nv "$@"; }

start_managers() {
	[ "$(id -u)" -ne 0 ] || mkdir -p -m 755 /run/sshd
	sm_shell "$RUN/sm" "$SM_NODE"
	switch_state >"$RUN/nvsw/partitions"
	echo "NVOS switch" >"$RUN/ssh/banner"
	start_sshd sm "$NET.250" "$RUN/sm/shell" && start_sshd nvsw "$NET.251" "$RUN/bin/nv-simulated $RUN/nvsw" "$RUN/ssh/banner" && start_hosts
}

listens() { (exec 3<>"/dev/tcp/$1/$SSH_PORT"); }

managers_are_up() {
	wait_for 10 "the host of the subnet manager" listens "$NET.250" && wait_for 10 "the NVLink switch" listens "$NET.251" &&
		wait_for 10 "the hosts of the trays" listens "$(host_address 1)" && wait_for 10 "the hosts of the other trays" listens "$(host_address "$ALL_TRAYS")"
}
