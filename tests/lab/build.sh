# shellcheck shell=bash
# What a lab is made from: programs, kernel, initial RAM disk, base volume. Kept between labs, by content, in $LAB_CACHE.

LAB_CACHE=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/racksh-lab
WARN=(-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wformat=2 -Wundef -Wvla -Werror)

# In the order in which they must be loaded.
MODULES=(virtio/virtio_ring virtio/virtio virtio/virtio_pci_legacy_dev virtio/virtio_pci_modern_dev virtio/virtio_pci core/failover
	net/net_failover net/virtio_net block/virtio_blk cdrom/cdrom isofs/isofs input/evdev acpi/button)

# content_name PREFIX PATH...: a name that changes with the content of the files.
content_name() {
	local prefix=$1
	shift
	printf '%s-%s\n' "$prefix" "$(find "$@" -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c 1-12)"
}

# kept NAME COMMAND...: $LAB_CACHE/NAME, made by `COMMAND... FOLDER` when it is not there. Several labs may do so at once.
kept() {
	local name=$1 draft
	shift
	[ -d "$LAB_CACHE/$name" ] && return
	mkdir -p "$LAB_CACHE"
	draft=$(mktemp -d "$LAB_CACHE/draft.XXXXXX") || return
	if ! "$@" "$draft"; then
		rm -rf "$draft"
		return 1
	fi
	mv -T "$draft" "$LAB_CACHE/$name" 2>/dev/null || rm -rf "$draft"
	[ -d "$LAB_CACHE/$name" ]
}

# Programs that racksh sends to hosts. In the lab they are installed there, since they have to be run on the simulated fabric.
REMOTE=$LAB_HOME/../../provision/drivers/remote

umad2sim() { find /usr/lib -name libumad2sim.so -print -quit; }

compile_into() {
	local src=$LAB_HOME/src cc=(cc -std=gnu17 -D_GNU_SOURCE -O2 "${WARN[@]}")
	"${cc[@]}" -o "$1/nv-simulated" "$src/nv-simulated.c" "$src/nvstate.c" &&
		"${cc[@]}" -o "$1/simhw" "$src/simhw.c" "$src/nvstate.c" &&
		"${cc[@]}" -o "$1/mkseed" "$src/mkseed.c" -lisofs &&
		"${cc[@]}" -shared -fPIC -o "$1/killat.so" "$src/killat.c" &&
		"${cc[@]}" -DUMAD2SIM="\"$(umad2sim)\"" -o "$1/ibrun" "$src/ibrun.c" &&
		"${cc[@]}" -o "$1/racksh-ib-pkeys" "$REMOTE/ib_pkeys.c" -ldl
}

# The newest kernel that apt knows: Debian's or Ubuntu's name for it.
kernel_package() {
	local newest
	for newest in linux-image-amd64 linux-image-virtual; do
		apt-cache depends "$newest" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p'
	done | head -n 1
}

# The kernel's packages, unpacked as far as needed. The bare kernel starts three times faster under emulation than the compressed one.
fetch_kernel_into() {
	local package module packages
	package=$(kernel_package)
	[ -n "$package" ] || { echo "lab: apt knows no kernel package: run apt-get update" >&2; return 1; }
	packages=("$package")
	# Ubuntu has the modules in a package of their own.
	! apt-cache show "${package/image/modules}" >/dev/null 2>&1 || packages+=("${package/image/modules}")
	(cd "$1" && apt-get -qq -o APT::Sandbox::User=root download "${packages[@]}" >&2) || return
	for package in "$1"/*.deb; do
		dpkg-deb -x "$package" "$1/tree" && rm "$package" || return
	done
	bare_kernel "$1"/tree/boot/vmlinuz-* >"$1/vmlinux" || return
	for module in "${MODULES[@]}"; do
		take_module "$1/tree/lib/modules" "$module" "$1" || { echo "lab: the kernel has no module $module" >&2; return 1; }
	done
	rm -rf "$1/tree"
}

# take_module TREE NAME FOLDER: puts the module there, uncompressed, unless it is built into the kernel.
take_module() {
	local file
	file=$(find "$1" -path "*/$2.ko*" -print -quit)
	case $file in
	*.ko) cp "$file" "$3" ;;
	*.ko.xz) xz -dc "$file" >"$3/${2##*/}.ko" ;;
	*.ko.zst) zstd -dcq "$file" >"$3/${2##*/}.ko" ;;
	*) cat "$1"/*/modules.builtin 2>/dev/null | grep -q "/$2\.ko$" ;;
	esac
}

# The boot protocol's header says where in the file the compressed kernel lies; its last four bytes are the length of the bare one.
bare_kernel() {
	local sectors offset length tool=(xz -dc)
	sectors=$(od -An -tu1 -j 497 -N 1 "$1")
	offset=$(od -An -tu4 -j 584 -N 4 "$1")
	length=$(od -An -tu4 -j 588 -N 4 "$1")
	offset=$(((sectors + 1) * 512 + offset))
	[ "$(od -An -tx4 -j "$offset" -N 4 "$1" | tr -d ' ')" != fd2fb528 ] || tool=(zstd -dcq)
	tail -c "+$((offset + 1))" "$1" | head -c "$((length - 4))" | "${tool[@]}"
	[ "${PIPESTATUS[2]}" -eq 0 ]
}

# with_libraries ROOT PROGRAM: copies a program and what it is linked with.
with_libraries() {
	local file
	install -D "$2" "$1$2"
	ldd "$2" | sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p' | while read -r file; do
		install -D "$(readlink -f "$file")" "$1$file"
	done
}

guest_tools() {
	local root=$1 guest=$LAB_HOME/guest tool
	install "$guest/init" "$root/init"
	install "$guest/seed" "$guest/run-ssh" "$guest/hardware" "$root/usr/sbin/"
	install "$guest/systemctl" "$guest/chronyc" "$guest/nvidia-imex" "$guest/nvidia-imex-ctl" "$root/usr/bin/"
	install -m 644 "$guest/seed.awk" "$root/usr/lib/"
	install -m 644 "$guest/inittab" "$root/etc/inittab"
	install -D "$guest/power-button" "$root/etc/acpi/PWRF/00000080"
	for tool in nvidia-smi ibstat smpquery perfquery ib-pkeys; do
		ln -s ../sbin/hardware "$root/usr/bin/$tool"
	done
	ln -s ../../sbin/hardware "$root/usr/lib/hardware/nvidia-imex-ctl"
}

guest_root() {
	local root=$1 kernel=$2 module applet
	mkdir -p "$root"/{bin,sbin,etc,proc,sys,dev,run,root,home,tmp,lib/modules,usr/{bin,sbin,lib/hardware}}
	install /bin/busybox "$root/bin/busybox"
	/bin/busybox --list | while read -r applet; do
		[ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
	done
	with_libraries "$root" "$(command -v dropbear || echo /usr/sbin/dropbear)"
	with_libraries "$root" "$(command -v dropbearconvert || echo /usr/bin/dropbearconvert)"
	for module in "${MODULES[@]}"; do
		[ -e "$kernel/${module##*/}.ko" ] || continue
		cp "$kernel/${module##*/}.ko" "$root/lib/modules/"
		echo "${module##*/}"
	done >"$root/lib/modules/order"
	echo 'root:*:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
	echo 'root:x:0:' >"$root/etc/group"
	printf '/bin/sh\n/bin/bash\n' >"$root/etc/shells"
	guest_tools "$root"
}

image_into() {
	local kernel=$1 draft=$2
	guest_root "$draft/root" "$kernel" &&
		(cd "$draft/root" && find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 | gzip -1) >"$draft/initrd.img" &&
		cp "$kernel/vmlinux" "$draft/vmlinux" &&
		qemu-img create -q -f qcow2 "$draft/lab-linux.qcow2" 16M || return
	rm -rf "$draft/root"
}

# Sets LAB_BIN and LAB_IMAGE.
build_all() {
	local name kernel
	name=$(content_name bin "$LAB_HOME/src" "$LAB_HOME/build.sh" "$REMOTE")
	LAB_BIN=${RACKSH_LAB_BUILD:-$LAB_CACHE}/$name
	LAB_CACHE=${RACKSH_LAB_BUILD:-$LAB_CACHE} kept "$name" compile_into || return
	kernel=$(find "$LAB_CACHE" -maxdepth 1 -name 'kernel-*' -print -quit 2>/dev/null)
	if [ -z "$kernel" ]; then
		kernel=$LAB_CACHE/kernel-$(uname -m)
		kept "${kernel##*/}" fetch_kernel_into || return
	fi
	name=$(content_name image "$LAB_HOME/guest" "$LAB_HOME/build.sh" "$kernel"/*.ko /bin/busybox "$(command -v dropbear || echo /usr/sbin/dropbear)")
	kept "$name" image_into "$kernel" || return
	LAB_IMAGE=$LAB_CACHE/$name
}
