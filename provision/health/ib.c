/* ibstat, ibv_devinfo, P_Key tables, perfquery -x. Ports are told apart by device; Ethernet ports share the lists and are left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"

enum { PORTS_MAX = 64, KEYS_MAX = 4096 };

struct port {
	const char *device, *number, *state, *phys, *rate, *layer, *guid, *firmware, *lid, *sm_lid;
};

/* Both tools print key: value rows; the same row sets the same field. */
static const struct {
	const char *key;
	size_t offset;
} port_rows[] = {
	{ "State", offsetof(struct port, state) },
	{ "state", offsetof(struct port, state) },
	{ "Physical state", offsetof(struct port, phys) },
	{ "Rate", offsetof(struct port, rate) },
	{ "Link layer", offsetof(struct port, layer) },
	{ "link_layer", offsetof(struct port, layer) },
	{ "Port GUID", offsetof(struct port, guid) },
	{ "Firmware version", offsetof(struct port, firmware) },
	{ "fw_ver", offsetof(struct port, firmware) },
	{ "Base lid", offsetof(struct port, lid) },
	{ "port_lid", offsetof(struct port, lid) },
	{ "SM lid", offsetof(struct port, sm_lid) },
	{ "sm_lid", offsetof(struct port, sm_lid) },
};

static void port_row(struct port *port, const char *key, const char *value)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(port_rows); i++) {
		if (strcmp(port_rows[i].key, key) == 0)
			*(const char **)((char *)port + port_rows[i].offset) = value;
	}
}

/* libibverbs names for the states ibstat prints. */
static const char *state_word(const char *state)
{
	static const struct {
		const char *verbs, *word;
	} rows[] = {
		{ "PORT_ACTIVE", "Active" }, { "PORT_INIT", "Initializing" }, { "PORT_DOWN", "Down" }, { "PORT_ARMED", "Armed" },
		{ "PORT_ACTIVE_DEFER", "ActiveDefer" },
	};

	for (size_t i = 0; state && i < RK_ARRAY_SIZE(rows); i++) {
		size_t n = strlen(rows[i].verbs);
		if (strncmp(state, rows[i].verbs, n) == 0 && (state[n] == ' ' || !state[n]))
			return rows[i].word;
	}
	return state;
}

static bool is_infiniband(const struct port *port)
{
	return port->layer && (strcmp(port->layer, "InfiniBand") == 0 || strcmp(port->layer, "IB") == 0);
}

static void emit(struct rk_metrics *m, const char *name, const char *label, const char *value, bool number)
{
	if (value)
		rk_metric_value(m, name, label, value, number);
	else
		rk_metric_absent(m, name, label, "row missing");
}

static void emit_port(struct rk_metrics *m, const struct port *p, bool ibstat)
{
	const char *label = rk_labelf(m, "dev=%.40s", p->device), *state = state_word(p->state);

	if (p->number && strcmp(p->number, "1") != 0)
		label = rk_labelf(m, "%s,port=%.4s", label, p->number);
	emit(m, "ib.state", label, state, false);
	if (ibstat) {
		emit(m, "ib.phys", label, p->phys, false);
		/* A port without a link shows a rate that means nothing. */
		if (state && strcmp(state, "Active") != 0)
			rk_metric_absent(m, "ib.rate", label, RK_PORT_NOT_ACTIVE);
		else
			emit(m, "ib.rate", label, p->rate, true);
		emit(m, "ib.guid", label, p->guid, false);
	}
	emit(m, "ib.fw", label, p->firmware, false);
	emit(m, "ib.lid", label, p->lid, true);
	emit(m, "ib.sm_lid", label, p->sm_lid, true);
}

static void emit_ports(struct rk_metrics *m, const struct rk_evidence *evidence, struct port *ports, int n, bool ibstat)
{
	int infiniband = 0, unknown = 0;

	for (int i = 0; i < n; i++) {
		/* Management device of a planarized HCA: its ports are planes of the port that is shown on its own. */
		if (rk_starts_with(ports[i].device, "smi"))
			continue;
		unknown += !ports[i].layer;
		if (!is_infiniband(&ports[i]))
			continue;
		infiniband++;
		emit_port(m, &ports[i], ibstat);
	}
	if (unknown)
		rk_metric_absent(m, "ib.ports", "", "truncated");
	else
		rk_metric_count(m, evidence, "ib.ports", infiniband);
}

/* "Port 2:" of ibstat, "port: 2" of ibv_devinfo: the rows that follow are of that port; what was said of the device holds for each of its ports. */
static bool port_begin(struct port *ports, int *n, const char *key, const char *value)
{
	const char *number = strcmp(key, "port") == 0 ? value : rk_starts_with(key, "Port ") && !*value ? key + 5 : "";
	struct port *last = &ports[*n - 1];

	if (!*number || strspn(number, "0123456789") != strlen(number))
		return false;
	if (last->number && *n < PORTS_MAX) {
		ports[*n] = (struct port){ .device = last->device, .firmware = last->firmware };
		last = &ports[(*n)++];
	}
	last->number = number;
	return true;
}

/* A row without its end is taken only when nothing can follow. */
static bool row_is_whole(const char *key, const char *value)
{
	return (strcmp(key, "Link layer") == 0 || strcmp(key, "link_layer") == 0) && (strcmp(value, "InfiniBand") == 0 || strcmp(value, "Ethernet") == 0);
}

static void parse_ports(const struct rk_evidence *evidence, struct rk_metrics *ret, const char *begin, bool ibstat)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line, *key, *value;
	struct port ports[PORTS_MAX] = { 0 };
	int n = 0;
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		line = rk_trim(line);
		if (rk_starts_with(line, begin) && n < PORTS_MAX) {
			char *name = rk_trim(line + strlen(begin));
			name[strcspn(name + (*name == '\''), "'") + (*name == '\'')] = '\0';
			ports[n++].device = name + (*name == '\'');
		} else if (n && rk_split_colon(line, &key, &value) && (!cut || row_is_whole(key, value)) && !port_begin(ports, &n, key, value)) {
			port_row(&ports[n - 1], key, value);
		}
	}
	/* Nothing at all and success is how ibstat says that there is no device; a failure says nothing, and ibv_devinfo has words for it. */
	if (n || (ibstat && (!evidence->status || rk_status_is(evidence, "0"))))
		emit_ports(ret, evidence, ports, n, ibstat);
}

void rk_parse_ibstat(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	parse_ports(evidence, ret, "CA '", true);
}

void rk_parse_ibv_devinfo(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	const char *err = rk_clean(ret->arena, evidence->err, evidence->err_len < 4096 ? evidence->err_len : 4096);
	const char *out = rk_clean(ret->arena, evidence->out, evidence->out_len < 4096 ? evidence->out_len : 4096);

	static const char *const none[] = { "No IB devices found", "Failed to get IB devices list" };
	bool empty = false;
	for (size_t i = 0; i < RK_ARRAY_SIZE(none); i++)
		empty |= strstr(err, none[i]) || strstr(out, none[i]);
	if (empty)
		rk_metric_number(ret, "ib.ports", "", 0);
	else
		parse_ports(evidence, ret, "hca_id:", false);
}

struct keys {
	struct rk_metrics *m;
	const char *label;  /* of the present port */
	const char *device, *next; /* next: that the following table is of */
	int rails, n;
	size_t rows, most_rows; /* entries of the present table, of the longest one before it */
	unsigned long last;     /* entry */
	bool has_default, full_default, cut;
	int first_index;    /* lowest of a full tenant key; -1 = none */
};

/* Of a table that is not whole, only what stands in it is certain. */
static void keys_end(struct keys *k)
{
	struct rk_metrics *m = k->m;

	if (!k->label)
		return;
	if (k->cut)
		rk_metric_absent(m, "ib.pkey.port", k->label, "truncated");
	else
		rk_metric_number(m, "ib.pkey.port", k->label, 1);
	if (k->cut && !k->full_default)
		rk_metric_absent(m, "ib.pkey.default", k->label, "truncated");
	else
		rk_metric_text(m, "ib.pkey.default", k->label, !k->has_default ? "none" : k->full_default ? "full" : "limited");
	if (k->first_index >= 0)
		rk_metric_number(m, "ib.pkey.index", k->label, k->first_index);
	k->label = NULL;
}

static void keys_begin(struct keys *k, const char *label)
{
	keys_end(k);
	k->label = label;
	k->most_rows = k->rows > k->most_rows ? k->rows : k->most_rows;
	k->rows = 0;
	k->has_default = k->full_default = false;
	k->first_index = -1;
	k->rails++;
}

static void key_word(struct keys *k, unsigned index, unsigned long word)
{
	k->rows++;
	k->last = word;
	if ((word & 0x7fff) == 0 || word > 0xffff || k->n++ > KEYS_MAX)
		return;
	if ((word & 0x7fff) == 0x7fff) {
		k->has_default = true;
		k->full_default |= (word & 0x8000) != 0;
		return;
	}
	if ((k->first_index < 0 || (int)index < k->first_index) && (word & 0x8000))
		k->first_index = (int)index;
	rk_metric_text(k->m, "ib.pkey", rk_labelf(k->m, "%s,index=%u", k->label, index), rk_labelf(k->m, "0x%04lx", word));
}

/* "0x8055": four digits, or it was cut. */
static bool key_is_whole(const char *word)
{
	return rk_starts_with(word, "0x") && strspn(word + 2, "0123456789abcdefABCDEF") >= 4;
}

/* .../infiniband/DEV/ports/1/pkeys/N:0xWORD */
static bool sysfs_key(struct keys *k, char *line, bool cut)
{
	char *dev = strstr(line, "/infiniband/"), *pkeys = strstr(line, "/pkeys/");

	if (!dev || !pkeys || pkeys < dev)
		return false;
	dev += strlen("/infiniband/");
	/* udev names Ethernet ports so; their only key is 0xffff and means nothing. The management device has the keys of another one. */
	if (rk_starts_with(dev, "roce") || rk_starts_with(dev, "smi"))
		return true;
	size_t n = strcspn(dev, "/");
	char *end;
	unsigned long index = strtoul(pkeys + 7, &end, 10);
	if (*end != ':')
		return false;
	unsigned long word = strtoul(end + 1, NULL, 16);
	if (cut && !key_is_whole(end + 1)) {
		k->cut = true;
		return true;
	}
	if (!k->device || strncmp(k->device, dev, n) != 0 || k->device[n]) {
		k->device = rk_arena_strndup(k->m->arena, dev, n < 40 ? n : 40);
		keys_begin(k, rk_labelf(k->m, "dev=%s", k->device));
	}
	key_word(k, (unsigned)index, word);
	return true;
}

/* "# dev mlx5_0" before what a tool says of it: the name, or NULL. */
static const char *named_device(struct rk_metrics *m, const char *line)
{
	return rk_starts_with(line, "# dev ") ? rk_labelf(m, "%.40s", line + strlen("# dev ")) : NULL;
}

/* "   8: 0x0000 0x0000 ..." of smpquery pkeys; index 0 begins the next rail, or the table of the device that was named. */
static void table_row(struct keys *k, char *line, bool cut)
{
	char *end, *word;
	unsigned long index = strtoul(line, &end, 10);
	const char *device = cut ? NULL : named_device(k->m, line);

	if (device)
		k->next = device;
	if (end == line || *end != ':' || !rk_starts_with(end + 1, " 0x"))
		return;
	if (index == 0)
		keys_begin(k, k->next ? rk_labelf(k->m, "dev=%s", k->next) : rk_labelf(k->m, "rail=%d", k->rails));
	if (!k->label)
		return;
	for (word = end + 1; *word; index++) {
		char *next;
		word += strspn(word, " ");
		unsigned long value = strtoul(word, &next, 16);
		if (next == word)
			return;
		if (cut && !key_is_whole(word)) {
			k->cut = true;
			return;
		}
		key_word(k, (unsigned)index, value);
		word = next;
	}
}

void rk_parse_ib_pkeys(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line;
	struct keys k = { .m = ret };
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		if (!sysfs_key(&k, line, cut))
			table_row(&k, rk_trim(line), cut);
	}
	/* Keys come before empty entries in sysfs, where a short table that ends with one has told them. */
	k.cut |= (k.rows < k.most_rows && (!k.device || k.last)) || (cut && !k.most_rows) || rk_probe_reason(evidence, ret->arena);
	keys_end(&k);
	if (k.rails && k.cut)
		rk_metric_absent(ret, "ib.pkey.ports", "", "truncated");
	else if (k.rails)
		rk_metric_number(ret, "ib.pkey.ports", "", k.rails);
}

/* full: where the counter of the short (not extended) form stops counting. */
static const struct {
	const char *text, *metric;
	double full;
} counter_rows[] = {
	{ "SymbolErrorCounter", "ib.counter.symbol", 65535 },
	{ "LinkErrorRecoveryCounter", "ib.counter.recovery", 255 },
	{ "LinkDownedCounter", "ib.counter.link_downed", 255 },
	{ "PortRcvErrors", "ib.counter.rcv_errors", 65535 },
	{ "PortXmitDiscards", "ib.counter.xmit_discards", 65535 },
	{ "LocalLinkIntegrityErrors", "ib.counter.integrity", 15 },
	{ "ExcessiveBufferOverrunErrors", "ib.counter.overrun", 15 },
};

struct samples {
	const char *port[PORTS_MAX]; /* what tells it: "Lid 104", or the name of its device */
	int count[PORTS_MAX], n;
};

/* Label of a new block: the rail is the order in which ports appear first, the sample how often one was seen. */
static const char *block_label(struct rk_metrics *m, struct samples *s, const char *port)
{
	int i = 0;

	while (i < s->n && strcmp(s->port[i], port) != 0)
		i++;
	if (i == PORTS_MAX)
		return NULL;
	if (i == s->n)
		s->port[s->n++] = port;
	return rk_labelf(m, "rail=%d,sample=%d", i, s->count[i]++);
}

static void counter_row(struct rk_metrics *m, const char *label, char *line, bool extended, bool *seen)
{
	double v;

	size_t n = strcspn(line, ":");

	if (!line[n])
		return;
	for (size_t i = 0; i < RK_ARRAY_SIZE(counter_rows); i++) {
		if (strlen(counter_rows[i].text) != n || strncmp(counter_rows[i].text, line, n) != 0)
			continue;
		const char *value = line + n + 1 + strspn(line + n + 1, ".");
		if (!extended && rk_lead_number(value, &v) && v >= counter_rows[i].full)
			rk_metric_absent(m, counter_rows[i].metric, label, rk_labelf(m, "the counter is full (%.0f or more)", v));
		else
			rk_metric_value(m, counter_rows[i].metric, label, value, true);
		seen[i] = true;
	}
}

static void counters_end(struct rk_metrics *m, const char *label, bool *seen)
{
	for (size_t i = 0; label && i < RK_ARRAY_SIZE(counter_rows); i++) {
		if (!seen[i])
			rk_metric_absent(m, counter_rows[i].metric, label, "row missing");
		seen[i] = false;
	}
}

void rk_parse_ib_counters(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line;
	struct samples samples = { 0 };
	bool seen[RK_ARRAY_SIZE(counter_rows)] = { 0 }, cut = false, extended = false;
	const char *label = NULL, *device = NULL, *named;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		line = rk_trim(line);
		char *lid = strstr(line, "counters: Lid ");
		double up;
		if (rk_starts_with(line, "# Host up for ") && !cut && rk_lead_number(line + strlen("# Host up for "), &up))
			rk_metric_number(ret, "host.uptime", "", up);
		if (!cut && (named = named_device(ret, line)) != NULL) {
			counters_end(ret, label, seen);
			device = named;
			label = block_label(ret, &samples, device);
		} else if (*line == '#' && lid) {
			extended = strstr(line, "extended") != NULL;
			if (device)
				continue;
			counters_end(ret, label, seen);
			label = block_label(ret, &samples, rk_labelf(ret, "Lid %lu", strtoul(lid + 14, NULL, 10)));
		} else if (label && !cut) {
			counter_row(ret, label, line, extended, seen);
		}
	}
	counters_end(ret, label, seen);
}
