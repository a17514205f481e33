/* `vm exec` of racksh itself: what hosts may print, what a command may be made of, how answers are folded, exit codes, input. The hosts are real
 * sshds; skipped without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inventory/base/json.h"
#include "tests/contract/racksh_runs.h"
#include "tests/contract/real_site.h"
#include "tests/unit/sshd.h"

enum { GOOD = 3, REFUSED = GOOD, OTHER_KEY, HOSTS };

static struct sshd servers[HOSTS]; /* a-04 does not listen, a-05 shows another key than the pinned one */
static char *store;

static int start(void **state)
{
	static const char *const links[] = { NULL };
	struct real_host hosts[HOSTS];

	(void)state;
	for (size_t i = 0; i < HOSTS; i++)
		sshd_start(&servers[i], "");
	if (open_folder(links))
		return -1;
	if (!servers[0].up)
		return 0;
	for (size_t i = 0; i < HOSTS; i++) {
		char *env RK_CLEANUP_FREE = rk_xasprintf("HOST=%zu DIR=%s", i + 1, folder);
		sshd_configure(&servers[i], &servers[0], env, "");
		hosts[i] = (struct real_host){ servers[i].port, i == OTHER_KEY ? servers[0].host_public : servers[i].host_public };
	}
	char *known RK_CLEANUP_FREE = in_folder("known");
	store = rk_xasprintf("sqlite:%s/store", folder);
	real_store(store, &(struct real_site){ .hosts = hosts, .n = HOSTS, .identity = servers[0].client_key, .known = known, .jump = "" });
	shutdown(servers[REFUSED].listener, SHUT_RDWR);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	for (size_t i = 0; i < HOSTS; i++)
		sshd_stop(&servers[i]);
	free(store);
	return remove_folder();
}

enum { CLOSED = -1 };

/* racksh in the folder with these words behind the store's option; its input is that file, or closed. */
static int said(const char *const *words, int in, char **ret_out, char **ret_err)
{
	const char *argv[24] = { "racksh", "-s", store };

	if (!servers[0].up)
		skip();
	for (size_t i = 0; words[i]; i++)
		argv[3 + i] = words[i];
	pid_t pid = fork();
	if (pid == 0) {
		if (chdir(folder))
			_exit(126);
		dup2(open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
		dup2(open("err", O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
		if (in == CLOSED)
			close(0);
		else
			dup2(in, 0);
		execv(racksh, (char *const *)argv);
		_exit(127);
	}
	int code = ended(pid);
	*ret_out = text_of("out");
	*ret_err = text_of("err");
	return code;
}

static int with_text(const char *text)
{
	char *path RK_CLEANUP_FREE = in_folder("in");

	put_text("in", text);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void answers_are_folded_and_classed(void **state)
{
	static const struct {
		const char *const words[12];
		int code;
		const char *out[2], *err; /* out: all of it, or how it begins and what it holds, too */
	} rows[] = {
		{ { "vm", "exec", "a-[01-03]", "--", "echo", "same" }, 0, { "a-[01-03] (3):\nsame\n" }, NULL },
		{ { "vm", "exec", "a-[01-03]", "--", "sh", "-c", "printf part; [ $HOST = 2 ] && exit 3; exit 0" }, 3,
		  { "a-02 (1): exit status 3\npart\na-[01,03] (2):\npart\n" }, "the command failed remotely on 1 of 3 VMs" },
		{ { "vm", "exec", "a-[01-03]", "--", "sh", "-c", "echo why >&2; exit 9" }, 1, { "a-[01-03] (3): exit status 9\nwhy\n" }, "on 3 of 3 VMs" },
		{ { "vm", "exec", "a-[01-03]", "--", "sh", "-c", "kill -SEGV $$" }, 1, { "a-[01-03] (3): ended by signal SEGV\n" }, NULL },
		{ { "vm", "exec", "a-04", "--", "true" }, 6, { "a-04 (1): connect: Connection refused\n" }, "1 of 1 VMs could not be asked" },
		{ { "vm", "exec", "a-05", "--", "true" }, 6, { "a-05 (1): host key: not the key that is known", "" }, NULL },
		{ { "vm", "exec", "a-[04-05]", "--", "true" }, 6, { "a-04 (1): connect: ", "\na-05 (1): host key: " }, "2 of 2 VMs could not be asked" },
		{ { "vm", "exec", "a-[01-05]", "--", "sh", "-c", "exit $((HOST == 1))" }, 3, { "a-04 (1): connect: ", "\na-01 (1): exit status 1\n" },
		  "the command failed remotely on 1 of 5 VMs, 2 could not be asked" },
		{ { "--timeout", "1", "vm", "exec", "a-[01-02]", "--", "sleep", "100" }, 6, { "a-[01-02] (2): command: timed out after 1 s; its outcome is not known\n" }, NULL },
		/* Whatever drives a terminal is shown, and does nothing. */
		{ { "vm", "exec", "a-01", "--", "printf", "\\001\\033[31mred\\033[0m\\r\\377\\000end" }, 0, { "a-01 (1):\n\\x01\\x1b[31mred\\x1b[0m\\x0d\\xff\\x00end\n" }, NULL },
		{ { "vm", "exec", "a-01", "--", "true" }, 0, { "a-01 (1):\n" }, NULL },
		/* Words arrive as they were given. */
		{ { "vm", "exec", "a-01", "--", "printf", "%s|", "a b", "it's \"so\"", "x\ny", "$HOME", "*" }, 0, { "a-01 (1):\na b|it's \"so\"|x\ny|$HOME|*|\n" }, NULL },
		{ { "vm", "exec", "a-01", "--", "printf", "%s|", "--", "-n", "-o", "", "--timeout=1" }, 0, { "a-01 (1):\n--|-n|-o||--timeout=1|\n" }, NULL },
		{ { "vm", "exec", "a-01", "--", "echo", "a;", "exit", "3", "&&", "`x`" }, 0, { "a-01 (1):\na; exit 3 && `x`\n" }, NULL },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		char *out RK_CLEANUP_FREE = NULL, *err RK_CLEANUP_FREE = NULL;
		int in RK_CLEANUP_FD = with_text("not for the command\n"), code = said(rows[i].words, in, &out, &err);
		bool fits = rows[i].out[1] ? rk_starts_with(out, rows[i].out[0]) && strstr(out, rows[i].out[1]) : strcmp(out, rows[i].out[0]) == 0;
		if (code != rows[i].code || !fits || (rows[i].err && !strstr(err, rows[i].err)))
			fail_msg("row %zu: code %d\n%s%s", i, code, out, err);
	}
}

static void json_has_a_row_per_host_whatever_it_printed(void **state)
{
	static const char *const words[] = { "-o", "json", "vm", "exec", "a-[01-04]", "--", "printf", "\\377\\000\\033\"\\\\", NULL };
	char *out RK_CLEANUP_FREE = NULL, *err RK_CLEANUP_FREE = NULL;
	RK_CLEANUP_JSON struct rk_json *json = NULL, *error = NULL;
	int code = said(words, CLOSED, &out, &err);
	size_t n = 0;

	(void)state;
	assert_int_equal(code, 3);
	assert_int_equal(rk_json_parse("out", out, strlen(out), &json, NULL), 0);
	RK_JEACH(row, rk_json_root(json)) {
		double status = -1;
		bool asked = rk_jdouble(rk_jget(row, "status"), &status);
		assert_true(n++ == REFUSED ? !asked && strstr(rk_jstr(rk_jget(row, "error")), "Connection refused") : asked && status == 0);
	}
	assert_int_equal(n, 4);
	assert_int_equal(rk_json_parse("err", err, strlen(err), &error, NULL), 0);
	assert_int_equal(strcspn(err, "\n") + 1, strlen(err));
}

static void megabytes_are_kept_up_to_their_limit(void **state)
{
	static const char *const words[] = { "vm", "exec", "a-[01-03]", "--", "sh", "-c", "head -c 20000000 /dev/zero | tr '\\0' x", NULL };
	static const char head[] = "a-[01-03] (3): (there was more output than is kept)\n";
	char *out RK_CLEANUP_FREE = NULL, *err RK_CLEANUP_FREE = NULL;
	int code = said(words, CLOSED, &out, &err);

	(void)state;
	assert_int_equal(code, 0);
	assert_true(rk_starts_with(out, head));
	assert_int_equal(strlen(out), strlen(head) + (16 << 20) + 1);
}

/* The command's input is empty: the lines behind it are racksh's. */
static void a_batch_on_standard_input_goes_on_behind_it(void **state)
{
	static const char *const words[] = { NULL };
	char *out RK_CLEANUP_FREE = NULL, *err RK_CLEANUP_FREE = NULL;
	int in RK_CLEANUP_FD = with_text("vm exec a-01 -- cat\nvm exec a-02 -- sh -c 'read -r x; echo two $x'\n");

	(void)state;
	assert_int_equal(said(words, in, &out, &err), 0);
	assert_string_equal(out, "a-01 (1):\na-02 (1):\ntwo\n");
}

static void nothing_is_run_where_nothing_may_change(void **state)
{
	static const struct {
		const char *const words[10];
		int code;
		const char *out, *err;
	} rows[] = {
		{ { "-n", "vm", "exec", "a-[01-03]", "--", "sh", "-c", "touch $DIR/made" }, 0, "a-[01-03] (3): would run sh -c 'touch $DIR/made'\n", "" },
		{ { "--read-only", "vm", "exec", "a-01", "--", "sh", "-c", "touch $DIR/made" }, 2, "", "\"vm exec\" may change something, and --read-only was given" },
		{ { "--read-only", "vm", "ssh", "a-01" }, 2, "", "\"vm ssh\" may change something" },
		{ { "-n", "vm", "ssh", "a-01" }, 0, "would log in to a-01\n", "" },
	};
	char *made RK_CLEANUP_FREE = in_folder("made");

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		char *out RK_CLEANUP_FREE = NULL, *err RK_CLEANUP_FREE = NULL;
		int code = said(rows[i].words, CLOSED, &out, &err);
		if (code != rows[i].code || strcmp(out, rows[i].out) != 0 || !strstr(err, rows[i].err))
			fail_msg("row %zu: code %d\n%s%s", i, code, out, err);
	}
	assert_int_equal(access(made, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_are_folded_and_classed),
		cmocka_unit_test(json_has_a_row_per_host_whatever_it_printed),
		cmocka_unit_test(megabytes_are_kept_up_to_their_limit),
		cmocka_unit_test(a_batch_on_standard_input_goes_on_behind_it),
		cmocka_unit_test(nothing_is_run_where_nothing_may_change),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
