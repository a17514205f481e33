/* A small site and its twin for tests of operations: open it, look whether the store and every outside system say the same, read all of it as
 * one text to compare before and after. Include cmocka.h first. */
#pragma once
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inventory/site_file.h"
#include "provision/cluster.h"
#include "provision/sim.h"

struct fixture {
	struct rk_world world;
	struct rk_site *site;     /* what the twin was opened with */
	struct rk_clock *clock;
	struct rk_arena *arena;
	int cancel;
	bool borrowed;            /* twin and clock are another fixture's */
};

static inline void report(const char *what, const struct rk_err *err)
{
	print_error("%s: %s\n", what, err->message ? err->message : "(no message)");
	for (size_t i = 0; i < err->n_details; i++)
		print_error("  %s\n", err->details[i]);
}

#define OK(call)                                       \
	do {                                           \
		struct rk_err err_ = RK_ERR_INIT;      \
		struct rk_err *err = &err_;            \
		if ((call) != 0) {                     \
			report(#call, err);            \
			rk_err_clear(err);             \
			fail();                        \
		}                                      \
	} while (0)

/* Of every rack; a test may put another one in before it opens a world. */
#define RACK_NVLINK "\"driver\":\"nvos\",\"ssh\":\"admin@{rack}-sw1\""
static const char *rack_nvlink = RACK_NVLINK;

/* Racks r1.. of `trays` trays, two tenants, one image. */
static inline char *site_text(int racks, int trays)
{
	return rk_xasprintf(
		"{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\","
		"\"defaults\":{\"hypervisor\":{\"libvirt\":\"12.8.0\",\"qemu\":\"11.1.3\",\"arch\":\"aarch64\",\"pageKiB\":64}},"
		"\"network\":{\"bridge\":\"br0\",\"addresses\":\"10.20.0.0/20\",\"gateway\":\"10.20.0.1\"},"
		"\"infiniband\":[{\"name\":\"ib0\",\"driver\":\"opensm\",\"ssh\":\"root@sm1\",\"partitionsFile\":\"/etc/p.conf\",\"pkeyPool\":\"0x0100-0x01ff\"}],"
		"\"racks\":[{\"name\":\"r[1-%d]\",\"nvlink\":{%s},\"trays\":{\"count\":%d}}],"
		"\"images\":[{\"name\":\"u\",\"volume\":\"default/u.qcow2\",\"arch\":\"aarch64\",\"format\":\"qcow2\"}],"
		"\"tenants\":[{\"name\":\"t\"},{\"name\":\"u\"}]}",
		racks, rack_nvlink, trays);
}

static inline struct rk_spec *spec_of(struct rk_arena *arena, const char *name, const char *tenant, int count, int segment, bool required)
{
	const char *text = rk_arena_printf(
		arena, "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Cluster\",\"name\":\"%s\",\"tenant\":\"%s\",\"size\":\"nd128isr-gb300-v6\",\"count\":%d,"
		       "\"image\":\"u\",\"placement\":{\"segment\":%d,\"policy\":\"spread\"},\"ssh\":{\"user\":\"ops\",\"authorizedKeys\":"
		       "[\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExample00 o@c\"]},"
		       "\"validation\":{\"profile\":\"lab\",\"required\":%s}}",
		name, tenant, count, segment, required ? "true" : "false");
	struct rk_spec *spec;

	OK(rk_spec_parse("spec", text, strlen(text), arena, &spec, err));
	return spec;
}

static inline void open_store_of(struct fixture *f, const char *uri, const char *user, bool fresh)
{
	const struct rk_actor me = { user, "here", (long)getpid() };

	OK(rk_store_open(uri, RK_STORE_WRITE, &me, &f->world.store, err));
	if (fresh) {
		OK(rk_store_begin(f->world.store, -1, err));
		OK(rk_store_put_site(f->world.store, f->site, err));
		OK(rk_store_commit(f->world.store, err));
	}
	OK(rk_store_snapshot(f->world.store, &f->world.site, err));
}

static inline void join_world(struct fixture *f)
{
	f->world.jobs = 1;
	f->world.wait = true;
	f->world.cancel = &f->cancel;
	f->world.env = (struct rk_driver_env){ .site = f->world.site, .clock = f->clock, .cancel = &f->cancel };
	OK(rk_world_drivers(&f->world, err));
}

/* state: file of store and twin, made when it is not there; NULL: all in memory. */
static inline void open_world(struct fixture *f, const char *state, int racks, int trays)
{
	char *uri RK_CLEANUP_FREE = state ? rk_xasprintf("sqlite:%s", state) : rk_xstrdup("mem:");
	char *text RK_CLEANUP_FREE = site_text(racks, trays);
	bool fresh = !state || access(state, F_OK) != 0;

	memset(f, 0, sizeof(*f));
	f->arena = rk_arena_new();
	f->clock = rk_clock_virtual(1764500000000);
	OK(rk_site_parse("site", text, strlen(text), &f->site, err));
	rk_site_invent(f->site);
	open_store_of(f, uri, "tester", fresh);
	OK(rk_sim_open(f->site, state, f->clock, &f->world.sim, err));
	join_world(f);
}

static inline void close_world(struct fixture *f)
{
	if (f->borrowed)
		f->world.sim = NULL;
	rk_world_close(&f->world);
	rk_site_free(f->site);
	if (!f->borrowed)
		rk_clock_free(f->clock);
	rk_arena_free(f->arena);
}

/* Nothing fails any more: what failed halfway, or could not be read, is found and put right. */
static inline void look_again(struct fixture *f)
{
	struct rk_drift_left *left;
	size_t n;
	int64_t op;

	rk_sim_fault_clear(f->world.sim);
	rk_clock_sleep_ms(f->clock, 10000);
	OK(rk_world_refresh(&f->world, err));
	OK(rk_drift_fix(&f->world, NULL, f->arena, &op, &left, &n, err));
}

/* Teardown of a test whose state is a fixture from malloc. */
static inline int end_world(void **state)
{
	close_world(*state);
	free(*state);
	return 0;
}

/* A twin of two racks with cluster a, a VM in each; end_world. */
static inline int begin_world_with_a(void **state)
{
	struct fixture *f = rk_xcalloc(1, sizeof(*f));
	int64_t op;

	open_world(f, NULL, 2, 4);
	OK(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 2, 1, false), &op, err));
	*state = f;
	return 0;
}

/* ---- what is, as a text -------------------------------------------------------------------------------------------------------------- */

static inline int by_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static inline int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* To sort things by their ids: where a thing is goes along with its id. */
static inline uint64_t key_of(int id, size_t at)
{
	return (uint64_t)id << 32 | at;
}

static inline size_t place_of(uint64_t key)
{
	return (size_t)(key & 0xffffffffu);
}

static inline void add_guids(struct rk_str *out, uint64_t *guids, size_t n)
{
	qsort(guids, n, sizeof(*guids), by_u64);
	for (size_t i = 0; i < n; i++)
		rk_str_addf(out, " %" PRIx64, guids[i]);
	rk_str_addc(out, '\n');
}

/* A tray that was given up is nobody's: where its GPUs are and what was left on it is no concern of the others, unless it was drained. */
static inline bool given_up(const struct rk_site *site, int tray)
{
	return site->trays[tray].faulty && site->trays[tray].vm == RK_NONE;
}

static inline bool not_drained(const struct rk_site *site, int tray)
{
	return given_up(site, tray) && !strstr(site->trays[tray].faulty, "drained and erased");
}

static inline const char *power_of(const struct rk_site *site, int tray, const char *word)
{
	int vm = site->trays[tray].vm;

	return vm != RK_NONE && site->vms[vm].state == RK_VM_UNKNOWN ? "unknown" : word;
}

static inline void live_tray(struct fixture *f, struct rk_arena *arena, int tray, struct rk_str *out)
{
	struct rk_hv_domain *domains;
	const char **volumes;
	size_t n, n_volumes;

	OK(f->world.hv->ops->domain_list(f->world.hv, tray, arena, &domains, &n, err));
	OK(f->world.hv->ops->volume_list(f->world.hv, tray, f->world.site->pool, arena, &volumes, &n_volumes, err));
	if (n_volumes)
		qsort(volumes, n_volumes, sizeof(*volumes), by_text);
	for (size_t i = 0; i < n; i++)
		rk_str_addf(out, "domain %s %s %s %s\n", f->world.site->trays[tray].name, domains[i].name, domains[i].uuid,
			    power_of(f->world.site, tray, domains[i].running ? "runs" : "off"));
	for (size_t i = 0; i < n_volumes; i++)
		rk_str_addf(out, "volume %s %s\n", f->world.site->trays[tray].name, volumes[i]);
}

/* The free GPUs of a partition, or all of it. */
static inline size_t keep_gpus(const struct rk_site *site, const struct rk_nvl_live *part, bool only_free, uint64_t *ret)
{
	size_t n = 0;

	for (size_t g = 0; g < part->n_gpus; g++)
		if (!only_free || !given_up(site, site->gpus[rk_find_gpu_guid(site, part->gpus[g])].tray))
			ret[n++] = part->gpus[g];
	return n;
}

/* Somebody else's partition, empty, with an id that a plan would take; as long as it is empty it is no concern of ours. */
static inline void plant_theirs(struct fixture *f, int id)
{
	for (size_t r = 0; r < f->site->n_racks; r++)
		OK(rk_sim_plant_partition(f->world.sim, f->site->racks[r].name, id, "theirs", err));
}

static inline bool is_ours(const struct rk_site *site, int rack, const struct rk_nvl_live *part)
{
	return rk_nvl_tray_of(site, rack, part) == RK_NONE && (part->n_gpus || !rk_streq(part->name, "theirs"));
}

/* GPUs in the partition of their own tray are as free as those in the default one. */
static inline void live_rack(struct fixture *f, struct rk_arena *arena, int rack, struct rk_str *out)
{
	const struct rk_site *site = f->world.site;
	uint64_t *kept = rk_arena_array(arena, site->n_gpus, sizeof(*kept));
	struct rk_nvl_live *parts;
	size_t n, n_kept, n_keys = 0;

	OK(f->world.nvl->ops->list(f->world.nvl, rack, arena, &parts, &n, err));
	uint64_t *keys = rk_arena_array(arena, n, sizeof(*keys));
	for (size_t i = 0; i < n; i++)
		if (parts[i].id < RK_NVL_DEFAULT && is_ours(site, rack, &parts[i]))
			keys[n_keys++] = key_of(parts[i].id, i);
	qsort(keys, n_keys, sizeof(*keys), by_u64);
	for (size_t i = 0; i < n_keys; i++) {
		const struct rk_nvl_live *part = &parts[place_of(keys[i])];
		n_kept = keep_gpus(site, part, false, kept);
		rk_str_addf(out, "nvlink %s/%d:", site->racks[rack].name, part->id);
		add_guids(out, kept, n_kept);
	}
	n_kept = 0;
	for (size_t i = 0; i < n; i++)
		if (parts[i].id == RK_NVL_DEFAULT || rk_nvl_tray_of(site, rack, &parts[i]) != RK_NONE)
			n_kept += keep_gpus(site, &parts[i], true, kept + n_kept);
	rk_str_addf(out, "nvlink %s/%d:", site->racks[rack].name, RK_NVL_DEFAULT);
	add_guids(out, kept, n_kept);
}

static inline void live_ib(struct fixture *f, struct rk_arena *arena, struct rk_str *out)
{
	const struct rk_site *site = f->world.site;
	struct rk_ib_live *parts;
	uint64_t *guids = rk_arena_array(arena, site->n_hcas, sizeof(*guids));
	struct rk_ib_port *ports = rk_arena_array(arena, site->n_hcas, sizeof(*ports));
	size_t n;

	OK(f->world.ib->ops->list(f->world.ib, 0, arena, &parts, &n, err));
	uint64_t *keys = rk_arena_array(arena, n, sizeof(*keys));
	size_t n_keys = 0;
	for (size_t i = 0; i < n; i++)
		if (parts[i].pkey < RK_PKEY_DEFAULT)
			keys[n_keys++] = key_of(parts[i].pkey, i);
	qsort(keys, n_keys, sizeof(*keys), by_u64);
	for (size_t i = 0; i < n_keys; i++) {
		const struct rk_ib_live *part = &parts[place_of(keys[i])];
		uint64_t *members = rk_arena_array(arena, part->n_members, sizeof(*members));
		for (size_t m = 0; m < part->n_members; m++)
			members[m] = part->members[m].guid;
		rk_str_addf(out, "pkey %04x:", (unsigned)part->pkey);
		add_guids(out, members, part->n_members);
	}
	for (size_t i = 0; i < site->n_hcas; i++)
		guids[i] = site->hcas[i].port_guid;
	OK(f->world.ib->ops->tables(f->world.ib, 0, guids, site->n_hcas, arena, ports, err));
	for (size_t i = 0; i < site->n_hcas; i++)
		for (size_t k = 0; k < ports[i].n_pkeys; k++)
			if ((ports[i].pkeys[k] & RK_PKEY_DEFAULT) != RK_PKEY_DEFAULT)
				rk_str_addf(out, "port %" PRIx64 " %04x\n", guids[i], ports[i].pkeys[k]);
}

/* One line, so that a difference says whose list it is. */
static inline void add_list(struct rk_str *out, const char *vm, const char *lines)
{
	rk_str_addf(out, "imex %s:", vm);
	for (size_t n; *lines; lines += n + (lines[n] == '\n')) {
		n = strcspn(lines, "\n");
		rk_str_addf(out, " %.*s", (int)n, lines);
	}
	rk_str_addc(out, '\n');
}

static inline void live_guest(struct fixture *f, int vm, struct rk_str *out)
{
	static const char *const argv[] = { "cat", "/etc/nvidia-imex/nodes_config.cfg", NULL };
	struct rk_ssh_result result = { .status = -1 };
	struct rk_vm_conn *conn = NULL;

	OK(rk_vm_connect(&f->world, vm, 0, &conn, err));
	int rc = rk_vm_run(conn, argv, &result, NULL);
	add_list(out, f->world.site->vms[vm].name, rc ? "no answer" : rk_str_text(&result.out));
	rk_ssh_result_clear(&result);
	rk_vm_close(conn);
}

/* Everything outside the store, read now, after what is under way has settled. The caller frees. */
static inline char *live_text(struct fixture *f)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const struct rk_site *site = f->world.site;
	struct rk_str out = RK_STR_INIT;

	rk_clock_sleep_ms(f->clock, 10000);
	for (int t = 0; t < (int)site->n_trays; t++)
		if (!not_drained(site, t))
			live_tray(f, arena, t, &out);
	for (int r = 0; r < (int)site->n_racks; r++)
		live_rack(f, arena, r, &out);
	live_ib(f, arena, &out);
	for (size_t v = 0; v < site->n_vms; v++)
		if (site->vms[v].state == RK_VM_RUNNING)
			live_guest(f, (int)v, &out);
	return rk_str_steal(&out);
}

/* ---- what should be, as the same text -------------------------------------------------------------------------------------------------- */

static inline void wanted_tray(const struct rk_site *site, struct rk_arena *arena, int tray, struct rk_str *out)
{
	int vm = site->trays[tray].vm;

	if (vm == RK_NONE)
		return;
	const struct rk_vm *v = &site->vms[vm];
	rk_str_addf(out, "domain %s %s %s %s\n", site->trays[tray].name, rk_vm_domain_name(arena, rk_vm_host_name(v)), v->uuid,
		    power_of(site, tray, v->state == RK_VM_STOPPED ? "off" : "runs"));
	rk_str_addf(out, "volume %s %s\n", site->trays[tray].name, rk_vm_os_volume(arena, rk_vm_host_name(v)));
	rk_str_addf(out, "volume %s %s\n", site->trays[tray].name, rk_vm_seed_volume(arena, rk_vm_host_name(v)));
}

static inline size_t gpus_of(const struct rk_site *site, int rack, int cluster, uint64_t *ret)
{
	size_t n = 0;

	for (size_t g = 0; g < site->n_gpus; g++) {
		const struct rk_tray *t = &site->trays[site->gpus[g].tray];
		int holder = t->vm == RK_NONE ? RK_NONE : site->vms[t->vm].cluster;
		if (t->rack == rack && holder == cluster && !given_up(site, site->gpus[g].tray))
			ret[n++] = site->gpus[g].fabric_guid;
	}
	return n;
}

static inline void wanted_rack(const struct rk_site *site, struct rk_arena *arena, int rack, struct rk_str *out)
{
	uint64_t *guids = rk_arena_array(arena, site->n_gpus, sizeof(*guids)), *keys = rk_arena_array(arena, site->n_nvl_partitions, sizeof(*keys));
	size_t n = 0;

	for (size_t p = 0; p < site->n_nvl_partitions; p++)
		if (site->nvl_partitions[p].rack == rack)
			keys[n++] = key_of(site->nvl_partitions[p].id, p);
	if (n)
		qsort(keys, n, sizeof(*keys), by_u64);
	for (size_t i = 0; i < n; i++) {
		const struct rk_nvl_partition *p = &site->nvl_partitions[place_of(keys[i])];
		rk_str_addf(out, "nvlink %s/%d:", site->racks[rack].name, p->id);
		add_guids(out, guids, gpus_of(site, rack, p->cluster, guids));
	}
	rk_str_addf(out, "nvlink %s/%d:", site->racks[rack].name, RK_NVL_DEFAULT);
	add_guids(out, guids, gpus_of(site, rack, RK_NONE, guids));
}

static inline int key_of_hca(const struct rk_site *site, size_t hca)
{
	int vm = site->trays[site->hcas[hca].tray].vm;
	int ib = vm == RK_NONE ? RK_NONE : site->clusters[site->vms[vm].cluster].ib;

	return ib < 0 ? 0 : site->ib_partitions[ib].pkey;
}

static inline void wanted_ib(const struct rk_site *site, struct rk_arena *arena, struct rk_str *out)
{
	uint64_t *guids = rk_arena_array(arena, site->n_hcas, sizeof(*guids)), *keys = rk_arena_array(arena, site->n_ib_partitions, sizeof(*keys));

	for (size_t p = 0; p < site->n_ib_partitions; p++)
		keys[p] = key_of(site->ib_partitions[p].pkey, p);
	if (site->n_ib_partitions)
		qsort(keys, site->n_ib_partitions, sizeof(*keys), by_u64);
	for (size_t p = 0; p < site->n_ib_partitions; p++) {
		int key = site->ib_partitions[place_of(keys[p])].pkey;
		size_t n = 0;
		for (size_t h = 0; h < site->n_hcas; h++)
			if (key_of_hca(site, h) == key)
				guids[n++] = site->hcas[h].port_guid;
		rk_str_addf(out, "pkey %04x:", (unsigned)key);
		add_guids(out, guids, n);
	}
	for (size_t h = 0; h < site->n_hcas; h++)
		if (key_of_hca(site, h))
			rk_str_addf(out, "port %" PRIx64 " %04x\n", site->hcas[h].port_guid, (unsigned)key_of_hca(site, h) | 0x8000u);
}

static inline void wanted_guest(const struct rk_site *site, int vm, struct rk_str *out)
{
	const struct rk_cluster *c = &site->clusters[site->vms[vm].cluster];

	rk_str_addf(out, "imex %s:", site->vms[vm].name);
	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++)
		if (site->trays[site->vms[v].tray].rack == site->trays[site->vms[vm].tray].rack)
			rk_str_addf(out, " %s", site->vms[v].address);
	rk_str_addc(out, '\n');
}

static inline char *wanted_text(const struct rk_site *site)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_str out = RK_STR_INIT;

	for (int t = 0; t < (int)site->n_trays; t++)
		if (!not_drained(site, t))
			wanted_tray(site, arena, t, &out);
	for (int r = 0; r < (int)site->n_racks; r++)
		wanted_rack(site, arena, r, &out);
	wanted_ib(site, arena, &out);
	for (size_t v = 0; v < site->n_vms; v++)
		if (site->vms[v].state == RK_VM_RUNNING)
			wanted_guest(site, (int)v, &out);
	return rk_str_steal(&out);
}

/* The store as a text: who holds what. */
static inline char *store_text(const struct rk_site *site)
{
	struct rk_str out = RK_STR_INIT;

	for (size_t c = 0; c < site->n_clusters; c++)
		rk_str_addf(&out, "cluster %s %s op %" PRId64 " vms %d\n", site->clusters[c].name, rk_cluster_state_name(site->clusters[c].state),
			    site->clusters[c].op, site->clusters[c].n_vms);
	for (size_t v = 0; v < site->n_vms; v++)
		rk_str_addf(&out, "vm %s %s %s %s %s g%d\n", site->vms[v].name, site->trays[site->vms[v].tray].name, rk_vm_state_name(site->vms[v].state),
			    site->vms[v].uuid, site->vms[v].address, site->vms[v].generation);
	for (size_t t = 0; t < site->n_trays; t++)
		if (site->trays[t].faulty)
			rk_str_addf(&out, "faulty %s %s\n", site->trays[t].name, site->trays[t].faulty);
	return rk_str_steal(&out);
}

static inline bool has_line(const char *text, const char *line, size_t len)
{
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		if (n == len && strncmp(text, line, n) == 0)
			return true;
	}
	return false;
}

static inline void print_lines_missing(const char *mark, const char *text, const char *other)
{
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		if (!has_line(other, text, n))
			print_error("%s %.*s\n", mark, (int)n, text);
	}
}

static inline void print_difference(const char *live, const char *wanted)
{
	print_lines_missing("only the store says:", wanted, live);
	print_lines_missing("only seen:", live, wanted);
}

/* Store and outside systems say the same. */
static inline void assert_consistent(struct fixture *f)
{
	OK(rk_world_refresh(&f->world, err));
	char *live RK_CLEANUP_FREE = live_text(f), *wanted RK_CLEANUP_FREE = wanted_text(f->world.site);

	if (strcmp(live, wanted) != 0) {
		print_difference(live, wanted);
		fail_msg("store and twin differ");
	}
}

/* All of it, to compare before and after. */
static inline char *world_text(struct fixture *f)
{
	OK(rk_world_refresh(&f->world, err));
	char *live RK_CLEANUP_FREE = live_text(f), *store RK_CLEANUP_FREE = store_text(f->world.site);

	return rk_xasprintf("%s%s", store, live);
}

/* Thousands of worlds are opened and closed: their memory is kept instead of given back and asked for again each time. */
static inline void keep_memory(void)
{
	mallopt(M_TRIM_THRESHOLD, 512 << 20);
	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	mallopt(M_TOP_PAD, 4 << 20);
}

/* A fault that has not struck yet would strike the assertions: let harmless calls pass it. */
static inline void outlive_fault(struct fixture *f, long until)
{
	const char *where;

	while (rk_sim_calls(f->world.sim) < until)
		(void)f->world.nvl->ops->health(f->world.nvl, 0, f->arena, &where, NULL);
}
