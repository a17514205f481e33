/* Images: what VMs start from. A local file is judged, hashed and put on the trays; a volume that is there already is looked at. */
#pragma once
#include "provision/world.h"

struct rk_image_add {
	const char *name;
	const char *path;                 /* local file; NULL: `volume` is on the trays already */
	const char *volume;               /* "pool/volume" */
	const char *arch, *format;        /* NULL: what the file, its name or the site says */
	const char *checksum;             /* of a file, as its maker told it: SHA-256 in hex, "sha256:" before it or not; NULL: any */
	const char *pool;                 /* for a file; NULL: the site's */
	const char *trays, *except;       /* selection of the trays that get the file or have the volume; NULL: all that are not offline */
	const char *state_folder;         /* how far each upload came is kept there, so that it can go on; NULL: nowhere */
	bool dry_run;
};
struct rk_image_added {
	struct rk_image image;
	uint64_t bytes, disk_bytes;       /* of the file, of the disk in it; 0 for a volume of the twin, which has no content */
	size_t trays;                     /* that have it now */
};
/* The image is in the store when every tray has it. RK_PARTIAL (RK_UNREACHABLE when all are silent) names the trays that do not: the same
 * command goes on where it stopped. A volume has no checksum; on all trays it is an image that stands alone, of the same format and length. *ret is in the arena. */
int rk_image_add(struct rk_world *world, const struct rk_image_add *request, struct rk_arena *arena, struct rk_image_added *ret, struct rk_err *err);
