#include <string.h>

#include "inventory/base/map.h"
#include "vmspec/domain_impl.h"

/* What must survive the host: elements below `parent`, told apart by their `key` paths, whose `values` must be the same. An element
 * without a key is told apart by its place among its like. Names are local names. */
static const struct rule {
	const char *parent, *element;
	const char *key[4];
	const char *values[8];
	bool exact; /* the host may not add one either */
} rules[] = {
	{ "", "name", { NULL }, { "" }, true },
	{ "", "uuid", { NULL }, { "" }, true },
	{ "", "memory", { NULL }, { "" }, true },
	{ "", "vcpu", { NULL }, { "" }, true },
	{ "", "iommufd", { NULL }, { "@enabled", "@fdgroup" }, true },
	{ "os", "type", { NULL }, { "@arch", "" }, true },
	{ "os", "kernel", { NULL }, { "" }, true },
	{ "os", "initrd", { NULL }, { "" }, true },
	{ "os", "cmdline", { NULL }, { "" }, true },
	{ "features", "gic", { NULL }, { "@version" }, false },
	{ "features", "ras", { NULL }, { "@state" }, true },
	{ "", "cpu", { NULL }, { "@mode", "topology@sockets", "topology@cores", "topology@threads", "topology@clusters" }, true },
	{ "cpu/numa", "cell", { "@id" }, { "@cpus", "@memory", "distances/sibling@value" }, true },
	{ "memoryBacking/hugepages", "page", { "@nodeset" }, { "@size", "@unit" }, true },
	{ "memoryBacking", "locked", { NULL }, { "" }, true },
	{ "cputune", "vcpupin", { "@vcpu" }, { "@cpuset" }, true },
	{ "cputune", "emulatorpin", { NULL }, { "@cpuset" }, true },
	{ "numatune", "memnode", { "@cellid" }, { "@mode", "@nodeset" }, true },
	{ "devices", "disk", { "target@dev" }, { "@type", "driver@type", "source@file", "source@pool", "source@volume", "target@bus", "readonly", "serial" }, true },
	{ "devices", "interface", { "mac@address" }, { "@type", "source@bridge", "source@dev", "model@type" }, true },
	{ "devices", "controller", { "@type", "@index" }, { "@model", "pcihole64", "target@busNr", "target/node" }, false },
	{ "devices", "hostdev", { "source/address@domain", "source/address@bus", "source/address@slot", "source/address@function" },
	  { "@managed", "driver@model", "driver@iommufd", "rom@bar", "acpi@nodeset", "address@bus" }, true },
	{ "devices", "iommu", { "driver@pciBus" },
	  { "@model", "driver@accel", "driver@cmdqv", "driver@ats", "driver@ril", "driver@ssidsize", "driver@oas" }, true },
	{ "commandline", "arg", { NULL }, { "@value" }, true },
	{ "metadata/vm", "owner", { NULL }, { "@cluster", "@vm", "@tenant", "@rack", "@tray", "@generation" }, true },
	{ "metadata/vm", "nvlink", { NULL }, { "@partition" }, true },
	{ "metadata/vm", "ib", { NULL }, { "@pkey" }, true },
};

struct compare {
	rk_xnode *wanted, *kept;
	struct rk_arena *arena;
	struct {
		const char **items;
		size_t n, cap;
	} found; /* one line per difference */
};

static void differ(struct compare *c, const char *where, const char *wanted, const char *kept)
{
	struct rk_str line RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_addf(&line, "%s: wanted ", where);
	rk_str_add_escaped(&line, wanted ? wanted : "none", strnlen(wanted ? wanted : "none", 80));
	rk_str_add(&line, ", kept ");
	rk_str_add_escaped(&line, kept ? kept : "none", strnlen(kept ? kept : "none", 80));
	*rk_vec_push(&c->found) = rk_arena_strdup(c->arena, rk_str_text(&line));
}

/* The message names the first differences, the details name all. */
static int report(const struct compare *c, struct rk_err *err)
{
	struct rk_str list RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < c->found.n && i < 8; i++)
		rk_str_addf(&list, "%s%s", i ? "; " : "", c->found.items[i]);
	if (c->found.n > 8)
		rk_str_addf(&list, "; and %zu more", c->found.n - 8);
	int rc = rk_err_set(err, RK_FAILED, "the host kept another domain than was defined: %s", rk_str_text(&list));
	rk_err_hint(err, "its libvirt does not know these elements: a newer one is needed");
	for (size_t i = 0; i < c->found.n; i++)
		rk_err_detail(err, "%s", c->found.items[i]);
	return rc;
}

static rk_xnode *find_parent(rk_xnode *root, const char *path, struct rk_arena *arena)
{
	for (size_t n; root && *path; path += n + (path[n] == '/')) {
		n = strcspn(path, "/");
		root = rk_xchild(root, rk_arena_strndup(arena, path, n));
	}
	return root;
}

/* Name of an element for the operator, and the way its twin is found. */
static const char *label(const struct rule *rule, rk_xnode *node, size_t place, struct rk_arena *arena)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_addf(&text, "%s%s%s", rule->parent, *rule->parent ? "/" : "", rule->element);
	for (size_t i = 0; i < RK_ARRAY_SIZE(rule->key) && rule->key[i]; i++) {
		const char *value = rk_xget(node, rule->key[i], arena);
		rk_str_addf(&text, "%s%s", i ? ":" : " ", value ? value : "-");
	}
	if (!rule->key[0] && place)
		rk_str_addf(&text, " %zu", place + 1);
	return rk_arena_strdup(arena, rk_str_text(&text));
}

/* The elements of a rule on one side, found by their label. */
struct side {
	struct {
		struct labelled {
			rk_xnode *node;
			const char *label;
		} *items;
		size_t n, cap;
	} all;
	struct rk_map *at; /* label -> place in all; the first of equal ones */
};

static void read_side(struct side *side, const struct rule *rule, rk_xnode *parent, struct rk_arena *arena)
{
	size_t place = 0;

	*side = (struct side){ .at = rk_map_new() };
	for (rk_xnode *it = rk_xchild(parent, rule->element); it; it = rk_xnext(it, rule->element)) {
		const char *name = label(rule, it, place, arena);
		rk_map_add(side->at, name, place++, NULL);
		*rk_vec_push(&side->all) = (struct labelled){ it, name };
	}
}

static void free_side(struct side *side)
{
	rk_map_free(side->at);
	free(side->all.items);
}

/* Present for flags such as <readonly/>, else the text or attribute; sizes with a unit in KiB, as libvirt writes them back. */
static const char *value_of(rk_xnode *node, const char *path, struct rk_arena *arena)
{
	static const struct {
		const char *unit;
		uint64_t kib;
	} units[] = { { "KiB", 1 }, { "MiB", 1024 }, { "GiB", 1024 * 1024 } };
	const char *text = rk_xget(node, path, arena), *unit = *path && strchr(path, '@') ? NULL : rk_xget(node, "@unit", arena);
	uint64_t n;

	if (!text || *path)
		return text;
	for (size_t i = 0; unit && i < RK_ARRAY_SIZE(units); i++)
		if (rk_streq(unit, units[i].unit) && rk_parse_u64(text, &n) && n <= UINT64_MAX / units[i].kib)
			return rk_arena_printf(arena, "%llu KiB", (unsigned long long)(n * units[i].kib));
	return text;
}

static void compare_element(struct compare *c, const struct rule *rule, const char *where, rk_xnode *wanted, rk_xnode *kept)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(rule->values) && rule->values[i]; i++) {
		const char *path = rule->values[i], *a = value_of(wanted, path, c->arena), *b = value_of(kept, path, c->arena);
		/* What racksh did not ask for is the host's own to fill in. */
		if (a && !rk_streq(a, b))
			differ(c, *path ? rk_arena_printf(c->arena, "%s %s", where, path) : where, *a ? a : "set", b);
	}
}

static void compare_rule(struct compare *c, const struct rule *rule)
{
	struct side wanted, kept;
	size_t twin;

	read_side(&wanted, rule, find_parent(c->wanted, rule->parent, c->arena), c->arena);
	read_side(&kept, rule, find_parent(c->kept, rule->parent, c->arena), c->arena);
	for (size_t i = 0; i < wanted.all.n; i++)
		if (rk_map_get(kept.at, wanted.all.items[i].label, &twin))
			compare_element(c, rule, wanted.all.items[i].label, wanted.all.items[i].node, kept.all.items[twin].node);
		else
			differ(c, wanted.all.items[i].label, "set", NULL);
	for (size_t i = 0; rule->exact && i < kept.all.n; i++)
		if (!rk_map_get(wanted.at, kept.all.items[i].label, NULL))
			differ(c, kept.all.items[i].label, NULL, "set");
	free_side(&wanted);
	free_side(&kept);
}

int rk_domain_xml_compare(const char *wanted, const char *kept, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	rk_xml *a RK_CLEANUP_XML = NULL, *b RK_CLEANUP_XML = NULL;
	struct compare c = { .arena = arena };
	int rc = rk_xml_parse("the wanted domain", wanted, &a, err);

	if (!rc)
		rc = rk_xml_parse("the domain that the host kept", kept, &b, err);
	if (rc)
		return rc;
	c.wanted = rk_xroot(a);
	c.kept = rk_xroot(b);
	if (!rk_streq(rk_xget(c.wanted, "@type", arena), rk_xget(c.kept, "@type", arena)))
		differ(&c, "domain type", rk_xget(c.wanted, "@type", arena), rk_xget(c.kept, "@type", arena));
	for (size_t i = 0; i < RK_ARRAY_SIZE(rules); i++)
		compare_rule(&c, &rules[i]);
	if (c.found.n)
		rc = report(&c, err);
	free(c.found.items);
	return rc;
}

bool rk_domain_xml_owner(const char *xml, struct rk_arena *arena, const char **ret_cluster, const char **ret_vm, int *ret_generation)
{
	rk_xml *doc RK_CLEANUP_XML = NULL;
	uint64_t generation;

	if (rk_xml_part(xml, "metadata", &doc))
		return false;
	rk_xnode *vm = rk_xchild(rk_xroot(doc), "vm");
	while (vm && !rk_streq(rk_xns_uri(vm), RK_DOMAIN_NS))
		vm = rk_xnext(vm, "vm");
	rk_xnode *owner = rk_xchild(vm, "owner");
	const char *cluster = rk_xget(owner, "@cluster", arena), *name = rk_xget(owner, "@vm", arena), *text = rk_xget(owner, "@generation", arena);
	if (!cluster || !name || !text || !rk_parse_u64(text, &generation) || generation > INT32_MAX)
		return false;
	*ret_cluster = cluster;
	*ret_vm = name;
	*ret_generation = (int)generation;
	return true;
}
