/* racksh itself, run as a program in a folder of its own; what it says goes into the files out and err there. */
#pragma once
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inventory/base/file.h"
#include "inventory/base/mem.h"
#include "inventory/base/str.h"

enum { OUTPUT_MAX = 64 << 20 };
static char folder[] = "/tmp/racksh-runs.XXXXXX";
static char *racksh; /* the program; free with the folder */

static inline char *in_folder(const char *name)
{
	return rk_xasprintf("%s/%s", folder, name);
}

/* Makes the folder, with a link to each of these folders of the project (NULL at the end). -1: it cannot be made. */
static inline int open_folder(const char *const *links)
{
	const char *env = getenv("RACKSH");

	racksh = realpath(env ? env : "build/racksh", NULL);
	if (!racksh || !mkdtemp(folder))
		return -1;
	setenv("XDG_STATE_HOME", folder, 1);
	setenv("XDG_CONFIG_HOME", folder, 1);
	for (; *links; links++) {
		char *target RK_CLEANUP_FREE = realpath(*links, NULL), *link RK_CLEANUP_FREE = in_folder(*links);
		if (!target || symlink(target, link))
			return -1;
	}
	return 0;
}

/* Its exit code, in a process of its own; 128 and the signal when one killed it. */
static inline int ended(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline int remove_folder(void)
{
	const char *const argv[] = { "rm", "-rf", folder, NULL };
	pid_t pid = fork();

	free(racksh);
	if (pid == 0) {
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	return ended(pid);
}

/* Runs it in the folder; argv begins with `racksh`. Returns the exit code. */
static inline int run_racksh(const char *const *argv)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (chdir(folder))
			_exit(126);
		dup2(open("/dev/null", O_RDONLY), 0);
		dup2(open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
		dup2(open("err", O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
		execv(racksh, (char *const *)argv);
		_exit(127);
	}
	return ended(pid);
}

static inline char *text_of(const char *name)
{
	char *path RK_CLEANUP_FREE = in_folder(name), *text = NULL;
	size_t len;

	assert_int_equal(rk_file_read(path, OUTPUT_MAX, &text, &len, NULL), 0);
	return text;
}

static inline void put_text(const char *name, const char *text)
{
	char *path RK_CLEANUP_FREE = in_folder(name);

	assert_int_equal(rk_file_write(path, text, strlen(text), 0600, NULL), 0);
}

/* A cluster of the example site. */
static inline char *cluster_text(const char *name, int count)
{
	return rk_xasprintf("{\"apiVersion\":\"racksh/v1\",\"kind\":\"Cluster\",\"name\":\"%s\",\"tenant\":\"contoso\",\"size\":\"lab-tray\",\"count\":%d,"
			    "\"image\":\"ubuntu-24.04-gb300\",\"placement\":{\"segment\":2},\"ssh\":{\"user\":\"ops\",\"authorizedKeys\":[\"ssh-ed25519 "
			    "AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExample00 x\"]},\"validation\":{\"profile\":\"lab\"}}",
			    name, count);
}
