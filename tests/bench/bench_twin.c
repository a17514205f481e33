/* Create of a full site (64 racks, 1,152 VMs) in the twin by the binary, store and twin kept in one file: every step is in the journal on the disk
 * before the next one depends on it. Beside it a synced write of a page per VM, which nothing that keeps a journal can do without. */
#include <string.h>

#include "inventory/base/mem.h"
#include "tests/bench/bench.h"

enum { VMS = 1152, PAGE = 4096 };

static const char spec_text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Cluster\",\"name\":\"whole\",\"tenant\":\"contoso\",\"size\":\"nd128isr-gb300-v6\","
				"\"count\":1152,\"image\":\"ubuntu-24.04-gb300\",\"placement\":{\"segment\":18},\"ssh\":{\"user\":\"ops\",\"authorizedKeys\":"
				"[\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExample00 ops@console\"]}}";

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		fail(path);
}

static double synced_pages(const char *folder)
{
	static const char page[PAGE];
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/pages", folder);
	int fd RK_CLEANUP_FD = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	double from = bench_now();

	for (int i = 0; i < VMS; i++)
		if (fd < 0 || write(fd, page, sizeof(page)) != sizeof(page) || fdatasync(fd) != 0)
			fail(path);
	return bench_now() - from;
}

int main(void)
{
	char folder[] = "/tmp/racksh-bench.XXXXXX";
	struct bench_run run;

	if (!mkdtemp(folder))
		fail("mkdtemp");
	char *spec RK_CLEANUP_FREE = rk_xasprintf("%s/spec.json", folder), *state RK_CLEANUP_FREE = rk_xasprintf("%s/state.db", folder);
	write_text(spec, spec_text);
	const char *argv[] = { getenv("RACKSH"), "--sim", "tests/examples/site-64.json", "--sim-state", state, "-q", "-y", "cluster", "create", spec, NULL };
	if (bench_run(argv, &run) != 0)
		fail("create in the twin");
	bench_row("create, 1,152 VMs in the twin, store in a file", run.seconds, "s", "a synced page per VM", synced_pages(folder), "<=5");
	bench_row("create, 1,152 VMs in the twin, processor time", run.cpu, "s", NULL, 0, "<=5");
	bench_row("create, 1,152 VMs in the twin, peak memory", run.peak_mib, "MiB", NULL, 0, "<=256");
	char *clean RK_CLEANUP_FREE = rk_xasprintf("rm -rf %s", folder);
	return bench_run((const char *const[]){ "sh", "-c", clean, NULL }, &run);
}
