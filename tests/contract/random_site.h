/* Random sites as text, for property tests: racks of all profiles, partial and with absent trays, several fabrics, odd identities. */
#pragma once
#include <stdint.h>
#include <stdlib.h>

#include "inventory/base/str.h"

struct random_site {
	unsigned seed;
	unsigned next; /* identities: each given once */
	struct rk_str text;
};

static inline unsigned roll(struct random_site *r, unsigned n)
{
	return (unsigned)rand_r(&r->seed) % n;
}

static inline void random_component(struct random_site *r, const char *kind, int index, bool first)
{
	rk_str_addf(&r->text, "%s{\"kind\":\"%s\",\"index\":%d", first ? "" : ",", kind, index);
	if (roll(r, 2))
		rk_str_addf(&r->text, ",\"serial\":\"SN-%u\"", ++r->next);
	if (roll(r, 3) == 0)
		rk_str_add(&r->text, ",\"firmware\":\"1.2.3\"");
	rk_str_addc(&r->text, '}');
}

static inline void random_devices(struct random_site *r, const char *list, const char *key, const char *guid, int n, unsigned fabrics)
{
	rk_str_addf(&r->text, ",\"%s\":[", list);
	for (int i = 0, any = 0; i < n; i++) {
		if (roll(r, 4) == 0)
			continue;
		rk_str_addf(&r->text, "%s{\"%s\":%d", any++ ? "," : "", key, i);
		if (roll(r, 8))
			rk_str_addf(&r->text, ",\"%s\":\"0x%016llx\"", guid, 0x9c00000000000000ull + ++r->next);
		if (roll(r, 6) == 0)
			rk_str_addf(&r->text, ",\"pci\":\"%04x:%02x:00.0\"", 0x20u + (unsigned)i, 0x40u + (*list == 'g') + roll(r, 1));
		if (*list == 'h' && fabrics > 1 && roll(r, 2))
			rk_str_addf(&r->text, ",\"fabric\":\"fab%u\"", roll(r, fabrics));
		rk_str_addc(&r->text, '}');
	}
	rk_str_addc(&r->text, ']');
}

static inline void random_tray(struct random_site *r, int rack, int tray, int devices, unsigned fabrics, bool first)
{
	rk_str_addf(&r->text, "%s\"x%03d-t%02d\":{\"serial\":\"SN-%u\"", first ? "" : ",", rack, tray, ++r->next);
	if (roll(r, 5) == 0)
		rk_str_addf(&r->text, ",\"bmc\":{\"url\":\"https://bmc-%u/redfish/v1\"}", r->next);
	if (roll(r, 7) == 0)
		rk_str_addf(&r->text, ",\"libvirt\":\"qemu+tcp://h%u/system\"", r->next);
	if (roll(r, 7) == 0)
		rk_str_addf(&r->text, ",\"ssh\":{\"user\":\"u%u\",\"port\":%u,\"host\":\"h%u\"}", roll(r, 9), 1 + roll(r, 60000), r->next);
	if (roll(r, 6) == 0)
		rk_str_add(&r->text, roll(r, 2) ? ",\"nvme\":[\"0005:01:00.0\"]" : ",\"nvme\":[]");
	random_devices(r, "gpus", "index", "fabricGuid", devices, 1);
	random_devices(r, "hcas", "rail", "portGuid", devices, fabrics);
	if (roll(r, 4) == 0) {
		rk_str_add(&r->text, ",\"parts\":[");
		random_component(r, "grace", 0, true);
		random_component(r, "dpu", 0, false);
		rk_str_addc(&r->text, ']');
	}
	rk_str_addc(&r->text, '}');
}

static inline void random_rack(struct random_site *r, int rack, unsigned fabrics)
{
	static const struct {
		const char *name;
		int trays, devices;
	} profiles[] = { { "gb300-nvl72", 18, 4 }, { "gb200-nvl72", 18, 4 }, { "hgx-generic", 4, 8 } };
	unsigned p = roll(r, 3);
	int count = 1 + (int)roll(r, (unsigned)profiles[p].trays), absent = count > 2 ? 1 + (int)roll(r, (unsigned)count - 1) : 0;

	rk_str_addf(&r->text, "%s{\"name\":\"x%03d\",\"profile\":\"%s\",\"trays\":{\"count\":%d,\"spares\":%u", rack ? "," : "", rack, profiles[p].name, count,
		    roll(r, 2));
	if (absent)
		rk_str_addf(&r->text, ",\"absent\":[%d]", absent);
	rk_str_addc(&r->text, '}');
	if (roll(r, 2))
		rk_str_addf(&r->text, ",\"powerKw\":%u.5", 50 + roll(r, 90));
	if (roll(r, 2))
		rk_str_addf(&r->text, ",\"clusterUuid\":\"5ac0ffee-0000-4000-8000-%012u\"", ++r->next);
	if (roll(r, 2))
		rk_str_addf(&r->text, ",\"nvlink\":{\"driver\":\"nvos\",\"ssh\":\"admin@x%03d-sw[1-9]\"%s}", rack, roll(r, 2) ? ",\"release\":\"tray\"" : "");
	if (roll(r, 3) == 0)
		rk_str_addf(&r->text, ",\"versions\":{\"driver\":\"58%u.1\"}", roll(r, 9));
	if (roll(r, 3) == 0) {
		rk_str_add(&r->text, ",\"parts\":[");
		random_component(r, "power-shelf", 3, true);
		random_component(r, "nvlink-switch", 0, false);
		rk_str_addc(&r->text, ']');
	}
	rk_str_add(&r->text, ",\"tray\":{");
	for (int t = 1, any = 0; t <= count; t++)
		if (t != absent && roll(r, 5))
			random_tray(r, rack, t, profiles[p].devices, fabrics, !any++);
	rk_str_add(&r->text, "}}");
}

/* The text is in r->text (clear it with rk_str_clear). */
static inline void random_site(struct random_site *r, unsigned seed)
{
	*r = (struct random_site){ .seed = seed };
	unsigned racks = 1 + roll(r, 6), fabrics = roll(r, 3);

	rk_str_addf(&r->text, "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"p%u\",\"defaults\":{\"nvme\":[\"0006:01:00.0\"]%s},", seed,
		    roll(r, 2) ? ",\"ssh\":{\"user\":\"ops\",\"knownHosts\":\"/k\",\"jump\":\"ops@{rack}-gw\"}" : "");
	if (roll(r, 2))
		rk_str_add(&r->text, "\"health\":{\"cordon\":\"auto\"},");
	if (roll(r, 2))
		rk_str_add(&r->text, "\"facilityMeter\":{\"command\":\"/usr/local/bin/meter\"},");
	rk_str_add(&r->text, "\"infiniband\":[");
	for (unsigned f = 0; f < fabrics; f++)
		rk_str_addf(&r->text, "%s{\"name\":\"fab%u\",\"driver\":\"%s\",\"ssh\":\"root@sm%u\",\"rateGbps\":%u}", f ? "," : "", f, f ? "ufm" : "opensm", f,
			    400 + 400 * roll(r, 2));
	rk_str_add(&r->text, "],\"racks\":[");
	for (unsigned i = 0; i < racks; i++)
		random_rack(r, (int)i, fabrics);
	rk_str_add(&r->text, "],\"tenants\":[{\"name\":\"one\",\"quota\":{\"vms\":3}},{\"name\":\"two\"}]}");
}
