/* What the commands on VMs share. */
#pragma once
#include "cli/cmds/common.h"
#include "provision/cluster.h"

/* The VM that argument VM names: itself, or the tray it is on. */
int rk_one_vm(struct rk_call *call, int *ret, struct rk_err *err);
/* Terminal sessions (vm_terminal.c). */
int rk_cmd_vm_ssh(struct rk_call *call, struct rk_err *err);
int rk_cmd_vm_console(struct rk_call *call, struct rk_err *err);
int rk_cmd_vm_exec(struct rk_call *call, struct rk_err *err);
