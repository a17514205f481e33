#include <sys/stat.h>

#include "cli/cmds/common.h"
#include "provision/image.h"

static int used_by(const struct rk_site *site, const char *image)
{
	int n = 0;

	for (size_t i = 0; i < site->n_clusters; i++)
		n += rk_streq(site->clusters[i].image, image);
	return n;
}

static int list(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	(void)err;
	for (size_t i = 0; i < site->n_images; i++) {
		const struct rk_image *image = &site->images[i];
		rk_out_row(call->out);
		rk_cell_text(call->out, "name", image->name);
		rk_cell_text(call->out, "volume", image->volume);
		rk_cell_text(call->out, "arch", image->arch);
		rk_cell_text(call->out, "format", image->format);
		rk_cell_text(call->out, "checksum", image->checksum);
		rk_cell_number(call->out, "clusters", used_by(site, image->name));
	}
	return 0;
}

static void show_added(struct rk_call *call, const struct rk_image_added *added)
{
	rk_out_row(call->out);
	rk_cell_text(call->out, "name", added->image.name);
	rk_cell_text(call->out, "volume", added->image.volume);
	rk_cell_text(call->out, "arch", added->image.arch);
	rk_cell_text(call->out, "format", added->image.format);
	rk_cell_text(call->out, "checksum", added->image.checksum);
	if (!added->bytes)
		return;
	rk_cell_number(call->out, "bytes", (long long)added->bytes);
	rk_cell_number(call->out, "disk_bytes", (long long)added->disk_bytes);
	rk_cell_number(call->out, "trays", (long long)added->trays);
}

static int add(struct rk_call *call, struct rk_err *err)
{
	const char *what = rk_call_arg(call, "PATH|VOL");
	char *folder RK_CLEANUP_FREE = rk_state_folder();
	struct stat st;
	bool file = *what == '/' || *what == '.' || stat(what, &st) == 0;
	const struct rk_image_add request = {
		.name = rk_call_arg(call, "NAME"), .path = file ? what : NULL, .volume = what, .arch = rk_call_arg(call, "arch"),
		.format = rk_call_arg(call, "format"), .checksum = rk_call_arg(call, "checksum"), .pool = rk_call_arg(call, "pool"), .trays = rk_call_arg(call, "trays"), .except = call->except,
		/* The twin forgets: nothing goes on later. */
		.state_folder = call->world->sim ? NULL : folder, .dry_run = call->dry_run,
	};
	struct rk_image_added added;

	if (!file && request.checksum) {
		rk_err_set(err, RK_INVALID, "--checksum is for a file: the content of a volume stays on the trays and is not compared");
		rk_err_hint(err, "leave --checksum out, or name the file");
		return RK_INVALID;
	}
	if (file && call->world->bundle)
		return rk_err_set(err, RK_INVALID, "a file goes to the trays at once, and cannot be staged: run image add before begin");
	int rc = rk_image_add(call->world, &request, call->arena, &added, err);

	if (!rc)
		show_added(call, &added);
	return rc;
}

static int remove_image(struct rk_call *call, const void *data, struct rk_err *err)
{
	(void)data;
	return rk_store_remove_image(call->world->store, rk_call_arg(call, "IMAGE"), err);
}

static int take_away(struct rk_call *call, struct rk_err *err)
{
	const char *name = rk_call_arg(call, "IMAGE");
	const struct rk_site *site = call->world->site;
	int at, rc = rk_get_image(call, name, &at, err);

	if (!rc)
		rc = rk_in_transaction(call, remove_image, NULL, err);
	if (rc)
		return rc;
	if (call->dry_run)
		rk_out_note(call->out, "would forget image %s", name);
	if (site->images[at].volume)
		rk_out_note(call->out, "the volume %s stays on the trays", site->images[at].volume);
	return 0;
}

static const struct rk_command rows[] = {
	{ .noun = "image", .verb = "list", .summary = "list the images of the site", .list = true, .examples = RK_EXAMPLES("image list"), .run = list,
	  .columns = RK_COLUMNS({ "name", RK_COL_TEXT }, { "volume", RK_COL_TEXT }, { "arch", RK_COL_TEXT }, { "format", RK_COL_TEXT },
				{ "clusters", RK_COL_NUMBER }, { "checksum", RK_COL_TEXT, .wide = true }) },
	{ .noun = "image", .verb = "add", .summary = "add an image: a local file goes to the trays, a volume is there already", .flags = RK_CMD_CHANGES | RK_CMD_STAGES | RK_CMD_REMOTE | RK_CMD_SELECTS,
	  .args = RK_ARGS({ .name = "NAME", .type = RK_ARG_TEXT, .required = true, .help = "name for the image" },
			  { .name = "PATH|VOL", .type = RK_ARG_FILE, .required = true, .help = "qcow2 or raw file, or POOL/VOLUME on the trays" }),
	  .options = RK_ARGS({ .name = "arch", .type = RK_ARG_ENUM, .values = "aarch64|x86_64", .help = "architecture; default: of the partition table, else of the site" },
			     { .name = "format", .type = RK_ARG_ENUM, .values = "qcow2|raw", .help = "format, checked" },
			     { .name = "checksum", .type = RK_ARG_TEXT, .help = "SHA-256 that a file must have" },
			     { .name = "pool", .type = RK_ARG_TEXT, .help = "storage pool for a file; default: the site's" },
			     { .name = "trays", .type = RK_ARG_SEL_TRAYS, .help = "trays that get the file or have the volume; default: all that are not offline" }),
	  .columns = RK_COLUMNS({ "name", RK_COL_TEXT }, { "volume", RK_COL_TEXT }, { "arch", RK_COL_TEXT }, { "format", RK_COL_TEXT }, { "checksum", RK_COL_TEXT },
				{ "bytes", RK_COL_NUMBER }, { "disk_bytes", RK_COL_NUMBER }, { "trays", RK_COL_NUMBER }),
	  .description = "A file is judged by its own header: an image that names another file of the host, is encrypted, or was not closed cleanly is refused, and "
			 "one for another architecture too, where its partition table says so. It goes through libvirt's storage interface, many trays at once; both "
			 "ends are read back. An upload that was broken off goes on where it stopped when the command is given again. A volume is judged where it is, "
			 "and must be of the same format and length on all trays; its content is not compared.",
	  .examples = RK_EXAMPLES("image add ubuntu-next default/ubuntu-next.qcow2"), .run = add },
	{ .noun = "image", .verb = "remove", .summary = "forget an image that no cluster uses", .flags = RK_CMD_CHANGES | RK_CMD_STAGES, .run = take_away,
	  .args = RK_ARGS({ .name = "IMAGE", .type = RK_ARG_IMAGE, .required = true, .help = "name of an image" }),
	  .description = "Its volume stays on the trays.", .examples = RK_EXAMPLES("image remove spare") },
};
RK_NOUN(image, "images that VMs start from", NULL, rows);
