/* InfiniBand partitions through OpenSM's partitions file over SSH (field/infiniband.md 2.4). OpenSM fails open on a broken file and reads
 * it again at any heavy sweep, so the file is only ever replaced whole, by rename, after it was read by rules stricter than OpenSM's. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/digest.h"
#include "provision/drivers/ib_ssh.h"
#include "provision/drivers/partitions_file.h"

/* OpenSM sweeps 64 racks in 2 s when idle, in 7 s under load. */
enum { SETS = 4, HOSTS_MAX = 16, WATCHED_MAX = 512, POLL_MS = 250, POLL_MOST_MS = 2000, SEEN_MS = 25000 };

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

/* What is to be: the change, the files as they were read, and the text that replaces them. */
struct change {
	uint16_t pkey;
	const char *name;
	const struct rk_ib_member *members;
	size_t n;
	struct file files[HOSTS_MAX];
	size_t hosts, master;
	struct rk_str text;
	size_t order[HOSTS_MAX], written; /* hosts in the order of writing: standby ones first; how many have the new text */
};

static int read_files(struct opensm *sm, int fabric, struct change *c, struct rk_arena *arena, struct rk_err *err)
{
	size_t named = fabric_of(sm, fabric)->manager.n_ssh, n = 0;
	int rc = 0;

	if (named > HOSTS_MAX)
		return rk_err_set(err, RK_INVALID, "more than %d subnet managers", HOSTS_MAX);
	c->hosts = named ? named : 1;
	for (size_t i = 0; i < c->hosts && rc == 0; i++) {
		rc = read_file(sm, fabric, i, arena, &c->files[i], err);
		if (rc == 0 && rk_streq(c->files[i].role, "master"))
			c->master = i;
	}
	for (size_t i = 0; i < c->hosts && rc == 0; i++)
		if (i != c->master)
			rc = same_foreign(sm, fabric, &c->files[c->master], &c->files[i], err);
	for (size_t i = 0; i < c->hosts; i++)
		if (i != c->master)
			c->order[n++] = i;
	c->order[n] = c->master;
	return rc;
}

/* Which managers are told to read their file: the master, and those of which it is not known whether they are. */
static bool told(const struct change *c, size_t host)
{
	return host == c->master || rk_streq(c->files[host].role, "unknown");
}

static int write_files(struct opensm *sm, int fabric, struct change *c, enum written *ret, struct rk_arena *arena, struct rk_err *err)
{
	int rc = 0;

	*ret = WRITTEN;
	for (size_t i = 0; i < c->hosts && rc == 0 && *ret == WRITTEN; i++) {
		size_t host = c->order[i];
		rc = write_file(sm, fabric, host, &c->files[host], &c->text, told(c, host), arena, ret, err);
		c->written += rc == 0 && *ret == WRITTEN;
	}
	return rc;
}

/* The former text again where the new one was written, unless somebody changed it since. */
static int put_back(struct opensm *sm, int fabric, const struct change *c, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	char ours[65];
	int rc = 0;

	rk_sha256_hex(rk_str_text(&c->text), c->text.len, ours);
	for (size_t i = 0; i < c->written && rc == 0; i++) {
		size_t host = c->order[i];
		struct rk_str former RK_CLEANUP_STR = RK_STR_INIT;
		struct file now;
		enum written written;
		rc = read_file(sm, fabric, host, arena, &now, err);
		if (rc == 0 && strcmp(now.sum, ours) != 0)
			rc = rk_err_set(err, RK_CONFLICT, "somebody else changed \"%s\" meanwhile", file_of(sm, fabric));
		rk_str_addn(&former, c->files[host].text, c->files[host].len);
		if (rc == 0)
			rc = write_file(sm, fabric, host, &now, &former, told(c, host), arena, &written, err);
		if (rc == 0 && written != WRITTEN)
			rc = rk_err_set(err, RK_CONFLICT, "somebody else changed \"%s\" meanwhile", file_of(sm, fabric));
	}
	return rc;
}

/* --- seeing that it was done --------------------------------------------------------------------------------------------------- */

/* Ports that are read back: all of them in a fabric of a few racks, else the members and as many others, from everywhere, as time allows. */
struct watch {
	uint64_t *guids;
	unsigned *wanted;                 /* word of the key, 0: none */
	bool *open;                       /* held 0xffff before the change, as the port of a subnet manager does */
	size_t n;
};

static const struct rk_ib_member *member_of(const struct change *c, uint64_t guid)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->members[i].guid == guid)
			return &c->members[i];
	return NULL;
}

static void choose_ports(const struct opensm *sm, int fabric, const struct change *c, struct rk_arena *arena, struct watch *w)
{
	const struct rk_site *site = sm->ib.site;
	size_t others = 0, step, at = 0;

	for (size_t h = 0; h < site->n_hcas; h++)
		others += site->hcas[h].fabric == fabric && site->hcas[h].port_guid;
	step = others / WATCHED_MAX + 1;
	*w = (struct watch){ rk_arena_array(arena, others + c->n, sizeof(*w->guids)), rk_arena_array(arena, others + c->n, sizeof(*w->wanted)),
			     rk_arena_array(arena, others + c->n, sizeof(*w->open)), 0 };
	for (size_t i = 0; i < c->n; i++) {
		w->wanted[w->n] = c->pkey | (c->members[i].full ? 0x8000u : 0);
		w->guids[w->n++] = c->members[i].guid;
	}
	for (size_t h = 0; h < site->n_hcas; h++)
		if (site->hcas[h].fabric == fabric && site->hcas[h].port_guid && !member_of(c, site->hcas[h].port_guid) && at++ % step == 0)
			w->guids[w->n++] = site->hcas[h].port_guid;
}

static bool holds(const struct rk_ib_port *port, unsigned word)
{
	for (size_t i = 0; i < port->n_pkeys; i++)
		if (port->pkeys[i] == word)
			return true;
	return false;
}

enum seen { SEEN, NOT_YET, OPENED, UNREAD };

/* One reading; *ret_port is the first port that is not as it should be. */
static enum seen look(struct opensm *sm, int fabric, const struct change *c, const struct watch *w, uint64_t *ret_port)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ib_port *ports = rk_arena_array(arena, w->n, sizeof(*ports));
	enum seen seen = SEEN;

	if (rk_ib_ssh_tables_locked(&sm->fabrics[fabric], w->guids, w->n, arena, ports, NULL) != 0)
		return UNREAD;
	for (size_t i = 0; i < w->n; i++) {
		unsigned has = holds(&ports[i], c->pkey | 0x8000u) ? c->pkey | 0x8000u : holds(&ports[i], c->pkey) ? c->pkey : 0;
		if (!ports[i].known)
			continue;
		if (!w->open[i] && holds(&ports[i], 0xffff)) {
			*ret_port = w->guids[i];
			return OPENED;
		}
		if (has != w->wanted[i] && seen == SEEN) {
			*ret_port = w->guids[i];
			seen = NOT_YET;
		}
	}
	return seen;
}

/* Which ports are full members of the default partition already. False: tables cannot be read here, and whoever waits for them will say so. */
static bool look_before(struct opensm *sm, int fabric, struct watch *w)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ib_port *ports = rk_arena_array(arena, w->n, sizeof(*ports));

	if (rk_ib_ssh_tables_locked(&sm->fabrics[fabric], w->guids, w->n, arena, ports, NULL) != 0)
		return false;
	for (size_t i = 0; i < w->n; i++)
		w->open[i] = holds(&ports[i], 0xffff);
	return true;
}

static int told_off(struct opensm *sm, int fabric, const struct change *c, const struct watch *w, enum seen seen, uint64_t port, struct rk_err *err)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	const char *what = seen == OPENED ? "is a full member of the default partition" : "does not hold what it should";
	uint64_t other;
	int rc = put_back(sm, fabric, c, &why);

	for (int waited = 0; rc == 0 && seen == OPENED && waited < SEEN_MS && look(sm, fabric, c, w, &other) == OPENED; waited += POLL_MOST_MS)
		rk_clock_sleep_ms(sm->env.clock, POLL_MOST_MS);
	if (rc == 0 && look(sm, fabric, c, w, &other) == OPENED)
		return rk_err_set(err, RK_UNREACHABLE, "port 0x%016" PRIx64 " %s after the change, and still with the former partitions file: the fabric is open", port, what);
	if (rc)
		return rk_err_set(err, RK_UNREACHABLE, "port 0x%016" PRIx64 " %s after the change, and the former partitions file could not be put back: %s", port, what,
				  why.message ? why.message : "no reason given");
	return rk_err_set(err, RK_FAILED, "port 0x%016" PRIx64 " %s %d s after the change of key 0x%04x; the former partitions file is in place again", port, what,
			  SEEN_MS / 1000, c->pkey);
}

/* OpenSM says nothing of what it made of a file: the ports do. */
static int see_it_done(struct opensm *sm, int fabric, const struct change *c, const struct watch *w, struct rk_err *err)
{
	uint64_t port = 0;
	int wait = POLL_MS;

	for (int waited = 0;; waited += wait, wait = wait < POLL_MOST_MS ? wait * 2 : wait) {
		enum seen seen = look(sm, fabric, c, w, &port);
		if (seen == SEEN || seen == UNREAD)
			return 0;
		if (seen == OPENED || waited >= SEEN_MS)
			return told_off(sm, fabric, c, w, seen, port, err);
		rk_clock_sleep_ms(sm->env.clock, wait);
	}
}

/* One try on all managers. What was written before something went wrong is taken back. */
static int set_once(struct opensm *sm, int fabric, struct change *c, enum written *ret, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;
	struct watch w;
	int rc = read_files(sm, fabric, c, arena, err);

	*ret = WRITTEN;
	if (rc == 0)
		rc = rk_partitions_edit(file_of(sm, fabric), c->files[c->master].text, c->files[c->master].len, c->pkey, c->name, c->members, c->n, &c->text, err);
	if (rc)
		return rc;
	choose_ports(sm, fabric, c, arena, &w);
	bool readable = look_before(sm, fabric, &w);
	rc = write_files(sm, fabric, c, ret, arena, err);
	if ((rc != 0 && rc != RK_UNREACHABLE && rc != RK_CANCELLED) || *ret == LOST_UPDATE)
		(void)put_back(sm, fabric, c, &ignored);
	return rc == 0 && *ret == WRITTEN && readable ? see_it_done(sm, fabric, c, &w, err) : rc;
}

static int sm_set(struct rk_ib *ib, int fabric, uint16_t pkey, const char *name, const struct rk_ib_member *members, size_t n, struct rk_err *err)
{
	struct opensm *sm = (struct opensm *)ib;
	enum written written = LOST_UPDATE;
	int rc = 0;

	if (sm->env.read_only)
		return rk_err_set(err, RK_INVALID, "--read-only: nothing is changed on subnet managers");
	pthread_mutex_lock(&sm->fabrics[fabric].lock);
	for (int i = 0; i < SETS && rc == 0 && written == LOST_UPDATE; i++) {
		struct change c = { .pkey = pkey, .name = name, .members = members, .n = n };
		rc = set_once(sm, fabric, &c, &written, err);
		rk_str_clear(&c.text);
	}
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
