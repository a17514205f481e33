#!/usr/bin/env bash
# Who may include whom: cli -> provision -> vmspec -> inventory -> inventory/base, one way only, and only by full path.
set -u
cd "$(dirname "$0")/../.." || exit 1
problems=0

# allowed FOLDER: the project folders its files may include, itself among them.
allowed() {
	case $1 in
	inventory/base/*) echo 'inventory/base/' ;;
	inventory/*) echo 'inventory/' ;;
	vmspec/*) echo 'vmspec/ inventory/' ;;
	provision/*) echo 'provision/ vmspec/ inventory/' ;;
	cli/*) echo 'cli/ provision/ vmspec/ inventory/' ;;
	esac
}

# check FILE HEADER
check() {
	local folder
	for folder in $(allowed "$1"); do
		case $2 in "$folder"*) return ;; esac
	done
	printf '%s: includes "%s", which is no lower layer or no full path\n' "$1" "$2"
	problems=1
}

while IFS=: read -r file line; do
	check "$file" "$(sed -E 's/.*"([^"]*)".*/\1/' <<<"$line")"
done < <(grep -rE --include='*.[ch]' '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' cli provision vmspec inventory)
exit $problems
