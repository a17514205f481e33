/* What the parts of a bundle need to know of hosts. Nobody is asked while the store is locked: a part that has no answer yet leaves a question and
 * fails; the bundle is dropped, the questions are asked, and the parts are put together again on the site as it is by then. */
#pragma once
#include "provision/image.h"

struct rk_heard;
struct rk_heard *rk_heard_new(void);
void rk_heard_free(struct rk_heard *heard);
void rk_cleanup_heard(struct rk_heard **heard);
#define RK_CLEANUP_HEARD __attribute__((cleanup(rk_cleanup_heard)))

/* Did somebody leave a question? */
bool rk_heard_open(const struct rk_heard *heard);
/* Asks all of them, outside a transaction, and reads the store anew. An error of an image is one of the command that adds it. */
int rk_heard_ask(struct rk_world *world, struct rk_heard *heard, struct rk_err *err);

/* For parts. As rk_tray_lacks, rk_image_volume; RK_CONFLICT: not known yet. A tray whose host is silent lacks nothing that anybody knows of. */
int rk_heard_lack(struct rk_heard *heard, const char *tray, struct rk_arena *arena, const char **ret, struct rk_err *err);
int rk_heard_volume(struct rk_heard *heard, const struct rk_world *world, const struct rk_image_add *request, struct rk_arena *arena,
		    struct rk_image_added *ret, struct rk_err *err);
