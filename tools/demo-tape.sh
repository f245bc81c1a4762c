#!/bin/bash
# Shows Capstan on tape: a virtual library, a backup that spans three tapes, an array of four tapes that loses one, and,
# where tgt is installed, a real (software) library over iSCSI. Leaves nothing behind.
# Usage: tools/demo-tape.sh path/to/capstan
set -euo pipefail
capstan=$(realpath "$1")
# Short: the paths of tgt's tapes are limited.
work=$(mktemp -d /var/tmp/cap-tape.XXXXXX)
tgtd=
cleanup() {
    [ -z "$tgtd" ] || { kill -9 "$tgtd" && wait "$tgtd"; } 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
export CAPSTAN_HOME=$work/home
cd "$work"

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
run() { say "$*"; "$@"; }
capstan() { "$capstan" "$@"; }
# The lines of a session's report that are about tape.
tape_lines() { grep -E '^(Status|Size|Elapsed|Media|Media change|Tape drive|Limit|Note) '; }
same() {
    say "rsync -aHAXn --checksum --delete --itemize-changes SOURCE RESTORED"
    rsync -aHAXn --checksum --delete --itemize-changes "$1/" "$2$1/" >differences
    if [ -s differences ]; then
        head -20 differences
        echo "DIFFERENT: what was restored is not what was backed up"
        exit 1
    fi
    echo "no difference"
}

capstan assess create-data "$work/data" --bytes 120MB --ratio 1 >/dev/null

printf '\n--- A virtual library: two LTO-9 drives, a thousand times as fast as real ones, tapes of 60 MB\n'
run capstan vtl create vtl --model lto-9 --drives 2 --slots 8 --capacity 60MB --scale 1000
say "capstan backup data --to vtape:vtl --name data"
capstan backup data --to vtape:vtl --name data | tape_lines
run capstan library inventory vtape:vtl
say "capstan restore data --into restored"
capstan restore data --into restored | tape_lines
same "$work/data" restored
rm -r restored

printf '\n--- RAIT 5 over four drives; then one of the tapes is lost\n'
run capstan vtl create array --model lto-9 --drives 4 --slots 4 --capacity 100MB --scale 1000
members=
for n in 1 2 3 4; do members+=",vtape:$work/array?tape=V0000${n}L9"; done
say "capstan backup data --to rait5:TAPE,TAPE,TAPE,TAPE --name striped"
capstan backup data --to "rait5:${members#,}" --name striped | tape_lines
say "rm array/tapes/V00003L9.tape"
rm array/tapes/V00003L9.tape
say "capstan restore striped --into restored"
capstan restore striped --into restored | tape_lines
same "$work/data" restored
rm -r restored

if command -v tgtd >/dev/null && command -v tgtimg >/dev/null; then
    printf "\n--- A library that is not ours: tgt's changer and two drives, over iSCSI\n"
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    control=$((port % 30000))
    export TGT_IPC_SOCKET=$work/ipc
    tgtd -f -C "$control" --iscsi "portal=127.0.0.1:$port" >tgtd.log 2>&1 &
    tgtd=$!
    admin() { tgtadm -C "$control" --lld iscsi "$@"; }
    unit() { admin --mode logicalunit --tid 1 "$@"; }
    until admin --op show --mode system >/dev/null 2>&1; do
        kill -0 "$tgtd" || { cat tgtd.log; exit 1; }
        sleep 0.1
    done
    target=iqn.2026-11.demo.capstan:lib
    mkdir media
    for n in 1 2 3 4; do
        tgtimg --op new --device-type tape --barcode "TAPE0${n}L6" --size 60 --type data --file "media/TAPE0${n}L6" >/dev/null
    done
    tgtimg --op new --device-type tape --barcode NOTAPE --size 1 --type clean --file notape >/dev/null
    head -c 1024 /dev/zero >changer
    admin --op new --mode target --tid 1 -T "$target"
    for n in 1 2; do
        unit --op new --lun $n --device-type tape --bstype ssc -b "$work/notape"
        unit --op update --lun $n --params "vendor_id=HP,product_id=Ultrium 6-SCSI,product_rev=35GD,scsi_sn=D$port-$n,scsi_id=DRIVE$n,removable=1"
        unit --op update --lun $n --params online=0
    done
    unit --op new --lun 3 --device-type changer -b "$work/changer"
    for params in "vendor_id=STK,product_id=L700,product_rev=0104,scsi_sn=C$port,scsi_id=CHANGER,removable=1" \
        "media_home=$work/media" "element_type=1,start_address=1,quantity=1" \
        "element_type=2,start_address=1000,quantity=6" "element_type=3,start_address=10,quantity=1" \
        "element_type=4,start_address=256,quantity=2" "element_type=4,address=256,tid=1,lun=1" \
        "element_type=4,address=257,tid=1,lun=2"; do
        unit --op update --lun 3 --params "$params"
    done
    for n in 1 2 3 4; do
        unit --op update --lun 3 --params "element_type=2,address=$((999 + n)),barcode=TAPE0${n}L6,sides=1"
    done
    admin --op bind --mode target --tid 1 -I ALL
    library=iscsi://127.0.0.1:$port/$target/3
    run capstan library status "$library"
    say "capstan backup data --to $library --name real"
    capstan backup data --to "$library" --name real | tape_lines
    run capstan library inventory "$library"
    say "capstan restore real --into restored"
    capstan restore real --into restored | tape_lines
    same "$work/data" restored
else
    printf '\ntgt is not installed (make setup installs it): the library over iSCSI was left out\n'
fi
printf '\ndemo-tape: spanned tapes, survived a lost one, and restored bit for bit\n'
