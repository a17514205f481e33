#include <string.h>

#include "inventory/base/json.h"
#include "provision/export.h"
#include "vmspec/vmspec.h"

/* JSON is YAML: Ansible's yaml plugin reads it, and so does everything else. */

/* Names of groups are identifiers. */
static void group_key(struct rk_jw *w, const char *kind, const char *name)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("%s_%s", kind, name);

	for (char *c = key; *c; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')))
			*c = '_';
	rk_jw_key(w, key);
}

static void pair(struct rk_jw *w, const char *key, const char *value)
{
	if (!value)
		return;
	rk_jw_key(w, key);
	rk_jw_str(w, value);
}

static void number(struct rk_jw *w, const char *key, int value)
{
	if (!value)
		return;
	rk_jw_key(w, key);
	rk_jw_i64(w, value);
}

/* spec.ssh.user; in the arena, NULL: none. */
static const char *user_of(const struct rk_cluster *c, struct rk_arena *arena)
{
	struct rk_spec *spec;

	return c->spec && rk_spec_parse(c->name, c->spec, strlen(c->spec), arena, &spec, NULL) == 0 ? spec->ssh.user : NULL;
}

static void tray_host(struct rk_jw *w, const struct rk_site *site, const struct rk_tray *t)
{
	pair(w, "ansible_host", t->ssh_host && *t->ssh_host ? t->ssh_host : t->name);
	pair(w, "ansible_user", t->ssh.user);
	number(w, "ansible_port", t->ssh.port);
	number(w, "racksh_slot", t->slot);
	pair(w, "racksh_rack", site->racks[t->rack].name);
	pair(w, "racksh_state", rk_tray_state_name(rk_tray_state(site, (int)(t - site->trays))));
}

static void vm_host(struct rk_jw *w, const struct rk_site *site, const struct rk_vm *vm, const char *user)
{
	pair(w, "ansible_host", vm->address);
	pair(w, "ansible_user", user);
	number(w, "ansible_port", vm->ssh_port);
	pair(w, "racksh_tray", site->trays[vm->tray].name);
	pair(w, "racksh_rack", site->racks[site->trays[vm->tray].rack].name);
	pair(w, "racksh_cluster", site->clusters[vm->cluster].name);
}

static void hosts(struct rk_jw *w, const struct rk_export *e, const char *user)
{
	rk_jw_key(w, "hosts");
	rk_jw_object(w);
	for (size_t b = 0; b < e->n; b++)
		for (size_t i = 0; i < e->blocks[b].n; i++) {
			const struct rk_export_node *n = &e->blocks[b].nodes[i];
			if (n->tray < 0)
				continue;
			rk_jw_key(w, n->name);
			rk_jw_object(w);
			if (n->vm >= 0)
				vm_host(w, e->site, &e->site->vms[n->vm], user);
			else
				tray_host(w, e->site, &e->site->trays[n->tray]);
			rk_jw_end(w);
		}
	rk_jw_end(w);
}

static bool belongs(const struct rk_site *site, const struct rk_export_node *n, int cluster)
{
	int vm = n->tray < 0 ? RK_NONE : n->vm >= 0 ? n->vm : site->trays[n->tray].vm;

	return vm >= 0 && site->vms[vm].cluster == cluster;
}

/* A group of those nodes: of one block (cluster < 0) or of one cluster. */
static void members(struct rk_jw *w, const struct rk_export *e, const struct rk_export_block *block, int cluster)
{
	rk_jw_object(w);
	rk_jw_key(w, "hosts");
	rk_jw_object(w);
	for (size_t b = 0; b < e->n; b++)
		for (size_t i = 0; i < e->blocks[b].n; i++) {
			const struct rk_export_node *n = &e->blocks[b].nodes[i];
			if (n->tray < 0 || (block ? block != &e->blocks[b] : !belongs(e->site, n, cluster)))
				continue;
			rk_jw_key(w, n->name);
			rk_jw_object(w);
			rk_jw_end(w);
		}
	rk_jw_end(w);
	rk_jw_end(w);
}

void rk_export_ansible(const struct rk_export *e, struct rk_str *out)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_jw w;

	rk_jw_init(&w, out, 2);
	rk_jw_object(&w);
	rk_jw_key(&w, "all");
	rk_jw_object(&w);
	hosts(&w, e, e->cluster >= 0 ? user_of(&e->site->clusters[e->cluster], arena) : NULL);
	rk_jw_key(&w, "children");
	rk_jw_object(&w);
	for (size_t b = 0; b < e->n; b++) {
		group_key(&w, "rack", e->blocks[b].name);
		members(&w, e, &e->blocks[b], RK_NONE);
	}
	for (size_t c = 0; c < e->site->n_clusters; c++)
		if (e->cluster < 0 || (size_t)e->cluster == c) {
			group_key(&w, "cluster", e->site->clusters[c].name);
			members(&w, e, NULL, (int)c);
		}
	rk_jw_end(&w);
	rk_jw_end(&w);
	rk_jw_end(&w);
	rk_str_addc(out, '\n');
}
