/* Evidence folders. What is read from disk may come from anybody: names, sizes and file kinds are checked before use. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inventory/base/clock.h"
#include "inventory/base/diag.h"
#include "inventory/base/file.h"
#include "inventory/base/str.h"
#include "provision/health/health.h"

enum { STREAM_MAX = 16 << 20, STATUS_MAX = 64, MANIFEST_MAX = 64 << 20, FOLDER_MAX = 1 << 30, TARGETS_MAX = 100000, NAME_MAX_LEN = 128 };

/* One path component of harmless characters, so that a manifest cannot lead out of its folder. */
static bool safe_name(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n > NAME_MAX_LEN || name[0] == '.' || name[0] == '-')
		return false;
	return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static void write_leaves(struct rk_jw *w, const struct rk_expect *e)
{
	bool any = false;

	for (size_t i = 0; i < e->n_port_guids; i++)
		any |= e->leaves[i] != NULL;
	if (!any)
		return;
	rk_jw_key(w, "leaves");
	rk_jw_array(w);
	for (size_t i = 0; i < e->n_port_guids; i++) {
		char *text RK_CLEANUP_FREE = e->leaves[i] ? rk_xasprintf("%s/%d", e->leaves[i], e->leaf_ports[i]) : NULL;
		rk_jw_str(w, text);
	}
	rk_jw_end(w);
}

static void write_expect(struct rk_jw *w, const struct rk_expect *e)
{
	rk_jw_key(w, "expect");
	rk_jw_object(w);
	rk_jw_key(w, "nvlink_partition");
	if (e->nvlink_partition)
		rk_jw_i64(w, e->nvlink_partition);
	else
		rk_jw_null(w);
	rk_jw_key(w, "cluster_uuid");
	rk_jw_str(w, e->cluster_uuid);
	rk_jw_key(w, "pkeys");
	if (!e->n_pkeys && !e->no_pkeys)
		rk_jw_null(w);
	else
		rk_jw_array(w);
	for (size_t i = 0; i < e->n_pkeys; i++) {
		char text[8];
		snprintf(text, sizeof(text), "0x%04x", e->pkeys[i] & 0x7fff);
		rk_jw_str(w, text);
	}
	if (e->n_pkeys || e->no_pkeys)
		rk_jw_end(w);
	if (e->n_port_guids) {
		rk_jw_key(w, "port_guids");
		rk_jw_array(w);
		for (size_t i = 0; i < e->n_port_guids; i++)
			rk_jw_hex64(w, e->port_guids[i]);
		rk_jw_end(w);
		write_leaves(w, e);
	}
	const struct {
		const char *key;
		int value;
	} numbers[] = { { "gpus", e->gpus }, { "rails", e->rails }, { "rate_gbps", e->rate_gbps } };
	for (size_t i = 0; i < RK_ARRAY_SIZE(numbers); i++) {
		if (!numbers[i].value)
			continue;
		rk_jw_key(w, numbers[i].key);
		rk_jw_i64(w, numbers[i].value);
	}
	if (e->n_services) {
		rk_jw_key(w, "services");
		rk_jw_array(w);
		for (size_t i = 0; i < e->n_services; i++) {
			char text[8];
			snprintf(text, sizeof(text), "0x%04x", e->services[i] & 0x7fff);
			rk_jw_str(w, text);
		}
		rk_jw_end(w);
	}
	if (e->pkey_limited) {
		rk_jw_key(w, "pkey_limited");
		rk_jw_bool(w, true);
	}
	rk_jw_end(w);
}

static int save_manifest(const char *dir, const struct rk_target *targets, size_t n, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/manifest.json", dir), now[32];
	struct rk_jw w;

	rk_jw_init(&w, &text, 1);
	rk_jw_object(&w);
	const char *head[][2] = { { "apiVersion", "racksh/v1" }, { "kind", "Evidence" }, { "created", rk_time_iso(rk_clock_unix_ms(NULL), now) } };
	for (size_t i = 0; i < RK_ARRAY_SIZE(head); i++) {
		rk_jw_key(&w, head[i][0]);
		rk_jw_str(&w, head[i][1]);
	}
	rk_jw_key(&w, "targets");
	rk_jw_object(&w);
	for (size_t i = 0; i < n; i++) {
		const char *keys[][2] = { { "kind", targets[i].kind }, { "rack", targets[i].rack }, { "cluster", targets[i].cluster },
					  { "tray", targets[i].tray }, { "address", targets[i].address } };
		rk_jw_key(&w, targets[i].name);
		rk_jw_object(&w);
		for (size_t k = 0; k < RK_ARRAY_SIZE(keys); k++) {
			rk_jw_key(&w, keys[k][0]);
			rk_jw_str(&w, keys[k][1]);
		}
		write_expect(&w, &targets[i].expect);
		rk_jw_end(&w);
	}
	rk_jw_end(&w);
	rk_jw_end(&w);
	rk_str_addc(&text, '\n');
	return rk_file_write(path, rk_str_text(&text), text.len, 0600, err);
}

/* Thousands of small files: they are put on disk together at the end, not one by one. */
static int write_new(const char *path, const char *data, size_t len, struct rk_err *err)
{
	int fd RK_CLEANUP_FD = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return rk_err_set(err, RK_FAILED, "cannot make \"%s\": %s", path, strerror(errno));
	while (len) {
		ssize_t n = write(fd, data, len);
		if (n < 0 && errno != EINTR)
			return rk_err_set(err, RK_FAILED, "cannot write \"%s\": %s", path, strerror(errno));
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int save_stream(const char *dir, const struct rk_evidence *e, const char *suffix, const char *data, size_t len, struct rk_err *err)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s.%s", dir, e->collector, suffix);

	return write_new(path, data ? data : "", data ? len : 0, err);
}

static int save_target(const char *dir, const struct rk_target *t, struct rk_err *err)
{
	char *folder RK_CLEANUP_FREE = rk_xasprintf("%s/%s", dir, t->name);

	if (!safe_name(t->name))
		return rk_err_set(err, RK_INVALID, "target \"%s\" cannot be the name of a folder", t->name);
	int rc = rk_mkdirs(folder, err);
	for (size_t i = 0; i < t->n_evidence && !rc; i++) {
		const struct rk_evidence *e = &t->evidence[i];
		const char *status = e->status ? e->status : "";
		rc = save_stream(folder, e, "stdout", e->out, e->out_len, err);
		if (!rc)
			rc = save_stream(folder, e, "stderr", e->err, e->err_len, err);
		if (!rc)
			rc = save_stream(folder, e, "status", status, strlen(status), err);
	}
	return rc;
}

/* A folder that holds something else is left alone; an older evidence folder would mix two points of time. */
static int check_empty(const char *dir, struct rk_err *err)
{
	DIR *d = opendir(dir);
	bool used = false;

	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		used |= strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	if (!used)
		return 0;
	int rc = rk_err_set(err, RK_CONFLICT, "folder \"%s\" is not empty", dir);
	rk_err_hint(err, "evidence is one point of time: name a new folder");
	return rc;
}

int rk_evidence_save(const char *dir, const struct rk_target *targets, size_t n, struct rk_err *err)
{
	int rc = check_empty(dir, err);

	if (!rc)
		rc = rk_mkdirs(dir, err);
	for (size_t i = 0; i < n && !rc; i++)
		rc = save_target(dir, &targets[i], err);
	/* Last, so that a folder with a manifest is whole. */
	if (!rc)
		rc = save_manifest(dir, targets, n, err);
	return rc ? (rk_err_while(err, "saving evidence"), rc) : 0;
}

static void read_pkeys(struct rk_diags *diags, const struct rk_jnode *node, struct rk_expect *e)
{
	e->no_pkeys = node && node->type == RK_JARRAY && !node->n;
	RK_JEACH(key, node) {
		uint64_t v;
		if (!rk_ju64(key, &v) || v > 0xffff || (v & 0x7fff) == 0)
			rk_diag_at(diags, key, RK_AT_VALUE, "expected a PKey");
		else if (e->n_pkeys < RK_ARRAY_SIZE(e->pkeys))
			e->pkeys[e->n_pkeys++] = (uint16_t)(v & 0x7fff);
		else
			rk_diag_at(diags, key, RK_AT_VALUE, "more than %zu PKeys", RK_ARRAY_SIZE(e->pkeys));
	}
}

static void read_services(struct rk_diags *diags, const struct rk_jnode *node, struct rk_expect *e)
{
	RK_JEACH(key, node) {
		uint64_t v;
		if (!rk_ju64(key, &v) || !v || v >= 0x7fff || e->n_services == RK_ARRAY_SIZE(e->services))
			rk_diag_at(diags, key, RK_AT_VALUE, "expected at most %zu PKeys", RK_ARRAY_SIZE(e->services));
		else
			e->services[e->n_services++] = (uint16_t)v;
	}
}

static void read_guids(struct rk_diags *diags, const struct rk_jnode *node, struct rk_expect *e)
{
	RK_JEACH(item, node) {
		if (e->n_port_guids == RK_RAILS_MAX || !rk_ju64(item, &e->port_guids[e->n_port_guids]))
			rk_diag_at(diags, item, RK_AT_VALUE, "expected at most %d port GUIDs", RK_RAILS_MAX);
		else
			e->n_port_guids++;
	}
}

/* ["leaf-1/12", null]: in the order of the port GUIDs. */
static void read_leaves(struct rk_diags *diags, const struct rk_jnode *node, struct rk_arena *arena, struct rk_expect *e)
{
	size_t n = 0;

	RK_JEACH(item, node) {
		char *text = rk_arena_strdup(arena, rk_jstr(item)), *slash = text ? strrchr(text, '/') : NULL;
		uint64_t port;
		if (n == RK_RAILS_MAX || (item->type != RK_JNULL && (!slash || !rk_parse_u64(slash + 1, &port) || port > 1024))) {
			rk_diag_at(diags, item, RK_AT_VALUE, "expected at most %d texts \"LEAF/PORT\"", RK_RAILS_MAX);
			return;
		}
		if (slash) {
			*slash = '\0';
			e->leaves[n] = text;
			e->leaf_ports[n] = (int)port;
		}
		n++;
	}
}

static void read_int(struct rk_diags *diags, const struct rk_jnode *object, const char *key, uint64_t max, int *ret)
{
	const struct rk_jnode *node = rk_jget(object, key);
	uint64_t v;

	if (!node || node->type == RK_JNULL)
		return;
	if (rk_ju64(node, &v) && v <= max)
		*ret = (int)v;
	else
		rk_diag_at(diags, node, RK_AT_VALUE, "\"%s\" is not a number up to %llu", key, (unsigned long long)max);
}

struct typed {
	const char *key;
	enum rk_jtype type;
};
static const struct typed target_keys[] = { { "kind", RK_JSTRING },    { "rack", RK_JSTRING },	  { "cluster", RK_JSTRING },
					    { "tray", RK_JSTRING },    { "address", RK_JSTRING }, { "expect", RK_JOBJECT } };
static const struct typed expect_keys[] = { { "cluster_uuid", RK_JSTRING }, { "pkeys", RK_JARRAY },  { "services", RK_JARRAY },
					    { "port_guids", RK_JARRAY },    { "leaves", RK_JARRAY }, { "pkey_limited", RK_JBOOL } };

/* What is expected must not be lost over its form: without an expectation a fault may pass. null is none. */
static void check_types(struct rk_diags *diags, const struct rk_jnode *object, const struct typed *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct rk_jnode *node = rk_jget(object, keys[i].key);
		if (node && node->type != RK_JNULL && node->type != keys[i].type)
			rk_diag_at(diags, node, RK_AT_VALUE, "\"%s\" must be %s, not %s", keys[i].key, rk_jtype_name(keys[i].type), rk_jtype_name(node->type));
	}
}

static void read_target(struct rk_diags *diags, const struct rk_jnode *node, struct rk_arena *arena, struct rk_target *t)
{
	const struct rk_jnode *expect = rk_jget(node, "expect");
	const char *kind = rk_jstr(rk_jget(node, "kind"));

	check_types(diags, node, target_keys, RK_ARRAY_SIZE(target_keys));
	check_types(diags, expect, expect_keys, RK_ARRAY_SIZE(expect_keys));
	if (!safe_name(node->key))
		rk_diag_at(diags, node, RK_AT_KEY, "\"%s\" cannot be the name of a folder", node->key);
	t->name = rk_arena_strdup(arena, node->key);
	t->kind = rk_arena_strdup(arena, kind ? kind : "vm");
	if (strcmp(t->kind, "vm") != 0 && strcmp(t->kind, "tray") != 0 && strcmp(t->kind, "switch") != 0)
		rk_diag_at(diags, rk_jget(node, "kind"), RK_AT_VALUE, "unknown kind \"%s\": vm, tray or switch", t->kind);
	t->rack = rk_arena_strdup(arena, rk_jstr(rk_jget(node, "rack")));
	t->cluster = rk_arena_strdup(arena, rk_jstr(rk_jget(node, "cluster")));
	t->tray = rk_arena_strdup(arena, rk_jstr(rk_jget(node, "tray")));
	t->address = rk_arena_strdup(arena, rk_jstr(rk_jget(node, "address")));
	t->expect.cluster_uuid = rk_arena_strdup(arena, rk_jstr(rk_jget(expect, "cluster_uuid")));
	rk_jbool(rk_jget(expect, "pkey_limited"), &t->expect.pkey_limited);
	read_int(diags, expect, "nvlink_partition", 32766, &t->expect.nvlink_partition);
	read_int(diags, expect, "gpus", 1024, &t->expect.gpus);
	read_int(diags, expect, "rails", 1024, &t->expect.rails);
	read_int(diags, expect, "rate_gbps", 100000, &t->expect.rate_gbps);
	read_pkeys(diags, rk_jget(expect, "pkeys"), &t->expect);
	read_services(diags, rk_jget(expect, "services"), &t->expect);
	read_guids(diags, rk_jget(expect, "port_guids"), &t->expect);
	read_leaves(diags, rk_jget(expect, "leaves"), arena, &t->expect);
}

/* One file of an answer; links and special files are not followed: evidence is plain files. */
static bool is_empty(int folder, const char *name)
{
	struct stat st;

	return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
}

/* One thread's; the total is that of all of them. */
struct reader {
	struct rk_arena *arena;
	atomic_size_t *total;
};

static int read_file(const struct reader *r, int folder, const char *name, size_t max, const char **ret, size_t *ret_len, struct rk_err *err)
{
	int fd RK_CLEANUP_FD = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return rk_err_set(err, errno == ELOOP ? RK_INVALID : RK_FAILED, "cannot read \"%s\": %s", name, errno == ELOOP ? "it is a link" : strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return rk_err_set(err, RK_INVALID, "\"%s\" is not a plain file", name);
	if ((size_t)st.st_size > max)
		return rk_err_set(err, RK_INVALID, "\"%s\" is larger than %zu bytes", name, max);
	size_t len = 0, size = (size_t)st.st_size;
	if (atomic_fetch_add(r->total, size) + size > FOLDER_MAX) {
		rk_err_set(err, RK_INVALID, "\"%s\": the evidence is more than %d MiB together", name, FOLDER_MAX >> 20);
		rk_err_hint(err, "replay it in parts: leave some of its targets out of manifest.json");
		return RK_INVALID;
	}
	char *text = rk_arena_alloc(r->arena, size + 1);
	while (len < size) {
		ssize_t n = read(fd, text + len, size - len);
		if (n < 0 && errno != EINTR)
			return rk_err_set(err, RK_FAILED, "cannot read \"%s\": %s", name, strerror(errno));
		if (n == 0)
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	*ret = text;
	*ret_len = len;
	return 0;
}

static const char *trimmed(struct rk_arena *arena, const char *status)
{
	char *copy = rk_arena_strdup(arena, status), *begin = copy + strspn(copy, " \t\r\n");

	begin[strcspn(begin, " \t\r\n")] = '\0';
	return begin;
}

/* "ibstat.stdout" -> "ibstat" and which of its files it is; false for other files. Names of collectors a profile adds are taken as well. */
static bool known_file(const char *name, struct rk_arena *arena, const char **ret_collector, size_t *ret_kind)
{
	static const char *const kinds[] = { ".stdout", ".stderr", ".status" };

	for (size_t k = 0; k < RK_ARRAY_SIZE(kinds); k++) {
		if (!rk_ends_with(name, kinds[k]) || !safe_name(name))
			continue;
		char stem[NAME_MAX_LEN + 1];
		snprintf(stem, sizeof(stem), "%.*s", (int)(strlen(name) - strlen(kinds[k])), name);
		const struct rk_collector *c = rk_collector_find(stem);
		*ret_collector = c ? c->name : rk_arena_strdup(arena, stem);
		*ret_kind = k;
		return *stem != '\0';
	}
	return false;
}

/* The answer of that collector, a new one at the end when there is none yet; NULL when there are too many. */
static struct rk_evidence *answer_of(struct rk_target *t, const char *collector)
{
	for (size_t i = 0; i < t->n_evidence; i++) {
		if (strcmp(t->evidence[i].collector, collector) == 0)
			return &t->evidence[i];
	}
	if (t->n_evidence == RK_COLLECTORS_MAX)
		return NULL;
	t->evidence[t->n_evidence] = (struct rk_evidence){ .collector = collector, .out = "", .err = "" };
	return &t->evidence[t->n_evidence++];
}

static int by_collector(const void *a, const void *b)
{
	return strcmp(((const struct rk_evidence *)a)->collector, ((const struct rk_evidence *)b)->collector);
}

static int load_file(const struct reader *r, int folder, const char *name, size_t kind, struct rk_evidence *e, struct rk_err *err)
{
	size_t len = 0;

	if (kind == 0)
		return read_file(r, folder, name, STREAM_MAX, &e->out, &e->out_len, err);
	/* Most have nothing on stderr: asking is cheaper than opening. */
	if (kind == 1)
		return is_empty(folder, name) ? 0 : read_file(r, folder, name, STREAM_MAX, &e->err, &e->err_len, err);
	int rc = read_file(r, folder, name, STATUS_MAX, &e->status, &len, err);
	if (!rc)
		e->status = trimmed(r->arena, e->status);
	return rc;
}

/* The folder is listed once instead of asking for each file that could be there. Answers come in the order of their names. */
static int load_target(const struct reader *r, const char *dir, struct rk_target *t, struct rk_err *err)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", dir, t->name);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc = 0;
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const char *collector;
	size_t kind;

	if (!d && errno == ENOENT)
		return 0;
	if (!d)
		return rk_err_set(err, RK_INVALID, "\"%s\" is not a folder that can be read: %s", path, strerror(errno));
	t->evidence = rk_arena_array(r->arena, RK_COLLECTORS_MAX, sizeof(*t->evidence));
	for (struct dirent *entry; !rc && (entry = readdir(d)) != NULL;) {
		if (!known_file(entry->d_name, r->arena, &collector, &kind))
			continue;
		struct rk_evidence *e = answer_of(t, collector);
		rc = e ? load_file(r, fd, entry->d_name, kind, e, err) : rk_err_set(err, RK_INVALID, "files of more than %d collectors", RK_COLLECTORS_MAX);
	}
	closedir(d);
	if (rc)
		return rk_err_while(err, "\"%s\"", path);
	qsort(t->evidence, t->n_evidence, sizeof(*t->evidence), by_collector);
	return 0;
}

struct loading {
	const char *dir;
	struct rk_target *targets;
	size_t n, parts;
	struct rk_arena **arenas; /* per part: an arena belongs to one thread */
	struct rk_err *errs;
	atomic_size_t total;      /* bytes of evidence */
};

static void load_part(void *ctx, size_t part)
{
	struct loading *l = ctx;
	const struct reader reader = { l->arenas[part], &l->total };

	for (size_t i = part; i < l->n && !l->errs[part].rc; i += l->parts)
		load_target(&reader, l->dir, &l->targets[i], &l->errs[part]);
}

/* Thousands of small files: reading is waiting, so several read. */
static int load_targets(const char *dir, struct rk_arena *arena, struct rk_target *targets, size_t n, struct rk_err *err)
{
	enum { PARTS = 8 };
	struct rk_arena *arenas[PARTS];
	struct rk_err errs[PARTS];
	struct loading l = { dir, targets, n, n < PARTS ? 1 : PARTS, arenas, errs, 0 };
	int rc = 0;

	for (size_t i = 0; i < l.parts; i++) {
		arenas[i] = rk_arena_new();
		errs[i] = (struct rk_err)RK_ERR_INIT;
	}
	rk_fanout(l.parts, (int)l.parts, load_part, &l);
	for (size_t i = 0; i < l.parts; i++) {
		rk_arena_adopt(arena, arenas[i]);
		if (!rc && errs[i].rc) {
			rc = errs[i].rc;
			rk_err_move(err, &errs[i]);
		}
		rk_err_clear(&errs[i]);
	}
	return rc;
}

static int64_t time_kept(const struct rk_jnode *manifest)
{
	const char *created = rk_jstr(rk_jget(manifest, "created"));
	int64_t ms;

	return created && !rk_time_parse(created, 0, &ms, NULL) ? ms : 0;
}

static int read_manifest(const char *path, const struct rk_json *json, struct rk_arena *arena, struct rk_target **ret, size_t *ret_n,
			 int64_t *ret_kept_ms, struct rk_err *err)
{
	struct rk_diags diags RK_CLEANUP_DIAGS = RK_DIAGS_INIT(path);
	const struct rk_jnode *root = rk_json_root(json), *targets = rk_jget(root, "targets");
	size_t n = 0;

	if (!rk_streq(rk_jstr(rk_jget(root, "apiVersion")), "racksh/v1") || !rk_streq(rk_jstr(rk_jget(root, "kind")), "Evidence"))
		rk_diag_at(&diags, root, RK_AT_VALUE, "no evidence manifest: expected apiVersion racksh/v1 and kind Evidence");
	else if (!targets || targets->type != RK_JOBJECT || targets->n == 0 || targets->n > TARGETS_MAX)
		rk_diag_at(&diags, targets ? targets : root, RK_AT_VALUE, "expected \"targets\": an object with 1 to %d targets", TARGETS_MAX);
	int rc = rk_diags_result(&diags, err);
	if (rc)
		return rc;
	*ret = rk_arena_array(arena, targets->n, sizeof(**ret));
	RK_JEACH(node, targets) {
		if (node->type == RK_JOBJECT)
			read_target(&diags, node, arena, &(*ret)[n++]);
		else
			rk_diag_at(&diags, node, RK_AT_VALUE, "expected an object, found %s", rk_jtype_name(node->type));
	}
	*ret_n = n;
	*ret_kept_ms = time_kept(root);
	return rk_diags_result(&diags, err);
}

int rk_evidence_load(const char *dir, struct rk_arena *arena, struct rk_target **ret, size_t *ret_n, int64_t *ret_kept_ms, struct rk_err *err)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/manifest.json", dir), *text RK_CLEANUP_FREE = NULL;
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	struct rk_target *targets = NULL;
	size_t len, n = 0;

	int rc = rk_file_read(path, MANIFEST_MAX, &text, &len, err);
	if (rc == RK_NOT_FOUND)
		rk_err_hint(err, "an evidence folder is made with validate --save");
	if (!rc)
		rc = rk_json_parse(path, text, len, &json, err);
	if (!rc)
		rc = read_manifest(path, json, arena, &targets, &n, ret_kept_ms, err);
	if (!rc)
		rc = load_targets(dir, arena, targets, n, err);
	if (rc)
		return rc;
	*ret = targets;
	*ret_n = n;
	return 0;
}
