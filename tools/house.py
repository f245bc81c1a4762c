#!/usr/bin/env python3
"""The order of the house: what of it can be counted.

    tools/house.py            a table of all crates
    tools/house.py --check    ends with 1 where modules form a circle that is not listed below, a crate depends on what it must not,
                              or a list says too much
    tools/house.py --circles  the uses that make each circle
    tools/house.py --picture  puts the picture of the crates into docs/architecture.md; --check holds it against the crates

A circle is two or more modules of one folder that use each other, directly or by way of others. A module may use its parent and
its children. Tests do not count. What `use` brings into a module counts where it comes from.
"""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict

# Circles that may be: `crate folder`, and how many modules are in circles. There are none, and none come in.
LEFT = {}

# What a crate must not depend on, also by way of others: who decides knows nothing of who moves data. Tests may.
FORBIDDEN = {
    "cell": {"disk-agent"},
    "catalog": {"devices", "disk-agent", "media-agent", "stream"},
    "disk-agent": {"cell", "catalog", "devices", "idb", "media-agent"},
}

ENTRIES_MAX = 14
LINES_MAX = 500
FUNCTION_MAX = 80

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def without_comments_and_tests(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"(?m)^\s*//.*$", "", text)
    text = re.sub(r"(?m)\s//[^\"\n]*$", "", text)
    at = re.search(r"(?m)^#\[cfg\(test\)\]\nmod \w+ \{", text)
    return text[: at.start()] if at else text


def leaves(tree):
    """The paths of a `use` tree, as (path, name that it gets)."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        path, _, alias = tree.partition(" as ")
        path = re.sub(r"\s", "", path)
        if path.endswith("::self"):
            path = path[: -len("::self")]
        yield path, (alias.strip() or path.split("::")[-1])
        return
    head, inside, depth, begin = tree[:brace], tree[brace + 1 : tree.rfind("}")], 0, 0
    parts = []
    for i, c in enumerate(inside + ","):
        depth += (c == "{") - (c == "}")
        if c == "," and depth == 0:
            parts.append(inside[begin:i])
            begin = i + 1
    for part in parts:
        if part.strip():
            for path, name in leaves(part):
                whole = re.sub(r"\s", "", head) + path
                yield (whole[: -len("::self")] if whole.endswith("::self") else whole), name


class Crate:
    def __init__(self, src):
        self.files, self.uses = {}, {}
        for folder, _, names in os.walk(src):
            for name in names:
                if not name.endswith(".rs") or name == "tests.rs":
                    continue
                path = os.path.join(folder, name)
                inner = os.path.relpath(path, src)[:-3].split(os.sep)
                if inner[-1] in ("mod", "lib", "main"):
                    inner.pop()
                self.files[tuple(inner)] = (path, without_comments_and_tests(open(path, encoding="utf-8").read()))
        for module, (_, text) in self.files.items():
            bound = {}
            for tree in re.findall(r"(?ms)^\s*(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", text):
                for path, name in leaves(tree):
                    bound[name] = path
            self.uses[module] = bound

    def absolute(self, module, path):
        """The parts of a path that is written in a module, from the root of the crate; None where it leads out of it."""
        parts = path.split("::")
        if parts[0] == "crate":
            return tuple(parts[1:])
        here = list(module)
        if parts[0] in ("self", "super"):
            while parts and parts[0] in ("self", "super"):
                if parts.pop(0) == "super":
                    if not here:
                        return None
                    here.pop()
            return tuple(here + parts)
        if module + (parts[0],) in self.files:
            return module + tuple(parts)
        return None

    def origin(self, parts, seen=()):
        """The module that has what a path names: `use` is followed."""
        module = parts
        while module not in self.files:
            if not module:
                return ()
            module = module[:-1]
        rest = parts[len(module) :]
        if rest and rest[0] in self.uses[module] and (module, rest[0]) not in seen:
            target = self.absolute(module, self.uses[module][rest[0]])
            if target is not None:
                return self.origin(target + rest[1:], seen + ((module, rest[0]),))
        return module

    def edges(self):
        """For each folder: (module, module that it uses) -> where and what."""
        found = defaultdict(lambda: defaultdict(list))
        for module, (path, text) in self.files.items():
            paths = set(re.findall(r"\b(?:crate|self|super)(?:::\w+)+", text))
            paths |= set(self.uses[module].values())
            for written in paths:
                parts = self.absolute(module, written)
                if parts is None:
                    continue
                target = self.origin(parts)
                n = 0
                while n < min(len(module), len(target)) and module[n] == target[n]:
                    n += 1
                if n < len(module) and n < len(target):
                    found[module[:n]][module[n], target[n]].append((path, written))
        return found


def circles(edges):
    """The strongly connected parts of more than one module (Tarjan)."""
    out = defaultdict(set)
    for one, other in edges:
        out[one].add(other)
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in sorted(out[v]):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            part = []
            while not part or part[-1] != v:
                part.append(stack.pop())
            if len(part) > 1:
                found.append(sorted(part))

    for v in sorted(out):
        if v not in index:
            visit(v)
    return found


ARCHITECTURE = os.path.join(ROOT, "docs", "architecture.md")
BEGIN, END = "<!-- tools/house.py --picture -->\n", "<!-- end of the picture -->\n"


def used_crates():
    """Which crates each crate names."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)["packages"]
    short = lambda name: name.removeprefix("capstan-")
    uses = {}
    for package in packages:
        if "crates" in package["manifest_path"].split(os.sep):
            own = [d["name"] for d in package["dependencies"] if d["kind"] is None and d["name"].startswith("capstan")]
            uses[short(package["name"])] = {short(name) for name in own}
    return uses


def all_used(uses, name):
    """What a crate uses, also by way of others."""
    return set().union(*[{other} | all_used(uses, other) for other in uses[name]])


def picture():
    """Which crate uses which, the highest first. What a crate has by way of another one is left out."""
    uses = used_crates()
    all_of = lambda name: all_used(uses, name)

    def height(name):
        return 1 + max([height(other) for other in uses[name]], default=0)

    lines = []
    for name in sorted(uses, key=lambda name: (-height(name), name)):
        near = [other for other in uses[name] if not any(other in all_of(beside) for beside in uses[name])]
        arrow = " -> " + ", ".join(sorted(near, key=lambda other: (-height(other), other))) if near else ""
        lines.append(f"{name:12}{arrow}".rstrip())
    return "```\n" + "\n".join(lines) + "\n```\n"


def functions(text):
    """The lengths of the functions of a file, as rustfmt writes them."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        begun = re.match(r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*fn (\w+)", line)
        if begun:
            for j in range(i, len(lines)):
                if lines[j].startswith(begun.group(1) + "}"):
                    yield j - i + 1, begun.group(2)
                    break
                if lines[j].rstrip().endswith(";") and j == i:
                    break


def main():
    wrong, rows = [], []
    text = open(ARCHITECTURE, encoding="utf-8").read()
    before, rest = text.split(BEGIN)
    shown, behind = rest.split(END)
    if "--picture" in sys.argv:
        open(ARCHITECTURE, "w", encoding="utf-8").write(before + BEGIN + picture() + END + behind)
        return
    if "--check" in sys.argv and shown != picture():
        wrong.append("docs/architecture.md: its picture of the crates is out of date: tools/house.py --picture")
    if "--check" in sys.argv:
        uses = used_crates()
        for name, others in FORBIDDEN.items():
            for other in sorted(others & all_used(uses, name)):
                wrong.append(f"{name}: it depends on {other}, which is behind a port")
    crates = sorted(os.listdir(os.path.join(ROOT, "crates")))
    for name in crates:
        src = os.path.join(ROOT, "crates", name, "src")
        crate = Crate(src)
        in_circles = 0
        for folder, edges in sorted(crate.edges().items()):
            place = " ".join([name, "/".join(folder)]).strip()
            parts = circles(edges)
            number = sum(len(part) for part in parts)
            in_circles += number
            if number > LEFT.get(place, 0):
                wrong.append(f"{place}: {number} modules are in circles, {LEFT.get(place, 0)} may be: {parts}")
            elif number < LEFT.get(place, 0):
                wrong.append(f"{place}: {number} modules are in circles, tools/house.py says {LEFT[place]}: put that right")
            if "--circles" in sys.argv:
                for part in parts:
                    print(f"{place}: {' '.join(part)}")
                    for (one, other), uses in sorted(edges.items()):
                        if one in part and other in part:
                            shown = ", ".join(f"{os.path.relpath(p, src)} {w}" for p, w in sorted(set(uses))[:9])
                            print(f"    {one} -> {other}: {shown}")
        entries, longest, lines, long_functions, statics = (0, ""), (0, ""), 0, 0, 0
        for folder, _, names in os.walk(src):
            inner = os.path.relpath(folder, src)
            shown = {f[:-3] for f in names if f.endswith(".rs")} | {d for d in os.listdir(folder) if os.path.isdir(os.path.join(folder, d))}
            entries = max(entries, (len(shown - {"mod"}), inner))
            for file in names:
                if file.endswith(".rs"):
                    text = open(os.path.join(folder, file), encoding="utf-8").read()
                    n = text.count("\n")
                    lines += n
                    longest = max(longest, (n, os.path.join(inner, file).removeprefix("./")))
                    code = without_comments_and_tests(text)
                    long_functions += sum(size > FUNCTION_MAX for size, _ in functions(code))
                    statics += len(re.findall(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?static \w+", code))
        rows.append((name, lines, entries, longest, long_functions, statics, in_circles))
    if "--check" in sys.argv:
        print("\n".join(wrong) or "the house is in order")
        sys.exit(1 if wrong else 0)
    print(f"{'crate':12} {'lines':>6}  {'entries of its fullest folder':32} {'longest file':34} {'functions':>9} {'statics':>7} {'modules':>10}")
    print(f"{'':12} {'':>6}  {'':32} {'':34} {'> 80 lines':>9} {'':>7} {'in circles':>10}")
    for name, lines, (n, folder), (m, file), long_functions, statics, number in rows:
        print(f"{name:12} {lines:6}  {n:3} {folder:28} {m:5} {file:28} {long_functions:9} {statics:7} {number:10}")


if __name__ == "__main__":
    main()
