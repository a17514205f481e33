#include "inventory/site_reader.h"

#include <stdio.h>
#include <string.h>

#include "inventory/site_values.h"

bool rk_read_unique(struct rk_reader *r, struct rk_places *p, const char *value, const struct rk_jnode *node)
{
	size_t place = (size_t)node->line << 24 | node->col, old;

	if (rk_map_add(p->seen, value, place, &old))
		return true;
	rk_diag_at(&r->diags, node, RK_AT_VALUE, "%s \"%s\" is used twice, first at %zu:%zu", p->what, value, old >> 24, old & 0xffffff);
	return false;
}

const char *rk_read_text(struct rk_reader *r, const struct rk_jnode *node)
{
	return rk_arena_strdup(r->arena, rk_jstr(node));
}

/* The node again as JSON text, for objects that are kept as written. */
const char *rk_read_json(struct rk_reader *r, const struct rk_jnode *node)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	if (!node)
		return NULL;
	rk_jw_init(&w, &out, 0);
	rk_jw_node(&w, node);
	return rk_arena_strdup(r->arena, rk_str_text(&out));
}

long rk_read_whole(struct rk_reader *r, const struct rk_jnode *node, long min, long max, long absent)
{
	uint64_t v;

	if (!node || node->type != RK_JNUMBER)
		return absent;
	if (!rk_ju64(node, &v) || v < (uint64_t)min || v > (uint64_t)max) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "a whole number from %ld to %ld is expected, not %s", min, max, node->text);
		return absent;
	}
	return (long)v;
}

double rk_read_real(struct rk_reader *r, const struct rk_jnode *node, double min, double max, double absent)
{
	double v;

	if (!node || node->type != RK_JNUMBER)
		return absent;
	if (!rk_jdouble(node, &v) || v < min || v > max) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "a number from %g to %g is expected, not %s", min, max, node->text);
		return absent;
	}
	return v;
}

const char *rk_read_name(struct rk_reader *r, const struct rk_jnode *node, const char *what)
{
	const char *name = rk_read_text(r, node);

	if (name && !rk_name_valid(name)) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" is no valid name of %s", name, what);
		rk_diag_hint(&r->diags, "names have 1 to 63 of a-z 0-9 and '-', and do not begin or end with '-'");
	}
	return name;
}

uint64_t rk_read_guid(struct rk_reader *r, const struct rk_jnode *node)
{
	uint64_t v = 0;

	if (!node || node->type != RK_JSTRING)
		return 0;
	bool form = rk_starts_with(node->text, "0x") && strlen(node->text) <= 18 && rk_parse_u64(node->text, &v) && v;
	if (!form) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" is no 64-bit identity", node->text);
		rk_diag_hint(&r->diags, "write 0x and up to 16 hexadecimal digits, not all 0");
		return 0;
	}
	/* One map for all GUIDs: the same number as GPU and as port is a copy error too. */
	char key[24];
	snprintf(key, sizeof(key), "0x%016llx", (unsigned long long)v);
	rk_read_unique(r, &r->guids, key, node);
	return v;
}

const char *rk_read_pci(struct rk_reader *r, const struct rk_jnode *node, const char *absent)
{
	const char *pci = rk_read_text(r, node);

	if (pci && !rk_pci_valid(pci)) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" is no PCI address", pci);
		rk_diag_hint(&r->diags, "write domain:bus:device.function in lower case, e.g. 0008:06:00.0");
	}
	return pci ? pci : absent;
}

/* ---- placeholders and managers ---------------------------------------------------------------------------------------------- */

/* The placeholder at `at` and what stands for it here: text, or NULL when it has no value. 0: none of ours. */
static size_t placeholder(const char *at, const struct rk_place_values *v, char slot[16], const char **ret)
{
	const struct {
		const char *word, *value;
	} known[] = { { "{rack}", v->rack }, { "{tray}", v->tray }, { "{slot}", v->slot ? slot : NULL } };

	snprintf(slot, 16, "%d", v->slot);
	for (size_t i = 0; i < RK_ARRAY_SIZE(known); i++)
		if (rk_starts_with(at, known[i].word)) {
			*ret = known[i].value;
			return strlen(known[i].word);
		}
	return 0;
}

/* node: where problems are reported. */
const char *rk_read_fill_text(struct rk_reader *r, const struct rk_jnode *node, const char *template, const struct rk_place_values *v)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	char slot[16];

	if (!template)
		return NULL;
	for (const char *at = template; *at;) {
		const char *value = NULL;
		size_t len = *at == '{' ? placeholder(at, v, slot, &value) : 0;
		if (value) {
			rk_str_add(&out, value);
		} else if (*at == '{') {
			rk_diag_at(&r->diags, node, RK_AT_VALUE, "%s placeholder \"%.*s\"", len ? "no value here for the" : "unknown",
				   (int)strcspn(at, "}") + 1, at);
			rk_diag_hint(&r->diags, "placeholders are {rack}, and for what belongs to a tray {tray} and {slot}");
		} else {
			rk_str_addc(&out, *at);
		}
		at += len ? len : 1;
	}
	return rk_arena_strdup(r->arena, rk_str_text(&out));
}

const char *rk_read_fill(struct rk_reader *r, const struct rk_jnode *node, const struct rk_place_values *v)
{
	return rk_read_fill_text(r, node, rk_jstr(node), v);
}

/* "user@host[1-9]:port" into its single targets; user and port are optional. */
static void read_ssh_list(struct rk_reader *r, const struct rk_jnode *node, const char *text, struct rk_manager *m)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_nodeset hosts;
	const char *at = strrchr(text, '@'), *colon = strrchr(text, ':');
	const char *first = at ? at + 1 : text;
	const char *end = colon && colon > first && strspn(colon + 1, "0123456789") == strlen(colon + 1) ? colon : text + strlen(text);
	char *host = rk_arena_strndup(r->arena, first, (size_t)(end - first));

	m->ssh_text = text;
	if (rk_nodeset_parse(host, NULL, NULL, r->arena, &hosts, &err)) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"ssh\" is no host or set of hosts: %s", err.message);
		return;
	}
	m->ssh = rk_arena_array(r->arena, hosts.n, sizeof(*m->ssh));
	m->n_ssh = hosts.n;
	for (size_t i = 0; i < hosts.n; i++)
		m->ssh[i] = rk_arena_printf(r->arena, "%.*s%s%s", (int)(first - text), text, hosts.names[i], end);
}

void rk_read_manager(struct rk_reader *r, const struct rk_jnode *node, const struct rk_place_values *v, struct rk_manager *m)
{
	const struct rk_jnode *ssh = rk_jget(node, "ssh");

	m->driver = rk_read_text(r, rk_jget(node, "driver"));
	m->url = rk_read_fill(r, rk_jget(node, "url"), v);
	m->credentials_file = rk_read_fill(r, rk_jget(node, "credentialsFile"), v);
	m->ca_file = rk_read_fill(r, rk_jget(node, "caFile"), v);
	if (rk_jstr(ssh))
		read_ssh_list(r, ssh, rk_read_fill(r, ssh, v), m);
}

/* Placeholders stay: they are filled in per tray. */
void rk_read_ssh(struct rk_reader *r, const struct rk_jnode *node, struct rk_ssh_conf *ssh)
{
	if (!node)
		return;
	if (!rk_site_fields(&r->diags, node, RK_SITE_SSH))
		return;
	const char *user = rk_read_text(r, rk_jget(node, "user"));
	const char *known = rk_read_text(r, rk_jget(node, "knownHosts")), *identity = rk_read_text(r, rk_jget(node, "identityFile"));
	const char *jump = rk_read_text(r, rk_jget(node, "jump"));
	ssh->user = user ? user : ssh->user;
	ssh->jump = jump ? jump : ssh->jump;
	ssh->known_hosts = known ? known : ssh->known_hosts;
	ssh->identity_file = identity ? identity : ssh->identity_file;
	ssh->port = (int)rk_read_whole(r, rk_jget(node, "port"), 1, 65535, ssh->port);
}

const char *rk_read_object(struct rk_reader *r, const struct rk_jnode *node, enum rk_site_part part)
{
	return node && node->type == RK_JOBJECT && rk_site_fields(&r->diags, node, part) ? rk_read_json(r, node) : NULL;
}

const char *rk_read_versions(struct rk_reader *r, const struct rk_jnode *node)
{
	if (!node || node->type != RK_JOBJECT)
		return NULL;
	RK_JEACH(it, node)
		if (it->type != RK_JSTRING)
			rk_diag_at(&r->diags, it, RK_AT_VALUE, "\"%s\" must be a string, not %s", it->key, rk_jtype_name(it->type));
	return rk_read_json(r, node);
}

int rk_read_nvme(struct rk_reader *r, const struct rk_jnode *node, const char *out[RK_NVME_MAX])
{
	int n = 0;

	RK_JEACH(it, node) {
		if (it->type != RK_JSTRING || n == RK_NVME_MAX) {
			rk_diag_at(&r->diags, it, RK_AT_VALUE, "\"nvme\" holds up to %d PCI addresses", RK_NVME_MAX);
			return n;
		}
		out[n++] = rk_read_pci(r, it, NULL);
	}
	return n;
}
