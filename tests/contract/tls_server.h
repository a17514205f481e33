/* A server that speaks TLS: the openssl program serves the files of a folder, each a whole HTTP answer under the path of the request. */
#pragma once
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A shell script in the folder; false when it failed. */
static inline bool tls_sh(const char *folder, const char *script)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		if (chdir(folder) != 0 || null < 0)
			_exit(1);
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execl("/bin/sh", "sh", "-ec", script, (char *)NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* NAME.pem and NAME.key: authorities "ca" and "other"; a certificate "good" for the address of the server, "wrong" for another name, and
 * "old", which ran out. The file "answer" is a whole answer. */
static const char tls_certificates[] =
	"for a in ca other; do openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=$a -keyout $a.key -out $a.pem; done\n"
	"for s in good/IP:127.0.0.1 wrong/DNS:elsewhere; do n=${s%%/*}\n"
	" openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=$n -keyout $n.key -out $n.csr\n"
	" echo \"subjectAltName=${s#*/}\" > $n.ext\n"
	" openssl x509 -req -in $n.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile $n.ext -out $n.pem; done\n"
	"openssl x509 -req -in good.csr -CA ca.pem -CAkey ca.key -days -1 -extfile good.ext -out old.pem; cp good.key old.key\n"
	"printf 'HTTP/1.0 200 OK\\r\\nContent-Type: application/json\\r\\n\\r\\n{\"tls\":1}' > answer\n";

/* Serves the folder over TLS with the certificate; the port is what it prints. */
static inline pid_t tls_server(const char *folder, const char *name, int *ret_port)
{
	int out[2];
	char cert[64], key[64], line[200];

	if (pipe(out) != 0)
		abort();
	snprintf(cert, sizeof(cert), "%s.pem", name);
	snprintf(key, sizeof(key), "%s.key", name);
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		dup2(out[1], STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		if (chdir(folder) == 0)
			execlp("openssl", "openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", cert, "-key", key, "-HTTP", (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	FILE *in = fdopen(out[0], "r");
	*ret_port = 0;
	while (!*ret_port && fgets(line, sizeof(line), in))
		sscanf(line, "ACCEPT 127.0.0.1:%d", ret_port);
	fclose(in);
	return pid;
}
