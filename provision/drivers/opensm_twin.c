/* --twin-check: what OpenSM makes of a partitions file, seen in a copy of the fabric before the fabric itself sees it (field/infiniband.md 2.4 step 4).
 * The fabric as ibnetdiscover shows it now is simulated by ibsim, on the manager's host or here, wherever ibsim is installed; OpenSM sweeps it once
 * with the new file, and the tables of all ports are compared with what the file means. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/digest.h"
#include "provision/drivers/opensm_impl.h"
#include "provision/local.h"

enum { TWIN_MS = 300000 };

/* NONCE SIM_HOST; on standard input the reader in base64, "NONCE net", the fabric, "NONCE file", the partitions file. */
static const char twin_script[] =
	"n=$1 h=$2 s=\n"
	"no() { printf '%s no %s\\n' \"$n\" \"$1\"; exit 0; }\n"
	"PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin\n"
	"command -v ibsim >/dev/null && command -v opensm >/dev/null || no 'ibsim or opensm is not installed'\n"
	"u=$(find /usr/lib /usr/lib64 /usr/local/lib -name libumad2sim.so 2>/dev/null | head -n 1)\n"
	"[ -n \"$u\" ] || no 'libumad2sim is not installed'\n"
	"umask 077\n"
	"d=$(mktemp -d) && cd \"$d\" || no 'no folder for a simulated fabric'\n"
	"trap '[ -z \"$s\" ] || kill \"$s\"; cd /; rm -rf \"$d\"' EXIT\n"
	"trap 'exit 1' HUP INT TERM PIPE\n"
	"cat > all && sed \"/^$n net\\$/,\\$d\" all | base64 -d > reader && chmod 700 reader &&\n"
	" sed \"1,/^$n net\\$/d; /^$n file\\$/,\\$d\" all > net && sed \"1,/^$n file\\$/d\" all > partitions || no 'no room for a simulated fabric'\n"
	"[ \"$(./reader --form 2>why)\" = 1 ] || no \"the reader does not run: $(head -n 1 why)\"\n"
	"set -- $(awk '/^(Switch|Ca|Hca|Rt)[ \\t]/ { n++; p += $2 + 1 } /^Switch/ { s++ } END { print n + 16, s + 16, p + 64 }' net)\n"
	"export IBSIM_SOCKNAME=\"racksh.${d##*.}\" OSM_TMP_DIR=\"$d\" OSM_CACHE_DIR=\"$d\"\n"
	"ibsim -n -s -N \"$1\" -S \"$2\" -P \"$3\" net </dev/null >sim 2>&1 &\n"
	"s=$! i=0\n"
	"until grep -q \"@$IBSIM_SOCKNAME:ctl\" /proc/net/unix; do\n"
	" i=$((i + 1)); [ \"$i\" -lt 300 ] && kill -0 \"$s\" 2>/dev/null || no \"ibsim does not start: $(tail -n 1 sim)\"; sleep 0.1\n"
	"done\n"
	"echo 'force_log_flush TRUE' > conf\n"
	"LD_PRELOAD=$u SIM_HOST=$h timeout 200 opensm -o -F conf -P \"$d/partitions\" -f \"$d/log\" >said 2>&1 </dev/null || no \"opensm ends with $?: $(tail -n 1 said)\"\n"
	"grep -hE 'PARSE ERROR|onfiguration in error|table is full' log said | head -n 1 | sed \"s/^/$n said /\"\n"
	"LD_PRELOAD=$u SIM_HOST=$h ./reader \"$n\" 2>/dev/null\n";

struct net {
	struct rk_str text;
	const char *manager;              /* node that OpenSM runs on, as ibsim calls it */
	uint64_t manager_port;            /* its port when it is an HCA: SELF; 0: it is a switch */
	struct guids {
		uint64_t *items;
		size_t n, cap;
	} ports;                          /* of all HCAs */
};

/* --- the fabric ------------------------------------------------------------------------------------------------------------------ */

/* What the host of the manager does not tell; command: shows it to a person there. */
static int not_told(struct rk_err *err, const char *what, const char *why, const char *command)
{
	rk_err_set(err, RK_UNREACHABLE, "%s of the manager's host%s%s", what, *why ? ": " : "", why);
	rk_err_hint(err, "is its link up? run there: %s", command);
	return RK_UNREACHABLE;
}

/* Where the subnet manager is: the node of the host's own port. */
static int find_manager(struct rk_ib_ssh *s, struct rk_arena *arena, struct net *net, struct rk_err *err)
{
	static const char *const argv[] = { "smpquery", "-D", "nodeinfo", "0", NULL };
	struct rk_ssh_result r = { .status = -1 };
	int rc = rk_ib_ssh_run_any(s, 30000, argv, NULL, 0, &r, err);
	const char *type = rc ? NULL : strstr(rk_str_text(&r.out), "\nNodeType:"), *guid = rc ? NULL : strstr(rk_str_text(&r.out), "\nGuid:");
	uint64_t value;

	if (rc == 0 && (!type || !guid || sscanf(guid + strlen("\nGuid:"), "%*[.]0x%" SCNx64, &value) != 1))
		rc = not_told(err, "smpquery does not tell the port", rk_first_line(arena, rk_str_text(&r.err)), "smpquery -D nodeinfo 0");
	else if (rc == 0)
		net->manager = rk_arena_printf(arena, "%c-%016" PRIx64, strstr(rk_first_line(arena, type), "Switch") ? 'S' : 'H', value);
	rk_ssh_result_clear(&r);
	return rc;
}

/* "[1](5000e60300010131) …" of a block. */
static bool port_line(const char *line, unsigned *port, uint64_t *guid)
{
	return sscanf(line, "[%u](%" SCNx64 ")", port, guid) == 2 && *guid;
}

/* ibsim counts port GUIDs up from the node's; real HCAs need not do so. The node gets the GUID that makes its ports come out right. */
static void add_block(struct net *net, const char *block, size_t len, struct rk_arena *arena)
{
	const char *text = rk_arena_strndup(arena, block, len), *id = strstr(text, "\nCa\t") ? strchr(strstr(text, "\nCa\t"), '"') : NULL;
	bool ours = id && net->manager && rk_starts_with(id + 1, net->manager);
	uint64_t guid, node = 0;
	unsigned port;

	for (const char *line = text; id && *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (port_line(line, &port, &guid)) {
			node = node ? node : guid - port;
			net->manager_port = ours ? guid : net->manager_port;
			*rk_vec_push(&net->ports) = guid;
		}
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		if (node && rk_starts_with(line, "caguid="))
			rk_str_addf(&net->text, "caguid=0x%" PRIx64 "\n", node);
		else
			rk_str_addf(&net->text, "%.*s\n", (int)strcspn(line, "\n"), line);
	}
	rk_str_add(&net->text, "\n");
}

static int copy_fabric(struct rk_ib_ssh *s, struct rk_arena *arena, struct net *net, struct rk_err *err)
{
	const char *text, *end;
	int rc = find_manager(s, arena, net, err);

	if (rc == 0)
		rc = rk_ib_ssh_discover_locked(s, arena, &text, err);
	for (const char *block = rc ? "" : text; *block; block = end) {
		const char *gap = strstr(block, "\n\n");
		end = gap ? gap + 2 : block + strlen(block);
		add_block(net, block, (size_t)(end - block), arena);
	}
	if (rc == 0 && !net->ports.n)
		rc = not_told(err, "no port of an HCA is seen from the port", "", "ibnetdiscover");
	return rc;
}

/* --- the sweep ------------------------------------------------------------------------------------------------------------------- */

static void add_input(struct rk_str *out, const char *mark, const struct net *net, const struct rk_str *file)
{
	size_t len;
	const char *program = rk_ib_reader_program(&len);

	rk_base64_add(out, program, len);
	rk_str_addf(out, "\n%s net\n%s%s file\n", mark, rk_str_text(&net->text), mark);
	rk_str_addn(out, rk_str_text(file), file->len);
}

static bool ran(const char *mark, int rc, const struct rk_ssh_result *r)
{
	return rc == 0 && !r->truncated && rk_starts_with(rk_str_text(&r->out), mark) && !rk_starts_with(rk_str_text(&r->out) + strlen(mark), " no ");
}

/* On the manager's host, else here. RK_NOT_FOUND: neither can. */
static int sweep(struct opensm *sm, int fabric, const char *mark, const struct net *net, const struct rk_str *file, struct rk_arena *arena,
		 struct rk_ssh_result *r, struct rk_err *err)
{
	const char *argv[] = { "sh", "-c", twin_script, "racksh", mark, net->manager, NULL }, *there;
	struct rk_str input RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;

	add_input(&input, mark, net, file);
	int rc = rk_ib_ssh_run_any(&sm->fabrics[fabric], TWIN_MS, argv, rk_str_text(&input), input.len, r, &ignored);
	if (ran(mark, rc, r))
		return 0;
	if (rc == RK_CANCELLED)
		return rk_err_set(err, rc, "cancelled while OpenSM swept the simulated fabric");
	there = rc ? ignored.message : rk_first_line(arena, r->out.len ? rk_str_text(&r->out) + strcspn(rk_str_text(&r->out), " ") : rk_str_text(&r->err));
	rk_ssh_result_clear(r);
	rc = rk_local_run(argv, rk_str_text(&input), input.len, TWIN_MS, sm->env.cancel, r, err);
	if (rc == RK_CANCELLED || ran(mark, rc, r))
		return rc;
	rk_err_set(err, RK_NOT_FOUND, "no fabric can be simulated, neither on the manager's host (%s) nor here (%s)", there,
		   rk_first_line(arena, r->out.len ? rk_str_text(&r->out) + strcspn(rk_str_text(&r->out), " ") : rk_str_text(&r->err)));
	rk_err_hint(err, "install ibsim and opensm on one of them, or leave out --twin-check");
	return RK_NOT_FOUND;
}

/* --- judging --------------------------------------------------------------------------------------------------------------------- */

/* The word that a partition gives to a port of an HCA: the last rule that is about it; 0 none. */
static unsigned word_for(const struct rk_part *part, uint64_t guid, bool manager)
{
	unsigned word = 0;

	for (size_t i = 0; i < part->n_members; i++) {
		const struct rk_part_member *m = &part->members[i];
		bool about = m->who == RK_PART_GUID ? m->guid == guid : m->who == RK_PART_ALL || m->who == RK_PART_ALL_CAS || (m->who == RK_PART_SELF && manager);
		if (about)
			word = part->pkey | (m->full ? 0x8000u : 0);
	}
	return word;
}

static const char *words_text(struct rk_arena *arena, const uint16_t *words, size_t n)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < n; i++)
		rk_str_addf(&out, "%s0x%04x", i ? " " : "", words[i]);
	return n ? rk_arena_strdup(arena, rk_str_text(&out)) : "nothing";
}

static bool same_words(const uint16_t *a, size_t n_a, const uint16_t *b, size_t n_b)
{
	size_t found = 0;

	for (size_t i = 0; i < n_a; i++)
		for (size_t k = 0; k < n_b; k++)
			found += a[i] == b[k];
	return n_a == n_b && found == n_a;
}

static int comes_out_otherwise(const struct rk_ib_port *port, const uint16_t *wanted, size_t n, struct rk_arena *arena, struct rk_err *err)
{
	rk_err_set(err, RK_FAILED, "with this file port 0x%016" PRIx64 " would hold %s, not %s", port->guid, words_text(arena, port->pkeys, port->n_pkeys),
		   words_text(arena, wanted, n));
	rk_err_hint(err, "is there more about this port in the manager's partitions file than racksh wrote? racksh ib lint tells what OpenSM makes of it");
	return RK_FAILED;
}

static int judge(const struct net *net, const struct rk_partitions *parts, const struct rk_ib_port *ports, struct rk_arena *arena, struct rk_err *err)
{
	uint16_t *wanted = rk_arena_array(arena, parts->n, sizeof(*wanted));

	for (size_t i = 0; i < net->ports.n; i++) {
		size_t n = 0;
		if (!ports[i].known)
			return rk_err_set(err, RK_UNREACHABLE, "the table of port 0x%016" PRIx64 " of the simulated fabric was not read: %s", ports[i].guid, ports[i].why);
		for (size_t p = 0; p < parts->n; p++)
			if ((wanted[n] = (uint16_t)word_for(&parts->items[p], ports[i].guid, ports[i].guid == net->manager_port)) != 0)
				n++;
		if (!same_words(wanted, n, ports[i].pkeys, ports[i].n_pkeys))
			return comes_out_otherwise(&ports[i], wanted, n, arena, err);
	}
	return 0;
}

static int take_answer(const struct net *net, const char *mark, const char *text, const char *path, const struct rk_str *file, struct rk_arena *arena,
		       struct rk_err *err)
{
	const char *said = rk_arena_printf(arena, "%s said ", mark);
	struct rk_ib_port *ports = rk_arena_array(arena, net->ports.n, sizeof(*ports));
	struct rk_partitions parts;

	if (rk_starts_with(text, said)) {
		rk_err_set(err, RK_FAILED, "OpenSM does not take the new \"%s\": %s", path, rk_first_line(arena, text + strlen(said)));
		rk_err_hint(err, "racksh ib lint, with the manager's file, tells what is wrong in which line");
		return RK_FAILED;
	}
	int rc = rk_partitions_parse(path, rk_str_text(file), file->len, arena, &parts, err);
	if (rc == 0)
		rc = rk_ib_reader_take(text, mark, net->ports.items, net->ports.n, arena, ports, err);
	return rc ? rc : judge(net, &parts, ports, arena, err);
}

int rk_opensm_twin(struct opensm *sm, int fabric, const struct rk_str *file, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char *mark = rk_nonce(arena);
	struct net net = { .text = RK_STR_INIT };
	struct rk_ssh_result r = { .status = -1 };
	int rc = copy_fabric(&sm->fabrics[fabric], arena, &net, err);

	if (rc == 0)
		rc = sweep(sm, fabric, mark, &net, file, arena, &r, err);
	if (rc == 0)
		rc = take_answer(&net, mark, rk_str_text(&r.out), rk_opensm_path(sm, fabric), file, arena, err);
	if (rc)
		rk_err_while(err, "--twin-check: nothing was changed");
	rk_ssh_result_clear(&r);
	rk_str_clear(&net.text);
	free(net.ports.items);
	return rc;
}
