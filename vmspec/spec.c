#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/diag.h"
#include "inventory/base/file.h"
#include "inventory/site_values.h"
#include "vmspec/spec_keys.h"
#include "vmspec/vmspec.h"

struct reader {
	struct rk_diags diags;
	struct rk_arena *arena;
	struct rk_spec *spec;
};

enum { FIELDS_MAX = 16, MULTICAST_DEFAULT = 18 };

/* Unknown keys, wrong types and missing ones of an object, by its rows. False: there is nothing to read. */
static bool fields(struct reader *r, const struct rk_jnode *node, const char *object, const char *what)
{
	struct rk_jfield list[FIELDS_MAX];
	size_t n = 0;

	for (const struct rk_spec_key *k = rk_spec_keys; k->key; k++)
		if (rk_streq(k->object, object)) {
			if (n == FIELDS_MAX)
				abort();
			list[n++] = (struct rk_jfield){ k->key, k->type, k->required };
		}
	return node && rk_diag_fields(&r->diags, node, what, list, n);
}

static const char *text_of(struct reader *r, const struct rk_jnode *node)
{
	return rk_arena_strdup(r->arena, rk_jstr(node));
}

/* A number within the limits of its row. */
static int whole_of(struct reader *r, const struct rk_jnode *parent, const char *object, const char *key, int absent)
{
	const struct rk_spec_key *row = rk_spec_key(object, key);
	const struct rk_jnode *node = rk_jget(parent, key);
	uint64_t v;

	if (!node || node->type != RK_JNUMBER)
		return absent;
	if (rk_ju64(node, &v) && v >= (uint64_t)row->min && v <= (uint64_t)row->max)
		return (int)v;
	rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" takes a whole number from %ld to %ld, not %s", node->key, row->min, row->max, node->text);
	return absent;
}

static size_t count_words(const char *const *words)
{
	size_t n = 0;

	while (words[n])
		n++;
	return n;
}

/* Index of the value among the words of its row; absent when it is not given or wrong (then reported). */
static int choice(struct reader *r, const struct rk_jnode *parent, const char *object, const char *key, int absent)
{
	const char *const *words = rk_spec_key(object, key)->words;
	const struct rk_jnode *node = rk_jget(parent, key);
	const char *text = rk_jstr(node);
	size_t n = count_words(words);

	for (size_t i = 0; text && i < n; i++)
		if (strcmp(words[i], text) == 0)
			return (int)i;
	if (!text)
		return absent;
	rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" is no %s", text, node->key);
	const char *near = rk_near_name(text, words, n);
	struct rk_str all RK_CLEANUP_STR = RK_STR_INIT;
	for (size_t i = 0; i < n; i++)
		rk_str_addf(&all, "%s%s", i ? ", " : "", words[i]);
	if (near)
		rk_diag_hint(&r->diags, "did you mean \"%s\"? (one of %s)", near, rk_str_text(&all));
	else
		rk_diag_hint(&r->diags, "one of %s", rk_str_text(&all));
	return absent;
}

/* "-" and digits at the end would look like a VM's name. */
static bool looks_like_vm(const char *name)
{
	const char *dash = strrchr(name, '-');

	return dash && dash[1] && strspn(dash + 1, "0123456789") == strlen(dash + 1);
}

bool rk_cluster_name_valid(const char *name)
{
	return rk_name_valid(name) && strlen(name) <= RK_SPEC_NAME_MAX && !looks_like_vm(name);
}

static void read_name(struct reader *r, const struct rk_jnode *node)
{
	const char *name = r->spec->name = text_of(r, node);

	if (!name)
		return;
	if (!rk_name_valid(name) || strlen(name) > RK_SPEC_NAME_MAX) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" is no valid name of a cluster", name);
		rk_diag_hint(&r->diags, "names have 1 to 48 of a-z 0-9 and '-', and do not begin or end with '-'");
	} else if (looks_like_vm(name)) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" ends like the name of a VM", name);
		rk_diag_hint(&r->diags, "a cluster's name does not end in '-' and digits");
	}
}

static void check_word(struct reader *r, const struct rk_jnode *node, bool (*valid)(const char *s), const char *what)
{
	if (rk_jstr(node) && !valid(node->text))
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" is no valid name of %s", node->text, what);
}

static void read_apart(struct reader *r, const struct rk_jnode *list)
{
	if (!list || list->type != RK_JARRAY)
		return;
	r->spec->placement.apart = rk_arena_array(r->arena, list->n, sizeof(char *));
	if (list->n > RK_SPEC_APART_MAX)
		rk_diag_at(&r->diags, list, RK_AT_VALUE, "more than %d clusters", RK_SPEC_APART_MAX);
	RK_JEACH(it, list) {
		if (!rk_jstr(it) || !rk_cluster_name_valid(it->text))
			rk_diag_at(&r->diags, it, RK_AT_VALUE, "this is no name of a cluster");
		else if (rk_streq(it->text, r->spec->name))
			rk_diag_at(&r->diags, it, RK_AT_VALUE, "a cluster cannot be kept apart from itself");
		else
			r->spec->placement.apart[r->spec->placement.n_apart++] = text_of(r, it);
	}
}

static void read_placement(struct reader *r, const struct rk_jnode *node)
{
	if (!fields(r, node, "placement", "\"placement\""))
		return;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_nodeset set;
	const struct rk_jnode *racks = rk_jget(node, "racks");
	r->spec->placement.segment = whole_of(r, node, "placement", "segment", 0);
	r->spec->placement.max_racks = whole_of(r, node, "placement", "maxRacks", 0);
	r->spec->placement.spares_per_rack = whole_of(r, node, "placement", "sparesPerRack", 0);
	r->spec->placement.policy = (enum rk_policy)choice(r, node, "placement", "policy", RK_BEST_FIT);
	r->spec->placement.racks = text_of(r, racks);
	read_apart(r, rk_jget(node, "antiAffinity"));
	if (rk_jstr(racks) && !strchr(racks->text, '@') && rk_nodeset_parse(racks->text, NULL, NULL, r->arena, &set, &err))
		rk_diag_at(&r->diags, racks, RK_AT_VALUE, "%s", err.message);
}

/* "TYPE BASE64 COMMENT" on one line, without options: what follows goes into authorized_keys. */
static bool key_valid(const char *key)
{
	static const char *const types[] = {
		"ssh-ed25519 ", "ssh-rsa ", "ecdsa-sha2-nistp256 ", "ecdsa-sha2-nistp384 ", "ecdsa-sha2-nistp521 ",
		"sk-ssh-ed25519@openssh.com ", "sk-ecdsa-sha2-nistp256@openssh.com ",
	};

	for (const char *c = key; *c; c++)
		if (iscntrl((unsigned char)*c))
			return false;
	for (size_t i = 0; i < RK_ARRAY_SIZE(types); i++) {
		if (!rk_starts_with(key, types[i]))
			continue;
		const char *data = key + strlen(types[i]);
		size_t n = strspn(data, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=");
		return n && (!data[n] || data[n] == ' ') && strlen(key) < 16384;
	}
	return false;
}

static bool user_valid(const char *user)
{
	size_t len = strlen(user);

	return len >= 1 && len <= 32 && (isalpha((unsigned char)user[0]) || user[0] == '_') &&
	       strspn(user, "abcdefghijklmnopqrstuvwxyz0123456789_-") == len;
}

static void read_ssh(struct reader *r, const struct rk_jnode *node)
{
	r->spec->ssh.user = "root";
	if (!fields(r, node, "ssh", "\"ssh\""))
		return;
	const struct rk_jnode *user = rk_jget(node, "user"), *keys = rk_jget(node, "authorizedKeys");
	if (rk_jstr(user))
		r->spec->ssh.user = text_of(r, user);
	if (!user_valid(r->spec->ssh.user))
		rk_diag_at(&r->diags, user, RK_AT_VALUE, "\"%s\" is no valid user name", r->spec->ssh.user);
	if (!keys || keys->type != RK_JARRAY)
		return;
	r->spec->ssh.keys = rk_arena_array(r->arena, keys->n, sizeof(char *));
	RK_JEACH(it, keys) {
		if (!rk_jstr(it) || !key_valid(it->text)) {
			rk_diag_at(&r->diags, it, RK_AT_VALUE, "this is no public SSH key");
			rk_diag_hint(&r->diags, "write the one line of a .pub file, e.g. \"ssh-ed25519 AAAA... me@host\"");
			continue;
		}
		if (r->spec->ssh.n_keys == RK_SPEC_KEYS_MAX) {
			rk_diag_at(&r->diags, it, RK_AT_VALUE, "more than %d keys", RK_SPEC_KEYS_MAX);
			return;
		}
		r->spec->ssh.keys[r->spec->ssh.n_keys++] = text_of(r, it);
	}
}

/* Only what cloud-init can take as one part of several, and nothing that takes the merge into its own hand. */
static void read_cloud_init(struct reader *r, const struct rk_jnode *node)
{
	const struct rk_jnode *data = fields(r, node, "cloudInit", "\"cloudInit\"") ? rk_jget(node, "userData") : NULL;
	const char *text = r->spec->user_data = text_of(r, data);

	if (!text)
		return;
	if (strlen(text) > RK_SPEC_USER_DATA_MAX)
		rk_diag_at(&r->diags, data, RK_AT_VALUE, "\"userData\" has %zu bytes, more than %d", strlen(text), RK_SPEC_USER_DATA_MAX);
	if (!rk_starts_with(text, "#cloud-config\n") && !rk_starts_with(text, "#!")) {
		rk_diag_at(&r->diags, data, RK_AT_VALUE, "\"userData\" is neither a cloud-config nor a script");
		rk_diag_hint(&r->diags, "its first line is \"#cloud-config\", or begins with \"#!\"");
	}
	if (rk_starts_with(text, "#cloud-config") && (strstr(text, "\nmerge_how:") || strstr(text, "\nmerge_type:")))
		rk_diag_at(&r->diags, data, RK_AT_VALUE, "\"userData\" must not say how it is merged: racksh's part comes first and wins");
}

static void read_nvlink(struct reader *r, const struct rk_jnode *node)
{
	const char *const *words = rk_spec_key("nvlink", "resiliency")->words;

	r->spec->nvlink.resiliency = words[0];
	r->spec->nvlink.multicast_groups = MULTICAST_DEFAULT;
	if (!fields(r, node, "nvlink", "\"nvlink\""))
		return;
	r->spec->nvlink.resiliency = words[choice(r, node, "nvlink", "resiliency", 0)];
	r->spec->nvlink.multicast_groups = whole_of(r, node, "nvlink", "multicastGroups", MULTICAST_DEFAULT);
}

static void read_pkey(struct reader *r, const struct rk_jnode *node)
{
	uint64_t v;

	if (!rk_jstr(node) || strcmp(node->text, "auto") == 0)
		return;
	if (!rk_parse_u64(node->text, &v) || v < 1 || v > 0x7ffe) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"pkey\" is \"auto\" or a key from \"0x0001\" to \"0x7ffe\"");
		return;
	}
	r->spec->infiniband.pkey = (int)v;
}

static void read_infiniband(struct reader *r, const struct rk_jnode *node)
{
	r->spec->infiniband.full = true;
	if (!fields(r, node, "infiniband", "\"infiniband\""))
		return;
	read_pkey(r, rk_jget(node, "pkey"));
	r->spec->infiniband.full = choice(r, node, "infiniband", "membership", 1) == 1;
}

static void read_validation(struct reader *r, const struct rk_jnode *node)
{
	if (!fields(r, node, "validation", "\"validation\""))
		return;
	r->spec->validation.profile = text_of(r, rk_jget(node, "profile"));
	int level = choice(r, node, "validation", "level", -1);
	r->spec->validation.level = level < 0 ? NULL : rk_spec_key("validation", "level")->words[level];
	rk_jbool(rk_jget(node, "required"), &r->spec->validation.required);
}

static void expect_text(struct reader *r, const struct rk_jnode *root, const char *key, const char *want)
{
	const struct rk_jnode *node = rk_jget(root, key);

	if (rk_jstr(node) && strcmp(node->text, want) != 0)
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" is \"%s\", a cluster spec has \"%s\"", key, node->text, want);
}

static void read_spec(struct reader *r, const struct rk_jnode *root)
{
	if (!fields(r, root, "", "a cluster spec"))
		return;
	expect_text(r, root, "apiVersion", "racksh/v1");
	expect_text(r, root, "kind", "Cluster");
	if (rk_streq(rk_jstr(rk_jget(root, "kind")), "Site"))
		rk_diag_hint(&r->diags, "a site file is for site import and --sim");
	read_name(r, rk_jget(root, "name"));
	r->spec->tenant = text_of(r, rk_jget(root, "tenant"));
	r->spec->image = text_of(r, rk_jget(root, "image"));
	check_word(r, rk_jget(root, "tenant"), rk_name_valid, "a tenant");
	check_word(r, rk_jget(root, "image"), rk_image_name_valid, "an image");
	r->spec->size = text_of(r, rk_jget(root, "size"));
	const struct rk_size *size = r->spec->size ? rk_size_find(NULL, r->spec->size) : NULL;
	if (size)
		r->spec->size = size->name;
	r->spec->count = whole_of(r, root, "", "count", 0);
	read_placement(r, rk_jget(root, "placement"));
	read_ssh(r, rk_jget(root, "ssh"));
	read_cloud_init(r, rk_jget(root, "cloudInit"));
	read_nvlink(r, rk_jget(root, "nvlink"));
	read_infiniband(r, rk_jget(root, "infiniband"));
	read_validation(r, rk_jget(root, "validation"));
	/* A count that was reported already says nothing about the segment. */
	if (r->spec->count && r->spec->placement.segment > r->spec->count)
		rk_diag_at(&r->diags, rk_jget(rk_jget(root, "placement"), "segment"), RK_AT_VALUE, "a segment of %d is larger than the count of %d",
			   r->spec->placement.segment, r->spec->count);
}

int rk_spec_parse(const char *path, const char *text, size_t len, struct rk_arena *arena, struct rk_spec **ret, struct rk_err *err)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	struct reader r = { RK_DIAGS_INIT(path), arena, rk_arena_alloc(arena, sizeof(struct rk_spec)) };
	int rc = rk_json_parse(path, text, len, &json, err);

	if (rc)
		return rc;
	read_spec(&r, rk_json_root(json));
	rc = rk_diags_result(&r.diags, err);
	rk_diags_clear(&r.diags);
	if (!rc)
		*ret = r.spec;
	return rc;
}

int rk_spec_load(const char *path, struct rk_arena *arena, struct rk_spec **ret, struct rk_err *err)
{
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;
	int rc = rk_file_read(path, RK_SPEC_FILE_MAX, &text, &len, err);

	return rc ? rc : rk_spec_parse(path, text, len, arena, ret, err);
}

static void text_key(struct rk_jw *w, const char *key, const char *value)
{
	if (!value)
		return;
	rk_jw_key(w, key);
	rk_jw_str(w, value);
}

static void whole_key(struct rk_jw *w, const char *key, int value)
{
	if (!value)
		return;
	rk_jw_key(w, key);
	rk_jw_i64(w, value);
}

static void write_placement(struct rk_jw *w, const struct rk_spec *spec)
{
	rk_jw_key(w, "placement");
	rk_jw_object(w);
	whole_key(w, "segment", spec->placement.segment);
	text_key(w, "racks", spec->placement.racks);
	whole_key(w, "maxRacks", spec->placement.max_racks);
	whole_key(w, "sparesPerRack", spec->placement.spares_per_rack);
	text_key(w, "policy", rk_spec_key("placement", "policy")->words[spec->placement.policy]);
	if (spec->placement.n_apart) {
		rk_jw_key(w, "antiAffinity");
		rk_jw_array(w);
		for (size_t i = 0; i < spec->placement.n_apart; i++)
			rk_jw_str(w, spec->placement.apart[i]);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static void write_ssh(struct rk_jw *w, const struct rk_spec *spec)
{
	rk_jw_key(w, "ssh");
	rk_jw_object(w);
	text_key(w, "user", spec->ssh.user);
	rk_jw_key(w, "authorizedKeys");
	rk_jw_array(w);
	for (size_t i = 0; i < spec->ssh.n_keys; i++)
		rk_jw_str(w, spec->ssh.keys[i]);
	rk_jw_end(w);
	rk_jw_end(w);
}

static void write_cloud_init(struct rk_jw *w, const struct rk_spec *spec)
{
	if (!spec->user_data)
		return;
	rk_jw_key(w, "cloudInit");
	rk_jw_object(w);
	text_key(w, "userData", spec->user_data);
	rk_jw_end(w);
}

static void write_fabrics(struct rk_jw *w, const struct rk_spec *spec)
{
	char pkey[16] = "auto";

	if (spec->infiniband.pkey)
		snprintf(pkey, sizeof(pkey), "0x%04x", (unsigned)spec->infiniband.pkey);
	rk_jw_key(w, "nvlink");
	rk_jw_object(w);
	text_key(w, "resiliency", spec->nvlink.resiliency);
	rk_jw_key(w, "multicastGroups");
	rk_jw_i64(w, spec->nvlink.multicast_groups);
	rk_jw_end(w);
	rk_jw_key(w, "infiniband");
	rk_jw_object(w);
	text_key(w, "pkey", pkey);
	text_key(w, "membership", rk_spec_key("infiniband", "membership")->words[spec->infiniband.full]);
	rk_jw_end(w);
}

void rk_spec_write(const struct rk_spec *spec, struct rk_str *out)
{
	struct rk_jw w;

	rk_jw_init(&w, out, 1);
	rk_jw_object(&w);
	text_key(&w, "apiVersion", "racksh/v1");
	text_key(&w, "kind", "Cluster");
	text_key(&w, "name", spec->name);
	text_key(&w, "tenant", spec->tenant);
	text_key(&w, "size", spec->size);
	whole_key(&w, "count", spec->count);
	text_key(&w, "image", spec->image);
	write_placement(&w, spec);
	write_ssh(&w, spec);
	write_cloud_init(&w, spec);
	write_fabrics(&w, spec);
	rk_jw_key(&w, "validation");
	rk_jw_object(&w);
	text_key(&w, "profile", spec->validation.profile);
	text_key(&w, "level", spec->validation.level);
	rk_jw_key(&w, "required");
	rk_jw_bool(&w, spec->validation.required);
	rk_jw_end(&w);
	rk_jw_end(&w);
}
