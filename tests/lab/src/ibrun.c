/* Runs an InfiniBand tool on the simulated fabric: `ibrun TOOL ARG...`, or under the tool's own name. IBSIM_SOCKNAME says which fabric,
 * SIM_HOST which node it runs on, LAB_IB the folder with the slots. The simulator takes few clients, and a killed one keeps its place for
 * a while: at most SLOTS run at once, and a refused one tries again. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 8, PAUSE_US = 20000, TRIES = 100, TEXT_MAX = 65536 };

static int say(const char *what)
{
	fprintf(stderr, "ibrun: %s: %s\n", what, strerror(errno));
	return 125;
}

/* Takes a free slot; its folder is the working directory then, since the tools leave files there. */
static int take_slot(const char *dir)
{
	char path[4096];

	for (;;) {
		for (int i = 0; i < SLOTS; i++) {
			snprintf(path, sizeof(path), "%s/slot%d", dir, i);
			int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (fd < 0)
				return -1;
			if (flock(fd, LOCK_EX | LOCK_NB) == 0)
				return fchdir(fd) == 0 ? fd : -1;
			close(fd);
		}
		usleep(PAUSE_US);
	}
}

static void find_tool(const char *name, char *path, size_t size)
{
	static const char *const folders[] = { "/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin" };

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(path, size, "%s/%s", folders[i], name);
		if (access(path, X_OK) == 0)
			return;
	}
	/* What is not of the system lies beside this program. */
	ssize_t n = readlink("/proc/self/exe", path, size - 1);
	path[n > 0 ? n : 0] = '\0';
	char *slash = strrchr(path, '/');
	if (slash)
		snprintf(slash + 1, size - (size_t)(slash + 1 - path), "%s", name);
}

static void child(const char *path, char **argv, int err, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(125);
	dup2(err, STDERR_FILENO);
	setenv("LD_PRELOAD", UMAD2SIM, 1);
	execv(path, argv);
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	_exit(127);
}

/* One attempt: exit status, and what it said on stderr. */
static int run(const char *path, char **argv, char *text)
{
	int pipes[2], status;
	size_t len = 0;
	ssize_t n;

	if (pipe2(pipes, O_CLOEXEC) != 0)
		return say("pipe");
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		return say("fork");
	if (pid == 0)
		child(path, argv, pipes[1], parent);
	close(pipes[1]);
	while (len < TEXT_MAX - 1 && ((n = read(pipes[0], text + len, TEXT_MAX - 1 - len)) > 0 || (n < 0 && errno == EINTR)))
		len += n > 0 ? (size_t)n : 0;
	text[len] = '\0';
	close(pipes[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Without the lines in which the simulator's library reports itself. */
static void show(char *text)
{
	for (char *line = text, *next; *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next == '\n';
		if (!memmem(line, (size_t)(next - line), "sim_connect: attached", 21))
			fwrite(line, 1, (size_t)(next - line), stderr);
	}
}

int main(int argc, char **argv)
{
	static char text[TEXT_MAX];
	const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0], *dir = getenv("LAB_IB");
	char path[4096];
	int status = 125;

	if (strcmp(name, "ibrun") == 0 && argc > 1)
		name = (++argv)[0];
	find_tool(name, path, sizeof(path));
	if (!dir || take_slot(dir) < 0)
		return say("no slot (LAB_IB)");
	for (int try = 0; try < TRIES; try++) {
		status = run(path, argv, text);
		if (status == 0 || !strstr(text, "connect failed"))
			break;
		usleep(PAUSE_US);
	}
	show(text);
	return status;
}
