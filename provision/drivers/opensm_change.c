/* The safe change of OpenSM's partitions (field/infiniband.md 2.4): all managers' files are read and compared, standby ones written first, the master
 * told, the ports read back; what does not come out as wanted is taken back. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/digest.h"
#include "provision/drivers/opensm_impl.h"

/* OpenSM sweeps 64 racks in 2 s when idle, in 7 s under load. */
enum { SETS = 4, POLL_MS = 250, POLL_MOST_MS = 2000, SEEN_MS = 25000 };

/* What is not ours must be the same on every manager, or a take-over changes who may talk to whom. */
static int same_foreign(const struct opensm *sm, int fabric, const struct opensm_file *a, const struct opensm_file *b, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_partitions pa, pb;
	int rc = rk_partitions_parse(rk_opensm_path(sm, fabric), a->text, a->len, arena, &pa, err);

	if (rc != 0 || (rc = rk_partitions_parse(rk_opensm_path(sm, fabric), b->text, b->len, arena, &pb, err)) != 0)
		return rc;
	size_t a1 = pa.managed ? pa.begin : a->len, a2 = pa.managed ? pa.end : a->len, b1 = pb.managed ? pb.begin : b->len, b2 = pb.managed ? pb.end : b->len;
	if (a1 == b1 && a->len - a2 == b->len - b2 && memcmp(a->text, b->text, a1) == 0 && memcmp(a->text + a2, b->text + b2, a->len - a2) == 0)
		return 0;
	rk_err_set(err, RK_CONFLICT, "the partitions files of the subnet managers differ outside the section managed by racksh");
	rk_err_hint(err, "make \"%s\" the same on all of them first", rk_opensm_path(sm, fabric));
	return RK_CONFLICT;
}

static int read_files(struct opensm *sm, int fabric, struct opensm_change *c, struct rk_arena *arena, struct rk_err *err)
{
	size_t named = rk_opensm_fabric(sm, fabric)->manager.n_ssh, n = 0;
	int rc = 0;

	if (named > RK_OPENSM_HOSTS)
		return rk_err_set(err, RK_INVALID, "more than %d subnet managers", RK_OPENSM_HOSTS);
	c->hosts = named ? named : 1;
	for (size_t i = 0; i < c->hosts && rc == 0; i++) {
		rc = rk_opensm_read(sm, fabric, i, arena, &c->files[i], err);
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
static bool told(const struct opensm_change *c, size_t host)
{
	return host == c->master || rk_streq(c->files[host].role, "unknown");
}

static int write_files(struct opensm *sm, int fabric, struct opensm_change *c, enum opensm_written *ret, struct rk_arena *arena, struct rk_err *err)
{
	int rc = 0;

	*ret = OPENSM_WRITTEN;
	for (size_t i = 0; i < c->hosts && rc == 0 && *ret == OPENSM_WRITTEN; i++) {
		size_t host = c->order[i];
		rc = rk_opensm_write(sm, fabric, host, &c->files[host], &c->text, told(c, host), arena, ret, err);
		c->written += rc == 0 && *ret == OPENSM_WRITTEN;
	}
	return rc;
}

/* The former text again where the new one was written, unless somebody changed it since. */
static int put_back(struct opensm *sm, int fabric, const struct opensm_change *c, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	char ours[65];
	int rc = 0;

	rk_sha256_hex(rk_str_text(&c->text), c->text.len, ours);
	for (size_t i = 0; i < c->written && rc == 0; i++) {
		size_t host = c->order[i];
		struct rk_str former RK_CLEANUP_STR = RK_STR_INIT;
		struct opensm_file now;
		enum opensm_written written;
		rc = rk_opensm_read(sm, fabric, host, arena, &now, err);
		if (rc == 0 && strcmp(now.sum, ours) != 0)
			rc = rk_err_set(err, RK_CONFLICT, "somebody else changed \"%s\" meanwhile", rk_opensm_path(sm, fabric));
		rk_str_addn(&former, c->files[host].text, c->files[host].len);
		if (rc == 0)
			rc = rk_opensm_write(sm, fabric, host, &now, &former, told(c, host), arena, &written, err);
		if (rc == 0 && written != OPENSM_WRITTEN)
			rc = rk_err_set(err, RK_CONFLICT, "somebody else changed \"%s\" meanwhile", rk_opensm_path(sm, fabric));
	}
	return rc;
}

static int told_off(struct opensm *sm, int fabric, const struct opensm_change *c, struct opensm_watch *w, enum opensm_seen seen, uint64_t port, struct rk_err *err)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	const char *what = seen == OPENSM_NOT_YET ? "does not hold what it should" : "is a full member of the default partition";
	uint64_t other;
	int rc = put_back(sm, fabric, c, &why);

	for (int waited = 0; rc == 0 && seen == OPENSM_OPENED && waited < SEEN_MS && rk_opensm_look(sm, fabric, c, w, true, &other) == OPENSM_OPENED; waited += POLL_MOST_MS)
		rk_clock_sleep_ms(sm->env.clock, POLL_MOST_MS);
	if (rc == 0 && rk_opensm_look(sm, fabric, c, w, true, &other) == OPENSM_OPENED)
		return rk_err_set(err, RK_UNREACHABLE, "port 0x%016" PRIx64 " %s after the change, and still with the former partitions file: the fabric is open", port, what);
	if (rc)
		return rk_err_set(err, RK_UNREACHABLE, "port 0x%016" PRIx64 " %s after the change, and the former partitions file could not be put back: %s", port, what,
				  why.message ? why.message : "no reason given");
	rk_err_set(err, RK_FAILED, "port 0x%016" PRIx64 " %s after the change of key 0x%04x; the former partitions file is in place again", port, what, c->wanted->pkey);
	rk_err_hint(err, seen == OPENSM_OPENED ? "OpenSM's log says what it did not like in the file" : "is OpenSM running there, as master, and does it obey a HUP? see its log");
	return RK_FAILED;
}

/* First the ports that change, which is quick, then all: nothing else may have moved. */
static int see_it_done(struct opensm *sm, int fabric, const struct opensm_change *c, struct opensm_watch *w, struct rk_err *err)
{
	uint64_t port = 0;
	bool all = !w->n_changing;
	int wait = POLL_MS;

	for (int waited = 0;; waited += wait, wait = wait < POLL_MOST_MS ? wait * 2 : wait) {
		enum opensm_seen seen = rk_opensm_look(sm, fabric, c, w, all, &port);
		if (seen == OPENSM_SEEN && !all) {
			all = true;
			seen = rk_opensm_look(sm, fabric, c, w, all, &port);
		}
		if (seen == OPENSM_SEEN || seen == OPENSM_UNREAD)
			return 0;
		if (seen == OPENSM_OPENED || waited >= SEEN_MS)
			return told_off(sm, fabric, c, w, seen, port, err);
		rk_clock_sleep_ms(sm->env.clock, wait);
	}
}

static bool same_text(const struct opensm_file *file, const struct rk_str *text)
{
	return file->len == text->len && memcmp(file->text, rk_str_text(text), text->len) == 0;
}

/* One try on all managers. What was written before something went wrong is taken back. */
static int set_once(struct opensm *sm, int fabric, struct opensm_change *c, enum opensm_written *ret, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;
	struct opensm_watch w;
	int rc = read_files(sm, fabric, c, arena, err);

	*ret = OPENSM_WRITTEN;
	if (rc == 0)
		rc = rk_partitions_edit(rk_opensm_path(sm, fabric), c->files[c->master].text, c->files[c->master].len, c->wanted, &c->text, err);
	if (rc)
		return rc;
	if (sm->env.twin_check && !same_text(&c->files[c->master], &c->text) && (rc = rk_opensm_twin(sm, fabric, &c->text, err)) != 0)
		return rc;
	bool readable = rk_opensm_watch(sm, fabric, c, arena, &w);
	rc = write_files(sm, fabric, c, ret, arena, err);
	if ((rc != 0 && rc != RK_UNREACHABLE && rc != RK_CANCELLED) || *ret == OPENSM_LOST_UPDATE)
		(void)put_back(sm, fabric, c, &ignored);
	return rc == 0 && *ret == OPENSM_WRITTEN && readable ? see_it_done(sm, fabric, c, &w, err) : rc;
}

int rk_opensm_set(struct rk_ib *ib, int fabric, const struct rk_ib_wanted *wanted, struct rk_err *err)
{
	struct opensm *sm = (struct opensm *)ib;
	enum opensm_written written = OPENSM_LOST_UPDATE;
	int rc = 0;

	if (sm->env.read_only)
		return rk_err_set(err, RK_INVALID, "--read-only: nothing is changed on subnet managers");
	pthread_mutex_lock(&sm->fabrics[fabric].lock);
	for (int i = 0; i < SETS && rc == 0 && written == OPENSM_LOST_UPDATE; i++) {
		struct opensm_change c = { .wanted = wanted };
		rc = set_once(sm, fabric, &c, &written, err);
		rk_str_clear(&c.text);
	}
	if (rc == 0 && written == OPENSM_LOST_UPDATE)
		rc = rk_err_set(err, RK_CONFLICT, "somebody else keeps changing \"%s\"", rk_opensm_path(sm, fabric));
	return rk_ib_ssh_finish(&sm->fabrics[fabric], rc, err);
}
