#include <string.h>

#include "vmspec/domain_impl.h"

static void metadata(struct rk_domain *d)
{
	const struct rk_vm_input *in = d->in;
	const struct rk_tray *tray = &in->site->trays[in->tray];
	rk_xnode *vm = rk_x(rk_x(d->root, "metadata", NULL), "vm", NULL);

	rk_xns(vm, "racksh", RK_DOMAIN_NS);
	rk_xnode *owner = rk_x(vm, "racksh:owner", "cluster", in->cluster, "vm", in->vm, "tenant", in->tenant, "rack",
			       in->site->racks[tray->rack].name, NULL);
	rk_xattr(owner, "tray", "%d", tray->number);
	rk_xattr(owner, "generation", "%d", in->generation);
	if (in->nvl_partition)
		rk_xattr(rk_x(vm, "racksh:nvlink", NULL), "partition", "%d", in->nvl_partition);
	if (in->pkey)
		rk_xattr(rk_x(vm, "racksh:ib", NULL), "pkey", "0x%04x", in->pkey);
}

static void disk(struct rk_domain *d, const char *path, const char *volume, const char *format, const char *target, const char *iothread)
{
	bool seed = rk_streq(format, "raw");
	rk_xnode *disk = rk_x(d->devices, "disk", "type", path ? "file" : "volume", "device", "disk", NULL);

	rk_x(disk, "driver", "name", "qemu", "type", format, "cache", iothread ? "none" : NULL, "io", iothread && !seed ? "native" : NULL,
	     "discard", seed ? NULL : "unmap", "iothread", seed ? NULL : iothread, NULL);
	rk_x(disk, "source", "file", path, "pool", path ? NULL : d->in->site->pool, "volume", path ? NULL : volume, NULL);
	rk_x(disk, "target", "dev", target, "bus", "virtio", NULL);
	if (seed)
		rk_x(disk, "readonly", NULL);
	rk_xt(disk, "serial", seed ? "cidata" : "osdisk");
	if (!seed && !d->in->image->kernel)
		rk_x(disk, "boot", "order", "1", NULL);
}

void rk_domain_disks(struct rk_domain *d, const char *iothread)
{
	const struct rk_vm_input *in = d->in;

	/* An image of kernel and initrd only has no disk. */
	if (in->os_path || in->image->volume)
		disk(d, in->os_path, rk_vm_os_volume(d->arena, in->vm), "qcow2", "vda", iothread);
	disk(d, in->seed_path, rk_vm_seed_volume(d->arena, in->vm), "raw", "vdb", iothread);
}

void rk_domain_serial(struct rk_domain *d, const char *log)
{
	rk_xnode *serial = rk_x(d->devices, "serial", "type", "pty", NULL);
	rk_xnode *target = rk_x(serial, "target", "type", d->arm ? "system-serial" : "isa-serial", "port", "0", NULL);

	rk_x(target, "model", "name", d->arm ? "pl011" : "isa-serial", NULL);
	if (log)
		rk_x(serial, "log", "file", log, "append", "on", NULL);
	rk_x(rk_x(d->devices, "console", "type", "pty", NULL), "target", "type", "serial", "port", "0", NULL);
	rk_x(rk_x(d->devices, "channel", "type", "unix", NULL), "target", "type", "virtio", "name", "org.qemu.guest_agent.0", NULL);
}

/* libvirt's own user networking has no port forward before passt, so QEMU gets it as arguments, at a PCI address of its own. */
static void user_network(struct rk_domain *d)
{
	const struct rk_vm_input *in = d->in;
	const char *const args[] = {
		"-netdev",
		rk_arena_printf(d->arena, "user,id=rackshnet0,restrict=off,hostfwd=tcp:%s:%d-:22", in->address, in->ssh_port),
		"-device",
		rk_arena_printf(d->arena, "virtio-net-pci,netdev=rackshnet0,mac=%s,bus=pcie.0,addr=0x1e", in->mac),
	};
	rk_xnode *line;

	rk_xns(d->root, "qemu", RK_QEMU_NS);
	line = rk_x(d->root, "qemu:commandline", NULL);
	for (size_t i = 0; i < RK_ARRAY_SIZE(args); i++)
		rk_x(line, "qemu:arg", "value", args[i], NULL);
}

void rk_domain_network(struct rk_domain *d, const char *queues)
{
	const struct rk_network *net = &d->in->site->network;
	rk_xnode *nic;

	if (rk_network_is_user(net)) {
		user_network(d);
		return;
	}
	nic = rk_x(d->devices, "interface", "type", net->bridge ? "bridge" : "direct", NULL);
	rk_x(nic, "mac", "address", d->in->mac, NULL);
	if (net->bridge)
		rk_x(nic, "source", "bridge", net->bridge, NULL);
	else
		rk_x(nic, "source", "dev", net->macvtap, "mode", "bridge", NULL);
	rk_x(nic, "model", "type", "virtio", NULL);
	if (queues)
		rk_x(nic, "driver", "queues", queues, NULL);
}

static void lab_os(struct rk_domain *d)
{
	const struct rk_image *image = d->in->image;
	bool efi = d->arm && !image->kernel;
	rk_xnode *os = rk_x(d->root, "os", "firmware", efi ? "efi" : NULL, NULL), *type;

	type = rk_x(os, "type", "arch", d->caps->arch, "machine", d->arm ? "virt" : "q35", NULL);
	rk_xtext(type, "hvm");
	if (image->kernel) {
		rk_xt(os, "kernel", image->kernel);
		if (image->initrd)
			rk_xt(os, "initrd", image->initrd);
		rk_xt(os, "cmdline", image->cmdline ? image->cmdline : d->arm ? "console=ttyAMA0 panic=-1 quiet" : "console=ttyS0 panic=-1 quiet");
	}
	rk_xnode *features = rk_x(d->root, "features", NULL);
	/* On Arm, libvirt refuses ACPI without UEFI: a direct kernel boot goes by the device tree there. */
	if (!d->arm || efi)
		rk_x(features, "acpi", NULL);
	if (d->arm)
		rk_x(features, "gic", "version", "3", NULL);
}

static void lab_form(struct rk_domain *d)
{
	rk_xtext(rk_x(d->root, "memory", "unit", "KiB", NULL), "%llu", (unsigned long long)d->in->size->memory_mib * 1024);
	rk_xtext(rk_x(d->root, "vcpu", "placement", "static", NULL), "%d", d->in->size->vcpus);
	lab_os(d);
	rk_x(d->root, "cpu", "mode", d->caps->kvm ? "host-passthrough" : "maximum", "check", "none", NULL);
	rk_x(d->root, "clock", "offset", "utc", NULL);
	/* A guest that panics restarts itself (panic=-1); destroy makes that visible instead of a loop. */
	rk_xt(d->root, "on_poweroff", "destroy");
	rk_xt(d->root, "on_reboot", "destroy");
	rk_xt(d->root, "on_crash", "destroy");
	d->devices = rk_x(d->root, "devices", NULL);
	rk_domain_disks(d, NULL);
	rk_x(d->devices, "controller", "type", "usb", "index", "0", "model", "none", NULL);
	rk_domain_serial(d, NULL);
	rk_x(d->devices, "memballoon", "model", "none", NULL);
	rk_domain_network(d, NULL);
}

/* What ends up inside a QEMU option must not be able to add another one. */
static bool plain(const char *text)
{
	return text && *text && text[strspn(text, "0123456789abcdefABCDEF.:")] == '\0';
}

static int check(const struct rk_vm_input *in, const struct rk_hostcaps *caps, struct rk_err *err)
{
	const char *tray = in->site->trays[in->tray].name;

	if (!rk_streq(caps->arch, "aarch64") && !rk_streq(caps->arch, "x86_64"))
		return rk_err_set(err, RK_INVALID, "tray %s has architecture \"%s\": only aarch64 and x86_64 are known", tray, caps->arch ? caps->arch : "");
	if (!rk_streq(caps->arch, in->image->arch))
		return rk_err_set(err, RK_INVALID, "image \"%s\" is for %s, tray %s is %s", in->image->name, in->image->arch, tray, caps->arch);
	if (!plain(in->mac))
		return rk_err_set(err, RK_INVALID, "VM \"%s\" has no usable MAC address", in->vm);
	if (rk_network_is_user(&in->site->network) && !plain(in->address))
		return rk_err_set(err, RK_INVALID, "VM \"%s\" has no usable address for user networking", in->vm);
	if (!caps->kvm && !in->size->emulated)
		return rk_err_set(err, RK_INVALID, "size \"%s\" needs KVM, which tray %s does not offer", in->size->name, tray);
	return rk_hostcaps_check_variant(caps, in->size, err);
}

static int fill(struct rk_domain *d, struct rk_err *err)
{
	rk_xattr(d->root, "type", "%s", d->caps->kvm ? "kvm" : "qemu");
	rk_xt(d->root, "name", rk_vm_domain_name(d->arena, d->in->vm));
	rk_xt(d->root, "uuid", d->in->uuid);
	metadata(d);
	if (d->in->size->passthrough)
		return rk_domain_full(d, err);
	lab_form(d);
	return 0;
}

int rk_domain_tree(const struct rk_vm_input *in, const struct rk_hostcaps *caps, rk_xml **ret, struct rk_str *notes, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	rk_xml *xml RK_CLEANUP_XML = rk_xml_new("domain");
	struct rk_domain d = {
		.in = in, .caps = caps, .arena = arena, .notes = notes, .arm = rk_streq(caps->arch, "aarch64"), .root = rk_xroot(xml),
	};
	int rc = check(in, caps, err);

	if (!rc)
		rc = fill(&d, err);
	if (!rc)
		rc = rk_xml_sound(xml, err);
	*ret = rc ? NULL : rk_steal(&xml);
	return rc;
}

int rk_domain_xml(const struct rk_vm_input *in, const struct rk_hostcaps *caps, struct rk_str *ret_xml, struct rk_str *notes, struct rk_err *err)
{
	rk_xml *xml RK_CLEANUP_XML = NULL;
	int rc = rk_domain_tree(in, caps, &xml, notes, err);

	return rc ? rc : rk_xml_write(xml, ret_xml, err);
}
