#include "cli/cmds/common.h"
#include "cli/completion.h"
#include "cli/schema.h"

static int schema(struct rk_call *call, struct rk_err *err)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	int rc = rk_schema(rk_call_arg(call, "COMMAND"), rk_call_arg(call, "VERB"), &out, err);

	if (!rc)
		rk_out_raw(call->out, rk_str_text(&out), out.len);
	return rc;
}

static const struct rk_command schema_rows[] = {
	{ .noun = "schema", .summary = "print the JSON schema of what a command prints with -o json", .flags = RK_CMD_NO_STORE | RK_CMD_RAW, .run = schema,
	  .args = RK_ARGS({ .name = "COMMAND", .type = RK_ARG_TEXT, .help = "a noun, or cluster-spec, site-file, dry-run or error; none: all of them" },
			  { .name = "VERB", .type = RK_ARG_TEXT, .help = "one of its verbs" }),
	  .description = "Draft 2020-12, made from the same rows as the commands themselves. A dry run of a command that changes a cluster prints what \"cluster plan\" "
			 "prints. cluster-spec and site-file are the files that go in, error is a line of standard error, "
			 "dry-run what -n prints of a change that places nothing (others print what `cluster plan` does).",
	  .examples = RK_EXAMPLES("schema cluster show", "schema cluster-spec", "schema") },
};
RK_NOUN(schema, "JSON schemas of results and files", NULL, schema_rows);

static int completion(struct rk_call *call, struct rk_err *err)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	(void)err;
	rk_completion_script(rk_call_arg(call, "SHELL"), &out);
	rk_out_raw(call->out, rk_str_text(&out), out.len);
	return 0;
}

static const struct rk_command completion_rows[] = {
	{ .noun = "completion", .summary = "print the completion script of a shell", .flags = RK_CMD_NO_STORE | RK_CMD_RAW, .run = completion,
	  .args = RK_ARGS({ .name = "SHELL", .type = RK_ARG_ENUM, .values = "bash|zsh|fish", .required = true, .help = "the shell it is for" }),
	  .description = "For bash: source <(racksh completion bash), or the output in a file below bash-completion's folder. For zsh: a file _racksh in $fpath. For "
			 "fish: ~/.config/fish/completions/racksh.fish. Names of objects are asked from racksh itself, from the store; nothing outside is asked.",
	  .examples = RK_EXAMPLES("completion bash", "completion zsh", "completion fish") },
};
RK_NOUN(completion, "completion scripts for bash, zsh and fish", NULL, completion_rows);
