/* The way to the user's agent. libssh talks to one without a limit and without a look at the cancel flag, and an agent may be silent: forwarded over a
 * connection that is gone, or waiting for a finger. So somebody else looks at the clock and hangs up. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "inventory/base/clock.h"
#include "provision/ssh_impl.h"

enum { STACK_BYTES = 256 << 10 };

struct rk_ssh_agent {
	pthread_t thread;
	int fd, done;                 /* fd: ours of the connection, libssh closes its own whenever it likes; done: readable when all is over */
	int64_t until;
	const volatile int *cancel;
	atomic_bool cut;
};

/* An agent whose queue is full is asked again. */
static int reach(struct rk_ssh *ssh, int64_t until, int *ret_fd, struct rk_err *err)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const char *path = getenv("SSH_AUTH_SOCK");
	int fd RK_CLEANUP_FD = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc = 0;

	if (fd < 0 || !path || !*path || strlen(path) >= sizeof(at.sun_path))
		return RK_NOT_FOUND;
	memcpy(at.sun_path, path, strlen(path));
	while (!rc && connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0)
		rc = errno == EAGAIN || errno == EINTR ? rk_ssh_wait_fd(ssh, -1, 0, until, "authentication: the agent", err) : RK_NOT_FOUND;
	if (rc)
		return rc;
	*ret_fd = fd;
	fd = -1;
	return 0;
}

static void *watch(void *arg)
{
	struct rk_ssh_agent *a = arg;
	struct pollfd p = { a->done, POLLIN, 0 };

	while (poll(&p, 1, 0) == 0) {
		int64_t left = a->until - rk_clock_ms(NULL);
		if (left <= 0 || (a->cancel && *a->cancel)) {
			a->cut = true;
			shutdown(a->fd, SHUT_RDWR);
			return NULL;
		}
		poll(&p, 1, left < RK_SSH_SLICE_MS ? (int)left : RK_SSH_SLICE_MS);
	}
	return NULL;
}

static bool start(struct rk_ssh_agent *a)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	bool started = a->fd >= 0 && a->done >= 0 && pthread_create(&a->thread, &attr, watch, a) == 0;
	pthread_attr_destroy(&attr);
	return started;
}

static void agent_free(struct rk_ssh_agent *a)
{
	rk_cleanup_fd(&a->fd);
	rk_cleanup_fd(&a->done);
	free(a);
}

int rk_ssh_agent_open(struct rk_ssh *ssh, int64_t until, struct rk_ssh_agent **ret, int *ret_fd, struct rk_err *err)
{
	int fd, rc = reach(ssh, until, &fd, err);

	if (rc)
		return rc;
	struct rk_ssh_agent *a = rk_xcalloc(1, sizeof(*a));
	*a = (struct rk_ssh_agent){ .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0), .done = eventfd(0, EFD_CLOEXEC), .until = until < ssh->until ? until : ssh->until,
				    .cancel = ssh->cancel };
	if (!start(a)) {
		agent_free(a);
		close(fd);
		return rk_ssh_unreachable(ssh, "authentication", "no descriptor or thread is left to talk to the agent", err);
	}
	*ret = a;
	*ret_fd = fd;
	return 0;
}

bool rk_ssh_agent_close(struct rk_ssh_agent *agent)
{
	(void)!eventfd_write(agent->done, 1);
	pthread_join(agent->thread, NULL);
	bool cut = agent->cut;
	agent_free(agent);
	return cut;
}
