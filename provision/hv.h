/* Hypervisor driver: one tray's libvirt (or the twin). A handle serves many trays; every call names one and may be made from any thread,
 * one call per tray at a time. Deadlines are the driver's: a call returns RK_UNREACHABLE when the outcome is unknown (re-read). */
#pragma once
#include "inventory/base/clock.h"
#include "inventory/base/trace.h"
#include "inventory/model.h"
#include "vmspec/vmspec.h"

struct rk_hv;

struct rk_hv_domain {
	bool exists, running, ours;       /* ours: carries our metadata namespace */
	const char *name, *uuid, *xml;    /* in the caller's arena */
};
struct rk_hv_volume {
	bool exists;
	uint64_t bytes;                   /* capacity */
	const char *path;                 /* absolute on the host */
	uint64_t file_bytes;              /* of what is stored, whatever disk it describes; 0: not known */
};

/* A local file on its way into a volume. */
struct rk_hv_upload {
	int fd;
	uint64_t bytes;                   /* all of the file */
	uint64_t done;                    /* in: an earlier upload was acknowledged so far */
	/* After every piece that the host has acknowledged; false: stop (RK_CANCELLED). */
	bool (*progress)(void *ctx, uint64_t done);
	void *ctx;
};

struct rk_hv_ops {
	int (*probe)(struct rk_hv *hv, int tray, struct rk_arena *arena, struct rk_hostcaps *ret, struct rk_err *err);
	/* An absent domain is exists = false and 0, never an error. */
	int (*domain_get)(struct rk_hv *hv, int tray, const char *name, struct rk_arena *arena, struct rk_hv_domain *ret, struct rk_err *err);
	/* The PCI functions of the tray, as libvirt describes them (XML of a node device each). RK_INVALID: this libvirt has no such driver. */
	int (*devices)(struct rk_hv *hv, int tray, struct rk_arena *arena, const char ***ret_xml, size_t *ret_n, struct rk_err *err);
	/* All domains of the tray. */
	int (*domain_list)(struct rk_hv *hv, int tray, struct rk_arena *arena, struct rk_hv_domain **ret, size_t *ret_n, struct rk_err *err);
	/* With VALIDATE; *ret_xml is what the host kept (in the arena). */
	int (*define)(struct rk_hv *hv, int tray, const char *xml, struct rk_arena *arena, const char **ret_xml, struct rk_err *err);
	int (*start)(struct rk_hv *hv, int tray, const char *name, struct rk_err *err);
	int (*shutdown)(struct rk_hv *hv, int tray, const char *name, struct rk_err *err);  /* asks the guest */
	int (*destroy)(struct rk_hv *hv, int tray, const char *name, struct rk_err *err);   /* returns when it was seen dead */
	int (*undefine)(struct rk_hv *hv, int tray, const char *name, struct rk_err *err);
	int (*volume_get)(struct rk_hv *hv, int tray, const char *pool, const char *name, struct rk_arena *arena, struct rk_hv_volume *ret,
			  struct rk_err *err);
	/* Names of all volumes of a pool. */
	int (*volume_list)(struct rk_hv *hv, int tray, const char *pool, struct rk_arena *arena, const char ***ret, size_t *ret_n, struct rk_err *err);
	/* n bytes of what is stored. NULL: the volumes of this driver have no content (the twin's). */
	int (*volume_read)(struct rk_hv *hv, int tray, const char *pool, const char *name, uint64_t offset, void *bytes, size_t n, struct rk_err *err);
	/* Overlay on backing ("pool/volume"), format qcow2. */
	int (*volume_overlay)(struct rk_hv *hv, int tray, const char *pool, const char *name, const char *backing, struct rk_err *err);
	/* The file as a volume, with what it says inside as its format. Goes on at upload->done when the host still has what came before, else from
	 * the start; reads both ends back. RK_CONFLICT: a volume of another length has that name. */
	int (*volume_upload)(struct rk_hv *hv, int tray, const char *pool, const char *name, const struct rk_hv_upload *upload, struct rk_err *err);
	/* Raw volume with these bytes. One of the same name is replaced; when it has the same length, it is written over in place. */
	int (*volume_put)(struct rk_hv *hv, int tray, const char *pool, const char *name, const void *data, size_t len, struct rk_err *err);
	int (*volume_delete)(struct rk_hv *hv, int tray, const char *pool, const char *name, struct rk_err *err); /* absent: 0 */
	/* Erases the tray's local drives and reads back; sees the reset of GPUs and HCAs. RK_FAILED/RK_UNREACHABLE: the tray is faulty. */
	int (*scrub)(struct rk_hv *hv, int tray, struct rk_err *err);
	void (*free)(struct rk_hv *hv);
};
struct rk_hv {
	const struct rk_hv_ops *ops;
	const struct rk_site *site;       /* borrowed; outlives the handle */
};

struct rk_remote;
/* What every driver gets. */
struct rk_driver_env {
	const struct rk_site *site;
	struct rk_clock *clock;           /* NULL = real */
	struct rk_trace *trace;           /* NULL = off */
	int timeout_ms;                   /* per remote command; 0 = the driver's own */
	const volatile int *cancel;       /* non-zero: give up soon with RK_CANCELLED; may be NULL */
	bool read_only;
	bool twin_check;                  /* OpenSM: try a partitions file in a simulated fabric before it is used */
	const struct rk_remote *remote;   /* NULL: SSH (provision/ssh.h) */
};
/* The libvirt driver (provision/drivers/hv_libvirt*.c). */
int rk_hv_libvirt(const struct rk_driver_env *env, struct rk_hv **ret, struct rk_err *err);
