#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/app.h"
#include "inventory/base/data.h"
#include "inventory/base/file.h"

static const char *file_text(const char *name)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("cli/tutorial/%s", name);

	for (const struct rk_data *d = rk_data_files; d->path; d++)
		if (strcmp(d->path, path) == 0)
			return d->text;
	return "";
}

/* False at the end of input: the pupil has had enough. */
static bool enter_pressed(void)
{
	int c;

	do
		c = getchar();
	while (c != '\n' && c != EOF);
	return c == '\n';
}

/* The lesson is a batch: comments are what the teacher says, and each command is shown before it runs. */
static int teach(struct rk_app *app, const char *text, bool pause)
{
	int rc = 0;

	while (!rc && *text) {
		size_t len = strcspn(text, "\n");
		char *line RK_CLEANUP_FREE = rk_xstrndup(text, len);
		text += len + (text[len] == '\n');
		if (line[0] == '#' || !line[0]) {
			printf("%s\n", line[0] ? line + 1 + (line[1] == ' ') : "");
			continue;
		}
		printf("racksh> %s%s", line, pause ? "   [ENTER] " : "\n");
		fflush(stdout);
		if (pause && !enter_pressed())
			return RK_CANCELLED;
		rc = rk_app_batch(app, "tutorial", line, true);
	}
	return rc;
}

/* The lesson's spec as a file, because commands take files. */
static int write_spec(const char *folder, struct rk_err *err)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/cluster.json", folder);
	const char *text = file_text("cluster.json");

	return rk_file_write(path, text, strlen(text), 0600, err);
}

static void remove_spec(const char *folder)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/cluster.json", folder);

	unlink(path);
	rmdir(folder);
}

int rk_tutorial(struct rk_app *app, bool pause, struct rk_err *err)
{
	const char *tmp = getenv("TMPDIR");
	char *folder RK_CLEANUP_FREE = rk_xasprintf("%s/racksh-tutorial.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	struct rk_app twin;

	if (!mkdtemp(folder))
		return rk_err_set(err, RK_FAILED, "cannot make the folder \"%s\": %s", folder, strerror(errno));
	int rc = write_spec(folder, err);
	if (!rc)
		rc = rk_app_twin_file(app, "tutorial", file_text("site.json"), &twin, err);
	if (!rc) {
		twin.globals.yes = true;
		rk_vars_set(&twin.lexicon.vars, "DIR", folder);
		rc = teach(&twin, file_text("lesson.racksh"), pause && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
		rk_app_close(&twin);
	}
	remove_spec(folder);
	return rc == RK_CANCELLED && !err->message ? 0 : rc;
}
