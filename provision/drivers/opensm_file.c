/* The partitions file on the host of a subnet manager: read with its inode and hash, replaced whole and only when it still is what was read. */
#include <stdio.h>
#include <string.h>

#include "inventory/base/digest.h"
#include "provision/drivers/opensm_impl.h"

/* FILE NONCE COUNT: one head line, then the file byte for byte. With several managers it also says who is master: the standby ones are
 * written first. */
static const char read_script[] =
	"f=$1 m=unknown\n"
	"[ -f \"$f\" ] && [ -r \"$f\" ] || exit 66\n"
	"if [ \"$3\" -gt 1 ]; then\n"
	" g=$(sminfo 2>/dev/null | sed -n 's/.*sm guid \\(0x[0-9a-f]*\\).*/\\1/p')\n"
	" if [ -n \"$g\" ]; then m=standby; ibstat -p 2>/dev/null | grep -qix \"$g\" && m=master; fi\n"
	"fi\n"
	"printf '%s %s %s\\n' \"$2\" \"$(stat -L -c %i \"$f\")\" \"$m\"\n"
	"cat \"$f\"\n";

/* FILE OLD-SHA256 OLD-INODE NEW-SHA256 PIDFILE NONCE HUP(yes|no), the new text on standard input. The lock, the comparison and the rename
 * are one command, so two operators cannot overwrite each other. Nothing is written when nothing changes: a full disk must not keep an undo from its end. Also when nothing changes the file is compared and the signal sent: an
 * earlier run may have died between rename and signal. */
static const char write_script[] =
	"f=$1 old=$2 inode=$3 new=$4 pid=$5 nonce=$6 hup=$7\n"
	"case $f in */*) d=${f%/*} ;; *) d=. ;; esac\n"
	"t=${d:-/}/.racksh-partitions.$$\n"
	"say() { printf '%s %s\\n' \"$nonce\" \"$1\"; exit 0; }\n"
	"sum() { sha256sum < \"$1\" | cut -d' ' -f1; }\n"
	"umask 077\n"
	"trap 'rm -f \"$t\"' EXIT\n"
	"trap 'exit 1' HUP INT TERM PIPE\n"
	"if [ \"$old\" != \"$new\" ]; then\n"
	" cat > \"$t\" || say write\n"
	" [ \"$(sum \"$t\")\" = \"$new\" ] || say short\n"
	"fi\n"
	"exec 9>> \"$f.lock\" || say lock\n"
	"flock -w 20 9 || say lock\n"
	"[ \"$(sum \"$f\")\" = \"$old\" ] && [ \"$(stat -L -c %i \"$f\")\" = \"$inode\" ] || say changed\n"
	"if [ \"$old\" != \"$new\" ]; then\n"
	" chmod --reference=\"$f\" \"$t\" && chown --reference=\"$f\" \"$t\" && sync \"$t\" && cp -p \"$f\" \"$f.racksh-prev\" && mv -f \"$t\" \"$f\" &&\n"
	"  sync \"${d:-/}\" || say write\n"
	"fi\n"
	"[ \"$hup\" = yes ] || say done\n"
	"if [ -n \"$pid\" ]; then\n"
	" p=$(cat \"$pid\" 2>/dev/null)\n"
	" case $p in ''|*[!0-9]*) say nosignal ;; esac\n"
	" kill -HUP \"$p\" 2>/dev/null || say nosignal\n"
	"else\n"
	" pkill -HUP -x opensm || say nosignal\n"
	"fi\n"
	"say done\n";

int rk_opensm_read(struct opensm *sm, int fabric, size_t host, struct rk_arena *arena, struct opensm_file *ret, struct rk_err *err)
{
	const char *path = rk_opensm_path(sm, fabric), *mark = rk_nonce(arena);
	const char *count = rk_arena_printf(arena, "%zu", rk_opensm_fabric(sm, fabric)->manager.n_ssh);
	const char *argv[] = { "sh", "-c", read_script, "racksh", path, mark, count, NULL };
	struct rk_ssh_result r;
	int rc = rk_ib_ssh_run_at(&sm->fabrics[fabric], host, 30000, argv, NULL, 0, &r, err);

	if (rc == 0 && r.status == 66) {
		rc = rk_err_set(err, RK_NOT_FOUND, "the partitions file \"%s\" is not there or not readable: OpenSM then makes every port a full member", path);
		rk_err_hint(err, "write it: Default=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;");
	} else if (rc == 0) {
		const char *text = rk_str_text(&r.out), *eol = strchr(text, '\n');
		char inode[32] = "", role[16] = "";
		size_t skip = strlen(mark);
		if (r.status != 0 || r.truncated || !eol || !rk_starts_with(text, mark) || sscanf(text + skip, " %31[0-9] %15[a-z]", inode, role) != 2) {
			rc = rk_err_set(err, RK_UNREACHABLE, "the partitions file \"%s\" was not read: %s", path, rk_first_line(arena, r.err.len ? rk_str_text(&r.err) : text));
		} else {
			ret->len = r.out.len - (size_t)(eol + 1 - text);
			ret->text = memcpy(rk_arena_alloc(arena, ret->len + 1), eol + 1, ret->len);
			ret->inode = rk_arena_strdup(arena, inode);
			ret->role = rk_arena_strdup(arena, role);
			rk_sha256_hex(ret->text, ret->len, ret->sum);
		}
	}
	rk_ssh_result_clear(&r);
	return rc;
}

int rk_opensm_write(struct opensm *sm, int fabric, size_t host, const struct opensm_file *old, const struct rk_str *text, bool hup, struct rk_arena *arena,
		    enum opensm_written *ret, struct rk_err *err)
{
	static const struct {
		const char *word;
		int class;
		const char *message;
	} answers[] = {
		{ "write", RK_FAILED, "the partitions file could not be written" },
		{ "short", RK_FAILED, "the new partitions file did not arrive whole; nothing was changed" },
		{ "lock", RK_CONFLICT, "the lock of the partitions file is held by somebody else" },
		{ "nosignal", RK_UNREACHABLE, "the partitions file was written, but OpenSM could not be told to read it" },
	};
	const char *pid = rk_opensm_fabric(sm, fabric)->pid_file, *mark = rk_nonce(arena);
	char sum[65];
	rk_sha256_hex(rk_str_text(text), text->len, sum);
	const char *argv[] = { "sh", "-c", write_script, "racksh", rk_opensm_path(sm, fabric), old->sum, old->inode, sum, pid ? pid : "", mark, hup ? "yes" : "no", NULL };
	struct rk_ssh_result r;
	int rc = rk_ib_ssh_run_at(&sm->fabrics[fabric], host, 60000, argv, rk_str_text(text), text->len, &r, err);

	if (rc == 0) {
		const char *at = strstr(rk_str_text(&r.out), mark), *word = at ? rk_first_line(arena, at + strlen(mark)) : "";
		*ret = rk_streq(word, "changed") ? OPENSM_LOST_UPDATE : OPENSM_WRITTEN;
		if (!rk_streq(word, "done") && !rk_streq(word, "changed"))
			rc = rk_err_set(err, RK_UNREACHABLE, "the answer to the change is not understood, its outcome not known: %s",
					rk_first_line(arena, r.err.len ? rk_str_text(&r.err) : rk_str_text(&r.out)));
		for (size_t i = 0; i < RK_ARRAY_SIZE(answers); i++)
			if (rk_streq(word, answers[i].word))
				rc = rk_err_set(err, answers[i].class, "%s (%s): %s", answers[i].message, rk_opensm_path(sm, fabric),
						rk_first_line(arena, rk_str_text(&r.err)));
	}
	rk_ssh_result_clear(&r);
	return rc;
}
