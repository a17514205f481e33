#!/usr/bin/env bash
# The lab's own test: one guest made by hand, partitions changed by hand, everything seen from inside the guest. Prints "N passed, M failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
lab=$here/lab
dir=$(mktemp -d /tmp/racksh-lab-selftest.XXXXXX) || exit 1
passed=0 failed=0

end() {
	trap '' EXIT INT TERM
	"$lab" down "$dir" || failed=$((failed + 1))
	rm -rf "$dir"
	printf '%d passed, %d failed\n' "$passed" "$failed"
	exit "$((failed > 0 || passed == 0))" # in a trap, `exit` alone would end with what was before it
}
trap end EXIT
trap 'failed=$((failed + 1)); exit 130' INT TERM

ok() {
	local name=$1
	shift
	if "$@" >"$dir/out" 2>&1; then
		passed=$((passed + 1))
		return 0
	fi
	failed=$((failed + 1))
	printf 'not ok: %s\n' "$name"
	tail -n 20 "$dir/out" | sed 's/^/    /'
	return 1
}

# soon SECONDS COMMAND...
soon() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.1
	done
}

says() { local want=$1; shift; "$@" | grep -q -- "$want"; }
says_not() { ! says "$@"; }

remote() { ssh -q -F none -i "$dir/id_ed25519" -o BatchMode=yes -o IdentitiesOnly=yes -o UserKnownHostsFile="$dir/known_hosts" -o StrictHostKeyChecking=yes -o ConnectTimeout=5 "$@"; }
guest() { remote -p 2222 "root@$net.$guest_at" "$@"; }
sm() { remote -p 2222 "$(id -un)@$net.250" "$@"; }
nvsw() { remote -p 2222 "$(id -un)@$net.251" "$@"; }
virsh_at() { virsh -q -c "qemu+unix:///session?socket=$run/s/$1/libvirt-sock" "${@:2}"; }

user_data() {
	printf '#cloud-config\nssh_keys:\n  ed25519_private: |\n'
	sed 's/^/    /' "$dir/host_key"
	printf 'users:\n  - name: "root"\n    ssh_authorized_keys:\n      - "%s"\n' "$(cat "$dir/id_ed25519.pub")"
	printf 'write_files:\n  - path: /etc/nvidia-imex/nodes_config.cfg\n    permissions: "0640"\n    content: |\n'
	printf '      %s\n' "$net.10" "$net.11"
	printf 'runcmd:\n  - [systemctl, enable, --now, nvidia-imex.service]\n'
}

make_seed() {
	mkdir -p "$dir/seed"
	ssh-keygen -q -t ed25519 -N '' -C '' -f "$dir/host_key" <<<y >/dev/null
	user_data >"$dir/seed/user-data"
	printf 'instance-id: "hand-%s"\nlocal-hostname: "hand-%s"\n' "$1" "$1" >"$dir/seed/meta-data"
	printf 'version: 2\n' >"$dir/seed/network-config"
	"$run/bin/mkseed" "$dir/seed.iso" "$dir"/seed/* &&
		virsh_at "$2" vol-create-as default "hand-$1-seed.iso" "$(stat -c %s "$dir/seed.iso")" --format raw &&
		virsh_at "$2" vol-upload "hand-$1-seed.iso" "$dir/seed.iso" --pool default
}

domain_xml() {
	cat <<-END
		<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
		  <name>hand-$1</name>
		  <memory unit='MiB'>256</memory>
		  <vcpu>1</vcpu>
		  <os><type arch='x86_64' machine='q35'>hvm</type>
		    <kernel>$run/image/vmlinux</kernel><initrd>$run/image/initrd.img</initrd><cmdline>console=ttyS0 panic=-1 quiet</cmdline></os>
		  <features><acpi/></features>
		  <cpu mode='maximum'/>
		  <devices>
		    <controller type='usb' model='none'/>
		    <disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='$(virsh_at "$2" vol-path "hand-$1-seed.iso" --pool default)'/>
		      <target dev='vda' bus='virtio'/><readonly/></disk>
		    <serial type='file'><source path='$run/log/hand-$1.console'/></serial>
		    <memballoon model='none'/>
		  </devices>
		  <qemu:commandline>
		    <qemu:arg value='-netdev'/><qemu:arg value='user,id=net0,restrict=off,hostfwd=tcp:$net.1$1:2222-:22'/>
		    <qemu:arg value='-device'/><qemu:arg value='virtio-net-pci,netdev=net0,bus=pcie.0,addr=0x1e'/>
		  </qemu:commandline>
		</domain>
	END
}

start_guest() {
	make_seed "$1" "$2" && domain_xml "$1" "$2" >"$dir/domain.xml" && virsh_at "$2" define "$dir/domain.xml" --validate && virsh_at "$2" start "hand-$1" &&
		printf '[%s.1%s]:2222 %s\n' "$net" "$1" "$(cut -d ' ' -f 1,2 "$dir/host_key.pub")" >>"$dir/known_hosts"
}

fabric_guid() { jq -r --arg t "$1" --argjson g "$2" '.racks[0].tray[$t].gpus[$g].fabricGuid' "$dir/site.json"; }
uuid() { printf '%u' "$(fabric_guid "$1" "$2")"; }

move_tray() {
	local gpu
	for gpu in 0 1 2 3; do
		nvsw nv action restore sdn partition 32766 uuid "$(uuid "$1" "$gpu")" || return
	done
	for gpu in 0 1 2 3; do
		soon 10 nvsw nv action update sdn partition 7 uuid "$(uuid "$1" "$gpu")" || return
	done
}

reload_partitions() { sm "cat >'$dir/sm/new' && mv '$dir/sm/new' '$dir/sm/partitions.conf' && kill -HUP \$(cat '$dir/sm/opensm.pid')"; }

give_pkey() {
	{
		cat "$dir/sm/partitions.conf"
		jq -r --arg t "$1" '[.racks[0].tray[$t].hcas[].portGuid] | "hand=0x0101, defmember=full : " + join(",") + " ;"' "$dir/site.json"
	} | reload_partitions
}

nothing_runs() { ! pgrep -f -- "$run" >/dev/null; }

begin=$EPOCHREALTIME
ok "up" "$lab" up "$dir" || exit
printf 'up: %.1f s\n' "$(awk "BEGIN { print $EPOCHREALTIME - $begin }")"
run=$(cat "$dir/run") net=$(cat "$run/net") guest_at=10

ok "a second up is refused" bash -c "! '$lab' up '$dir'"
ok "nothing is left over in a new lab" "$lab" leftovers "$dir"
ok "the switch lists its default partition" says 'Default Partition' nvsw nv show sdn partition -o json
ok "the SM host sees the fabric" says 'rack01-tray18 mlx5_3' sm ibnetdiscover
ok "the SM host finds the master" says SMINFO_MASTER sm sminfo

begin=$EPOCHREALTIME
ok "a guest starts on tray 1" start_guest 0 r01-t01 || exit
ok "it answers over SSH with the key of its seed" soon 60 guest true
printf 'guest: %.1f s\n' "$(awk "BEGIN { print $EPOCHREALTIME - $begin }")"
ok "it has the name of its seed" says hand-0 guest hostname
ok "its GPUs are in the default partition" says '<cliqueId>32766<' guest nvidia-smi -q -x
ok "its XML is well-formed" bash -c "$(declare -f remote guest); dir='$dir' net=$net guest_at=10; guest nvidia-smi -q -x | xmllint --noout -"
ok "four HCA ports are active" bash -c "$(declare -f remote guest); dir='$dir' net=$net guest_at=10; [ \"\$(guest ibstat | grep -c 'State: Active')\" = 4 ]"
ok "IMEX runs and is degraded without its peer" says '"status": "DEGRADED"' guest nvidia-imex-ctl -N -j -H
ok "systemctl tells it" says ActiveState=active guest systemctl show -p ActiveState nvidia-imex

ok "a second guest starts on tray 2" start_guest 1 r01-t02
guest_at=11
ok "and answers" soon 60 guest true
ok "the two IMEX daemons see each other" soon 10 says '"status": "UP"' guest nvidia-imex-ctl -N -j -H
guest_at=10

ok "a partition is made" nvsw nv action create sdn partition 7 name hand resiliency-mode full_bandwidth mcast-limit 18
ok "the four GPUs move into it" move_tray r01-t01
ok "the guest sees it" soon 10 says_not '<cliqueId>[^7]' guest nvidia-smi -q -x
ok "IMEX sees the separation" says DISCONNECTED guest nvidia-imex-ctl -N -j -H
ok "a GPU leaves" "$lab" fault "$dir" gpu-leave r01-t01 1
ok "the guest sees it as not registered" says 'In Progress' guest nvidia-smi -q
ok "its links are inactive" says '<inactive>' guest nvidia-smi nvlink -s
ok "the GPU returns" "$lab" heal "$dir" gpu-leave r01-t01 1 7
ok "the guest sees it again" says_not 'In Progress' guest nvidia-smi -q

ok "a PKey is given to tray 1" give_pkey r01-t01
ok "the guest holds it" soon 10 says 0x8101 guest smpquery -C mlx5_3 -P 1 -D pkeys 0
ok "a link is unplugged" "$lab" fault "$dir" unlink r01-t01 2
ok "the guest sees it down" says 'State: Down' guest ibstat mlx5_2
ok "it is plugged in again" "$lab" heal "$dir" relink r01-t01 2
ok "the guest sees it active" says 'State: Active' guest ibstat mlx5_2
ok "leftovers finds domain, volume, partition, GPUs and PKeys" bash -c "'$lab' leftovers '$dir' >'$dir/left'; [ \$? -eq 1 ] &&
	grep -q 'domain hand-0' '$dir/left' && grep -q 'volume hand-0-seed.iso' '$dir/left' && grep -q 'partition 7 hand' '$dir/left' &&
	grep -q 'GPU 0 is not in' '$dir/left' && grep -q 'rail 3: PKey 0x8101' '$dir/left'"

ok "the guest shuts down when asked" virsh_at r01-t01 shutdown hand-0
ok "and is off" soon 30 says 'shut off' virsh_at r01-t01 domstate hand-0
guest_at=11
ok "its IMEX daemon is gone with it" soon 5 says UNAVAILABLE guest nvidia-imex-ctl -N

ok "down" "$lab" down "$dir"
ok "no process is left" nothing_runs
ok "no folder is left" bash -c "[ ! -e '$run' ]"
ok "down again is no error" "$lab" down "$dir"
