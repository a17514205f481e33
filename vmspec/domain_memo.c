#include <pthread.h>
#include <stdlib.h>

#include "inventory/base/map.h"
#include "vmspec/domain_impl.h"

struct rk_domain_memo {
	pthread_mutex_t lock;
	struct rk_map *keys;             /* key -> index into texts */
	struct {
		char **items;            /* kept where they are until the memo is freed */
		size_t n, cap;
	} texts;
};

struct rk_domain_memo *rk_domain_memo_new(void)
{
	struct rk_domain_memo *memo = rk_xcalloc(1, sizeof(*memo));

	pthread_mutex_init(&memo->lock, NULL);
	memo->keys = rk_map_new();
	return memo;
}

void rk_domain_memo_free(struct rk_domain_memo *memo)
{
	if (!memo)
		return;
	for (size_t i = 0; i < memo->texts.n; i++)
		free(memo->texts.items[i]);
	free(memo->texts.items);
	rk_map_free(memo->keys);
	pthread_mutex_destroy(&memo->lock);
	free(memo);
}

void rk_cleanup_domain_memo(struct rk_domain_memo **memo)
{
	rk_domain_memo_free(*memo);
}

const char *rk_domain_memo_get(struct rk_domain_memo *memo, const char *key)
{
	const char *text = NULL;
	size_t at;

	pthread_mutex_lock(&memo->lock);
	if (rk_map_get(memo->keys, key, &at))
		text = memo->texts.items[at];
	pthread_mutex_unlock(&memo->lock);
	return text;
}

void rk_domain_memo_put(struct rk_domain_memo *memo, const char *key, const char *text)
{
	pthread_mutex_lock(&memo->lock);
	/* Two threads may have made the same text at once: the first one stays. */
	if (rk_map_add(memo->keys, key, memo->texts.n, NULL))
		*rk_vec_push(&memo->texts) = rk_xstrdup(text);
	pthread_mutex_unlock(&memo->lock);
}
