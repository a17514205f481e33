#include "provision/health/run.h"

#include <string.h>

#include "inventory/base/clock.h"
#include "inventory/base/json.h"
#include "inventory/base/str.h"

/* Level or profile that the spec of the cluster asks for; NULL when it does not. */
static const char *from_spec(const struct rk_site *site, int cluster, const char *key, struct rk_arena *arena)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	const char *spec = site->clusters[cluster].spec;

	if (!spec || rk_json_parse("spec", spec, strlen(spec), &json, NULL))
		return NULL;
	return rk_arena_strdup(arena, rk_jstr(rk_jget(rk_jget(rk_json_root(json), "validation"), key)));
}

static void stamp(struct rk_report *report, int64_t unix_ms, int64_t start_ms)
{
	report->started_ms = unix_ms;
	report->seconds = (double)(rk_clock_ms(NULL) - start_ms) / 1000;
}

static const char *profile_of(const struct rk_site *site, int vm, struct rk_arena *arena)
{
	const char *name = from_spec(site, site->vms[vm].cluster, "profile", arena);

	return name ? name : rk_hprofile_for(site, vm);
}

/* The one that all VMs are judged by: thresholds of one kind of rack say nothing about another. */
static int common_profile(const struct rk_site *site, const int *vms, size_t n, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	*ret = profile_of(site, vms[0], arena);
	for (size_t i = 1; i < n; i++) {
		const struct rk_vm *vm = &site->vms[vms[i]], *before = &site->vms[vms[i - 1]];
		bool same = vm->cluster == before->cluster && site->trays[vm->tray].rack == site->trays[before->tray].rack;
		const char *other = same ? *ret : profile_of(site, vms[i], arena);
		if (strcmp(*ret, other) == 0)
			continue;
		rk_err_set(err, RK_INVALID, "%s is judged by the profile %s, and %s by %s", site->vms[vms[0]].name, *ret, site->vms[vms[i]].name, other);
		rk_err_hint(err, "validate them apart, or give --profile");
		return RK_INVALID;
	}
	return 0;
}

int rk_validate(struct rk_world *world, const struct rk_validate_opts *opts, const int *vms, size_t n, struct rk_arena *arena, struct rk_report *ret,
		struct rk_err *err)
{
	const struct rk_site *site = world->site;
	struct rk_hprofile *profile RK_CLEANUP(rk_cleanup_hprofile) = NULL;
	int64_t unix_ms = rk_clock_unix_ms(NULL), start = rk_clock_ms(NULL);
	int cluster = site->vms[vms[0]].cluster;
	const char *level = opts->level ? opts->level : from_spec(site, cluster, "level", arena);
	const char *name = opts->profile;
	struct rk_target *targets;

	level = level ? level : "quick";
	int rc = name ? 0 : common_profile(site, vms, n, arena, &name, err);
	if (!rc)
		rc = rk_hprofile_load(name, &profile, err);
	if (!rc)
		rc = rk_collect(world, profile, level, opts->total_ms, vms, n, arena, &targets, err);
	if (!rc && opts->save)
		rc = rk_evidence_save(opts->save, targets, n, err);
	if (!rc)
		rc = rk_judge(profile, level, targets, n, arena, ret, err);
	if (!rc)
		stamp(ret, unix_ms, start);
	return rc;
}

int rk_validate_replay(const char *dir, const char *level, const char *profile, struct rk_arena *arena, struct rk_report *ret, struct rk_err *err)
{
	struct rk_hprofile *loaded RK_CLEANUP(rk_cleanup_hprofile) = NULL;
	int64_t kept_ms, start = rk_clock_ms(NULL);
	struct rk_target *targets;
	size_t n;

	int rc = rk_hprofile_load(profile ? profile : "gb300-acceptance", &loaded, err);
	if (!rc)
		rc = rk_evidence_load(dir, arena, &targets, &n, &kept_ms, err);
	if (!rc)
		rc = rk_judge(loaded, level ? level : "quick", targets, n, arena, ret, err);
	if (!rc)
		stamp(ret, kept_ms, start);
	return rc;
}
