/* Private to the libvirt driver, and the only file that includes libvirt. One connection per tray, opened when first needed and kept.
 *
 * virConnectOpen to a hung daemon blocks for ever, so opens run in a thread with a deadline; calls after that are ended by the keepalive
 * (an event loop thread must run for it). An expired call is "outcome unknown": the caller reads again. */
#pragma once
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <pthread.h>

#include "provision/hv.h"

struct rk_lv_link {
	pthread_mutex_t lock;
	virConnectPtr conn;
	char *uri;                        /* what conn was opened with */
};
struct rk_libvirt {
	struct rk_hv hv;
	struct rk_driver_env env;
	struct rk_lv_link *links;         /* one per tray */
	size_t n_links;
};

/* Connections, errors and trace (hv_libvirt.c). */
/* Takes the tray's lock; on success the caller gives it back with rk_lv_leave. */
int rk_lv_enter(struct rk_hv *hv, int tray, bool changes, virConnectPtr *ret, struct rk_err *err);
int rk_lv_leave(struct rk_hv *hv, int tray, int rc);
/* libvirt's own test driver is in this process: it knows no flags on opening, and would read the whole schema again for each domain. */
bool rk_lv_is_test(const char *uri);
/* The thread's last libvirt error as one of ours. Every call to libvirt, a free too, forgets the one before. */
int rk_lv_failed(struct rk_libvirt *lv, int tray, const char *what, struct rk_err *err);
bool rk_lv_last_is(int code);
void rk_lv_trace(struct rk_libvirt *lv, int tray, const char *what, const char *text);

/* Storage (hv_libvirt_volume.c). */
/* The pool, active and with a fresh listing: volumes may have come or gone behind libvirt's back. The caller frees it. */
int rk_lv_open_pool(struct rk_libvirt *lv, int tray, virConnectPtr conn, const char *name, virStoragePoolPtr *ret, struct rk_err *err);
/* Bytes of the file behind a volume, whatever disk it describes; 0 when they cannot be read. */
uint64_t rk_lv_physical_bytes(virStorageVolPtr volume);
struct rk_lv_source {                     /* of bytes that are sent */
	const char *data;                 /* NULL: the file */
	int fd;
};
/* Bytes [offset, offset + n) of the source into the volume, at the same place (hv_libvirt_upload.c). what: says what is being done. */
int rk_lv_send(struct rk_libvirt *lv, int tray, virStorageVolPtr volume, const struct rk_lv_source *from, uint64_t offset, uint64_t n, const char *what,
	       struct rk_err *err);

/* What provision/hv.h asks for, by file: hv_libvirt_host.c, hv_libvirt_domain.c, hv_libvirt_volume.c, hv_libvirt_upload.c. */
int rk_lv_probe(struct rk_hv *hv, int tray, struct rk_arena *arena, struct rk_hostcaps *ret, struct rk_err *err);
int rk_lv_devices(struct rk_hv *hv, int tray, struct rk_arena *arena, const char ***ret_xml, size_t *ret_n, struct rk_err *err);
int rk_lv_domain_get(struct rk_hv *hv, int tray, const char *name, struct rk_arena *arena, struct rk_hv_domain *ret, struct rk_err *err);
int rk_lv_domain_list(struct rk_hv *hv, int tray, struct rk_arena *arena, struct rk_hv_domain **ret, size_t *ret_n, struct rk_err *err);
int rk_lv_define(struct rk_hv *hv, int tray, const char *xml, struct rk_arena *arena, const char **ret_xml, struct rk_err *err);
int rk_lv_start(struct rk_hv *hv, int tray, const char *name, struct rk_err *err);
int rk_lv_shutdown(struct rk_hv *hv, int tray, const char *name, struct rk_err *err);
int rk_lv_destroy(struct rk_hv *hv, int tray, const char *name, struct rk_err *err);
int rk_lv_undefine(struct rk_hv *hv, int tray, const char *name, struct rk_err *err);
int rk_lv_volume_get(struct rk_hv *hv, int tray, const char *pool_name, const char *name, struct rk_arena *arena, struct rk_hv_volume *ret, struct rk_err *err);
int rk_lv_volume_list(struct rk_hv *hv, int tray, const char *pool_name, struct rk_arena *arena, const char ***ret, size_t *ret_n, struct rk_err *err);
int rk_lv_volume_read(struct rk_hv *hv, int tray, const char *pool_name, const char *name, uint64_t offset, void *bytes, size_t n, struct rk_err *err);
int rk_lv_volume_overlay(struct rk_hv *hv, int tray, const char *pool_name, const char *name, const char *backing, struct rk_err *err);
int rk_lv_volume_upload(struct rk_hv *hv, int tray, const char *pool_name, const char *name, const struct rk_hv_upload *up, struct rk_err *err);
int rk_lv_volume_put(struct rk_hv *hv, int tray, const char *pool_name, const char *name, const void *data, size_t len, struct rk_err *err);
int rk_lv_volume_delete(struct rk_hv *hv, int tray, const char *pool_name, const char *name, struct rk_err *err);

static inline void rk_lv_cleanup_domain(virDomainPtr *domain)
{
	if (*domain)
		virDomainFree(*domain);
}
#define RK_LV_CLEANUP_DOMAIN RK_CLEANUP(rk_lv_cleanup_domain)

static inline void rk_lv_cleanup_pool(virStoragePoolPtr *pool)
{
	if (*pool)
		virStoragePoolFree(*pool);
}
#define RK_LV_CLEANUP_POOL RK_CLEANUP(rk_lv_cleanup_pool)

static inline void rk_lv_cleanup_volume(virStorageVolPtr *volume)
{
	if (*volume)
		virStorageVolFree(*volume);
}
#define RK_LV_CLEANUP_VOLUME RK_CLEANUP(rk_lv_cleanup_volume)
