#include "cli/schema.h"

#include <stdlib.h>
#include <string.h>

#include "cli/app.h"
#include "inventory/base/str.h"
#include "vmspec/spec_schema.h"

#define DRAFT "https://json-schema.org/draft/2020-12/schema"
#define VERDICT "pass|warn|fail|unknown"
#define STEP_STATES "planned|applying|done|undoing|undone|failed|unknown"
#define CHECK "[{object:s,tenant:s?,cluster:s?,verdict:s,message:s?}]"
#define VM_STATES "planned|building|running|stopped|failed|unknown"
#define CLUSTER_STATES "planned|building|ready|degraded|deleting|failed"
#define OP_STATES "running|awaiting-confirm|done|failed|resumable|rolled-back|cancelled"
#define TRAY_STATES "free|allocated|cordoned|spare|faulty|offline"

#define REASONS "[{rack:s,verdict:s,why:s}]"
#define STEPS "[{id:i,kind:s,target:s,summary:s}]"
/* power show: what BMCs said is there under --live and --for alone. */
#define INTERVAL "interval_seconds~:n?,interval_kwh~:n?,mean_kw~:n?"
#define METER "trays_on~:i,trays_off~:i,trays_unknown~:i,unmetered~:i,power_kw~:n?,gpu_module_kw~:n?," INTERVAL
#define RACK_POWER                                                                                                                   \
	"{name:s,row:s?,power_kw_budget:n?,power_kw_committed:n,power_kw_free:n?,limited_by:s?,shelves:i,shelves_kw:n?,supply_c_min:n?," \
	"supply_c_max:n?,supply_c:n?,flow_lpm:n?,flow_needed_lpm:n?,cooling_kw:n?,leaks:[s]," METER "}"
#define LEVELS "quick|standard|deep"

/* What the columns alone do not say. "NOUN VERB.KEY"; VERB may be * for those that have no row of their own. */
static const struct {
	const char *name, *shape;
} shapes[] = {
	{ "cluster *.state", CLUSTER_STATES },
	{ "cluster *.vms", "[{name:s,tray:s?,rack:s?,state:" VM_STATES ",address:s?,ssh_port:i?}]" },
	{ "cluster *.nvlink", "[{domain:s?,rack:s,partition:i,gpus:i}]" },
	{ "cluster *.infiniband", "{fabric:s,pkey:k,members:i}?" },
	{ "cluster *.placement", "{racks:[s],segment:i,spares:i,reasons:" REASONS "}" },
	{ "cluster *.validation", "{verdict:" VERDICT ",at:t,level:s}?" },
	{ "cluster plan.placement", "{racks:[{rack:s,trays:[s]}],reasons:" REASONS "}" },
	{ "cluster plan.steps", STEPS },
	{ "cluster plan.segments_after", "{*:i}" },
	{ "cluster plan.changes", "[{kind:s,value~:i,objects~:s,text:s}]" },
	{ "cluster render.seed", "{*:s}" },
	{ "vm *.state", VM_STATES },
	{ "tray *.state", TRAY_STATES },
	{ "op *.state", OP_STATES },
	{ "op *.steps", "[{id:i,kind:s,target:s,state:" STEP_STATES ",seconds:n?,detail:s?}]" },
	{ "drift.plane", "libvirt|nvlink|infiniband|inventory" }, { "drift.status", "in-sync|drifted|unknown" },
	{ "isolation verify.verdict", VERDICT }, { "isolation verify.nvlink", CHECK }, { "isolation verify.infiniband", CHECK },
	{ "isolation verify.violations", "[{plane:s,what:s,tenant_a:s?,tenant_b:s?}]" },
	{ "nvlink show.members", "[x]" },
	{ "nvlink show.seen", "[{vm:s,gpu:i?,agrees:b?,state:s?,status:s?,clique:s?,cluster_uuid:s?,why:s?}]" },
	{ "ib show.members", "[{guid:x,port:s?,wanted:s?,configured:s?,live:s?,why:s?}]" },
	{ "ib counters.counters", "[{name:s,delta:i?,per_second:n?,verdict:s}]" },
	{ "power show.rack", RACK_POWER }, { "power show.racks", "[" RACK_POWER "]" },
	{ "power show.trays", "[{name:s,state:" TRAY_STATES ",power_kw_committed:n,leak:s?,power:s,power_kw:n?,gpu_module_kw:n?,energy_kwh:n?," INTERVAL "}]" },
	{ "power show.clusters", "[{cluster:s," METER "}]" },
	{ "ib lint.findings", "[{line:i,column:i,message:s,hint:s?}]" }, { "ib lint.partitions", "[{pkey:k,name:s?,members:[{port:s,membership:full|limited}]}]" },
	{ "site show.segments", "{*:i}" }, { "site show.segments_less_one_rack", "{*:i}" },
	{ "validate *.trends", "[{target:s,metric:s,label:s,per_hour:[n]}]" },
	{ "profile *.levels", "{quick:[s],standard:[s],deep:[s]}" },
	{ "profile *.rules", "[{id:s,level:" LEVELS ",metric:s,compare:s,expect:s?,of:s?,scope:s,side:s,per:minute|hour?,each:gpus|rails?,severity:s,effect:s,after:s?,when:s?,kind:s?,cause:s?,"
	  "message:s?,hint:s?,source:s?,factor:n,tolerance:n,floor:n,grace:n,strikes:n,required:b,optional:b,collector:[s],warn_values:[s],unknown_values:[s],skip_values:[s],"
	  "value:[v],warn:n?,steps:[{up_to:n,value:n,warn:n?}]}]" },
};

/* Validation results have one shape whatever was validated. */
static const char checks_shape[] = "[{id:s,verdict:pass|warn|fail|unknown|skipped,severity:s,targets:[s],folded:s,value:s?,expected:s?,message:s?,hint:s?,"
	"silenced~:{id:i,verdict:s,reason:s,by:s,until:t}?}]";

static const char error_shape[] = "{!error:{!code:i,class:failed|invalid|partial|conflict|no-capacity|unreachable|unhealthy|not-found|bug|cancelled,message:s,hint:s?,details:[s]}}";

/* The plan of a change that places nothing; one that does prints what `cluster plan` prints. */
static const char dry_run_shape[] = "{feasible:b?,steps:" STEPS "}";

const char *rk_schema_shape_name(size_t i)
{
	return i < RK_ARRAY_SIZE(shapes) ? shapes[i].name : NULL;
}

/* ---- shapes to schemas -------------------------------------------------------------------------------------------------------------- */

static void shape(struct rk_jw *w, const char **at);

static void pair(struct rk_jw *w, const char *key, const char *value)
{
	rk_jw_key(w, key);
	rk_jw_str(w, value);
}

static void type_of(struct rk_jw *w, const char *type, bool null)
{
	bool several = null || strchr(type, '|');

	rk_jw_key(w, "type");
	if (several)
		rk_jw_array(w);
	for (size_t n; *type; type += n + (type[n] == '|')) {
		n = strcspn(type, "|");
		rk_jw_strn(w, type, n);
	}
	if (null)
		rk_jw_str(w, "null");
	if (several)
		rk_jw_end(w);
}

/* Past a balanced shape, '?' included. */
static const char *skip_shape(const char *at)
{
	int depth = 0;

	for (; *at; at++) {
		depth += strchr("[{", *at) ? 1 : strchr("]}", *at) ? -1 : 0;
		if (depth < 0 || (depth == 0 && *at == ','))
			return at;
	}
	return at;
}

static bool nullable(const char *at)
{
	const char *end = skip_shape(at);

	return end > at && end[-1] == '?';
}

static const struct {
	const char *word, *type, *pattern, *format;
} words[] = {
	{ "s", "string", NULL, NULL }, { "i", "integer", NULL, NULL }, { "n", "number", NULL, NULL }, { "b", "boolean", NULL, NULL },
	{ "t", "string", "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z$", "date-time" }, { "x", "string", "^0x[0-9a-f]{16}$", NULL },
	{ "k", "string", "^0x[0-9a-f]{4}$", NULL }, { "v", "number|string", NULL, NULL },
};

static void word(struct rk_jw *w, const char *text, size_t len, bool null)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(words); i++)
		if (strlen(words[i].word) == len && strncmp(words[i].word, text, len) == 0) {
			type_of(w, words[i].type, null);
			if (words[i].pattern)
				pair(w, "pattern", words[i].pattern);
			if (words[i].format)
				pair(w, "format", words[i].format);
			return;
		}
	if (len == 3 && strncmp(text, "any", 3) == 0)
		return;
	rk_jw_key(w, "enum");
	rk_jw_array(w);
	for (size_t from = 0; from < len;) {
		size_t n = 0;
		while (from + n < len && text[from + n] != '|')
			n++;
		rk_jw_strn(w, text + from, n);
		from += n + 1;
	}
	if (null)
		rk_jw_null(w);
	rk_jw_end(w);
}

static void required_keys(struct rk_jw *w, const char *at)
{
	rk_jw_key(w, "required");
	rk_jw_array(w);
	while (*at && *at != '}') {
		size_t n = strcspn(at, ":~");
		if (at[n] == ':' && *at != '*')
			rk_jw_strn(w, at, n);
		at = skip_shape(at + n);
		at += *at == ',';
	}
	rk_jw_end(w);
}

static void object(struct rk_jw *w, const char **at)
{
	bool closed = **at == '!';
	const char *keys = *at += closed;

	required_keys(w, keys);
	rk_jw_key(w, **at == '*' ? "additionalProperties" : "properties");
	if (**at == '*') {
		*at += 2;
		shape(w, at);
	} else {
		rk_jw_object(w);
		while (**at && **at != '}') {
			size_t n = strcspn(*at, ":~");
			char *key RK_CLEANUP_FREE = rk_xstrndup(*at, n);
			rk_jw_key(w, key);
			*at += n + ((*at)[n] == '~') + 1;
			shape(w, at);
			*at += **at == ',';
		}
		rk_jw_end(w);
	}
	if (closed) {
		rk_jw_key(w, "additionalProperties");
		rk_jw_bool(w, false);
	}
	*at += **at == '}';
}

/* Shapes are texts of this file, nested a few levels. */
static void shape(struct rk_jw *w, const char **at)
{
	bool null = nullable(*at);

	rk_jw_object(w);
	if (**at == '[') {
		type_of(w, "array", null);
		rk_jw_key(w, "items");
		++*at;
		shape(w, at);
		*at += **at == ']';
	} else if (**at == '{') {
		type_of(w, "object", null);
		++*at;
		object(w, at);
	} else {
		size_t n = strcspn(*at, ",]}?");
		word(w, *at, n, null);
		*at += n;
	}
	*at += **at == '?';
	rk_jw_end(w);
}

static void whole_shape(struct rk_jw *w, const char *text)
{
	shape(w, &text);
}

/* ---- rows to schemas ---------------------------------------------------------------------------------------------------------------- */

static const char *named(const char *name)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(shapes); i++)
		if (strcmp(shapes[i].name, name) == 0)
			return shapes[i].shape;
	return NULL;
}

static const char *shape_of(const struct rk_command *c, const struct rk_column *column)
{
	char *name RK_CLEANUP_FREE = rk_xasprintf("%s%s%s.%s", c->noun, c->verb ? " " : "", c->verb ? c->verb : "", column->key);
	char *any_verb RK_CLEANUP_FREE = rk_xasprintf("%s *.%s", c->noun, column->key);

	if (column->type == RK_COL_JSON && strcmp(column->key, "checks") == 0)
		return checks_shape;
	const char *own = named(name), *common = own ? NULL : named(any_verb);
	/* The same key may be a count in a list and the things themselves in a show. */
	bool fits = common && (column->type == RK_COL_JSON) == (strpbrk(common, "[{") != NULL || strcmp(common, "any") == 0);
	return own ? own : fits ? common : NULL;
}

const char *rk_schema_shape(const struct rk_command *c, const struct rk_column *column)
{
	return shape_of(c, column);
}

/* Any column may be unknown, which is null. */
static void column_schema(struct rk_jw *w, const struct rk_command *c, const struct rk_column *column)
{
	static const char *const by_type[] = { [RK_COL_TEXT] = "s", [RK_COL_NUMBER] = "i", [RK_COL_REAL] = "n", [RK_COL_BOOL] = "b", [RK_COL_HEX64] = "x",
					       [RK_COL_PKEY] = "k", [RK_COL_TIME] = "t", [RK_COL_LIST] = "[s]", [RK_COL_JSON] = "any" };
	const char *text = shape_of(c, column);
	char *with_null RK_CLEANUP_FREE = rk_xasprintf("%s%s", text ? text : by_type[column->type], text && rk_ends_with(text, "?") ? "" : "?");

	whole_shape(w, with_null);
}

static void row_object(struct rk_jw *w, const struct rk_command *c)
{
	rk_jw_object(w);
	pair(w, "type", "object");
	rk_jw_key(w, "required");
	rk_jw_array(w);
	for (const struct rk_column *column = c->columns; column->key; column++)
		rk_jw_str(w, column->key);
	rk_jw_end(w);
	rk_jw_key(w, "properties");
	rk_jw_object(w);
	for (const struct rk_column *column = c->columns; column->key; column++) {
		rk_jw_key(w, column->key);
		column_schema(w, c, column);
	}
	rk_jw_end(w);
	rk_jw_end(w);
}

void rk_schema_command(const struct rk_command *c, struct rk_jw *w)
{
	if (!c->columns || !c->columns->key) {
		rk_jw_object(w);
		pair(w, "$comment", c->flags & RK_CMD_RAW ? "prints text of a form of its own" : "prints no JSON");
		rk_jw_end(w);
	} else if (c->list) {
		rk_jw_object(w);
		pair(w, "type", "array");
		rk_jw_key(w, "items");
		row_object(w, c);
		rk_jw_end(w);
	} else {
		row_object(w, c);
	}
}

/* ---- documents ---------------------------------------------------------------------------------------------------------------------- */

static void begin(struct rk_jw *w, const char *title)
{
	rk_jw_object(w);
	pair(w, "$schema", DRAFT);
	pair(w, "title", title);
}

static void def(struct rk_jw *w, const struct rk_command *c)
{
	char *name RK_CLEANUP_FREE = rk_xasprintf("%s%s%s", c->noun, c->verb ? " " : "", c->verb ? c->verb : "");

	rk_jw_key(w, name);
	rk_schema_command(c, w);
}

static void defs(struct rk_jw *w, const struct rk_noun *only)
{
	begin(w, only ? only->name : "racksh");
	rk_jw_key(w, "$defs");
	rk_jw_object(w);
	for (const struct rk_noun *const *n = rk_nouns; *n; n++)
		for (size_t i = 0; (!only || *n == only) && i < (*n)->n; i++)
			def(w, &(*n)->commands[i]);
	rk_jw_end(w);
	rk_jw_end(w);
}

/* A document whose content is one schema: "$ref" keeps the parts from being merged by hand. */
static void one(struct rk_jw *w, const char *title, const struct rk_command *c, const char *text)
{
	begin(w, title);
	pair(w, "$ref", "#/$defs/result");
	rk_jw_key(w, "$defs");
	rk_jw_object(w);
	rk_jw_key(w, "result");
	if (c)
		rk_schema_command(c, w);
	else
		whole_shape(w, text);
	rk_jw_end(w);
	rk_jw_end(w);
}

static void site_file(struct rk_jw *w)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	rk_schema_site(&text);
	one(w, "site file", NULL, rk_str_text(&text));
}

static int command_document(struct rk_jw *w, const char *noun_name, const char *verb, struct rk_err *err)
{
	const struct rk_noun *noun = rk_noun_find(noun_name);

	for (size_t i = 0; noun && i < noun->n; i++) {
		const struct rk_command *c = &noun->commands[i];
		if (!rk_streq(c->verb, verb))
			continue;
		char *title RK_CLEANUP_FREE = rk_xasprintf("%s%s%s", c->noun, verb ? " " : "", verb ? verb : "");
		one(w, title, c, NULL);
		return 0;
	}
	if (noun && !verb) {
		defs(w, noun);
		return 0;
	}
	/* Help knows the near names. */
	struct rk_str ignored RK_CLEANUP_STR = RK_STR_INIT;
	return rk_help(noun_name, verb, 0, &ignored, err);
}

int rk_schema(const char *noun, const char *verb, struct rk_str *out, struct rk_err *err)
{
	struct rk_jw w;
	int rc = 0;

	rk_jw_init(&w, out, 1);
	if (!noun)
		defs(&w, NULL);
	else if (strcmp(noun, "cluster-spec") == 0 && !verb)
		rk_spec_schema(out);
	else if (strcmp(noun, "site-file") == 0 && !verb)
		site_file(&w);
	else if (strcmp(noun, "error") == 0 && !verb)
		one(&w, "error", NULL, error_shape);
	else if (strcmp(noun, "dry-run") == 0 && !verb)
		one(&w, "dry-run", NULL, dry_run_shape);
	else
		rc = command_document(&w, noun, verb, err);
	if (!rc && out->len && out->text[out->len - 1] != '\n')
		rk_str_addc(out, '\n');
	return rc;
}
