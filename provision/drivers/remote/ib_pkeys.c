/* A program of its own, not a part of racksh: racksh sends it to the host of a subnet manager (provision/drivers/ib_reader.c), where it reads the P_Key
 * table of every HCA port of the fabric in one go. libibumad, which OpenSM needs, too, is loaded when it runs; so it can be built without InfiniBand
 * headers.
 *
 * usage: ib_pkeys NONCE                   all ports of the fabric
 *        ib_pkeys NONCE GUID:ROUTE ...    only these ports, each where a former reading saw it
 *        ib_pkeys --form                  prints the version of its output, 1
 *
 * Only directed-route SMPs (subnet management packets), because planarized (XDR) fabrics take no others: from the local port through every link
 * that is up, a window of them in flight. Output, one line each, numbers in hex but the counts:
 *   NONCE 1                        first line; 1 is the version of this form
 *   table PORTGUID ROUTE CAP WORD... the table of CAP entries; those that are 0 are left out. ROUTE: the ports that lead there, "0.3.17" in decimal
 *   unread PORTGUID REASON         the port is there, its table was not read whole, or it is there twice (then a table may be told, too)
 *   hole NODEGUID PORT REASON      what is behind this port of a switch was not seen
 *   fail REASON                    nothing can be read from here
 *   NONCE end TABLES               last line: without it the answer was cut
 * Exit code 0 whenever the last line came. A port that no line names is not in the fabric, provided that there is no hole.
 *
 * Layouts: InfiniBand Architecture 14.2.1.2 (directed-route SMP), 14.2.5.3 (NodeInfo), 14.2.5.6 (PortInfo), 14.2.5.7 (P_KeyTable). */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASS_DIRECTED = 0x81, METHOD_GET = 1, ATTR_NODE = 0x11, ATTR_PORT = 0x15, ATTR_PKEYS = 0x16, PERMISSIVE_LID = 0xffff };
enum { NODE_CA = 1, NODE_SWITCH = 2, STATE_INIT = 2, PATH_MAX_HOPS = 63, MAD_SIZE = 256, DATA_AT = 64, FORWARD_AT = 128, BLOCK = 32 };
/* VL15 has no flow control: more in flight than switches buffer gets lost. Subnet managers use 4; reading does no more than twice that. */
enum { WINDOW = 8, TIMEOUT_MS = 300, RETRIES = 3, SILENCE_MS = 10000, NODES_MAX = 1 << 17, CAP_MAX = 4096 };

static struct {                            /* of libibumad.so.3 */
	int (*init)(void), (*open_port)(const char *device, int port);
	int (*reg)(int port, int class, int version, uint8_t rmpp, long *methods);
	int (*send)(int port, int agent, void *packet, int length, int timeout_ms, int retries), (*recv)(int port, void *packet, int *length, int timeout_ms);
	int (*set_addr)(void *packet, int lid, int qp, int sl, int qkey), (*status)(void *packet);
	size_t (*size)(void);
	void *(*get_mad)(void *packet);
} umad;

struct route {
	uint8_t hops;
	uint8_t port[PATH_MAX_HOPS + 1];   /* port[0] is not used, as in the packet */
};
struct node {                              /* of switches, and of the port we are on */
	uint64_t guid;
	struct route route;
	uint8_t visited[32];               /* bit per port: what is behind it is known or asked for */
};
struct table {
	uint64_t guid;                     /* of the port */
	struct route route;
	uint16_t cap, left;                /* entries; blocks not here yet */
	char why[32];                      /* of the first block that did not come; "" none */
	uint16_t *words;
};
struct request {
	uint16_t attribute;
	uint32_t modifier;
	int owner;                         /* ATTR_PKEYS: index of the table; else of the node whose port `port` it goes through, or -1: ourselves */
	uint8_t port;
};
struct set {                               /* of GUIDs, open addressing */
	struct slot {
		uint64_t guid;
		int value;
	} *slots;
	size_t n, size;
};
static struct reader {
	const char *nonce;
	int port, agent;                   /* of libibumad */
	void *packet;
	struct node *nodes;
	int n_nodes;
	struct table *tables;
	int n_tables;
	struct request *queue;             /* first in, first out: by the time a switch's ports come up, most were seen from the other side */
	size_t queued, sent, queue_size;
	uint64_t *expected;                /* GUIDs at the given routes; NULL: look everywhere */
	struct request flight[WINDOW];
	uint32_t sequence[WINDOW], last;   /* 0: free */
	int in_flight, read_tables;
	struct set switches, ports;
} r;

static void finish(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void finish(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (format) {
		fputs("fail ", stdout);
		vprintf(format, args);
		putchar('\n');
	}
	va_end(args);
	printf("%s end %d\n", r.nonce, r.read_tables);
	exit(fflush(stdout) == 0 ? 0 : 1);
}

/* --- memory ---------------------------------------------------------------------------------------------------------------------- */

static void *grow(void *items, size_t n, size_t *size, size_t item)
{
	if (n < *size)
		return items;
	*size = *size ? *size * 2 : 256;
	items = *size > NODES_MAX * 4 ? NULL : realloc(items, *size * item);
	if (!items)
		finish("the fabric is larger than this program can hold");
	return items;
}

static struct slot *slot_of(const struct set *set, uint64_t guid)
{
	size_t at = (guid * 0x9e3779b97f4a7c15u) >> 32;

	while (set->slots[at & (set->size - 1)].guid && set->slots[at & (set->size - 1)].guid != guid)
		at++;
	return &set->slots[at & (set->size - 1)];
}

static int find(const struct set *set, uint64_t guid)
{
	const struct slot *s = set->size ? slot_of(set, guid) : NULL;

	return s && s->guid ? s->value : -1;
}

static void put(struct set *set, uint64_t guid, int value)
{
	if (set->n * 2 >= set->size) {
		struct set larger = { calloc(set->size ? set->size * 2 : 1024, sizeof(struct slot)), set->n, set->size ? set->size * 2 : 1024 };
		if (!larger.slots)
			finish("out of memory");
		for (size_t i = 0; i < set->size; i++)
			if (set->slots[i].guid)
				*slot_of(&larger, set->slots[i].guid) = set->slots[i];
		free(set->slots);
		*set = larger;
	}
	*slot_of(set, guid) = (struct slot){ guid, value };
	set->n++;
}

/* --- packets --------------------------------------------------------------------------------------------------------------------- */

static uint64_t get_be(const uint8_t *from, int bytes)
{
	uint64_t value = 0;

	while (bytes-- > 0)
		value = value << 8 | *from++;
	return value;
}

static void put_be(uint8_t *to, uint64_t value, int bytes)
{
	while (bytes-- > 0) {
		to[bytes] = (uint8_t)value;
		value >>= 8;
	}
}

static void ask(uint16_t attribute, uint32_t modifier, int owner, uint8_t port)
{
	if (r.sent > r.queued / 2 && r.sent > 4096) {
		memmove(r.queue, r.queue + r.sent, (r.queued - r.sent) * sizeof(*r.queue));
		r.queued -= r.sent;
		r.sent = 0;
	}
	r.queue = grow(r.queue, r.queued, &r.queue_size, sizeof(*r.queue));
	r.queue[r.queued++] = (struct request){ attribute, modifier, owner, port };
}

/* The way a request goes: to the node, and for NodeInfo one link further. False: too far. */
static bool route_of(const struct request *q, struct route *ret)
{
	*ret = (struct route){ 0 };
	if (q->owner < 0)
		return true;
	*ret = q->attribute == ATTR_PKEYS ? r.tables[q->owner].route : r.nodes[q->owner].route;
	if (q->attribute != ATTR_NODE || r.expected)
		return true;
	if (ret->hops >= PATH_MAX_HOPS)
		return false;
	ret->port[++ret->hops] = q->port;
	return true;
}

static void send_request(int slot, const struct request *q, const struct route *route)
{
	uint8_t *mad = umad.get_mad(r.packet);

	memset(r.packet, 0, umad.size() + MAD_SIZE);
	umad.set_addr(r.packet, PERMISSIVE_LID, 0, 0, 0);
	r.last = (r.last + 1) & 0xffffff;
	r.last += r.last == 0;
	r.flight[slot] = *q;
	r.sequence[slot] = r.last;
	r.in_flight++;
	mad[0] = 1;
	mad[1] = CLASS_DIRECTED;
	mad[2] = 1;
	mad[3] = METHOD_GET;
	mad[7] = route->hops;
	put_be(mad + 12, r.last << 8 | (unsigned)slot, 4);
	put_be(mad + 16, q->attribute, 2);
	put_be(mad + 20, q->modifier, 4);
	put_be(mad + 32, PERMISSIVE_LID, 2);
	put_be(mad + 34, PERMISSIVE_LID, 2);
	memcpy(mad + FORWARD_AT, route->port, sizeof(route->port));
	if (umad.send(r.port, r.agent, r.packet, MAD_SIZE, TIMEOUT_MS, RETRIES) < 0)
		finish("sending: %s", strerror(errno));
}

/* --- answers --------------------------------------------------------------------------------------------------------------------- */

static void tell_route(const struct route *route)
{
	printf(" %u", route->port[0]);
	for (int i = 1; i <= route->hops; i++)
		printf(".%u", route->port[i]);
}

static void tell_table(const struct table *t)
{
	if (*t->why) {
		printf("unread %016llx %s\n", (unsigned long long)t->guid, t->why);
		return;
	}
	printf("table %016llx", (unsigned long long)t->guid);
	tell_route(&t->route);
	printf(" %u", t->cap);
	for (int i = 0; i < t->cap; i++)
		if (t->words[i])
			printf(" %04x", t->words[i]);
	putchar('\n');
	r.read_tables++;
}

static void take_block(const struct request *q, const uint8_t *data, const char *why)
{
	struct table *t = &r.tables[q->owner];

	if (why && !*t->why)
		snprintf(t->why, sizeof(t->why), "%s", why);
	for (unsigned i = 0; data && i < BLOCK && q->modifier * BLOCK + i < t->cap; i++)
		t->words[q->modifier * BLOCK + i] = (uint16_t)get_be(data + 2 * i, 2);
	if (--t->left > 0)
		return;
	tell_table(t);
	free(t->words);
	t->words = NULL;
}

static void missed(const struct request *q, const char *why)
{
	if (q->attribute == ATTR_PKEYS)
		take_block(q, NULL, why);
	else if (r.expected)
		printf("unread %016llx %s\n", (unsigned long long)r.expected[q->owner], why);
	else if (q->owner < 0)
		finish("the local port does not answer: %s", why);
	else
		printf("hole %016llx %u %s\n", (unsigned long long)r.nodes[q->owner].guid, q->port, why);
}

static void new_port(uint64_t guid, uint16_t cap, const struct route *route)
{
	static size_t size;

	if (find(&r.ports, guid) >= 0) {
		printf("unread %016llx two ports have this GUID\n", (unsigned long long)guid);
		return;
	}
	put(&r.ports, guid, r.n_tables);
	r.tables = grow(r.tables, (size_t)r.n_tables, &size, sizeof(*r.tables));
	struct table *t = &r.tables[r.n_tables];
	*t = (struct table){ guid, *route, cap, (uint16_t)((cap + BLOCK - 1) / BLOCK), "", calloc(cap, sizeof(*t->words)) };
	if (!cap || cap > CAP_MAX || !t->words) {
		printf("unread %016llx a table of %u entries\n", (unsigned long long)guid, cap);
		free(t->words);
		t->words = NULL;
		return;
	}
	for (unsigned block = 0; block < t->left; block++)
		ask(ATTR_PKEYS, block, r.n_tables, 0);
	r.n_tables++;
}

static bool visited(const struct node *node, unsigned port)
{
	return node->visited[port >> 3] & 1u << (port & 7);
}

static bool visit(struct node *node, unsigned port)
{
	uint8_t bit = (uint8_t)(1u << (port & 7)), was = node->visited[port >> 3] & bit;

	node->visited[port >> 3] |= bit;
	return !was;
}

static int new_node(uint64_t guid, const struct route *route)
{
	static size_t size;

	r.nodes = grow(r.nodes, (size_t)r.n_nodes, &size, sizeof(*r.nodes));
	r.nodes[r.n_nodes] = (struct node){ .guid = guid, .route = *route };
	return r.n_nodes++;
}

/* data: NodeInfo of what is at the end of the request's route. */
static void take_node(const struct request *q, const uint8_t *data)
{
	unsigned type = data[2], n_ports = data[3], entry = data[36];
	uint64_t guid = get_be(data + 4 + 8, 8), port_guid = get_be(data + 20, 8);
	struct route route;

	(void)route_of(q, &route);
	if (!guid || !port_guid) {
		missed(q, "a node without GUID");
		return;
	}
	if (r.expected) {
		if (port_guid == r.expected[q->owner])
			new_port(port_guid, (uint16_t)get_be(data + 28, 2), &route);
		else
			missed(q, "the port is not there any more");
		return;
	}
	if (type == NODE_CA) {
		new_port(port_guid, (uint16_t)get_be(data + 28, 2), &route);
		if (q->owner < 0)
			ask(ATTR_PORT, entry, new_node(guid, &route), (uint8_t)entry);
		return;
	}
	int at = find(&r.switches, guid);
	bool fresh = at < 0;
	if (type != NODE_SWITCH)
		return;
	if (fresh) {
		at = new_node(guid, &route);
		put(&r.switches, guid, at);
	}
	if (q->owner >= 0)
		(void)visit(&r.nodes[at], entry);
	for (unsigned port = 1; fresh && port <= n_ports; port++)
		if (q->owner < 0 || port != entry)
			ask(ATTR_PORT, port, at, (uint8_t)port);
}

static void take_port(const struct request *q, const uint8_t *data)
{
	if ((data[32] & 0xf) >= STATE_INIT && visit(&r.nodes[q->owner], q->port))
		ask(ATTR_NODE, 0, q->owner, q->port);
}

static void take_answer(int failed, const uint8_t *mad)
{
	char reason[32];
	uint32_t id = (uint32_t)get_be(mad + 12, 4), slot = id & 0xff;
	unsigned status = (unsigned)get_be(mad + 4, 2) & 0x7fff;

	/* What came too late, or was never asked for, is nothing. */
	if (slot >= WINDOW || !r.sequence[slot] || r.sequence[slot] != id >> 8)
		return;
	struct request q = r.flight[slot];
	r.sequence[slot] = 0;
	r.in_flight--;
	if (failed || status || get_be(mad + 16, 2) != q.attribute || (q.attribute != ATTR_NODE && get_be(mad + 20, 4) != q.modifier)) {
		if (!failed)
			snprintf(reason, sizeof(reason), "refused with status 0x%04x", status);
		missed(&q, failed == ETIMEDOUT ? "no answer" : failed ? "not sent" : reason);
	} else if (q.attribute == ATTR_NODE) {
		take_node(&q, mad + DATA_AT);
	} else if (q.attribute == ATTR_PORT) {
		take_port(&q, mad + DATA_AT);
	} else {
		take_block(&q, mad + DATA_AT, NULL);
	}
}

/* --- the local port -------------------------------------------------------------------------------------------------------------- */

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found)
		finish("%s", dlerror());
	return found;
}
#define BIND(library, function) (umad.function = (__typeof__(umad.function))symbol(library, "umad_" #function))

static void open_port(void)
{
	void *library = dlopen("libibumad.so.3", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		finish("%s", dlerror());
	BIND(library, init);
	umad.reg = (__typeof__(umad.reg))symbol(library, "umad_register");
	BIND(library, send);
	BIND(library, recv);
	BIND(library, size);
	BIND(library, get_mad);
	BIND(library, set_addr);
	BIND(library, status);
	BIND(library, open_port);
	/* Planarized HCAs take subnet management through a device of its own, which newer libraries find. */
	int (*open_smi_port)(const char *, int) = (int (*)(const char *, int))dlsym(library, "umad_open_smi_port");

	if (umad.init() < 0)
		finish("no InfiniBand on this host");
	r.port = open_smi_port ? open_smi_port(NULL, 0) : umad.open_port(NULL, 0);
	if (r.port < 0)
		finish("no InfiniBand port with a link that this account may use: %s", strerror(r.port < -1 ? -r.port : errno));
	r.packet = calloc(1, umad.size() + MAD_SIZE); /* the size is known when a port is open */
	r.agent = umad.reg(r.port, CLASS_DIRECTED, 1, 0, NULL);
	if (r.agent < 0 || !r.packet)
		finish("no agent for subnet management: %s", strerror(errno));
}

/* --- all of it ------------------------------------------------------------------------------------------------------------------- */

static void fill_window(void)
{
	struct route route;

	for (int slot = 0; slot < WINDOW && r.sent < r.queued; slot += r.sequence[slot] != 0) {
		if (r.sequence[slot])
			continue;
		struct request q = r.queue[r.sent++];
		/* Seen from the other side meanwhile: the link is up, and what is behind it known. */
		if (q.attribute == ATTR_PORT && visited(&r.nodes[q.owner], q.port))
			continue;
		if (route_of(&q, &route))
			send_request(slot, &q, &route);
		else
			missed(&q, "more than 63 hops away");
	}
}

/* Whatever is still in flight or was never sent is not known; what comes of it later is nothing. */
static void give_up(const char *why)
{
	for (int slot = 0; slot < WINDOW; slot++) {
		if (!r.sequence[slot])
			continue;
		r.sequence[slot] = 0;
		r.in_flight--;
		missed(&r.flight[slot], why);
	}
	while (r.sent < r.queued) {
		struct request q = r.queue[r.sent++];
		missed(&q, why);
	}
}

/* "GUID:0.3.17", as the table of a former reading had it. */
static void expect(const char *text)
{
	struct route route = { 0 };
	char *end;
	uint64_t guid = strtoull(text, &end, 16);
	bool whole = *end == ':';

	for (int i = 0; whole && i <= PATH_MAX_HOPS; i++) {
		unsigned long port = strtoul(end + 1, &end, 10);
		if (port > 255)
			break;
		route.port[i] = (uint8_t)port;
		route.hops = (uint8_t)i;
		if (*end == '\0') {
			r.expected[r.n_nodes] = guid;
			ask(ATTR_NODE, 0, new_node(guid, &route), 0);
			return;
		}
		whole = *end == '.';
	}
	finish("\"%.80s\" is no port and route", text);
}

static void read_fabric(void)
{
	while (r.sent < r.queued || r.in_flight) {
		int length = MAD_SIZE;
		fill_window();
		if (umad.recv(r.port, r.packet, &length, SILENCE_MS) >= 0)
			take_answer(umad.status(r.packet), umad.get_mad(r.packet));
		else
			give_up("no answer");
	}
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	if (strcmp(argv[1], "--form") == 0)
		return puts("1") < 0 || fflush(stdout) != 0;
	r.nonce = argv[1];
	printf("%s 1\n", r.nonce);
	open_port();
	if (argc > 2) {
		r.expected = calloc((size_t)argc, sizeof(*r.expected));
		for (int i = 2; r.expected && i < argc; i++)
			expect(argv[i]);
	} else {
		ask(ATTR_NODE, 0, -1, 0);
	}
	read_fabric();
	finish(NULL);
}
