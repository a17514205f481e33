#include "inventory/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inventory/base/mem.h"
#include "inventory/base/str.h"

static int io_error(struct rk_err *err, const char *what, const char *path)
{
	int e = errno;

	return rk_err_set(err, e == ENOENT || e == ENOTDIR ? RK_NOT_FOUND : RK_FAILED, "cannot %s \"%s\": %s", what, path, strerror(e));
}

static int read_all(int fd, const char *path, size_t max, struct rk_str *out, struct rk_err *err)
{
	char block[65536];

	for (;;) {
		ssize_t n = read(fd, block, sizeof(block));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return io_error(err, "read", path);
		if (n == 0)
			return 0;
		if (out->len + (size_t)n > max)
			return rk_err_set(err, RK_INVALID, "\"%s\" is larger than %zu MiB", path, max >> 20);
		rk_str_addn(out, block, (size_t)n);
	}
}

int rk_file_read(const char *path, size_t max, char **ret, size_t *ret_len, struct rk_err *err)
{
	bool in = strcmp(path, "-") == 0;
	int file RK_CLEANUP_FD = in ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct stat st;
	int fd = in ? STDIN_FILENO : file;

	if (fd < 0 || fstat(fd, &st) < 0)
		return io_error(err, "open", path);
	if (S_ISDIR(st.st_mode))
		return rk_err_set(err, RK_INVALID, "\"%s\" is a folder, not a file", path);
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size > max)
		return rk_err_set(err, RK_INVALID, "\"%s\" is larger than %zu MiB", path, max >> 20);
	if (!in)
		fcntl(fd, F_SETFL, 0);
	int rc = read_all(fd, path, max, &out, err);
	if (rc)
		return rc;
	*ret_len = out.len;
	*ret = rk_str_steal(&out);
	return 0;
}

static int write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int sync_folder(const char *path)
{
	char *copy RK_CLEANUP_FREE = rk_xstrdup(path);
	int fd RK_CLEANUP_FD = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -1 : fsync(fd);
}

int rk_file_write(const char *path, const void *data, size_t len, mode_t mode, struct rk_err *err)
{
	char *temp RK_CLEANUP_FREE = rk_xasprintf("%s.tmp.%ld", path, (long)getpid());
	int fd RK_CLEANUP_FD = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

	if (fd < 0)
		return io_error(err, "create", temp);
	if (write_all(fd, data, len) < 0 || fsync(fd) < 0 || rename(temp, path) < 0 || sync_folder(path) < 0) {
		int rc = io_error(err, "write", path);
		unlink(temp);
		return rc;
	}
	return 0;
}

int rk_mkdirs(const char *path, struct rk_err *err)
{
	char *copy RK_CLEANUP_FREE = rk_xstrdup(path);

	for (char *slash = copy + 1;; slash++) {
		slash += strcspn(slash, "/");
		char kept = *slash;
		*slash = '\0';
		if (mkdir(copy, 0700) < 0 && errno != EEXIST)
			return io_error(err, "make the folder", copy);
		if (!kept)
			return 0;
		*slash = kept;
	}
}
