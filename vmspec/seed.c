#include <stdio.h>
#include <string.h>

#include "inventory/base/digest.h"
#include "vmspec/vmspec.h"

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

/* The host key that is pinned. Sealed: it has been taken, and nothing may delete or replace it. */
static void host_key(struct rk_str *out, const struct rk_seed_input *in)
{
	if (in->sealed) {
		rk_str_add(out, "ssh_deletekeys: false\nssh_genkeytypes: [ed25519]\n");
		return;
	}
	/* With keys given, cloud-init deletes those that are there and makes none of its own. */
	rk_str_add(out, "ssh_deletekeys: true\nssh_keys:\n  ed25519_private: |\n");
	literal(out, 4, in->host_key_private ? in->host_key_private : "(made at create)\n");
	rk_str_add(out, "  ed25519_public: ");
	quoted(out, in->host_key_public ? in->host_key_public : "(made at create)");
	rk_str_addc(out, '\n');
}

static void login(struct rk_str *out, const struct rk_seed_input *in)
{
	bool root = strcmp(in->user, "root") == 0;

	rk_str_add(out, "users:\n  - name: ");
	quoted(out, in->user);
	rk_str_add(out, root ? "\n" : "\n    shell: /bin/bash\n    sudo: \"ALL=(ALL) NOPASSWD:ALL\"\n    lock_passwd: true\n");
	keys(out, 4, in);
	keys(out, 0, in);
}

static void cloud_config(struct rk_str *out, const struct rk_seed_input *in)
{
	rk_str_add(out, "#cloud-config\n");
	rk_str_addf(out, "ssh_pwauth: false\ndisable_root: %s\n", strcmp(in->user, "root") == 0 ? "false" : "true");
	host_key(out, in);
	login(out, in);
	rk_str_add(out, "write_files:\n  - path: /etc/nvidia-imex/nodes_config.cfg\n    permissions: \"0644\"\n    content: |\n");
	for (size_t i = 0; i < in->n_imex_nodes; i++)
		rk_str_addf(out, "      %s\n", in->imex_nodes[i]);
	rk_str_add(out, "runcmd:\n  - [systemctl, enable, --now, nvidia-imex.service]\n");
}

/* As long as it was before it was sealed, so that the image can be written over the one that the guest has. */
static void sealed_config(struct rk_str *out, const struct rk_seed_input *in)
{
	struct rk_str before RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_seed_input open = *in;
	size_t start = out->len;

	open.sealed = false;
	cloud_config(&before, &open);
	cloud_config(out, in);
	while (out->len - start < before.len)
		rk_str_addc(out, out->len - start + 1 == before.len ? '\n' : '#');
	explicit_bzero(before.text, before.cap);
}

/* ---- parts -------------------------------------------------------------------------------------------------------------------------- */

/* Lines of 76 characters, as mail wants them. */
static void base64_lines(struct rk_str *out, const char *text)
{
	struct rk_str all RK_CLEANUP_STR = RK_STR_INIT;

	rk_base64_add(&all, text, strlen(text));
	for (size_t i = 0; i < all.len; i += 76)
		rk_str_addf(out, "%.76s\n", all.text + i);
}

static void part(struct rk_str *out, const char *boundary, const char *type, const char *more)
{
	rk_str_addf(out, "--%s\nContent-Type: %s; charset=\"utf-8\"\nMIME-Version: 1.0\n%s\n", boundary, type, more);
}

/* racksh's part first. The user's lists are appended, what both set stays racksh's: a pinned host key is worth nothing when it can be
 * overwritten by accident. */
static void several_parts(struct rk_str *out, const char *own, const char *user)
{
	bool script = rk_starts_with(user, "#!");
	char digest[65], boundary[48];

	/* No line of a part begins with it: of racksh's own because of its words, of the user's because that is base64. */
	rk_sha256_hex(user, strlen(user), digest);
	snprintf(boundary, sizeof(boundary), "=_racksh_%.32s", digest);
	rk_str_addf(out, "Content-Type: multipart/mixed; boundary=\"%s\"\nMIME-Version: 1.0\n\n", boundary);
	part(out, boundary, "text/cloud-config", "Content-Transfer-Encoding: 7bit\n");
	rk_str_add(out, own);
	part(out, boundary, script ? "text/x-shellscript" : "text/cloud-config",
	     script ? "Content-Transfer-Encoding: base64\nContent-Disposition: attachment; filename=\"user-data\"\n"
		    : "Content-Transfer-Encoding: base64\nX-Merge-Type: list(append)+dict(no_replace,recurse_list)+str()\n");
	base64_lines(out, user);
	rk_str_addf(out, "--%s--\n", boundary);
}

static void user_data(struct rk_str *out, const struct rk_seed_input *in)
{
	struct rk_str own RK_CLEANUP_STR = RK_STR_INIT;

	if (in->sealed)
		sealed_config(&own, in);
	else
		cloud_config(&own, in);
	if (in->user_data)
		several_parts(out, rk_str_text(&own), in->user_data);
	else
		rk_str_addn(out, own.text, own.len);
	explicit_bzero(own.text, own.cap);
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
	in->user_network = rk_network_is_user(net);
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

void rk_seed_wipe(struct rk_seed_file *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		explicit_bzero(files[i].text, strlen(files[i].text));
}
