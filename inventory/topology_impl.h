/* What the files of the topology share. Private to inventory/topology*.c.
 *
 * The wiring check is in topology_check.c (nodes, cables, result), topology_hosts.c (which HCA is where) and topology_trunks.c (leaves, spines, rates). */
#pragma once
#include "inventory/base/map.h"
#include "inventory/topology.h"

/* What a record of ibnetdiscover has for a host: neither a switch nor a part of one. */
bool rk_topology_is_hca(const struct rk_ibnode *node);
/* Each cable is in the list twice. True at the end from which it is told: the lower one by level, so that a cable is named by its host or leaf; among
 * equals the smaller GUID, so that the name does not depend on the order of the file. */
bool rk_topology_told_here(const struct rk_topology *topology, const struct rk_iblink *link);
/* Levels of all nodes from their cables (topology.c); needs links and first_link. */
void rk_topology_set_levels(struct rk_topology *topology);

/* ---- the wiring check */
struct rk_wiring_entry {
	struct rk_ib_finding finding;
	const char *group;    /* what a folded finding says; NULL: never folded */
};
/* Where one HCA of the site was found. */
struct rk_wiring_spot {
	int link;             /* its own end, or RK_NONE */
	int at, port;         /* the switch it is on */
	bool misplaced;
};
struct rk_wiring {
	const struct rk_topology *t;
	const struct rk_site *site;
	struct rk_arena *arena;
	int fabric, rails, leaves, spines;
	bool has_core;
	struct {
		struct rk_wiring_entry *items;
		size_t n, cap;
	} found;
	struct rk_map *ports;   /* port GUID -> link */
	struct rk_map *doubled; /* port GUIDs that two ports carry: where such an HCA is cannot be told */
	struct rk_map *known;   /* port GUID -> HCA of the site, any fabric */
	struct rk_wiring_spot *spots; /* per HCA of the site */
	int *leaf_rail;         /* per node */
	int *home;              /* per rack and rail: the leaf where most of its HCAs are, or RK_NONE */
};
/* group: what is said when many of them are folded; NULL: never folded. Texts but the message are borrowed. */
void rk_wiring_add(struct rk_wiring *c, const char *kind, const char *group, const char *object, const char *hint, const char *format, ...)
	__attribute__((format(printf, 6, 7)));
const char *rk_wiring_hca(struct rk_wiring *c, size_t hca); /* "r01-t03 rail 2", in the arena */
const char *rk_wiring_node(const struct rk_wiring *c, int node);
const char *rk_wiring_end(struct rk_wiring *c, int node, int port); /* "leaf port 3", in the arena */
bool rk_wiring_ours(const struct rk_wiring *c, size_t hca); /* on the fabric that is judged */
int rk_wiring_level(const struct rk_wiring *c, int node);
uint64_t rk_wiring_port_key(int node, int port);
/* Fills ports, doubled, known, spots and rails; then every HCA's rail, leaf and port. */
void rk_wiring_check_hosts(struct rk_wiring *c);
/* Levels, leaf-spine pairs, oversubscription, rates. Needs the spots. */
void rk_wiring_check_trunks(struct rk_wiring *c);
