/* Changing partitions of UFM: what is there is read, what is missing added, what is too much removed, each seen before the next. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "provision/drivers/ufm_impl.h"

enum { SEEN_MS = 10000, POLL_MS = 500 };

struct goal {
	uint16_t pkey;
	struct rk_ib_member *members;     /* sorted */
	size_t n;
	bool index0;
};

static bool reached(const struct goal *goal, const struct rk_ib_live *now, bool there)
{
	if (!goal->n)
		return !there || now->n_members == 0;
	if (!there || now->n_members != goal->n)
		return false;
	for (size_t i = 0; i < goal->n; i++)
		if (now->members[i].guid != goal->members[i].guid || now->members[i].full != goal->members[i].full)
			return false;
	return true;
}

static void key_json(struct rk_jw *w, uint16_t pkey, struct rk_arena *arena)
{
	rk_jw_object(w);
	rk_jw_key(w, "pkey");
	rk_jw_str(w, rk_arena_printf(arena, "0x%x", pkey));
}

static void guid_json(struct rk_jw *w, uint64_t guid, struct rk_arena *arena)
{
	rk_jw_str(w, rk_arena_printf(arena, "%016" PRIx64, guid));
}

/* Members that are missing or have the other membership. */
static const char *addition(const struct goal *goal, const struct rk_ib_live *now, struct rk_arena *arena)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;
	size_t n = 0;
	const struct rk_ib_member **add = rk_arena_array(arena, goal->n, sizeof(*add));

	for (size_t i = 0; i < goal->n; i++) {
		const struct rk_ib_member *is = rk_ufm_member(now->members, now->n_members, goal->members[i].guid);
		if (!is || is->full != goal->members[i].full)
			add[n++] = &goal->members[i];
	}
	if (!n)
		return NULL;
	rk_jw_init(&w, &out, 0);
	key_json(&w, goal->pkey, arena);
	rk_jw_key(&w, "index0");
	rk_jw_bool(&w, goal->index0);
	rk_jw_key(&w, "ip_over_ib");
	rk_jw_bool(&w, true);
	rk_jw_key(&w, "guids");
	rk_jw_array(&w);
	for (size_t i = 0; i < n; i++)
		guid_json(&w, add[i]->guid, arena);
	rk_jw_end(&w);
	rk_jw_key(&w, "memberships");
	rk_jw_array(&w);
	for (size_t i = 0; i < n; i++)
		rk_jw_str(&w, add[i]->full ? "full" : "limited");
	rk_jw_end(&w);
	rk_jw_end(&w);
	return rk_arena_strdup(arena, rk_str_text(&out));
}

static const char *removal(const struct goal *goal, const struct rk_ib_live *now, struct rk_arena *arena)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;
	size_t n = 0;

	rk_jw_init(&w, &out, 0);
	key_json(&w, goal->pkey, arena);
	rk_jw_key(&w, "guids");
	rk_jw_array(&w);
	for (size_t i = 0; i < now->n_members; i++)
		if (!rk_ufm_member(goal->members, goal->n, now->members[i].guid)) {
			guid_json(&w, now->members[i].guid, arena);
			n++;
		}
	rk_jw_end(&w);
	rk_jw_end(&w);
	return n ? rk_arena_strdup(arena, rk_str_text(&out)) : NULL;
}

static int cancelled(const struct ufm *ufm, struct rk_err *err)
{
	return ufm->env.cancel && *ufm->env.cancel ? rk_err_set(err, RK_CANCELLED, "cancelled") : 0;
}

/* Reads until seen says yes; what UFM accepted may show later. RK_UNREACHABLE when it does not show. */
static int wait_for(struct ufm *ufm, int fabric, const struct goal *goal, bool (*seen)(const struct goal *goal, const struct rk_ib_live *now, bool there),
		    struct rk_arena *arena, struct rk_ib_live *now, struct rk_err *err)
{
	for (int waited = 0;; waited += POLL_MS) {
		bool there;
		int rc = rk_ufm_read(ufm, fabric, goal->pkey, arena, now, &there, err);
		if (rc != 0 || seen(goal, now, there))
			return rc;
		if (waited >= SEEN_MS)
			return rk_err_set(err, RK_UNREACHABLE, "UFM accepted the change of key 0x%04x, but does not show it", goal->pkey);
		if ((rc = cancelled(ufm, err)) != 0)
			return rc;
		rk_clock_sleep_ms(ufm->env.clock, POLL_MS);
	}
}

static bool all_members_there(const struct goal *goal, const struct rk_ib_live *now, bool there)
{
	for (size_t i = 0; i < goal->n; i++) {
		const struct rk_ib_member *is = there ? rk_ufm_member(now->members, now->n_members, goal->members[i].guid) : NULL;
		if (!is || is->full != goal->members[i].full)
			return false;
	}
	return true;
}

/* A change. An error may come with the effect, so what is there now decides; the error is told when it is not what was wanted. */
static int change(struct ufm *ufm, int fabric, const char *method, const char *path, const char *body, const struct goal *goal,
		  bool (*seen)(const struct goal *goal, const struct rk_ib_live *now, bool there), struct rk_arena *arena, struct rk_ib_live *now, struct rk_err *err)
{
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT, ignored RK_CLEANUP_ERR = RK_ERR_INIT;
	bool there;
	int rc = rk_ufm_call(ufm, fabric, method, path, body, &reply, NULL, &why);

	if (rc == 0)
		return wait_for(ufm, fabric, goal, seen, arena, now, err);
	if (rc != RK_CANCELLED && rk_ufm_read(ufm, fabric, goal->pkey, arena, now, &there, &ignored) == 0 && seen(goal, now, there))
		return 0;
	rk_err_move(err, &why);
	return rc;
}

/* With members: first those that are missing, then, with all of them seen, those that are too many. So the last GUID is never taken out. */
static int fill(struct ufm *ufm, int fabric, const struct goal *goal, struct rk_ib_live *now, struct rk_arena *arena, struct rk_err *err)
{
	const char *add = addition(goal, now, arena);
	int rc = add ? change(ufm, fabric, "POST", "/resources/pkeys", add, goal, all_members_there, arena, now, err) : 0;

	if (rc)
		return rc;
	const char *remove = removal(goal, now, arena);
	return remove ? change(ufm, fabric, "POST", "/actions/remove_guids_from_pkey", remove, goal, reached, arena, now, err) : 0;
}

static int set_locked(struct ufm *ufm, int fabric, const struct goal *goal, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ib_live now;
	bool there;
	int rc = rk_ufm_read(ufm, fabric, goal->pkey, arena, &now, &there, err);

	if (rc || reached(goal, &now, there))
		return rc;
	if (!goal->n)
		return change(ufm, fabric, "DELETE", rk_arena_printf(arena, "/resources/pkeys/0x%x", goal->pkey), NULL, goal, reached, arena, &now, err);
	return fill(ufm, fabric, goal, &now, arena, err);
}

static int check_goal(const struct ufm *ufm, int fabric, const struct goal *goal, struct rk_err *err)
{
	const struct rk_fabric *f = rk_ufm_fabric(ufm, fabric);

	if (ufm->env.read_only)
		return rk_err_set(err, RK_INVALID, "--read-only: nothing is changed in UFM");
	if (!rk_ufm_managed(f, goal->pkey)) {
		rk_err_set(err, RK_CONFLICT, "key 0x%04x is outside the range that racksh manages (0x%04x-0x%04x)", goal->pkey, f->pkey_first, f->pkey_last);
		rk_err_hint(err, "pkeyPool of the site file is the managed range");
		return RK_CONFLICT;
	}
	for (size_t i = 0; i < goal->n; i++)
		if (!goal->members[i].guid || (i && goal->members[i].guid == goal->members[i - 1].guid))
			return rk_err_set(err, RK_INVALID, "key 0x%04x: a member has no GUID, or is named twice", goal->pkey);
	return 0;
}

/* UFM names partitions after their keys; names of its own came late and are not needed. */
int rk_ufm_set(struct rk_ib *ib, int fabric, const struct rk_ib_wanted *wanted, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct ufm *ufm = (struct ufm *)ib;
	struct goal goal = { wanted->pkey, rk_arena_array(arena, wanted->n, sizeof(*goal.members)), wanted->n, !wanted->shared };

	if (goal.n)
		memcpy(goal.members, wanted->members, goal.n * sizeof(*goal.members));
	qsort(goal.members, goal.n, sizeof(*goal.members), rk_ufm_cmp_member);
	pthread_mutex_lock(&ufm->fabrics[fabric].lock);
	int rc = check_goal(ufm, fabric, &goal, err);
	return rk_ufm_finish(ufm, fabric, rc ? rc : set_locked(ufm, fabric, &goal, err), err);
}
