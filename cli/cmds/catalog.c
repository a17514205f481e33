#include "cli/cmds/common.h"
#include "vmspec/vmspec.h"

static void version_cell(struct rk_call *call, const char *key, unsigned long version)
{
	char text[32];

	rk_version_text(version, text);
	if (version)
		rk_cell_text(call->out, key, text);
}

static void size_row(struct rk_call *call, const struct rk_size *s)
{
	unsigned long libvirt, qemu;

	rk_out_row(call->out);
	rk_cell_text(call->out, "name", s->name);
	rk_cell_number(call->out, "vcpus", s->vcpus);
	rk_cell_number(call->out, "memory_mib", (long long)s->memory_mib);
	rk_cell_number(call->out, "gpus", s->gpus);
	rk_cell_number(call->out, "hcas", s->hcas);
	rk_cell_number(call->out, "nvme", s->nvme);
	rk_cell_bool(call->out, "passthrough", s->passthrough);
	if (s->vms_per_domain)
		rk_cell_number(call->out, "vms_per_domain", s->vms_per_domain);
	if (s->capacity_multiple)
		rk_cell_number(call->out, "cloud_multiple", s->capacity_multiple);
	rk_size_needs(s, &libvirt, &qemu);
	version_cell(call, "libvirt_min", libvirt);
	version_cell(call, "qemu_min", qemu);
	rk_cell_list(call->out, "not_supported", s->not_supported, s->n_not_supported);
	rk_cell_list(call->out, "aliases", s->aliases, s->n_aliases);
	rk_cell_text(call->out, "source", s->source);
	rk_cell_text(call->out, "description", s->description);
}

static int list_sizes(struct rk_call *call, struct rk_err *err)
{
	size_t n;
	const struct rk_size **sizes = rk_sizes(call->world->site, call->arena, &n);

	(void)err;
	for (size_t i = 0; i < n; i++)
		size_row(call, sizes[i]);
	return 0;
}

static int show_size(struct rk_call *call, struct rk_err *err)
{
	const char *name = rk_call_arg(call, "SIZE");
	const struct rk_size *size = rk_size_find(call->world->site, name);
	size_t n;
	const struct rk_size **sizes = rk_sizes(call->world->site, call->arena, &n);
	const char **names = rk_arena_array(call->arena, n, sizeof(*names));

	for (size_t i = 0; i < n; i++)
		names[i] = sizes[i]->name;
	if (!size)
		return rk_no_such("size", name, names, n, err);
	size_row(call, size);
	return 0;
}

static int held_by(const struct rk_site *site, size_t tenant)
{
	int n = 0;

	for (size_t v = 0; v < site->n_vms; v++)
		n += site->clusters[site->vms[v].cluster].tenant == (int)tenant;
	return n;
}

static int list_tenants(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	(void)err;
	for (size_t i = 0; i < site->n_tenants; i++) {
		rk_out_row(call->out);
		rk_cell_text(call->out, "name", site->tenants[i].name);
		rk_cell_number(call->out, "vms", held_by(site, i));
		if (site->tenants[i].quota_vms)
			rk_cell_number(call->out, "quota_vms", site->tenants[i].quota_vms);
	}
	return 0;
}

static int add_tenant(struct rk_call *call, const void *data, struct rk_err *err)
{
	(void)data;
	return rk_store_add_tenant(call->world->store, rk_call_arg(call, "TENANT"), err);
}

static int create_tenant(struct rk_call *call, struct rk_err *err)
{
	const char *name = rk_call_arg(call, "TENANT");

	if (!rk_name_valid(name)) {
		rk_err_set(err, RK_INVALID, "\"%s\" is no valid name of a tenant", name);
		rk_err_hint(err, "names have 1 to 63 of a-z 0-9 and '-', and do not begin or end with '-'");
		return RK_INVALID;
	}
	bool there = rk_find_tenant(call->world->site, name) >= 0;
	int rc = there ? 0 : rk_in_transaction(call, add_tenant, NULL, err);
	if (!rc && call->dry_run)
		rk_out_note(call->out, there ? "tenant %s is there, nothing to do" : "would add tenant %s", name);
	return rc;
}

static int remove_tenant(struct rk_call *call, const void *data, struct rk_err *err)
{
	(void)data;
	return rk_store_remove_tenant(call->world->store, rk_call_arg(call, "TENANT"), err);
}

static int delete_tenant(struct rk_call *call, struct rk_err *err)
{
	const char *name = rk_call_arg(call, "TENANT");
	int ignored, rc = rk_get_tenant(call, name, &ignored, err);

	if (!rc)
		rc = rk_in_transaction(call, remove_tenant, NULL, err);
	if (!rc && call->dry_run)
		rk_out_note(call->out, "would remove tenant %s", name);
	return rc;
}

#define SIZE_COLUMNS(facts)                                                                                                                  \
	RK_COLUMNS({ "name", RK_COL_TEXT }, { "vcpus", RK_COL_NUMBER }, { "memory_mib", RK_COL_NUMBER }, { "gpus", RK_COL_NUMBER },             \
		   { "hcas", RK_COL_NUMBER }, { "nvme", RK_COL_NUMBER }, { "passthrough", RK_COL_BOOL }, { "vms_per_domain", RK_COL_NUMBER },       \
		   { "cloud_multiple", RK_COL_NUMBER, .wide = facts }, { "libvirt_min", RK_COL_TEXT, .wide = facts },                               \
		   { "qemu_min", RK_COL_TEXT, .wide = facts }, { "not_supported", RK_COL_LIST, .wide = facts },                                     \
		   { "aliases", RK_COL_LIST, .wide = facts }, { "source", RK_COL_TEXT, .wide = true }, { "description", RK_COL_TEXT })
#define TENANT_ARG RK_ARGS({ .name = "TENANT", .type = RK_ARG_TENANT, .required = true, .help = "name of a tenant" })

static const struct rk_command size_rows[] = {
	{ .noun = "size", .verb = "list", .summary = "list the VM sizes, the site's own last", .list = true, .columns = SIZE_COLUMNS(true), .examples = RK_EXAMPLES("size list"), .run = list_sizes },
	{ .noun = "size", .verb = "show", .summary = "show one VM size", .columns = SIZE_COLUMNS(false),
	  .description = "Facts of the family (multiples in the cloud, VMs per NVLink domain, what is not supported) are shown, never enforced. libvirt_min and qemu_min are "
			 "the first versions that can express the size. A site adds sizes with the key \"sizes\" of its site file.",
	  .args = RK_ARGS({ .name = "SIZE", .type = RK_ARG_SIZE, .required = true, .help = "name or alias of a size" }),
	  .examples = RK_EXAMPLES("size show Standard_ND128isr_GB300_v6", "size show nd64isr-gb300-v6 -o json"), .run = show_size },
};
RK_NOUN(size, "VM sizes", NULL, size_rows);

static const struct rk_command tenant_rows[] = {
	{ .noun = "tenant", .verb = "list", .summary = "list the tenants", .list = true, .examples = RK_EXAMPLES("tenant list"), .run = list_tenants,
	  .columns = RK_COLUMNS({ "name", RK_COL_TEXT }, { "vms", RK_COL_NUMBER }, { "quota_vms", RK_COL_NUMBER }) },
	{ .noun = "tenant", .verb = "show", .summary = "show what a tenant holds and may hold", .args = TENANT_ARG, .examples = RK_EXAMPLES("tenant show contoso"), .run = rk_cmd_tenant_show,
	  .columns = RK_COLUMNS({ "name", RK_COL_TEXT }, { "clusters", RK_COL_LIST }, { "vms", RK_COL_NUMBER }, { "gpus", RK_COL_NUMBER }, { "pkeys", RK_COL_NUMBER },
				{ "reservations", RK_COL_NUMBER }, { "quota_vms", RK_COL_NUMBER }, { "quota_pkeys", RK_COL_NUMBER }) },
	{ .noun = "tenant", .verb = "create", .summary = "add a tenant", .args = TENANT_ARG, .flags = RK_CMD_CHANGES | RK_CMD_STAGES, .examples = RK_EXAMPLES("tenant create adatum"), .run = create_tenant },
	{ .noun = "tenant", .verb = "delete", .summary = "remove a tenant that holds nothing", .args = TENANT_ARG, .flags = RK_CMD_CHANGES | RK_CMD_STAGES | RK_CMD_DANGEROUS,
	  .examples = RK_EXAMPLES("tenant delete fabrikam"), .run = delete_tenant },
};
RK_NOUN(tenant, "tenants", NULL, tenant_rows);
