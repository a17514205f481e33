# shellcheck shell=bash
# Hypervisors: one libvirt session daemon per live tray, one for all the others, where no guest starts.

# tray_folder TRAYNUMBER: short, because libvirt puts sockets below it.
tray_folder() {
	local n=$((10#$1))
	[ "$n" -le "$LIVE_TRAYS" ] || n=$((LIVE_TRAYS + 1))
	printf '%s/%02d' "$RUN" "$n"
}

tray_uri() { printf 'qemu+unix:///session?socket=%s/s/%s/libvirt-sock' "$RUN" "$(tray_name "$1")"; }

# on_tray TRAYNUMBER VIRSH-ARG...
on_tray() {
	local tray=$1
	shift
	HOME=$RUN XDG_CACHE_HOME=$RUN virsh -q -c "$(tray_uri "$tray")" "$@"
}

# What libvirt finds as QEMU, once for all trays; it learns its tray from the daemon's home.
install_emulator() {
	mkdir -p "$RUN/qemu"
	sed "s|@RUN@|$RUN|g" "$LAB_HOME/qemu-wrapper" >"$RUN/qemu/qemu-system-x86_64"
	chmod 755 "$RUN/qemu/qemu-system-x86_64"
	: >"$RUN/qemu.pids"
	own "$RUN/qemu.pids"
}

# libvirt without its view of this machine's own PCI functions, which are no tray's.
hide_devices() {
	mkdir "$RUN/drivers"
	find /usr/lib -path '*/libvirt/connection-driver/*.so' ! -name '*_nodedev.so' -exec ln -s -t "$RUN/drivers" {} +
}

tray_files() {
	local home=$1 tray=$2
	mkdir -p "$home"/{c/libvirt/storage/autostart,cache/libvirt/qemu/cache/capabilities,run,pool} || return
	echo "$tray" >"$home/tray"
	cp "$RUN/image/lab-linux.qcow2" "$home/pool/"
	cat >"$home/c/libvirt/storage/default.xml" <<-END
		<pool type='dir'><name>default</name><target><path>$home/pool</path></target></pool>
	END
	ln -s ../default.xml "$home/c/libvirt/storage/autostart/default.xml"
	printf 'security_driver = "none"\nstdio_handler = "file"\n' >"$home/c/libvirt/qemu.conf"
	own -R "$home"
}

# QEMU's answers about itself are the same for all trays.
share_capabilities() {
	local kept=$LAB_CACHE/capabilities-$(capabilities_key).xml name
	[ -r "$kept" ] || return 0
	name=$(printf '%s' "$RUN/qemu/qemu-system-x86_64" | sha256sum | cut -d ' ' -f 1)
	sed "s|<qemuctime>[0-9]*</qemuctime>|<qemuctime>$(stat -c %Z "$RUN/qemu/qemu-system-x86_64")</qemuctime>|" \
		"$kept" >"$1/cache/libvirt/qemu/cache/capabilities/$name.xml"
}

keep_capabilities() {
	local kept=$LAB_CACHE/capabilities-$(capabilities_key).xml
	[ -r "$kept" ] || cp "$(tray_folder 1)"/cache/libvirt/qemu/cache/capabilities/*.xml "$kept.$$" 2>/dev/null && mv "$kept.$$" "$kept" 2>/dev/null
	return 0
}

capabilities_key() { stat -L -c '%Y %Z' /usr/sbin/libvirtd "$(command -v qemu-system-x86_64)" "$LAB_HOME/qemu-wrapper" | cat - /proc/sys/kernel/osrelease | sha256sum | cut -c 1-12; }

start_tray() {
	local home
	home=$(tray_folder "$1")
	tray_files "$home" "$2" && share_capabilities "$home" || return
	own -R "$home"
	start_as "libvirtd-${home##*/}" env -i PATH="$RUN/qemu:/usr/sbin:/usr/bin:/sbin:/bin" HOME="$home" XDG_RUNTIME_DIR="$home/run" \
		XDG_CONFIG_HOME="$home/c" XDG_CACHE_HOME="$home/cache" XDG_DATA_HOME="$home/c" TMPDIR="$home/run" LIBVIRT_DRIVER_DIR="$RUN/drivers" libvirtd
}

start_trays() {
	local n
	install_emulator
	hide_devices
	for ((n = 1; n <= LIVE_TRAYS; n++)); do
		start_tray "$n" "$(tray_name "$n")" || return
	done
	start_tray "$((LIVE_TRAYS + 1))" idle || return
	for ((n = 1; n <= ALL_TRAYS; n++)); do
		ln -s "$(tray_folder "$n")/run/libvirt" "$RUN/s/$(tray_name "$n")"
	done
}

tray_is_up() { on_tray "$1" domcapabilities >/dev/null && on_tray "$1" vol-path lab-linux.qcow2 --pool default >/dev/null; }

trays_are_up() {
	local n
	for ((n = 1; n <= LIVE_TRAYS + 1; n++)); do
		wait_for 30 "libvirt of tray $n" tray_is_up "$n" || return
	done
	keep_capabilities
}
