#include <inttypes.h>
#include <string.h>

#include "cli/cmds/cluster.h"
#include "cli/cmds/common.h"
#include "inventory/base/file.h"
#include "provision/service.h"

enum { SERVERS_FILE_MAX = 1 << 20 };

static int count_ports(const struct rk_site *site, const struct rk_ib_service *s)
{
	int n = 0;

	for (size_t h = 0; h < site->n_hcas; h++)
		n += rk_ib_service_has(site, s, (int)h);
	return n;
}

static void service_row(struct rk_call *call, const struct rk_ib_service *s)
{
	const struct rk_site *site = call->world->site;
	const char **servers = rk_arena_array(call->arena, s->n_servers, sizeof(*servers)), **tenants = rk_arena_array(call->arena, s->n_tenants + 1, sizeof(*tenants));

	for (size_t i = 0; i < s->n_servers; i++)
		servers[i] = rk_arena_printf(call->arena, "0x%016" PRIx64, s->servers[i]);
	for (size_t i = 0; i < s->n_tenants; i++)
		tenants[i] = site->tenants[s->tenants[i]].name;
	rk_out_row(call->out);
	rk_cell_text(call->out, "name", s->name);
	rk_cell_text(call->out, "fabric", site->fabrics[s->fabric].name);
	rk_cell_pkey(call->out, "pkey", s->pkey);
	rk_cell_bool(call->out, "all", s->all);
	rk_cell_list(call->out, "tenants", tenants, s->n_tenants);
	rk_cell_list(call->out, "servers", servers, s->n_servers);
	rk_cell_number(call->out, "ports", count_ports(site, s));
}

static int list(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	(void)err;
	for (size_t i = 0; i < site->n_ib_services; i++)
		service_row(call, &site->ib_services[i]);
	return 0;
}

/* ---- create ------------------------------------------------------------------------------------------------------------------------------- */

/* Words between commas, blanks and ends of lines; what is behind # is a comment. ret NULL: only counts them. */
static size_t split(const char *text, struct rk_arena *arena, const char **ret)
{
	size_t n = 0;

	for (const char *p = text ? text : ""; *p;) {
		size_t len = strcspn(p, ", \t\r\n#");
		if (len && ret)
			ret[n] = rk_arena_strndup(arena, p, len);
		n += len != 0;
		p += len;
		p += *p == '#' ? strcspn(p, "\n") : strspn(p, ", \t\r\n");
	}
	return n;
}

/* --servers GUID,GUID... and --servers-file. */
static int read_servers(struct rk_call *call, struct rk_service_wish *wish, struct rk_err *err)
{
	const char *given = rk_call_arg(call, "servers"), *path = rk_call_arg(call, "servers-file");
	char *text RK_CLEANUP_FREE = NULL;
	size_t len = 0, n_given = split(given, NULL, NULL);
	int rc = path ? rk_file_read(path, SERVERS_FILE_MAX, &text, &len, err) : 0;

	if (rc)
		return rc;
	size_t n = n_given + split(text, NULL, NULL);
	const char **words = rk_arena_array(call->arena, n, sizeof(*words));
	uint64_t *guids = rk_arena_array(call->arena, n, sizeof(*guids));
	split(given, call->arena, words);
	split(text, call->arena, words + n_given);
	for (size_t i = 0; i < n; i++)
		if (!rk_parse_u64(words[i], &guids[i]) || !rk_starts_with(words[i], "0x"))
			return rk_err_set(err, RK_INVALID, "\"%s\" is no port GUID: write 0x and 16 hex digits", words[i]);
	wish->servers = guids;
	wish->n_servers = n;
	return 0;
}

static int read_tenants(struct rk_call *call, struct rk_service_wish *wish, struct rk_err *err)
{
	const char *given = rk_call_arg(call, "tenants");
	const char **names = rk_arena_array(call->arena, split(given, NULL, NULL), sizeof(*names));

	if (!given == !rk_call_flag(call, "all"))
		return rk_err_set(err, RK_INVALID, "say who has the service: one of --tenants and --all");
	if (!given)
		return 0;
	wish->n_tenants = split(given, call->arena, names);
	wish->tenants = names;
	int ignored, rc = wish->n_tenants ? 0 : rk_err_set(err, RK_INVALID, "--tenants names nobody");
	for (size_t i = 0; !rc && i < wish->n_tenants; i++)
		rc = rk_get_tenant(call, names[i], &ignored, err);
	return rc;
}

/* What the subnet manager takes as a name. */
static int check_name(const char *name, struct rk_err *err)
{
	size_t n = strlen(name);

	if (n >= 1 && n <= 63 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n && strchr("abcdefghijklmnopqrstuvwxyz", name[0]))
		return 0;
	return rk_err_set(err, RK_INVALID, "\"%s\" is no name for a service: up to 63 lower-case letters, digits and '-', a letter first", name);
}

static int read_wish(struct rk_call *call, struct rk_service_wish *wish, struct rk_err *err)
{
	const char *key = rk_call_arg(call, "pkey");
	uint64_t pkey = 0;
	int ignored, rc = check_name(wish->name, err);

	if (!rc && wish->fabric)
		rc = rk_get_fabric(call, wish->fabric, &ignored, err);
	if (!rc && key && (!rk_parse_u64(key, &pkey) || !pkey || pkey >= RK_PKEY_DEFAULT))
		rc = rk_err_set(err, RK_INVALID, "\"%s\" is no key: write it as 0x0123", key);
	wish->pkey = (long)pkey;
	if (!rc)
		rc = read_servers(call, wish, err);
	return rc ? rc : read_tenants(call, wish, err);
}

static void show_steps(struct rk_call *call, struct rk_plan *plan)
{
	rk_steps_row(call, plan);
	rk_plan_free(plan);
}

static bool handed_over(const struct rk_call *call)
{
	return !call->world->wait && call->world->detach;
}

static int try_it(struct rk_call *call, const struct rk_service_wish *wish, struct rk_err *err)
{
	struct rk_ib_service service;
	int64_t op;
	int rc = rk_service_check(call->world, wish, call->arena, &service, err);

	if (rc)
		return rc;
	show_steps(call, rk_service_create_plan(call->world->site, &service, call->arena));
	return rk_service_create(call->world, &service, &op, err);
}

static int create(struct rk_call *call, struct rk_err *err)
{
	struct rk_service_wish wish = { .name = rk_call_arg(call, "NAME"), .fabric = rk_call_arg(call, "fabric") };
	struct rk_ib_service service;
	int64_t op = 0;
	int rc = read_wish(call, &wish, err);

	if (rc)
		return rc;
	if (call->dry_run)
		return try_it(call, &wish, err);
	rc = rk_service_create_wish(call->world, &wish, call->arena, &service, &op, err);
	call->op = op;
	if (!rc)
		service_row(call, &service);
	if (!rc && handed_over(call))
		rk_out_note(call->out, "operation %" PRId64 " makes service %s: racksh op show %" PRId64, op, service.name, op);
	return rc;
}

static int delete(struct rk_call *call, struct rk_err *err)
{
	const char *name = rk_call_arg(call, "NAME");
	int64_t op = 0;
	int at, rc = rk_get_service(call, name, &at, err);

	if (rc)
		return rc;
	const struct rk_ib_service *s = &call->world->site->ib_services[at];
	if (call->dry_run)
		show_steps(call, rk_service_delete_plan(call->world->site, s, call->arena));
	rc = rk_service_delete(call->world, s, &op, err);
	if (call->dry_run)
		return rc;
	call->op = op;
	if (!rc && handed_over(call))
		rk_out_note(call->out, "operation %" PRId64 " deletes service %s: racksh op show %" PRId64, op, name, op);
	else if (!rc)
		rk_out_note(call->out, "service %s is deleted", name);
	return rc;
}

#define COLUMNS                                                                                                                                      \
	RK_COLUMNS({ "name", RK_COL_TEXT }, { "fabric", RK_COL_TEXT }, { "pkey", RK_COL_PKEY }, { "all", RK_COL_BOOL }, { "tenants", RK_COL_LIST },  \
		   { "servers", RK_COL_LIST, .wide = true }, { "ports", RK_COL_NUMBER })
#define SERVER "0x5000e60300ff0001"

static const struct rk_command rows[] = {
	{ .noun = "service", .verb = "list", .summary = "list the shared InfiniBand services", .list = true, .columns = COLUMNS, .examples = RK_EXAMPLES("service list", "service list -o json"),
	  .run = list },
	{ .noun = "service", .verb = "create", .summary = "share servers (storage) with tenants over InfiniBand", .flags = RK_CMD_CHANGES | RK_CMD_STAGES | RK_CMD_REMOTE, .columns = COLUMNS,
	  .args = RK_ARGS({ .name = "NAME", .type = RK_ARG_TEXT, .required = true, .help = "its name, also for the subnet manager" }),
	  .options = RK_ARGS({ .name = "servers", .type = RK_ARG_TEXT, .help = "port GUIDs of the servers, with commas between" },
			     { .name = "servers-file", .type = RK_ARG_FILE, .help = "the same from a file, one a line" },
			     { .name = "tenants", .type = RK_ARG_TEXT, .help = "tenants that have it, with commas between" },
			     { .name = "all", .type = RK_ARG_NONE, .help = "every tenant has it, those to come too" },
			     { .name = "fabric", .type = RK_ARG_FABRIC, .help = "which InfiniBand fabric, when there are several" },
			     { .name = "pkey", .type = RK_ARG_TEXT, .help = "key of the pool; default a free one" }),
	  .description = "A partition in which the servers are full members and the ports of tenants limited ones: these reach the servers, and not each other. VMs get the key "
			 "before they start and lose it after they stopped, whatever becomes of their clusters. `ib verify` compares it with the ports, `isolation verify` "
			 "raises the alarm when a tenant is a full member, `drift --fix` puts it right.\n\n"
			 "The key is read back from every port, the servers' too; otherwise nothing is kept. It is not at index 0 of the ports' tables, where that of the "
			 "cluster is.",
	  .examples = RK_EXAMPLES("service create storage --servers " SERVER " --all", "service create scratch --servers " SERVER " --tenants contoso -n"), .run = create },
	{ .noun = "service", .verb = "delete", .summary = "take a shared service from its servers and tenants", .flags = RK_CMD_CHANGES | RK_CMD_STAGES | RK_CMD_DANGEROUS | RK_CMD_REMOTE,
	  .args = RK_ARGS({ .name = "NAME", .type = RK_ARG_TEXT, .required = true, .help = "name of a service" }),
	  .description = "What was begun can only be finished: racksh op resume.", .run = delete },
};
RK_NOUN(service, "InfiniBand partitions that are shared: storage and the like", NULL, rows);
