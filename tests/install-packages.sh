#!/bin/sh
# Installs what building, tests and lab need, when something is missing; does nothing (and uses no network) otherwise.
set -eu
packages="gcc make pkg-config libvirt-dev libssh-dev libssl-dev libreadline-dev libjansson-dev libcmocka-dev libsqlite3-dev libpq-dev
	libcurl4-openssl-dev libxml2-dev libisofs-dev mandoc shellcheck libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients
	qemu-system-x86 qemu-system-arm qemu-utils opensm ibsim-utils infiniband-diags openssh-server openssh-client dropbear-bin busybox-static
	libxml2-utils jq xz-utils zstd cpio postgresql procps git iproute2 cloud-init graphviz zsh fish
	ansible-core python3-jsonschema python3-prometheus-client"
missing=
for p in $packages; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
sudo=
[ "$(id -u)" -eq 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
echo "installing:$missing"
# cloud-init is here to be tested with seeds, not to configure this machine at its next boot.
case $missing in *cloud-init*)
	$sudo mkdir -p /etc/cloud
	$sudo touch /etc/cloud/cloud-init.disabled
	;;
esac
$sudo apt-get -o DPkg::Lock::Timeout=600 update -qq
# shellcheck disable=SC2086 # a list of names
$sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends $missing >/dev/null
