/* What is in volumes: read, and written; images in pieces that the host acknowledges, so that an upload can go on where it was broken off. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provision/drivers/hv_libvirt_impl.h"
#include "provision/drivers/volume_xml.h"

enum { PIECE = 64 << 10, CHUNK = 64 << 20 /* acknowledged as a whole */ };

/* Ends a transfer; only a finished stream is data on the host. stream may be NULL. */
static int end_stream(struct rk_libvirt *lv, int tray, virStreamPtr stream, bool good, const char *what, struct rk_err *err)
{
	int rc = stream && good && virStreamFinish(stream) == 0 ? 0 : rk_lv_failed(lv, tray, what, err);

	if (stream && rc)
		virStreamAbort(stream);
	if (stream)
		virStreamFree(stream);
	return rc;
}

static ssize_t take(const struct rk_lv_source *from, uint64_t at, char *bytes, size_t n)
{
	if (!from->data)
		return pread(from->fd, bytes, n, (off_t)at);
	memcpy(bytes, from->data + at, n);
	return (ssize_t)n;
}

int rk_lv_send(struct rk_libvirt *lv, int tray, virStorageVolPtr volume, const struct rk_lv_source *from, uint64_t offset, uint64_t n, const char *what,
	       struct rk_err *err)
{
	char *buffer RK_CLEANUP_FREE = rk_xmalloc(PIECE);
	virStreamPtr stream = virStreamNew(virStorageVolGetConnect(volume), 0);
	bool good = stream && virStorageVolUpload(volume, stream, offset, n, 0) == 0;
	int error = 0;
	ssize_t got = 1;

	for (uint64_t sent = 0; good && sent < n;) {
		got = take(from, offset + sent, buffer, n - sent < PIECE ? (size_t)(n - sent) : PIECE);
		error = errno;
		int went = got > 0 ? virStreamSend(stream, buffer, (size_t)got) : -1;
		good = went >= 0;
		sent += good ? (uint64_t)went : 0;
	}
	int rc = end_stream(lv, tray, stream, good, what, err);
	return got > 0 ? rc : rk_err_set(err, RK_FAILED, "tray \"%s\": %s: reading the file here: %s", lv->hv.site->trays[tray].name, what,
					 got < 0 ? strerror(error) : "it is shorter than it was");
}

static int download(struct rk_libvirt *lv, int tray, virStorageVolPtr volume, uint64_t offset, char *bytes, size_t n, const char *what, struct rk_err *err)
{
	virStreamPtr stream = virStreamNew(virStorageVolGetConnect(volume), 0);
	bool good = stream && virStorageVolDownload(volume, stream, offset, n, 0) == 0;
	size_t got = 0;

	while (good && got < n) {
		int came = virStreamRecv(stream, bytes + got, n - got);
		good = came > 0;
		got += good ? (size_t)came : 0;
	}
	return end_stream(lv, tray, stream, good, what, err);
}

int rk_lv_volume_read(struct rk_hv *hv, int tray, const char *pool_name, const char *name, uint64_t offset, void *bytes, size_t n, struct rk_err *err)
{
	static const char what[] = "reading a volume";
	struct rk_libvirt *lv = (struct rk_libvirt *)hv;
	virConnectPtr conn;
	int rc = rk_lv_enter(hv, tray, false, &conn, err);

	if (rc != 0)
		return rc;
	virStoragePoolPtr pool RK_LV_CLEANUP_POOL = virStoragePoolLookupByName(conn, pool_name);
	virStorageVolPtr volume RK_LV_CLEANUP_VOLUME = pool ? virStorageVolLookupByName(pool, name) : NULL;
	rc = volume ? download(lv, tray, volume, offset, bytes, n, what, err) : rk_lv_failed(lv, tray, what, err);
	return rk_lv_leave(hv, tray, rc);
}

/* Does the host have the same bytes there as the local file? Fails when they cannot be read. */
static int compare(struct rk_libvirt *lv, int tray, virStorageVolPtr volume, int fd, uint64_t offset, size_t n, bool *ret, struct rk_err *err)
{
	char *ours RK_CLEANUP_FREE = rk_xmalloc(PIECE), *theirs RK_CLEANUP_FREE = rk_xmalloc(PIECE);
	int rc = download(lv, tray, volume, offset, theirs, n, "reading the image back", err);

	*ret = rc == 0 && pread(fd, ours, n, (off_t)offset) == (ssize_t)n && memcmp(ours, theirs, n) == 0;
	return rc;
}

/* The first and the last piece. */
static int read_back(struct rk_libvirt *lv, int tray, virStorageVolPtr volume, const struct rk_hv_upload *up, uint64_t piece, struct rk_err *err)
{
	bool same;
	int rc = compare(lv, tray, volume, up->fd, 0, (size_t)piece, &same, err);

	if (rc == 0 && same)
		rc = compare(lv, tray, volume, up->fd, up->bytes - piece, (size_t)piece, &same, err);
	return rc || same ? rc : rk_err_set(err, RK_FAILED, "tray \"%s\": the image reads back otherwise than it was written", lv->hv.site->trays[tray].name);
}

static int upload_all(struct rk_libvirt *lv, int tray, virStorageVolPtr volume, const struct rk_hv_upload *up, struct rk_err *err)
{
	const struct rk_lv_source from = { .fd = up->fd };
	uint64_t piece = up->bytes < PIECE ? up->bytes : PIECE, done = up->done;
	bool same;

	if (done > up->bytes || done < piece || compare(lv, tray, volume, up->fd, done - piece, (size_t)piece, &same, NULL) != 0 || !same)
		done = 0;
	while (done < up->bytes) {
		uint64_t n = up->bytes - done < CHUNK ? up->bytes - done : CHUNK;
		int rc = rk_lv_send(lv, tray, volume, &from, done, n, "uploading an image", err);
		if (rc)
			return rc;
		done += n;
		if (!up->progress(up->ctx, done))
			return rk_err_set(err, RK_CANCELLED, "tray \"%s\": stopped after %llu of %llu bytes", lv->hv.site->trays[tray].name,
					  (unsigned long long)done, (unsigned long long)up->bytes);
	}
	return read_back(lv, tray, volume, up, piece, err);
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
	virStoragePoolPtr pool RK_LV_CLEANUP_POOL = NULL;
	if ((rc = rk_lv_open_pool(lv, tray, conn, pool_name, &pool, err)) != 0)
		return rk_lv_leave(hv, tray, rc);
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
	rc = volume ? upload_all(lv, tray, volume, &rest, err) : rk_lv_failed(lv, tray, "creating a volume", err);
	virStoragePoolRefresh(pool, 0);
	return rk_lv_leave(hv, tray, rc);
}
