/* Reading a site file: what its parts share. Private to inventory/site_file.c, site_reader.c and site_racks.c.
 *
 * A problem goes to reader->diags and reading goes on; every function copes with NULL (absent) and with a node of the wrong type, which the
 * caller's table of fields has reported. Texts are copied into the arena of the site. */
#pragma once
#include "inventory/base/diag.h"
#include "inventory/base/map.h"
#include "inventory/model.h"
#include "inventory/site_keys.h"

/* A value that must be unique, and where it was first seen. */
struct rk_places {
	struct rk_map *seen; /* value -> line << 24 | column */
	const char *what;
};

struct rk_rack_entry {
	const char *name;
	const struct rk_jnode *node;
	struct rk_map *trays; /* tray name -> struct rk_jnode *, shared by the racks of one entry; NULL when there is no "tray" */
};

struct rk_reader {
	struct rk_diags diags;
	struct rk_arena *arena;
	struct rk_site *site;
	const struct rk_jnode *default_host; /* "host" of the site's "ssh": a template for every tray that has none */
	struct rk_places guids, serials, uuids, domains, uris, tenants, images, fabrics;
	struct {
		struct rk_rack_entry *items;
		size_t n, cap;
	} racks;
	struct {
		struct rk_profile *items;
		size_t n, cap;
	} profiles;
	struct {
		struct rk_tray *items;
		size_t n, cap;
	} trays;
	struct {
		struct rk_gpu *items;
		size_t n, cap;
	} gpus;
	struct {
		struct rk_hca *items;
		size_t n, cap;
	} hcas;
	struct {
		struct rk_component *items;
		size_t n, cap;
	} parts;
	struct { /* owner of the per-entry tray maps, in file order */
		struct rk_map **items;
		size_t n, cap;
	} maps;
};

/* What the placeholders {rack} {tray} {slot} stand for; NULL or 0: no value here. */
struct rk_place_values {
	const char *rack, *tray;
	int slot;
};

/* False, with both places, when the value was seen before. */
bool rk_read_unique(struct rk_reader *r, struct rk_places *p, const char *value, const struct rk_jnode *node);
const char *rk_read_text(struct rk_reader *r, const struct rk_jnode *node);
/* The node again as JSON text, for objects that are kept as written. */
const char *rk_read_json(struct rk_reader *r, const struct rk_jnode *node);
long rk_read_whole(struct rk_reader *r, const struct rk_jnode *node, long min, long max, long absent);
double rk_read_real(struct rk_reader *r, const struct rk_jnode *node, double min, double max, double absent);
const char *rk_read_name(struct rk_reader *r, const struct rk_jnode *node, const char *what);
uint64_t rk_read_guid(struct rk_reader *r, const struct rk_jnode *node);
const char *rk_read_pci(struct rk_reader *r, const struct rk_jnode *node, const char *absent);
/* Template with the placeholders filled in; node: where problems are reported. */
const char *rk_read_fill_text(struct rk_reader *r, const struct rk_jnode *node, const char *template, const struct rk_place_values *v);
const char *rk_read_fill(struct rk_reader *r, const struct rk_jnode *node, const struct rk_place_values *v);
void rk_read_manager(struct rk_reader *r, const struct rk_jnode *node, const struct rk_place_values *v, struct rk_manager *m);
/* What is not written stays as it is in *ssh; placeholders stay. */
void rk_read_ssh(struct rk_reader *r, const struct rk_jnode *node, struct rk_ssh_conf *ssh);
/* An object that is kept as written. NULL when it is absent or none. */
const char *rk_read_object(struct rk_reader *r, const struct rk_jnode *node, enum rk_site_part part);
/* An object of texts with any keys. */
const char *rk_read_versions(struct rk_reader *r, const struct rk_jnode *node);
int rk_read_nvme(struct rk_reader *r, const struct rk_jnode *node, const char *out[RK_NVME_MAX]);

/* "racks" of the file into site->racks and the reader's lists (site_racks.c); defaults and fabrics are read by then. */
void rk_read_racks(struct rk_reader *r, const struct rk_jnode *racks);
