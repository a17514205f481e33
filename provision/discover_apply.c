#include <string.h>

#include "provision/discover.h"

/* Proposals become an import of the changed site: the checks of an import are the checks of a discovery. */

static void apply_nvme(struct rk_site *site, struct rk_tray *t, const char *text)
{
	t->n_nvme = 0;
	for (const char *at = text; *at && t->n_nvme < RK_NVME_MAX; at += strspn(at, " ")) {
		size_t n = strcspn(at, " ");
		t->nvme[t->n_nvme++] = rk_arena_strndup(site->arena, at, n);
		at += n;
	}
}

static void apply_one(struct rk_site *site, const struct rk_proposal *p)
{
	const char *text = rk_arena_strdup(site->arena, p->text);

	switch (p->edit) {
	case RK_EDIT_SERIAL:
		site->trays[p->index].serial = text;
		break;
	case RK_EDIT_SLOT:
		site->trays[p->index].slot = (int)p->guid;
		break;
	case RK_EDIT_GPU_GUID:
		site->gpus[p->index].fabric_guid = p->guid;
		break;
	case RK_EDIT_GPU_UUID:
		site->gpus[p->index].uuid = text;
		break;
	case RK_EDIT_GPU_SERIAL:
		site->gpus[p->index].serial = text;
		break;
	case RK_EDIT_PORT_GUID:
		site->hcas[p->index].port_guid = p->guid;
		break;
	case RK_EDIT_NVME:
		apply_nvme(site, &site->trays[p->index], text);
		break;
	case RK_EDIT_CLUSTER_UUID:
		site->racks[p->index].cluster_uuid = text;
		break;
	case RK_EDIT_VERSIONS: /* kept beside the inventory: keep_versions */
	case RK_EDIT_NONE:
		break;
	}
}

static int keep_versions(struct rk_world *world, const struct rk_discovery *discovery, struct rk_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < discovery->n && !rc; i++)
		if (discovery->items[i].edit == RK_EDIT_VERSIONS)
			rc = rk_store_set_tray_versions(world->store, world->site->trays[discovery->items[i].index].name, discovery->items[i].text, err);
	return rc;
}

int rk_discover_apply(struct rk_world *world, const struct rk_discovery *discovery, size_t *ret_applied, struct rk_err *err)
{
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	size_t applied = 0;
	int64_t revision = world->site->revision;
	int rc = rk_store_snapshot(world->store, &site, err);

	/* The proposals are indexes into the snapshot that was compared. */
	if (!rc && site->revision != revision)
		rc = rk_err_set(err, RK_CONFLICT, "the store changed while the racks were read; discover again");
	for (size_t i = 0; !rc && i < discovery->n; i++) {
		apply_one(site, &discovery->items[i]);
		applied += discovery->items[i].edit != RK_EDIT_NONE;
	}
	if (rc || !applied) {
		*ret_applied = 0;
		return rc;
	}
	rk_site_seal(site);
	rc = rk_store_begin(world->store, revision, err);
	if (rc)
		return rc;
	rc = rk_store_put_site(world->store, site, err);
	if (!rc)
		rc = keep_versions(world, discovery, err);
	if (rc) {
		rk_store_rollback(world->store);
		return rk_err_while(err, "the proposals cannot be applied"), rc;
	}
	rc = rk_store_commit(world->store, err);
	if (!rc)
		*ret_applied = applied;
	return rc ? rc : rk_world_refresh(world, err);
}
