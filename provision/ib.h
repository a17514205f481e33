/* InfiniBand driver: partitions (PKeys) of one fabric. Every call names a fabric; one changing call per fabric at a time, any thread. */
#pragma once
#include "provision/hv.h"

struct rk_ib;

struct rk_ib_member {
	uint64_t guid;                    /* port GUID */
	bool full;
};
struct rk_ib_live {                       /* a partition as the manager's configuration holds it */
	uint16_t pkey;                    /* 15 bit */
	const char *name;
	bool ours;                        /* in the managed section / range */
	struct rk_ib_member *members; size_t n_members; /* sorted by guid */
};
struct rk_ib_wanted {                     /* a partition as it is to be */
	uint16_t pkey;                    /* 15 bit */
	const char *name;
	const struct rk_ib_member *members; size_t n;
	bool shared;                      /* a service of several tenants: index 0 of a port's table is left to the tenant's own key, where collective libraries look */
};
struct rk_ib_port {                       /* what one port really holds */
	uint64_t guid;
	bool known;                       /* false: could not be read; pkeys is empty and means nothing */
	bool down;                        /* not known because the fabric has no such port now: unplugged, or its link is down. Reaches nobody */
	const char *why;                  /* when not known */
	uint16_t *pkeys; size_t n_pkeys;  /* with membership bit 15; zero entries left out; in table order */
};
enum rk_ib_seen { RK_PATH_UNKNOWN, RK_PATH_NONE, RK_PATH_FOUND };
struct rk_ib_path {                       /* a question to the subnet administrator */
	uint64_t from, to;                /* port GUIDs */
	enum rk_ib_seen seen;             /* answer */
	const char *why;                  /* of unknown */
};
enum { RK_IB_COUNTERS = 18 };            /* rk_ib_counter_name */
struct rk_ib_reading {                    /* counters of one port at one moment */
	uint64_t guid;
	bool known, down;                 /* as in struct rk_ib_port */
	const char *why;
	bool have[RK_IB_COUNTERS], narrow[RK_IB_COUNTERS]; /* narrow: read from a counter of less than 64 bits */
	uint64_t value[RK_IB_COUNTERS];
};
struct rk_ib_ops {
	/* The manager's configuration, read and strictly checked now. */
	int (*list)(struct rk_ib *ib, int fabric, struct rk_arena *arena, struct rk_ib_live **ret, size_t *ret_n, struct rk_err *err);
	/* Makes the partition exactly what it is to be (the safe procedure of field/infiniband.md 2.4, until the manager took it). No members: removes it. */
	int (*set)(struct rk_ib *ib, int fabric, const struct rk_ib_wanted *wanted, struct rk_err *err);
	/* PKey tables of these ports, in order; a port that does not answer is known = false. */
	int (*tables)(struct rk_ib *ib, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err);
	/* ibnetdiscover text of the living fabric. */
	int (*discover)(struct rk_ib *ib, int fabric, struct rk_arena *arena, const char **ret, struct rk_err *err);
	/* Does the subnet administrator give paths between these ports? Fills seen and why of each (texts in the arena). RK_NOT_FOUND: nobody can
	 * be asked on this fabric. */
	int (*paths)(struct rk_ib *ib, int fabric, struct rk_ib_path *paths, size_t n, struct rk_arena *arena, struct rk_err *err);
	/* Counters of these ports now, in order. RK_NOT_FOUND: nobody can be asked on this fabric. */
	int (*counters)(struct rk_ib *ib, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_reading *ret,
			struct rk_err *err);
	/* Names of the SHARP reservations that follow the key, with commas; "" none. RK_NOT_FOUND: the manager does not tell. NULL: as if so. */
	int (*sharp)(struct rk_ib *ib, int fabric, uint16_t pkey, struct rk_arena *arena, const char **ret, struct rk_err *err);
	void (*free)(struct rk_ib *ib);
};
struct rk_ib {
	const struct rk_ib_ops *ops;
	const struct rk_site *site;
};
/* Chooses per fabric by the site's infiniband[].driver: "opensm" (over SSH) or "ufm" (REST; SSH to read the ports when the site names a host). */
int rk_ib_open(const struct rk_driver_env *env, struct rk_ib **ret, struct rk_err *err);
