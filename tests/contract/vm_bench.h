/* One tray and one VM on it, for tests of the domain XML. Include after <cmocka.h>. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmspec/domain_impl.h"

static const struct rk_profile vm_profile = {
	.name = "gb300-nvl72", .trays = 18, .gpus_per_tray = 4, .hcas_per_tray = 4, .nvme_per_tray = 4, .cpus_per_tray = 144, .sockets = 2,
	.gpu_pci = { "0008:06:00.0", "0009:06:00.0", "0018:06:00.0", "0019:06:00.0" }, .gpu_numa = { 0, 0, 1, 1 },
	.hca_pci = { "0000:03:00.0", "0002:03:00.0", "0010:03:00.0", "0012:03:00.0" }, .hca_numa = { 0, 0, 1, 1 },
};
static struct rk_rack vm_rack = { .name = "r01", .n_trays = 1 };

/* One tray and one VM on it, with everything a test may change. */
struct bench {
	struct rk_site site;
	struct rk_profile profile;
	struct rk_tray tray;
	struct rk_image image;
	struct rk_hostcaps caps;
	struct rk_vm_input in;
	struct rk_str xml, notes;
	struct rk_err err;
};

static inline void bench_init(struct bench *b, const char *size)
{
	*b = (struct bench){
		.tray = { .name = "r01-t07", .number = 7, .nvme = { "0005:01:00.0", "0005:02:00.0", "0015:01:00.0", "0015:02:00.0" }, .n_nvme = 4 },
		.image = { .name = "ubuntu", .volume = "default/ubuntu.qcow2", .arch = "aarch64", .format = "qcow2" },
		.caps = { .libvirt = 12008000, .qemu = 11001003, .arch = "aarch64", .page_kib = 64, .kvm = true },
		.err = RK_ERR_INIT,
	};
	b->in.size = rk_size_find(NULL, size);
	assert_non_null(b->in.size);
	b->profile = vm_profile;
	b->profile.name = b->in.size->profile ? b->in.size->profile : vm_profile.name;
	b->site = (struct rk_site){ .name = "test", .pool = "default", .profiles = &b->profile, .n_profiles = 1, .racks = &vm_rack, .n_racks = 1,
				    .trays = &b->tray, .n_trays = 1, .network = { .bridge = "br0" } };
	b->in = (struct rk_vm_input){ .site = &b->site, .size = b->in.size, .image = &b->image, .vm = "a-01", .cluster = "a", .tenant = "contoso",
				      .uuid = "0d1f0c5e-7a1b-5c1e-9a55-0b6f2f9e1d07", .mac = "52:54:00:9e:1d:07", .address = "127.3.1.1",
				      .ssh_port = 2201, .generation = 3, .nvl_partition = 12, .pkey = 0x0102 };
}

static inline void bench_lab(struct bench *b, const char *arch)
{
	bench_init(b, "lab-tray");
	b->site.network = (struct rk_network){ .user = true };
	b->image = (struct rk_image){ .name = "lab", .arch = arch, .kernel = "/lab/vmlinuz", .initrd = "/lab/initrd.img" };
	b->caps = (struct rk_hostcaps){ .libvirt = 9000000, .qemu = 7002022, .arch = arch, .page_kib = 4, .probed = true };
	b->in.seed_path = "/pool/racksh-a-01-seed.iso";
}

static inline int render(struct bench *b)
{
	return rk_domain_xml(&b->in, &b->caps, &b->xml, &b->notes, &b->err);
}

static inline void bench_end(struct bench *b)
{
	rk_str_clear(&b->xml);
	rk_str_clear(&b->notes);
	rk_err_clear(&b->err);
}

static inline void assert_has(const char *text, const char *part)
{
	if (!text || !strstr(text, part))
		fail_msg("\"%s\" is not in: %s", part, text ? text : "(nothing)");
}

static inline size_t count(const char *text, const char *part)
{
	size_t n = 0;

	for (const char *p = strstr(text, part); p; p = strstr(p + 1, part))
		n++;
	return n;
}

/* RK_UPDATE=1 writes it. */
static inline void assert_golden(struct bench *b, const char *name)
{
	char path[256];
	static char golden[256 * 1024];

	assert_int_equal(render(b), 0);
	snprintf(path, sizeof(path), "tests/fixtures/domain_xml/%s.xml", name);
	if (getenv("RK_UPDATE")) {
		FILE *out = fopen(path, "w");
		assert_non_null(out);
		fputs(rk_str_text(&b->xml), out);
		fclose(out);
	}
	FILE *in = fopen(path, "r");
	assert_non_null(in);
	golden[fread(golden, 1, sizeof(golden) - 1, in)] = '\0';
	fclose(in);
	assert_string_equal(rk_str_text(&b->xml), golden);
	bench_end(b);
}
