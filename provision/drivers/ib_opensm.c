/* InfiniBand partitions through OpenSM's partitions file over SSH (field/infiniband.md 2.4). OpenSM fails open on a broken file and reads
 * it again at any heavy sweep, so the file is only ever replaced whole, by rename, after it was read by rules stricter than OpenSM's. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/digest.h"
#include "provision/drivers/ib_ssh.h"
#include "provision/drivers/partitions_file.h"

enum { SETS = 4, HOSTS_MAX = 16 };

struct opensm {
	struct rk_ib ib;
	struct rk_driver_env env;
	struct rk_ib_ssh *fabrics;
	size_t n_fabrics;
};

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
 * are one command, so two operators cannot overwrite each other. Also when nothing changes the file is compared and the signal sent: an
 * earlier run may have died between rename and signal. */
static const char write_script[] =
	"f=$1 old=$2 inode=$3 new=$4 pid=$5 nonce=$6 hup=$7\n"
	"case $f in */*) d=${f%/*} ;; *) d=. ;; esac\n"
	"t=${d:-/}/.racksh-partitions.$$\n"
	"say() { printf '%s %s\\n' \"$nonce\" \"$1\"; exit 0; }\n"
	"sum() { sha256sum < \"$1\" | cut -d' ' -f1; }\n"
	"umask 077\n"
	"trap 'rm -f \"$t\"' EXIT\n"
	"cat > \"$t\" || say write\n"
	"[ \"$(sum \"$t\")\" = \"$new\" ] || say short\n"
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


static const struct rk_fabric *fabric_of(const struct opensm *sm, int fabric)
{
	return &sm->ib.site->fabrics[fabric];
}

static const char *file_of(const struct opensm *sm, int fabric)
{
	const char *file = fabric_of(sm, fabric)->partitions_file;

	return file ? file : "/etc/opensm/partitions.conf";
}

/* --- the partitions file ------------------------------------------------------------------------------------------------------- */

struct file {
	const char *text;
	size_t len;
	char sum[65];
	const char *inode, *role;
};

static int read_file(struct opensm *sm, int fabric, size_t host, struct rk_arena *arena, struct file *ret, struct rk_err *err)
{
	const char *path = file_of(sm, fabric), *mark = rk_nonce(arena);
	const char *count = rk_arena_printf(arena, "%zu", fabric_of(sm, fabric)->manager.n_ssh);
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

enum written { WRITTEN, LOST_UPDATE };

static int write_file(struct opensm *sm, int fabric, size_t host, const struct file *old, const struct rk_str *text, bool hup, struct rk_arena *arena,
		      enum written *ret, struct rk_err *err)
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
	const char *pid = fabric_of(sm, fabric)->pid_file, *mark = rk_nonce(arena);
	char sum[65];
	rk_sha256_hex(rk_str_text(text), text->len, sum);
	const char *argv[] = { "sh", "-c", write_script, "racksh", file_of(sm, fabric), old->sum, old->inode, sum, pid ? pid : "", mark, hup ? "yes" : "no", NULL };
	struct rk_ssh_result r;
	int rc = rk_ib_ssh_run_at(&sm->fabrics[fabric], host, 60000, argv, rk_str_text(text), text->len, &r, err);

	if (rc == 0) {
		const char *at = strstr(rk_str_text(&r.out), mark), *word = at ? rk_first_line(arena, at + strlen(mark)) : "";
		*ret = rk_streq(word, "changed") ? LOST_UPDATE : WRITTEN;
		if (!rk_streq(word, "done") && !rk_streq(word, "changed"))
			rc = rk_err_set(err, RK_UNREACHABLE, "the answer to the change is not understood, its outcome not known: %s",
					rk_first_line(arena, r.err.len ? rk_str_text(&r.err) : rk_str_text(&r.out)));
		for (size_t i = 0; i < RK_ARRAY_SIZE(answers); i++)
			if (rk_streq(word, answers[i].word))
				rc = rk_err_set(err, answers[i].class, "%s (%s): %s", answers[i].message, file_of(sm, fabric),
						rk_first_line(arena, rk_str_text(&r.err)));
	}
	rk_ssh_result_clear(&r);
	return rc;
}

static int cmp_member(const void *a, const void *b)
{
	uint64_t x = ((const struct rk_ib_member *)a)->guid, y = ((const struct rk_ib_member *)b)->guid;

	return (x > y) - (x < y);
}

static void to_live(const struct rk_part *part, struct rk_arena *arena, struct rk_ib_live *ret)
{
	*ret = (struct rk_ib_live){ part->pkey, part->name, part->ours, rk_arena_array(arena, part->n_members + 1, sizeof(*ret->members)), 0 };
	for (size_t i = 0; i < part->n_members; i++)
		if (part->members[i].who == RK_PART_GUID)
			ret->members[ret->n_members++] = (struct rk_ib_member){ part->members[i].guid, part->members[i].full };
	qsort(ret->members, ret->n_members, sizeof(*ret->members), cmp_member);
	/* A port written twice with the same word (with different ones the file was refused) is one member. */
	size_t kept = 0;
	for (size_t i = 0; i < ret->n_members; i++)
		if (!kept || ret->members[kept - 1].guid != ret->members[i].guid)
			ret->members[kept++] = ret->members[i];
	ret->n_members = kept;
}

static int sm_list(struct rk_ib *ib, int fabric, struct rk_arena *arena, struct rk_ib_live **ret, size_t *ret_n, struct rk_err *err)
{
	struct opensm *sm = (struct opensm *)ib;
	struct rk_partitions parts;
	struct file file;
	size_t host = 0, n = fabric_of(sm, fabric)->manager.n_ssh;
	int rc;

	pthread_mutex_lock(&sm->fabrics[fabric].lock);
	do
		rc = read_file(sm, fabric, host, arena, &file, err);
	while (rc == RK_UNREACHABLE && ++host < n);
	if (rc == 0)
		rc = rk_partitions_parse(file_of(sm, fabric), file.text, file.len, arena, &parts, err);
	if (rc == 0) {
		*ret = rk_arena_array(arena, parts.n, sizeof(**ret));
		*ret_n = parts.n;
		for (size_t i = 0; i < parts.n; i++)
			to_live(&parts.items[i], arena, &(*ret)[i]);
	}
	return rk_ib_ssh_finish(&sm->fabrics[fabric], rc, err);
}

/* --- changing ------------------------------------------------------------------------------------------------------------------ */

/* What is not ours must be the same on every manager, or a take-over changes who may talk to whom. */
static int same_foreign(const struct opensm *sm, int fabric, const struct file *a, const struct file *b, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_partitions pa, pb;
	int rc = rk_partitions_parse(file_of(sm, fabric), a->text, a->len, arena, &pa, err);

	if (rc != 0 || (rc = rk_partitions_parse(file_of(sm, fabric), b->text, b->len, arena, &pb, err)) != 0)
		return rc;
	size_t a1 = pa.managed ? pa.begin : a->len, a2 = pa.managed ? pa.end : a->len, b1 = pb.managed ? pb.begin : b->len, b2 = pb.managed ? pb.end : b->len;
	if (a1 == b1 && a->len - a2 == b->len - b2 && memcmp(a->text, b->text, a1) == 0 && memcmp(a->text + a2, b->text + b2, a->len - a2) == 0)
		return 0;
	rk_err_set(err, RK_CONFLICT, "the partitions files of the subnet managers differ outside the section managed by racksh");
	rk_err_hint(err, "make \"%s\" the same on all of them first", file_of(sm, fabric));
	return RK_CONFLICT;
}

/* One try on all managers: standby ones first, the master last and told. */
static int set_once(struct opensm *sm, int fabric, uint16_t pkey, const char *name, const struct rk_ib_member *members, size_t n, enum written *ret,
		    struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct file files[HOSTS_MAX];
	size_t hosts = fabric_of(sm, fabric)->manager.n_ssh, master = 0;
	int rc = 0;

	if (hosts > HOSTS_MAX)
		return rk_err_set(err, RK_INVALID, "more than %d subnet managers", HOSTS_MAX);
	for (size_t i = 0; i < (hosts ? hosts : 1) && rc == 0; i++) {
		rc = read_file(sm, fabric, i, arena, &files[i], err);
		if (rc == 0 && rk_streq(files[i].role, "master"))
			master = i;
	}
	for (size_t i = 0; i < hosts && rc == 0; i++)
		if (i != master)
			rc = same_foreign(sm, fabric, &files[master], &files[i], err);
	if (rc == 0)
		rc = rk_partitions_edit(file_of(sm, fabric), files[master].text, files[master].len, pkey, name, members, n, &text, err);
	*ret = WRITTEN;
	for (size_t i = 0; i < hosts && rc == 0 && *ret == WRITTEN; i++)
		if (i != master)
			rc = write_file(sm, fabric, i, &files[i], &text, rk_streq(files[i].role, "unknown"), arena, ret, err);
	if (rc == 0 && *ret == WRITTEN)
		rc = write_file(sm, fabric, master, &files[master], &text, true, arena, ret, err);
	return rc;
}

static int sm_set(struct rk_ib *ib, int fabric, uint16_t pkey, const char *name, const struct rk_ib_member *members, size_t n, struct rk_err *err)
{
	struct opensm *sm = (struct opensm *)ib;
	enum written written = LOST_UPDATE;
	int rc = 0;

	if (sm->env.read_only)
		return rk_err_set(err, RK_INVALID, "--read-only: nothing is changed on subnet managers");
	pthread_mutex_lock(&sm->fabrics[fabric].lock);
	for (int i = 0; i < SETS && rc == 0 && written == LOST_UPDATE; i++)
		rc = set_once(sm, fabric, pkey, name, members, n, &written, err);
	if (rc == 0 && written == LOST_UPDATE)
		rc = rk_err_set(err, RK_CONFLICT, "somebody else keeps changing \"%s\"", file_of(sm, fabric));
	return rk_ib_ssh_finish(&sm->fabrics[fabric], rc, err);
}

/* --- reading ------------------------------------------------------------------------------------------------------------------- */

static struct rk_ib_ssh *reader(struct rk_ib *ib, int fabric)
{
	return &((struct opensm *)ib)->fabrics[fabric];
}

static int sm_tables(struct rk_ib *ib, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err)
{
	return rk_ib_ssh_tables(reader(ib, fabric), guids, n, arena, ret, err);
}

static int sm_discover(struct rk_ib *ib, int fabric, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	return rk_ib_ssh_discover(reader(ib, fabric), arena, ret, err);
}

static int sm_paths(struct rk_ib *ib, int fabric, struct rk_ib_path *paths, size_t n, struct rk_arena *arena, struct rk_err *err)
{
	return rk_ib_ssh_paths(reader(ib, fabric), paths, n, arena, err);
}

static int sm_counters(struct rk_ib *ib, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_reading *ret, struct rk_err *err)
{
	return rk_ib_ssh_counters(reader(ib, fabric), guids, n, arena, ret, err);
}

static void sm_free(struct rk_ib *ib)
{
	struct opensm *sm = (struct opensm *)ib;

	for (size_t i = 0; i < sm->n_fabrics; i++)
		rk_ib_ssh_clear(&sm->fabrics[i]);
	free(sm->fabrics);
	free(sm);
}

static const struct rk_ib_ops ops = { sm_list, sm_set, sm_tables, sm_discover, sm_paths, sm_counters, sm_free };

int rk_ib_opensm(const struct rk_driver_env *env, struct rk_ib **ret, struct rk_err *err)
{
	struct opensm *sm = rk_xcalloc(1, sizeof(*sm));

	(void)err;
	sm->ib = (struct rk_ib){ &ops, env->site };
	sm->env = *env;
	sm->n_fabrics = env->site->n_fabrics;
	sm->fabrics = rk_xcalloc(sm->n_fabrics ? sm->n_fabrics : 1, sizeof(*sm->fabrics));
	for (size_t i = 0; i < sm->n_fabrics; i++)
		rk_ib_ssh_init(&sm->fabrics[i], &sm->env, &sm->ib, (int)i);
	*ret = &sm->ib;
	return 0;
}
