/* Kernel log: Xid (with the NVLink 5 sub-codes), SXid, HCA trouble, GPU memory onlining. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "inventory/base/map.h"
#include "inventory/base/str.h"
#include "provision/health/parse.h"

enum { EVENTS_MAX = 4096, EVENTS_SHOWN = 8 };

enum xid_class { XID_INFO, XID_WARN, XID_FAIL };

/* Codes and what they ask for; NVIDIA's catalogue of 2025-10-29 as condensed in the field notes. unit and severity NULL match all;
 * the first row that matches counts. Nothing known: warn. */
static const struct {
	int first, last;
	const char *unit, *severity;
	enum xid_class class;
	const char *action;
} xids[] = {
	{ 13, 13, NULL, NULL, XID_INFO, "application" },
	{ 31, 31, NULL, NULL, XID_INFO, "application" },
	{ 43, 43, NULL, NULL, XID_INFO, "application" },
	{ 45, 45, NULL, NULL, XID_INFO, "application" },
	{ 48, 48, NULL, NULL, XID_FAIL, "drain and reset the GPU" },
	{ 63, 63, NULL, NULL, XID_WARN, "reset the GPU when it is free" },
	{ 64, 64, NULL, NULL, XID_FAIL, "reset the GPU" },
	{ 74, 74, NULL, NULL, XID_FAIL, "check the NVLink" },
	{ 79, 79, NULL, NULL, XID_FAIL, "drain the tray and report it" },
	{ 92, 92, NULL, NULL, XID_WARN, "watch the rate of corrected errors" },
	{ 94, 94, NULL, NULL, XID_WARN, "restart the application" },
	{ 95, 95, NULL, NULL, XID_FAIL, "reset the GPU" },
	{ 109, 109, NULL, NULL, XID_FAIL, "reset the GPU" },
	{ 119, 120, NULL, NULL, XID_FAIL, "reset the GPU" },
	{ 121, 121, NULL, NULL, XID_WARN, "watch the C2C link" },
	{ 136, 136, NULL, NULL, XID_FAIL, "reset the GPU and check the link signal" },
	{ 137, 137, NULL, NULL, XID_INFO, "none" },
	{ 140, 140, NULL, NULL, XID_FAIL, "reset the GPU" },
	{ 143, 143, NULL, NULL, XID_FAIL, "reset the GPU" },
	{ 144, 144, NULL, "Nonfatal", XID_INFO, "none" },
	{ 144, 144, NULL, NULL, XID_FAIL, "reset the GPU" },
	{ 145, 145, "RLW_REMAP", "Nonfatal", XID_WARN, "see the recovery action that follows" },
	{ 145, 145, "RLW_SRC_TRACK", "Nonfatal", XID_WARN, "see the recovery action that follows" },
	{ 145, 145, NULL, "Nonfatal", XID_WARN, "watch the link" },
	{ 145, 146, NULL, "Fatal", XID_FAIL, "reset the GPU" },
	{ 146, 146, NULL, NULL, XID_WARN, "watch the link" },
	{ 147, 148, NULL, NULL, XID_INFO, "none" },
	{ 149, 149, "NETIR_BER_EVENT", "Nonfatal", XID_WARN, "check link signal and cables" },
	{ 149, 149, NULL, "Fatal", XID_FAIL, "reset the GPU" },
	{ 149, 149, NULL, NULL, XID_WARN, "watch the link" },
	{ 150, 150, NULL, NULL, XID_FAIL, "reset the GPU" },
	{ 151, 151, NULL, NULL, XID_FAIL, "restart the VM" },
	{ 155, 156, NULL, NULL, XID_FAIL, "reset the GPU" },
	{ 157, 157, NULL, NULL, XID_WARN, "report it" },
	{ 158, 158, NULL, NULL, XID_FAIL, "reset the GPU" },
	{ 160, 166, NULL, NULL, XID_INFO, "none" },
	{ 167, 167, NULL, NULL, XID_FAIL, "drain the tray and report it" },
	{ 168, 172, NULL, NULL, XID_WARN, "see the Xid 48 beside it" },
};

/* Bits 25..20 of the first word of a fatal 149: where to look. */
static const struct {
	unsigned first, last;
	const char *look;
} subcodes[] = {
	{ 0, 0, "another GPU, this one only follows" }, { 1, 1, "report when more than one a day" }, { 2, 2, "link signal" }, { 4, 4, "link signal" },
	{ 10, 10, "link signal" }, { 15, 15, "software or user" }, { 16, 16, "software or user, link signal" },
	{ 17, 17, "software or user" }, { 18, 18, "software or user, link signal" }, { 21, 21, "the peer device" },
	{ 22, 22, "software or user" }, { 32, 37, "the peer device" }, { 38, 38, "ignore" }, { 40, 40, "the host" },
	{ 42, 43, "link signal and cables" },
};

static const struct {
	const char *text, *metric;
} marks[] = {
	{ "GPU memory zone movable auto onlining failed", "kernel.memory_onlining" },
	{ "Failing GPU memory onlining", "kernel.memory_onlining" },
	{ "RmInitAdapter failed", "kernel.gpu_init" },
	{ "device's health compromised", "mlx5.health" },
	{ "unrecoverable hardware error", "mlx5.health" },
	{ "ACCESS_REG(0x805) timeout", "mlx5.command_timeout" },
};

struct log {
	struct rk_metrics *m;
	struct rk_map *events, *actions;     /* texts seen; PCI -> index of its last 154 */
	struct { const char *pci; int code; const char *text; } action[64];
	size_t n_actions;
	struct rk_str fatal, warn;
	int n_fatal, n_warn, shown_fatal, shown_warn, lines;
	int marks[RK_ARRAY_SIZE(marks)], link_downs, lanes_missing;
	bool cut;                            /* the last line is the beginning of an event */
	const char *first;                   /* earliest fatal event */
	bool first_sympathetic;
	double first_time, time;             /* seconds since boot, or since 1970; -1 = the line has none */
};

struct event {
	int code;
	char pci[24], unit[32], severity[16];
	const char *text;                    /* behind the code */
	unsigned word;
	int link;
	bool has_word;
};

static const char *where_to_look(unsigned word)
{
	unsigned code = word >> 20 & 0x3f;

	for (size_t i = 0; i < RK_ARRAY_SIZE(subcodes); i++) {
		if (code >= subcodes[i].first && code <= subcodes[i].last)
			return subcodes[i].look;
	}
	return "not known";
}

/* "<UNIT> <Fatal|Nonfatal> XC0 i0 Link 01 (0x... ": false for other texts. */
static void nvlink5(struct event *e)
{
	const char *severity = strstr(e->text, "Nonfatal") ? strstr(e->text, "Nonfatal") : strstr(e->text, "Fatal");

	if (e->code < 144 || e->code > 150 || !severity)
		return;
	snprintf(e->severity, sizeof(e->severity), "%s", *severity == 'N' ? "Nonfatal" : "Fatal");
	const char *end = severity;
	while (end > e->text && isspace((unsigned char)end[-1]))
		end--;
	const char *begin = end;
	while (begin > e->text && !isspace((unsigned char)begin[-1]))
		begin--;
	snprintf(e->unit, sizeof(e->unit), "%.*s", (int)(end - begin), begin);
	const char *link = strstr(severity, "Link "), *word = strstr(severity, "(0x");
	e->link = link ? atoi(link + 5) : -1;
	e->has_word = word != NULL;
	e->word = word ? (unsigned)strtoul(word + 1, NULL, 16) : 0;
}

/* Of the last line of a log that was cut: does it say all that the event is judged by? */
static bool event_is_whole(const struct event *e, const char *behind_code)
{
	const char *action = strstr(e->text, " to 0x"), *word = strstr(e->text, "(0x");

	if (*behind_code != ',')
		return false;
	if (e->code == 154)
		return action && strchr(action, ')');
	return e->code < 144 || e->code > 150 || (*e->severity && word && strchr(word, ' '));
}

/* "NVRM: Xid (PCI:0018:06:00): 149, ..." with or without "PCI:". */
static bool xid_line(const char *line, bool cut, struct event *e, bool *ret_half)
{
	const char *p = strstr(line, "Xid (");

	if (!p || (p > line && p[-1] == 'S'))
		return false;
	p += 5;
	if (rk_starts_with(p, "PCI:"))
		p += 4;
	size_t n = strcspn(p, ")");
	if (!p[n] || p[n + 1] != ':' || n >= sizeof(e->pci))
		return false;
	memcpy(e->pci, p, n);
	e->pci[n] = '\0';
	char *end;
	long code = strtol(p + n + 2, &end, 10);
	if (end == p + n + 2 || code < 1 || code > 100000)
		return false;
	e->code = (int)code;
	e->text = end + strspn(end, ", ");
	e->link = -1;
	nvlink5(e);
	*ret_half = cut && !event_is_whole(e, end);
	return true;
}

static enum xid_class classify(const struct event *e, const char **ret_action)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(xids); i++) {
		if (e->code < xids[i].first || e->code > xids[i].last)
			continue;
		if ((xids[i].unit && strcmp(xids[i].unit, e->unit) != 0) || (xids[i].severity && strcmp(xids[i].severity, e->severity) != 0))
			continue;
		*ret_action = xids[i].action;
		return e->code == 149 && e->has_word && (e->word >> 20 & 0x3f) == 38 ? XID_INFO : xids[i].class;
	}
	*ret_action = "look it up in the Xid catalogue";
	return XID_WARN;
}

static const char *describe(struct log *log, const struct event *e, const char *action)
{
	struct rk_arena *arena = log->m->arena;
	const char *unit = *e->unit ? rk_arena_printf(arena, " %s", e->unit) : "";
	const char *link = e->link >= 0 ? rk_arena_printf(arena, " link %d", e->link) : "";
	const char *look = e->code == 149 && e->has_word && strcmp(e->severity, "Fatal") == 0 ? rk_arena_printf(arena, ", look at %s", where_to_look(e->word)) : "";

	return rk_arena_printf(arena, "Xid %d%s on %s%s (%s%s)", e->code, unit, e->pci, link, action, look);
}

/* "[ 8123.441207]", "[Tue May 12 08:14:22 2026]", "2026-05-12T08:14:22,441207+00:00"; -1 for others. */
static double line_time(const char *line)
{
	static const char *const forms[] = { "%Y-%m-%dT%H:%M:%S", "%a %b %d %H:%M:%S %Y" };
	const char *bracket = strchr(line, '[');
	char *end;

	for (size_t i = 0; i < RK_ARRAY_SIZE(forms); i++) {
		struct tm tm = { 0 };
		if (strptime(line + (i && *line == '['), forms[i], &tm))
			return (double)timegm(&tm);
	}
	double seconds = bracket ? strtod(bracket + 1, &end) : -1;
	return bracket && end > bracket + 1 && *end == ']' ? seconds : -1;
}

static void show(struct rk_str *list, int *shown, const char *text)
{
	if (*shown < EVENTS_SHOWN)
		rk_str_addf(list, "%s%s", *shown ? "; " : "", text);
	else if (*shown == EVENTS_SHOWN)
		rk_str_add(list, "; ...");
	(*shown)++;
}

/* "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)": the last one per GPU is the present demand. */
static void recovery_action(struct log *log, const struct event *e)
{
	const char *to = strstr(e->text, " to 0x");
	size_t at;

	if (!to)
		return;
	if (!rk_map_get(log->actions, e->pci, &at)) {
		if (log->n_actions == RK_ARRAY_SIZE(log->action))
			return;
		at = log->n_actions++;
		rk_map_set(log->actions, e->pci, at);
	}
	log->action[at].pci = rk_arena_strdup(log->m->arena, e->pci);
	log->action[at].code = (int)strtol(to + 4, NULL, 16);
	log->action[at].text = rk_labelf(log->m, "%.40s", to + 4);
}

static void add_event(struct log *log, const struct event *e)
{
	const char *action = "", *key = rk_arena_printf(log->m->arena, "%s|%d|%s", e->pci, e->code, e->text);

	/* The same event is often logged twice, with another style of time. Behind very many of them it may count twice, but it counts. */
	bool many = rk_map_count(log->events) >= EVENTS_MAX;
	if (many ? rk_map_get(log->events, key, NULL) : !rk_map_add(log->events, key, 1, NULL))
		return;
	if (e->code == 154) {
		recovery_action(log, e);
		return;
	}
	enum xid_class class = classify(e, &action);
	if (class == XID_INFO)
		return;
	const char *text = describe(log, e, action);
	if (class == XID_WARN) {
		log->n_warn++;
		show(&log->warn, &log->shown_warn, text);
		return;
	}
	bool sympathetic = e->code == 145 || (e->code == 149 && e->has_word && (e->word >> 20 & 0x3f) == 0);
	if (!log->first || (log->first_sympathetic && !sympathetic)) {
		log->first = text;
		log->first_sympathetic = sympathetic;
		log->first_time = log->time;
	}
	log->n_fatal++;
	show(&log->fatal, &log->shown_fatal, text);
}

/* Ports come up and go down while drivers load and the fabric is swept; a time that is no time since boot says nothing about that. */
static bool booting(double time)
{
	enum { GRACE_SECONDS = 1800 };

	return time >= 0 && time < GRACE_SECONDS;
}

/* "504.112 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link at ... (capable of ... with 64.0 GT/s PCIe x16 link)": lanes that are missing are
 * a fault, a card that is faster than its slot is not. */
static bool lanes_missing(const char *line)
{
	const char *limited = strstr(line, "available PCIe bandwidth, limited by"), *has = limited ? strstr(limited, "PCIe x") : NULL;
	const char *could = has ? strstr(has + 6, "PCIe x") : NULL;

	return has && atoi(has + 6) < (could ? atoi(could + 6) : 16);
}

/* Ethernet ports, which have such names, come and go as the site's network likes. */
static bool is_ethernet(const char *line)
{
	const char *end = strstr(line, ": Link down"), *name = end;

	while (name && name > line && !isspace((unsigned char)name[-1]))
		name--;
	return name && (rk_starts_with(name, "en") || rk_starts_with(name, "eth"));
}

static void other_line(struct log *log, const char *line)
{
	const char *sxid = strstr(line, "SXid (");

	for (size_t i = 0; i < RK_ARRAY_SIZE(marks); i++)
		log->marks[i] += strstr(line, marks[i].text) != NULL;
	log->lanes_missing += lanes_missing(line);
	if (strstr(line, "mlx5_core") && strstr(line, "Link down") && !is_ethernet(line) && !booting(log->time))
		log->link_downs++;
	if (sxid && strstr(sxid, ", Fatal")) {
		log->n_fatal++;
		show(&log->fatal, &log->shown_fatal, rk_labelf(log->m, "%.80s", sxid));
	}
	const char *bus = strstr(line, "GPU has fallen off the bus");
	const char *gpu = bus ? strstr(line, "GPU ") : NULL;
	if (bus && gpu && gpu < bus && !strstr(line, "Xid")) {
		struct event e = { .code = 79, .text = "GPU has fallen off the bus.", .link = -1 };
		snprintf(e.pci, sizeof(e.pci), "%.*s", (int)strcspn(gpu + 4, ". "), gpu + 4);
		/* The same fall is usually reported as Xid 79 too. */
		const char *key = rk_arena_printf(log->m->arena, "%s|79|%s", e.pci, e.text);
		const char *with_pid = "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";
		if (!rk_map_get(log->events, key, NULL) &&
		    !rk_map_get(log->events, rk_arena_printf(log->m->arena, "%s|79|%s", e.pci, with_pid), NULL))
			add_event(log, &e);
	}
}

/* What is half said could be an event of either kind. */
static void emit_list(struct log *log, const char *name, const struct rk_str *list, int n)
{
	if (!n && log->cut)
		rk_metric_absent(log->m, name, "", "truncated");
	else
		rk_metric_text(log->m, name, "", n ? rk_str_text(list) : "none");
}

static void emit(struct log *log)
{
	struct rk_metrics *m = log->m;

	emit_list(log, "xid.fatal.list", &log->fatal, log->n_fatal);
	emit_list(log, "xid.warn.list", &log->warn, log->n_warn);
	rk_metric_number(m, "xid.fatal", "", log->n_fatal);
	rk_metric_text(m, "xid.first", "", log->first ? log->first : "none");
	rk_metric_number(m, "xid.first.sympathetic", "", log->first_sympathetic);
	if (log->first && log->first_time >= 0)
		rk_metric_number(m, "xid.first.time", "", log->first_time);
	for (size_t i = 0; i < log->n_actions; i++) {
		const char *label = rk_labelf(m, "gpu=%s", log->action[i].pci);
		rk_metric_number(m, "xid.action", label, log->action[i].code);
		rk_metric_text(m, "xid.action.text", label, log->action[i].text);
	}
	for (size_t i = 0; i < RK_ARRAY_SIZE(marks); i++) {
		int n = log->marks[i];
		bool done = i && strcmp(marks[i].metric, marks[i - 1].metric) == 0; /* rows of one metric stand together */
		for (size_t k = i + 1; k < RK_ARRAY_SIZE(marks) && strcmp(marks[k].metric, marks[i].metric) == 0; k++)
			n += log->marks[k];
		if (!done)
			rk_metric_number(m, marks[i].metric, "", n);
	}
	rk_metric_number(m, "mlx5.pcie_limited", "", log->lanes_missing);
	rk_metric_number(m, "mlx5.link_down", "", log->link_downs);
}

void rk_parse_dmesg_xid(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line;
	struct log log = { .m = ret, .events = rk_map_new(), .actions = rk_map_new() };
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		struct event e = { 0 };
		log.lines++;
		log.time = line_time(line);
		if (xid_line(line, cut, &e, &log.cut) && !log.cut)
			add_event(&log, &e);
		else if (!log.cut)
			other_line(&log, line);
	}
	/* A log that could not be read is no log without Xid. An empty one is only believed from a dmesg that says success. */
	if ((log.lines && (!evidence->status || rk_status_is(evidence, "0") || log.n_fatal || log.n_warn)) ||
	    (!log.lines && rk_status_is(evidence, "0")))
		emit(&log);
	rk_map_free(log.events);
	rk_map_free(log.actions);
	rk_str_clear(&log.fatal);
	rk_str_clear(&log.warn);
}
