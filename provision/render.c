#include <string.h>

#include "provision/cluster.h"

/* One VM to render: of a cluster that exists, or of a plan. */
struct subject {
	const char *vm, *uuid, *mac, *address, *key;
	int tray, ssh_port, generation, nvl, number;
	uint16_t pkey;
};

static int subject_of_plan(struct rk_world *world, const struct rk_spec *spec, int tray, size_t i, struct rk_arena *arena, struct subject *s, struct rk_err *err)
{
	const struct rk_site *site = world->site;

	*s = (struct subject){ .vm = rk_arena_printf(arena, "%s-%02zu", spec->name, i + 1), .tray = tray, .generation = 1, .number = (int)i + 1,
			       .ssh_port = site->network.user ? 2222 : 22, .pkey = (uint16_t)spec->infiniband.pkey };
	s->uuid = rk_vm_uuid(arena, site->name, spec->name, s->vm, 1);
	s->mac = rk_vm_mac(arena, s->uuid);
	return rk_store_free_address(site, i, arena, &s->address, err);
}

static void subject_of_vm(const struct rk_site *site, int vm, struct subject *s)
{
	const struct rk_vm *v = &site->vms[vm];
	const struct rk_cluster *c = &site->clusters[v->cluster];

	*s = (struct subject){ .vm = v->name, .uuid = v->uuid, .mac = v->mac, .address = v->address, .key = v->host_key_public, .tray = v->tray,
			       .ssh_port = v->ssh_port, .generation = v->generation, .number = v->number };
	for (int i = c->first_nvl; i < c->first_nvl + c->n_nvl; i++)
		if (site->nvl_partitions[i].rack == site->trays[v->tray].rack)
			s->nvl = site->nvl_partitions[i].id;
	s->pkey = c->ib >= 0 ? site->ib_partitions[c->ib].pkey : 0;
}

/* The trays to render for: those of the cluster, the one asked for, or those placement chooses. */
static int subjects(struct rk_world *world, const struct rk_spec *spec, const struct rk_size *size, const char *tray, struct rk_arena *arena,
		    struct subject **ret, size_t *ret_n, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	int there = rk_find_cluster(site, spec->name), at, rc = 0;
	struct rk_placement p;

	if (tray) {
		if ((at = rk_find_tray(site, tray)) < 0)
			return rk_err_set(err, RK_NOT_FOUND, "no tray \"%s\"", tray);
		*ret = rk_arena_array(arena, *ret_n = 1, sizeof(**ret));
		return subject_of_plan(world, spec, at, 0, arena, &(*ret)[0], err);
	}
	if (there >= 0) {
		const struct rk_cluster *c = &site->clusters[there];
		*ret = rk_arena_array(arena, *ret_n = (size_t)c->n_vms, sizeof(**ret));
		for (int i = 0; i < c->n_vms; i++)
			subject_of_vm(site, c->first_vm + i, &(*ret)[i]);
		return 0;
	}
	rc = rk_place(site, spec, size, NULL, 0, arena, &p, err);
	if (rc)
		return rc;
	if (!p.feasible) {
		rk_err_set(err, RK_NO_CAPACITY, "%d VMs of size %s cannot be placed", spec->count, spec->size);
		rk_err_hint(err, "--tray T renders one VM as it would be on T");
		return RK_NO_CAPACITY;
	}
	*ret = rk_arena_array(arena, *ret_n = p.n_trays, sizeof(**ret));
	for (size_t i = 0; !rc && i < p.n_trays; i++)
		rc = subject_of_plan(world, spec, p.trays[i], i, arena, &(*ret)[i], err);
	return rc;
}

static void render_seed(const struct rk_site *site, const struct rk_spec *spec, const struct subject *all, size_t n, size_t i, struct rk_arena *arena,
			struct rk_rendered *ret)
{
	const struct subject *s = &all[i];
	const char **nodes = rk_arena_array(arena, n, sizeof(*nodes));
	struct rk_seed_input in = {
		.vm = s->vm, .cluster = spec->name, .hostname = s->vm, .mac = s->mac, .address = s->address, .gateway = site->network.gateway,
		.user = spec->ssh.user, .generation = s->generation, .user_network = site->network.user, .keys = spec->ssh.keys, .n_keys = spec->ssh.n_keys,
		.host_key_public = s->key, .imex_nodes = nodes,
	};

	for (size_t k = 0; k < n; k++)
		if (site->trays[all[k].tray].rack == site->trays[s->tray].rack && all[k].address)
			nodes[in.n_imex_nodes++] = all[k].address;
	rk_seed_files(&in, arena, &ret->seed, &ret->n_seed);
}

static int render_one(struct rk_world *world, const struct rk_spec *spec, const struct rk_size *size, int image, const struct subject *s, struct rk_arena *arena,
		      struct rk_rendered *ret, struct rk_err *err)
{
	struct rk_str xml RK_CLEANUP_STR = RK_STR_INIT, notes RK_CLEANUP_STR = RK_STR_INIT;
	const struct rk_site *site = world->site;
	struct rk_hostcaps caps;
	const struct rk_vm_input in = {
		.site = site, .size = size, .image = &site->images[image], .tray = s->tray, .vm = s->vm, .cluster = spec->name, .tenant = spec->tenant,
		.uuid = s->uuid, .mac = s->mac, .address = s->address, .ssh_port = s->ssh_port, .generation = s->generation, .nvl_partition = s->nvl,
		.pkey = s->pkey,
	};

	if (!rk_hostcaps_declared(site, &caps)) {
		rk_err_set(err, RK_INVALID, "the site file does not say what the hypervisors are");
		rk_err_hint(err, "write defaults.hypervisor (libvirt, qemu, arch, pageKiB) into it");
		return RK_INVALID;
	}
	int rc = rk_domain_xml(&in, &caps, &xml, &notes, err);
	if (rc)
		return rk_err_while(err, "%s on %s", s->vm, site->trays[s->tray].name), rc;
	ret->vm = s->vm;
	ret->tray = site->trays[s->tray].name;
	ret->xml = rk_arena_strdup(arena, rk_str_text(&xml));
	ret->notes = notes.len ? rk_arena_strdup(arena, rk_str_text(&notes)) : NULL;
	return 0;
}

int rk_cluster_render(struct rk_world *world, const struct rk_spec *spec, const char *tray, bool seed, struct rk_arena *arena, struct rk_rendered **ret,
		      size_t *ret_n, struct rk_err *err)
{
	const struct rk_size *size = rk_size_find(spec->size);
	int image = rk_find_image(world->site, spec->image);
	struct subject *all = NULL;
	size_t n = 0;

	*ret_n = 0;
	if (!size)
		return rk_err_set(err, RK_NOT_FOUND, "no size \"%s\"", spec->size);
	if (image < 0)
		return rk_err_set(err, RK_NOT_FOUND, "no image \"%s\"", spec->image);
	int rc = subjects(world, spec, size, tray, arena, &all, &n, err);
	struct rk_rendered *out = rk_arena_array(arena, n, sizeof(*out));
	for (size_t i = 0; !rc && i < n; i++) {
		rc = render_one(world, spec, size, image, &all[i], arena, &out[i], err);
		if (!rc && seed)
			render_seed(world->site, spec, all, n, i, arena, &out[i]);
	}
	if (rc)
		return rc;
	*ret = out;
	*ret_n = n;
	return 0;
}
