/* Real OpenSSH servers for tests: one process per connection (inetd mode) on a loopback socket of our own. Not there on every machine: `up` tells. */
#pragma once
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inventory/base/file.h"
#include "provision/ssh.h"

#define SSHD "/usr/sbin/sshd"

struct sshd {
	char dir[64], *host_public, *client_key; /* dir: host, user, authorized, config, and what a test adds */
	int listener, port;
	atomic_bool silent;       /* accepts and never answers */
	atomic_int connections;   /* so far */
	pthread_t thread;
	pid_t pids[512];
	size_t n_pids;
	bool up;
};

static inline void sshd_write(const struct sshd *s, const char *name, const char *text, mode_t mode)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", s->dir, name);
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	if (rk_file_write(path, text, strlen(text), mode, &err) != 0)
		abort();
}

static inline void sshd_serve(struct sshd *s, int fd)
{
	char *config RK_CLEANUP_FREE = rk_xasprintf("%s/config", s->dir);
	char *log RK_CLEANUP_FREE = rk_xasprintf("%s/log", s->dir);
	pid_t pid = fork();

	if (pid == 0) {
		dup2(fd, 0);
		dup2(fd, 1);
		execl(SSHD, SSHD, "-i", "-f", config, "-E", log, (char *)NULL);
		_exit(127);
	}
	if (pid > 0 && s->n_pids < RK_ARRAY_SIZE(s->pids))
		s->pids[s->n_pids++] = pid;
	close(fd);
}

static inline void *sshd_accept(void *arg)
{
	struct sshd *s = arg;
	int fd;

	while ((fd = accept(s->listener, NULL, NULL)) >= 0) {
		s->connections++;
		if (s->silent)
			close(fcntl(fd, F_DUPFD_CLOEXEC, 900)); /* the descriptor itself stays open */
		else
			sshd_serve(s, fd);
	}
	return NULL;
}

/* Its configuration from the next connection on. of: whose user may log in; env: "NAME=VALUE ..." for its commands; more: further lines. A shell that
 * is not the first one (SHLVL; bash) reads nothing of its user's at its start, which may take seconds. */
static inline void sshd_configure(const struct sshd *s, const struct sshd *of, const char *env, const char *more)
{
	char *config RK_CLEANUP_FREE = rk_xasprintf("HostKey %s/host\nAuthorizedKeysFile %s/authorized\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
						    "PidFile none\nSetEnv SHLVL=2 %s\n%s", s->dir, of->dir, env, more);

	sshd_write(s, "config", config, 0600);
}

/* more: further lines of its configuration. */
static inline void sshd_start(struct sshd *s, const char *more)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(addr);
	char *host_private, *user_private, *user_public;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	signal(SIGPIPE, SIG_IGN);
	if (access(SSHD, X_OK) != 0 || (geteuid() == 0 && mkdir("/run/sshd", 0755) != 0 && access("/run/sshd", F_OK) != 0))
		return;
	snprintf(s->dir, sizeof(s->dir), "/tmp/racksh-test-ssh.XXXXXX");
	if (!mkdtemp(s->dir) || rk_ssh_make_key("host", &host_private, &s->host_public, &err) || rk_ssh_make_key("user", &user_private, &user_public, &err))
		abort();
	sshd_write(s, "host", host_private, 0600);
	sshd_write(s, "user", user_private, 0600);
	sshd_write(s, "authorized", user_public, 0600);
	char *lines RK_CLEANUP_FREE = rk_xasprintf("TrustedUserCAKeys %s/ca.pub\n%s", s->dir, more);
	sshd_configure(s, s, "", lines);
	s->client_key = rk_xasprintf("%s/user", s->dir);
	free(host_private);
	free(user_private);
	free(user_public);
	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(s->listener, (struct sockaddr *)&addr, sizeof(addr)) != 0 || listen(s->listener, 16) != 0 ||
	    getsockname(s->listener, (struct sockaddr *)&addr, &size) != 0)
		abort();
	s->port = ntohs(addr.sin_port);
	s->up = true;
	if (pthread_create(&s->thread, NULL, sshd_accept, s) != 0)
		abort();
}

static inline void sshd_stop(struct sshd *s)
{
	if (!s->up)
		return;
	shutdown(s->listener, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->listener);
	/* An sshd waits for what a cancelled command left running: not for us. */
	for (size_t i = 0; i < s->n_pids; i++) {
		kill(s->pids[i], SIGTERM);
		waitpid(s->pids[i], NULL, 0);
	}
	DIR *dir = opendir(s->dir);
	for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
		unlinkat(dirfd(dir), e->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(s->dir);
	free(s->host_public);
	free(s->client_key);
	s->up = false;
}
