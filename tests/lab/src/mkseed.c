/* `mkseed IMAGE FILE...`: a NoCloud seed (ISO 9660, label cidata) of these files. For the lab's own test; racksh makes its seeds itself. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define LIBISOFS_WITHOUT_LIBBURN
#include <libisofs/libisofs.h>

static int fail(const char *what, int code)
{
	fprintf(stderr, "mkseed: %s: %s\n", what, iso_error_to_msg(code));
	return 1;
}

static int write_image(IsoImage *image, const char *path)
{
	IsoWriteOpts *opts;
	struct burn_source *source;
	unsigned char block[2048];
	FILE *file = fopen(path, "we");

	if (!file || iso_write_opts_new(&opts, 0) < 0)
		return 1;
	iso_write_opts_set_rockridge(opts, 1);
	int code = iso_image_create_burn_source(image, opts, &source);
	iso_write_opts_free(opts);
	if (code < 0)
		return fail(path, code);
	while (source->read_xt(source, block, sizeof(block)) == (int)sizeof(block))
		fwrite(block, 1, sizeof(block), file);
	source->free_data(source);
	free(source);
	return fclose(file) != 0;
}

int main(int argc, char **argv)
{
	IsoImage *image;
	int code = iso_init();

	if (argc < 3 || code < 0 || (code = iso_image_new("cidata", &image)) < 0)
		return fail("usage: mkseed IMAGE FILE...", code);
	iso_image_set_volume_id(image, "cidata");
	for (int i = 2; i < argc; i++) {
		char *path = realpath(argv[i], NULL); /* the library knows absolute ones only */
		code = path ? iso_tree_add_node(image, iso_image_get_root(image), path, NULL) : -1;
		free(path);
		if (code < 0)
			return fail(argv[i], code);
	}
	return write_image(image, argv[1]);
}
