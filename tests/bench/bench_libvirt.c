/* Create of a full site (64 racks, 1,152 VMs) through racksh's libvirt driver on libvirt's own test driver, one connection per tray: journal in
 * a file, every step durable. NVLink, InfiniBand, volumes and guests are the twin's. Beside it in the same run: a bare C loop over the same
 * libvirt calls (the floor), and `virsh` once per VM with define and start; the test driver keeps its state in the process, so both are made in
 * one process, which is half of the processes that people's scripts start. Nobody validates against libvirt's schema here: on real trays that
 * is the daemons' work, and it would be ten times the rest. */
#include <libvirt/libvirt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inventory/site_file.h"
#include "provision/cluster.h"
#include "provision/sim.h"
#include "tests/bench/bench.h"

enum { VMS = 1152 };

static const char spec_text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Cluster\",\"name\":\"whole\",\"tenant\":\"contoso\",\"size\":\"lab-tray\","
				"\"count\":1152,\"image\":\"ubuntu-24.04-gb300\",\"placement\":{\"segment\":18},\"ssh\":{\"user\":\"ops\",\"authorizedKeys\":"
				"[\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExample00 ops@console\"]}}";
static const char node_text[] = "<node><pool type='dir'><name>default</name><target><path>/default</path></target></pool></node>\n";

/* ---- a hypervisor whose domains are libvirt's and whose volumes are the twin's; the twin learns of domains too, for its guests ------- */

struct mixed {
	struct rk_hv hv;
	struct rk_hv *libvirt, *twin;
	char **xml; /* by tray: as given to libvirt, for the peers */
};

static struct rk_hv *libvirt_of(struct rk_hv *hv)
{
	struct mixed *m = (struct mixed *)hv;

	m->libvirt->site = hv->site;
	return m->libvirt;
}

static struct rk_hv *twin_of(struct rk_hv *hv)
{
	struct mixed *m = (struct mixed *)hv;

	m->twin->site = hv->site;
	return m->twin;
}

static int probe(struct rk_hv *hv, int tray, struct rk_arena *arena, struct rk_hostcaps *ret, struct rk_err *err)
{
	return twin_of(hv)->ops->probe(twin_of(hv), tray, arena, ret, err);
}

static int domain_list(struct rk_hv *hv, int tray, struct rk_arena *arena, struct rk_hv_domain **ret, size_t *ret_n, struct rk_err *err)
{
	return libvirt_of(hv)->ops->domain_list(libvirt_of(hv), tray, arena, ret, ret_n, err);
}

/* The test driver takes domains of its own type only; racksh sees the type it asked for. */
static char *with_type(const char *xml, const char *from, const char *to)
{
	char *old RK_CLEANUP_FREE = rk_xasprintf("<domain type=%s", from);
	const char *at = strstr(xml, old);

	return at ? rk_xasprintf("%.*s<domain type=%s%s", (int)(at - xml), xml, to, at + strlen(old)) : rk_xstrdup(xml);
}

static const char *as_asked(const char *xml, struct rk_arena *arena)
{
	char *text RK_CLEANUP_FREE = with_type(xml, "'test'", "'kvm'");

	return rk_arena_strdup(arena, text);
}

static int domain_get(struct rk_hv *hv, int tray, const char *name, struct rk_arena *arena, struct rk_hv_domain *ret, struct rk_err *err)
{
	int rc = libvirt_of(hv)->ops->domain_get(libvirt_of(hv), tray, name, arena, ret, err);

	if (rc == 0 && ret->exists)
		ret->xml = as_asked(ret->xml, arena);
	return rc;
}

static int define(struct rk_hv *hv, int tray, const char *xml, struct rk_arena *arena, const char **ret_xml, struct rk_err *err)
{
	struct mixed *m = (struct mixed *)hv;

	free(m->xml[tray]);
	m->xml[tray] = with_type(xml, "\"kvm\"", "\"test\"");
	int rc = libvirt_of(hv)->ops->define(libvirt_of(hv), tray, m->xml[tray], arena, ret_xml, err);
	if (rc == 0)
		*ret_xml = as_asked(*ret_xml, arena);
	return rc ? rc : twin_of(hv)->ops->define(twin_of(hv), tray, xml, arena, &(const char *){ NULL }, err);
}

static int start(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	int rc = libvirt_of(hv)->ops->start(libvirt_of(hv), tray, name, err);

	return rc ? rc : twin_of(hv)->ops->start(twin_of(hv), tray, name, err);
}

static int destroy(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	return libvirt_of(hv)->ops->destroy(libvirt_of(hv), tray, name, err);
}

static int undefine(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	return libvirt_of(hv)->ops->undefine(libvirt_of(hv), tray, name, err);
}

static int volume_get(struct rk_hv *hv, int tray, const char *pool, const char *name, struct rk_arena *arena, struct rk_hv_volume *ret, struct rk_err *err)
{
	return twin_of(hv)->ops->volume_get(twin_of(hv), tray, pool, name, arena, ret, err);
}

static int volume_overlay(struct rk_hv *hv, int tray, const char *pool, const char *name, const char *backing, struct rk_err *err)
{
	return twin_of(hv)->ops->volume_overlay(twin_of(hv), tray, pool, name, backing, err);
}

static int volume_put(struct rk_hv *hv, int tray, const char *pool, const char *name, const void *data, size_t len, struct rk_err *err)
{
	return twin_of(hv)->ops->volume_put(twin_of(hv), tray, pool, name, data, len, err);
}

static int volume_delete(struct rk_hv *hv, int tray, const char *pool, const char *name, struct rk_err *err)
{
	return twin_of(hv)->ops->volume_delete(twin_of(hv), tray, pool, name, err);
}

static void mixed_free(struct rk_hv *hv)
{
	struct mixed *m = (struct mixed *)hv;

	m->libvirt->ops->free(m->libvirt);
	m->twin->ops->free(m->twin);
}

static const struct rk_hv_ops ops = {
	.probe = probe,
	.domain_get = domain_get,
	.domain_list = domain_list,
	.define = define,
	.start = start,
	.destroy = destroy,
	.undefine = undefine,
	.volume_get = volume_get,
	.volume_overlay = volume_overlay,
	.volume_put = volume_put,
	.volume_delete = volume_delete,
	.free = mixed_free,
};

/* ---- racksh --------------------------------------------------------------------------------------------------------------------------- */

static void must(int rc, const struct rk_err *err, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, err->message ? err->message : "(no message)");
	for (size_t i = 0; i < err->n_details; i++)
		fprintf(stderr, "  %s\n", err->details[i]);
	exit(1);
}

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(text, f) < 0 || fclose(f) != 0) {
		perror(path);
		exit(1);
	}
}

static void open_world(struct rk_world *world, struct mixed *m, const char *folder, struct rk_err *err)
{
	static const struct rk_actor actor = { "bench", "here", 1 };
	char *uri RK_CLEANUP_FREE = rk_xasprintf("sqlite:%s/site.db", folder);
	struct rk_site *file = NULL;

	must(rk_site_load("tests/examples/site-64.json", &file, err), err, "site file");
	rk_site_invent(file);
	for (size_t i = 0; i < file->n_trays; i++)
		file->trays[i].libvirt_uri = rk_arena_printf(file->arena, "test://%s/node.xml", folder);
	must(rk_store_open(uri, RK_STORE_WRITE, &actor, &world->store, err), err, "store");
	must(rk_store_begin(world->store, -1, err), err, "begin");
	must(rk_store_put_site(world->store, file, err), err, "import");
	must(rk_store_commit(world->store, err), err, "commit");
	must(rk_store_snapshot(world->store, &world->site, err), err, "snapshot");
	world->env = (struct rk_driver_env){ .site = world->site, .clock = rk_clock_virtual(1764500000000) };
	must(rk_sim_open(file, NULL, world->env.clock, &world->sim, err), err, "twin");
	must(rk_hv_libvirt(&world->env, &m->libvirt, err), err, "libvirt");
	must(rk_sim_hv(world->sim, &world->env, &m->twin, err), err, "twin's hypervisors");
	m->hv = (struct rk_hv){ &ops, world->site };
	m->xml = rk_xcalloc(file->n_trays, sizeof(*m->xml));
	world->hv = &m->hv;
	world->jobs = 64;
	world->wait = true;
	must(rk_world_drivers(world, err), err, "drivers");
}

static double racksh(const char *folder, struct mixed *m, struct rk_err *err)
{
	struct rk_world world = { 0 };
	struct rk_arena *arena = rk_arena_new();
	volatile int cancel = 0;
	struct rk_spec *spec;
	int64_t op;

	open_world(&world, m, folder, err);
	world.cancel = &cancel;
	must(rk_spec_parse("spec", spec_text, strlen(spec_text), arena, &spec, err), err, "spec");
	double from = bench_now();
	must(rk_cluster_create(&world, spec, &op, err), err, "create");
	double seconds = bench_now() - from;
	rk_arena_free(arena);
	rk_world_close(&world);
	return seconds;
}

/* ---- beside it ------------------------------------------------------------------------------------------------------------------------ */

static double bare_loop(const char *folder, char *const *xml)
{
	static virConnectPtr links[VMS];
	char *uri RK_CLEANUP_FREE = rk_xasprintf("test://%s/node.xml", folder);
	double from = bench_now();

	for (int i = 0; i < VMS; i++) {
		links[i] = virConnectOpen(uri);
		virDomainPtr domain = links[i] ? virDomainDefineXMLFlags(links[i], xml[i], 0) : NULL;
		char *kept = domain ? virDomainGetXMLDesc(domain, VIR_DOMAIN_XML_INACTIVE | VIR_DOMAIN_XML_SECURE) : NULL;
		if (!kept || virDomainCreate(domain) != 0)
			exit(1);
		free(kept);
		virDomainFree(domain);
	}
	double seconds = bench_now() - from;
	for (int i = 0; i < VMS; i++)
		virConnectClose(links[i]);
	return seconds;
}

static double virsh_loop(const char *folder, char *const *xml)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/domain.xml", folder);
	char *uri RK_CLEANUP_FREE = rk_xasprintf("test://%s/node.xml", folder);
	double seconds = 0;

	for (int i = 0; i < VMS; i++) {
		const char *from = strstr(xml[i], "<name>") + 6;
		char *words RK_CLEANUP_FREE = rk_xasprintf("define %s; start %.*s", path, (int)strcspn(from, "<"), from);
		const char *argv[] = { "virsh", "-q", "-c", uri, words, NULL };
		struct bench_run run;
		write_text(path, xml[i]);
		if (bench_run(argv, &run) != 0)
			exit(1);
		seconds += run.seconds;
	}
	return seconds;
}

int main(void)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	char folder[] = "/tmp/racksh-bench.XXXXXX";
	struct mixed m = { 0 };

	if (!mkdtemp(folder))
		return 1;
	char *node RK_CLEANUP_FREE = rk_xasprintf("%s/node.xml", folder);
	write_text(node, node_text);
	double ours = racksh(folder, &m, &err), peak = bench_peak_mib();
	bench_row("create, 1,152 VMs on test:///", ours, "s", "bare C loop over the same calls", bare_loop(folder, m.xml), "<=3");
	bench_row("create, 1,152 VMs on test:///", ours, "s", "virsh per VM", virsh_loop(folder, m.xml), ">=10x");
	bench_row("create, 1,152 VMs on test:///, peak memory", peak, "MiB", NULL, 0, "<=256");
	char *clean RK_CLEANUP_FREE = rk_xasprintf("rm -rf %s", folder);
	return bench_run((const char *const[]){ "sh", "-c", clean, NULL }, &(struct bench_run){ 0 });
}
