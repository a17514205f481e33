#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/steps.h"

int rk_vm_job(struct rk_world *world, struct rk_step *step, struct rk_vm_job *j, struct rk_err *err)
{
	int vm, rc = rk_param_vm(world, step, &vm, err);
	const char *tray = rk_param(step, "tray");

	if (rc)
		return rc;
	const struct rk_site *site = world->site;
	*j = (struct rk_vm_job){ .vm = &site->vms[vm], .cluster = &site->clusters[site->vms[vm].cluster], .tray = site->vms[vm].tray };
	if (*tray && (j->tray = rk_find_tray(site, tray)) < 0)
		return rk_err_set(err, RK_NOT_FOUND, "no tray \"%s\" in the store", tray);
	j->tray_name = site->trays[j->tray].name;
	j->size = rk_size_find(site, j->cluster->size);
	int image = rk_find_image(site, j->cluster->image);
	j->image = image < 0 ? NULL : &site->images[image];
	j->host_name = *rk_param(step, "host") ? rk_param(step, "host") : rk_vm_host_name(j->vm);
	j->domain = rk_vm_domain_name(step->arena, j->host_name);
	j->os = rk_vm_os_volume(step->arena, j->host_name);
	j->seed = rk_vm_seed_volume(step->arena, j->host_name);
	return 0;
}

int rk_vm_job_to_make(struct rk_world *world, struct rk_step *step, struct rk_vm_job *j, struct rk_err *err)
{
	int rc = rk_vm_job(world, step, j, err);

	if (!rc && (!j->size || !j->image))
		rc = rk_err_set(err, RK_NOT_FOUND, "the size \"%s\" or the image \"%s\" of VM \"%s\" is not known any more", j->cluster->size, j->cluster->image,
				j->vm->name);
	return rc ? rc : rk_spec_parse("spec", j->cluster->spec, strlen(j->cluster->spec), step->arena, &j->spec, err);
}

int rk_vm_job_domain(struct rk_world *world, struct rk_step *step, struct rk_vm_job *j, struct rk_hv_domain *domain, struct rk_err *err)
{
	int rc = rk_vm_job(world, step, j, err);

	return rc ? rc : world->hv->ops->domain_get(world->hv, j->tray, j->domain, step->arena, domain, err);
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

static void vm_input(const struct rk_world *world, const struct rk_vm_job *j, struct rk_vm_input *ret)
{
	const struct rk_site *site = world->site;
	const struct rk_cluster *c = j->cluster;

	*ret = (struct rk_vm_input){
		.site = site, .size = j->size, .image = j->image, .tray = j->tray, .vm = j->host_name, .cluster = c->name,
		.tenant = site->tenants[c->tenant].name, .uuid = j->vm->uuid, .mac = j->vm->mac, .address = j->vm->address,
		.ssh_port = j->vm->ssh_port, .generation = j->vm->generation, .pkey = c->ib >= 0 ? site->ib_partitions[c->ib].pkey : 0, .memo = world->memo,
	};
	for (int i = c->first_nvl; i < c->first_nvl + c->n_nvl; i++)
		if (site->nvl_partitions[i].rack == site->trays[j->tray].rack)
			ret->nvl_partition = site->nvl_partitions[i].id;
}

/* Before any switch is touched: what this host cannot express is refused here. A host that is not what the site file says is noted. */
static int check_expressible(struct rk_world *world, struct rk_step *step, const struct rk_vm_job *j, const struct rk_hostcaps *caps, struct rk_err *err)
{
	rk_xml *xml RK_CLEANUP_XML = NULL;
	struct rk_hostcaps declared;
	struct rk_vm_input in;

	if (rk_hostcaps_declared(world->site, &declared))
		step->note = rk_hostcaps_difference(&declared, caps, step->arena);
	vm_input(world, j, &in);
	int rc = rk_domain_tree(&in, caps, &xml, NULL, err);
	return rc ? rc : rk_check_hostdevs(world, step, j, rk_xroot(xml), err);
}

/* The image is there, and no disk that somebody else has written to would be taken for a new one. */
static int check_volumes(struct rk_world *world, struct rk_step *step, const struct rk_vm_job *j, struct rk_err *err)
{
	const char *pool = NULL, *name = NULL;
	struct rk_hv_volume volume;
	int rc = split_volume(step, j->image->volume, &pool, &name, err);

	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j->tray, pool, name, step->arena, &volume, err);
	if (!rc && !volume.exists)
		rc = rk_err_set(err, RK_NOT_FOUND, "image volume \"%s\" is not on tray %s", j->image->volume, j->tray_name);
	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j->tray, world->site->pool, j->os, step->arena, &volume, err);
	if (rc || !volume.exists)
		return rc;
	rk_err_set(err, RK_CONFLICT, "tray %s has a volume \"%s/%s\" already that is not this VM's", j->tray_name, world->site->pool, j->os);
	rk_err_hint(err, "virsh vol-delete it on the tray when nobody needs it");
	return RK_CONFLICT;
}

static int preflight(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_vm_job j;
	struct rk_hostcaps caps;
	struct rk_hv_domain domain;
	int rc = rk_vm_job_to_make(world, step, &j, err);

	if (!rc)
		rc = world->hv->ops->probe(world->hv, j.tray, step->arena, &caps, err);
	if (!rc)
		rc = world->hv->ops->domain_get(world->hv, j.tray, j.domain, step->arena, &domain, err);
	if (rc)
		return rc;
	/* Also one with the same UUID: it is left from an earlier VM of this name, which has another host key and an older disk. */
	if (domain.exists)
		return rk_err_set(err, RK_CONFLICT, "tray %s has a domain \"%s\" already that is not this VM's", j.tray_name, j.domain);
	if (!rk_streq(caps.arch, j.image->arch))
		return rk_err_set(err, RK_INVALID, "image \"%s\" is for %s, tray %s is %s", j.image->name, j.image->arch,
				  j.tray_name, caps.arch);
	rc = check_expressible(world, step, &j, &caps, err);
	return rc || !j.image->volume ? rc : check_volumes(world, step, &j, err);
}

/* ---- volumes ------------------------------------------------------------------------------------------------------------------ */

int rk_fetch_host_key(struct rk_world *world, struct rk_step *step, struct rk_err *err)
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

const char **rk_imex_nodes(const struct rk_site *site, const struct rk_cluster *cluster, int rack, struct rk_arena *arena, size_t *ret_n)
{
	const char **nodes = rk_arena_array(arena, (size_t)cluster->n_vms, sizeof(*nodes));

	*ret_n = 0;
	for (int v = cluster->first_vm; v < cluster->first_vm + cluster->n_vms; v++)
		if (site->trays[site->vms[v].tray].rack == rack && site->vms[v].address)
			nodes[(*ret_n)++] = site->vms[v].address;
	return nodes;
}

int rk_put_seed(struct rk_world *world, struct rk_step *step, const struct rk_vm_job *j, bool sealed, struct rk_err *err)
{
	struct rk_seed_input in = {
		.vm = j->vm->name, .cluster = j->cluster->name, .hostname = j->vm->name, .mac = j->vm->mac, .address = j->vm->address,
		.user = j->spec->ssh.user, .generation = j->vm->generation, .keys = j->spec->ssh.keys, .n_keys = j->spec->ssh.n_keys,
		.host_key_private = step->data, .host_key_public = j->vm->host_key_public, .user_data = j->spec->user_data, .sealed = sealed,
	};
	struct rk_seed_file *files;
	size_t n, len;
	void *image RK_CLEANUP_FREE = NULL;

	if (!step->data)
		return rk_err_set(err, RK_NOT_FOUND, "the host key of VM \"%s\" is not kept any more", j->vm->name);
	rk_seed_of_site(&in, world->site);
	in.imex_nodes = rk_imex_nodes(world->site, j->cluster, world->site->trays[j->tray].rack, step->arena, &in.n_imex_nodes);
	rk_seed_files(&in, step->arena, &files, &n);
	int rc = rk_seed_image(files, n, &image, &len, err);
	if (!rc)
		rc = world->hv->ops->volume_put(world->hv, j->tray, world->site->pool, j->seed, image, len, err);
	rk_seed_wipe(files, n);
	if (image)
		explicit_bzero(image, len);
	return rc;
}

static int volumes_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_vm_job j;
	struct rk_hv_volume os, seed;
	int rc = rk_vm_job_to_make(world, step, &j, err);

	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j.tray, world->site->pool, j.os, step->arena, &os, err);
	if (!rc && j.image->volume && !os.exists)
		rc = world->hv->ops->volume_overlay(world->hv, j.tray, world->site->pool, j.os, j.image->volume, err);
	if (!rc)
		rc = rk_put_seed(world, step, &j, false, err);
	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j.tray, world->site->pool, j.os, step->arena, &os, err);
	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j.tray, world->site->pool, j.seed, step->arena, &seed, err);
	if (!rc && ((j.image->volume && !os.exists) || !seed.exists))
		rc = rk_err_set(err, RK_FAILED, "tray %s says the volumes were made, but does not list them", j.tray_name);
	return rc;
}

int rk_volumes_undo(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_vm_job j;
	struct rk_hv_volume os, seed;
	int rc = rk_vm_job(world, step, &j, err);

	if (!rc)
		rc = world->hv->ops->volume_delete(world->hv, j.tray, world->site->pool, j.os, err);
	if (!rc)
		rc = world->hv->ops->volume_delete(world->hv, j.tray, world->site->pool, j.seed, err);
	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j.tray, world->site->pool, j.os, step->arena, &os, err);
	if (!rc)
		rc = world->hv->ops->volume_get(world->hv, j.tray, world->site->pool, j.seed, step->arena, &seed, err);
	if (!rc && (os.exists || seed.exists))
		rc = rk_err_set(err, RK_FAILED, "tray %s still has the volumes of VM %s", j.tray_name, j.vm->name);
	return rc;
}

/* ---- the domain ----------------------------------------------------------------------------------------------------------------- */

static int render(struct rk_world *world, struct rk_step *step, const struct rk_vm_job *j, struct rk_str *xml, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	struct rk_hostcaps caps;
	struct rk_hv_volume os, seed;
	struct rk_vm_input in;
	int rc = world->hv->ops->probe(world->hv, j->tray, step->arena, &caps, err);

	vm_input(world, j, &in);
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
	struct rk_vm_job j;
	const char *kept;
	int rc = rk_vm_job_to_make(world, step, &j, err);

	if (!rc)
		rc = render(world, step, &j, &xml, err);
	if (!rc)
		rc = world->hv->ops->define(world->hv, j.tray, rk_str_text(&xml), step->arena, &kept, err);
	/* Kept to the letter needs no closer look. */
	return rc || rk_streq(rk_str_text(&xml), kept) ? rc : rk_domain_xml_compare(rk_str_text(&xml), kept, err);
}

int rk_define_undo(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_vm_job j;
	struct rk_hv_domain domain;
	int rc = rk_vm_job_domain(world, step, &j, &domain, err);

	if (rc || !domain.exists)
		return rc;
	if (!domain.ours)
		return rk_err_set(err, RK_CONFLICT, "domain \"%s\" on tray %s is not racksh's", j.domain, j.tray_name);
	rc = rk_reread_gone(world->hv->ops->undefine(world->hv, j.tray, j.domain, err), err);
	if (!rc)
		rc = rk_vm_job_domain(world, step, &j, &domain, err);
	if (!rc && domain.exists)
		rc = rk_err_set(err, RK_FAILED, "domain \"%s\" is still defined on tray %s", j.domain, j.tray_name);
	return rc;
}

const struct rk_step_kind rk_vm_steps[] = {
	{ .name = "vm.preflight", .summary = "check hypervisor, image and names on the tray", .deadline_ms = 60000, .apply = preflight },
	{ .name = "vm.volumes", .summary = "make the OS volume and the seed", .deadline_ms = 300000, .prepare = rk_fetch_host_key, .apply = volumes_apply, .undo = rk_volumes_away,
	  .settle = rk_away_settle },
	{ .name = "vm.define", .summary = "define the domain and compare what the host kept", .deadline_ms = 60000, .apply = define_apply, .undo = rk_define_away,
	  .settle = rk_away_settle },
	{ .name = "vm.erase", .summary = "delete the volumes", .deadline_ms = 60000, .final = true, .apply = rk_volumes_away, .settle = rk_away_settle },
	{ .name = NULL },
};
