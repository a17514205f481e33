#include "vmspec/spec_keys.h"

#include <stdlib.h>

#include "inventory/base/mem.h"

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NAME "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"

const struct rk_spec_key rk_spec_keys[] = {
	{ "", "apiVersion", RK_JSTRING, true, 0, 0, WORDS("racksh/v1"), NULL, NULL, "version of this format" },
	{ "", "kind", RK_JSTRING, true, 0, 0, WORDS("Cluster"), NULL, NULL, "what the file describes" },
	{ "", "name", RK_JSTRING, true, 0, 0, NULL, NAME, NULL, "name of the cluster; does not end in - and digits" },
	{ "", "tenant", RK_JSTRING, true, 0, 0, NULL, NAME, NULL, "a tenant of the site" },
	{ "", "size", RK_JSTRING, true, 0, 0, NULL, NULL, NULL, "name or alias of a VM size" },
	{ "", "count", RK_JNUMBER, true, 1, RK_SPEC_COUNT_MAX, NULL, NULL, NULL, "number of VMs" },
	{ "", "image", RK_JSTRING, true, 0, 0, NULL, "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", NULL, "image of the site that the VMs start from" },
	{ "", "placement", RK_JOBJECT, false, 0, 0, NULL, NULL, NULL, "where the VMs may go" },
	{ "placement", "segment", RK_JNUMBER, false, 1, 1000, NULL, NULL, NULL, "VMs that must share an NVLink domain; by default the count, at most the trays of a domain" },
	{ "placement", "racks", RK_JSTRING, false, 0, 0, NULL, NULL, NULL, "node set of the racks that may be used; by default all" },
	{ "placement", "maxRacks", RK_JNUMBER, false, 1, RK_SPEC_COUNT_MAX, NULL, NULL, NULL, "at most so many racks; by default any number" },
	{ "placement", "sparesPerRack", RK_JNUMBER, false, 0, 1000, NULL, NULL, "0", "trays kept free in each rack for repair" },
	{ "placement", "policy", RK_JSTRING, false, 0, 0, WORDS("best-fit", "spread", "first-fit"), NULL, "\"best-fit\"", "which racks are preferred" },
	{ "placement", "antiAffinity", RK_JARRAY, false, 0, RK_SPEC_APART_MAX, NULL, NAME, "[]", "clusters with which it shares no rack; counts both ways" },
	{ "", "ssh", RK_JOBJECT, false, 0, 0, NULL, NULL, NULL, "who may log in" },
	{ "ssh", "user", RK_JSTRING, false, 0, 0, NULL, "^[a-z_][a-z0-9_-]{0,31}$", "\"root\"", "user that is made in the guest" },
	{ "ssh", "authorizedKeys", RK_JARRAY, false, 0, RK_SPEC_KEYS_MAX, NULL, "^(ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/=]+( .*)?$", "[]", "public SSH keys, one line each" },
	{ "", "cloudInit", RK_JOBJECT, false, 0, 0, NULL, NULL, NULL, "parts of the seed of the user's own" },
	{ "cloudInit", "userData", RK_JSTRING, false, 0, RK_SPEC_USER_DATA_MAX, NULL, "^#(cloud-config|!)", NULL, "a cloud-config or a script, run after racksh's own part, which wins where both set a value" },
	{ "", "nvlink", RK_JOBJECT, false, 0, 0, NULL, NULL, NULL, "the NVLink partition in each rack" },
	{ "nvlink", "resiliency", RK_JSTRING, false, 0, 0, WORDS("full_bandwidth", "adaptive_bandwidth", "user_action"), NULL, "\"full_bandwidth\"", "what the switches do when a trunk link fails" },
	{ "nvlink", "multicastGroups", RK_JNUMBER, false, 0, 1024, NULL, NULL, "18", "multicast groups of each partition" },
	{ "", "infiniband", RK_JOBJECT, false, 0, 0, NULL, NULL, NULL, "the InfiniBand partition" },
	{ "infiniband", "pkey", RK_JSTRING, false, 0, 0, NULL, "^(auto|0x[0-9a-fA-F]{1,4}|[0-9]{1,5})$", "\"auto\"", "auto, or a key from 0x0001 to 0x7ffe" },
	{ "infiniband", "membership", RK_JSTRING, false, 0, 0, WORDS("limited", "full"), NULL, "\"full\"", "membership of the ports in the cluster's own key" },
	{ "", "validation", RK_JOBJECT, false, 0, 0, NULL, NULL, NULL, "the fabric gate" },
	{ "validation", "profile", RK_JSTRING, false, 0, 0, NULL, NULL, NULL, "validation profile" },
	{ "validation", "level", RK_JSTRING, false, 0, 0, WORDS("quick", "standard", "deep"), NULL, "\"quick\"", "how much is measured" },
	{ "validation", "required", RK_JBOOL, false, 0, 0, NULL, NULL, "false", "a cluster that does not pass is not ready" },
	{ .key = NULL },
};

const struct rk_spec_key *rk_spec_key(const char *object, const char *key)
{
	for (const struct rk_spec_key *k = rk_spec_keys; k->key; k++)
		if (rk_streq(k->object, object) && rk_streq(k->key, key))
			return k;
	abort();
}
