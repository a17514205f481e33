/* Erase of a tray before it is free again, over SSH to the tray. */
#pragma once
#include "provision/hv.h"

/* Local drives erased (cryptographic erase, else user data erase) and read back; GPUs and HCAs reset. RK_FAILED: not done;
 * RK_UNREACHABLE: not known. In both cases the tray is faulty. */
int rk_scrub(const struct rk_driver_env *env, int tray, struct rk_err *err);
