#!/bin/bash
# Builds a Debian package of a binary: deb.sh BINARY DIRECTORY. Needs dpkg-deb, nothing else.
set -euo pipefail
binary=$1 out=$2
here=$(cd "$(dirname "$0")/.." && pwd)
version=$("$binary" --version | awk '{ print $2 }')
arch=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
umask 022

put() { install -D -m "$1" "$2" "$root/$3"; }
put 755 "$binary" usr/bin/capstan
# Tests look at what is in it, not at its size: neither stripped nor compressed it is quickly built.
quick=${CAPSTAN_DEB_QUICK:-}
if [[ -z $quick ]] && command -v strip >/dev/null; then strip "$root/usr/bin/capstan"; fi
"$binary" man --dir "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1
mkdir -p "$root"/usr/share/bash-completion/completions "$root"/usr/share/zsh/vendor-completions \
    "$root"/usr/share/fish/vendor_completions.d
"$binary" completions bash >"$root/usr/share/bash-completion/completions/capstan"
"$binary" completions zsh >"$root/usr/share/zsh/vendor-completions/_capstan"
"$binary" completions fish >"$root/usr/share/fish/vendor_completions.d/capstan.fish"
put 644 "$here/packaging/capstan@.service" lib/systemd/system/capstan@.service
put 644 "$here/packaging/capstan@.timer" lib/systemd/system/capstan@.timer
# Specifications may hold what authorizes at a webhook.
put 600 "$here/packaging/example.toml" etc/capstan/example.toml
for doc in "$here"/README.md "$here"/docs/*.md; do put 644 "$doc" "usr/share/doc/capstan/$(basename "$doc")"; done

mkdir -p "$root/DEBIAN"
echo /etc/capstan/example.toml >"$root/DEBIAN/conffiles"
# A running systemd reads units anew only when it is told to.
for script in postinst postrm; do
    printf '#!/bin/sh\nif [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi\n' >"$root/DEBIAN/$script"
    chmod 755 "$root/DEBIAN/$script"
done
size=$(du -sk --exclude=DEBIAN "$root" | cut -f1)
# The binary is linked to the C library and the compiler's alone; it needs no newer ones than those it was built with.
libc=$(dpkg-query -W -f '${Version}' libc6 2>/dev/null | sed 's/-.*//') || true
cat >"$root/DEBIAN/control" <<CONTROL
Package: capstan
Version: $version
Architecture: $arch
Maintainer: The Capstan project <capstan@localhost>
Installed-Size: $size
Depends: libc6${libc:+ (>= $libc)}, libgcc-s1
Section: admin
Priority: optional
Homepage: https://github.com/capstan-backup/capstan
Description: backup and restore that names its bottleneck
 Backs up file systems and the output of commands, in full or what changed,
 compressed and encrypted, and restores them with all their metadata.
 Unattended backups: copy /etc/capstan/example.toml and enable a
 capstan@NAME.timer.
CONTROL
mkdir -p "$out"
dpkg-deb --root-owner-group ${quick:+-Znone} --build "$root" "$out/capstan_${version}_$arch.deb"
