/* The seed in the hands of cloud-init itself: its schema check, and two boots in a root of their own (tests/cloud-init/run.sh). Skipped where
 * cloud-init is not installed or nobody may make a mount. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "provision/ssh.h"
#include "tests/contract/child.h"
#include "vmspec/vmspec.h"

static const char *const keys[] = { "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExample00 ops@console" };
static const char *const nodes[] = { "10.20.0.5", "10.20.0.6" };
static const char *const dns[] = { "10.20.0.2" };

/* A user who wants files and commands, and who tries to bring a host key along. */
static const char user_config[] =
	"#cloud-config\nssh_deletekeys: false\nssh_keys:\n  ed25519_private: |\n    none\n  ed25519_public: none\n"
	"write_files:\n  - path: /marks/mine\n    content: \"caf\xc3\xa9\\n\"\nruncmd:\n  - [touch, /marks/ran]\n";
static const char user_script[] = "#!/bin/sh\nmkdir -p /marks\necho script >/marks/script\n";

struct seed {
	struct rk_seed_input in;
	char *private_key, *public_key;
	char folder[64];
};

static int set_up(void **state)
{
	struct seed *s = rk_xcalloc(1, sizeof(*s));
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	if (rk_ssh_make_key("a-01", &s->private_key, &s->public_key, &err))
		fail_msg("%s", err.message);
	s->in = (struct rk_seed_input){
		.vm = "a-01", .cluster = "a", .hostname = "a-01", .mac = "52:54:00:0a:0b:0c", .address = "10.20.0.5", .gateway = "10.20.0.1",
		.prefix_length = 20, .user = "ops", .generation = 3, .keys = keys, .n_keys = 1, .imex_nodes = nodes, .n_imex_nodes = 2,
		.dns = dns, .n_dns = 1, .host_key_private = s->private_key, .host_key_public = s->public_key,
	};
	snprintf(s->folder, sizeof(s->folder), "%s", "/tmp/racksh-cloud-init.XXXXXX");
	assert_non_null(mkdtemp(s->folder));
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct seed *s = *state;

	run((const char *const[]){ "rm", "-rf", s->folder, NULL });
	free(s->private_key);
	free(s->public_key);
	free(s);
	return 0;
}

static char *write_seed(const struct seed *s, const char *name)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	char *folder = rk_xasprintf("%s/%s", s->folder, name);
	struct rk_seed_file *files;
	size_t n;

	rk_seed_files(&s->in, arena, &files, &n);
	assert_int_equal(rk_mkdirs(folder, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", folder, files[i].name);
		assert_int_equal(rk_file_write(path, files[i].text, strlen(files[i].text), 0600, NULL), 0);
	}
	return folder;
}

static void schema_finds_nothing(void **state)
{
	const struct seed *s = *state;
	char *folder RK_CLEANUP_FREE = write_seed(s, "seed");
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/user-data", folder);
	int rc = run((const char *const[]){ "cloud-init", "schema", "-c", path, NULL });

	if (rc == 127)
		skip();
	assert_int_equal(rc, 0);
	/* The check really looks. */
	assert_int_equal(rk_file_write(path, "#cloud-config\nruncmd: 7\n", 24, 0600, NULL), 0);
	assert_int_not_equal(run((const char *const[]){ "cloud-init", "schema", "-c", path, NULL }), 0);
}

static char *left(const struct seed *s, const char *path)
{
	char *full RK_CLEANUP_FREE = rk_xasprintf("%s/out/%s", s->folder, path), *text = NULL;
	size_t len;

	return rk_file_read(full, 1 << 20, &text, &len, NULL) ? rk_xstrdup("(absent)") : text;
}

static void assert_left(const struct seed *s, const char *path, const char *part)
{
	char *text RK_CLEANUP_FREE = left(s, path);

	if (!strstr(text, part))
		fail_msg("%s holds: %.2000s", path, text);
}

static void assert_absent(const struct seed *s, const char *path)
{
	char *text RK_CLEANUP_FREE = left(s, path);

	assert_string_equal(text, "(absent)");
}

/* Boots from the seed; again: once more, from the sealed one. Skips where that cannot be done. */
static void boot(struct seed *s, bool again)
{
	char *first RK_CLEANUP_FREE = write_seed(s, "first"), *out RK_CLEANUP_FREE = rk_xasprintf("%s/out", s->folder);

	s->in.sealed = true;
	char *second RK_CLEANUP_FREE = write_seed(s, "second");
	assert_int_equal(rk_mkdirs(out, NULL), 0);
	int rc = run((const char *const[]){ "tests/cloud-init/run.sh", first, out, again ? second : NULL, NULL });
	if (rc == 77)
		skip();
	assert_int_equal(rc, 0);
}

static void check_first_boot(const struct seed *s)
{
	assert_left(s, "1/etc/ssh/ssh_host_ed25519_key", s->private_key);
	assert_left(s, "1/etc/ssh/ssh_host_ed25519_key.pub", s->public_key);
	assert_absent(s, "1/etc/ssh/ssh_host_rsa_key");
	assert_absent(s, "1/etc/ssh/ssh_host_ecdsa_key");
	assert_left(s, "1/etc/hostname", "a-01");
	assert_left(s, "1/home/ops/.ssh/authorized_keys", keys[0]);
	assert_left(s, "1/etc/nvidia-imex/nodes_config.cfg", "10.20.0.5\n10.20.0.6\n");
	assert_left(s, "1/var/log/systemctl.log", "systemctl enable --now nvidia-imex.service");
}

static void the_guest_is_what_the_seed_describes_and_stays_so_with_a_sealed_one(void **state)
{
	struct seed *s = *state;

	boot(s, true);
	check_first_boot(s);
	assert_left(s, "1/etc/netplan/50-cloud-init.yaml", "10.20.0.5/20");
	assert_left(s, "1/etc/netplan/50-cloud-init.yaml", "52:54:00:0a:0b:0c");
	assert_left(s, "1/etc/netplan/50-cloud-init.yaml", "10.20.0.2");
	assert_left(s, "2/etc/ssh/ssh_host_ed25519_key", s->private_key);
	assert_absent(s, "2/etc/ssh/ssh_host_rsa_key");
	/* The commands of the first boot ran once. */
	char *log RK_CLEANUP_FREE = left(s, "2/var/log/systemctl.log");
	assert_string_equal(log, "systemctl enable --now nvidia-imex.service\n");
}

static void a_users_part_is_added_and_cannot_replace_the_host_key(void **state)
{
	struct seed *s = *state;

	s->in.user_data = user_config;
	boot(s, false);
	check_first_boot(s);
	assert_left(s, "1/marks/mine", "caf\xc3\xa9\n");
	assert_left(s, "1/marks/ran", "");
}

static void a_users_script_runs(void **state)
{
	struct seed *s = *state;

	s->in.user_data = user_script;
	boot(s, false);
	check_first_boot(s);
	assert_left(s, "1/marks/script", "script\n");
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(schema_finds_nothing),
		EACH(the_guest_is_what_the_seed_describes_and_stays_so_with_a_sealed_one),
		EACH(a_users_part_is_added_and_cannot_replace_the_host_key),
		EACH(a_users_script_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
