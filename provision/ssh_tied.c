/* Commands that end when nobody waits for them any more. sshd leaves a command running when its connection goes away, and what it asks for on a
 * tty alone (SIGHUP) a command without one never gets. So a watcher goes along: it reads the channel, on which nothing is ever sent, to its end.
 *
 * The session of the command is what is ended, not its process group: `timeout` makes a group of its own. The watcher is in it, too, holds
 * neither of the output streams, and is gone with the channel. When the command has ended before the channel, what it left running was left on
 * purpose. A process that made a session of its own (setsid, a daemon) is not ours to end. */
#include <string.h>

#include "provision/ssh_impl.h"

/* The outer subshell makes it nobody's child: a program that waits for all its children must not wait for this one. SIGTERM, five seconds to tidy up,
 * SIGKILL. With sed, because a shell reads /proc byte by byte; what runs as another user was started with sudo. The command takes the place of the
 * shell, so that a signal ends it and not a shell around it; a builtin cannot. In one line, for login shells that take no
 * other in quotes (csh). */
static const char script[] =
	"exec 3<&0; ( { trap \"\" HUP TERM; read -r me x </proc/self/stat; set -- ${x##*) }; session=$4; "
	"each() { n=; for q in $(sed -n \"s/^\\([0-9]*\\) (.*) [^Z] [0-9]* [0-9]* $session .*/\\1/p\" /proc/[0-9]*/stat); do "
	"[ $q = $me ] && continue; kill -$1 $q || { [ -e /proc/$q ] && sudo -n kill -$1 $q; } && n=1; done; [ \"$n\" ]; }; "
	"while read -r x; do :; done; [ -e /proc/$$ ] || exit; "
	"for x in TERM 0 0 0 0 0 KILL KILL KILL; do each $x || exit; sleep 1; done; "
	"} <&3 3<&- >/dev/null 2>&1 & ); "
	"exec 3<&- </dev/null; case $(command -v -- \"$1\") in */*) exec \"$@\" ;; esac; \"$@\"";

void rk_ssh_tie(struct rk_str *command)
{
	char *plain RK_CLEANUP_FREE = rk_str_steal(command);

	rk_str_add(command, "sh -c ");
	rk_shell_quote(command, script);
	rk_str_addf(command, " sh %s", plain);
}
