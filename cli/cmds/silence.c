#include <string.h>

#include "cli/cmds/common.h"
#include "inventory/base/clock.h"
#include "inventory/base/nodeset.h"
#include "provision/health/memory.h"

static void silence_row(struct rk_call *call, const struct rk_silence *s)
{
	rk_out_row(call->out);
	if (s->id)
		rk_cell_number(call->out, "id", s->id);
	rk_cell_text(call->out, "trays", s->trays);
	rk_cell_text(call->out, "checks", s->checks ? s->checks : "*");
	rk_cell_text(call->out, "reason", s->reason);
	rk_cell_text(call->out, "by", s->by);
	rk_cell_time(call->out, "from", s->from_unix_ms);
	rk_cell_time(call->out, "to", s->to_unix_ms);
	rk_cell_text(call->out, "state", rk_silence_state(s, call->world->site->read_unix_ms));
}

static int list(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	(void)err;
	for (size_t i = 0; i < site->n_silences; i++)
		silence_row(call, &site->silences[i]);
	return 0;
}

/* It needs an end: what is silenced for ever is forgotten. */
static int read_times(struct rk_call *call, struct rk_silence *s, struct rk_err *err)
{
	const char *from = rk_call_arg(call, "from"), *to = rk_call_arg(call, "to"), *length = rk_call_arg(call, "for");
	int64_t now = call->world->site->read_unix_ms, ms = 0;
	int rc = rk_time_parse(from ? from : "now", now, &s->from_unix_ms, err);

	if (!rc && !to == !length)
		rc = rk_err_set(err, RK_INVALID, "a silence needs an end: one of --to and --for");
	if (!rc && to)
		rc = rk_time_parse(to, now, &s->to_unix_ms, err);
	if (!rc && length)
		rc = rk_duration_parse(length, &ms, err);
	if (!rc && length)
		s->to_unix_ms = s->from_unix_ms + ms;
	if (!rc && (s->to_unix_ms <= s->from_unix_ms || s->to_unix_ms <= now))
		rc = rk_err_set(err, RK_INVALID, "the silence ends before it begins");
	return rc;
}

/* Trays, or VMs: then the trays they are on, since maintenance is of hardware. */
static int read_trays(struct rk_call *call, const char **ret, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	const char *selection = rk_call_arg(call, "SEL");
	int *found;
	size_t n;
	int rc = rk_select_trays(site, selection, call->except, call->arena, &found, &n, err);
	bool vms = rc == RK_NOT_FOUND && !rk_select_vms(site, selection, call->except, call->arena, &found, &n, NULL);

	if (rc && !vms)
		return rc;
	if (vms && err)
		rk_err_clear(err);
	const char **names = rk_arena_array(call->arena, n + 1, sizeof(*names));
	for (size_t i = 0; i < n; i++)
		names[i] = site->trays[vms ? site->vms[found[i]].tray : found[i]].name;
	*ret = rk_nodeset_fold(call->arena, names, n);
	return 0;
}

/* A name that no profile knows silences nothing, and nobody would notice. */
static int read_check(struct rk_call *call, struct rk_silence *s, struct rk_err *err)
{
	size_t n, n_ids = 0;
	const char *const *profiles = rk_hprofiles(&n);
	const char **ids = rk_arena_array(call->arena, n * 512 + 1, sizeof(*ids));
	bool known = false;

	s->checks = rk_call_arg(call, "check");
	if (!s->checks || strcmp(s->checks, "*") == 0) {
		s->checks = NULL;
		return 0;
	}
	ids[n_ids++] = "ssh";
	for (size_t i = 0; i < n; i++)
		rk_hprofile_checks(profiles[i], call->arena, ids, n * 512, &n_ids);
	for (size_t i = 0; i < n_ids; i++)
		known |= rk_silence_covers(s, ids[i]);
	if (known || rk_call_flag(call, "own"))
		return 0;
	const char *near = rk_near_name(s->checks, ids, n_ids);
	rk_err_set(err, RK_INVALID, "no built-in profile has a check \"%s\"", s->checks);
	if (near)
		rk_err_hint(err, "did you mean \"%s\"? A check of a profile of the site needs --own", near);
	else
		rk_err_hint(err, "see `profile show`; a check of a profile of the site needs --own");
	return RK_INVALID;
}

struct adding {
	const struct rk_silence *wish;
	int64_t *ret_id;
};

static int add(struct rk_call *call, const void *data, struct rk_err *err)
{
	const struct adding *a = data;

	return rk_store_add_silence(call->world->store, a->wish, a->ret_id, err);
}

/* Shown as the store has it: who asked for it is written there. */
static int make(struct rk_call *call, const struct rk_silence *wish, struct rk_err *err)
{
	int64_t id = 0;
	const struct adding adding = { wish, &id };
	int rc = rk_in_transaction(call, add, &adding, err);

	if (!rc)
		rc = rk_world_refresh(call->world, err);
	for (size_t i = 0; !rc && i < call->world->site->n_silences; i++)
		if (call->world->site->silences[i].id == id)
			silence_row(call, &call->world->site->silences[i]);
	return rc;
}

static int create(struct rk_call *call, struct rk_err *err)
{
	struct rk_silence s = { .reason = rk_call_arg(call, "reason") };
	int rc = read_times(call, &s, err);

	if (!rc && (!s.reason || !*s.reason))
		rc = rk_err_set(err, RK_INVALID, "a silence needs a reason: --reason TEXT");
	if (!rc)
		rc = read_check(call, &s, err);
	if (!rc)
		rc = read_trays(call, &s.trays, err);
	if (rc)
		return rc;
	if (!call->dry_run)
		return make(call, &s, err);
	silence_row(call, &s);
	return 0;
}

static int64_t id_of(struct rk_call *call)
{
	uint64_t id = 0;

	rk_parse_u64(rk_call_arg(call, "ID"), &id);
	return (int64_t)id;
}

static int remove_silence(struct rk_call *call, const void *data, struct rk_err *err)
{
	(void)data;
	return rk_store_remove_silence(call->world->store, id_of(call), err);
}

static int cancel(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	size_t at = 0;

	while (at < site->n_silences && site->silences[at].id != id_of(call))
		at++;
	if (at == site->n_silences) {
		rk_err_set(err, RK_NOT_FOUND, "no silence %s", rk_call_arg(call, "ID"));
		rk_err_hint(err, "racksh silence list");
		return RK_NOT_FOUND;
	}
	silence_row(call, &site->silences[at]);
	return rk_in_transaction(call, remove_silence, NULL, err);
}

#define COLUMNS                                                                                                                           \
	RK_COLUMNS({ "id", RK_COL_NUMBER }, { "trays", RK_COL_TEXT }, { "checks", RK_COL_TEXT }, { "reason", RK_COL_TEXT }, { "by", RK_COL_TEXT }, \
		   { "from", RK_COL_TIME }, { "to", RK_COL_TIME }, { "state", RK_COL_TEXT })

static const struct rk_command rows[] = {
	{ .noun = "silence", .verb = "list", .summary = "list the silences, ended ones too", .list = true, .columns = COLUMNS,
	  .examples = RK_EXAMPLES("silence list", "silence list -o json"), .run = list },
	{ .noun = "silence", .verb = "create", .summary = "let findings on some trays not count for a time", .flags = RK_CMD_CHANGES | RK_CMD_STAGES | RK_CMD_SELECTS, .columns = COLUMNS,
	  .args = RK_ARGS({ .name = "SEL", .type = RK_ARG_SEL_TRAYS, .required = true, .help = "trays, or VMs: then the trays they are on" }),
	  .options = RK_ARGS({ .name = "reason", .type = RK_ARG_TEXT, .help = "why; required" },
			     { .name = "check", .type = RK_ARG_TEXT, .help = "this check alone, or those that begin so (ib.*); default all" },
			     { .name = "from", .type = RK_ARG_TEXT, .help = "beginning: RFC 3339, a day, or from now on (+2h); default now" },
			     { .name = "to", .type = RK_ARG_TEXT, .help = "end: RFC 3339, a day, or from now on (+7d)" },
			     { .name = "for", .type = RK_ARG_TEXT, .help = "length instead of an end (4h, 2d)" },
			     { .name = "own", .type = RK_ARG_NONE, .help = "the check is one of a profile of the site" }),
	  .description = "While a tray is worked on, what validations find there is known already. A silenced finding is shown with who silenced it, why and until when, in "
			 "validate and in reports, and does not count for the verdict. It ends by itself.",
	  .examples = RK_EXAMPLES("silence create r01-t02 --reason 'new cable is ordered' --check 'ib.*' --for 2d",
				  "silence create r01-t[01-02] --reason 'firmware update' --from +1h --to +5h -n"),
	  .run = create },
	{ .noun = "silence", .verb = "cancel", .summary = "end a silence now", .flags = RK_CMD_CHANGES | RK_CMD_STAGES, .columns = COLUMNS,
	  .args = RK_ARGS({ .name = "ID", .type = RK_ARG_NUMBER, .required = true, .help = "number of the silence" }), .run = cancel },
};
RK_NOUN(silence, "findings that do not count for a time", NULL, rows);
