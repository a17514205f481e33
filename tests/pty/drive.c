/* Plays a script on a program in a pseudo terminal and prints what the screen showed, as text.
 *
 *   drive SCRIPT PROGRAM        lines of a script:
 *   env NAME=VALUE              before run
 *   size COLUMNS ROWS           before run; 100 30 when absent
 *   colours                     print changes of colour as {32} and {}
 *   run ARGUMENTS               starts PROGRAM with these arguments (split at blanks)
 *   type TEXT | line TEXT       keys; line ends with ENTER
 *   key NAME                    tab enter up down left ctrl-a ctrl-c ctrl-d ctrl-r ctrl-t escape
 *   wait TEXT                   until TEXT was shown behind what the last wait saw
 *   beside COMMAND              runs a command of the system meanwhile, to its end
 *   end                         until the program has ended; its exit code is printed
 *
 * The screen is kept by a small terminal of its own, so that a transcript does not depend on how a line was redrawn. */
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { COLUMNS_MAX = 300, LINES_MAX = 4000, PATIENCE_MS = 30000, TAKE_KEYS_MS = 300, ARGS_MAX = 32 };

struct cell {
	char text[5];
	unsigned char sgr;
};
struct screen {
	int columns, rows;
	struct cell lines[LINES_MAX][COLUMNS_MAX];
	int row, column, last_row;
	unsigned char sgr;
	bool colours;
	char escape[64];             /* sequence being read, without ESC */
	int escape_len;              /* -1: none */
};
struct play {
	struct screen *screen;
	const char *program, *script;
	int terminal;
	pid_t child;
	char *seen;                  /* everything shown, without escape sequences */
	size_t n_seen, cap_seen, waited;
	int line;
};

static void die(const struct play *p, const char *what)
{
	fprintf(stderr, "%s:%d: %s\n", p->script, p->line, what);
	if (p->child > 0)
		kill(p->child, SIGKILL);
	exit(2);
}

/* ---- the terminal ------------------------------------------------------------------------------------------------------------------- */

static void erase(struct screen *s, int row, int from, int to)
{
	for (int c = from; c < to && c < COLUMNS_MAX; c++)
		s->lines[row][c] = (struct cell){ "", 0 };
}

static void new_line(struct screen *s)
{
	if (s->row + 1 < LINES_MAX)
		s->row++;
	s->last_row = s->row > s->last_row ? s->row : s->last_row;
}

static int number(const char *text, int otherwise)
{
	return *text >= '0' && *text <= '9' ? atoi(text) : otherwise;
}

static void control_sequence(struct screen *s, const char *args, char final)
{
	int n = number(args, 1);

	switch (final) {
	case 'A': s->row = s->row > n ? s->row - n : 0; break;
	case 'B': for (int i = 0; i < n; i++) new_line(s); break;
	case 'C': s->column = s->column + n < s->columns ? s->column + n : s->columns - 1; break;
	case 'D': s->column = s->column > n ? s->column - n : 0; break;
	case 'G': s->column = n - 1; break;
	case 'H': s->row = s->last_row + 1; s->column = 0; new_line(s); break; /* a wiped screen begins below what was shown */
	case 'J': if (number(args, 0) == 0) for (int r = s->row; r <= s->last_row; r++) erase(s, r, r == s->row ? s->column : 0, COLUMNS_MAX); break;
	case 'K': erase(s, s->row, number(args, 0) == 0 ? s->column : 0, number(args, 0) == 1 ? s->column + 1 : COLUMNS_MAX); break;
	case 'P':
		memmove(&s->lines[s->row][s->column], &s->lines[s->row][s->column + n], (size_t)(COLUMNS_MAX - s->column - n) * sizeof(struct cell));
		break;
	case '@':
		memmove(&s->lines[s->row][s->column + n], &s->lines[s->row][s->column], (size_t)(COLUMNS_MAX - s->column - n) * sizeof(struct cell));
		erase(s, s->row, s->column, s->column + n);
		break;
	case 'm': s->sgr = (unsigned char)number(args, 0); break;
	default: break;
	}
}

/* True while the byte belongs to an escape sequence. */
static bool in_escape(struct screen *s, char c)
{
	if (c == '\033') {
		s->escape_len = 0;
		return true;
	}
	if (s->escape_len < 0)
		return false;
	if (s->escape_len == 0 && c != '[') {
		s->escape_len = -1;
		return true;
	}
	if (s->escape_len > 0 && c >= '@' && c <= '~') {
		s->escape[s->escape_len] = '\0';
		control_sequence(s, s->escape + 1, c);
		s->escape_len = -1;
		return true;
	}
	if (s->escape_len < (int)sizeof(s->escape) - 1)
		s->escape[s->escape_len++] = c;
	return true;
}

static void put_byte(struct screen *s, char c)
{
	if (((unsigned char)c & 0xc0) == 0x80 && s->column > 0) {
		char *text = s->lines[s->row][s->column - 1].text;
		size_t n = strlen(text);
		if (n < 4)
			text[n] = c;
		return;
	}
	if (s->column >= s->columns) {
		s->column = 0;
		new_line(s);
	}
	s->lines[s->row][s->column++] = (struct cell){ { c }, s->sgr };
}

static void show_byte(struct play *p, char c)
{
	struct screen *s = p->screen;

	if (in_escape(s, c))
		return;
	if (p->n_seen + 1 >= p->cap_seen) {
		p->cap_seen = p->cap_seen ? p->cap_seen * 2 : 4096;
		p->seen = realloc(p->seen, p->cap_seen);
		if (!p->seen)
			die(p, "out of memory");
	}
	p->seen[p->n_seen++] = c;
	p->seen[p->n_seen] = '\0';
	if (c == '\r')
		s->column = 0;
	else if (c == '\n')
		new_line(s);
	else if (c == '\b')
		s->column -= s->column > 0;
	else if (c == '\t')
		s->column = (s->column / 8 + 1) * 8;
	else if ((unsigned char)c >= ' ')
		put_byte(s, c);
}

static void print_screen(const struct screen *s)
{
	for (int r = 0; r <= s->last_row; r++) {
		int last = COLUMNS_MAX;
		unsigned char sgr = 0;
		while (last > 0 && (!s->lines[r][last - 1].text[0] || strcmp(s->lines[r][last - 1].text, " ") == 0))
			last--;
		for (int c = 0; c < last; c++) {
			const struct cell *cell = &s->lines[r][c];
			if (s->colours && cell->sgr != sgr)
				printf(cell->sgr ? "{%d}" : "{}", cell->sgr);
			sgr = cell->sgr;
			fputs(cell->text[0] ? cell->text : " ", stdout);
		}
		puts(s->colours && sgr ? "{}" : "");
	}
}

/* ---- the play ----------------------------------------------------------------------------------------------------------------------- */

static long long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* Reads what is there, waiting up to ms; false at the end of the program's output. */
static bool read_some(struct play *p, int ms)
{
	struct pollfd fd = { .fd = p->terminal, .events = POLLIN };
	char buf[4096];

	if (poll(&fd, 1, ms) <= 0)
		return true;
	ssize_t n = read(p->terminal, buf, sizeof(buf));
	for (ssize_t i = 0; i < n; i++)
		show_byte(p, buf[i]);
	return n > 0 || (n < 0 && errno == EINTR);
}

static void wait_for(struct play *p, const char *text)
{
	long long until = now_ms() + PATIENCE_MS;

	for (;;) {
		const char *at = p->n_seen > p->waited ? strstr(p->seen + p->waited, text) : NULL;
		if (at) {
			p->waited = (size_t)(at - p->seen) + strlen(text);
			return;
		}
		if (!read_some(p, 200) || now_ms() > until) {
			print_screen(p->screen);
			die(p, "was never shown");
		}
	}
}

/* A prompt can be on the screen a moment before readline reads keys: what is typed then would be shown twice. Programs that read lines get theirs
 * after that moment. */
static void let_it_take_keys(struct play *p)
{
	long long until = now_ms() + TAKE_KEYS_MS;
	struct termios mode;

	while (tcgetattr(p->terminal, &mode) == 0 && (mode.c_lflag & ECHO) && now_ms() < until)
		if (!read_some(p, 5))
			return;
}

static void send_text(struct play *p, const char *text, size_t n)
{
	let_it_take_keys(p);
	if (write(p->terminal, text, n) != (ssize_t)n)
		die(p, "cannot type");
}

static void send_key(struct play *p, const char *name)
{
	static const char *const keys[][2] = { { "tab", "\t" }, { "enter", "\r" }, { "up", "\033[A" }, { "down", "\033[B" }, { "left", "\033[D" },
					       { "ctrl-a", "\001" }, { "ctrl-c", "\003" }, { "ctrl-d", "\004" }, { "ctrl-r", "\022" }, { "ctrl-t", "\024" }, { "escape", "\033" } };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(keys[i][0], name) == 0) {
			send_text(p, keys[i][1], strlen(keys[i][1]));
			return;
		}
	die(p, "unknown key");
}

static void run(struct play *p, char *arguments)
{
	struct winsize size = { .ws_col = (unsigned short)p->screen->columns, .ws_row = (unsigned short)p->screen->rows };
	char *argv[ARGS_MAX] = { (char *)p->program };
	int n = 1;

	/* A second run begins with a clean screen. */
	memset(p->screen->lines, 0, sizeof(p->screen->lines));
	p->screen->row = p->screen->column = p->screen->last_row = 0;
	for (char *word = strtok(arguments, " "); word && n < ARGS_MAX - 1; word = strtok(NULL, " "))
		argv[n++] = word;
	p->child = forkpty(&p->terminal, NULL, NULL, &size);
	if (p->child < 0)
		die(p, "no pseudo terminal");
	if (p->child == 0) {
		/* The kernel throws away what is on its way to the screen when Ctrl-C comes, even what was written because of it. */
		struct termios mode;
		if (tcgetattr(0, &mode) == 0) {
			mode.c_lflag |= NOFLSH;
			tcsetattr(0, TCSANOW, &mode);
		}
		execv(p->program, argv);
		_exit(127);
	}
}

static void beside(struct play *p, const char *command)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		die(p, "the command beside failed");
}

static void end(struct play *p)
{
	long long until = now_ms() + PATIENCE_MS;
	int status;

	while (read_some(p, 200))
		if (now_ms() > until) {
			print_screen(p->screen);
			die(p, "did not end");
		}
	if (waitpid(p->child, &status, 0) != p->child)
		die(p, "is no child");
	print_screen(p->screen);
	printf("exit %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void step(struct play *p, char *line)
{
	char *rest = strchr(line, ' ');

	if (rest)
		*rest++ = '\0';
	else
		rest = line + strlen(line);
	if (strcmp(line, "env") == 0)
		putenv(rest);
	else if (strcmp(line, "size") == 0 && sscanf(rest, "%d %d", &p->screen->columns, &p->screen->rows) == 2)
		return;
	else if (strcmp(line, "colours") == 0)
		p->screen->colours = true;
	else if (strcmp(line, "run") == 0)
		run(p, rest);
	else if (strcmp(line, "type") == 0)
		send_text(p, rest, strlen(rest));
	else if (strcmp(line, "line") == 0)
		send_text(p, rest, strlen(rest)), send_key(p, "enter");
	else if (strcmp(line, "key") == 0)
		send_key(p, rest);
	else if (strcmp(line, "wait") == 0)
		wait_for(p, rest);
	else if (strcmp(line, "beside") == 0)
		beside(p, rest);
	else if (strcmp(line, "end") == 0)
		end(p);
	else
		die(p, "unknown step");
}

int main(int argc, char **argv)
{
	static struct screen screen = { .columns = 100, .rows = 30, .escape_len = -1 };
	struct play p = { .screen = &screen, .terminal = -1 };
	static char lines[400][512];
	FILE *script = argc == 3 ? fopen(argv[1], "r") : NULL;

	if (!script) {
		fputs("usage: drive SCRIPT PROGRAM\n", stderr);
		return 2;
	}
	p.script = argv[1];
	p.program = argv[2];
	/* Each line has memory of its own: environment strings stay. */
	while (p.line < 400 && fgets(lines[p.line], sizeof(lines[0]), script)) {
		char *line = lines[p.line++];
		line[strcspn(line, "\n")] = '\0';
		if (*line && *line != '#')
			step(&p, line);
	}
	fclose(script);
	free(p.seen);
	return 0;
}
