/* The NVOS driver inside: how its switches are reached, and which of them runs the controller (nvos_controller.c). */
#pragma once
#include "provision/drivers/nvl_driver.h"
#include "provision/drivers/nvos_commands.h"
#include "provision/drivers/session.h"

enum { RK_NVOS_NOBODY = -1 };

struct rk_nvos_rack {
	pthread_mutex_t lock;             /* first */
	struct rk_session session;
	int controller;                   /* entry of nvlink.ssh that answers for the domain, or RK_NVOS_NOBODY */
	enum rk_nvos_dialect dialect;
};
static inline struct rk_nvos_rack *rk_nvos_state(const struct rk_nvl_driver *nvos, int rack)
{
	return rk_nvl_rack_state(nvos, rack);
}

/* A command at one of the rack's switches (index into nvlink.ssh), with the rack's lock held. */
int rk_nvos_run(struct rk_nvl_driver *nvos, int rack, size_t index, enum rk_nvos_command command, const struct rk_nvos_args *args, struct rk_arena *arena,
		struct rk_ssh_result *result, struct rk_err *err);
/* What it said of a failure, in one line. */
const char *rk_nvos_said(struct rk_arena *arena, const struct rk_ssh_result *result);
/* One read command at one switch; its JSON text in the arena, or the class of what went wrong. */
int rk_nvos_show(struct rk_nvl_driver *nvos, int rack, size_t index, enum rk_nvos_command command, const struct rk_nvos_args *args, struct rk_arena *arena,
		 const char **ret, struct rk_err *err);
/* With one switch named, that one is asked; the controller of several is looked for and kept until it stops listing partitions. */
int rk_nvos_know_controller(struct rk_nvl_driver *nvos, int rack, struct rk_arena *arena, struct rk_err *err);
/* Index of the switch to ask. */
static inline size_t rk_nvos_controller(const struct rk_nvl_driver *nvos, int rack)
{
	return rk_nvos_state(nvos, rack)->controller == RK_NVOS_NOBODY ? 0 : (size_t)rk_nvos_state(nvos, rack)->controller;
}
/* `health` of the driver. */
int rk_nvos_health(struct rk_nvl *nvl, int rack, struct rk_arena *arena, const char **ret_where, struct rk_err *err);
