/* The keys of a cluster spec as rows: what the parser accepts, what the JSON schema says. Private to vmspec. */
#pragma once
#include "inventory/base/json.h"

enum { RK_SPEC_COUNT_MAX = 100000, RK_SPEC_KEYS_MAX = 64, RK_SPEC_USER_DATA_MAX = 64 << 10, RK_SPEC_NAME_MAX = 48, RK_SPEC_APART_MAX = 64 };

struct rk_spec_key {
	const char *object;         /* "" for the spec itself, else the key of the object it is in */
	const char *key;
	enum rk_jtype type;
	bool required;
	long min, max;              /* numbers: whole, both included */
	const char *const *words;   /* strings: one of these; NULL-terminated; NULL: any */
	const char *pattern;        /* strings: for the schema; the parser's own check is stricter or the same */
	const char *absent;         /* default as JSON, or NULL */
	const char *help;
};
extern const struct rk_spec_key rk_spec_keys[]; /* ends with key == NULL */
/* The row; a key that is not there is a bug (abort). */
const struct rk_spec_key *rk_spec_key(const char *object, const char *key);
