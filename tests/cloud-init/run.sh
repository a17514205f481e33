#!/bin/sh
# usage: run.sh SEED OUT [SEED2]: lets the installed cloud-init boot once from the NoCloud files in folder SEED, and again from those in SEED2,
# in a root of its own (this system's, under a file system that forgets), without network, host name, devices or services of the machine.
# OUT/1 and OUT/2 then hold what it left: etc/ssh, etc/hostname, etc/netplan, etc/nvidia-imex, home, log. Exit 77: cannot be done here.
set -eu
seed=$(realpath "$1") out=$(realpath "$2") again=${3:+$(realpath "$3")}
command -v cloud-init >/dev/null && command -v unshare >/dev/null || exit 77
[ "$(id -u)" -eq 0 ] || exit 77
if [ -z "${RK_INSIDE-}" ]; then
	unshare -m -n -u -p -f true 2>/dev/null || exit 77
	RK_INSIDE=1 exec unshare -m -n -u -p -f "$0" "$@"
fi

mount --make-rprivate /
# The network interface that the seed speaks of.
mac=$(sed -n 's/^ *macaddress: "\(.*\)"$/\1/p' "$seed/network-config")
for kind in dummy veth; do
	! ip link add nic0 address "$mac" type "$kind" 2>/dev/null || break
done
work=$out/root
mkdir -p "$work"
mount -t tmpfs racksh "$work"
mkdir "$work/up" "$work/work" "$work/root"
mount -t overlay -o "lowerdir=/,upperdir=$work/up,workdir=$work/work" overlay "$work/root" || exit 77
root=$work/root
mount -t proc proc "$root/proc"
mount -t tmpfs racksh "$root/dev"
mount -t tmpfs racksh "$root/run"
mount -t tmpfs racksh "$root/tmp"
mount -t sysfs -o ro sysfs "$root/sys"
mkdir "$root/dev/shm"
for node in null zero random urandom; do
	: >"$root/dev/$node"
	mount --bind "/dev/$node" "$root/dev/$node"
done
ln -s /proc/self/fd "$root/dev/fd"

# Only what a seed of racksh asks for: nothing that looks for disks or packages.
rm -rf "$root/var/lib/cloud" "$root/etc/cloud/cloud-init.disabled" "$root/etc/netplan" "$root"/etc/ssh/ssh_host_* "$root/etc/nvidia-imex"
cat >"$root/etc/cloud/cloud.cfg" <<'CFG'
datasource_list: [NoCloud]
disable_root: true
preserve_hostname: false
cloud_init_modules: [write-files, set_hostname, users-groups, ssh]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user]
system_info:
  distro: debian
  network: {renderers: [netplan]}
  default_user: {name: debian, lock_passwd: true, shell: /bin/bash}
  paths: {cloud_dir: /var/lib/cloud/, templates_dir: /etc/cloud/templates/}
CFG
rm -rf "$root/etc/cloud/cloud.cfg.d"
printf '#!/bin/sh\nexit 0\n' >"$root/usr/sbin/netplan" # looked for there only
printf '#!/bin/sh\necho "systemctl $*" >>/var/log/systemctl.log\n' >"$root/usr/local/sbin/systemctl"
chmod 755 "$root/usr/sbin/netplan" "$root/usr/local/sbin/systemctl"

boot() {
	mkdir -p "$root/var/lib/cloud/seed/nocloud" "$out/$2"
	cp "$1"/* "$root/var/lib/cloud/seed/nocloud/"
	rm -rf "$root/run/cloud-init"
	for stage in 'init --local' 'init' 'modules --mode config' 'modules --mode final'; do
		# shellcheck disable=SC2086 # words of a stage
		chroot "$root" env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin cloud-init $stage >>"$out/$2/log" 2>&1 || echo "stage $stage: $?" >>"$out/$2/log"
	done
	for path in etc/ssh etc/hostname etc/netplan etc/nvidia-imex home root/.ssh var/log/systemctl.log; do
		[ ! -e "$root/$path" ] || (cd "$root" && cp -r --parents "$path" "$out/$2")
	done
	[ ! -e "$root/marks" ] || cp -r "$root/marks" "$out/$2"
}

boot "$seed" 1
[ -z "$again" ] || boot "$again" 2
