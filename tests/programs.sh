#!/usr/bin/env bash
# What racksh writes for other programs, given to these programs: dot, ansible-inventory, Prometheus, validators of JSON and JUnit schemas, and the completions to a real bash, zsh and fish.
# One that is not installed is skipped, and that is said.
set -u
cd "$(dirname "$0")/.." || exit 1
racksh=$(realpath "${RACKSH:-build/racksh}")
work=$(mktemp -d "${TMPDIR:-/tmp}/racksh-programs.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/zsh" "$work/state"
ln -s "$racksh" "$work/bin/racksh"
export PATH=$work/bin:$PATH XDG_STATE_HOME=$work/state RACKSH_STORE=sqlite:$work/site.db HOME=$work TERM=xterm ANSIBLE_LOCAL_TEMP=$work/ansible
twin="--sim tests/examples/site-1.json --sim-state $work/metrics.db"
passed=0 failed=0 skipped=0

# try PROGRAM WHAT COMMAND: skipped without the program.
try() {
	local program=$1 what=$2
	shift 2
	if ! command -v "$program" >/dev/null; then
		skipped=$((skipped + 1))
		echo "skipped: $what ($program is not installed)"
	elif "$@" >"$work/said" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		cat "$work/said"
		echo "not ok: $what"
	fi
}

# has TEXT...: all are words of what came in.
has() {
	local text
	text=$(cat)
	for word in "$@"; do
		case " ${text//[$'\t\r\n']/ } " in *" $word "*) ;; *) printf '%s\n' "$text" "missing: $word"; return 1 ;; esac
	done
}

sites() {
	racksh site import tests/examples/site-1.json -q
	racksh --sim tests/examples/site-64.json export dot >"$work/64.dot"
	racksh --sim tests/examples/site-64.json export prometheus >"$work/64.metrics"
	for form in dot ansible; do
		racksh --sim tests/examples/site-1.json -q -c "cluster create tests/examples/cluster-a.json; export $form; export $form --cluster reasoning-a > $work/cluster.$form.json" >"$work/site.$form.json"
	done
}

draws() {
	dot -Tplain "$1" >"$work/drawing" && grep -q "$2" "$work/drawing"
}

reads_inventory() {
	ansible-inventory -i "$work/site.ansible.json" --list | jq -e '(._meta.hostvars | length) == 18 and .cluster_reasoning_a.hosts == ["r01-t01", "r01-t02", "r01-t03", "r01-t04"]' &&
		ansible-inventory -i "$work/cluster.ansible.json" --host reasoning-a-01 | jq -e .ansible_host
}

in_fish() {
	racksh completion fish >"$work/racksh.fish" && fish --no-config -c "source $work/racksh.fish; complete -C '$1'" | cut -f1 | { shift; has "$@"; }
}

# A zsh on a pseudo terminal of its own gets $2 and a TAB; what it answers is printed when $3 came, or after ten seconds. It loads the
# completion by itself, as from site-functions, so that the very first TAB counts.
cat >"$work/tab.zsh" <<'END'
zmodload zsh/zpty
wait_for() {
	local chunk
	repeat 200; do
		while zpty -r -t z chunk; do out+=$chunk; done
		[[ $out == *$1* ]] && return
		sleep 0.05
	done
}
out=
zpty -b z zsh -f -i
zpty -w z "PROMPT=; PROMPT_EOL_MARK=; fpath=($1 \$fpath); autoload -U compinit; compinit -u -d $1/dump; stty cols 100; print rea''dy"
wait_for ready
out=
zpty -w -n z "$2"$'\t'
wait_for "$3"
print -r -- "$out"
END

in_zsh() {
	local line=$1 last
	shift
	last=${*: -1}
	racksh completion zsh >"$work/zsh/_racksh"
	zsh -f "$work/tab.zsh" "$work/zsh" "$line" "${last#"${line##* }"}" | sed 's/\x1b\[[0-9;?]*[A-Za-z]//g' | has "$@"
}

in_bash() {
	local line=$1
	shift
	bash --norc -c 'eval "$(racksh completion bash)"; read -ra COMP_WORDS <<<"$1"; [[ $1 == *" " ]] && COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _racksh; echo "${COMPREPLY[@]}"' bash "$line" | has "$@"
}

# Another validator than our own: the schemas are schemas, real results are as they say, and what is no key to racksh is none to the schema.
obeys_schemas() {
	racksh schema >"$work/schemas.json"
	for name in cluster-spec site-file error dry-run; do racksh schema "$name" >"$work/$name.schema.json" || return 1; done
	for command in 'rack list' 'tray list' 'cluster show' 'site show' 'power show' 'profile show' 'op list' 'hca list'; do
		read -ra words <<<"$command"
		object=
		case $command in 'cluster show') object=reasoning-a ;; 'profile show') object=gb300-acceptance ;; esac
		racksh schema "${words[@]}" >"$work/${command/ /-}.schema.json"
		# Only the last document is looked at.
		racksh --sim tests/examples/site-1.json -q -c "cluster create tests/examples/cluster-a.json; $command $object -o json" >"$work/${command/ /-}.json" || return 1
	done
	racksh --sim tests/fixtures/site/rich.json site export >"$work/site-file.json" || return 1
	cp tests/examples/cluster-a.json "$work/cluster-spec.json"
	"$python" - "$work" <<-'END'
		import glob, json, os, sys
		from jsonschema import Draft202012Validator
		work = sys.argv[1]
		Draft202012Validator.check_schema(json.load(open(work + "/schemas.json")))
		for path in sorted(glob.glob(work + "/*.schema.json")):
		    schema = json.load(open(path))
		    Draft202012Validator.check_schema(schema)
		    result = path.replace(".schema.json", ".json")
		    if os.path.exists(result):
		        Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(json.load(open(result)))
		site = json.load(open(work + "/site-file.json"))
		site["racks"][0]["nvlink"]["relaese"] = "tray"
		json.dump(site, open(work + "/stray-key.json", "w"))
		if Draft202012Validator(json.load(open(work + "/site-file.schema.json"))).is_valid(site):
		    sys.exit("a stray key obeys the schema of site files")
	END
	racksh site import "$work/stray-key.json" 2>"$work/stray-key" || grep 'unknown key "relaese"' "$work/stray-key"
}

metrics() {
	# shellcheck disable=SC2086 # two options
	{
		racksh $twin -q cluster create tests/examples/cluster-lab.json
		racksh $twin -q silence create r01-t02 --reason 'a "quoted" \ reason' --check 'ib.*' --for 2h >/dev/null
		racksh $twin --sim-fault gpu-remap@r01-t01/1 validate cluster lab-a >/dev/null 2>&1
		racksh $twin export prometheus >"$work/metrics"
	}
}

# Every line is a sample of a family with a type and a help, no sample is there twice, and labels read back.
reads_metrics() {
	"$python" - "$work/metrics" <<-'END'
		import sys
		from prometheus_client.parser import text_string_to_metric_families
		families = list(text_string_to_metric_families(open(sys.argv[1]).read()))
		assert families and all(f.documentation and f.type != "unknown" and f.samples for f in families), families
		samples = [(s.name, tuple(sorted(s.labels.items()))) for f in families for s in f.samples]
		assert len(samples) == len(set(samples)), "a sample is there twice"
		assert any(dict(labels).get("reason") == 'a "quoted" \\ reason' for _, labels in samples), samples
	END
}

# A fault, a warning, a probe that is missing and one that is not run are in it.
reads_junit() {
	# shellcheck disable=SC2086 # two options
	{
		racksh $twin --sim-fault gpu-remap@r01-t01/1,port-errors@r01-t02/1/9 report cluster lab-a --format junit --level standard >"$work/junit.xml"
		racksh $twin report cluster lab-a --format junit --level deep --profile tests/examples/profile-workload.json >"$work/deep.junit.xml"
	}
	grep -q '<failure ' "$work/junit.xml" && grep -q '<error ' "$work/deep.junit.xml" && grep -q '<skipped ' "$work/junit.xml" &&
		xmllint --noout --schema tests/fixtures/junit.xsd "$work/junit.xml" "$work/deep.junit.xml"
}

checks_metrics() {
	promtool check metrics <"$work/metrics" && promtool check metrics <"$work/64.metrics"
}

# try_module MODULE WHAT COMMAND: with $python that has it (the packages are for the system's, which may not be the first in PATH).
try_module() {
	for python in python3 /usr/bin/python3; do
		"$python" -c "import $1" 2>/dev/null || continue
		try "$python" "${@:2}"
		return
	done
	try "python3-${1//_/-}" "${@:2}"
}

sites
try_module jsonschema "schemas and results" obeys_schemas
metrics
try_module prometheus_client "export prometheus" reads_metrics
try promtool "export prometheus, its style" checks_metrics
try xmllint "report cluster as JUnit XML" reads_junit
try dot "export dot of a rack" draws "$work/site.dot.json" r01
try dot "export dot of a cluster" draws "$work/cluster.dot.json" reasoning-a-01
try dot "export dot of 64 racks" draws "$work/64.dot" r64
try ansible-inventory "export ansible" reads_inventory
for shell in bash zsh fish; do
	try $shell "nouns in $shell" in_$shell 'racksh clus' cluster
	try $shell "verbs in $shell" in_$shell 'racksh cluster ' create delete shrink
	try $shell "live names in $shell" in_$shell 'racksh tray show r01-t0' r01-t01 r01-t09
	try $shell "values in $shell" in_$shell 'racksh validate cluster a --level ' deep quick standard
	try $shell "options in $shell" in_$shell 'racksh tray cordon r01-t01 --rea' --reason
	try $shell "files in $shell" in_$shell 'racksh cluster plan tests/examples/cluster-l' tests/examples/cluster-lab.json
done
echo "programs: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
