#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmds/common.h"

/* What a dangerous command is about, for the question: the objects by name, and how much hangs on them. */

struct subject {
	struct rk_call *call;
	const struct rk_site *site;
	struct rk_arena *arena;
	struct rk_str *out;
};

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

static size_t gpus_of(const struct rk_site *site, const int *vms, size_t n)
{
	size_t gpus = 0;

	for (size_t i = 0; i < n; i++)
		gpus += site->vms[vms[i]].tray >= 0 ? (size_t)site->trays[site->vms[vms[i]].tray].n_gpus : 0;
	return gpus;
}

static int about_cluster(struct subject *s, const char *value, struct rk_err *err)
{
	int at, *vms, rc = rk_get_cluster(s->call, value, &at, err);

	if (rc)
		return rc;
	const struct rk_cluster *c = &s->site->clusters[at];
	vms = rk_arena_array(s->arena, (size_t)c->n_vms, sizeof(*vms));
	for (int i = 0; i < c->n_vms; i++)
		vms[i] = c->first_vm + i;
	size_t gpus = gpus_of(s->site, vms, (size_t)c->n_vms);
	rk_str_addf(s->out, " (%d VM%s, %zu GPUs of %s)", c->n_vms, plural((size_t)c->n_vms), gpus, s->site->tenants[c->tenant].name);
	return 0;
}

static int about_vms(struct subject *s, const char *value, struct rk_err *err)
{
	int *vms;
	size_t n;
	int rc = rk_select_vms(s->site, value, s->call->except, s->arena, &vms, &n, err);

	if (rc)
		return rc;
	const char **names = rk_arena_array(s->arena, n, sizeof(*names));
	for (size_t i = 0; i < n; i++)
		names[i] = s->site->vms[vms[i]].name;
	rk_str_addf(s->out, " (%zu VM%s: %s, %zu GPUs)", n, plural(n), rk_nodeset_fold(s->arena, names, n), gpus_of(s->site, vms, n));
	return 0;
}

static int about_trays(struct subject *s, const char *value, struct rk_err *err)
{
	int *trays;
	size_t n, vms = 0;
	int rc = rk_select_trays(s->site, value, s->call->except, s->arena, &trays, &n, err);

	for (size_t i = 0; !rc && i < n; i++)
		vms += s->site->trays[trays[i]].vm != RK_NONE;
	if (!rc)
		rk_str_addf(s->out, " (%zu tray%s, %zu VM%s on %s)", n, plural(n), vms, plural(vms), n == 1 ? "it" : "them");
	return rc;
}

/* Racks by name, or trays. */
static int about_power(struct subject *s, const char *value, struct rk_err *err)
{
	int *racks;
	size_t n;
	struct rk_str trays RK_CLEANUP_STR = RK_STR_INIT;

	if (rk_select_racks(s->site, value, NULL, s->arena, &racks, &n, NULL))
		return about_trays(s, value, err);
	for (size_t i = 0; i < n; i++)
		rk_str_addf(&trays, "%s@rack:%s", i ? "," : "", s->site->racks[racks[i]].name);
	return about_trays(s, rk_str_text(&trays), err);
}

static int about_op(struct subject *s, const char *value, struct rk_err *err)
{
	struct rk_op_row row;
	uint64_t id = 0;

	rk_parse_u64(value, &id);
	int rc = rk_store_op_get(s->call->world->store, (int64_t)id, s->arena, &row, err);
	if (!rc)
		rk_str_addf(s->out, " (%s, %s, by %s)", row.command, row.state, row.by);
	return rc;
}

static int about_tenant(struct subject *s, const char *value, struct rk_err *err)
{
	int ignored;

	return rk_get_tenant(s->call, value, &ignored, err);
}

static const struct {
	enum rk_argtype type;
	const char *noun;                /* of this noun's rows only; NULL: of all */
	int (*about)(struct subject *s, const char *value, struct rk_err *err);
} kinds[] = {
	{ RK_ARG_CLUSTER, NULL, about_cluster }, { RK_ARG_SEL_VMS, NULL, about_vms },	{ RK_ARG_SEL_TRAYS, "power", about_power },
	{ RK_ARG_TRAY, NULL, about_trays },	 { RK_ARG_TENANT, NULL, about_tenant }, { RK_ARG_OP, NULL, about_op },
	{ RK_ARG_SEL_TRAYS, NULL, about_trays },
};

static int about(struct subject *s, enum rk_argtype type, const char *value, struct rk_err *err)
{
	rk_str_addf(s->out, " %s", value);
	for (size_t i = 0; i < RK_ARRAY_SIZE(kinds); i++)
		if (kinds[i].type == type && (!kinds[i].noun || strcmp(kinds[i].noun, s->call->command->noun) == 0))
			return kinds[i].about(s, value, err);
	return 0;
}

int rk_call_subject(struct rk_call *call, struct rk_str *out, struct rk_err *err)
{
	const struct rk_command *c = call->command;
	bool stored = !(c->flags & RK_CMD_NO_STORE);
	struct subject s = { .call = call, .site = call->world->site, .arena = call->arena, .out = out };
	int rc = 0;

	rk_str_addf(out, "%s%s%s", c->noun, c->verb ? " " : "", c->verb ? c->verb : "");
	for (size_t i = 0; c->args && c->args[i].name; i++)
		for (const char **v = call->parsed->values[i]; !rc && v && *v; v++) {
			if (stored)
				rc = about(&s, c->args[i].type, *v, err);
			else
				rk_str_addf(out, " %s", *v);
		}
	return rc;
}
