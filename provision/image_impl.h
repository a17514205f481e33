/* Private to the files that take images in. */
#pragma once
#include "provision/image.h"

/* The architecture: what the operator says, what the image says (found, or NULL), what the site says; they must not contradict each other. */
int rk_image_arch(const struct rk_world *world, const struct rk_image_add *request, const char *found, const char **ret, struct rk_err *err);
/* The trays that the image is for. In the arena. */
int rk_image_trays(const struct rk_world *world, const struct rk_image_add *request, struct rk_arena *arena, int **ret, size_t *ret_n, struct rk_err *err);

/* What came out on one tray. */
struct rk_image_try {
	struct rk_err err;
	int rc;
};
/* 0 when all are good, else which are not, each with its reason. */
int rk_image_verdict(const char *image, const struct rk_image_try *tries, size_t n, size_t *ret_good, struct rk_err *err);
void rk_image_tries_free(struct rk_image_try *tries, size_t n);

/* A volume that is on the trays already: there, the same everywhere, an image that stands alone. */
int rk_image_volume(struct rk_world *world, const struct rk_image_add *request, struct rk_arena *arena, struct rk_image_added *ret, struct rk_err *err);
