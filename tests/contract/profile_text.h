/* Profiles that a test writes as text. Include after <cmocka.h>. */
#pragma once
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provision/health/rules.h"

/* Profiles are read from files only: this makes one and takes it away again. Returns what rk_hprofile_load says. */
static inline int profile_load(const char *text, struct rk_hprofile **ret, struct rk_err *err)
{
	char path[] = "/tmp/racksh-profile.XXXXXX.json";
	int fd = mkstemps(path, 5);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	int rc = rk_hprofile_load(path, ret, err);
	unlink(path);
	return rc;
}

/* A profile that is right, to be freed. */
static inline struct rk_hprofile *profile_of(const char *text)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_hprofile *p = NULL;

	if (profile_load(text, &p, &err))
		fail_msg("%s: %s: %s", text, err.message, err.n_details ? err.details[0] : "");
	return p;
}
