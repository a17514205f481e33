/* Private to provision/health/hprofile*.c: the documents of a profile while it is read. */
#pragma once
#include "inventory/base/diag.h"
#include "provision/health/rules.h"

enum { RK_CHAIN_MAX = 8 };

/* A profile and the ones it inherits from, the own one first. */
struct rk_chain {
	struct rk_json *docs[RK_CHAIN_MAX];
	struct rk_diags diags[RK_CHAIN_MAX];
	char *names[RK_CHAIN_MAX];
	size_t n;
};

static inline const struct rk_jnode *rk_chain_root(const struct rk_chain *c, size_t i)
{
	return rk_json_root(c->docs[i]);
}
/* A text or an array of texts, appended; NULL: none. */
void rk_hprofile_texts(struct rk_arena *arena, struct rk_diags *diags, const struct rk_jnode *node, struct rk_texts *ret);
/* Names that are no collector of the profile are reported at the node. */
void rk_hprofile_check_collectors(const struct rk_hprofile *profile, struct rk_diags *diags, const struct rk_jnode *node, const struct rk_texts *texts);
/* All rules of the chain into the profile, whose collectors are known. */
void rk_hprofile_read_rules(struct rk_chain *chain, struct rk_hprofile *profile);
