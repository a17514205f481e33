/* A real libvirt for tests: an unprivileged session daemon with folders, pool and emulators of its own, gone with them at the end. Started by
 * root it drops to nobody (run by root it would be the system's daemon). Include after <cmocka.h>. */
#pragma once
#include <errno.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <signal.h>
#include <sys/stat.h>

#include "inventory/base/clock.h"
#include "inventory/base/file.h"
#include "tests/contract/child.h"

enum { LIBVIRTD_NOBODY = 65534, LIBVIRTD_START_MS = 60000, LIBVIRTD_STOP_MS = 10000, LIBVIRTD_LOOK_MS = 50 };

struct libvirtd {
	char home[32]; /* short: the paths of sockets begin with it */
	char *uri;     /* NULL: no such daemon here */
	bool made;     /* home */
	pid_t pid;
};

static inline int libvirtd_unlink(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static inline int libvirtd_give(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return lchown(path, LIBVIRTD_NOBODY, LIBVIRTD_NOBODY);
}

static inline void libvirtd_write(const struct libvirtd *d, const char *name, const char *text)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", d->home, name);

	assert_int_equal(rk_file_write(path, text, strlen(text), 0644, NULL), 0);
}

/* Only the emulators that tests start: each one in the PATH is asked for all its abilities. */
static inline void libvirtd_folders(const struct libvirtd *d)
{
	static const char *const folders[] = { "c/libvirt/storage/autostart", "cache", "run", "pool", "bin" };
	static const char *const emulators[] = { "qemu-system-x86_64", "qemu-system-aarch64" };

	for (size_t i = 0; i < RK_ARRAY_SIZE(folders); i++) {
		char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", d->home, folders[i]);
		assert_int_equal(rk_mkdirs(path, NULL), 0);
	}
	for (size_t i = 0; i < RK_ARRAY_SIZE(emulators); i++) {
		char *from RK_CLEANUP_FREE = rk_xasprintf("/usr/bin/%s", emulators[i]), *to RK_CLEANUP_FREE = rk_xasprintf("%s/bin/%s", d->home, emulators[i]);
		if (access(from, X_OK) == 0)
			assert_int_equal(symlink(from, to), 0);
	}
	char *pool RK_CLEANUP_FREE = rk_xasprintf("<pool type='dir'><name>default</name><target><path>%s/pool</path></target></pool>\n", d->home);
	char *link RK_CLEANUP_FREE = rk_xasprintf("%s/c/libvirt/storage/autostart/default.xml", d->home);
	libvirtd_write(d, "c/libvirt/storage/default.xml", pool);
	assert_int_equal(symlink("../default.xml", link), 0);
	libvirtd_write(d, "c/libvirt/qemu.conf", "security_driver = \"none\"\nstdio_handler = \"file\"\n");
}

static inline void libvirtd_exec(const struct libvirtd *d)
{
	char *const env[] = {
		rk_xasprintf("PATH=%s/bin:/usr/sbin:/sbin:/bin", d->home), rk_xasprintf("HOME=%s", d->home),
		rk_xasprintf("XDG_RUNTIME_DIR=%s/run", d->home), rk_xasprintf("XDG_CONFIG_HOME=%s/c", d->home),
		rk_xasprintf("XDG_CACHE_HOME=%s/cache", d->home), rk_xasprintf("TMPDIR=%s/run", d->home), NULL,
	};
	int null = open("/dev/null", O_RDWR);

	for (int i = 0; i < 3; i++)
		dup2(null, i);
	if (geteuid() == 0 && (setgroups(0, NULL) || setgid(LIBVIRTD_NOBODY) || setuid(LIBVIRTD_NOBODY)))
		_exit(126);
	execve("/usr/sbin/libvirtd", (char *[]){ (char *)"libvirtd", NULL }, env);
	_exit(127);
}

static inline bool libvirtd_answers(const struct libvirtd *d)
{
	return run((const char *const[]){ "virsh", "-q", "-c", d->uri, "pool-info", "default", NULL }) == 0;
}

/* Without a daemon (libvirtd, virsh or QEMU is not installed, or it does not start) uri stays NULL. */
static inline void libvirtd_start(struct libvirtd *d)
{
	int64_t end = rk_clock_ms(NULL) + LIBVIRTD_START_MS;

	*d = (struct libvirtd){ .home = "/tmp/rkv.XXXXXX" };
	if (access("/usr/sbin/libvirtd", X_OK) || access("/usr/bin/virsh", X_OK) || access("/usr/bin/qemu-system-x86_64", X_OK))
		return;
	assert_non_null(mkdtemp(d->home));
	d->made = true;
	libvirtd_folders(d);
	if (geteuid() == 0)
		nftw(d->home, libvirtd_give, 16, FTW_PHYS);
	d->pid = fork();
	assert_true(d->pid >= 0);
	if (d->pid == 0)
		libvirtd_exec(d);
	d->uri = rk_xasprintf("qemu+unix:///session?socket=%s/run/libvirt/libvirt-sock", d->home);
	while (!libvirtd_answers(d)) {
		if (waitpid(d->pid, NULL, WNOHANG) != 0)
			d->pid = 0;
		if (!d->pid || rk_clock_ms(NULL) >= end) {
			free(rk_steal(&d->uri));
			return;
		}
		rk_clock_sleep_ms(NULL, LIBVIRTD_LOOK_MS);
	}
}

/* Guests outlive their daemon. */
static inline void libvirtd_end_guests(const struct libvirtd *d)
{
	char *pattern RK_CLEANUP_FREE = rk_xasprintf("%s/run/libvirt/qemu/run/*.pid", d->home);
	glob_t found;

	if (glob(pattern, 0, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char *text RK_CLEANUP_FREE = NULL;
		size_t len;
		pid_t pid = rk_file_read(found.gl_pathv[i], 64, &text, &len, NULL) ? 0 : (pid_t)atoi(text);
		if (pid > 1)
			kill(pid, SIGKILL);
	}
	globfree(&found);
}

/* Asks first. */
static inline void libvirtd_end(pid_t pid)
{
	int64_t end = rk_clock_ms(NULL) + LIBVIRTD_STOP_MS;

	kill(pid, SIGTERM);
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		if (rk_clock_ms(NULL) >= end)
			kill(pid, SIGKILL);
		rk_clock_sleep_ms(NULL, LIBVIRTD_LOOK_MS);
	}
}

static inline void libvirtd_stop(struct libvirtd *d)
{
	if (d->made)
		libvirtd_end_guests(d);
	if (d->pid > 0)
		libvirtd_end(d->pid);
	if (d->made)
		nftw(d->home, libvirtd_unlink, 16, FTW_DEPTH | FTW_PHYS);
	free(d->uri);
}
