#!/bin/bash
# Bacula on loopback for the benchmarks: director with SQLite, storage and file daemon, none of them installed.
#
#   bacula.sh install DIR              download Debian's packages and unpack them below DIR (nothing if it is done)
#   bacula.sh backup DIR WORK SOURCE   back SOURCE up to WORK/repository; print what the job cost as one JSON object
#
# Settings are those of Debian's example where there are any: one job, MD5 signatures, no compression, no encryption. The
# daemons are started before the job and stopped after it, off the clock; the clock is that of the job's own scripts.
set -euo pipefail

fail() { echo "bacula.sh: $*" >&2; exit 1; }

install_packages() {
    local dir=$1
    [ -x "$dir/root/usr/sbin/bacula-dir" ] && return
    mkdir -p "$dir/packages"
    cd "$dir/packages"
    apt-get download -q bacula-common bacula-common-sqlite3 bacula-director bacula-director-sqlite3 \
        bacula-sd bacula-fd bacula-console libwrap0 liblzo2-2 >/dev/null ||
        fail "cannot download Debian's packages: is the network up and apt-get update done?"
    local package
    for package in *.deb; do dpkg -x "$package" "$dir/root"; done
}

write_settings() {
    local work=$1 source=$2 etc=$1/home/etc state=$1/home/state
    mkdir -p "$etc" "$state"
    # Loopback only, and ports that depend on this process, so that two runs do not meet.
    local port=$((20000 + $$ % 10000 * 3))
    local password=benchmarks
    cat > "$etc/dir.conf" <<END
Director {
  Name = bench-dir; DIRport = $port; DirAddress = 127.0.0.1; QueryFile = "/dev/null"
  WorkingDirectory = "$state"; PidDirectory = "$state"; Password = "$password"; Messages = Log
  Maximum Concurrent Jobs = 1
}
JobDefs { Name = Defaults; Type = Backup; Level = Full; Client = bench-fd; FileSet = Set; Storage = Disk; Messages = Log; Pool = Disk }
Job {
  Name = Backup; JobDefs = Defaults
  RunScript { RunsWhen = Before; RunsOnClient = no; Command = "$etc/stamp begin" }
  RunScript { RunsWhen = After; RunsOnClient = no; RunsOnFailure = yes; Command = "$etc/stamp %e" }
}
FileSet { Name = Set; Include { Options { signature = MD5 } File = "$source" } }
Client { Name = bench-fd; Address = 127.0.0.1; FDPort = $((port + 1)); Catalog = Catalog; Password = "$password" }
Storage { Name = Disk; Address = 127.0.0.1; SDPort = $((port + 2)); Password = "$password"; Device = File; Media Type = File }
Catalog { Name = Catalog; dbname = "bacula"; dbuser = ""; dbpassword = "" }
Pool { Name = Disk; Pool Type = Backup; Label Format = "Volume-" }
Messages { Name = Log; append = "$state/log" = all, !skipped; catalog = all, !skipped, !saved }
END
    cat > "$etc/sd.conf" <<END
Storage { Name = bench-sd; SDPort = $((port + 2)); SDAddress = 127.0.0.1; WorkingDirectory = "$state"; Pid Directory = "$state" }
Director { Name = bench-dir; Password = "$password" }
Device {
  Name = File; Media Type = File; Archive Device = "$work/repository"; LabelMedia = yes; Random Access = yes
  AutomaticMount = yes; RemovableMedia = no; AlwaysOpen = no
}
Messages { Name = Log; director = bench-dir = all }
END
    cat > "$etc/fd.conf" <<END
FileDaemon { Name = bench-fd; FDport = $((port + 1)); FDAddress = 127.0.0.1; WorkingDirectory = "$state"; Pid Directory = "$state" }
Director { Name = bench-dir; Password = "$password" }
Messages { Name = Log; director = bench-dir = all, !skipped, !restored }
END
    cat > "$etc/console.conf" <<END
Director { Name = bench-dir; DIRport = $port; Address = 127.0.0.1; Password = "$password" }
END
    printf '#!/bin/sh\necho "$(date +%%s.%%N) $1" >> "%s"\n' "$state/stamps" > "$etc/stamp"
    chmod +x "$etc/stamp"
}

# User and system CPU seconds of processes.
cpu_seconds() {
    local pid ticks=0
    for pid in "$@"; do
        ticks=$((ticks + $(sed 's/.*) //' "/proc/$pid/stat" | awk '{ print $12 + $13 }')))
    done
    awk -v ticks="$ticks" -v hz="$(getconf CLK_TCK)" 'BEGIN { print ticks / hz }'
}

pids=()
stop_daemons() {
    [ ${#pids[@]} -eq 0 ] && return
    kill "${pids[@]}" 2>/dev/null || true
    wait "${pids[@]}" 2>/dev/null || true
}

backup() {
    local dir=$1 work=$2 source=$3
    local etc=$work/home/etc state=$work/home/state sbin=$dir/root/usr/sbin
    [ -x "$sbin/bacula-dir" ] || fail "Bacula is not in $dir: run bacula.sh install $dir"
    export LD_LIBRARY_PATH=$dir/root/usr/lib/bacula:$dir/root/usr/lib/x86_64-linux-gnu
    write_settings "$work" "$source"
    sed -e "s|cd /var/lib/bacula|cd '$state'|; s/XXX_DBNAME_XXX/bacula/" -e '/chown/d' \
        "$dir/root/usr/share/bacula-director/make_sqlite3_tables" > "$etc/make_tables"
    sh "$etc/make_tables" >/dev/null || fail "cannot make the catalog: is sqlite3 installed?"

    trap stop_daemons EXIT
    "$sbin/bacula-sd" -f -c "$etc/sd.conf" >"$state/sd.out" 2>&1 & pids+=($!)
    "$sbin/bacula-fd" -f -c "$etc/fd.conf" >"$state/fd.out" 2>&1 & pids+=($!)
    "$sbin/bacula-dir" -f -c "$etc/dir.conf" >"$state/dir.out" 2>&1 & pids+=($!)
    local console=("$sbin/bconsole" -c "$etc/console.conf")
    local try
    for try in $(seq 100); do
        echo "version" | "${console[@]}" >"$state/console.out" 2>&1 && break
        [ "$try" -eq 100 ] && fail "the director does not answer: $(tail -n 2 "$state"/*.out | tr '\n' ' ')"
        sleep 0.1
    done

    local before after
    before=$(cpu_seconds "${pids[@]}")
    printf 'run job=Backup yes\nwait\nquit\n' | "${console[@]}" >"$state/console.out" 2>&1
    after=$(cpu_seconds "${pids[@]}")
    local peak
    peak=$(for pid in "${pids[@]}"; do grep VmHWM "/proc/$pid/status"; done | awk '{ sum += $2 } END { print sum * 1024 }')

    local outcome
    outcome=$(tail -n 1 "$state/stamps" 2>/dev/null | cut -d' ' -f2-)
    [ "$outcome" = OK ] || fail "the job ended as '$outcome': $(tail -n 5 "$state/log" | tr '\n' ' ')"
    local files
    files=$(sqlite3 "$state/bacula.db" "SELECT count(*) FROM File JOIN Filename USING (FilenameId) WHERE Name <> ''")
    awk -v files="$files" -v cpu_begin="$before" -v cpu_end="$after" -v peak="$peak" '
        NR == 1 { begin = $1 }
        { end = $1 }
        END {
            printf "{\"elapsed_s\": %.3f, \"cpu_s\": %.2f, \"peak_rss_bytes\": %d, \"files\": %d}\n",
                end - begin, cpu_end - cpu_begin, peak, files
        }' "$state/stamps"
}

case "${1:-} $#" in
    "install 2") install_packages "$2" ;;
    "backup 4") backup "$2" "$3" "$4" ;;
    *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
