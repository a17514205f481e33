# shellcheck shell=bash
# The files racksh is given: the site, two cluster specs.

tray_identities() {
	local tray rail
	for ((tray = 1; tray <= ALL_TRAYS; tray++)); do
		for rail in 0 1 2 3; do
			printf '%s %d %s %s\n' "$(tray_name "$tray")" "$rail" "$(port_guid "$tray" "$rail")" "$(fabric_guid "$tray" "$rail")"
		done
	done | jq -R -s '[split("\n")[] | select(. != "") | split(" ")] | group_by(.[0]) | map({key: .[0][0], value: {
		hcas: map({rail: (.[1] | tonumber), portGuid: .[2]}), gpus: map({index: (.[1] | tonumber), fabricGuid: .[3]})}}) | from_entries'
}

# no_timer_check: on a machine that is busy an emulated timer is late, which the kernel takes for a broken one, and panics.
write_site() {
	local user
	user=$(id -un)
	tray_identities | jq --arg dir "$DIR" --arg run "$RUN" --arg net "$NET" --arg user "$user" --argjson port "$SSH_PORT" --arg rack "$RACK" \
		--argjson trays "$ALL_TRAYS" --arg uuid "$(cat "$RUN/cluster-uuid")" \
		--arg libvirt "$(libvirtd --version | grep -o '[0-9.]*$')" \
		--arg qemu "$(qemu-system-x86_64 --version | sed -n 's/.*version \([0-9.]*\).*/\1/p')" '
		{apiVersion: "racksh/v1", kind: "Site", name: "lab",
		 defaults: {profile: "gb300-nvl72", libvirt: "qemu+unix:///session?socket=\($run)/s/{tray}/libvirt-sock",
			ssh: {user: $user, port: 22, knownHosts: "\($dir)/known_hosts", identityFile: "\($dir)/id_ed25519"},
			hypervisor: {libvirt: $libvirt, qemu: $qemu, arch: "x86_64", pageKiB: 4}},
		 network: {user: true, addresses: "\($net).0/24"},
		 storage: {pool: "default"},
		 infiniband: [{name: "ib0", driver: "opensm", ssh: "\($user)@\($net).250:\($port)", partitionsFile: "\($dir)/sm/partitions.conf",
			pidFile: "\($dir)/sm/opensm.pid", pkeyPool: "0x0100-0x08ff", rateGbps: 200}],
		 racks: [{name: $rack, clusterUuid: $uuid, powerKw: 142, nvlink: {driver: "nvos", ssh: "\($user)@\($net).251:\($port)"},
			trays: {count: $trays},
			tray: with_entries(.value.ssh = {host: "\($net).\(100 + (.key | ltrimstr("\($rack)-t") | tonumber))", port: $port})}],
		 images: [{name: "lab-linux", volume: "default/lab-linux.qcow2", arch: "x86_64", format: "qcow2",
			kernel: "\($run)/image/vmlinux", initrd: "\($run)/image/initrd.img",
			cmdline: "console=ttyS0 panic=-1 quiet no_timer_check"}],
		 tenants: [{name: "contoso"}, {name: "fabrikam"}]}' >"$DIR/site.json"
}

# write_spec NAME TENANT COUNT
write_spec() {
	jq -n --arg name "$1" --arg tenant "$2" --argjson count "$3" --arg key "$(cat "$DIR/id_ed25519.pub")" '
		{apiVersion: "racksh/v1", kind: "Cluster", name: $name, tenant: $tenant, size: "lab-tray", count: $count, image: "lab-linux",
		 ssh: {user: "root", authorizedKeys: [$key]}, validation: {profile: "lab"}}' >"$DIR/$1.json"
}

write_files() { write_site && write_spec a contoso 3 && write_spec b fabrikam 2; }
