/* Secrets of the REST transport: the credentials file, and texts that must not show them (rk_rest_mask of rest.h). */
#pragma once
#include "inventory/base/err.h"

struct rk_credentials {                   /* malloc'ed; NULL: not given */
	char *user, *password, *token;
};
/* Lines KEY=VALUE. RK_INVALID: not there, open to others, no text, or neither a token nor user and password. What was read so far is in *ret in every
 * case. */
int rk_credentials_read(const char *path, struct rk_credentials *ret, struct rk_err *err);
void rk_credentials_wipe(struct rk_credentials *credentials);
void rk_wipe(char **secret); /* overwrites, frees, NULL */
