/* Volumes: listed, made, written in one go, deleted. */
#include <stdlib.h>
#include <string.h>

#include "provision/drivers/hv_libvirt_impl.h"
#include "provision/drivers/volume_xml.h"

int rk_lv_open_pool(struct rk_libvirt *lv, int tray, virConnectPtr conn, const char *name, virStoragePoolPtr *ret, struct rk_err *err)
{
	virStoragePoolPtr pool RK_LV_CLEANUP_POOL = virStoragePoolLookupByName(conn, name);

	if (!pool || (virStoragePoolIsActive(pool) == 0 && virStoragePoolCreate(pool, 0) != 0))
		return rk_lv_failed(lv, tray, "opening the storage pool", err);
	virStoragePoolRefresh(pool, 0);
	*ret = rk_steal(&pool);
	return 0;
}

uint64_t rk_lv_physical_bytes(virStorageVolPtr volume)
{
	virStorageVolInfo info;

	return virStorageVolGetInfoFlags(volume, &info, VIR_STORAGE_VOL_GET_PHYSICAL) == 0 ? info.allocation : 0;
}

int rk_lv_volume_get(struct rk_hv *hv, int tray, const char *pool_name, const char *name, struct rk_arena *arena, struct rk_hv_volume *ret,
			 struct rk_err *err)
{
	struct rk_libvirt *lv = (struct rk_libvirt *)hv;
	virConnectPtr conn;
	virStorageVolInfo info;
	int rc = rk_lv_enter(hv, tray, false, &conn, err);

	if (rc != 0)
		return rc;
	*ret = (struct rk_hv_volume){ 0 };
	virStoragePoolPtr pool RK_LV_CLEANUP_POOL = NULL;
	if ((rc = rk_lv_open_pool(lv, tray, conn, pool_name, &pool, err)) != 0)
		return rk_lv_leave(hv, tray, rc);
	virStorageVolPtr volume RK_LV_CLEANUP_VOLUME = virStorageVolLookupByName(pool, name);
	if (!volume)
		return rk_lv_leave(hv, tray, rk_lv_last_is(VIR_ERR_NO_STORAGE_VOL) ? 0 : rk_lv_failed(lv, tray, "looking for a volume", err));
	char *path RK_CLEANUP_FREE = virStorageVolGetPath(volume);
	if (!path || virStorageVolGetInfo(volume, &info) != 0)
		return rk_lv_leave(hv, tray, rk_lv_failed(lv, tray, "reading a volume", err));
	*ret = (struct rk_hv_volume){ true, info.capacity, rk_arena_strdup(arena, path), rk_lv_physical_bytes(volume) };
	return rk_lv_leave(hv, tray, 0);
}

int rk_lv_volume_list(struct rk_hv *hv, int tray, const char *pool_name, struct rk_arena *arena, const char ***ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_libvirt *lv = (struct rk_libvirt *)hv;
	virConnectPtr conn;
	virStorageVolPtr *all = NULL;
	int rc = rk_lv_enter(hv, tray, false, &conn, err);

	if (rc != 0)
		return rc;
	virStoragePoolPtr pool RK_LV_CLEANUP_POOL = NULL;
	if ((rc = rk_lv_open_pool(lv, tray, conn, pool_name, &pool, err)) != 0)
		return rk_lv_leave(hv, tray, rc);
	int n = virStoragePoolListAllVolumes(pool, &all, 0);
	if (n < 0)
		return rk_lv_leave(hv, tray, rk_lv_failed(lv, tray, "listing the volumes", err));
	const char **names = rk_arena_array(arena, n ? (size_t)n : 1, sizeof(*names));
	for (int i = 0; i < n; i++) {
		names[i] = rk_arena_strdup(arena, virStorageVolGetName(all[i]));
		virStorageVolFree(all[i]);
	}
	free(all);
	*ret = names;
	*ret_n = (size_t)n;
	return rk_lv_leave(hv, tray, 0);
}

struct backing {
	char *path;
	const char *format;
	uint64_t bytes;
};

/* "pool/volume" -> path, format and size on the host. */
static int find_backing(struct rk_libvirt *lv, int tray, virConnectPtr conn, const char *where, struct backing *ret, struct rk_err *err)
{
	const char *slash = strchr(where, '/');
	virStorageVolInfo info;

	if (!slash || slash == where || !slash[1])
		return rk_err_set(err, RK_INVALID, "image volume \"%s\" is not \"pool/volume\"", where);
	char *pool_name RK_CLEANUP_FREE = rk_xstrndup(where, (size_t)(slash - where));
	virStoragePoolPtr pool RK_LV_CLEANUP_POOL = NULL;
	int rc = rk_lv_open_pool(lv, tray, conn, pool_name, &pool, err);
	virStorageVolPtr volume RK_LV_CLEANUP_VOLUME = pool ? virStorageVolLookupByName(pool, slash + 1) : NULL;
	char *xml RK_CLEANUP_FREE = volume ? virStorageVolGetXMLDesc(volume, 0) : NULL;
	if (rc == 0 && (!xml || virStorageVolGetInfo(volume, &info) != 0))
		rc = rk_lv_failed(lv, tray, "opening the image", err);
	if (rc) {
		rk_err_hint(err, "the image \"%s\" must be in the storage pool of the tray", where);
		return rc;
	}
	ret->format = rk_volume_format(xml);
	if (!ret->format)
		return rk_err_set(err, RK_INVALID, "tray \"%s\": image \"%s\" is neither qcow2 nor raw", lv->hv.site->trays[tray].name, where);
	ret->bytes = info.capacity;
	ret->path = virStorageVolGetPath(volume);
	return ret->path ? 0 : rk_lv_failed(lv, tray, "reading the path of the image", err);
}

int rk_lv_volume_overlay(struct rk_hv *hv, int tray, const char *pool_name, const char *name, const char *backing, struct rk_err *err)
{
	struct rk_libvirt *lv = (struct rk_libvirt *)hv;
	struct rk_str xml RK_CLEANUP_STR = RK_STR_INIT;
	struct backing base = { 0 };
	virConnectPtr conn;
	int rc = rk_lv_enter(hv, tray, true, &conn, err);

	if (rc != 0)
		return rc;
	if ((rc = find_backing(lv, tray, conn, backing, &base, err)) != 0)
		return rk_lv_leave(hv, tray, rc);
	char *path RK_CLEANUP_FREE = base.path;
	rk_volume_xml(&xml, name, base.bytes, "qcow2", path, base.format);
	virStoragePoolPtr pool RK_LV_CLEANUP_POOL = NULL;
	if ((rc = rk_lv_open_pool(lv, tray, conn, pool_name, &pool, err)) != 0)
		return rk_lv_leave(hv, tray, rc);
	rk_lv_trace(lv, tray, "volume create", rk_str_text(&xml));
	virStorageVolPtr volume RK_LV_CLEANUP_VOLUME = virStorageVolCreateXML(pool, rk_str_text(&xml), 0);
	if (!volume)
		rc = rk_lv_last_is(VIR_ERR_STORAGE_VOL_EXIST) ? rk_err_set(err, RK_CONFLICT, "tray \"%s\": volume \"%s\" is there already", hv->site->trays[tray].name, name)
							: rk_lv_failed(lv, tray, "creating the overlay", err);
	return rk_lv_leave(hv, tray, rc);
}

int rk_lv_volume_put(struct rk_hv *hv, int tray, const char *pool_name, const char *name, const void *data, size_t len, struct rk_err *err)
{
	static const char what[] = "uploading a volume";
	struct rk_libvirt *lv = (struct rk_libvirt *)hv;
	const struct rk_lv_source from = { .data = data };
	struct rk_str xml RK_CLEANUP_STR = RK_STR_INIT;
	virConnectPtr conn;
	int rc = rk_lv_enter(hv, tray, true, &conn, err);

	if (rc != 0)
		return rc;
	virStoragePoolPtr pool RK_LV_CLEANUP_POOL = NULL;
	if ((rc = rk_lv_open_pool(lv, tray, conn, pool_name, &pool, err)) != 0)
		return rk_lv_leave(hv, tray, rc);
	virStorageVolPtr old RK_LV_CLEANUP_VOLUME = virStorageVolLookupByName(pool, name);
	if (old && rk_lv_physical_bytes(old) == len) {
		rk_lv_trace(lv, tray, "volume upload in place", name);
		return rk_lv_leave(hv, tray, rk_lv_send(lv, tray, old, &from, 0, len, what, err));
	}
	if (old && virStorageVolDelete(old, 0) != 0 && !rk_lv_last_is(VIR_ERR_NO_STORAGE_VOL))
		return rk_lv_leave(hv, tray, rk_lv_failed(lv, tray, "replacing a volume", err));
	rk_volume_xml(&xml, name, len, "raw", NULL, NULL);
	rk_lv_trace(lv, tray, "volume create and upload", rk_str_text(&xml));
	virStorageVolPtr volume RK_LV_CLEANUP_VOLUME = virStorageVolCreateXML(pool, rk_str_text(&xml), 0);
	if (!volume)
		return rk_lv_leave(hv, tray, rk_lv_failed(lv, tray, "creating a volume", err));
	rc = rk_lv_send(lv, tray, volume, &from, 0, len, what, err);
	if (rc)
		virStorageVolDelete(volume, 0); /* half a seed must not look like one */
	return rk_lv_leave(hv, tray, rc);
}

int rk_lv_volume_delete(struct rk_hv *hv, int tray, const char *pool_name, const char *name, struct rk_err *err)
{
	struct rk_libvirt *lv = (struct rk_libvirt *)hv;
	virConnectPtr conn;
	int rc = rk_lv_enter(hv, tray, true, &conn, err);

	if (rc != 0)
		return rc;
	virStoragePoolPtr pool RK_LV_CLEANUP_POOL = NULL;
	if ((rc = rk_lv_open_pool(lv, tray, conn, pool_name, &pool, err)) != 0)
		return rk_lv_leave(hv, tray, rc);
	rk_lv_trace(lv, tray, "volume delete", name);
	virStorageVolPtr volume RK_LV_CLEANUP_VOLUME = virStorageVolLookupByName(pool, name);
	if (!volume ? !rk_lv_last_is(VIR_ERR_NO_STORAGE_VOL) : virStorageVolDelete(volume, 0) != 0 && !rk_lv_last_is(VIR_ERR_NO_STORAGE_VOL))
		rc = rk_lv_failed(lv, tray, "deleting a volume", err);
	return rk_lv_leave(hv, tray, rc);
}
