#include "inventory/tray_identity.h"

#include <string.h>

#include "inventory/base/diag.h"
#include "inventory/base/map.h"

struct reader {
	struct rk_diags *diags;
	struct rk_arena *arena;
	struct rk_map *seen;
};

#define FIELDS(...) (const struct rk_jfield[]){ __VA_ARGS__ }, RK_ARRAY_SIZE(((const struct rk_jfield[]){ __VA_ARGS__ }))

static const char *text_of(const struct reader *r, const struct rk_jnode *node)
{
	return rk_arena_strdup(r->arena, rk_jstr(node));
}

static uint64_t guid_of(struct reader *r, const struct rk_jnode *node)
{
	uint64_t v = 0;

	if (!rk_jstr(node))
		return 0;
	if (!rk_starts_with(node->text, "0x") || strlen(node->text) > 18 || !rk_parse_u64(node->text, &v) || !v)
		rk_diag_at(r->diags, node, RK_AT_VALUE, "\"%s\" is no 64-bit identity", node->text);
	else if (!rk_map_add_u64(r->seen, v, 0, NULL))
		rk_diag_at(r->diags, node, RK_AT_VALUE, "GUID \"%s\" is used twice", node->text);
	return v;
}

/* Position of an entry, or -1 when it is out of range. */
static int position(struct reader *r, const struct rk_jnode *node, const char *key, int max)
{
	uint64_t v;
	const struct rk_jnode *at = rk_jget(node, key);

	if (!at)
		return -1;
	if (rk_ju64(at, &v) && v < (uint64_t)max)
		return (int)v;
	rk_diag_at(r->diags, at, RK_AT_VALUE, "\"%s\" must be a number from 0 to %d", key, max - 1);
	return -1;
}

static void read_gpu(struct reader *r, const struct rk_jnode *node, struct rk_tray_identity *ret)
{
	if (!rk_diag_fields(r->diags, node, "an entry of \"gpus\"",
			    FIELDS({ "index", RK_JNUMBER, true }, { "fabricGuid", RK_JSTRING, true }, { "serial", RK_JSTRING, false }, { "uuid", RK_JSTRING, false },
				   { "moduleId", RK_JNUMBER, false }, { "pci", RK_JSTRING, false })))
		return;
	int at = position(r, node, "index", RK_GPUS_MAX);
	uint64_t guid = guid_of(r, rk_jget(node, "fabricGuid"));
	if (at < 0)
		return;
	ret->gpus[at].guid = guid;
	ret->gpus[at].serial = text_of(r, rk_jget(node, "serial"));
	ret->gpus[at].uuid = text_of(r, rk_jget(node, "uuid"));
}

static void read_port(struct reader *r, const struct rk_jnode *node, struct rk_tray_identity *ret)
{
	if (!rk_diag_fields(r->diags, node, "an entry of \"hcas\"",
			    FIELDS({ "rail", RK_JNUMBER, true }, { "portGuid", RK_JSTRING, true }, { "pci", RK_JSTRING, false }, { "fabric", RK_JSTRING, false })))
		return;
	int at = position(r, node, "rail", RK_RAILS_MAX);
	uint64_t guid = guid_of(r, rk_jget(node, "portGuid"));
	if (at >= 0)
		ret->ports[at] = guid;
}

int rk_tray_identity_parse(const char *path, const char *text, size_t len, struct rk_arena *arena, struct rk_tray_identity *ret, struct rk_err *err)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	struct rk_diags diags RK_CLEANUP_DIAGS = RK_DIAGS_INIT(path);
	struct rk_map *seen RK_CLEANUP_MAP = rk_map_new();
	struct reader r = { &diags, arena, seen };
	int rc = rk_json_parse(path, text, len, &json, err);

	if (rc)
		return rc;
	*ret = (struct rk_tray_identity){ 0 };
	const struct rk_jnode *root = rk_json_root(json);
	if (rk_diag_fields(&diags, root, "the identity of a tray", FIELDS({ "serial", RK_JSTRING, true }, { "gpus", RK_JARRAY, true }, { "hcas", RK_JARRAY, true }))) {
		ret->serial = text_of(&r, rk_jget(root, "serial"));
		RK_JEACH(it, rk_jget(root, "gpus"))
			read_gpu(&r, it, ret);
		RK_JEACH(it, rk_jget(root, "hcas"))
			read_port(&r, it, ret);
	}
	return rk_diags_result(&diags, err);
}

void rk_tray_identity_of(const struct rk_site *site, int tray, struct rk_tray_identity *ret)
{
	const struct rk_tray *t = &site->trays[tray];

	*ret = (struct rk_tray_identity){ .serial = t->serial };
	for (int g = 0; g < t->n_gpus; g++) {
		ret->gpus[g].guid = site->gpus[t->first_gpu + g].fabric_guid;
		ret->gpus[g].serial = site->gpus[t->first_gpu + g].serial;
		ret->gpus[g].uuid = site->gpus[t->first_gpu + g].uuid;
	}
	for (int h = 0; h < t->n_hcas; h++)
		ret->ports[h] = site->hcas[t->first_hca + h].port_guid;
}

int rk_tray_identity_complete(const struct rk_site *site, int tray, const struct rk_tray_identity *identity, struct rk_err *err)
{
	const struct rk_tray *t = &site->trays[tray];

	for (int g = 0; g < t->n_gpus; g++)
		if (!identity->gpus[g].guid)
			return rk_err_set(err, RK_INVALID, "the fabric GUID of GPU %d of tray \"%s\" is not told", g, t->name);
	for (int h = 0; h < t->n_hcas; h++)
		if (!identity->ports[h])
			return rk_err_set(err, RK_INVALID, "the port GUID of rail %d of tray \"%s\" is not told", h, t->name);
	return 0;
}
