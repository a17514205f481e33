#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/contract/sweep.h"

/* Every operation of tests/contract/sweep.h with every single call to an outside system failing once. What comes out is all or nothing: in the
 * store, on the hypervisors, on the switches, in the fabric, in the guests. */

struct tally {
	long runs, undone, left, finished;
};

/* What is left unfinished is rolled back, or, when there is no way back, finished. */
static bool bring_to_end(struct fixture *f, int64_t op, struct tally *t)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;

	t->left++;
	if (rk_op_rollback(&f->world, op, &why) == 0)
		return strcmp(op_state(f, op), "done") == 0;
	OK(rk_op_resume(&f->world, op, err));
	t->finished++;
	return true;
}

/* False when the run was over before the fault struck. */
static bool run_with_fault(const struct scenario *s, const char *before, long k, const char *mode, struct tally *t)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct fixture f;
	int64_t op = 0;
	char fault[32];

	prepare(&f, s, NULL);
	long first = rk_sim_calls(f.world.sim);
	snprintf(fault, sizeof(fault), "call#%ld=%s", k, mode);
	assert_int_equal(rk_sim_fault_add(f.world.sim, fault, NULL), 0);
	bool done = s->act(&f.world, f.arena, &op, &why) == 0;
	bool struck = rk_sim_calls(f.world.sim) >= first + k;
	outlive_fault(&f, first + k);
	if (!done && op && strcmp(op_state(&f, op), "resumable") == 0)
		done = bring_to_end(&f, op, t);
	if (done) {
		assert_done(&f, s);
	} else {
		t->undone++;
		assert_same(&f, before);
	}
	close_world(&f);
	return struck;
}

/* Nothing happened; it happened and the answer was lost; and for some calls: nothing happened, and nobody knows. */
static void one_call_fails(void **state)
{
	const struct scenario *s = *state;
	static const struct {
		const char *mode;
		long stride;
	} forms[] = { { "fail", 1 }, { "lost", 1 }, { "hang", 4 } };
	char *before RK_CLEANUP_FREE = text_before(s, NULL);
	struct tally t = { 0, 0, 0, 0 };

	for (size_t m = 0; m < RK_ARRAY_SIZE(forms); m++)
		for (long k = 1; k < RUNS_MAX; k += full_sweep() ? 1 : forms[m].stride) {
			t.runs++;
			if (!run_with_fault(s, before, k, forms[m].mode, &t))
				break;
		}
	print_message("%s: %ld runs with one fault each: %ld undone, %ld left unfinished first, %ld of these finished\n", s->name, t.runs, t.undone, t.left,
		      t.finished);
	assert_true(t.runs > 60 && t.undone + t.left > 40);
}

int main(int argc, char **argv)
{
	static const struct sweep_test sweeps[] = { { "any one call may fail", one_call_fails, NULL, scenarios, RK_ARRAY_SIZE(scenarios) } };

	keep_memory();
	return run_sweeps("faults", sweeps, RK_ARRAY_SIZE(sweeps), argc, argv);
}
