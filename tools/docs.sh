#!/bin/bash
# Builds a site of the documents: docs.sh MDBOOK DIRECTORY. The site is DIRECTORY/site: open index.html, or serve it as files.
# Fails if a link of the site leads nowhere; the links of the sources are checked by a test (crates/capstan/tests/e2e/documents.rs).
set -euo pipefail
mdbook=$1 out=$2
here=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$out"
mkdir -p "$out/src"
cp "$here/docs/book.toml" "$out/"
# The pages of docs become the root of the site. What they link to outside of docs comes along, and links are adapted.
cp -r "$here"/docs/. "$out/src/"
rm "$out/src/book.toml"
mkdir "$out/src/bench" "$out/src/tools"
cp "$here"/bench/{RESULTS,README}.md "$out/src/bench/"
cp "$here/tools/read_medium.py" "$out/src/tools/"
cp "$here"/{README,CONTRIBUTING,CHANGELOG}.md "$here/LICENSE" "$out/src/"
sed -i 's|](\.\./\([A-Zbt]\)|](\1|g' "$out"/src/*.md
sed -i 's|](\.\./\.\./|](../|g' "$out"/src/guide/*.md "$out"/src/adr/*.md
sed -i 's|](\.\./docs/|](../|g' "$out"/src/bench/*.md
sed -i 's|](docs/adr)|](adr/0001-segment-files-get-their-name-when-durable.md)|g; s|](docs/|](|g' "$out"/src/{README,CONTRIBUTING,CHANGELOG}.md
"$mdbook" build "$out" --dest-dir "$out/site"

broken=0
while IFS=: read -r page link; do
    link=${link#href=\"} link=${link%\"}
    target=${link%%#*} anchor=
    [[ $link != *#* ]] || anchor=${link#*#}
    file=$page
    [ -z "$target" ] || file=${page%/*}/$target
    if [ ! -e "$file" ] || { [ -n "$anchor" ] && ! grep -qF "id=\"$anchor\"" "$file"; }; then
        echo "docs: ${page#"$out"/site/} links to $link, which is not there" >&2
        broken=1
    fi
done < <(find "$out/site" -name '*.html' ! -name toc.html ! -name 404.html -exec grep -oE 'href="[^":]*"' -H {} + | sort -u)
[ $broken = 0 ] || exit 1
echo "docs: $out/site/index.html"
