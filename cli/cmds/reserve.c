#include <string.h>

#include "cli/cmds/common.h"
#include "inventory/base/clock.h"
#include "provision/reserve.h"

static void reservation_row(struct rk_call *call, const struct rk_reservation *r)
{
	const struct rk_site *site = call->world->site;

	rk_out_row(call->out);
	if (r->id)
		rk_cell_number(call->out, "id", r->id);
	rk_cell_text(call->out, "tenant", site->tenants[r->tenant].name);
	rk_cell_text(call->out, "racks", r->racks);
	if (!r->racks)
		rk_cell_number(call->out, "count", r->count);
	rk_cell_time(call->out, "from", r->from_unix_ms);
	rk_cell_time(call->out, "to", r->to_unix_ms);
	rk_cell_text(call->out, "state", rk_reserve_state(site, r));
}

static int list(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	(void)err;
	for (size_t i = 0; i < site->n_reservations; i++)
		reservation_row(call, &site->reservations[i]);
	return 0;
}

/* From, and to or for: absent ones are now and, of the end, an error. */
static int read_times(struct rk_call *call, struct rk_reserve_wish *wish, struct rk_err *err)
{
	const char *from = rk_call_arg(call, "from"), *to = rk_call_arg(call, "to"), *length = rk_call_arg(call, "for");
	int64_t now = call->world->site->read_unix_ms, ms = 0;
	int rc = rk_time_parse(from ? from : "now", now, &wish->from_unix_ms, err);

	if (!rc && !to == !length)
		rc = rk_err_set(err, RK_INVALID, "a reservation needs an end: one of --to and --for");
	if (!rc && to)
		rc = rk_time_parse(to, now, &wish->to_unix_ms, err);
	if (!rc && length)
		rc = rk_duration_parse(length, &ms, err);
	if (!rc && length)
		wish->to_unix_ms = wish->from_unix_ms + ms;
	return rc;
}

static int read_count(struct rk_call *call, int *ret, struct rk_err *err)
{
	const char *text = rk_call_arg(call, "count");
	uint64_t n = 0;

	if (text && (!rk_parse_u64(text, &n) || !n || n > 1000000))
		return rk_err_set(err, RK_INVALID, "--count is a number of trays from 1");
	*ret = (int)n;
	return 0;
}

static int create(struct rk_call *call, struct rk_err *err)
{
	struct rk_reserve_wish wish = { .tenant = rk_call_arg(call, "TENANT"), .racks = rk_call_arg(call, "racks") };
	const char *racks = NULL;
	int64_t id = 0;
	int rc = read_times(call, &wish, err);

	if (!rc)
		rc = read_count(call, &wish.count, err);
	if (!rc)
		rc = rk_reserve_check(call->world->site, &wish, call->arena, &racks, err);
	if (!rc)
		rc = rk_reserve_create(call->world, &wish, call->arena, &id, err);
	if (rc)
		return rc;
	const struct rk_reservation row = { .id = call->dry_run ? 0 : id, .tenant = rk_find_tenant(call->world->site, wish.tenant), .racks = racks, .count = wish.count,
					    .from_unix_ms = wish.from_unix_ms, .to_unix_ms = wish.to_unix_ms };
	reservation_row(call, &row);
	return 0;
}

static int64_t id_of(struct rk_call *call)
{
	uint64_t id = 0;

	rk_parse_u64(rk_call_arg(call, "ID"), &id);
	return (int64_t)id;
}

static int remove_reservation(struct rk_call *call, const void *data, struct rk_err *err)
{
	(void)data;
	return rk_store_remove_reservation(call->world->store, id_of(call), err);
}

static int cancel(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	size_t at = 0;

	while (at < site->n_reservations && site->reservations[at].id != id_of(call))
		at++;
	if (at == site->n_reservations) {
		rk_err_set(err, RK_NOT_FOUND, "no reservation %s", rk_call_arg(call, "ID"));
		rk_err_hint(err, "racksh reserve list");
		return RK_NOT_FOUND;
	}
	reservation_row(call, &site->reservations[at]);
	return rk_in_transaction(call, remove_reservation, NULL, err);
}

#define COLUMNS                                                                                                                              \
	RK_COLUMNS({ "id", RK_COL_NUMBER }, { "tenant", RK_COL_TEXT }, { "racks", RK_COL_TEXT }, { "count", RK_COL_NUMBER }, { "from", RK_COL_TIME }, \
		   { "to", RK_COL_TIME }, { "state", RK_COL_TEXT })

static const struct rk_command rows[] = {
	{ .noun = "reserve", .verb = "list", .summary = "list the reservations", .list = true, .columns = COLUMNS, .examples = RK_EXAMPLES("reserve list", "reserve list -o json"),
	  .run = list },
	{ .noun = "reserve", .verb = "create", .summary = "keep racks or a number of trays for a tenant", .flags = RK_CMD_CHANGES | RK_CMD_STAGES, .columns = COLUMNS,
	  .args = RK_ARGS({ .name = "TENANT", .type = RK_ARG_TENANT, .required = true, .help = "whom it is kept for" }),
	  .options = RK_ARGS({ .name = "racks", .type = RK_ARG_SEL_RACKS, .help = "whole racks" }, { .name = "count", .type = RK_ARG_NUMBER, .help = "trays, wherever" },
			     { .name = "from", .type = RK_ARG_TEXT, .help = "beginning: RFC 3339, a day, or from now on (+2h); default now" },
			     { .name = "to", .type = RK_ARG_TEXT, .help = "end: RFC 3339, a day, or from now on (+7d)" },
			     { .name = "for", .type = RK_ARG_TEXT, .help = "length instead of an end (12h, 7d)" }),
	  .description = "Placement keeps others off reserved racks, and leaves enough trays for a reservation by number. Clusters have no end, so a reservation counts "
			 "from the moment it is made until it ends, also before it begins.\n\n"
			 "By number means in all: what the tenant holds already counts, and of what is promised one after another the most at one time. What stands against a "
			 "reservation is named: reservations and clusters of others in the racks (code 4), too few free trays for it and for what others were promised (code 5).",
	  .examples = RK_EXAMPLES("reserve create contoso --racks r01 --for 7d", "reserve create contoso --count 8 --from 2030-01-01T08:00:00Z --to 2030-01-08", "reserve create contoso --count 4 --from +2h --to +2d -n"),
	  .run = create },
	{ .noun = "reserve", .verb = "cancel", .summary = "end a reservation now", .flags = RK_CMD_CHANGES | RK_CMD_STAGES, .columns = COLUMNS,
	  .args = RK_ARGS({ .name = "ID", .type = RK_ARG_NUMBER, .required = true, .help = "number of the reservation" }), .run = cancel },
};
RK_NOUN(reserve, "capacity kept for a tenant between two times", NULL, rows);
