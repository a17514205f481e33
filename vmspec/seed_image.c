#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include <pthread.h>
#include <stdint.h>

/* The header then defines struct burn_source itself; libburn is not needed. */
#define LIBISOFS_WITHOUT_LIBBURN
#include <libisofs/libisofs.h>

#include "vmspec/vmspec.h"

static int iso_failed(int code, const char *what, struct rk_err *err)
{
	return rk_err_set(err, RK_FAILED, "cannot make the seed image: %s: %s", what, iso_error_to_msg(code));
}

static int add_file(IsoImage *image, const struct rk_seed_file *file, struct rk_err *err)
{
	IsoStream *stream = NULL;
	IsoFile *node = NULL;
	size_t len = strlen(file->text);
	unsigned char *copy = rk_xmalloc(len);

	memcpy(copy, file->text, len);
	int code = iso_memory_stream_new(copy, len, &stream);
	if (code < 0) {
		free(copy);
		return iso_failed(code, "stream", err);
	}
	code = iso_tree_add_new_file(iso_image_get_root(image), file->name, stream, &node);
	if (code < 0) {
		iso_stream_unref(stream);
		return iso_failed(code, file->name, err);
	}
	iso_node_set_mtime(ISO_NODE(node), 0);
	iso_node_set_atime(ISO_NODE(node), 0);
	iso_node_set_ctime(ISO_NODE(node), 0);
	iso_node_set_permissions(ISO_NODE(node), 0400);
	iso_node_set_uid(ISO_NODE(node), 0);
	iso_node_set_gid(ISO_NODE(node), 0);
	return 0;
}

/* Same input, same bytes: every time stamp is fixed. */
static void fix_times(IsoWriteOpts *opts)
{
	iso_write_opts_set_iso_level(opts, 1);
	iso_write_opts_set_rockridge(opts, 1);
	iso_write_opts_set_joliet(opts, 1);
	iso_write_opts_set_replace_timestamps(opts, 1);
	iso_write_opts_set_default_timestamp(opts, 0);
	iso_write_opts_set_always_gmt(opts, 1);
	iso_write_opts_set_pvd_times(opts, 0, 0, 0, 0, (char *)"1970010100000000");
}

static int read_source(struct burn_source *source, struct rk_str *out, struct rk_err *err)
{
	unsigned char block[2048];
	int n;

	while ((n = source->read_xt ? source->read_xt(source, block, sizeof(block)) : source->read(source, block, sizeof(block))) == (int)sizeof(block))
		rk_str_addn(out, (const char *)block, sizeof(block));
	return n < 0 ? rk_err_set(err, RK_FAILED, "cannot make the seed image: it ended early") : 0;
}

static int write_image(IsoImage *image, struct rk_str *out, struct rk_err *err)
{
	IsoWriteOpts *opts = NULL;
	struct burn_source *source = NULL;
	int code = iso_write_opts_new(&opts, 0);

	if (code < 0)
		return iso_failed(code, "options", err);
	fix_times(opts);
	code = iso_image_create_burn_source(image, opts, &source);
	iso_write_opts_free(opts);
	if (code < 0)
		return iso_failed(code, "source", err);
	int rc = read_source(source, out, err);
	source->free_data(source);
	free(source);
	return rc;
}

/* libisofs keeps its message queue and inode counters in process-wide state. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static int make_image(const struct rk_seed_file *files, size_t n, void **ret, size_t *ret_len, struct rk_err *err)
{
	struct rk_str out = RK_STR_INIT;
	IsoImage *image = NULL;
	int rc = 0, code = iso_init();

	if (code < 0)
		return iso_failed(code, "library", err);
	code = iso_image_new("cidata", &image);
	if (code < 0)
		return iso_failed(code, "image", err);
	iso_set_msgs_severities((char *)"NEVER", (char *)"NEVER", (char *)"racksh");
	iso_image_set_volume_id(image, "cidata");
	iso_node_set_mtime(ISO_NODE(iso_image_get_root(image)), 0);
	iso_node_set_atime(ISO_NODE(iso_image_get_root(image)), 0);
	iso_node_set_ctime(ISO_NODE(iso_image_get_root(image)), 0);
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_file(image, &files[i], err);
	if (!rc)
		rc = write_image(image, &out, err);
	iso_image_unref(image);
	if (!rc) {
		*ret_len = out.len;
		*ret = rk_str_steal(&out);
	}
	if (out.text)
		explicit_bzero(out.text, out.cap);
	rk_str_clear(&out);
	return rc;
}

int rk_seed_image(const struct rk_seed_file *files, size_t n, void **ret, size_t *ret_len, struct rk_err *err)
{
	pthread_mutex_lock(&one_at_a_time);
	int rc = make_image(files, n, ret, ret_len, err);
	pthread_mutex_unlock(&one_at_a_time);
	return rc;
}
