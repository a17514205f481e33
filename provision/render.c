#include <string.h>
#include <unistd.h>

#include "inventory/base/map.h"
#include "provision/cluster_impl.h"
#include "provision/ssh.h"

enum { SSH_PORT_USER = 2222, SSH_PORT = 22 };

/* One VM to render: of a cluster that exists, or of a plan. */
struct subject {
	const char *vm, *uuid, *mac, *address, *key;
	int tray, ssh_port, generation, nvl;
	uint16_t pkey;
};

/* One rendering of several VMs. */
struct job {
	struct rk_world *world;
	const struct rk_site *site;
	const struct rk_spec *spec;
	const struct rk_size *size;
	const struct rk_image *image;
	struct rk_arena *arena;
	struct subject *subjects; size_t n;
	struct rk_domain_memo *memo;
	struct rk_hostcaps declared;
	bool is_declared;
	struct made {            /* per subject, by whatever thread */
		struct rk_str xml, notes;
		struct rk_err err;
		int rc;
	} *made;
};

/* As create would make it; nth: how many addresses were looked at. */
static int subject_of_plan(const struct job *j, int tray, int number, size_t *nth, struct subject *s, struct rk_err *err)
{
	const struct rk_site *site = j->site;

	*s = (struct subject){ .vm = rk_arena_printf(j->arena, "%s-%02d", j->spec->name, number), .tray = tray, .generation = 1,
			       .ssh_port = rk_network_is_user(&site->network) ? SSH_PORT_USER : SSH_PORT, .pkey = (uint16_t)j->spec->infiniband.pkey };
	int rc = rk_free_uuid(j->world, j->spec->name, s->vm, 1, j->arena, &s->uuid, err);
	if (rc)
		return rc;
	s->mac = rk_vm_mac(j->arena, s->uuid);
	s->address = rk_next_address(j->world, nth, j->arena);
	return s->address ? 0 : rk_store_free_address(site, *nth - 1, j->arena, &s->address, err);
}

static void subject_of_vm(const struct rk_site *site, int vm, struct subject *s)
{
	const struct rk_vm *v = &site->vms[vm];
	const struct rk_cluster *c = &site->clusters[v->cluster];

	*s = (struct subject){ .vm = v->name, .uuid = v->uuid, .mac = v->mac, .address = v->address, .key = v->host_key_public, .tray = v->tray,
			       .ssh_port = v->ssh_port, .generation = v->generation };
	for (int i = c->first_nvl; i < c->first_nvl + c->n_nvl; i++)
		if (site->nvl_partitions[i].rack == site->trays[v->tray].rack)
			s->nvl = site->nvl_partitions[i].id;
	s->pkey = c->ib >= 0 ? site->ib_partitions[c->ib].pkey : 0;
}

/* ---- what to render ----------------------------------------------------------------------------------------------------------------- */

static int subjects_placed(struct job *j, struct rk_err *err)
{
	struct rk_placement p;
	size_t nth = 0;
	int rc = rk_place(j->site, j->spec, j->size, NULL, 0, j->arena, &p, err);

	if (rc)
		return rc;
	if (!p.feasible) {
		rk_err_set(err, RK_NO_CAPACITY, "%d VMs of size %s cannot be placed", j->spec->count, j->spec->size);
		rk_err_hint(err, "--tray T renders one VM as it would be on T");
		for (size_t i = 0; i < p.n_reasons; i++)
			rk_err_detail(err, "%s: %s", j->site->racks[p.reasons[i].rack].name, p.reasons[i].why);
		return RK_NO_CAPACITY;
	}
	j->subjects = rk_arena_array(j->arena, j->n = p.n_trays, sizeof(*j->subjects));
	for (size_t i = 0; !rc && i < p.n_trays; i++)
		rc = subject_of_plan(j, p.trays[i], (int)i + 1, &nth, &j->subjects[i], err);
	return rc;
}

static void subjects_there(struct job *j, const struct rk_cluster *c)
{
	j->subjects = rk_arena_array(j->arena, (size_t)c->n_vms, sizeof(*j->subjects));
	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++)
		if (j->site->vms[v].tray >= 0)
			subject_of_vm(j->site, v, &j->subjects[j->n++]);
}

/* The cluster's VM on that tray, or the one it would get there next. */
static int subject_on(struct job *j, const struct rk_cluster *c, const char *name, struct rk_err *err)
{
	int tray = rk_find_tray(j->site, name), vm = tray >= 0 ? j->site->trays[tray].vm : RK_NONE;
	size_t nth = 0;

	if (tray < 0) {
		rk_err_set(err, RK_NOT_FOUND, "no tray \"%s\"", name);
		rk_err_hint(err, "racksh tray list");
		return RK_NOT_FOUND;
	}
	j->subjects = rk_arena_array(j->arena, j->n = 1, sizeof(*j->subjects));
	if (c && vm >= 0 && &j->site->clusters[j->site->vms[vm].cluster] == c) {
		subject_of_vm(j->site, vm, j->subjects);
		return 0;
	}
	return subject_of_plan(j, tray, c ? c->next_number : 1, &nth, j->subjects, err);
}

static int subjects(struct job *j, const char *tray, struct rk_err *err)
{
	int at = rk_find_cluster(j->site, j->spec->name);
	const struct rk_cluster *there = at >= 0 ? &j->site->clusters[at] : NULL;

	if (tray)
		return subject_on(j, there, tray, err);
	if (!there)
		return subjects_placed(j, err);
	subjects_there(j, there);
	return 0;
}

/* The spec asked for, or that of the cluster asked for. A spec that a cluster of this name does not have is what create refuses too. */
static int spec_of(struct job *j, const struct rk_render *request, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	int at = request->spec ? rk_find_cluster(j->site, request->spec->name) : request->cluster;
	struct rk_spec *spec = NULL;
	int rc = 0;

	j->spec = request->spec;
	if (!request->spec) {
		rc = rk_spec_parse("the stored spec", j->site->clusters[at].spec, strlen(j->site->clusters[at].spec), j->arena, &spec, err);
		j->spec = spec;
		return rc;
	}
	if (at < 0 || request->tray)
		return 0;
	rk_spec_write(request->spec, &text);
	if (rk_streq(rk_str_text(&text), j->site->clusters[at].spec))
		return 0;
	rk_err_set(err, RK_CONFLICT, "cluster \"%s\" exists with another specification", request->spec->name);
	rk_err_hint(err, "racksh cluster render %s prints what it has", request->spec->name);
	return RK_CONFLICT;
}

static int look_up(struct job *j, struct rk_err *err)
{
	int image = rk_find_image(j->site, j->spec->image);

	j->size = rk_size_find(j->site, j->spec->size);
	if (!j->size) {
		rk_err_set(err, RK_NOT_FOUND, "no size \"%s\"", j->spec->size);
		rk_err_hint(err, "racksh size list");
		return RK_NOT_FOUND;
	}
	if (image < 0) {
		rk_err_set(err, RK_NOT_FOUND, "no image \"%s\"", j->spec->image);
		rk_err_hint(err, "racksh image list");
		return RK_NOT_FOUND;
	}
	j->image = &j->site->images[image];
	return 0;
}

/* ---- rendering ------------------------------------------------------------------------------------------------------------------------ */

static int caps_of(const struct job *j, int tray, struct rk_arena *arena, struct rk_hostcaps *ret, struct rk_err *err)
{
	*ret = j->declared;
	if (j->is_declared)
		return 0;
	int rc = j->world->hv->ops->probe(j->world->hv, tray, arena, ret, err);
	if (rc == RK_UNREACHABLE)
		rk_err_hint(err, "write \"hypervisor\" (libvirt, qemu, arch, pageKiB) into \"defaults\" of the site file to render without the trays");
	return rc;
}

static int render_xml(const struct job *j, const struct subject *s, struct made *made)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_hostcaps caps;
	const struct rk_vm_input in = {
		.site = j->site, .size = j->size, .image = j->image, .tray = s->tray, .vm = s->vm, .cluster = j->spec->name, .tenant = j->spec->tenant,
		.uuid = s->uuid, .mac = s->mac, .address = s->address, .ssh_port = s->ssh_port, .generation = s->generation, .nvl_partition = s->nvl,
		.pkey = s->pkey, .memo = j->memo,
	};
	int rc = caps_of(j, s->tray, arena, &caps, &made->err);

	return rc ? rc : rk_domain_xml(&in, &caps, &made->xml, &made->notes, &made->err);
}

static void render_nth(void *ctx, size_t i)
{
	struct job *j = ctx;

	j->made[i].rc = render_xml(j, &j->subjects[i], &j->made[i]);
}

static void render_seed(const struct job *j, const struct subject *s, struct rk_rendered *ret)
{
	const struct rk_site *site = j->site;
	const char **nodes = rk_arena_array(j->arena, j->n, sizeof(*nodes));
	struct rk_seed_input in = {
		.vm = s->vm, .cluster = j->spec->name, .hostname = s->vm, .mac = s->mac, .address = s->address, .user = j->spec->ssh.user,
		.generation = s->generation, .keys = j->spec->ssh.keys, .n_keys = j->spec->ssh.n_keys, .host_key_public = s->key, .imex_nodes = nodes, .user_data = j->spec->user_data,
	};

	rk_seed_of_site(&in, site);
	for (size_t k = 0; k < j->n; k++)
		if (site->trays[j->subjects[k].tray].rack == site->trays[s->tray].rack && j->subjects[k].address)
			nodes[in.n_imex_nodes++] = j->subjects[k].address;
	rk_seed_files(&in, j->arena, &ret->seed, &ret->n_seed);
}

static void split_notes(struct rk_arena *arena, const char *text, struct rk_rendered *ret)
{
	size_t n = 0;

	for (const char *c = text; *c; c++)
		n += *c == '\n';
	ret->notes = rk_arena_array(arena, n, sizeof(*ret->notes));
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		ret->notes[ret->n_notes++] = rk_arena_strndup(arena, line, strcspn(line, "\n"));
}

/* The first failure in VM order, whatever thread met it first. */
static int collect(const struct job *j, bool seed, struct rk_rendered *out, struct rk_err *err)
{
	for (size_t i = 0; i < j->n; i++) {
		const struct subject *s = &j->subjects[i];
		struct made *made = &j->made[i];
		if (made->rc) {
			rk_err_while(&made->err, "%s on %s", s->vm, j->site->trays[s->tray].name);
			if (err)
				rk_err_move(err, &made->err);
			return made->rc;
		}
		out[i].vm = s->vm;
		out[i].tray = j->site->trays[s->tray].name;
		out[i].xml = rk_arena_strndup(j->arena, rk_str_text(&made->xml), made->xml.len);
		rk_str_clear(&made->xml);
		split_notes(j->arena, rk_str_text(&made->notes), &out[i]);
		if (seed)
			render_seed(j, s, &out[i]);
	}
	return 0;
}

static void clear_made(struct job *j)
{
	for (size_t i = 0; i < j->n; i++) {
		rk_str_clear(&j->made[i].xml);
		rk_str_clear(&j->made[i].notes);
		rk_err_clear(&j->made[i].err);
	}
	free(j->made);
}

int rk_cluster_render(struct rk_world *world, const struct rk_render *request, struct rk_arena *arena, struct rk_rendered **ret, size_t *ret_n,
		      struct rk_err *err)
{
	struct rk_domain_memo *memo RK_CLEANUP_DOMAIN_MEMO = rk_domain_memo_new();
	struct job j = { .world = world, .site = world->site, .arena = arena, .memo = memo };
	int rc = spec_of(&j, request, err);

	if (!rc)
		rc = look_up(&j, err);
	if (!rc)
		rc = subjects(&j, request->tray, err);
	j.is_declared = rk_hostcaps_declared(world->site, &j.declared);
	if (!rc && !j.is_declared)
		rc = rk_world_drivers(world, err);
	if (rc)
		return rc;
	j.made = rk_xcalloc(j.n ? j.n : 1, sizeof(*j.made));
	/* Without a host to wait for, more threads than processors only take turns. */
	rk_fanout(j.n, j.is_declared ? (int)sysconf(_SC_NPROCESSORS_ONLN) : world->jobs, render_nth, &j);
	*ret = rk_arena_array(arena, j.n, sizeof(**ret));
	*ret_n = j.n;
	rc = collect(&j, request->seed, *ret, err);
	clear_made(&j);
	return rc;
}

/* ---- notes ---------------------------------------------------------------------------------------------------------------------------- */

struct folded {
	const char *text;
	const char **trays; size_t n;
};

void rk_rendered_notes(const struct rk_rendered *all, size_t n, struct rk_arena *arena, const char ***ret, size_t *ret_n)
{
	struct rk_map *seen RK_CLEANUP_MAP = rk_map_new();
	struct {
		struct folded *items;
		size_t n, cap;
	} lines = { 0 };

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < all[i].n_notes; k++) {
			const char *text = strstr(all[i].notes[k], ": ");
			size_t at = lines.n;
			text = text ? text + 2 : all[i].notes[k];
			if (rk_map_add(seen, text, lines.n, &at)) {
				*rk_vec_push(&lines) = (struct folded){ .text = text, .trays = rk_arena_array(arena, n, sizeof(char *)) };
				at = lines.n - 1;
			}
			lines.items[at].trays[lines.items[at].n++] = all[i].tray;
		}
	*ret = rk_arena_array(arena, lines.n, sizeof(**ret));
	for (size_t i = 0; i < lines.n; i++) {
		const struct folded *f = &lines.items[i];
		(*ret)[i] = rk_arena_printf(arena, "%s %s: %s", f->n == 1 ? "tray" : "trays", rk_nodeset_fold(arena, f->trays, f->n), f->text);
	}
	*ret_n = lines.n;
	free(lines.items);
}
