#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/model.h"

/* Which objects a selection is about. */
struct kind {
	const char *word;                                            /* for messages */
	size_t (*count)(const struct rk_site *site);
	const char *(*name)(const struct rk_site *site, size_t i);
	int (*tray)(const struct rk_site *site, size_t i);           /* a tray it stands on, or RK_NONE */
	int (*rack)(const struct rk_site *site, size_t i);
	int (*find)(const struct rk_site *site, const char *name);   /* by any accepted name */
};

struct context {
	const struct rk_site *site;
	const struct kind *kind;
};

static size_t count_trays(const struct rk_site *site)
{
	return site->n_trays;
}

static const char *name_tray(const struct rk_site *site, size_t i)
{
	return site->trays[i].name;
}

static int tray_tray(const struct rk_site *site, size_t i)
{
	(void)site;
	return (int)i;
}

static int rack_tray(const struct rk_site *site, size_t i)
{
	return site->trays[i].rack;
}

static size_t count_racks(const struct rk_site *site)
{
	return site->n_racks;
}

static const char *name_rack(const struct rk_site *site, size_t i)
{
	return site->racks[i].name;
}

static int tray_rack(const struct rk_site *site, size_t i)
{
	(void)site, (void)i;
	return RK_NONE;
}

static int rack_rack(const struct rk_site *site, size_t i)
{
	(void)site;
	return (int)i;
}

static size_t count_vms(const struct rk_site *site)
{
	return site->n_vms;
}

static const char *name_vm(const struct rk_site *site, size_t i)
{
	return site->vms[i].name;
}

static int tray_vm(const struct rk_site *site, size_t i)
{
	return site->vms[i].tray;
}

static int rack_vm(const struct rk_site *site, size_t i)
{
	return site->vms[i].tray < 0 ? RK_NONE : site->trays[site->vms[i].tray].rack;
}

/* A VM is also known by the tray it is on. */
static int find_vm(const struct rk_site *site, const char *name)
{
	int vm = rk_find_vm(site, name), tray = rk_find_tray(site, name);

	return vm >= 0 || tray < 0 ? vm : site->trays[tray].vm;
}

static const struct kind trays = { "tray", count_trays, name_tray, tray_tray, rack_tray, rk_find_tray };
static const struct kind racks = { "rack", count_racks, name_rack, tray_rack, rack_rack, rk_find_rack };
static const struct kind vms = { "VM", count_vms, name_vm, tray_vm, rack_vm, find_vm };

static bool tray_has_vm_of(const struct rk_site *site, int tray, const char *group, const char *value)
{
	int vm = tray < 0 ? RK_NONE : site->trays[tray].vm;

	if (vm < 0)
		return false;
	const struct rk_cluster *c = &site->clusters[site->vms[vm].cluster];
	return rk_streq(group, "cluster") ? rk_streq(c->name, value) : rk_streq(site->tenants[c->tenant].name, value);
}

static bool rack_has_vm_of(const struct rk_site *site, int rack, const char *group, const char *value)
{
	const struct rk_rack *r = &site->racks[rack];

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		if (tray_has_vm_of(site, t, group, value))
			return true;
	return false;
}

static bool state_is(const struct context *c, size_t i, const char *value)
{
	int tray = c->kind->tray(c->site, i);

	if (c->kind == &vms && rk_streq(rk_vm_state_name(c->site->vms[i].state), value))
		return true;
	if (tray < 0)
		return c->kind == &racks && rk_streq(value, "cordoned") && c->site->racks[i].cordon;
	if (rk_streq(value, "cordoned") && c->site->trays[tray].cordon)
		return true;
	return rk_streq(rk_tray_state_name(rk_tray_state(c->site, tray)), value);
}

static bool in_group(const struct context *c, size_t i, const char *group, const char *value)
{
	int tray = c->kind->tray(c->site, i), rack = c->kind->rack(c->site, i);

	if (rk_streq(group, "all"))
		return true;
	if (rk_streq(group, "rack"))
		return rack >= 0 && rk_streq(c->site->racks[rack].name, value);
	if (rk_streq(group, "state"))
		return state_is(c, i, value);
	return tray >= 0 ? tray_has_vm_of(c->site, tray, group, value) : rack_has_vm_of(c->site, rack, group, value);
}

static int no_such(const char *word, const char *name, const char *const *names, size_t n, struct rk_err *err)
{
	const char *near = rk_near_name(name, names, n);

	rk_err_set(err, RK_NOT_FOUND, "no %s \"%s\"", word, name);
	if (strcmp(name, "all") == 0)
		rk_err_hint(err, "did you mean @all?");
	else if (near)
		rk_err_hint(err, "did you mean \"%s\"?", near);
	return RK_NOT_FOUND;
}

/* Names of a whole array of the site, for hints. */
#define NAMES_OF(array, count, names)                     \
	for (size_t i_ = 0; i_ < (count); i_++)           \
		(names)[i_] = (array)[i_].name

/* Does the object that a group names exist? */
static int check_value(const struct rk_site *site, const char *group, const char *value, struct rk_err *err)
{
	size_t most = site->n_racks + site->n_clusters + site->n_tenants, n = 0;
	const char **names RK_CLEANUP_FREE = rk_xcalloc(most, sizeof(*names));

	if (rk_streq(group, "rack") && rk_find_rack(site, value) < 0)
		NAMES_OF(site->racks, n = site->n_racks, names);
	else if (rk_streq(group, "cluster") && rk_find_cluster(site, value) < 0)
		NAMES_OF(site->clusters, n = site->n_clusters, names);
	else if (rk_streq(group, "tenant") && rk_find_tenant(site, value) < 0)
		NAMES_OF(site->tenants, n = site->n_tenants, names);
	else
		return 0;
	return no_such(group, value, names, n, err);
}

static int check_group(const struct rk_site *site, const char *group, const char *value, struct rk_err *err)
{
	static const char *const words[] = { "all", "rack", "cluster", "tenant", "state" };
	static const char *const states[] = { "free",	 "allocated", "cordoned", "spare",  "faulty", "offline",
					      "planned", "building",  "running",  "stopped", "failed", "unknown" };
	size_t w = 0;

	while (w < RK_ARRAY_SIZE(words) && strcmp(words[w], group) != 0)
		w++;
	if (w == RK_ARRAY_SIZE(words) || (w == 0) != !value) {
		rk_err_set(err, RK_INVALID, "unknown group \"@%s%s%s\"", group, value ? ":" : "", value ? value : "");
		rk_err_hint(err, "groups are @all, @rack:R, @cluster:C, @tenant:T, @state:S");
		return RK_INVALID;
	}
	if (!rk_streq(group, "state"))
		return check_value(site, group, value, err);
	for (size_t i = 0; i < RK_ARRAY_SIZE(states); i++)
		if (strcmp(states[i], value) == 0)
			return 0;
	no_such("state", value, states, RK_ARRAY_SIZE(states), err);
	if (err)
		err->rc = RK_INVALID;
	return RK_INVALID;
}

static int resolve_group(void *ctx, const char *text, struct rk_arena *arena, struct rk_nodeset *ret, struct rk_err *err)
{
	const struct context *c = ctx;
	const char *colon = strchr(text, ':');
	const char *group = colon ? rk_arena_strndup(arena, text, (size_t)(colon - text)) : text;
	const char *value = colon ? colon + 1 : NULL;
	size_t n = c->kind->count(c->site);
	int rc = check_group(c->site, group, value, err);

	if (rc)
		return rc;
	ret->names = rk_arena_array(arena, n, sizeof(char *));
	ret->n = 0;
	for (size_t i = 0; i < n; i++)
		if (in_group(c, i, group, value))
			ret->names[ret->n++] = c->kind->name(c->site, i);
	return 0;
}

static int not_found(const struct context *c, const char *name, struct rk_err *err)
{
	size_t n = c->kind->count(c->site);
	const char **names RK_CLEANUP_FREE = rk_xcalloc(n, sizeof(*names));

	for (size_t i = 0; i < n; i++)
		names[i] = c->kind->name(c->site, i);
	return no_such(c->kind->word, name, names, n, err);
}

/* Marks what the selection names with `mark`. */
static int mark(const struct context *c, const char *selection, char *marks, char value, struct rk_arena *arena, struct rk_err *err)
{
	struct rk_nodeset set = { 0 };
	int rc = rk_nodeset_parse(selection, resolve_group, (void *)c, arena, &set, err);

	/* Judged by the caller: leaving out nobody is no error, selecting nobody is one. */
	if (rc == RK_NOT_FOUND && set.names) {
		rk_err_clear(err);
		return 0;
	}
	for (size_t i = 0; !rc && i < set.n; i++) {
		int at = c->kind->find(c->site, set.names[i]);
		if (at < 0)
			return not_found(c, set.names[i], err);
		marks[at] = value;
	}
	return rc;
}

static int select_kind(const struct rk_site *site, const struct kind *kind, const char *selection, const char *except, struct rk_arena *arena,
		       int **ret, size_t *ret_n, struct rk_err *err)
{
	const struct context c = { site, kind };
	size_t n = kind->count(site), found = 0;
	char *marks RK_CLEANUP_FREE = rk_xcalloc(n + 1, 1);
	int rc = mark(&c, selection, marks, 1, arena, err);

	if (!rc && except)
		rc = mark(&c, except, marks, 0, arena, err);
	if (rc)
		return rc;
	int *out = rk_arena_array(arena, n, sizeof(*out));
	for (size_t i = 0; i < n; i++)
		if (marks[i])
			out[found++] = (int)i;
	if (!found)
		return rk_err_set(err, RK_NOT_FOUND, "the selection \"%s\" names no %s", selection, kind->word);
	*ret = out;
	*ret_n = found;
	return 0;
}

int rk_select_trays(const struct rk_site *site, const char *selection, const char *except, struct rk_arena *arena, int **ret, size_t *ret_n,
		    struct rk_err *err)
{
	return select_kind(site, &trays, selection, except, arena, ret, ret_n, err);
}

int rk_select_racks(const struct rk_site *site, const char *selection, const char *except, struct rk_arena *arena, int **ret, size_t *ret_n,
		    struct rk_err *err)
{
	return select_kind(site, &racks, selection, except, arena, ret, ret_n, err);
}

int rk_select_vms(const struct rk_site *site, const char *selection, const char *except, struct rk_arena *arena, int **ret, size_t *ret_n,
		  struct rk_err *err)
{
	return select_kind(site, &vms, selection, except, arena, ret, ret_n, err);
}
