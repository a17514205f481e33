/* --sim-fault words that change the twin itself: what happens on a real site without anybody asking racksh. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/sim_impl.h"

enum { LINKS_PER_GPU = 18, KEYS_PLANTED_MAX = 60, RATE_MAX = 1000000 };

/* TRAY/NUMBER or TRAY/NUMBER/NUMBER */
struct place {
	int tray;
	uint64_t number, more;
	bool has_more;
};

static bool read_place(const struct rk_site *site, const char *target, struct place *ret)
{
	char text[160], *rest = NULL;

	if ((size_t)snprintf(text, sizeof(text), "%s", target) >= sizeof(text))
		return false;
	const char *tray = strtok_r(text, "/", &rest), *number = strtok_r(NULL, "/", &rest), *more = strtok_r(NULL, "/", &rest);
	*ret = (struct place){ .tray = tray ? rk_find_tray(site, tray) : RK_NONE, .has_more = more != NULL };
	return ret->tray >= 0 && number && rk_parse_u64(number, &ret->number) && (!more || rk_parse_u64(more, &ret->more)) && !strtok_r(NULL, "/", &rest);
}

static char *gpu_key(const struct rk_sim *sim, const struct place *p)
{
	const struct rk_tray *t = &sim->site->trays[p->tray];

	return rk_xasprintf("gpu:%s:%016" PRIx64, sim->site->racks[t->rack].name, sim->site->gpus[t->first_gpu + (int)p->number].fabric_guid);
}

static char *nvlink_key(const struct rk_sim *sim, const struct place *p)
{
	return rk_xasprintf("nvlink:%s/%d/%d", sim->site->trays[p->tray].name, (int)p->number, (int)p->more);
}

static char *plain_key(const struct rk_sim *sim, const struct place *p, const char *what)
{
	return rk_xasprintf("%s:%s/%d", what, sim->site->trays[p->tray].name, (int)p->number);
}

static char *link_key(const struct rk_sim *sim, const struct place *p)
{
	return plain_key(sim, p, "link");
}

static char *keys_key(const struct rk_sim *sim, const struct place *p)
{
	return plain_key(sim, p, "keys");
}

static char *errors_key(const struct rk_sim *sim, const struct place *p)
{
	return plain_key(sim, p, "errors");
}

static char *flaps_key(const struct rk_sim *sim, const struct place *p)
{
	return plain_key(sim, p, "flaps");
}

static char *wait_key(const struct rk_sim *sim, const struct place *p)
{
	return plain_key(sim, p, "wait");
}

static char *leak_key(const struct rk_sim *sim, const struct place *p)
{
	return plain_key(sim, p, "leak");
}

static char *wet_value(const char *old, const struct place *p)
{
	(void)old, (void)p;
	return rk_xstrdup("wet");
}

static char *slow_key(const struct rk_sim *sim, const struct place *p)
{
	return plain_key(sim, p, "slow");
}

static char *xid_key(const struct rk_sim *sim, const struct place *p)
{
	return plain_key(sim, p, "xid");
}

static char *remap_key(const struct rk_sim *sim, const struct place *p)
{
	return plain_key(sim, p, "remap");
}

static char *rate_key(const struct rk_sim *sim, const struct place *p)
{
	return plain_key(sim, p, "rate");
}

static char *cable_key(const struct rk_sim *sim, const struct place *p)
{
	return plain_key(sim, p, "cable");
}

static char *module_key(const struct rk_sim *sim, const struct place *p)
{
	return plain_key(sim, p, "no-ib");
}

static char *moved_key(const struct rk_sim *sim, const struct place *p)
{
	return plain_key(sim, p, "moved");
}

static char *moved_value(const char *old, const struct place *p)
{
	(void)old;
	return rk_xasprintf("%d", (int)p->more + 1);
}

/* The number is there for the form only: a guest has one IMEX. */
static char *imex_key(const struct rk_sim *sim, const struct place *p)
{
	return rk_xasprintf("imex-down:%s/0", sim->site->trays[p->tray].name);
}

static char *deaf_key(const struct rk_sim *sim, const struct place *p)
{
	return rk_xasprintf("imex-deaf:%s/0", sim->site->trays[p->tray].name);
}

static char *driver_key(const struct rk_sim *sim, const struct place *p)
{
	return rk_xasprintf("driver-down:%s/0", sim->site->trays[p->tray].name);
}

static char *busy_key(const struct rk_sim *sim, const struct place *p)
{
	return plain_key(sim, p, "busy");
}

/* As above: a guest boots as a whole. */
static char *boot_key(const struct rk_sim *sim, const struct place *p)
{
	return rk_xasprintf("boot-hangs:%s/0", sim->site->trays[p->tray].name);
}

static char *one_value(const char *old, const struct place *p)
{
	(void)old, (void)p;
	return rk_xstrdup("1");
}

static char *rate_value(const char *old, const struct place *p)
{
	(void)old;
	return p->more ? rk_xasprintf("%d", (int)p->more) : NULL;
}

/* New value from the old one; NULL deletes. */
static char *partition_value(const char *old, const struct place *p)
{
	(void)old;
	return rk_xasprintf("%d", p->has_more ? (int)p->more : 0);
}

static char *down_value(const char *old, const struct place *p)
{
	(void)old, (void)p;
	return rk_xstrdup("down");
}

static char *no_value(const char *old, const struct place *p)
{
	(void)old, (void)p;
	return NULL;
}

static char *one_more_key(const char *old, const struct place *p)
{
	char word[8];

	snprintf(word, sizeof(word), "%04x", (unsigned)p->more);
	if (old && (strstr(old, word) || strlen(old) / 5 >= KEYS_PLANTED_MAX))
		return rk_xstrdup(old);
	return old ? rk_xasprintf("%s,%s", old, word) : rk_xstrdup(word);
}

static const struct word {
	const char *name;
	bool gpu;                         /* the first number is a GPU index (or one of as many leak detectors), else a rail */
	bool more;                        /* takes a second number, from least to most */
	uint64_t least, most;
	char *(*key)(const struct rk_sim *sim, const struct place *p);
	char *(*value)(const char *old, const struct place *p);
} words[] = {
	{ "gpu-leave", true, false, 0, 0, gpu_key, partition_value },
	{ "gpu-move", true, true, 1, RK_NVL_DEFAULT, gpu_key, partition_value },
	{ "nvlink-down", true, true, 0, LINKS_PER_GPU - 1, nvlink_key, down_value },
	{ "nvlink-up", true, true, 0, LINKS_PER_GPU - 1, nvlink_key, no_value },
	{ "link-down", false, false, 0, 0, link_key, down_value },
	{ "link-up", false, false, 0, 0, link_key, no_value },
	{ "leak", true, false, 0, 0, leak_key, wet_value },
	{ "leak-dry", true, false, 0, 0, leak_key, no_value },
	{ "link-rate", false, true, 0, RATE_MAX, rate_key, rate_value },
	{ "cable-slow", false, true, 0, 99, cable_key, rate_value },
	{ "cable-moved", false, true, 0, RK_RAILS_MAX - 1, moved_key, moved_value },
	{ "ib-driver", false, false, 0, 0, module_key, one_value },
	{ "gpu-slow", true, true, 0, 99, slow_key, rate_value },
	{ "gpu-xid", true, true, 0, 1000, xid_key, rate_value },
	{ "gpu-remap", true, false, 0, 0, remap_key, one_value },
	{ "imex-down", true, false, 0, 0, imex_key, one_value },
	{ "imex-up", true, false, 0, 0, imex_key, no_value },
	{ "imex-deaf", true, false, 0, 0, deaf_key, one_value },
	{ "driver-down", true, false, 0, 0, driver_key, one_value },
	{ "driver-up", true, false, 0, 0, driver_key, no_value },
	{ "gpu-busy", true, false, 0, 0, busy_key, one_value },
	{ "gpu-idle", true, false, 0, 0, busy_key, no_value },
	{ "boot-hangs", true, false, 0, 0, boot_key, one_value },
	{ "boot-ends", true, false, 0, 0, boot_key, no_value },
	{ "port-key", false, true, 1, 0xffff, keys_key, one_more_key },
	{ "port-errors", false, true, 0, RATE_MAX, errors_key, rate_value },
	{ "port-flaps", false, true, 0, RATE_MAX, flaps_key, rate_value },
	{ "port-congested", false, true, 0, RATE_MAX, wait_key, rate_value },
	{ "port-clean", false, false, 0, 0, keys_key, no_value },
};

const char *rk_sim_change_word(size_t i)
{
	return i < RK_ARRAY_SIZE(words) ? words[i].name : NULL;
}

static const struct word *find_word(const char *what)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(words); i++)
		if (rk_streq(words[i].name, what))
			return &words[i];
	return NULL;
}

/* Where a GPU is moved to there is a partition. */
static void add_partition(struct rk_sim_call *call, const struct place *p)
{
	const struct rk_site *site = call->sim->site;
	char *key RK_CLEANUP_FREE = rk_xasprintf("nvl:%s:%d", site->racks[site->trays[p->tray].rack].name, (int)p->more);

	if (!rk_sim_get_settled(call->sim, key))
		rk_sim_set(call, key, "somebody\tfull_bandwidth", 0);
}

int rk_sim_change(struct rk_sim *sim, const char *what, const char *target, int *ret, struct rk_err *err)
{
	const struct word *word = find_word(what);
	struct rk_sim_call call;
	struct place p;

	*ret = word != NULL;
	if (!word)
		return 0;
	if (!read_place(sim->site, target, &p) || p.number >= (uint64_t)(word->gpu ? sim->site->trays[p.tray].n_gpus : sim->site->trays[p.tray].n_hcas) ||
	    p.has_more != word->more || (word->more && (p.more < word->least || p.more > word->most)))
		return rk_err_set(err, RK_INVALID, "no such thing to fault: \"%s@%s\"", what, target);
	int rc = rk_sim_enter(sim, &call, what, target, true, err);
	if (rc)
		return rc;
	char *key RK_CLEANUP_FREE = word->key(sim, &p), *value RK_CLEANUP_FREE = word->value(rk_sim_get_settled(sim, key), &p);
	rk_sim_set(&call, key, value, 0);
	if (word->key == gpu_key && p.more && p.more != RK_NVL_DEFAULT)
		add_partition(&call, &p);
	return rk_sim_leave(&call, 0, err);
}
