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

/* ---- the files -------------------------------------------------------------------------------------------------------------- */

/* The code point at *text, which is moved behind it; U+FFFD for a byte that is no UTF-8. */
static unsigned code_point(const char **text)
{
	const unsigned char *c = (const unsigned char *)*text;
	size_t len = *c < 0x80 ? 1 : *c < 0xe0 ? 2 : *c < 0xf0 ? 3 : 4;

	if (rk_utf8_valid(*text, strnlen(*text, len)) != len) {
		(*text)++;
		return 0xfffd;
	}
	unsigned point = len == 1 ? *c : *c & (0xffu >> (len + 1));
	for (size_t i = 1; i < len; i++)
		point = point << 6 | (c[i] & 0x3f);
	*text += len;
	return point;
}

/* A YAML double-quoted scalar. All but ASCII is escaped: raw C1 controls make a reader refuse the whole file, and U+0085 and U+2028
 * end a line. */
static void quoted(struct rk_str *out, const char *text)
{
	rk_str_addc(out, '"');
	while (*text) {
		unsigned c = code_point(&text);
		if (c == '"' || c == '\\')
			rk_str_addf(out, "\\%c", (int)c);
		else if (c >= 0x20 && c < 0x7f)
			rk_str_addc(out, (char)c);
		else
			rk_str_addf(out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
	}
	rk_str_addc(out, '"');
}

/* A literal block, every line indented by `indent`. */
static void literal(struct rk_str *out, int indent, const char *text)
{
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		rk_str_addf(out, "%*s%.*s\n", indent, "", (int)len, line);
		line += len + (line[len] == '\n');
	}
}

static void keys(struct rk_str *out, int indent, const struct rk_seed_input *in)
{
	rk_str_addf(out, "%*sssh_authorized_keys:\n", indent, "");
	for (size_t i = 0; i < in->n_keys; i++) {
		rk_str_addf(out, "%*s- ", indent + 2, "");
		quoted(out, in->keys[i]);
		rk_str_addc(out, '\n');
	}
}

static void user_data(struct rk_str *out, const struct rk_seed_input *in)
{
	rk_str_add(out, "#cloud-config\n");
	rk_str_addf(out, "ssh_pwauth: false\ndisable_root: %s\n", strcmp(in->user, "root") == 0 ? "false" : "true");
	rk_str_add(out, "ssh_deletekeys: true\nssh_genkeytypes: []\nssh_keys:\n  ed25519_private: |\n");
	literal(out, 4, in->host_key_private ? in->host_key_private : "(made at create)\n");
	rk_str_add(out, "  ed25519_public: ");
	quoted(out, in->host_key_public ? in->host_key_public : "(made at create)");
	rk_str_addc(out, '\n');
	rk_str_add(out, "users:\n  - name: ");
	quoted(out, in->user);
	rk_str_add(out, strcmp(in->user, "root") == 0 ? "\n" : "\n    shell: /bin/bash\n    sudo: \"ALL=(ALL) NOPASSWD:ALL\"\n    lock_passwd: true\n");
	keys(out, 4, in);
	keys(out, 0, in);
	rk_str_add(out, "write_files:\n  - path: /etc/nvidia-imex/nodes_config.cfg\n    permissions: \"0644\"\n    content: |\n");
	for (size_t i = 0; i < in->n_imex_nodes; i++)
		rk_str_addf(out, "      %s\n", in->imex_nodes[i]);
	rk_str_add(out, "runcmd:\n  - [systemctl, enable, --now, nvidia-imex.service]\n");
}

static void meta_data(struct rk_str *out, const struct rk_seed_input *in)
{
	rk_str_add(out, "instance-id: ");
	quoted(out, in->vm);
	out->text[--out->len] = '\0';
	rk_str_addf(out, "-g%d\"\nlocal-hostname: ", in->generation);
	quoted(out, in->hostname);
	rk_str_addc(out, '\n');
}

static void address(struct rk_str *out, const struct rk_seed_input *in)
{
	int whole = strchr(in->address, ':') ? 128 : 32, length = in->prefix_length ? in->prefix_length : whole;
	char *text RK_CLEANUP_FREE = rk_xasprintf("%s/%d", in->address, length);

	rk_str_add(out, "    addresses:\n      - ");
	quoted(out, text);
	rk_str_addc(out, '\n');
	if (!in->gateway)
		return;
	rk_str_add(out, "    routes:\n      - to: default\n        via: ");
	quoted(out, in->gateway);
	rk_str_addc(out, '\n');
	/* Outside the prefix, the gateway would have no route itself. */
	if (length == whole)
		rk_str_add(out, "        on-link: true\n");
}

static void name_servers(struct rk_str *out, const struct rk_seed_input *in)
{
	if (!in->n_dns)
		return;
	rk_str_add(out, "    nameservers:\n      addresses:\n");
	for (size_t i = 0; i < in->n_dns; i++) {
		rk_str_add(out, "        - ");
		quoted(out, in->dns[i]);
		rk_str_addc(out, '\n');
	}
}

static void network_config(struct rk_str *out, const struct rk_seed_input *in)
{
	rk_str_add(out, "version: 2\nethernets:\n  front:\n    match:\n      macaddress: ");
	quoted(out, in->mac);
	rk_str_add(out, "\n    set-name: eth0\n");
	if (in->user_network)
		rk_str_add(out, "    addresses:\n      - \"10.0.2.15/24\"\n    routes:\n      - to: default\n        via: \"10.0.2.2\"\n");
	else if (in->address)
		address(out, in);
	else
		rk_str_add(out, "    dhcp4: true\n");
	name_servers(out, in);
}

void rk_seed_of_site(struct rk_seed_input *in, const struct rk_site *site)
{
	const struct rk_network *net = &site->network;
	const char *slash = net->addresses ? strchr(net->addresses, '/') : NULL;
	uint64_t length = 0;

	if (slash)
		rk_parse_u64(slash + 1, &length);
	in->gateway = net->gateway;
	in->prefix_length = (int)length;
	in->user_network = net->user;
	in->dns = net->dns;
	in->n_dns = net->n_dns;
}

void rk_seed_files(const struct rk_seed_input *in, struct rk_arena *arena, struct rk_seed_file **ret, size_t *ret_n)
{
	static const struct {
		const char *name;
		void (*render)(struct rk_str *out, const struct rk_seed_input *in);
	} files[] = { { "meta-data", meta_data }, { "user-data", user_data }, { "network-config", network_config } };
	struct rk_seed_file *out = rk_arena_array(arena, RK_ARRAY_SIZE(files), sizeof(*out));

	for (size_t i = 0; i < RK_ARRAY_SIZE(files); i++) {
		struct rk_str text = RK_STR_INIT;
		files[i].render(&text, in);
		out[i] = (struct rk_seed_file){ files[i].name, rk_arena_strdup(arena, rk_str_text(&text)) };
		/* The text holds the private host key. */
		explicit_bzero(text.text, text.cap);
		rk_str_clear(&text);
	}
	*ret = out;
	*ret_n = RK_ARRAY_SIZE(files);
}

/* ---- the image --------------------------------------------------------------------------------------------------------------- */

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
