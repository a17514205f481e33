#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/discover_impl.h"

/* ---- proposals ------------------------------------------------------------------------------------------------------------------ */

struct rk_proposal *rk_propose(struct rk_compare *c, const char *action, const char *object, const char *field, const char *recorded, const char *seen,
			       const char *format, ...)
{
	struct rk_proposal *p = rk_vec_push(c->ret);
	va_list ap;

	va_start(ap, format);
	char *message RK_CLEANUP_FREE = rk_xvasprintf(format, ap);
	va_end(ap);
	*p = (struct rk_proposal){ .object = object, .field = field, .recorded = recorded, .seen = seen, .action = action,
				   .message = rk_arena_strdup(c->arena, message), .index = RK_NONE, .tray = RK_NONE };
	c->ret->contradicts |= strcmp(action, "set") != 0 && strcmp(action, "change") != 0 && strcmp(action, "unknown") != 0;
	return p;
}

const char *rk_guid_text(struct rk_compare *c, uint64_t guid)
{
	return guid ? rk_arena_printf(c->arena, "0x%016" PRIx64, guid) : NULL;
}

void rk_propose_edit(struct rk_proposal *p, enum rk_edit kind, int index, int tray, uint64_t guid, const char *text)
{
	p->edit = kind;
	p->index = index;
	p->tray = tray;
	p->guid = guid;
	p->text = text;
}

/* ---- what a tray holds ------------------------------------------------------------------------------------------------------------ */

static const char *const index_names[] = { "0", "1", "2", "3", "4", "5", "6", "7" };

/* GPUs by PCI address; a list without addresses (a switch's) by module id. */
static void view_gpus(const struct rk_compare *c, int tray, const struct rk_seen_gpu *gpus, size_t n, struct rk_tray_view *v)
{
	const struct rk_tray *t = &c->site->trays[tray];

	for (size_t i = 0; i < n; i++)
		for (int g = 0; g < t->n_gpus; g++) {
			const struct rk_gpu *ours = &c->site->gpus[t->first_gpu + g];
			bool same = gpus[i].pci && ours->pci ? rk_streq(gpus[i].pci, ours->pci) : gpus[i].module_id > 0 && gpus[i].module_id == ours->module_id;
			if (same && !v->gpus[g])
				v->gpus[g] = &gpus[i];
		}
}

/* What the switch knows of the slot of a tray, for a host that says nothing. */
static size_t gpus_of_slot(const struct rk_compare *c, int tray, struct rk_seen_gpu *out)
{
	const struct rk_tray *t = &c->site->trays[tray];
	const struct rk_seen_rack *r = &c->seen->racks[t->rack];
	size_t n = 0;

	for (size_t i = 0; i < r->n && n < RK_GPUS_MAX; i++)
		if (r->places[i].slot == t->slot)
			out[n++] = (struct rk_seen_gpu){ .guid = r->places[i].gpu, .module_id = r->places[i].module, .slot = r->places[i].slot };
	return n;
}

void rk_view_tray(struct rk_compare *c, int tray, struct rk_tray_view *v)
{
	const struct rk_tray *t = &c->site->trays[tray];
	const struct rk_seen_tray *s = &c->seen->trays[tray];

	*v = (struct rk_tray_view){ .source = NULL };
	if (!s->host_why && !s->smi_why) {
		v->source = "nvidia-smi";
		view_gpus(c, tray, s->gpus, s->n_gpus, v);
	} else {
		struct rk_seen_gpu *gpus = rk_arena_array(c->arena, RK_GPUS_MAX, sizeof(*gpus));
		size_t n = gpus_of_slot(c, tray, gpus);
		v->source = n ? "the NVLink switch" : NULL;
		view_gpus(c, tray, gpus, n, v);
	}
	v->ports_told = !s->host_why && !s->sysfs_why && s->n_ports;
	for (size_t i = 0; v->ports_told && i < s->n_ports; i++)
		for (int h = 0; h < t->n_hcas; h++)
			if (s->ports[i].pci && rk_streq(s->ports[i].pci, c->site->hcas[t->first_hca + h].pci))
				v->ports[h] = &s->ports[i];
}

/* ---- is it the tray that is recorded? ----------------------------------------------------------------------------------------------- */

struct tally {
	int same, fresh, blank, moved, other; /* other: the tray that the moved ones are recorded in, or RK_NONE; -2 several */
};

static void count(struct tally *t, int tray, uint64_t recorded, uint64_t seen, int holder)
{
	if (!seen)
		return;
	t->blank += !recorded;
	t->same += holder == tray;
	t->fresh += holder == RK_NONE;
	if (holder == RK_NONE || holder == tray)
		return;
	t->moved++;
	t->other = t->other == RK_NONE || t->other == holder ? holder : -2;
}

static struct tally tally_of(const struct rk_compare *c, int tray, const struct rk_tray_view *v)
{
	const struct rk_site *s = c->site;
	const struct rk_tray *t = &s->trays[tray];
	struct tally sum = { .other = RK_NONE };

	for (int g = 0; g < t->n_gpus; g++) {
		uint64_t guid = v->gpus[g] ? v->gpus[g]->guid : 0;
		int at = guid ? rk_find_gpu_guid(s, guid) : RK_NONE;
		count(&sum, tray, s->gpus[t->first_gpu + g].fabric_guid, guid, at >= 0 ? s->gpus[at].tray : RK_NONE);
	}
	for (int h = 0; h < t->n_hcas; h++) {
		uint64_t guid = v->ports[h] ? v->ports[h]->guid : 0;
		int at = guid ? rk_find_hca_guid(s, guid) : RK_NONE;
		count(&sum, tray, s->hcas[t->first_hca + h].port_guid, guid, at >= 0 ? s->hcas[at].tray : RK_NONE);
	}
	return sum;
}

/* Identities that a finding about the whole tray accounts for: the fabric's own complaints about them say nothing new. */
static void explain(struct rk_compare *c, int tray, const struct rk_tray_view *v)
{
	const struct rk_tray *t = &c->site->trays[tray];

	c->explained[tray] = true;
	for (int h = 0; h < t->n_hcas; h++)
		if (v->ports[h] && v->ports[h]->guid)
			rk_map_set_u64(c->known, v->ports[h]->guid, (size_t)tray);
	for (int g = 0; g < t->n_gpus; g++)
		if (v->gpus[g] && v->gpus[g]->guid)
			rk_map_set_u64(c->known, v->gpus[g]->guid, (size_t)tray);
}

/* True when one sentence about the tray as a whole says it all. */
static bool whole_tray(struct rk_compare *c, int tray, const struct rk_tray_view *v)
{
	const struct rk_tray *t = &c->site->trays[tray];
	struct tally sum = tally_of(c, tray, v);
	const char *serial = c->seen->trays[tray].serial;

	if (!sum.same && !sum.moved && !sum.blank && sum.fresh > 1) {
		rk_propose(c, "replace", t->name, "hardware", t->serial, serial, "the tray was swapped: none of its %d identities is the recorded one; racksh tray replace %s --from-discovery",
			   sum.fresh, t->name);
		explain(c, tray, v);
		return true;
	}
	if (!sum.same && !sum.fresh && sum.moved > 1 && sum.other >= 0) {
		const char *other = c->site->trays[sum.other].name;
		if (!(c->explained[sum.other] && sum.other < tray))
			rk_propose(c, "exchange", t->name, "hardware", t->serial, serial, "the hardware that is recorded as tray %s answers here: put them back, or exchange their entries in the site file",
				   other);
		explain(c, tray, v);
		return true;
	}
	return false;
}

/* ---- one by one ------------------------------------------------------------------------------------------------------------------ */

static void compare_guid(struct rk_compare *c, int tray, const char *object, const char *field, uint64_t recorded, uint64_t seen, const char *holder, enum rk_edit kind,
			 int index)
{
	const char *was = rk_guid_text(c, recorded), *is = rk_guid_text(c, seen);

	if (!seen || seen == recorded)
		return;
	if (holder)
		rk_propose(c, "exchange", object, field, was, is, "this identity is recorded as %s", holder);
	else
		rk_propose_edit(rk_propose(c, recorded ? "change" : "set", object, field, was, is, "%s", recorded ? "another part sits here now" : "was not known"), kind, index, tray, seen,
		     NULL);
}

static void compare_text(struct rk_compare *c, int tray, const char *object, const char *field, const char *recorded, const char *seen, enum rk_edit kind, int index)
{
	if (!seen || rk_streq(recorded, seen))
		return;
	rk_propose_edit(rk_propose(c, recorded ? "change" : "set", object, field, recorded, seen, "%s", recorded ? "differs" : "was not known"), kind, index, tray, 0, seen);
}

static void compare_gpus(struct rk_compare *c, int tray, const struct rk_tray_view *v)
{
	const struct rk_site *s = c->site;
	const struct rk_tray *t = &s->trays[tray];

	for (int g = 0; v->source && g < t->n_gpus; g++) {
		const struct rk_gpu *ours = &s->gpus[t->first_gpu + g];
		const struct rk_seen_gpu *seen = v->gpus[g];
		const char *object = rk_arena_printf(c->arena, "%s gpu %s", t->name, index_names[g]), *holder = NULL;
		if (!seen) {
			rk_propose(c, "repair", object, "present", "yes", "no", "the GPU is not listed by %s", v->source);
			continue;
		}
		int at = seen->guid ? rk_find_gpu_guid(s, seen->guid) : RK_NONE;
		if (at >= 0 && at != t->first_gpu + g)
			holder = rk_arena_printf(c->arena, "%s gpu %d", s->trays[s->gpus[at].tray].name, s->gpus[at].index);
		compare_guid(c, tray, object, "fabricGuid", ours->fabric_guid, seen->guid, holder, RK_EDIT_GPU_GUID, t->first_gpu + g);
		if (holder)
			continue;
		compare_text(c, tray, object, "serial", ours->serial, seen->serial, RK_EDIT_GPU_SERIAL, t->first_gpu + g);
		compare_text(c, tray, object, "uuid", ours->uuid, seen->uuid, RK_EDIT_GPU_UUID, t->first_gpu + g);
	}
}

static void compare_ports(struct rk_compare *c, int tray, const struct rk_tray_view *v)
{
	const struct rk_site *s = c->site;
	const struct rk_tray *t = &s->trays[tray];

	for (int h = 0; v->ports_told && h < t->n_hcas; h++) {
		const struct rk_hca *ours = &s->hcas[t->first_hca + h];
		const char *object = rk_arena_printf(c->arena, "%s rail %s", t->name, index_names[h]), *holder = NULL;
		if (!ours->pci)
			continue;
		if (!v->ports[h]) {
			rk_propose(c, "repair", object, "present", "yes", "no", "no InfiniBand port at %s", ours->pci);
			continue;
		}
		uint64_t guid = v->ports[h]->guid;
		int at = guid ? rk_find_hca_guid(s, guid) : RK_NONE;
		if (at >= 0 && at != t->first_hca + h)
			holder = rk_arena_printf(c->arena, "%s rail %d", s->trays[s->hcas[at].tray].name, s->hcas[at].rail);
		compare_guid(c, tray, object, "portGuid", ours->port_guid, guid, holder, RK_EDIT_PORT_GUID, t->first_hca + h);
	}
}

/* The slot that the GPUs of a tray tell; 0: none, or they do not agree. */
static int slot_of(const struct rk_tray_view *v)
{
	int slot = 0;

	for (int g = 0; g < RK_GPUS_MAX; g++) {
		int told = v->gpus[g] ? v->gpus[g]->slot : 0;
		if (told <= 0)
			continue;
		if (slot && slot != told)
			return 0;
		slot = told;
	}
	return slot;
}

static void compare_slot(struct rk_compare *c, int tray, const struct rk_tray_view *v)
{
	const struct rk_tray *t = &c->site->trays[tray];
	const struct rk_rack *r = &c->site->racks[t->rack];
	int slot = slot_of(v);

	if (!slot || slot == t->slot)
		return;
	const char *was = rk_arena_printf(c->arena, "%d", t->slot), *is = rk_arena_printf(c->arena, "%d", slot);
	for (int other = r->first_tray; other < r->first_tray + r->n_trays; other++)
		if (other != tray && c->site->trays[other].slot == slot) {
			rk_propose(c, "exchange", t->name, "slot", was, is, "it sits in the slot that is recorded for tray %s", c->site->trays[other].name);
			return;
		}
	rk_propose_edit(rk_propose(c, "change", t->name, "slot", was, is, "the chassis says another slot"), RK_EDIT_SLOT, tray, tray, (uint64_t)slot, NULL);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *joined(struct rk_arena *arena, const char *const *texts, size_t n)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < n; i++)
		rk_str_addf(&out, "%s%s", i ? " " : "", texts[i]);
	return n ? rk_arena_strdup(arena, rk_str_text(&out)) : NULL;
}

/* Drives that nothing is mounted from are the data drives, when there are as many as the profile says. */
static void compare_drives(struct rk_compare *c, int tray)
{
	const struct rk_tray *t = &c->site->trays[tray];
	const struct rk_seen_tray *s = &c->seen->trays[tray];
	const char *free_drives[RK_NVME_MAX], *recorded[RK_NVME_MAX];
	size_t n = 0, want = (size_t)c->site->profiles[c->site->racks[t->rack].profile].nvme_per_tray;

	if (s->host_why || s->sysfs_why)
		return;
	for (size_t i = 0; i < s->n_drives && n < RK_NVME_MAX; i++)
		if (!s->drives[i].used)
			free_drives[n++] = s->drives[i].pci;
	memcpy(recorded, t->nvme, sizeof(recorded));
	qsort(free_drives, n, sizeof(*free_drives), by_text);
	qsort(recorded, (size_t)t->n_nvme, sizeof(*recorded), by_text);
	const char *is = joined(c->arena, free_drives, n), *was = joined(c->arena, recorded, (size_t)t->n_nvme);
	if (!n || rk_streq(is, was))
		return;
	if (n == want)
		rk_propose_edit(rk_propose(c, was ? "change" : "set", t->name, "nvme", was, is, "%s", was ? "other drives are free of the host's own file systems" : "was not known"),
		     RK_EDIT_NVME, tray, tray, 0, is);
	else
		rk_propose(c, "look", t->name, "nvme", was, is, "%zu drives are free of the host's own file systems, the profile has %zu", n, want);
}

static void compare_tray(struct rk_compare *c, int tray)
{
	const struct rk_tray *t = &c->site->trays[tray];
	const struct rk_seen_tray *s = &c->seen->trays[tray];
	struct rk_tray_view v;

	rk_view_tray(c, tray, &v);
	if (!whole_tray(c, tray, &v)) {
		compare_text(c, tray, t->name, "serial", t->serial, s->serial, RK_EDIT_SERIAL, tray);
		compare_gpus(c, tray, &v);
		compare_ports(c, tray, &v);
		compare_slot(c, tray, &v);
		compare_drives(c, tray);
	}
	rk_compare_host(c, tray, &v);
}

/* ---- fabrics -------------------------------------------------------------------------------------------------------------- */

/* Is a finding of the fabric about a tray that was asked, and not told already? */
static bool news(const struct rk_compare *c, const struct rk_ib_finding *f, const int *trays, size_t n)
{
	const char *guid = strstr(f->message, "0x");
	bool about = n == c->site->n_trays;

	if (guid && rk_map_get_u64(c->known, strtoull(guid, NULL, 16), NULL))
		return false;
	for (size_t i = 0; i < n; i++) {
		const char *name = c->site->trays[trays[i]].name, *at = strstr(f->object, name);
		if (!at || (at[strlen(name)] && !strchr(" ,", at[strlen(name)])))
			continue;
		if (c->explained[trays[i]])
			return false;
		about = true;
	}
	return about;
}

static void compare_fabric(struct rk_compare *c, int fabric, const int *trays, size_t n)
{
	static const struct {
		const char *kind, *action;
	} actions[] = { { "crossed", "recable" }, { "rail", "recable" }, { "leaf", "recable" }, { "port", "recable" }, { "level", "recable" },
			{ "missing-hca", "repair" }, { "width", "repair" }, { "speed", "repair" } };
	const struct rk_seen_fabric *seen = &c->seen->fabrics[fabric];
	struct rk_ib_finding *found;
	size_t n_found;

	if (!seen->topology)
		return;
	rk_topology_check(seen->topology, c->site, fabric, c->arena, &found, &n_found);
	for (size_t i = 0; i < n_found; i++) {
		const char *action = "look";
		if (strcmp(found[i].kind, "unknown") == 0 || !news(c, &found[i], trays, n))
			continue;
		for (size_t a = 0; a < RK_ARRAY_SIZE(actions); a++)
			if (strcmp(actions[a].kind, found[i].kind) == 0)
				action = actions[a].action;
		rk_propose(c, action, found[i].object, "wiring", NULL, found[i].kind, "%s: %s", c->site->fabrics[fabric].name, found[i].message);
	}
}

/* GPUs that are given to guests are not nvidia-smi's to see: then its silence says nothing, and the switch is the witness. */
static bool given_away(const struct rk_compare *c, int tray)
{
	const struct rk_seen_tray *s = &c->seen->trays[tray];
	const struct rk_tray *t = &c->site->trays[tray];
	int away = 0;

	for (size_t i = 0; i < s->n_devices; i++)
		for (int g = 0; g < t->n_gpus; g++)
			away += rk_streq(s->devices[i].pci, c->site->gpus[t->first_gpu + g].pci) && rk_streq(s->devices[i].driver, "vfio-pci");
	return away && away == t->n_gpus;
}

static const char *silence_of_host(const struct rk_compare *c, int tray)
{
	const struct rk_seen_tray *s = &c->seen->trays[tray];

	if (s->host_why)
		return s->host_why;
	return s->smi_why && !given_away(c, tray) ? s->smi_why : s->sysfs_why;
}

void rk_note_silence(struct rk_compare *c, const char *object, const char *field, const char *why)
{
	c->ret->asked++;
	if (!why)
		return;
	c->ret->unread++;
	rk_propose(c, "unknown", object, field, NULL, NULL, "%s", why);
}

void rk_discover_compare(const struct rk_seen *seen, const int *trays, size_t n, struct rk_arena *arena, struct rk_discovery *ret)
{
	const struct rk_site *site = seen->site;
	struct rk_map *known RK_CLEANUP_MAP = rk_map_new();
	bool *explained RK_CLEANUP_FREE = rk_xcalloc(site->n_trays + 1, sizeof(*explained));
	struct rk_compare c = { .seen = seen, .site = site, .arena = arena, .ret = ret, .known = known, .explained = explained };

	*ret = (struct rk_discovery){ 0 };
	for (size_t i = 0; i < n; i++) {
		const struct rk_seen_tray *s = &seen->trays[trays[i]];
		const char *name = site->trays[trays[i]].name;
		rk_note_silence(&c, name, "host", silence_of_host(&c, trays[i]));
		rk_note_silence(&c, name, "libvirt", s->hv_why);
		compare_tray(&c, trays[i]);
	}
	rk_compare_pages(&c, trays, n);
	rk_compare_racks(&c, trays, n);
	for (size_t f = 0; f < site->n_fabrics; f++) {
		rk_note_silence(&c, site->fabrics[f].name, "fabric", seen->fabrics[f].why);
		compare_fabric(&c, (int)f, trays, n);
	}
}
