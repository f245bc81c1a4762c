#!/bin/bash
# Builds a Debian package of a binary: deb.sh BINARY DIRECTORY. Needs dpkg-deb, strip and gzip; cargo names the libraries.
set -euo pipefail
binary=$1 out=$2
here=$(cd "$(dirname "$0")/.." && pwd)
version=$("$binary" --version | awk '{ print $2 }')
arch=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
umask 022
# The directory itself becomes the root of the machine, as far as its mode goes.
chmod 755 "$root"
# The same sources make the same package.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(date -d "$(sed -n 's/^ -- .*>  //p' "$here/packaging/changelog" | head -1)" +%s)}

put() { install -D -m "$1" "$2" "$root/$3"; }
put 755 "$binary" usr/bin/capstan
# Tests look at what is in it, not at its size: hardly compressed it is quickly built.
quick=${CAPSTAN_DEB_QUICK:-}
# A binary that tests make has hundreds of megabytes of what debuggers read.
strip --remove-section=.comment --remove-section=.note "$root/usr/bin/capstan"
"$binary" man --dir "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1
mkdir -p "$root"/usr/share/bash-completion/completions "$root"/usr/share/zsh/vendor-completions \
    "$root"/usr/share/fish/vendor_completions.d
"$binary" completions bash >"$root/usr/share/bash-completion/completions/capstan"
"$binary" completions zsh >"$root/usr/share/zsh/vendor-completions/_capstan"
"$binary" completions fish >"$root/usr/share/fish/vendor_completions.d/capstan.fish"
for unit in "$here"/packaging/*.service "$here"/packaging/*.timer; do
    put 644 "$unit" "lib/systemd/system/$(basename "$unit")"
done
put 644 "$here/packaging/example.toml" etc/capstan/example.toml

# The independent reader of media, for the day on which the program does not run: python3 read_medium.py.
put 644 "$here/tools/read_medium.py" usr/share/capstan/read_medium.py
doc=usr/share/doc/capstan
put 644 "$here/packaging/copyright" $doc/copyright
put 644 "$here/packaging/changelog" $doc/changelog
gzip -9n "$root/$doc/changelog"
# As in the sources, so that they name each other rightly; SUMMARY.md is for the site alone.
put 644 "$here/README.md" $doc/README.md
(cd "$here" && find docs -name '*.md' ! -name SUMMARY.md) | while read -r page; do put 644 "$here/$page" "$doc/$page"; done
# What the pages name besides: the figures, the reader where it is installed, and the licence, of which every system has the text.
put 644 "$here/bench/RESULTS.md" $doc/bench/RESULTS.md
mkdir -p "$root/$doc/tools"
ln -s ../../../capstan/read_medium.py "$root/$doc/tools/read_medium.py"
ln -s ../../common-licenses/Apache-2.0 "$root/$doc/LICENSE"
# What is linked to the binary, with its licence.
(cd "$here" && cargo tree --locked --offline --package capstan --edges normal --prefix none --format '{p} {l}') |
    sed 's/ (\*)$//; s| (/[^)]*)||' | sort -u >"$root/$doc/libraries.txt"

mkdir -p "$root/DEBIAN"
echo /etc/capstan/example.toml >"$root/DEBIAN/conffiles"
# A running systemd reads units anew only when it is told to.
for script in postinst postrm; do
    cat >"$root/DEBIAN/$script" <<'SCRIPT'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
SCRIPT
    chmod 755 "$root/DEBIAN/$script"
done
(cd "$root" && find . -path ./DEBIAN -prune -o -type f ! -path './etc/*' -printf '%P\0' | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
size=$(du -sk --exclude=DEBIAN "$root" | cut -f1)
# The binary is linked to the C library and the compiler's alone; it needs no newer ones than those it was built with.
libc=$(dpkg-query -W -f '${Version}' libc6 2>/dev/null | sed 's/-.*//') || true
cat >"$root/DEBIAN/control" <<CONTROL
Package: capstan
Version: $version
Architecture: $arch
Maintainer: The Capstan developers <capstan-backup@users.noreply.github.com>
Installed-Size: $size
Depends: libc6${libc:+ (>= $libc)}, libgcc-s1
Suggests: default-mta | mail-transport-agent, python3 (>= 3.11), libzstd1 | python3-zstandard, liblz4-1 | python3-lz4, python3-cryptography, python3-argon2
Section: admin
Priority: optional
Homepage: https://github.com/capstan-backup/capstan
Description: backup and restore that names its bottleneck
 Backs up file systems and the output of commands, in full or what changed,
 compressed and encrypted, and restores them with all their metadata.
 Unattended backups: copy /etc/capstan/example.toml and enable a
 capstan@NAME.timer.
 .
 /usr/share/capstan/read_medium.py reads media without this program. It needs
 Python alone, and for media that are compressed or encrypted, the modules
 that are suggested.
CONTROL
mkdir -p "$out"
dpkg-deb --root-owner-group ${quick:+-Zgzip -z1} --build "$root" "$out/capstan_${version}_$arch.deb"
