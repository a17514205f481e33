/* InfiniBand partitions through UFM's REST interface (field/infiniband.md section 4). UFM answers 200 before the effect, gives {} for a key that
 * it does not have, deletes a partition with its last GUID, and adds full members unless told otherwise: everything is read back, and members
 * are added before others are removed. */
#include <pthread.h>
#include <string.h>

#include "inventory/base/map.h"
#include "provision/drivers/ufm_impl.h"

const struct rk_fabric *rk_ufm_fabric(const struct ufm *ufm, int fabric)
{
	return &ufm->ib.site->fabrics[fabric];
}

static bool has_host(const struct rk_ib *ib, int fabric)
{
	return ib->site->fabrics[fabric].manager.n_ssh > 0;
}

static struct rk_ib_ssh *host(struct rk_ib *ib, int fabric)
{
	return &((struct ufm *)ib)->fabrics[fabric].ssh;
}

int rk_ufm_finish(struct ufm *ufm, int fabric, int rc, struct rk_err *err)
{
	pthread_mutex_unlock(&ufm->fabrics[fabric].lock);
	if (rc != 0 && rc != RK_CANCELLED)
		rk_err_while(err, "fabric \"%s\"", rk_ufm_fabric(ufm, fabric)->name);
	return rc;
}

/* --- calls --------------------------------------------------------------------------------------------------------------------- */

int rk_ufm_call(struct ufm *ufm, int fabric, const char *method, const char *path, const char *body, struct rk_rest_reply *reply, struct rk_json **ret,
		struct rk_err *err)
{
	static const struct rk_rest_base base = { "/ufmRest", "/ufmRestV3", RK_REST_TOKEN_BASIC };
	const struct rk_rest_request request = { .method = method, .path = path, .body = body };
	struct rk_driver_env env = ufm->env;

	env.site = ufm->ib.site;
	return rk_rest_manager_call(&ufm->fabrics[fabric].rest, &env, &rk_ufm_fabric(ufm, fabric)->manager, &base, &request, reply, ret, err);
}

static int get(struct ufm *ufm, int fabric, const char *path, struct rk_json **ret, struct rk_err *err)
{
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;
	int rc = rk_ufm_call(ufm, fabric, "GET", path, NULL, &reply, ret, err);

	if (rc == 0 && !*ret)
		rc = rk_err_set(err, RK_UNREACHABLE, "UFM's answer to %s is no JSON", path);
	return rc;
}

bool rk_ufm_managed(const struct rk_fabric *f, uint64_t pkey)
{
	return pkey >= f->pkey_first && pkey <= f->pkey_last;
}

/* --- configuration ------------------------------------------------------------------------------------------------------------- */

static int read_all(struct ufm *ufm, int fabric, struct rk_arena *arena, struct rk_ib_live **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	int rc = get(ufm, fabric, "/resources/pkeys?guids_data=true", &json, err);

	if (rc == RK_NOT_FOUND)
		rc = rk_err_set(err, RK_UNREACHABLE, "there is no list of keys at this URL: is it UFM's?");
	if (rc || (rc = rk_ufm_partitions(rk_json_root(json), arena, ret, ret_n, err)) != 0)
		return rc;
	for (size_t i = 0; i < *ret_n; i++)
		(*ret)[i].ours = rk_ufm_managed(rk_ufm_fabric(ufm, fabric), (*ret)[i].pkey);
	return 0;
}

static int ufm_list(struct rk_ib *ib, int fabric, struct rk_arena *arena, struct rk_ib_live **ret, size_t *ret_n, struct rk_err *err)
{
	struct ufm *ufm = (struct ufm *)ib;

	pthread_mutex_lock(&ufm->fabrics[fabric].lock);
	return rk_ufm_finish(ufm, fabric, read_all(ufm, fabric, arena, ret, ret_n, err), err);
}

int rk_ufm_read(struct ufm *ufm, int fabric, uint16_t pkey, struct rk_arena *arena, struct rk_ib_live *ret, bool *ret_there, struct rk_err *err)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int rc = get(ufm, fabric, rk_arena_printf(arena, "/resources/pkeys/0x%x?guids_data=true", pkey), &json, &why);

	*ret_there = false;
	*ret = (struct rk_ib_live){ .pkey = pkey };
	if (rc == RK_NOT_FOUND || (rc == 0 && rk_json_root(json)->type == RK_JOBJECT && rk_json_root(json)->n == 0))
		return 0;
	if (rc) {
		rk_err_move(err, &why);
		return rc;
	}
	*ret_there = true;
	return rk_ufm_partition(rk_json_root(json), pkey, arena, ret, err);
}

/* --- reading the fabric -------------------------------------------------------------------------------------------------------- */

static int read_ports(struct ufm *ufm, int fabric, struct rk_map *active, struct rk_err *err)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	int rc = get(ufm, fabric, "/resources/ports?sys_type=Computer", &json, err);

	return rc ? rc : rk_ufm_ports(rk_json_root(json), active, err);
}

static void port_keys(const struct rk_ib_live *parts, size_t n, struct rk_arena *arena, struct rk_ib_port *port)
{
	port->pkeys = rk_arena_array(arena, n + 1, sizeof(*port->pkeys));
	port->pkeys[port->n_pkeys++] = RK_PKEY_DEFAULT;
	for (size_t i = 0; i < n; i++) {
		const struct rk_ib_member *m = rk_ufm_member(parts[i].members, parts[i].n_members, port->guid);
		if (m && parts[i].pkey == RK_PKEY_DEFAULT)
			port->pkeys[0] = (uint16_t)(RK_PKEY_DEFAULT | (m->full ? 0x8000 : 0));
		else if (m)
			port->pkeys[port->n_pkeys++] = (uint16_t)(parts[i].pkey | (m->full ? 0x8000 : 0));
	}
	port->known = true;
}

/* Without a host to ask the ports from, what UFM says it gave them is all there is. */
static int believed_tables(struct ufm *ufm, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err)
{
	struct rk_map *active RK_CLEANUP_MAP = rk_map_new();
	struct rk_ib_live *parts;
	size_t n_parts;
	int rc = read_all(ufm, fabric, arena, &parts, &n_parts, err);

	if (rc == 0)
		rc = read_ports(ufm, fabric, active, err);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		size_t is = 0;
		ret[i] = (struct rk_ib_port){ .guid = guids[i] };
		if (rk_map_get_u64(active, guids[i], &is) && is) {
			port_keys(parts, n_parts, arena, &ret[i]);
			continue;
		}
		ret[i].down = true;
		ret[i].why = "UFM does not see the port active: its link is down";
	}
	return rc;
}

static int ufm_tables(struct rk_ib *ib, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err)
{
	struct ufm *ufm = (struct ufm *)ib;

	if (has_host(ib, fabric))
		return rk_ib_ssh_tables(host(ib, fabric), guids, n, arena, ret, err);
	pthread_mutex_lock(&ufm->fabrics[fabric].lock);
	return rk_ufm_finish(ufm, fabric, believed_tables(ufm, fabric, guids, n, arena, ret, err), err);
}

static int needs_host(const struct rk_ib *ib, int fabric, const char *what, struct rk_err *err)
{
	rk_err_set(err, RK_NOT_FOUND, "fabric \"%s\": %s are read with the tools of a host in the fabric, and the site file names none", ib->site->fabrics[fabric].name,
		   what);
	rk_err_hint(err, "add \"ssh\" (the UFM server, or any host with infiniband-diags) to the fabric");
	return RK_NOT_FOUND;
}

static int ufm_discover(struct rk_ib *ib, int fabric, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	return has_host(ib, fabric) ? rk_ib_ssh_discover(host(ib, fabric), arena, ret, err) : needs_host(ib, fabric, "cables", err);
}

static int ufm_paths(struct rk_ib *ib, int fabric, struct rk_ib_path *paths, size_t n, struct rk_arena *arena, struct rk_err *err)
{
	return has_host(ib, fabric) ? rk_ib_ssh_paths(host(ib, fabric), paths, n, arena, err) : needs_host(ib, fabric, "paths", err);
}

static int ufm_counters(struct rk_ib *ib, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_reading *ret, struct rk_err *err)
{
	return has_host(ib, fabric) ? rk_ib_ssh_counters(host(ib, fabric), guids, n, arena, ret, err) : needs_host(ib, fabric, "counters", err);
}

static int ufm_sharp(struct rk_ib *ib, int fabric, uint16_t pkey, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	struct ufm *ufm = (struct ufm *)ib;
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	struct rk_str names RK_CLEANUP_STR = RK_STR_INIT;

	pthread_mutex_lock(&ufm->fabrics[fabric].lock);
	int rc = get(ufm, fabric, "/app/sharp/allocate_resources", &json, err);
	if (rc == 0)
		rc = rk_ufm_sharp(rk_json_root(json), pkey, &names, err);
	*ret = rk_arena_strdup(arena, rk_str_text(&names));
	return rk_ufm_finish(ufm, fabric, rc, err);
}

static void ufm_free(struct rk_ib *ib)
{
	struct ufm *ufm = (struct ufm *)ib;

	for (size_t i = 0; i < ufm->n_fabrics; i++) {
		rk_rest_manager_close(&ufm->fabrics[i].rest);
		rk_ib_ssh_clear(&ufm->fabrics[i].ssh);
		pthread_mutex_destroy(&ufm->fabrics[i].lock);
	}
	free(ufm->fabrics);
	free(ufm);
}

static const struct rk_ib_ops ops = { ufm_list, rk_ufm_set, ufm_tables, ufm_discover, ufm_paths, ufm_counters, ufm_sharp, ufm_free };

int rk_ib_ufm(const struct rk_driver_env *env, struct rk_ib **ret, struct rk_err *err)
{
	struct ufm *ufm = rk_xcalloc(1, sizeof(*ufm));

	(void)err;
	ufm->ib = (struct rk_ib){ &ops, env->site };
	ufm->env = *env;
	ufm->n_fabrics = env->site->n_fabrics;
	ufm->fabrics = rk_xcalloc(ufm->n_fabrics ? ufm->n_fabrics : 1, sizeof(*ufm->fabrics));
	for (size_t i = 0; i < ufm->n_fabrics; i++) {
		pthread_mutex_init(&ufm->fabrics[i].lock, NULL);
		rk_ib_ssh_init(&ufm->fabrics[i].ssh, &ufm->env, &ufm->ib, (int)i);
	}
	*ret = &ufm->ib;
	return 0;
}
