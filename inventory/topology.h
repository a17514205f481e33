/* InfiniBand topology from `ibnetdiscover` output: parse, place the HCAs of a site, check against the design. Pure. */
#pragma once
#include "inventory/model.h"

enum { RK_TOPOLOGY_MAX = 64 << 20 };

struct rk_ibnode {
	uint64_t guid;
	const char *description;
	bool is_switch;
	int ports, level;            /* level: 0 HCA, 1 leaf, 2 spine, 3 core; -1 not connected */
	int first_link, n_links;
};
struct rk_iblink {
	int node, port;              /* this end */
	int peer, peer_port;         /* other end (index of node) */
	uint64_t port_guid;          /* of this end when it is an HCA port, else 0 */
	int width;                   /* lanes: 1, 4, 8, 12 */
	const char *speed;           /* "SDR".."XDR" */
	int gbps;                    /* width x speed, nominal; 0 unknown */
};
struct rk_topology {
	struct rk_arena *arena;
	struct rk_ibnode *nodes; size_t n_nodes;
	struct rk_iblink *links; size_t n_links; /* by node, then port: each cable appears at both ends */
};
int rk_topology_parse(const char *name, const char *text, size_t len, struct rk_topology **ret, struct rk_err *err);
void rk_topology_free(struct rk_topology *topology);
void rk_cleanup_topology(struct rk_topology **topology);

/* Sets leaf and leaf_port of every HCA of the site that the fabric knows (site is being built, not yet sealed or shared). */
void rk_topology_place(const struct rk_topology *topology, struct rk_site *site, int fabric);

struct rk_ib_finding {
	const char *kind;            /* "missing-hca", "rail", "crossed", "uplinks", "oversubscription", "width", "speed", "extra", ... */
	const char *object, *message, *hint;
};
/* Everything that is not as CLI.md "ib check" expects; n = 0 when clean. In the arena. */
void rk_topology_check(const struct rk_topology *topology, const struct rk_site *site, int fabric, struct rk_arena *arena,
		       struct rk_ib_finding **ret, size_t *ret_n);
