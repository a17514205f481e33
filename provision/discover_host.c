#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/discover.h"
#include "provision/health/parse.h"

/* ---- nvidia-smi -q -x --------------------------------------------------------------------------------------------------------- */

static const char *text_metric(const struct rk_metrics *m, const char *name, const char *label)
{
	const struct rk_metric *found = rk_metric_find(m, name, label);

	return found && found->type == RK_METRIC_TEXT ? found->text : NULL;
}

static int number_metric(const struct rk_metrics *m, const char *name, const char *label)
{
	const struct rk_metric *found = rk_metric_find(m, name, label);

	return found && found->type == RK_METRIC_NUMBER && found->number >= 0 && found->number < 1e6 ? (int)found->number : -1;
}

/* "00000008:06:00.0" as "0008:06:00.0", lower case; NULL when it is no address. */
static const char *short_pci(const char *s, struct rk_arena *arena)
{
	unsigned domain, bus, device, function;

	if (!s || strlen(s) > 16 || sscanf(s, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4 || domain > 0xffff || bus > 0xff)
		return NULL;
	return rk_arena_printf(arena, "%04x:%02x:%02x.%x", domain, bus, device & 0x1f, function & 7);
}

static uint64_t guid_of(const char *s)
{
	uint64_t v = 0;

	return s && rk_parse_u64(s, &v) ? v : 0;
}

void rk_seen_parse_smi(const char *xml, size_t len, struct rk_arena *arena, struct rk_seen_tray *tray)
{
	const struct rk_evidence evidence = { .collector = "nvidia-smi-xml", .out = xml, .out_len = len, .err = "", .status = "0" };
	struct rk_metrics m = { .arena = arena };
	char label[16];

	rk_collector_find("nvidia-smi-xml")->parse(&evidence, &m);
	tray->driver = text_metric(&m, "driver.version", "");
	tray->gpus = rk_arena_array(arena, RK_GPUS_MAX, sizeof(*tray->gpus));
	tray->n_gpus = 0;
	for (int i = 0; i < RK_GPUS_MAX; i++) {
		snprintf(label, sizeof(label), "gpu=%d", i);
		/* A GPU that is lost is listed, but says nothing. */
		if (number_metric(&m, "gpu.lost", label) != 0)
			continue;
		const char *uuid = text_metric(&m, "gpu.fabric.uuid", label);
		tray->gpus[tray->n_gpus++] = (struct rk_seen_gpu){
			.pci = short_pci(text_metric(&m, "gpu.pci", label), arena),
			.serial = text_metric(&m, "gpu.serial", label),
			.uuid = text_metric(&m, "gpu.uuid", label),
			.guid = guid_of(text_metric(&m, "gpu.fabric.guid", label)),
			.module_id = number_metric(&m, "gpu.module_id", label),
			.slot = number_metric(&m, "gpu.slot", label),
		};
		const char *chassis = text_metric(&m, "gpu.chassis", label);
		tray->chassis = chassis && *chassis ? chassis : tray->chassis;
		if (uuid && strspn(uuid, "0-") != strlen(uuid))
			tray->cluster_uuid = uuid;
	}
	if (!tray->n_gpus)
		tray->smi_why = text_metric(&m, "gpu.error", "") ? "nvidia-smi: no GPU answers" : "nvidia-smi printed no GPU";
}

/* ---- the host script ------------------------------------------------------------------------------------------------------------ */

const char rk_host_script[] =
	": " RK_HOST_SCRIPT_MARK "\n"
	"r() { cat \"$1\" 2>/dev/null | tr -d '|\\n'; }\n"
	"for d in /sys/class/infiniband/*; do [ -e \"$d\" ] || continue\n"
	"for p in \"$d\"/ports/*; do printf 'port|%s|%s|%s|%s|%s|%s\\n' \"${d##*/}\" \"$(basename \"$(readlink -f \"$d/device\")\")\""
	" \"$(r \"$p/gids/0\")\" \"$(r \"$p/link_layer\")\" \"$(r \"$p/state\")\" \"$(r \"$d/fw_ver\")\"; done; done\n"
	"for n in /sys/class/nvme/*; do [ -e \"$n\" ] || continue; u=0\n"
	"grep -q \"^/dev/${n##*/}n\" /proc/mounts /proc/swaps && u=1; printf 'drive|%s|%s\\n' \"$(r \"$n/address\")\" $u; done\n"
	"printf 'serial|%s\\n' \"$(r /sys/class/dmi/id/product_serial)\"\n"
	"for h in /sys/kernel/mm/hugepages/hugepages-*; do [ -e \"$h\" ] || continue; k=${h##*-}\n"
	"printf 'pages|%s|%s|%s\\n' \"${k%kB}\" \"$(r \"$h/nr_hugepages\")\" \"$(r \"$h/free_hugepages\")\"; done\n"
	"echo 'end|'\n";

enum { FIELDS_MAX = 8, RECORDS_MAX = 256 };

/* Splits "a|b|c" in place. */
static int split(char *line, char *fields[FIELDS_MAX])
{
	int n = 0;

	for (char *at = line; at && n < FIELDS_MAX; n++) {
		fields[n] = at;
		at = strchr(at, '|');
		if (at)
			*at++ = '\0';
	}
	return n;
}

/* The port GUID is the lower half of GID 0: "fe80:0000:0000:0000:5000:e603:0001:0131". */
static uint64_t guid_of_gid(const char *gid)
{
	unsigned w[8];

	if (sscanf(gid, "%4x:%4x:%4x:%4x:%4x:%4x:%4x:%4x", &w[0], &w[1], &w[2], &w[3], &w[4], &w[5], &w[6], &w[7]) != 8)
		return 0;
	return (uint64_t)w[4] << 48 | (uint64_t)w[5] << 32 | (uint64_t)w[6] << 16 | w[7];
}

static void host_record(char *fields[FIELDS_MAX], int n, struct rk_arena *arena, struct rk_seen_tray *tray)
{
	if (strcmp(fields[0], "port") == 0 && n >= 7 && strcmp(fields[4], "InfiniBand") == 0 && tray->n_ports < RECORDS_MAX)
		tray->ports[tray->n_ports++] = (struct rk_seen_port){ .device = fields[1], .pci = short_pci(fields[2], arena), .guid = guid_of_gid(fields[3]),
								     .state = fields[5], .firmware = *fields[6] ? fields[6] : NULL };
	else if (strcmp(fields[0], "drive") == 0 && n >= 3 && tray->n_drives < RECORDS_MAX && short_pci(fields[1], arena))
		tray->drives[tray->n_drives++] = (struct rk_seen_drive){ short_pci(fields[1], arena), fields[2][0] == '1' };
	else if (strcmp(fields[0], "serial") == 0 && n >= 2 && *fields[1])
		tray->serial = rk_trim(fields[1]);
	if (strcmp(fields[0], "pages") == 0 && n >= 4) {
		uint64_t kib = strtoull(fields[1], NULL, 10);
		tray->huge_kib += kib * strtoull(fields[2], NULL, 10);
		tray->huge_free_kib += kib * strtoull(fields[3], NULL, 10);
	}
}

void rk_seen_parse_host(const char *text, size_t len, struct rk_arena *arena, struct rk_seen_tray *tray)
{
	char *at = rk_clean(arena, text, len), *line, *fields[FIELDS_MAX];
	bool whole = false;

	tray->ports = rk_arena_array(arena, RECORDS_MAX, sizeof(*tray->ports));
	tray->drives = rk_arena_array(arena, RECORDS_MAX, sizeof(*tray->drives));
	while ((line = rk_next_line(&at, NULL))) {
		int n = split(line, fields);
		host_record(fields, n, arena, tray);
		whole |= n >= 2 && strcmp(fields[0], "end") == 0;
	}
	/* A list cut short must not look like ports that are gone. */
	tray->sysfs_why = whole ? NULL : "the answer of the host was cut short";
}

/* ---- libvirt's node devices -------------------------------------------------------------------------------------------------------- */

/* The text behind mark up to one of stop, or NULL. */
static const char *after(const char *xml, const char *mark, const char *stop, struct rk_arena *arena)
{
	const char *at = strstr(xml, mark);

	if (!at)
		return NULL;
	at += strlen(mark);
	return rk_arena_strndup(arena, at, strcspn(at, stop));
}

static unsigned number_after(const char *xml, const char *mark, unsigned absent)
{
	const char *at = strstr(xml, mark);

	return at ? (unsigned)strtoul(at + strlen(mark), NULL, 0) : absent;
}

static int addresses_in(const char *group)
{
	const char *end = strstr(group, "</iommuGroup>");
	int n = 0;

	for (const char *at = group; (at = strstr(at, "<address ")) && (!end || at < end); at++)
		n++;
	return n;
}

bool rk_seen_parse_device(const char *xml, struct rk_arena *arena, struct rk_seen_device *ret)
{
	const char *capability = strstr(xml, "<capability type='pci'>"), *driver = strstr(xml, "<driver>");

	if (!capability)
		return false;
	const char *group = strstr(capability, "<iommuGroup number='");
	*ret = (struct rk_seen_device){
		.pci = rk_arena_printf(arena, "%04x:%02x:%02x.%x", number_after(capability, "<domain>", 0) & 0xffff, number_after(capability, "<bus>", 0) & 0xff,
				       number_after(capability, "<slot>", 0) & 0x1f, number_after(capability, "<function>", 0) & 7),
		.driver = driver && driver < capability ? after(driver, "<name>", "<", arena) : NULL,
		.class = number_after(capability, "<class>", 0),
		.vendor = number_after(capability, "<vendor id='", 0),
		.product = number_after(capability, "<product id='", 0),
		.numa = (int)number_after(capability, "<numa node='", (unsigned)-1),
		.iommu_group = group ? (int)number_after(group, "<iommuGroup number='", 0) : -1,
		.group_size = group ? addresses_in(group) : 0,
	};
	return true;
}
