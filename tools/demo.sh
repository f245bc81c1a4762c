#!/bin/bash
# Shows Capstan at work on this machine's own files: backs up, lists, restores, compares with rsync,
# and prints the verdict. Leaves nothing behind. Usage: tools/demo.sh path/to/capstan
set -euo pipefail
capstan=$(realpath "$1")
work=$(mktemp -d "${TMPDIR:-/var/tmp}/capstan-demo.XXXXXX")
trap 'chmod -R u+rwX "$work" 2>/dev/null; rm -rf "$work"' EXIT
export CAPSTAN_HOME=$work/home

# A plain user can neither read all of /etc nor give files to others.
if [ "$(id -u)" = 0 ]; then
    paths=(/etc /usr/share)
    compare=(-aHAXn --checksum --delete --itemize-changes)
else
    paths=(/usr/share)
    compare=(-rlptHn --checksum --delete --itemize-changes)
fi
say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
run() { say "$*"; "$@"; }
capstan() { "$capstan" "$@"; }

run capstan backup "${paths[@]}" --to "$work/medium" --name demo
say "capstan ls demo | tail -3"
capstan ls demo >"$work/list"
tail -3 "$work/list"
echo "($(wc -l <"$work/list") lines)"
run capstan restore demo --into "$work/restored"
run capstan verify demo

say "rsync ${compare[*]} SOURCE RESTORED"
for path in "${paths[@]}"; do
    rsync "${compare[@]}" "$path/" "$work/restored$path/"
done >"$work/differences"
if [ -s "$work/differences" ]; then
    head -20 "$work/differences"
    echo "DIFFERENT: what was restored is not what was backed up"
    exit 1
fi
echo "no difference"

say "capstan backup ${paths[*]} --to null:   # how fast without a disk to write to?"
capstan backup "${paths[@]}" --to null: 2>/dev/null | grep -E '^(Files|Size|Elapsed|Rate|Limit) '
printf '\ndemo: backed up and restored bit for bit\n'
