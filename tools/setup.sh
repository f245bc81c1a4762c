#!/bin/bash
# Installs what this machine lacks of what a thing needs, and nothing else: setup.sh build|demo|demo-tape|deb|docs|test
#
#   build      a C compiler, for the libraries in C that are built along; Rust has to be there
#   demo       that, and rsync, which compares
#   demo-tape  that, and a tape library made of software (tgt) with the library that talks to it
#   deb        what builds a package
#   docs       mdBook, which makes a site of docs: built once, into target/tools
#   test       what all but docs need; the tools that make and compare file systems and look at processes; a further tape drive made of
#              software (istgt); a Linux kernel as a process; PostgreSQL; a mail server; a Python venv for the independent
#              reader of media, DuckDB and the tests' mail server; lintian and systemd-analyze, which check the package and its units
#
# Says nothing when there is nothing to do. Installs as root only; others are told what to install.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"

case ${1:-} in
build | demo | demo-tape | deb | docs | test) what=$1 ;;
*)
    echo "usage: tools/setup.sh build|demo|demo-tape|deb|docs|test" >&2
    exit 2
    ;;
esac
is_for() { [[ " $* " == *" $what "* ]]; }

# command -> Debian package
declare -A package=([cc]=gcc [make]=make)
if is_for demo demo-tape test; then package+=([rsync]=rsync); fi
if is_for demo-tape test; then package+=([tgtd]=tgt); fi
if is_for deb test; then package+=([dpkg-deb]=dpkg [strip]=binutils [gzip]=gzip); fi
if is_for test; then
    package+=(
        [getfacl]=acl [getfattr]=attr [lsattr]=e2fsprogs [mkfs.ext4]=e2fsprogs
        [mkfs.xfs]=xfsprogs [mkfs.btrfs]=btrfs-progs [setcap]=libcap2-bin
        [setpriv]=util-linux [mount]=mount [losetup]=mount [fincore]=util-linux-extra
        [python3]=python3 [strace]=strace [openssl]=openssl
        [lintian]=lintian [systemd-analyze]=systemd
    )
fi
missing=()
for command in "${!package[@]}"; do
    command -v "$command" >/dev/null || missing+=("${package[$command]}")
done
# A compiler without the C library's headers cannot build zstd or lz4.
[ -e /usr/include/stdlib.h ] || missing+=(libc6-dev)
if is_for demo-tape test; then
    [[ $(ldconfig -p) == *libiscsi.so.* ]] || missing+=(libiscsi7)
fi
if is_for test; then
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    # Its server is started by the tests themselves, as another user than root.
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
fi

# istgt, a second tape drive made of software, is not in every release: it comes along where it is, and
# its tests are skipped elsewhere. Tests start both on 127.0.0.1: the packages' own services, which
# would listen on all addresses, are neither started now nor at the next boot.
policy=/usr/sbin/policy-rc.d
deny_services() {
    [ -e $policy ] && return
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
    denied=yes
    trap 'rm -f "$log" $policy' EXIT
}
disable_services() {
    local service
    for service in tgt istgt postgresql; do
        [[ " ${missing[*]} " == *" $service "* ]] || continue
        update-rc.d $service disable >/dev/null 2>&1 || true
        systemctl disable $service >/dev/null 2>&1 || true
    done
}
# Adds istgt to what is missing, where this release has it.
with_istgt() {
    is_for test || return 0
    command -v istgt || ! apt-cache show istgt || missing+=(istgt)
}

if [ ${#missing[@]} -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "setup: please install: ${missing[*]}" >&2
        echo "setup: on Debian or Ubuntu: sudo apt-get install ${missing[*]}" >&2
        exit 1
    fi
    echo "setup: installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    deny_services
    {
        apt-get -qq -o Acquire::Retries=3 update && with_istgt &&
            apt-get -qq -o Acquire::Retries=3 install -y --no-install-recommends "${missing[@]}"
    } >"$log" 2>&1 </dev/null || {
        cat "$log" >&2
        echo "setup: apt-get failed; see above" >&2
        exit 1
    }
    disable_services
    # Now, since what else is cleaned up at the end replaces this trap.
    [ -z "${denied:-}" ] || rm -f $policy
fi

if ! command -v cargo >/dev/null && [ ! -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
    echo "setup: Rust is missing; install it from https://rustup.rs" >&2
    exit 1
fi
# Without what mdBook needs to serve or watch a site.
mdbook=0.5.4
if is_for docs; then
    tools=${CARGO_TARGET_DIR:-target}/tools
    if [ "$("$tools/bin/mdbook" --version 2>/dev/null)" != "mdbook v$mdbook" ]; then
        echo "setup: building mdBook $mdbook, once"
        PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin" CARGO_TARGET_DIR=$tools/build CARGO_PROFILE_RELEASE_LTO=off \
            CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
            cargo install --quiet --locked --root "$tools" --no-default-features --features search mdbook --version "=$mdbook"
        rm -rf "$tools/build"
    fi
fi
is_for test || exit 0

venv=${CAPSTAN_VENV:-${CARGO_TARGET_DIR:-target}/venv}
if ! "$venv/bin/python3" -c 'import zstandard, lz4, cryptography, duckdb, aiosmtpd' 2>/dev/null; then
    echo "setup: python packages for tools/read_medium.py and the tests"
    rm -rf "$venv"
    mkdir -p "$(dirname "$venv")"
    python3 -m venv "$venv"
    "$venv/bin/python3" -m pip install --quiet --disable-pip-version-check --retries 3 \
        --requirement tools/requirements.txt
fi

# A Linux kernel as a process (user-mode-linux), for tests of the kernel's tape drivers and of tools that use them. Not
# every release has it: its tests are skipped elsewhere. It is not installed, since open-iscsi would replace parts of the system.
uml=${CAPSTAN_UML:-${CARGO_TARGET_DIR:-target}/uml}
if [ ! -e "$uml" ] && [ "$(id -u)" = 0 ] && command -v apt-get dpkg >/dev/null; then
    download=$(mktemp -d)
    trap 'rm -rf "$download"' EXIT
    get() {
        (cd "$download" && apt-get -qq -o APT::Sandbox::User=root -o Acquire::Retries=3 download \
            user-mode-linux open-iscsi libopeniscsiusr mtx mt-st) >"$download/log" 2>&1 </dev/null
    }
    mkdir -p "$uml"
    if get || { apt-get -qq update >/dev/null 2>&1 && get; }; then
        echo "setup: unpacking a Linux kernel for the tests of its tape drivers"
        for deb in "$download"/*.deb; do dpkg -x "$deb" "$uml"; done
    else
        echo "setup: no user-mode-linux here: the tests of a kernel's tape drivers are skipped"
    fi
fi
