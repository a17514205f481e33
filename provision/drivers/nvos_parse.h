/* What the NVOS command line prints (field/nvlink.md section 2). Pure. */
#pragma once
#include "provision/nvl.h"

enum rk_nvos_answer {
	RK_NVOS_DONE,        /* a known success text and no error */
	RK_NVOS_ABSENT,      /* "The requested item does not exist" */
	RK_NVOS_BUSY,        /* resources not released yet: try again */
	RK_NVOS_DOWN,        /* cluster not enabled, gRPC down: the controller does not work */
	RK_NVOS_INVALID,     /* an argument was refused */
	RK_NVOS_REFUSED,     /* an action failed; the text does not say why */
	RK_NVOS_ODD,         /* not understood: unknown */
};
enum rk_nvos_answer rk_nvos_classify(int status, const char *out, const char *err);
/* JSON of an answer with banners before and after: from the first '{' to the last '}'. NULL: none. *ret_len is its length. */
const char *rk_nvos_json(const char *text, size_t *ret_len);
/* `nv show sdn partition -o json`: ids, names, counts; gpus stays empty. {} and null are 0 partitions (*ret_empty says so). */
struct rk_nvos_row {
	struct rk_nvl_live live;
	long announced;      /* num-gpus; -1 unknown */
	long multicast;      /* mcast-limit; -1 unknown */
};
int rk_nvos_list(const char *text, struct rk_arena *arena, struct rk_nvos_row **ret, size_t *ret_n, struct rk_err *err);
/* `nv show sdn partition ID -o json`: fills gpus (sorted). RK_UNREACHABLE when the members are not certain. */
int rk_nvos_members(const char *text, long announced, struct rk_arena *arena, struct rk_nvl_live *live, struct rk_err *err);
/* `nv show cluster -o json` and `nv show cluster apps -o json`. 0, RK_UNHEALTHY with the reason, RK_UNREACHABLE when not understood; apps also
 * RK_NOT_FOUND: the controller is not installed here. */
int rk_nvos_cluster(const char *text, struct rk_err *err);
int rk_nvos_apps(const char *text, struct rk_err *err);
/* `nv show system version -o json` and `nv show platform chassis-location -o json`: fill what they tell; what is no such answer tells nothing. */
void rk_nvos_version(const char *text, struct rk_arena *arena, struct rk_nvl_switch *ret);
void rk_nvos_location(const char *text, struct rk_arena *arena, struct rk_nvl_switch *ret);
/* `nv config diff startup applied -o json`: is something of the cluster not saved? False, too, when that cannot be told. */
bool rk_nvos_unsaved(const char *text);
