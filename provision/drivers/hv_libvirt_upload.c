/* What is in volumes: read, and images written in pieces that the host acknowledges, so that an upload can go on where it was broken off. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provision/drivers/hv_libvirt_impl.h"
#include "provision/drivers/volume_xml.h"

enum { PIECE = 64 << 10, CHUNK = 64 << 20 /* acknowledged as a whole */ };

/* Bytes [offset, offset + n) of a local file into the volume. */
static int upload_piece(virConnectPtr conn, virStorageVolPtr volume, int fd, uint64_t offset, uint64_t n)
{
	char *buffer RK_CLEANUP_FREE = rk_xmalloc(PIECE);
	virStreamPtr stream = virStreamNew(conn, 0);
	int rc = stream ? virStorageVolUpload(volume, stream, offset, n, 0) : -1;

	for (uint64_t sent = 0; rc == 0 && sent < n;) {
		ssize_t got = pread(fd, buffer, n - sent < PIECE ? (size_t)(n - sent) : PIECE, (off_t)(offset + sent));
		int went = got > 0 ? virStreamSend(stream, buffer, (size_t)got) : -1;
		if (went < 0)
			rc = -1;
		else
			sent += (uint64_t)went;
	}
	return rk_lv_end_stream(stream, rc);
}

static bool download(virConnectPtr conn, virStorageVolPtr volume, uint64_t offset, char *bytes, size_t n)
{
	virStreamPtr stream = virStreamNew(conn, 0);
	bool good = stream && virStorageVolDownload(volume, stream, offset, n, 0) == 0;
	size_t got = 0;

	while (good && got < n) {
		int came = virStreamRecv(stream, bytes + got, n - got);
		good = came > 0;
		got += good ? (size_t)came : 0;
	}
	if (stream && (!good || virStreamFinish(stream) != 0))
		virStreamAbort(stream);
	if (stream)
		virStreamFree(stream);
	return good;
}

int rk_lv_volume_read(struct rk_hv *hv, int tray, const char *pool_name, const char *name, uint64_t offset, void *bytes, size_t n, struct rk_err *err)
{
	virConnectPtr conn;
	int rc = rk_lv_enter(hv, tray, false, &conn, err);

	if (rc != 0)
		return rc;
	virStoragePoolPtr pool RK_LV_CLEANUP_POOL = virStoragePoolLookupByName(conn, pool_name);
	virStorageVolPtr volume RK_LV_CLEANUP_VOLUME = pool ? virStorageVolLookupByName(pool, name) : NULL;
	if (!volume || !download(conn, volume, offset, bytes, n))
		rc = rk_lv_failed((struct rk_libvirt *)hv, tray, "reading a volume", err);
	return rk_lv_leave(hv, tray, rc);
}

/* Does the host have the same bytes there as the local file? */
static bool same_bytes(virConnectPtr conn, virStorageVolPtr volume, int fd, uint64_t offset, size_t n)
{
	char *ours RK_CLEANUP_FREE = rk_xmalloc(PIECE), *theirs RK_CLEANUP_FREE = rk_xmalloc(PIECE);

	return download(conn, volume, offset, theirs, n) && pread(fd, ours, n, (off_t)offset) == (ssize_t)n && memcmp(ours, theirs, n) == 0;
}

static int upload_all(struct rk_libvirt *lv, int tray, virConnectPtr conn, virStorageVolPtr volume, const struct rk_hv_upload *up, struct rk_err *err)
{
	uint64_t end = up->bytes < PIECE ? up->bytes : PIECE, done = up->done;

	if (done > up->bytes || done < end || !same_bytes(conn, volume, up->fd, done - end, (size_t)end))
		done = 0;
	while (done < up->bytes) {
		uint64_t n = up->bytes - done < CHUNK ? up->bytes - done : CHUNK;
		if (upload_piece(conn, volume, up->fd, done, n) != 0)
			return rk_lv_failed(lv, tray, "uploading an image", err);
		done += n;
		if (!up->progress(up->ctx, done))
			return rk_err_set(err, RK_CANCELLED, "tray \"%s\": stopped after %llu of %llu bytes", lv->hv.site->trays[tray].name,
					  (unsigned long long)done, (unsigned long long)up->bytes);
	}
	if (!same_bytes(conn, volume, up->fd, 0, (size_t)end) || !same_bytes(conn, volume, up->fd, up->bytes - end, (size_t)end))
		return rk_err_set(err, RK_FAILED, "tray \"%s\": the image reads back otherwise than it was written", lv->hv.site->trays[tray].name);
	return 0;
}

int rk_lv_volume_upload(struct rk_hv *hv, int tray, const char *pool_name, const char *name, const struct rk_hv_upload *up, struct rk_err *err)
{
	struct rk_libvirt *lv = (struct rk_libvirt *)hv;
	struct rk_str xml RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_hv_upload rest = *up;
	virConnectPtr conn;
	int rc = rk_lv_enter(hv, tray, true, &conn, err);

	if (rc != 0)
		return rc;
	virStoragePoolPtr pool RK_LV_CLEANUP_POOL = rk_lv_open_pool(conn, pool_name);
	if (!pool)
		return rk_lv_leave(hv, tray, rk_lv_failed(lv, tray, "opening the storage pool", err));
	virStorageVolPtr volume RK_LV_CLEANUP_VOLUME = virStorageVolLookupByName(pool, name);
	if (volume && rk_lv_physical_bytes(volume) != up->bytes)
		return rk_lv_leave(hv, tray, rk_err_set(err, RK_CONFLICT, "tray \"%s\": volume \"%s/%s\" is there with another length", hv->site->trays[tray].name,
						  pool_name, name));
	if (!volume) {
		rest.done = 0; /* what was sent went into another volume; this one is all zeros, and so may the image be where they are compared */
		/* Raw, whatever is inside: libvirt looks at the content when it lists the pool again. */
		rk_volume_xml(&xml, name, up->bytes, "raw", NULL, NULL);
		rk_lv_trace(lv, tray, "volume create and upload", rk_str_text(&xml));
		volume = virStorageVolCreateXML(pool, rk_str_text(&xml), 0);
	}
	rc = volume ? upload_all(lv, tray, conn, volume, &rest, err) : rk_lv_failed(lv, tray, "creating a volume", err);
	virStoragePoolRefresh(pool, 0);
	return rk_lv_leave(hv, tray, rc);
}
