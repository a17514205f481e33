/* Random specs against random hosts: each gives a spec error with its place, a refusal that names its reason, or domains that are valid. 10,000 in
 * every run; RK_RANDOM_SPECS=1000000 makes more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/site_file.h"
#include "provision/cluster.h"
#include "vmspec/domain_impl.h"
#include "vmspec/spec_keys.h"

enum { RUNS = 10000 };

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint64_t pick(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

#define ONE_OF(...) ((const char *const[]){ __VA_ARGS__ })[pick(RK_ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })))]

/* ---- a spec -------------------------------------------------------------------------------------------------------------------------- */

/* Texts for string keys without words: mostly right, sometimes not. */
static const struct {
	const char *object, *key;
	const char *values[8];
} texts[] = {
	{ "", "name", { "a", "reasoning-a", "x7", "a-b-c", "lab", "a-01", "A", "" } },
	{ "", "tenant", { "contoso", "contoso", "fabrikam", "contoso", "fabrikam", "contoso", "nobody", "Con toso" } },
	{ "", "size", { "nd128isr-gb300-v6", "nd64isr-gb300-v6", "nd32isr-gb300-v6", "lab-tray", "Standard_ND128isr_GB300_v6", "odd", "nd128isr-gb200-v6", "none" } },
	{ "", "image", { "ubuntu-24.04-gb300", "ubuntu-24.04-gb300", "ubuntu-24.04-gb300", "x86", "ubuntu-24.04-gb300", "kernel", "none", "../x" } },
	{ "placement", "racks", { "r01", "r[01-04]", "@all", "r01", "r01", "r01", "r[1-", "r09" } },
	{ "ssh", "user", { "ops", "root", "_x", "ops", "root", "ops", "Ops", "a b" } },
	{ "infiniband", "pkey", { "auto", "auto", "0x0001", "0x7ffe", "auto", "291", "0x7fff", "x" } },
	{ "validation", "profile", { "gb300-acceptance", "lab", "x", "lab", "lab", "lab", "lab", "" } },
	{ "cloudInit", "userData", { "#cloud-config\\npackages: [jq]\\n", "#!/bin/sh\\ntrue\\n", "#cloud-config\\n{}\\n", "#!/bin/sh\\n", "#!/bin/sh\\n\\u00e9\\n",
				     "#cloud-config\\n", "x", "#cloud-config\\nmerge_how: x\\n" } },
};

static void text_value(struct rk_str *out, const struct rk_spec_key *k)
{
	const char *value = "x";

	if (k->words) {
		size_t n = 0;
		while (k->words[n])
			n++;
		value = pick(60) ? k->words[pick(n)] : "wrong";
	}
	for (size_t i = 0; !k->words && i < RK_ARRAY_SIZE(texts); i++)
		if (rk_streq(texts[i].object, k->object) && rk_streq(texts[i].key, k->key))
			value = texts[i].values[pick(pick(25) ? 6 : 8)];
	rk_str_addf(out, "\"%s\"", value);
}

static void number_value(struct rk_str *out, const struct rk_spec_key *k)
{
	/* Small ones, so that most can be placed; the limits and what is beyond them, too. */
	long v = pick(20) ? k->min + (long)pick(5) : pick(2) ? k->max : k->max + 1;

	rk_str_addf(out, "%ld%s", v, pick(200) ? "" : ".5");
}

static void value(struct rk_str *out, const struct rk_spec_key *k);

static void object(struct rk_str *out, const char *name)
{
	bool first = true;

	rk_str_addc(out, '{');
	for (const struct rk_spec_key *k = rk_spec_keys; k->key; k++) {
		if (!rk_streq(k->object, name) || (k->required ? !pick(1000) : !pick(2)))
			continue;
		rk_str_addf(out, "%s\"%s%s\": ", first ? "" : ",\n", k->key, pick(1000) ? "" : "x");
		value(out, k);
		first = false;
	}
	rk_str_addc(out, '}');
}

static void value(struct rk_str *out, const struct rk_spec_key *k)
{
	enum rk_jtype type = pick(500) ? k->type : (enum rk_jtype)pick(6);

	if (type == RK_JSTRING)
		text_value(out, k);
	else if (type == RK_JNUMBER)
		number_value(out, k);
	else if (type == RK_JBOOL)
		rk_str_add(out, pick(2) ? "true" : "false");
	else if (type == RK_JARRAY)
		rk_str_add(out, ONE_OF("[]", "[\"ssh-ed25519 AAAA a\"]", "[\"ssh-rsa BBBB\", \"ssh-ed25519 AAAA\"]", "[7]", "[\"x\"]"));
	else if (type == RK_JOBJECT && k->type == RK_JOBJECT)
		object(out, k->key);
	else
		rk_str_add(out, type == RK_JOBJECT ? "{}" : "null");
}

/* ---- a host -------------------------------------------------------------------------------------------------------------------------- */

static struct rk_image images[] = {
	{ .name = "ubuntu-24.04-gb300", .volume = "default/u.qcow2", .arch = "aarch64", .format = "qcow2" },
	{ .name = "x86", .volume = "default/x.raw", .arch = "x86_64", .format = "raw" },
	{ .name = "kernel", .arch = "aarch64", .format = "raw", .kernel = "/lab/vmlinuz", .initrd = "/lab/initrd", .cmdline = "console=ttyAMA0 <&>" },
};

static void random_host(struct rk_site *site)
{
	static char sizes[1024];
	static const char *const dns[] = { "10.0.0.2" };

	site->hypervisor = (struct rk_hypervisor){
		.libvirt = pick(4) ? "12.8.0" : ONE_OF("9.0.0", "10.0.0", "11.10.0", "12.2.0", "12.7.0", "13.0", "x"),
		.qemu = pick(4) ? "11.1.3" : ONE_OF("7.2.22", "8.2.2", "10.0.13", "11.0.0", "11.1"),
		.arch = pick(10) ? "aarch64" : ONE_OF("x86_64", "riscv64"),
		.page_kib = pick(4) ? 64 : (int)pick(3) * 4,
	};
	site->network = (struct rk_network){ .addresses = pick(10) ? "10.20.0.0/20" : pick(2) ? "fd00::/112" : NULL };
	site->network.bridge = pick(3) ? "br0" : NULL;
	site->network.macvtap = site->network.bridge ? NULL : pick(2) ? "eth0" : NULL;
	site->network.user = !site->network.bridge && !site->network.macvtap;
	site->network.dns = pick(2) ? (const char **)dns : NULL;
	site->network.n_dns = site->network.dns != NULL;
	/* A handful of sizes of the site: each text stays known for the life of the process. */
	snprintf(sizes, sizeof(sizes), "[{\"name\":\"odd\",\"vcpus\":%d,\"memoryMib\":%d,\"gpus\":%d,\"hcas\":%d,\"nvme\":%d,\"passthrough\":true,"
		 "\"pciHole64Kib\":1073741824}]", (int)pick(3) * 34 + 1, (int)pick(2) * 131071 + 1024, (int)pick(3) + 2, (int)pick(2) + 2, (int)pick(2) * 5);
	site->sizes = sizes;
	for (size_t t = 0; t < site->n_trays; t++)
		site->trays[t].n_nvme = pick(20) ? 4 : (int)pick(5);
}

/* ---- what comes out ------------------------------------------------------------------------------------------------------------------ */

static struct {
	long parsed, refused, domains, spec_errors;
} seen;

static void check_domain(const char *xml, const char *vm)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	rk_xml *doc RK_CLEANUP_XML = NULL;

	if (rk_xml_parse("domain", xml, &doc, &err) || rk_domain_check(rk_xroot(doc), -1, arena, &err))
		fail_msg("%s: %s", err.message, xml);
	assert_string_equal(rk_xget(rk_xroot(doc), "name", arena), rk_vm_domain_name(arena, vm));
	assert_non_null(rk_xchild(rk_xroot(doc), "devices"));
	if (pick(20) == 0 && rk_domain_xml_compare(xml, xml, &err))
		fail_msg("%s", err.message);
	seen.domains++;
}

/* "spec:LINE:COL: words" */
static bool positioned(const char *message)
{
	unsigned line, col;
	int end = 0;

	return sscanf(message, "spec:%u:%u: %n", &line, &col, &end) == 2 && end > 0 && line && col && message[end];
}

static void run(struct rk_world *world, const char *text, size_t len)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_rendered *all;
	struct rk_spec *spec;
	size_t n;

	if (rk_spec_parse("spec", text, len, arena, &spec, &err)) {
		if (!positioned(err.message))
			fail_msg("\"%s\" has no place, for: %s", err.message, text);
		seen.spec_errors++;
		return;
	}
	seen.parsed++;
	const struct rk_render request = { .spec = spec, .tray = pick(3) ? world->site->trays[pick(world->site->n_trays)].name : NULL, .seed = pick(2) };
	int rc = rk_cluster_render(world, &request, arena, &all, &n, &err);
	if (rc) {
		assert_true(err.message && *err.message);
		assert_true(rc == RK_INVALID || rc == RK_NOT_FOUND || rc == RK_NO_CAPACITY);
		seen.refused++;
		return;
	}
	assert_int_equal(n, request.tray ? 1 : spec->count);
	for (size_t i = 0; i < n; i++)
		check_domain(all[i].xml, all[i].vm);
}

static void every_spec_gives_domains_or_an_error_with_its_place(void **state)
{
	const char *more = getenv("RK_RANDOM_SPECS");
	long runs = more ? strtol(more, NULL, 10) : RUNS;
	struct rk_site *site RK_CLEANUP_SITE = NULL;
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	assert_int_equal(rk_site_load("tests/examples/site-1.json", &site, NULL), 0);
	rk_site_invent(site);
	site->images = images;
	site->n_images = RK_ARRAY_SIZE(images);
	rk_site_seal(site);
	struct rk_world world = { .site = site, .jobs = 1 };
	assert_int_equal(rk_store_open("mem:", RK_STORE_WRITE, &(struct rk_actor){ "tester", "here", 1 }, &world.store, NULL), 0);
	for (long i = 0; i < runs; i++) {
		if (i % 50 == 0)
			do
				random_host(site);
			while (rk_streq(site->hypervisor.libvirt, "x")); /* would ask the trays */
		rk_str_reset(&text);
		object(&text, "");
		run(&world, text.text, text.len);
	}
	rk_store_close(world.store);
	print_message("%ld specs: %ld with an error, %ld refused, %ld domains\n", runs, seen.spec_errors, seen.refused, seen.domains);
	/* All outcomes were really met. */
	assert_true(seen.spec_errors > runs / 20);
	assert_true(seen.refused > runs / 50);
	assert_true(seen.domains > runs / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_spec_gives_domains_or_an_error_with_its_place) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
