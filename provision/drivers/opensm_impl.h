/* The OpenSM driver inside: the file on a manager (opensm_file.c), the safe change (opensm_change.c), what the ports made of it (opensm_seen.c). */
#pragma once
#include "provision/drivers/ib_ssh.h"
#include "provision/drivers/partitions_file.h"

enum { RK_OPENSM_HOSTS = 16 };

struct opensm {
	struct rk_ib ib;
	struct rk_driver_env env;
	struct rk_ib_ssh *fabrics;
	size_t n_fabrics;
};
const struct rk_fabric *rk_opensm_fabric(const struct opensm *sm, int fabric);
const char *rk_opensm_path(const struct opensm *sm, int fabric); /* of the partitions file */

/* --- the file; the fabric's lock is held --------------------------------------------------------------------------------------- */

struct opensm_file {                      /* in the arena */
	const char *text;
	size_t len;
	char sum[65];                     /* SHA-256 in hex */
	const char *inode;
	const char *role;                 /* of its host: master | standby | unknown */
};
int rk_opensm_read(struct opensm *sm, int fabric, size_t host, struct rk_arena *arena, struct opensm_file *ret, struct rk_err *err);
enum opensm_written { OPENSM_WRITTEN, OPENSM_LOST_UPDATE };
/* Replaces the file by `text` when it still is `old`; hup: then has OpenSM read it. RK_UNREACHABLE: the outcome is not known. */
int rk_opensm_write(struct opensm *sm, int fabric, size_t host, const struct opensm_file *old, const struct rk_str *text, bool hup, struct rk_arena *arena,
		    enum opensm_written *ret, struct rk_err *err);

/* --- a change -------------------------------------------------------------------------------------------------------------------- */

struct opensm_change {                    /* what is to be, the files as they were read, and the text that replaces them */
	const struct rk_ib_wanted *wanted;
	struct opensm_file files[RK_OPENSM_HOSTS];
	size_t hosts, master;
	struct rk_str text;
	size_t order[RK_OPENSM_HOSTS], written; /* hosts in the order of writing: standby ones first; how many have the new text */
};
int rk_opensm_set(struct rk_ib *ib, int fabric, const struct rk_ib_wanted *wanted, struct rk_err *err);

/* --twin-check of a new file; the fabric's lock is held. RK_FAILED: OpenSM would not make of it what it means; RK_NOT_FOUND: no fabric can be
 * simulated; RK_UNREACHABLE: the outcome is not known. */
int rk_opensm_twin(struct opensm *sm, int fabric, const struct rk_str *file, struct rk_err *err);

/* --- seeing that it was done ----------------------------------------------------------------------------------------------------- */

struct opensm_watch {                     /* ports that are read back */
	uint64_t *guids;
	unsigned *wanted;                 /* word of the key, 0: none */
	bool *open;                       /* held 0xffff before the change, as the port of a subnet manager does */
	bool *away;                       /* was not read at some time since: one that comes up holds 0xffff until the manager has been there */
	size_t n, n_changing;             /* the first n_changing ports get or lose the key */
};
/* COMING_UP: was away and holds 0xffff, so nobody knows yet what the file makes of it. */
enum opensm_seen { OPENSM_SEEN, OPENSM_NOT_YET, OPENSM_COMING_UP, OPENSM_OPENED, OPENSM_UNREAD };
/* Chooses the ports and looks at them before the change. False: tables cannot be read here, and whoever waits for them will say so. */
bool rk_opensm_watch(struct opensm *sm, int fabric, const struct opensm_change *c, struct rk_arena *arena, struct opensm_watch *ret);
/* One reading of all of them, or of those that change; *ret_port is the first port that is not as it should be. */
enum opensm_seen rk_opensm_look(struct opensm *sm, int fabric, const struct opensm_change *c, struct opensm_watch *w, bool all, uint64_t *ret_port);
