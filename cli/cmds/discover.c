#include <stdlib.h>

#include "cli/cmds/common.h"
#include "provision/discover.h"

/* site discover; its row is in site.c. */

static void show_proposal(struct rk_call *call, const struct rk_proposal *p)
{
	rk_out_row(call->out);
	rk_cell_text(call->out, "object", p->object);
	rk_cell_text(call->out, "field", p->field);
	rk_cell_text(call->out, "recorded", p->recorded);
	rk_cell_text(call->out, "seen", p->seen);
	rk_cell_text(call->out, "action", p->action);
	rk_cell_text(call->out, "message", p->message);
}

static void show_proposals(struct rk_call *call, const struct rk_discovery *d)
{
	struct rk_proposal *rows = d->items;
	size_t n = d->n;

	if (call->parsed->globals.format == RK_FORMAT_TABLE && !call->verbose)
		rk_discover_fold(d, call->arena, &rows, &n);
	for (size_t i = 0; i < n; i++)
		show_proposal(call, &rows[i]);
}

/* Contradictions are code 7; what did not answer is 3, or 6 when nothing did. */
static int discovery_rc(const struct rk_discovery *d, struct rk_err *err)
{
	if (d->contradicts)
		return rk_err_set(err, RK_UNHEALTHY, "the racks contradict the store");
	if (d->unread)
		return rk_err_set(err, d->unread == d->asked ? RK_UNREACHABLE : RK_PARTIAL, "%zu of %zu did not answer, or not in full", d->unread, d->asked);
	return 0;
}

int rk_cmd_discover(struct rk_call *call, struct rk_err *err)
{
	const char *selection = rk_call_arg(call, "SEL");
	struct rk_discovery found = { 0 };
	RK_CLEANUP(rk_cleanup_seen) struct rk_seen *seen = NULL;
	size_t n, applied = 0;
	int *trays, rc = rk_select_trays(call->world->site, selection ? selection : "@all", call->except, call->arena, &trays, &n, err);

	if (!rc)
		rc = rk_seen_read(call->world, trays, n, &seen, err);
	if (rc)
		return rc;
	rk_discover_compare(seen, trays, n, call->arena, &found);
	show_proposals(call, &found);
	if (rk_call_flag(call, "apply"))
		rc = rk_discover_apply(call->world, &found, &applied, err);
	if (!rc && !found.n)
		rk_out_note(call->out, "%zu trays are as recorded", n);
	if (!rc && applied)
		rk_out_note(call->out, "%zu values %s", applied, call->dry_run ? "would be written" : "written");
	if (!rc)
		rc = discovery_rc(&found, err);
	free(found.items);
	return rc;
}
