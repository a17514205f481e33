/* The twin's state and calls. Private to provision/sim*.c.
 *
 * State is a sorted list of texts by key, so that a whole site fits in one small table and one prefix scan answers a list:
 *   gpu:RACK:GUID      partition id (absent: Default, 0: none)         nvl:RACK:ID   name TAB resiliency
 *   ib:FABRIC:PKEY     name TAB guid=f,guid=l,...                      dom:TRAY:NAME R|S and the XML
 *   vol:TRAY:POOL/NAME bytes                                          up:TRAY       1 when the guest answers
 *   link:TRAY/RAIL     down                                           keys:TRAY/RAIL words of the port's table that no partition gives
 *   nvlink:TRAY/INDEX/LINK down                                        errors:, flaps:, wait: TRAY/RAIL rates at which a port counts
 *   hw:TRAY:WHAT:N     what is really there: gpu and port GUIDs (0: gone), serial, and by cable the port that its cable serves
 *   power:NAME         on, off (absent: on) of a compute or switch tray  leak:TRAY/DETECTOR wet
 *   coolant:RACK       supply temperature (C) and flow (l/min)
 * A value may settle later: until its due time a reader sees the former one ("accepted is not done"). */
#pragma once
#include <pthread.h>

#include "inventory/base/str.h"
#include "provision/sim.h"

enum { RK_SIM_NVL_MS = 400, RK_SIM_IB_MS = 300, RK_SIM_BOOT_MS = 2000 };

struct rk_sim_entry {
	char *key, *value;
	char *old;                        /* value until due_ms; NULL: none */
	int64_t due_ms;
};
enum rk_sim_mode { RK_SIM_OK, RK_SIM_FAIL, RK_SIM_HANG, RK_SIM_LIE, RK_SIM_LOST, RK_SIM_CRASH, RK_SIM_DROP, RK_SIM_KILL };
struct rk_sim_fault {
	char *call;                       /* "nvl.add", "call" */
	char *target;                     /* NULL: any */
	long nth, seen;                   /* 0: every one */
	enum rk_sim_mode mode;
	char *message;
};
struct rk_db;
struct rk_sim {
	pthread_mutex_t lock;
	const struct rk_site *site;       /* as opened */
	struct rk_clock *clock;
	struct rk_db *db;                 /* NULL: memory only */
	int64_t revision;                 /* of the table, as last read */
	bool wrote;                       /* this call put something into the table */
	struct rk_sim_entry *items; size_t n, cap;
	struct rk_sim_fault *faults; size_t n_faults, cap_faults;
	long calls;
};
struct rk_sim_call {
	struct rk_sim *sim;
	enum rk_sim_mode mode;
	const char *what, *target, *message;
	bool changes;
};
/* Locks the twin for one driver call; not 0: the call is over. With RK_SIM_LIE a change must not be made (call->mode). */
int rk_sim_enter(struct rk_sim *sim, struct rk_sim_call *call, const char *what, const char *target, bool changes, struct rk_err *err);
/* Makes the change durable, unlocks, and loses the answer when that is the fault. Returns rc. */
int rk_sim_leave(struct rk_sim_call *call, int rc, struct rk_err *err);

const char *rk_sim_get(const struct rk_sim *sim, const char *key);         /* as a reader sees it now; NULL absent */
const char *rk_sim_get_settled(const struct rk_sim *sim, const char *key); /* as it will be */
void rk_sim_set(struct rk_sim_call *call, const char *key, const char *value, int settle_ms); /* value NULL deletes */
/* Entries whose key begins with prefix: [*ret_first, *ret_end). */
void rk_sim_range(const struct rk_sim *sim, const char *prefix, size_t *ret_first, size_t *ret_end);
const char *rk_sim_see(const struct rk_sim *sim, const struct rk_sim_entry *entry);

/* State file (sim_db.c). */
int rk_sim_db_open(struct rk_sim *sim, const char *path, struct rk_err *err);
void rk_sim_db_close(struct rk_sim *sim);
int rk_sim_db_begin(struct rk_sim *sim, bool changes, struct rk_err *err); /* reads again what another process changed */
void rk_sim_db_put(struct rk_sim *sim, const char *key, const char *value);
int rk_sim_db_end(struct rk_sim *sim, bool keep, struct rk_err *err);
void rk_sim_load(struct rk_sim *sim, const char *key, const char *value);  /* appends; keys come in order */
void rk_sim_forget(struct rk_sim *sim);

/* Changes of the twin itself by --sim-fault (sim_fault.c): *ret 1 when spec was one, 0 when it is something else. */
int rk_sim_change(struct rk_sim *sim, const char *what, const char *target, int *ret, struct rk_err *err);
const char *rk_sim_change_word(size_t i); /* NULL after the last; so are the others */
int rk_sim_change_coolant(struct rk_sim *sim, const char *what, const char *target, int *ret, struct rk_err *err); /* sim_bmc.c */
const char *rk_sim_coolant_word(size_t i);

/* What the twin knows of a port and a GPU; the lock is held. */
bool rk_sim_link_up(const struct rk_sim *sim, const struct rk_site *site, uint64_t guid);
int rk_sim_guid_at(const struct rk_sim *sim, const char *rack, uint64_t guid, bool settled); /* partition; RK_NONE: the switch was never told */
int rk_sim_gpu_at(const struct rk_sim *sim, const struct rk_site *site, int gpu, bool settled);
size_t rk_sim_port_keys(const struct rk_sim *sim, const struct rk_site *site, int fabric, uint64_t guid, bool settled, uint16_t *keys, size_t max);

/* Hardware (sim_hardware.c): what is really in the racks; 0 = gone. The lock is held. */
bool rk_sim_planted(const struct rk_sim *sim); /* does anything differ from the store? */
uint64_t rk_sim_gpu_guid(const struct rk_sim *sim, const struct rk_site *site, int gpu);
uint64_t rk_sim_port_guid(const struct rk_sim *sim, const struct rk_site *site, int hca);
int rk_sim_port_place(const struct rk_sim *sim, const struct rk_site *site, uint64_t guid); /* HCA that has this port; RK_NONE: none of the site */
const char *rk_sim_serial(const struct rk_sim *sim, const struct rk_site *site, int tray);
/* Words of --sim-fault that change the racks: *ret as rk_sim_change. */
int rk_sim_plant(struct rk_sim *sim, const char *word, const char *target, int *ret, struct rk_err *err);
const char *rk_sim_plant_word(size_t i);
/* ibnetdiscover text of the fabric as it is wired; a port without a link is not discovered. */
void rk_sim_wired(const struct rk_sim *sim, const struct rk_site *site, int fabric, struct rk_str *out);
