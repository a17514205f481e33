/* InfiniBand topology from `ibnetdiscover` output: parse, place the HCAs of a site, check against the design. Pure. */
#pragma once
#include "inventory/base/str.h"
#include "inventory/model.h"

enum { RK_TOPOLOGY_MAX = 64 << 20 };

struct rk_ibnode {
	uint64_t guid;
	const char *description;
	bool is_switch;
	bool service;                /* part of a switch (SHARP aggregation node) or a router: no HCA of a host */
	int ports;                   /* 0: other records name this node, but it has none of its own (cut output, partial discovery) */
	int level;                   /* 0 HCA, 1 leaf, 2 spine, 3 core; -1 not connected */
	int first_link, n_links;
};
struct rk_iblink {
	int node, port;              /* this end */
	int peer, peer_port;         /* other end (index of node) */
	uint64_t port_guid;          /* of this end when it is an HCA port, else 0 */
	int width;                   /* lanes: 1, 2, 4, 8, 12; 0 unknown */
	const char *speed;           /* "SDR".."XDR", "?" unknown */
	int gbps;                    /* width x speed, nominal; 0 unknown */
};
struct rk_topology {
	struct rk_arena *arena;
	struct rk_ibnode *nodes; size_t n_nodes;
	struct rk_iblink *links; size_t n_links; /* by node, then port: each cable appears at both ends */
};
/* Text as `ibnetdiscover` prints it (no -p, -l, --diff). What is no such text is RK_INVALID, all problems at once, with line and
 * column. A file that is well formed but incomplete is accepted: rk_topology_check names what is missing. Descriptions are escaped,
 * and those of switches unique (a doubled one gets its GUID appended). name is only for messages. */
int rk_topology_parse(const char *name, const char *text, size_t len, struct rk_topology **ret, struct rk_err *err);
void rk_topology_free(struct rk_topology *topology);
void rk_cleanup_topology(struct rk_topology **topology);

/* Sets leaf and leaf_port of every HCA of the site on that fabric; NULL and 0 where the topology does not have it (site is being built, not yet sealed or shared). */
void rk_topology_place(const struct rk_topology *topology, struct rk_site *site, int fabric);

struct rk_ibswitch {
	const char *name;
	uint64_t guid;
	int level, ports;            /* as in rk_ibnode */
	int hosts, down, up;         /* cables to HCAs, to switches of a lower and of a higher level */
};
/* Both in the arena, in order of the topology. */
void rk_topology_switches(const struct rk_topology *topology, struct rk_arena *arena, struct rk_ibswitch **ret, size_t *ret_n);
struct rk_ibcable {
	const char *kind;            /* "host", "trunk" leaf to spine, "core", "service" */
	const char *from, *to;       /* lower end first; HCAs of the site as "r01-t03 rail 2" */
	int from_port, to_port, width, gbps, expected_gbps; /* expected 0: nobody says */
	const char *speed, *state;   /* state: "ok", "narrow", "slow", "unknown" */
};
/* Each cable once. */
void rk_topology_cables(const struct rk_topology *topology, const struct rk_site *site, int fabric, struct rk_arena *arena, struct rk_ibcable **ret,
			size_t *ret_n);

struct rk_ib_finding {
	/* "missing-hca" not there, "unknown" the site file has no port GUID, "rail" on another rail's leaf, "leaf" right rail, but not where
	 * the rest of the rack is, "crossed" two cables swapped, "port" other port than on the other rails, "uplinks" links per leaf-spine
	 * pair, "oversubscription", "level" a cable that joins the wrong levels, "width", "speed", "extra" HCA the site does not have,
	 * "duplicate" GUID, "partial" only one end of a cable was discovered. */
	const char *kind;
	const char *object, *message, *hint;
};
/* Everything that is not as CLI.md "ib check" expects; n = 0 when clean. In the arena. */
void rk_topology_check(const struct rk_topology *topology, const struct rk_site *site, int fabric, struct rk_arena *arena,
		       struct rk_ib_finding **ret, size_t *ret_n);

/* What changed since a fabric was accepted: "lost" and "new" nodes and cables, "crossed" pairs, "moved" cables, "slower" ones. In the arena. */
void rk_topology_compare(const struct rk_topology *accepted, const struct rk_topology *now, struct rk_arena *arena, struct rk_ib_finding **ret, size_t *ret_n);

/* How the cable of an HCA differs from the plan. */
struct rk_cable_end {
	int rail;                         /* of the leaf where it ends, at a port that is free there */
	int gbps;                         /* 0: as planned */
};
/* The fabric as it would be wired by the plan (rails, groups of 72 downlinks per leaf, spines of 144 ports), in the form of
 * `ibnetdiscover`: for the twin. HCAs without a port GUID are left out. Above 144 leaves each rail (and each 144 groups) has spines of
 * its own. ends: per HCA of the site, NULL: all as planned. Appends to out; what it writes is clean for rk_topology_check. Source of the numbers: NVIDIA's table per scalable unit. */
void rk_topology_plan(const struct rk_site *site, int fabric, const struct rk_cable_end *ends, struct rk_str *out);
