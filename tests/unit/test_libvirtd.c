/* The lab forms on a real libvirt (tests/contract/libvirtd.h): an image is uploaded, killed on the way and continued; a guest is made of an overlay
 * on it and a seed, defined with validation, read back, started, and says from inside that it has booted from that disk. All under emulation.
 * (That a guest takes its key and its address from the seed is seen in tests/lab.) Skipped where libvirtd or QEMU is not installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/site_file.h"
#include "provision/image.h"
#include "tests/contract/libvirtd.h"
#include "vmspec/domain_impl.h"

enum { IMAGE_BYTES = 72 << 20 /* more than the piece that a host acknowledges */, GUEST_MS = 60000, MIB = 1 << 20, MARK_SECTOR = 64 };

/* Boot sector: reads four sectors of its disk from MARK_SECTOR on to 0x8000 and says for ever on the first serial port "disk boots, mark " and
 * the 6 letters at 0x8028. */
static const unsigned char boot_sector[] = {
	0xfa, 0x31, 0xc0, 0x8e, 0xd8, 0x8e, 0xd0, 0xbc, 0x00, 0x7c, 0xfb,       /* cli; ds = ss = 0; sp = 0x7c00; sti */
	0xbe, 0x41, 0x7c, 0xb4, 0x42, 0xb2, 0x80, 0xcd, 0x13,                   /* si = packet; ah = 0x42; dl = 0x80; int 0x13 */
	0xc6, 0x06, 0x2e, 0x80, 0x00,                                           /* [0x802e] = 0 */
	0xbe, 0x51, 0x7c, 0xe8, 0x0e, 0x00, 0xbe, 0x28, 0x80, 0xe8, 0x08, 0x00, /* say: text; name */
	0xbe, 0x63, 0x7c, 0xe8, 0x02, 0x00, 0xeb, 0xec,                         /* end of line; jmp say */
	0xba, 0xfd, 0x03, 0xec, 0xa8, 0x20, 0x74, 0xf8,                         /* puts: until the port takes a byte */
	0xac, 0x84, 0xc0, 0x74, 0x06, 0xba, 0xf8, 0x03, 0xee, 0xeb, 0xed, 0xc3, /* lodsb; 0: ret; out; next */
	0x10, 0x00, 0x04, 0x00, 0x00, 0x80, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* packet */
	'd', 'i', 's', 'k', ' ', 'b', 'o', 'o', 't', 's', ',', ' ', 'm', 'a', 'r', 'k', ' ', 0, '\r', '\n', 0,
};

/* A kernel of machine virt: says for ever on the first serial port (0x09000000) "kernel boots". */
static const unsigned char arm_kernel[] = {
	0x01, 0x20, 0xa1, 0xd2, 0xa2, 0x00, 0x00, 0x10, /* movz x1, #0x0900, lsl #16; again: adr x2, text */
	0x40, 0x14, 0x40, 0x38, 0xc0, 0xff, 0xff, 0x34, /* loop: ldrb w0, [x2], #1; cbz w0, again */
	0x20, 0x00, 0x00, 0x39, 0xfd, 0xff, 0xff, 0x17, /* strb w0, [x1]; b loop */
	'k', 'e', 'r', 'n', 'e', 'l', ' ', 'b', 'o', 'o', 't', 's', '\r', '\n', 0,
};

struct fixture {
	struct libvirtd daemon;
	struct rk_world world;
	struct rk_arena *arena;
	struct rk_trace *trace;
	char *image, *kernel, *trace_file; /* files outside the pool */
	char *said;               /* progress, one line after the other */
};

#define OK(call)                                                  \
	do {                                                      \
		RK_CLEANUP_ERR struct rk_err err_ = RK_ERR_INIT;  \
		struct rk_err *err = &err_;                       \
		if ((call) != 0)                                  \
			fail_msg("%s: %s", #call, err->message);  \
	} while (0)

static void note_progress(void *ctx, const char *text)
{
	struct fixture *f = ctx;
	char *before RK_CLEANUP_FREE = f->said;

	f->said = rk_xasprintf("%s%s\n", before ? before : "", text);
}

/* A disk that boots, with a mark in every MiB. */
static void write_image(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, IMAGE_BYTES), 0);
	for (off_t at = MIB / 2; at < IMAGE_BYTES; at += MIB)
		assert_int_equal(pwrite(fd, &at, sizeof(at), at), sizeof(at));
	assert_int_equal(pwrite(fd, boot_sector, sizeof(boot_sector), 0), sizeof(boot_sector));
	assert_int_equal(pwrite(fd, "\x55\xaa", 2, 510), 2);
	assert_int_equal(pwrite(fd, "Racksh", 6, MARK_SECTOR * 512 + 0x28), 6);
	close(fd);
}

static struct rk_site *site_of(const char *uri)
{
	char *text RK_CLEANUP_FREE = rk_xasprintf(
		"{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"real\",\"defaults\":{\"libvirt\":\"%s\"},\"network\":{\"user\":true},"
		"\"racks\":[{\"name\":\"r1\",\"trays\":{\"count\":1}}],\"tenants\":[{\"name\":\"t\"}]}", uri);
	struct rk_site *site;

	OK(rk_site_parse("site", text, strlen(text), &site, err));
	return site;
}

static void open_world(struct fixture *f)
{
	static const struct rk_actor me = { "me", "here", 1 };
	struct rk_site *site RK_CLEANUP_SITE = site_of(f->daemon.uri);

	OK(rk_store_open("mem:", RK_STORE_WRITE, &me, &f->world.store, err));
	OK(rk_store_begin(f->world.store, -1, err));
	OK(rk_store_put_site(f->world.store, site, err));
	OK(rk_store_commit(f->world.store, err));
	OK(rk_store_snapshot(f->world.store, &f->world.site, err));
	f->world.env.site = f->world.site;
	f->world.env.trace = f->trace = rk_trace_open(f->trace_file);
	f->world.jobs = 1;
	f->world.progress = note_progress;
	f->world.progress_ctx = f;
	OK(rk_hv_libvirt(&f->world.env, &f->world.hv, err));
}

static int set_up(void **state)
{
	struct fixture *f = *state = rk_xcalloc(1, sizeof(*f));

	f->arena = rk_arena_new();
	libvirtd_start(&f->daemon);
	f->image = rk_xasprintf("%s/disk.raw", f->daemon.home);
	f->kernel = rk_xasprintf("%s/kernel", f->daemon.home);
	f->trace_file = rk_xasprintf("%s/trace", f->daemon.home);
	return 0;
}

static int close_world(void **state)
{
	struct fixture *f = *state;

	rk_world_close(&f->world);
	f->world = (struct rk_world){ 0 };
	rk_trace_close(rk_steal(&f->trace));
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	libvirtd_stop(&f->daemon);
	rk_arena_free(f->arena);
	free(f->image);
	free(f->kernel);
	free(f->trace_file);
	free(f->said);
	free(f);
	return 0;
}

/* ---- the image ----------------------------------------------------------------------------------------------------------------------- */

static int add_image(struct fixture *f, struct rk_err *err)
{
	const struct rk_image_add request = { .name = "disk", .path = f->image, .arch = "x86_64", .state_folder = f->daemon.home };
	struct rk_image_added added;

	return rk_image_add(&f->world, &request, f->arena, &added, err);
}

static void die(void *ctx, const char *text)
{
	(void)ctx;
	if (!strstr(text, ": 0 %"))
		raise(SIGKILL);
}

/* In a process of its own, which has no connection yet: killed as soon as a part is on the host. */
static void add_image_and_be_killed(struct fixture *f)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		open_world(f);
		f->world.progress = die;
		add_image(f, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static char *pool_file(const struct fixture *f, const char *name)
{
	return rk_arena_printf(f->arena, "%s/pool/%s", f->daemon.home, name);
}

static void an_upload_that_was_killed_goes_on(struct fixture *f)
{
	const char *volume = pool_file(f, "disk.raw");

	write_image(f->image);
	add_image_and_be_killed(f);
	/* What a kill in the middle of the next piece leaves. */
	int fd = open(volume, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "half a piece", 12, IMAGE_BYTES - MIB), 12);
	close(fd);
	open_world(f);
	OK(add_image(f, err));
	/* It did not begin anew. */
	assert_true(rk_starts_with(f->said, "image disk: 80 % of 72 MiB on 1 tray\n"));
	assert_non_null(strstr(f->said, "image disk: 100 % of 72 MiB on 1 tray\n"));
	assert_int_equal(run((const char *const[]){ "cmp", f->image, volume, NULL }), 0);
	OK(rk_world_refresh(&f->world, err));
	assert_int_not_equal(rk_find_image(f->world.site, "disk"), RK_NONE);
}

/* A volume that is there already, under another name of an image. */
static int add_volume(struct fixture *f, const char *volume, const char *format, struct rk_image_added *added, struct rk_err *err)
{
	const struct rk_image_add request = { .name = "again", .volume = volume, .format = format, .arch = "x86_64", .dry_run = true };

	return rk_image_add(&f->world, &request, f->arena, added, err);
}

static void volumes_are_looked_into(struct fixture *f, const char *overlay)
{
	static const struct {
		const char *volume, *format, *message;
	} cases[] = {
		{ "default/disk.raw", "qcow2", "volume \"default/disk.raw\" is raw, not qcow2" },
		{ "default/none.raw", NULL, "there is no volume \"default/none.raw\"" },
		{ NULL, NULL, "has a backing file, which could be any file of the host" },
	};
	struct rk_image_added added;

	OK(add_volume(f, "default/disk.raw", NULL, &added, err));
	assert_string_equal(added.image.format, "raw");
	assert_true(added.bytes == IMAGE_BYTES && added.disk_bytes == IMAGE_BYTES && added.trays == 1);
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		const char *volume = cases[i].volume ? cases[i].volume : rk_arena_printf(f->arena, "default/%s", overlay);
		assert_int_not_equal(add_volume(f, volume, cases[i].format, &added, &err), 0);
		const char *said = err.n_details ? err.details[0] : err.message;
		if (!strstr(said, cases[i].message))
			fail_msg("%s: %s", volume, said);
	}
}

/* ---- the guest ----------------------------------------------------------------------------------------------------------------------- */

static void make_volumes(struct fixture *f, const char *vm, const char *image)
{
	static const struct rk_seed_file files[] = { { "meta-data", (char *)"instance-id: a\n" }, { "user-data", (char *)"#cloud-config\n# the private key\n" } };
	struct rk_hv *hv = f->world.hv;
	void *seed RK_CLEANUP_FREE = NULL;
	struct stat st;
	size_t len;

	if (image)
		OK(hv->ops->volume_overlay(hv, 0, "default", rk_vm_os_volume(f->arena, vm), image, err));
	OK(rk_seed_image(files, RK_ARRAY_SIZE(files), &seed, &len, err));
	OK(hv->ops->volume_put(hv, 0, "default", rk_vm_seed_volume(f->arena, vm), seed, len, err));
	/* It holds a private key. */
	assert_int_equal(stat(pool_file(f, rk_vm_seed_volume(f->arena, vm)), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

/* Renders for what the daemon says it can do, defines with validation, compares what it kept, starts. */
static void start_guest(struct fixture *f, const char *vm, const char *arch, const struct rk_image *image)
{
	struct rk_str xml RK_CLEANUP_STR = RK_STR_INIT;
	const char *uuid = rk_vm_uuid(f->arena, "real", "a", vm, 1), *kept;
	struct rk_hv *hv = f->world.hv;
	struct rk_hostcaps caps;
	/* The port for SSH is forwarded from a loopback address that no other run has. */
	const char *address = rk_arena_printf(f->arena, "127.%d.%d.1", 1 + (int)getpid() / 256 % 60, (int)getpid() % 256);
	struct rk_vm_input in = {
		.site = f->world.site, .size = rk_size_find(NULL, "lab-tray"), .image = image, .vm = vm, .cluster = "a", .tenant = "t", .uuid = uuid,
		.mac = rk_vm_mac(f->arena, uuid), .address = address, .ssh_port = 2222, .generation = 1,
		.os_path = image->volume ? pool_file(f, rk_vm_os_volume(f->arena, vm)) : NULL, .seed_path = pool_file(f, rk_vm_seed_volume(f->arena, vm)),
	};

	OK(hv->ops->probe(hv, 0, f->arena, &caps, err));
	assert_true(caps.probed && caps.libvirt >= 9000000 && caps.client >= 9000000 && caps.qemu > 0);
	caps.arch = arch;
	caps.kvm = false;
	OK(rk_domain_xml(&in, &caps, &xml, NULL, err));
	OK(hv->ops->define(hv, 0, rk_str_text(&xml), f->arena, &kept, err));
	OK(rk_domain_xml_compare(rk_str_text(&xml), kept, err));
	OK(hv->ops->start(hv, 0, rk_vm_domain_name(f->arena, vm), err));
}

/* The guest repeats itself; its console is a pseudo terminal that libvirt names. */
static void assert_guest_says(struct fixture *f, const char *vm, const char *what)
{
	int64_t end = rk_clock_ms(NULL) + GUEST_MS;
	char *tty = output_of((const char *const[]){ "virsh", "-q", "-c", f->daemon.uri, "ttyconsole", rk_vm_domain_name(f->arena, vm), NULL });
	char text[4096] = "";
	size_t n = 0;

	assert_non_null(tty);
	tty[strcspn(tty, "\n")] = '\0';
	int fd = open(tty, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	free(tty);
	assert_true(fd >= 0);
	while (!strstr(text, what) && rk_clock_ms(NULL) < end) {
		ssize_t got = read(fd, text + n, sizeof(text) - 1 - n);
		if (got > 0)
			text[n += (size_t)got] = '\0';
		else
			rk_clock_sleep_ms(NULL, LIBVIRTD_LOOK_MS);
		if (n == sizeof(text) - 1)
			n = 0;
	}
	close(fd);
	if (!strstr(text, what))
		fail_msg("the guest says: %s", text);
}

static void remove_guest(struct fixture *f, const char *vm)
{
	const char *domain = rk_vm_domain_name(f->arena, vm);
	struct rk_hv *hv = f->world.hv;
	struct rk_hv_domain found;
	const char **names;
	size_t n;

	OK(hv->ops->destroy(hv, 0, domain, err));
	OK(hv->ops->undefine(hv, 0, domain, err));
	OK(hv->ops->domain_get(hv, 0, domain, f->arena, &found, err));
	assert_false(found.exists);
	OK(hv->ops->volume_delete(hv, 0, "default", rk_vm_os_volume(f->arena, vm), err));
	OK(hv->ops->volume_delete(hv, 0, "default", rk_vm_seed_volume(f->arena, vm), err));
	OK(hv->ops->volume_list(hv, 0, "default", f->arena, &names, &n, err));
	for (size_t i = 0; i < n; i++)
		assert_null(strstr(names[i], vm));
}

/* The trace shows what was sent, but for what is in a seed. */
static void assert_nothing_told(struct fixture *f)
{
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;

	OK(rk_file_read(f->trace_file, 1 << 20, &text, &len, err));
	assert_non_null(strstr(text, "racksh-a-01-seed.iso"));
	assert_non_null(strstr(text, "<domain "));
	assert_null(strstr(text, "the private key"));
}

static void a_guest_boots_from_an_overlay_on_an_uploaded_image(void **state)
{
	struct fixture *f = *state;

	if (!f->daemon.made)
		skip();
	assert_non_null(f->daemon.uri);
	an_upload_that_was_killed_goes_on(f);
	const struct rk_image *image = &f->world.site->images[rk_find_image(f->world.site, "disk")];
	assert_string_equal(image->volume, "default/disk.raw");
	make_volumes(f, "a-01", image->volume);
	volumes_are_looked_into(f, rk_vm_os_volume(f->arena, "a-01"));
	start_guest(f, "a-01", "x86_64", image);
	assert_guest_says(f, "a-01", "disk boots, mark Racksh\r\n");
	remove_guest(f, "a-01");
	assert_nothing_told(f);
	/* The guest wrote to its overlay, if at all. */
	assert_int_equal(run((const char *const[]){ "cmp", f->image, pool_file(f, "disk.raw"), NULL }), 0);
}

static void a_guest_of_aarch64_boots_its_kernel(void **state)
{
	struct fixture *f = *state;
	const struct rk_image image = { .name = "arm", .arch = "aarch64", .kernel = f->kernel };

	if (!f->daemon.made || access("/usr/bin/qemu-system-aarch64", X_OK) != 0)
		skip();
	open_world(f);
	assert_int_equal(rk_file_write(f->kernel, arm_kernel, sizeof(arm_kernel), 0644, NULL), 0);
	make_volumes(f, "b-01", NULL);
	start_guest(f, "b-01", "aarch64", &image);
	assert_guest_says(f, "b-01", "kernel boots\r\n");
	remove_guest(f, "b-01");
}

/* Debian 12 has libvirt 9.0.0: racksh says what is missing before it asks, and libvirt itself would not have taken it either. */
static void an_old_libvirt_refuses_the_full_form_and_racksh_says_so_first(void **state)
{
	RK_CLEANUP_ERR struct rk_err ours = RK_ERR_INIT, theirs = RK_ERR_INIT;
	char *xml RK_CLEANUP_FREE = NULL;
	bool have[RK_ELEMENTS];
	struct fixture *f = *state;
	struct rk_hv *hv;
	struct rk_hostcaps caps;
	const char *kept;
	size_t len;

	if (!f->daemon.made)
		skip();
	assert_non_null(f->daemon.uri);
	open_world(f);
	hv = f->world.hv;
	OK(hv->ops->probe(hv, 0, f->arena, &caps, err));
	if (caps.libvirt >= 12007000)
		skip();
	assert_int_equal(rk_hostcaps_check(&caps, rk_size_find(NULL, "nd128isr-gb300-v6"), have, &ours), RK_INVALID);
	assert_non_null(strstr(ours.message, "cannot express size \"nd128isr-gb300-v6\": "));
	assert_non_null(strstr(ours.message, "<iommu><driver accel> needs libvirt 12.7.0"));
	OK(rk_file_read("tests/fixtures/domain_xml/gb300-full.xml", 1 << 20, &xml, &len, err));
	assert_int_equal(hv->ops->define(hv, 0, xml, f->arena, &kept, &theirs), RK_INVALID);
	assert_non_null(strstr(theirs.message, "defining the domain"));
}

/* ---- what went wrong ------------------------------------------------------------------------------------------------------------------ */

static bool no_progress(void *ctx, uint64_t done)
{
	(void)ctx, (void)done;
	return true;
}

static void a_pool_that_does_not_start_is_told_with_the_reason(void **state)
{
	RK_CLEANUP_ERR struct rk_err gone = RK_ERR_INIT;
	struct fixture *f = *state;
	const char *target = rk_arena_printf(f->arena, "%s/none", f->daemon.home);
	struct rk_hv_volume volume;

	if (!f->daemon.made)
		skip();
	open_world(f);
	assert_int_equal(run((const char *const[]){ "virsh", "-q", "-c", f->daemon.uri, "pool-define-as", "gone", "dir", "--target", target, NULL }), 0);
	assert_int_not_equal(f->world.hv->ops->volume_get(f->world.hv, 0, "gone", "x", f->arena, &volume, &gone), 0);
	if (!strstr(gone.message, target))
		fail_msg("%s", gone.message);
}

static void a_file_that_shrinks_while_it_is_sent_is_told(void **state)
{
	RK_CLEANUP_ERR struct rk_err shrunk = RK_ERR_INIT;
	struct fixture *f = *state;

	if (!f->daemon.made)
		skip();
	open_world(f);
	assert_int_equal(rk_file_write(f->kernel, "short", 5, 0644, NULL), 0);
	const struct rk_hv_upload up = { .fd = open(f->kernel, O_RDONLY | O_CLOEXEC), .bytes = MIB, .progress = no_progress };
	assert_int_equal(f->world.hv->ops->volume_upload(f->world.hv, 0, "default", "short.raw", &up, &shrunk), RK_FAILED);
	close(up.fd);
	if (!strstr(shrunk.message, "it is shorter than it was"))
		fail_msg("%s", shrunk.message);
	OK(f->world.hv->ops->volume_delete(f->world.hv, 0, "default", "short.raw", err));
}

/* libvirt's own test driver has volumes, but takes no bytes for them. */
static void a_transfer_that_fails_is_told_with_the_reason(void **state)
{
	RK_CLEANUP_ERR struct rk_err put = RK_ERR_INIT;
	struct rk_site *site RK_CLEANUP_SITE = site_of("test:///default");
	const struct rk_driver_env env = { .site = site };
	struct rk_hv *hv;

	(void)state;
	OK(rk_hv_libvirt(&env, &hv, err));
	assert_int_equal(hv->ops->volume_put(hv, 0, "default-pool", "x", "bytes", 5, &put), RK_INVALID);
	if (!strstr(put.message, "uploading a volume") || !strstr(put.message, "not supported"))
		fail_msg("%s", put.message);
	hv->ops->free(hv);
}

#define WITH_WORLD(test) cmocka_unit_test_teardown(test, close_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WORLD(a_guest_boots_from_an_overlay_on_an_uploaded_image),
		WITH_WORLD(a_guest_of_aarch64_boots_its_kernel),
		WITH_WORLD(an_old_libvirt_refuses_the_full_form_and_racksh_says_so_first),
		WITH_WORLD(a_pool_that_does_not_start_is_told_with_the_reason),
		WITH_WORLD(a_file_that_shrinks_while_it_is_sent_is_told),
		cmocka_unit_test(a_transfer_that_fails_is_told_with_the_reason),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
