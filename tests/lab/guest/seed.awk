# Reads the block-style YAML of a #cloud-config: the keys this guest knows, one file per thing in the folder `out`.

# A scalar without its quotes.
function scalar(text) {
	sub(/^[ \t]+/, "", text)
	sub(/[ \t]+$/, "", text)
	if (text ~ /^".*"$/) {
		text = substr(text, 2, length(text) - 2)
		gsub(/\\"/, "\"", text)
		gsub(/\\\\/, "\\", text)
	} else if (text ~ /^'.*'$/) {
		text = substr(text, 2, length(text) - 2)
		gsub(/''/, "'", text)
	}
	return text
}

function value(line) {
	sub(/^[^:]*:[ \t]*/, "", line)
	return scalar(line)
}

# A list of words as shell words.
function command(text,    parts, n, i, line) {
	if (text !~ /^\[.*\]$/)
		return scalar(text)
	n = split(substr(text, 2, length(text) - 2), parts, /,[ \t]*/)
	for (i = 1; i <= n; i++) {
		parts[i] = scalar(parts[i])
		gsub(/'/, "'\\''", parts[i])
		line = line " '" parts[i] "'"
	}
	return line
}

{ indent = match($0, /[^ ]/) - 1 }

# The body of a literal block ends with the first line that is indented less.
block != "" {
	if ($0 ~ /^[ \t]*$/ || indent > parent) {
		if (!width)
			width = indent
		print substr($0, width + 1) > block
		next
	}
	close(block)
	block = ""
}

/^[ \t]*(#.*)?$/ { next }
indent == 0 && !/^- / { section = $1; sub(/:.*/, "", section); user = ""; next }

{ text = $0; sub(/^[ ]*/, "", text); item = sub(/^- +/, "", text) }

section == "ssh_keys" && text ~ /^ed25519_private:/ { block = out "/host-key" }
section == "ssh_authorized_keys" && item { print scalar(text) > (out "/keys") }

section == "users" && text ~ /^name:/ { user = value(text); next }
section == "users" && user != "" && item { print scalar(text) > (out "/user." user) }

section == "write_files" && item { files++ }
section == "write_files" && text ~ /^path:/ { print value(text) > (out "/" files ".path") }
section == "write_files" && text ~ /^permissions:/ { print value(text) > (out "/" files ".mode") }
section == "write_files" && text ~ /^encoding:/ { print value(text) > (out "/" files ".encoding") }
section == "write_files" && text ~ /^content:/ {
	if (text ~ /\|[-+]?$/)
		block = out "/" files ".body"
	else
		print value(text) > (out "/" files ".body")
}

section == "runcmd" && item { print command(text) > (out "/commands") }

block != "" { parent = indent; width = 0; printf "" > block }
