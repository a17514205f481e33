#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/steps.h"

/* Everything a step on one VM needs, from the snapshot. */
struct job {
	const struct rk_vm *vm;
	const struct rk_cluster *cluster;
	const struct rk_size *size;
	const struct rk_image *image;
	struct rk_spec *spec;
	const char *domain, *os, *seed;
	int tray;
};

static int job_of(struct rk_world *world, struct rk_step *step, struct job *j, struct rk_err *err)
{
	int vm, rc = rk_param_vm(world, step, &vm, err);

	if (rc)
		return rc;
	const struct rk_site *site = world->site;
	*j = (struct job){ .vm = &site->vms[vm], .cluster = &site->clusters[site->vms[vm].cluster], .tray = site->vms[vm].tray };
	j->size = rk_size_find(site, j->cluster->size);
	int image = rk_find_image(site, j->cluster->image);
	if (!j->size || image < 0)
		return rk_err_set(err, RK_NOT_FOUND, "the size \"%s\" or the image \"%s\" of VM \"%s\" is not known any more", j->cluster->size,
				  j->cluster->image, j->vm->name);
	j->image = &site->images[image];
	j->domain = rk_vm_domain_name(step->arena, j->vm->name);
	j->os = rk_vm_os_volume(step->arena, j->vm->name);
	j->seed = rk_vm_seed_volume(step->arena, j->vm->name);
	return rk_spec_parse("spec", j->cluster->spec, strlen(j->cluster->spec), step->arena, &j->spec, err);
}

static int split_volume(struct rk_step *step, const char *volume, const char **ret_pool, const char **ret_name, struct rk_err *err)
{
	const char *slash = strchr(volume, '/');

	if (!slash)
		return rk_err_set(err, RK_INVALID, "image volume \"%s\" names no pool", volume);
	*ret_pool = rk_arena_strndup(step->arena, volume, (size_t)(slash - volume));
	*ret_name = slash + 1;
	return 0;
}

static int preflight(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct job j;
	struct rk_hostcaps caps;
	struct rk_hv_domain domain;
	struct rk_hv_volume volume;
	const char *pool = NULL, *name = NULL;
	int rc = job_of(world, step, &j, err);

	if (!rc)
		rc = world->hv->ops->probe(world->hv, j.tray, step->arena, &caps, err);
	if (!rc)
		rc = world->hv->ops->domain_get(world->hv, j.tray, j.domain, step->arena, &domain, err);
	if (rc)
		return rc;
	if (domain.exists && (!domain.ours || !rk_streq(domain.uuid, j.vm->uuid)))
		return rk_err_set(err, RK_CONFLICT, "tray %s has a domain \"%s\" already that is not this VM's", world->site->trays[j.tray].name, j.domain);
	if (!rk_streq(caps.arch, j.image->arch))
		return rk_err_set(err, RK_INVALID, "image \"%s\" is for %s, tray %s is %s", j.image->name, j.image->arch,
				  world->site->trays[j.tray].name, caps.arch);
	if (!j.image->volume)
		return 0;
	rc = split_volume(step, j.image->volume, &pool, &name, err);
	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j.tray, pool, name, step->arena, &volume, err);
	if (!rc && !volume.exists)
		rc = rk_err_set(err, RK_NOT_FOUND, "image volume \"%s\" is not on tray %s", j.image->volume, world->site->trays[j.tray].name);
	return rc;
}

/* ---- volumes ------------------------------------------------------------------------------------------------------------------ */

static int fetch_key(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	char *key = NULL;
	int rc = rk_store_vm_host_key(world->store, rk_param(step, "vm"), &key, err);

	if (!rc && key) {
		step->data = rk_arena_strdup(step->arena, key);
		explicit_bzero(key, strlen(key));
	}
	free(key);
	return rc;
}

/* The same list in the same order on every VM of the rack: the partition's OS instances by VM number. */
static const char **imex_nodes(struct rk_world *world, struct rk_step *step, const struct job *j, size_t *ret_n)
{
	const struct rk_site *site = world->site;
	const char **nodes = rk_arena_array(step->arena, (size_t)j->cluster->n_vms, sizeof(*nodes));
	size_t n = 0;

	for (int v = j->cluster->first_vm; v < j->cluster->first_vm + j->cluster->n_vms; v++)
		if (site->trays[site->vms[v].tray].rack == site->trays[j->tray].rack && site->vms[v].address)
			nodes[n++] = site->vms[v].address;
	*ret_n = n;
	return nodes;
}

static int put_seed(struct rk_world *world, struct rk_step *step, const struct job *j, struct rk_err *err)
{
	struct rk_seed_input in = {
		.vm = j->vm->name, .cluster = j->cluster->name, .hostname = j->vm->name, .mac = j->vm->mac, .address = j->vm->address,
		.user = j->spec->ssh.user, .generation = j->vm->generation, .keys = j->spec->ssh.keys, .n_keys = j->spec->ssh.n_keys,
		.host_key_private = step->data, .host_key_public = j->vm->host_key_public,
	};
	struct rk_seed_file *files;
	size_t n, len;
	void *image RK_CLEANUP_FREE = NULL;

	if (!step->data)
		return rk_err_set(err, RK_NOT_FOUND, "the host key of VM \"%s\" is not kept any more", j->vm->name);
	rk_seed_of_site(&in, world->site);
	in.imex_nodes = imex_nodes(world, step, j, &in.n_imex_nodes);
	rk_seed_files(&in, step->arena, &files, &n);
	int rc = rk_seed_image(files, n, &image, &len, err);
	if (!rc)
		rc = world->hv->ops->volume_put(world->hv, j->tray, world->site->pool, j->seed, image, len, err);
	if (image)
		explicit_bzero(image, len);
	return rc;
}

static int volumes_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct job j;
	struct rk_hv_volume os, seed;
	int rc = job_of(world, step, &j, err);

	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j.tray, world->site->pool, j.os, step->arena, &os, err);
	if (!rc && j.image->volume && !os.exists)
		rc = world->hv->ops->volume_overlay(world->hv, j.tray, world->site->pool, j.os, j.image->volume, err);
	if (!rc)
		rc = put_seed(world, step, &j, err);
	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j.tray, world->site->pool, j.os, step->arena, &os, err);
	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j.tray, world->site->pool, j.seed, step->arena, &seed, err);
	if (!rc && ((j.image->volume && !os.exists) || !seed.exists))
		rc = rk_err_set(err, RK_FAILED, "tray %s says the volumes were made, but does not list them", world->site->trays[j.tray].name);
	return rc;
}

static int volumes_undo(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct job j;
	struct rk_hv_volume os, seed;
	int rc = job_of(world, step, &j, err);

	if (!rc)
		rc = world->hv->ops->volume_delete(world->hv, j.tray, world->site->pool, j.os, err);
	if (!rc)
		rc = world->hv->ops->volume_delete(world->hv, j.tray, world->site->pool, j.seed, err);
	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j.tray, world->site->pool, j.os, step->arena, &os, err);
	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j.tray, world->site->pool, j.seed, step->arena, &seed, err);
	if (!rc && (os.exists || seed.exists))
		rc = rk_err_set(err, RK_FAILED, "tray %s still has the volumes of VM %s", world->site->trays[j.tray].name, j.vm->name);
	return rc;
}

/* ---- the domain ----------------------------------------------------------------------------------------------------------------- */

static int domain_of(struct rk_world *world, struct rk_step *step, struct job *j, struct rk_hv_domain *domain, struct rk_err *err)
{
	int rc = job_of(world, step, j, err);

	return rc ? rc : world->hv->ops->domain_get(world->hv, j->tray, j->domain, step->arena, domain, err);
}

static int render(struct rk_world *world, struct rk_step *step, const struct job *j, struct rk_str *xml, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	struct rk_hostcaps caps;
	struct rk_hv_volume os, seed;
	struct rk_vm_input in = {
		.site = site, .size = j->size, .image = j->image, .tray = j->tray, .vm = j->vm->name, .cluster = j->cluster->name,
		.tenant = site->tenants[j->cluster->tenant].name, .uuid = j->vm->uuid, .mac = j->vm->mac, .address = j->vm->address,
		.ssh_port = j->vm->ssh_port, .generation = j->vm->generation,
		.pkey = j->cluster->ib >= 0 ? site->ib_partitions[j->cluster->ib].pkey : 0,
	};
	for (int i = j->cluster->first_nvl; i < j->cluster->first_nvl + j->cluster->n_nvl; i++)
		if (site->nvl_partitions[i].rack == site->trays[j->tray].rack)
			in.nvl_partition = site->nvl_partitions[i].id;
	int rc = world->hv->ops->probe(world->hv, j->tray, step->arena, &caps, err);
	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j->tray, site->pool, j->os, step->arena, &os, err);
	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j->tray, site->pool, j->seed, step->arena, &seed, err);
	if (rc)
		return rc;
	in.os_path = os.exists ? os.path : NULL;
	in.seed_path = seed.exists ? seed.path : NULL;
	return rk_domain_xml(&in, &caps, xml, NULL, err);
}

static int define_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_str xml RK_CLEANUP_STR = RK_STR_INIT;
	struct job j;
	const char *kept;
	int rc = job_of(world, step, &j, err);

	if (!rc)
		rc = render(world, step, &j, &xml, err);
	if (!rc)
		rc = world->hv->ops->define(world->hv, j.tray, rk_str_text(&xml), step->arena, &kept, err);
	return rc ? rc : rk_domain_xml_compare(rk_str_text(&xml), kept, err);
}

static int define_undo(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct job j;
	struct rk_hv_domain domain;
	int rc = domain_of(world, step, &j, &domain, err);

	if (rc || !domain.exists)
		return rc;
	if (!domain.ours)
		return rk_err_set(err, RK_CONFLICT, "domain \"%s\" on tray %s is not racksh's", j.domain, world->site->trays[j.tray].name);
	rc = world->hv->ops->undefine(world->hv, j.tray, j.domain, err);
	if (!rc)
		rc = domain_of(world, step, &j, &domain, err);
	if (!rc && domain.exists)
		rc = rk_err_set(err, RK_FAILED, "domain \"%s\" is still defined on tray %s", j.domain, world->site->trays[j.tray].name);
	return rc;
}

static int start_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct job j;
	struct rk_hv_domain domain;
	int rc = domain_of(world, step, &j, &domain, err);

	if (!rc)
		*ret = domain.exists && domain.running;
	return rc;
}

static int start_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct job j;
	struct rk_hv_domain domain;
	int rc = domain_of(world, step, &j, &domain, err);

	if (!rc && !domain.running)
		rc = world->hv->ops->start(world->hv, j.tray, j.domain, err);
	return rc ? rc : rk_wait_until(world, step, "the guest running", start_probe, err);
}

/* Drives hold a tenant's data once the guest ran: a tray whose drives could not be erased is not free. */
static void scrub(struct rk_world *world, struct rk_step *step, const struct job *j)
{
	RK_CLEANUP_ERR struct rk_err why = RK_ERR_INIT;

	if (j->size->passthrough && world->hv->ops->scrub(world->hv, j->tray, &why))
		step->data = rk_arena_printf(step->arena, "erase or reset failed: %s", why.message);
}

static int scrub_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	int vm, rc = rk_param_vm(world, step, &vm, err);

	if (rc || !step->data || (!undone && step->kind->undo))
		return rc;
	return rk_store_set_tray_faulty(world->store, world->site->trays[world->site->vms[vm].tray].name, step->data, err);
}

static int stop(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct job j;
	struct rk_hv_domain domain;
	int rc = domain_of(world, step, &j, &domain, err);

	if (rc)
		return rc;
	if (domain.exists && !domain.ours)
		return rk_err_set(err, RK_CONFLICT, "domain \"%s\" on tray %s is not racksh's", j.domain, world->site->trays[j.tray].name);
	if (domain.running) {
		rc = world->hv->ops->destroy(world->hv, j.tray, j.domain, err);
		if (!rc)
			rc = domain_of(world, step, &j, &domain, err);
		if (!rc && domain.running)
			rc = rk_err_set(err, RK_UNREACHABLE, "domain \"%s\" on tray %s still runs", j.domain, world->site->trays[j.tray].name);
	}
	if (!rc)
		scrub(world, step, &j);
	return rc;
}

/* ---- first contact -------------------------------------------------------------------------------------------------------------- */

static int ssh_seen(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	static const char *const argv[] = { "true", NULL };
	struct rk_ssh_result result = { .status = -1 };
	struct rk_vm_conn *conn = NULL;
	int vm, rc = rk_param_vm(world, step, &vm, err);

	if (!rc)
		rc = rk_vm_connect(world, vm, &conn, err);
	if (!rc)
		rc = rk_vm_run(conn, argv, &result, err);
	*ret = !rc && result.status == 0;
	rk_ssh_result_clear(&result);
	rk_vm_close(conn);
	return rc;
}

static int ssh_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	return rk_wait_until(world, step, "the guest's SSH with its pinned host key", ssh_seen, err);
}

static int ssh_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	return undone ? 0 : rk_store_set_vm_state(world->store, rk_param(step, "vm"), RK_VM_RUNNING, err);
}

const struct rk_step_kind rk_vm_steps[] = {
	{ .name = "vm.preflight", .summary = "check hypervisor, image and names on the tray", .deadline_ms = 60000, .apply = preflight },
	{ .name = "vm.volumes", .summary = "make the OS volume and the seed", .deadline_ms = 300000, .prepare = fetch_key, .apply = volumes_apply, .undo = volumes_undo },
	{ .name = "vm.define", .summary = "define the domain and compare what the host kept", .deadline_ms = 60000, .apply = define_apply, .undo = define_undo },
	{ .name = "vm.start", .summary = "start the guest", .deadline_ms = 600000, .probe = start_probe, .apply = start_apply, .undo = stop, .settle = scrub_settle },
	{ .name = "vm.ssh", .summary = "wait for SSH with the pinned host key", .deadline_ms = 300000, .apply = ssh_apply, .settle = ssh_settle },
	{ .name = "vm.stop", .summary = "stop the guest, see it dead, erase its drives", .deadline_ms = 120000, .apply = stop, .settle = scrub_settle },
	{ .name = "vm.undefine", .summary = "undefine the domain", .deadline_ms = 60000, .apply = define_undo },
	{ .name = "vm.erase", .summary = "delete the volumes", .deadline_ms = 60000, .apply = volumes_undo },
	{ .name = NULL },
};
