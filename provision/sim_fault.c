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

static char *moved_value(const char *old, const struct place *p)
{
	(void)old;
	return rk_xasprintf("%d", (int)p->more + 1);
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
	enum { OF_RAIL, OF_GPU, OF_GUEST } of; /* what the first number is: a rail, a GPU (or one of as many leak detectors), for the form only */
	const char *what;                 /* of the key */
	bool more;                        /* takes a second number, from least to most */
	uint64_t least, most;
	const char *text;                 /* the new value, when nothing makes one; NULL deletes */
	char *(*value)(const char *old, const struct place *p);
} words[] = {
	{ "gpu-leave", OF_GPU, "gpu", false, 0, 0, NULL, partition_value },
	{ "gpu-move", OF_GPU, "gpu", true, 1, RK_NVL_DEFAULT, NULL, partition_value },
	{ "nvlink-down", OF_GPU, "nvlink", true, 0, LINKS_PER_GPU - 1, "down", NULL },
	{ "nvlink-up", OF_GPU, "nvlink", true, 0, LINKS_PER_GPU - 1, NULL, NULL },
	{ "link-down", OF_RAIL, "link", false, 0, 0, "down", NULL },
	{ "link-up", OF_RAIL, "link", false, 0, 0, NULL, NULL },
	{ "leak", OF_GPU, "leak", false, 0, 0, "wet", NULL },
	{ "leak-dry", OF_GPU, "leak", false, 0, 0, NULL, NULL },
	{ "link-rate", OF_RAIL, "rate", true, 0, RATE_MAX, NULL, rate_value },
	{ "cable-slow", OF_RAIL, "cable", true, 0, 99, NULL, rate_value },
	{ "cable-moved", OF_RAIL, "moved", true, 0, RK_RAILS_MAX - 1, NULL, moved_value },
	{ "ib-driver", OF_RAIL, "no-ib", false, 0, 0, "1", NULL },
	{ "gpu-slow", OF_GPU, "slow", true, 0, 99, NULL, rate_value },
	{ "gpu-xid", OF_GPU, "xid", true, 0, 1000, NULL, rate_value },
	{ "gpu-remap", OF_GPU, "remap", false, 0, 0, "1", NULL },
	{ "imex-down", OF_GUEST, "imex-down", false, 0, 0, "1", NULL },
	{ "imex-up", OF_GUEST, "imex-down", false, 0, 0, NULL, NULL },
	{ "imex-deaf", OF_GUEST, "imex-deaf", false, 0, 0, "1", NULL },
	{ "driver-down", OF_GUEST, "driver-down", false, 0, 0, "1", NULL },
	{ "driver-up", OF_GUEST, "driver-down", false, 0, 0, NULL, NULL },
	{ "gpu-busy", OF_GPU, "busy", false, 0, 0, "1", NULL },
	{ "gpu-idle", OF_GPU, "busy", false, 0, 0, NULL, NULL },
	{ "boot-hangs", OF_GUEST, "boot-hangs", false, 0, 0, "1", NULL },
	{ "boot-ends", OF_GUEST, "boot-hangs", false, 0, 0, NULL, NULL },
	{ "port-key", OF_RAIL, "keys", true, 1, 0xffff, NULL, one_more_key },
	{ "port-errors", OF_RAIL, "errors", true, 0, RATE_MAX, NULL, rate_value },
	{ "port-flaps", OF_RAIL, "flaps", true, 0, RATE_MAX, NULL, rate_value },
	{ "port-congested", OF_RAIL, "wait", true, 0, RATE_MAX, NULL, rate_value },
	{ "port-clean", OF_RAIL, "keys", false, 0, 0, NULL, NULL },
};

static char *key_of(const struct rk_sim *sim, const struct word *word, const struct place *p)
{
	if (strcmp(word->what, "gpu") == 0)
		return gpu_key(sim, p);
	if (strcmp(word->what, "nvlink") == 0)
		return nvlink_key(sim, p);
	return rk_xasprintf("%s:%s/%d", word->what, sim->site->trays[p->tray].name, word->of == OF_GUEST ? 0 : (int)p->number);
}

static char *value_of(const struct word *word, const char *old, const struct place *p)
{
	if (word->value)
		return word->value(old, p);
	return word->text ? rk_xstrdup(word->text) : NULL;
}

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
	if (!read_place(sim->site, target, &p) || p.number >= (uint64_t)(word->of != OF_RAIL ? sim->site->trays[p.tray].n_gpus : sim->site->trays[p.tray].n_hcas) ||
	    p.has_more != word->more || (word->more && (p.more < word->least || p.more > word->most)))
		return rk_err_set(err, RK_INVALID, "no such thing to fault: \"%s@%s\"", what, target);
	int rc = rk_sim_enter(sim, &call, what, target, true, err);
	if (rc)
		return rc;
	char *key RK_CLEANUP_FREE = key_of(sim, word, &p), *value RK_CLEANUP_FREE = value_of(word, rk_sim_get_settled(sim, key), &p);
	rk_sim_set(&call, key, value, 0);
	if (strcmp(word->what, "gpu") == 0 && p.more && p.more != RK_NVL_DEFAULT)
		add_partition(&call, &p);
	return rk_sim_leave(&call, 0, err);
}
