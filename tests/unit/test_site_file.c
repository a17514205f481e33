/* JSON is written with ' for " here, so that it can be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/json.h"
#include "inventory/site_values.h"
#include "inventory/site_file.h"

static char *quoted(const char *text)
{
	char *out = rk_xstrdup(text);

	for (char *p = out; (p = strchr(p, '\''));)
		*p = '"';
	return out;
}

static int parse(const char *text, struct rk_site **ret, struct rk_err *err)
{
	char *json RK_CLEANUP_FREE = quoted(text);

	return rk_site_parse("site.json", json, strlen(json), ret, err);
}

static struct rk_site *must_parse(const char *text)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_site *site = NULL;

	if (parse(text, &site, &err)) {
		for (size_t i = 0; i < err.n_details; i++)
			print_message("%s\n", err.details[i]);
		fail_msg("%s", err.message);
	}
	return site;
}

#define HEAD "{'apiVersion':'racksh/v1','kind':'Site','name':'s',"

/* ---- what is read ---------------------------------------------------------------------------------------------------------- */

static const char whole[] =
	HEAD "'region':'eastus2',\n"
	     "'defaults':{'profile':'gb300-nvl72','libvirt':'qemu+ssh://root@{tray}/system?no_tty=1',"
	     "'ssh':{'user':'root','port':22,'knownHosts':'/etc/racksh/known_hosts'},"
	     "'nvme':['0005:01:00.0','0005:02:00.0','0015:01:00.0','0015:02:00.0'],"
	     "'hypervisor':{'libvirt':'12.8.0','qemu':'11.1.3','arch':'aarch64','pageKiB':64},"
	     "'bmc':{'url':'https://{tray}-bmc/redfish/v1','credentialsFile':'/etc/racksh/bmc'}},\n"
	     "'network':{'bridge':'br0','addresses':'10.20.0.0/20','gateway':'10.20.0.1','dns':['10.20.0.2','10.20.0.3']},"
	     "'storage':{'pool':'nvme'},"
	     "'versions':{'driver':'580.95.05','nvos':'25.02.2553','hcaFirmware':'40.47.1088'},"
	     "'hooks':{'leak':'/usr/local/bin/leak','operation':'/usr/local/bin/op'},\n"
	     "'infiniband':[{'name':'ib0','driver':'opensm','ssh':'root@sm[1-2]:2022','partitionsFile':'/etc/opensm/partitions.conf',"
	     "'pidFile':'/run/opensm.pid','pkeyPool':'0x0100-0x08ff','rateGbps':800,'oversubscription':1.5},"
	     "{'name':'ib1','driver':'ufm','url':'https://ufm1','credentialsFile':'/etc/racksh/ufm','caFile':'/etc/racksh/ca.pem'}],\n"
	     "'racks':[{'name':'r[02-03]','location':'hall 2','powerKw':142.5,'nvlink':{'driver':'nvos','ssh':'admin@{rack}-nvsw[1-9]'},"
	     "'trays':{'count':18,'absent':[3,18],'spares':1},"
	     "'tray':{'r02-t01':{'serial':'1821325190001','libvirt':'qemu+unix:///session?socket=/run/{rack}/{tray}/{slot}',"
	     "'ssh':{'host':'10.0.0.1','port':2201,'identityFile':'/k/{tray}'},'slot':2,'nvme':['0006:01:00.0'],'bmc':{'url':'https://10.1.0.1'},"
	     "'hcas':[{'rail':0,'portGuid':'0x5000e60300020101'},{'rail':3,'fabric':'ib1'}],"
	     "'gpus':[{'index':0,'fabricGuid':'0x4c8d000100020101','serial':'165','uuid':'GPU-1','moduleId':1,'pci':'0009:01:00.0'}]}}},\n"
	     "{'name':'r01','profile':'gb200-nvl72','clusterUuid':'ebe2a6ad-5a63-4a34-9f25-0f7b6b2fbb01'}],\n"
	     "'images':[{'name':'ubuntu-24.04-gb300','volume':'default/u.qcow2','arch':'aarch64','format':'qcow2','checksum':'sha256:00'},"
	     "{'name':'lab','arch':'x86_64','format':'raw','kernel':'/k','initrd':'/i','cmdline':'console=ttyS0'}],"
	     "'tenants':[{'name':'contoso'},{'name':'fabrikam','quota':{'vms':72,'pkeys':4}}]}";

static void racks_are_in_natural_order_and_trays_numbered(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = must_parse(whole);

	(void)state;
	assert_int_equal(s->n_racks, 3);
	assert_string_equal(s->racks[0].name, "r01");
	assert_string_equal(s->profiles[s->racks[0].profile].name, "gb200-nvl72");
	assert_string_equal(s->racks[0].cluster_uuid, "ebe2a6ad-5a63-4a34-9f25-0f7b6b2fbb01");
	assert_null(s->racks[1].cluster_uuid);
	assert_int_equal(s->racks[0].n_trays, 18);
	assert_int_equal(s->racks[1].n_trays, 16);
	assert_true(rk_find_tray(s, "r02-t02") >= 0);
	assert_int_equal(rk_find_tray(s, "r02-t03"), RK_NONE);
	assert_int_equal(rk_find_tray(s, "r03-t18"), RK_NONE);
	assert_int_equal(s->trays[rk_find_tray(s, "r03-t17")].number, 17);
	assert_int_equal(s->n_gpus, (18 + 16 + 16) * 4);
	assert_true(s->racks[1].power_kw == 142.5);
	assert_int_equal(s->racks[1].spares, 1);
	assert_int_equal(rk_tray_state(s, rk_find_tray(s, "r02-t17")), RK_TRAY_SPARE);
}

static void placeholders_and_tray_values_are_filled_in(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = must_parse(whole);
	const struct rk_tray *t = &s->trays[rk_find_tray(s, "r02-t01")], *plain = &s->trays[rk_find_tray(s, "r02-t09")];

	(void)state;
	assert_string_equal(t->libvirt_uri, "qemu+unix:///session?socket=/run/r02/r02-t01/2");
	assert_string_equal(plain->libvirt_uri, "qemu+ssh://root@r02-t09/system?no_tty=1");
	assert_int_equal(t->slot, 2);
	assert_int_equal(plain->slot, 18);
	assert_string_equal(t->ssh_host, "10.0.0.1");
	assert_string_equal(plain->ssh_host, "r02-t09");
	assert_int_equal(t->ssh.port, 2201);
	assert_string_equal(t->ssh.user, "root");
	assert_string_equal(t->ssh.identity_file, "/k/r02-t01");
	assert_int_equal(t->n_nvme, 1);
	assert_int_equal(plain->n_nvme, 4);
	assert_string_equal(s->racks[1].nvlink.driver, "nvos");
	assert_int_equal(s->racks[1].nvlink.n_ssh, 9);
	assert_string_equal(s->racks[1].nvlink.ssh[8], "admin@r02-nvsw9");
	assert_string_equal(s->fabrics[0].manager.ssh[1], "root@sm2:2022");
}

static void what_the_profile_fixes_need_not_be_written(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = must_parse(whole);
	const struct rk_tray *t = &s->trays[rk_find_tray(s, "r02-t01")], *plain = &s->trays[rk_find_tray(s, "r03-t09")];
	static const char *const gpus[] = { "0008:06:00.0", "0009:06:00.0", "0018:06:00.0", "0019:06:00.0" };
	static const char *const hcas[] = { "0000:03:00.0", "0002:03:00.0", "0010:03:00.0", "0012:03:00.0" };
	static const int modules[] = { 2, 1, 4, 3 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		assert_string_equal(s->gpus[plain->first_gpu + i].pci, gpus[i]);
		assert_int_equal(s->gpus[plain->first_gpu + i].module_id, modules[i]);
		assert_true(s->gpus[plain->first_gpu + i].fabric_guid == 0);
		assert_string_equal(s->hcas[plain->first_hca + i].pci, hcas[i]);
		assert_int_equal(s->hcas[plain->first_hca + i].fabric, 0);
	}
	assert_string_equal(s->gpus[t->first_gpu].pci, "0009:01:00.0");
	assert_int_equal(s->gpus[t->first_gpu].module_id, 1);
	assert_int_equal(rk_find_gpu_guid(s, 0x4c8d000100020101u), t->first_gpu);
	assert_int_equal(rk_find_hca_guid(s, 0x5000e60300020101u), t->first_hca);
	assert_int_equal(s->hcas[t->first_hca + 3].fabric, 1);
}

static void the_rest_of_a_site_is_read(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = must_parse(whole);

	(void)state;
	assert_string_equal(s->pool, "nvme");
	assert_string_equal(s->network.addresses, "10.20.0.0/20");
	assert_int_equal(s->network.n_dns, 2);
	assert_string_equal(s->hypervisor.qemu, "11.1.3");
	assert_int_equal(s->hypervisor.page_kib, 64);
	assert_int_equal(s->fabrics[0].pkey_first, 0x100);
	assert_int_equal(s->fabrics[0].pkey_last, 0x8ff);
	assert_true(s->fabrics[0].oversubscription == 1.5);
	assert_string_equal(s->fabrics[0].pid_file, "/run/opensm.pid");
	assert_int_equal(s->fabrics[1].rate_gbps, 0);
	assert_true(s->fabrics[1].oversubscription == 1.0);
	assert_string_equal(s->fabrics[1].manager.ca_file, "/etc/racksh/ca.pem");
	assert_int_equal(s->tenants[rk_find_tenant(s, "fabrikam")].quota_pkeys, 4);
	assert_string_equal(s->images[rk_find_image(s, "lab")].kernel, "/k");
	assert_non_null(strstr(s->versions, "580.95.05"));
}

static void the_smallest_site_has_defaults(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = must_parse(HEAD "'racks':[{'name':'r1'}]}");

	(void)state;
	assert_string_equal(s->profiles[0].name, "gb300-nvl72");
	assert_int_equal(s->n_trays, 18);
	assert_string_equal(s->trays[17].name, "r1-t18");
	assert_string_equal(s->pool, "default");
	assert_true(s->racks[0].power_kw > 100);
	assert_int_equal(s->hcas[0].fabric, RK_NONE);
}

static void every_profile_is_complete(void **state)
{
	static const char *const names[] = { "gb300-nvl72", "gb200-nvl72", "hgx-generic" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(names); i++) {
		char *text RK_CLEANUP_FREE = rk_xasprintf(HEAD "'racks':[{'name':'r1','profile':'%s'}]}", names[i]);
		struct rk_site *s RK_CLEANUP_SITE = must_parse(text);
		const struct rk_profile *p = &s->profiles[0];
		assert_true(p->trays > 0 && p->gpus_per_tray > 0 && p->hcas_per_tray > 0 && p->cpus_per_tray > 0 && p->sockets > 0);
		assert_true(p->memory_mib > 100000 && p->rate_gbps >= 400 && p->rack_kw > 0 && p->tray_kw > 0);
		/* A generic server's addresses are not known: discovered or written. */
		for (int g = 0; g < p->gpus_per_tray && p->switch_trays; g++)
			assert_non_null(p->gpu_pci[g]);
		for (int h = 0; h < p->hcas_per_tray && p->switch_trays; h++)
			assert_non_null(p->hca_pci[h]);
		for (int t = 0; t < p->trays; t++)
			assert_true(p->slot[t] > 0 && p->u_position[t] > 0);
	}
}

static void slots_leave_out_the_switch_trays(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = must_parse(HEAD "'racks':[{'name':'r1'}]}");

	(void)state;
	for (int t = 0; t < 18; t++)
		assert_int_equal(s->trays[t].slot, t < 8 ? t + 1 : t + 10);
}

/* ---- what is refused ------------------------------------------------------------------------------------------------------- */

#define RACK(rest) HEAD "'racks':[{'name':'r1'" rest "}]}"
#define TRAY(rest) RACK(",\n'tray':{'r1-t01':{" rest "}}")
#define SITE(rest) HEAD "'racks':[]," rest "}"

static const struct {
	const char *text, *says, *hint;
} refused[] = {
	{ "", "site.json:1:1: the file is empty", NULL },
	{ "[]", "a site file must be an object, not an array", NULL },
	{ "{}", "a site file needs the key \"apiVersion\"", NULL },
	{ "{'apiVersion':'racksh/v2','kind':'Site','name':'s','racks':[]}", "site.json:1:15: unknown apiVersion \"racksh/v2\"", NULL },
	{ "{'apiVersion':'racksh/v1','kind':'Cluster','name':'s','racks':[]}", "kind is \"Cluster\"", NULL },
	{ "{'apiVersion':'racksh/v1','kind':'Site','name':'S p','racks':[]}", "\"S p\" is no valid name", NULL },
	{ HEAD "'rakcs':[],'racks':[]}", "unknown key \"rakcs\"", "did you mean \"racks\"?" },
	{ HEAD "'racks':{}}", "\"racks\" must be an array, not an object", NULL },
	{ HEAD "'racks':[7]}", "must be an object, not a number", NULL },
	{ HEAD "'racks':[{'name':7}]}", "\"name\" must be a string, not a number", NULL },
	{ HEAD "'racks':[{'name':'r[01-'}]}", "at column", NULL },
	{ HEAD "'racks':[{'name':'R1'}]}", "\"R1\" is no valid name of a rack", NULL },
	{ HEAD "'racks':[{'name':'r[1-3]'},\n{'name':'r[3-4]'}]}", "site.json:2:9: rack \"r3\" is used twice, first at 1:", NULL },
	{ HEAD "'racks':[{'name':'r[1-2000000]'}]}", "a site of more than 10000 racks", NULL },
	{ RACK(",'profile':'gb300-nvl27'"), "no rack profile \"gb300-nvl27\"", "did you mean \"gb300-nvl72\"?" },
	{ RACK(",'powerKw':-1"), "a number from 0.1 to 10000 is expected, not -1", NULL },
	{ RACK(",'trays':{'count':19}"), "a whole number from 0 to 18 is expected, not 19", NULL },
	{ RACK(",'trays':{'absent':[19]}"), "from 1 to 18 is expected, not 19", NULL },
	{ RACK(",'trays':{'absent':['3']}"), "\"absent\" holds tray numbers", NULL },
	{ RACK(",'trays':18"), "\"trays\" must be an object, not a number", NULL },
	{ RACK(",'clusterUuid':'xyz'"), "\"xyz\" is no UUID", NULL },
	{ RACK(",'clusterUuid':'00000000-0000-0000-0000-000000000000'"), "no UUID", NULL },
	{ HEAD "'racks':[{'name':'r[1-2]','clusterUuid':'ebe2a6ad-5a63-4a34-9f25-0f7b6b2fbb01'}]}", "one ClusterUUID cannot belong to 2 racks", NULL },
	{ HEAD "'racks':[{'name':'r1','clusterUuid':'ebe2a6ad-5a63-4a34-9f25-0f7b6b2fbb01'},\n"
	       "{'name':'r2','clusterUuid':'EBE2A6AD-5a63-4a34-9f25-0f7b6b2fbb01'}]}",
	  "site.json:2:28: ClusterUUID \"ebe2a6ad-5a63-4a34-9f25-0f7b6b2fbb01\" is used twice, first at 1:", NULL },
	{ RACK(",'nvlink':{'driver':'nvos','release':'trai'}"), "unknown release \"trai\"", "did you mean \"tray\"?" },
	{ RACK(",'nvlink':{'driver':'nvso'}"), "unknown driver \"nvso\"", "did you mean \"nvos\"?" },
	{ RACK(",'nvlink':{'driver':'nvos','ssh':'admin@sw[1'}"), "no host or set of hosts", NULL },
	{ RACK(",'tray':{'r1-t19':{}}"), "no tray \"r1-t19\" in this entry's racks", NULL },
	{ RACK(",'tray':{'r1-t01':7}"), "a tray must be an object, not a number", NULL },
	{ TRAY("'gpu':[]"), "unknown key \"gpu\" in a tray", "did you mean \"gpus\"?" },
	{ TRAY("'slot':0"), "from 1 to 100 is expected, not 0", NULL },
	{ TRAY("'gpus':[{'index':4}]"), "from 0 to 3 is expected, not 4", NULL },
	{ TRAY("'gpus':[{'index':'0'}]"), "must be a number, not a string", NULL },
	{ TRAY("'gpus':[{'fabricGuid':'0x1'}]"), "needs \"index\"", NULL },
	{ TRAY("'gpus':[{'index':0},\n{'index':0}]"), "\"index\" 0 is listed twice, first at 2:", NULL },
	{ TRAY("'gpus':[{'index':0,'fabricGuid':'0x11'},\n{'index':1,'fabricGuid':'0x0011'}]"),
	  "site.json:3:25: GUID \"0x0000000000000011\" is used twice, first at 2:", NULL },
	{ TRAY("'gpus':[{'index':0,'fabricGuid':'0x0'}]"), "\"0x0\" is no 64-bit identity", NULL },
	{ TRAY("'gpus':[{'index':0,'fabricGuid':17}]"), "\"fabricGuid\" must be a string, not a number", NULL },
	{ TRAY("'gpus':[{'index':0,'uuid':'GPU-1'},{'index':1,'uuid':'GPU-1'}]"), "GPU UUID \"GPU-1\" is used twice", NULL },
	{ TRAY("'hcas':[{'rail':0,'portGuid':'0x5000e6030002010'}, {'rail':1,'portGuid':'0xzz'}]"), "\"0xzz\" is no 64-bit identity", NULL },
	{ TRAY("'hcas':[{'rail':0,'fabric':'ib7'}]"), "no InfiniBand fabric \"ib7\"", NULL },
	{ TRAY("'gpus':[{'index':0,'pci':'0009:06:00.0'}]"), "PCI address 0009:06:00.0 is used twice in tray \"r1-t01\"", NULL },
	{ TRAY("'nvme':['5:1:0.0']"), "\"5:1:0.0\" is no PCI address", NULL },
	{ TRAY("'nvme':[1]"), "\"nvme\" holds up to", NULL },
	{ RACK(",\n'tray':{'r1-t01':{'serial':'A'},'r1-t02':{'serial':'A'}}"), "serial \"A\" is used twice, first at 2:", NULL },
	{ RACK(",\n'tray':{'r1-t01':{'libvirt':'test:///x'},'r1-t02':{'libvirt':'test:///x'}}"), "libvirt URI \"test:///x\" is used twice", NULL },
	{ TRAY("'libvirt':'host7'"), "\"host7\" is no libvirt URI", NULL },
	{ TRAY("'libvirt':'qemu+ssh://{host}/system'"), "unknown placeholder \"{host}\"", NULL },
	{ RACK(",'nvlink':{'driver':'nvos','ssh':'admin@{tray}-sw'}"), "no value here for the placeholder \"{tray}\"", NULL },
	{ TRAY("'bmc':{'urll':'x'}"), "unknown key \"urll\"", "did you mean \"url\"?" },
	{ HEAD "'defaults':{'libvirt':'qemu:///system'},'racks':[{'name':'r1'}]}", "is used twice", NULL },
	{ SITE("'infiniband':[{'name':'ib0','driver':'opensm','pkeyPool':'0x0-0x10'}]"), "\"0x0-0x10\" is no PKey pool", NULL },
	{ SITE("'infiniband':[{'name':'ib0','driver':'opensm','pkeyPool':'0x10-0x7fff'}]"), "no PKey pool", NULL },
	{ SITE("'infiniband':[{'name':'ib0','driver':'opensm'},{'name':'ib0','driver':'opensm'}]"), "fabric \"ib0\" is used twice", NULL },
	{ SITE("'images':[{'name':'a','arch':'aarch64','format':'raw'}]"), "an image needs \"volume\" or \"kernel\"", NULL },
	{ SITE("'images':[{'name':'a','volume':'x','arch':'aarch64','format':'raw'}]"), "\"x\" names no pool", NULL },
	{ SITE("'images':[{'name':'a','volume':'p/x','arch':'arm64','format':'raw'}]"), "unknown arch \"arm64\"", NULL },
	{ SITE("'images':[{'name':'a','volume':'p/x','arch':'aarch64','format':'qcow3'}]"), "unknown format \"qcow3\"", "did you mean \"qcow2\"?" },
	{ SITE("'images':[{'name':'a b','volume':'p/x','arch':'aarch64','format':'raw'}]"), "\"a b\" is no valid name of an image", NULL },
	{ SITE("'images':[{'name':'a','volume':'p/x','arch':'aarch64','format':'raw'},{'name':'a','volume':'p/x','arch':'aarch64','format':'raw'}]"),
	  "image \"a\" is used twice", NULL },
	{ SITE("'tenants':[{'name':'t'},\n{'name':'t'}]"), "site.json:2:9: tenant \"t\" is used twice, first at 1:", NULL },
	{ SITE("'tenants':[{'name':'t','quota':{'vms':-1}}]"), "from 0 to", NULL },
	{ SITE("'network':{'bridge':'b','user':true}"), "takes one of", NULL },
	{ SITE("'network':{'addresses':'10.0.0.0'}"), "\"10.0.0.0\" is no block of addresses", NULL },
	{ SITE("'network':{'addresses':'10.0.0.0/33'}"), "no block of addresses", NULL },
	{ SITE("'network':{'gateway':'x'}"), "\"x\" is no IP address", NULL },
	{ SITE("'network':{'dns':['x']}"), "\"x\" is no IP address", NULL },
	{ SITE("'network':{'dns':[1]}"), "\"dns\" holds IP addresses", NULL },
	{ SITE("'hooks':{'laek':'/x'}"), "unknown key \"laek\"", "did you mean \"leak\"?" },
	{ SITE("'versions':{'driver':[]}"), "\"driver\" must be a string, not an array", NULL },
	{ SITE("'defaults':{'bmc':{'urll':'x'}}"), "unknown key \"urll\"", "did you mean \"url\"?" },
	{ SITE("'defaults':{'ssh':{'port':70000}}"), "from 1 to 65535 is expected", NULL },
	{ SITE("'region':7"), "\"region\" must be a string, not a number", NULL },
	{ HEAD "'name':'t','racks':[]}", "site.json:1:", NULL },
	{ SITE("'region':'\xff'"), "site.json:1:", NULL },
};

static bool told(const struct rk_err *err, const char *text)
{
	if (strstr(err->message, text) || (err->hint && strstr(err->hint, text)))
		return true;
	for (size_t i = 0; i < err->n_details; i++)
		if (strstr(err->details[i], text))
			return true;
	return false;
}

static void bad_files_are_refused_with_place_and_hint(void **state)
{
	size_t wrong = 0;

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(refused); i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_site *site = NULL;
		int rc = parse(refused[i].text, &site, &err);
		bool good = rc == RK_INVALID && !site && told(&err, refused[i].says) && (!refused[i].hint || told(&err, refused[i].hint)) &&
			    strncmp(err.message, "site.json:", 10) == 0;
		if (!good)
			print_message("row %zu: %d \"%s\" instead of \"%s\"\n", i, rc, err.message ? err.message : "", refused[i].says);
		wrong += !good;
		rk_site_free(site);
	}
	assert_int_equal(wrong, 0);
}

static void all_problems_of_a_file_come_at_once(void **state)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_site *site = NULL;

	(void)state;
	assert_int_equal(parse(HEAD "\n'reigon':'x',\n'racks':[{'name':'r[1-64]','nvlnik':{}}],\n'tenants':[{'name':'A'}]}", &site, &err), RK_INVALID);
	assert_int_equal(err.n_details, 3); /* once for the entry, not for each of its 64 racks */
	assert_string_equal(err.details[0], "site.json:2:1: unknown key \"reigon\" in a site file (did you mean \"region\"?)");
	assert_string_equal(err.details[1], "site.json:3:28: unknown key \"nvlnik\" in an entry of \"racks\" (did you mean \"nvlink\"?)");
	assert_non_null(strstr(err.details[2], "site.json:4:20: \"A\" is no valid name of a tenant"));
}

static void a_file_above_the_limit_is_not_read(void **state)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_site *site = NULL;
	char path[] = "/tmp/racksh-test-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 200 << 20), 0); /* sparse: takes no room */
	close(fd);
	assert_int_equal(rk_site_load(path, &site, &err), RK_INVALID);
	unlink(path);
	assert_non_null(strstr(err.message, "larger than 64 MiB"));
	assert_int_equal(rk_site_load(path, &site, &err), RK_NOT_FOUND);
	assert_null(site);
}

static void deep_nesting_is_refused(void **state)
{
	(void)state;
	for (int levels = 30; levels < 100000; levels *= 10) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
		struct rk_site *site = NULL;
		rk_str_add(&text, "{\"versions\":");
		for (int i = 0; i < levels; i++)
			rk_str_add(&text, "{\"a\":");
		rk_str_add(&text, "1");
		for (int i = 0; i <= levels; i++)
			rk_str_add(&text, "}");
		assert_int_equal(rk_site_parse("site.json", rk_str_text(&text), text.len, &site, &err), RK_INVALID);
		assert_null(site);
	}
}

/* Every single byte lost or changed: parsed or refused, never a crash, never success with a site that does not export. */
static void damaged_files_never_crash(void **state)
{
	char *json RK_CLEANUP_FREE = quoted(whole);
	size_t len = strlen(json), step = len / 400;

	(void)state;
	for (size_t at = 0; at < len; at += step) {
		static const char change[] = "\"{}[]:,0x\xff";
		char kept = json[at];
		json[at] = change[at / step % (sizeof(change) - 1)];
		struct rk_site *site RK_CLEANUP_SITE = NULL, *again RK_CLEANUP_SITE = NULL;
		if (!rk_site_parse("site.json", json, len, &site, NULL)) {
			struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
			rk_site_export(site, &out);
			assert_int_equal(rk_site_parse("export", rk_str_text(&out), out.len, &again, NULL), 0);
		}
		json[at] = kept;
	}
}

/* ---- export, diff, invention ----------------------------------------------------------------------------------------------- */

static char *exported(const struct rk_site *site)
{
	struct rk_str out = RK_STR_INIT;

	rk_site_export(site, &out);
	return rk_str_steal(&out);
}

static size_t differences(const struct rk_site *a, const struct rk_site *b)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_site_change *changes;
	size_t n;

	rk_site_diff(a, b, arena, &changes, &n);
	for (size_t i = 0; i < n && i < 5; i++)
		print_message("%s %s: %s -> %s\n", changes[i].object, changes[i].field, changes[i].from ? changes[i].from : "-", changes[i].to ? changes[i].to : "-");
	return n;
}

static void importing_an_export_is_the_identity(void **state)
{
	static const char *const texts[] = {
		whole,
		HEAD "'racks':[]}",
		HEAD "'racks':[{'name':'r1','trays':{'count':0}},{'name':'r2','trays':{'absent':[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18]}}]}",
		HEAD "'network':{'user':true,'dns':['::1']},'racks':[{'name':'a[1-3]','trays':{'count':2}}]}",
		HEAD "'network':{'gateway':'10.0.0.1'},'racks':[{'name':'r1','profile':'hgx-generic'}]}",
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(texts); i++) {
		struct rk_site *s RK_CLEANUP_SITE = must_parse(texts[i]);
		char *first RK_CLEANUP_FREE = exported(s);
		struct rk_site *again RK_CLEANUP_SITE = must_parse(first);
		char *second RK_CLEANUP_FREE = exported(again);
		assert_string_equal(first, second);
		assert_int_equal(differences(s, again), 0);
	}
}

/* What the export holds is checked against the model, not only against itself. */
static void an_export_loses_nothing(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = must_parse(whole);
	char *text RK_CLEANUP_FREE = exported(s);
	struct rk_site *again RK_CLEANUP_SITE = must_parse(text);
	const struct rk_tray *t = &again->trays[rk_find_tray(again, "r02-t01")];

	(void)state;
	assert_int_equal(again->n_trays, s->n_trays);
	assert_string_equal(t->libvirt_uri, "qemu+unix:///session?socket=/run/r02/r02-t01/2");
	assert_string_equal(t->ssh_host, "10.0.0.1");
	assert_string_equal(t->ssh.identity_file, "/k/r02-t01");
	assert_string_equal(t->serial, "1821325190001");
	assert_int_equal(t->n_nvme, 1);
	assert_string_equal(again->gpus[t->first_gpu].uuid, "GPU-1");
	assert_string_equal(again->gpus[t->first_gpu].serial, "165");
	assert_int_equal(again->racks[1].spares, 1);
	assert_string_equal(again->racks[1].location, "hall 2");
	assert_int_equal(again->racks[1].nvlink.n_ssh, 9);
	assert_string_equal(again->fabrics[1].manager.url, "https://ufm1");
	assert_string_equal(again->network.dns[1], "10.20.0.3");
	assert_string_equal(again->bmc, s->bmc);
	assert_string_equal(t->bmc, "{\"url\":\"https://10.1.0.1\"}");
	assert_string_equal(again->hooks, s->hooks);
	assert_string_equal(again->images[rk_find_image(again, "lab")].cmdline, "console=ttyS0");
}

static void a_network_of_a_gateway_only_is_exported(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = must_parse(SITE("'network':{'gateway':'10.0.0.1','dns':['::1']}"));
	char *text RK_CLEANUP_FREE = exported(s);
	struct rk_site *again RK_CLEANUP_SITE = must_parse(text);

	(void)state;
	assert_string_equal(again->network.gateway, "10.0.0.1");
	assert_string_equal(again->network.dns[0], "::1");
}

static void placeholders_of_the_default_ssh_are_filled_in_per_tray(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = must_parse(HEAD "'defaults':{'ssh':{'identityFile':'/k/{rack}/{tray}'}},'racks':[{'name':'r1'}]}");
	char *text RK_CLEANUP_FREE = exported(s);
	struct rk_site *again RK_CLEANUP_SITE = must_parse(text);

	(void)state;
	assert_string_equal(s->trays[2].ssh.identity_file, "/k/r1/r1-t03");
	assert_string_equal(again->trays[2].ssh.identity_file, "/k/r1/r1-t03");
}

/* Filled in per tray, overridden by a tray, and "" means none. */
static void jump_hosts_are_read_exported_and_checked(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = must_parse(HEAD "'defaults':{'ssh':{'jump':'ops@{rack}-gw:2222,inner'}},'racks':[{'name':'r1','tray':"
						       "{'r1-t02':{'ssh':{'jump':'other'}},'r1-t03':{'ssh':{'jump':''}}}}]}");
	static const char *const bad[] = { "a,b,c,d,e", "a,,b", "-oProxyCommand=x", "a;b", "u@-x", "a b" };
	char *text RK_CLEANUP_FREE = exported(s);
	struct rk_site *again RK_CLEANUP_SITE = must_parse(text);

	(void)state;
	assert_string_equal(again->trays[0].ssh.jump, "ops@r1-gw:2222,inner");
	assert_string_equal(again->trays[1].ssh.jump, "other");
	assert_string_equal(again->trays[2].ssh.jump, "");
	assert_int_equal(differences(s, again), 0);
	for (size_t i = 0; i < RK_ARRAY_SIZE(bad); i++)
		assert_false(rk_jump_valid(bad[i]));
}

static void a_difference_is_named_value_by_value(void **state)
{
	struct rk_site *a RK_CLEANUP_SITE = must_parse(RACK(",'powerKw':140,'tray':{'r1-t02':{'serial':'old'}}"));
	struct rk_site *b RK_CLEANUP_SITE = must_parse(RACK(",'powerKw':142,'trays':{'absent':[1]},'tray':{'r1-t02':{'serial':'new'}}"));
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_site_change *changes;
	size_t n, serials = 0, power = 0, gone = 0;

	(void)state;
	rk_site_diff(a, b, arena, &changes, &n);
	for (size_t i = 0; i < n; i++) {
		serials += strcmp(changes[i].object, "r1-t02") == 0 && strcmp(changes[i].field, "serial") == 0 && strcmp(changes[i].from, "old") == 0 &&
			   strcmp(changes[i].to, "new") == 0;
		power += strcmp(changes[i].field, "powerKw") == 0 && strcmp(changes[i].from, "140") == 0 && strcmp(changes[i].to, "142") == 0;
		gone += strncmp(changes[i].object, "r1-t01", 6) == 0 && changes[i].from && !changes[i].to;
	}
	assert_int_equal(serials, 1);
	assert_int_equal(power, 1);
	assert_true(gone > 0);
}

static void invented_identities_are_complete_unique_and_repeatable(void **state)
{
	/* r1-t01 names as its own what invention would give to others. */
	static const char text[] = RACK(",'tray':{'r1-t01':{'gpus':[{'index':3,'fabricGuid':'0x4c8dfffe00010100'}],"
					"'hcas':[{'rail':2,'portGuid':'0x5000e60300010101'}]}}");
	struct rk_site *a RK_CLEANUP_SITE = must_parse(text), *b RK_CLEANUP_SITE = must_parse(text);

	(void)state;
	rk_site_invent(a);
	rk_site_invent(b);
	char *one RK_CLEANUP_FREE = exported(a), *two RK_CLEANUP_FREE = exported(b);
	assert_string_equal(one, two);
	struct rk_site *again RK_CLEANUP_SITE = must_parse(one); /* checks every double */
	assert_true(again->hcas[2].port_guid == 0x5000e60300010101u);
	assert_true(again->hcas[4].port_guid == 0x5000e60300010201u);
	for (size_t i = 0; i < again->n_gpus; i++)
		assert_int_equal(rk_find_gpu_guid(again, again->gpus[i].fabric_guid), (int)i);
	for (size_t i = 0; i < again->n_hcas; i++)
		assert_int_equal(rk_find_hca_guid(again, again->hcas[i].port_guid), (int)i);
	for (size_t i = 0; i < again->n_trays; i++) {
		assert_non_null(again->trays[i].serial);
		assert_int_equal(again->trays[i].n_nvme, 4);
	}
	assert_non_null(again->racks[0].cluster_uuid);
}

static void examples_of_the_project_import(void **state)
{
	static const struct {
		const char *path;
		size_t racks, trays;
	} rows[] = { { "tests/examples/site-1.json", 1, 18 }, { "tests/examples/site-64.json", 64, 1152 } };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_site *s RK_CLEANUP_SITE = NULL;
		if (rk_site_load(rows[i].path, &s, &err))
			fail_msg("%s", err.message);
		assert_int_equal(s->n_racks, rows[i].racks);
		assert_int_equal(s->n_trays, rows[i].trays);
		rk_site_invent(s);
		char *text RK_CLEANUP_FREE = exported(s);
		struct rk_site *again RK_CLEANUP_SITE = must_parse(text);
		assert_int_equal(differences(s, again), 0);
	}
}

static void written_identities_are_found_by_value(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = NULL;

	(void)state;
	assert_int_equal(rk_site_load("tests/fixtures/site/identities.json", &s, NULL), 0);
	assert_int_equal(s->n_trays, 34);
	assert_int_equal(rk_find_hca_guid(s, 0x5000e60300010131u), 3);
	assert_int_equal(rk_find_gpu_guid(s, 0x4c8d000100010104u), 3);
	assert_int_equal(s->trays[rk_find_tray(s, "r02-t17")].slot, 28);
	assert_string_equal(s->racks[1].nvlink.ssh[8], "admin@r02-nvsw9");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(racks_are_in_natural_order_and_trays_numbered),
		cmocka_unit_test(placeholders_and_tray_values_are_filled_in),
		cmocka_unit_test(what_the_profile_fixes_need_not_be_written),
		cmocka_unit_test(the_rest_of_a_site_is_read),
		cmocka_unit_test(the_smallest_site_has_defaults),
		cmocka_unit_test(every_profile_is_complete),
		cmocka_unit_test(slots_leave_out_the_switch_trays),
		cmocka_unit_test(bad_files_are_refused_with_place_and_hint),
		cmocka_unit_test(all_problems_of_a_file_come_at_once),
		cmocka_unit_test(a_file_above_the_limit_is_not_read),
		cmocka_unit_test(deep_nesting_is_refused),
		cmocka_unit_test(damaged_files_never_crash),
		cmocka_unit_test(importing_an_export_is_the_identity),
		cmocka_unit_test(an_export_loses_nothing),
		cmocka_unit_test(a_network_of_a_gateway_only_is_exported),
		cmocka_unit_test(placeholders_of_the_default_ssh_are_filled_in_per_tray),
		cmocka_unit_test(jump_hosts_are_read_exported_and_checked),
		cmocka_unit_test(a_difference_is_named_value_by_value),
		cmocka_unit_test(invented_identities_are_complete_unique_and_repeatable),
		cmocka_unit_test(examples_of_the_project_import),
		cmocka_unit_test(written_identities_are_found_by_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
