//! `capstan diff`: what differs between two versions, a line per path.

use std::fmt::Write as _;

use capstan_cell::{Aspect, Change, ChangeKind, ChangeTotals, Listed};
use capstan_engine::message::path_text;
use serde_json::{Map, Value, json};

use crate::args::{DiffArgs, Global};
use crate::exit::Failure;
use crate::look::ls::{Lines, json_of, time};
use crate::output::{put_path, shown_path};
use crate::paths;
use crate::process::home;
use crate::text::sizes::{bytes_text, grouped};

/// Runs `diff`.
pub fn run(global: &Global, args: &DiffArgs) -> Result<u8, Failure> {
    let cell = home::open(global)?;
    let paths = paths::of_versions(&cell, &[&args.before, &args.after], &args.paths)?;
    let mut lines = Lines::of_names(&cell, args.json, "changes");
    let totals = cell.diff(&args.before, &args.after, &paths, &mut |change| {
        put_change(&mut lines, change, args.json);
    });
    // What was compared is shown, whatever path is in neither.
    match totals {
        Ok(totals) => end(lines, &totals, args.json),
        Err(e) => lines.end(Map::new(), Some(e.into())),
    }
}

/// Prints a change.
pub fn put_change(lines: &mut Lines, change: &Change, json: bool) {
    if json {
        return lines.row(&json_of_change(change));
    }
    lines.put(|out, terminal| {
        out.text(sign(change.kind))?;
        out.text("  ")?;
        out.bytes(&shown_path(&path_of(change), terminal))?;
        out.text(&details(change))?;
        out.text("\n")
    });
}

/// Prints the total, as the last that is printed.
pub fn end(mut lines: Lines, t: &ChangeTotals, json: bool) -> Result<u8, Failure> {
    if json {
        let total = json!({
            "added": t.added, "added_bytes": t.added_bytes,
            "removed": t.removed, "removed_bytes": t.removed_bytes,
            "type": t.types, "contents": t.contents, "metadata": t.metadata,
            "unchanged": t.unchanged,
        });
        return lines.end([("total".to_owned(), total)].into_iter().collect(), None);
    }
    lines.put(|out, _| {
        out.text(&format!(
            "Added {} ({}), removed {} ({}), other kind {}, contents changed {}, metadata changed {}, the same {}\n",
            grouped(t.added),
            bytes_text(t.added_bytes),
            grouped(t.removed),
            bytes_text(t.removed_bytes),
            grouped(t.types),
            grouped(t.contents),
            grouped(t.metadata),
            grouped(t.unchanged),
        ))
    });
    lines.end(Map::new(), None)
}

/// The letters of `restic diff`.
fn sign(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "+",
        ChangeKind::Removed => "-",
        ChangeKind::Type => "T",
        ChangeKind::Contents => "M",
        ChangeKind::Metadata => "U",
    }
}

fn path_of(change: &Change) -> Vec<u8> {
    change.entry().map(|e| e.path()).unwrap_or_default()
}

/// `  (size 7 -> 9, mtime 2026-11-20 22:54:39 -> 2026-11-21 01:02:03)`
fn details(change: &Change) -> String {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return String::new() };
    let mut text = String::new();
    for (i, aspect) in change.what.iter().enumerate() {
        text.push_str(if i == 0 { "  (" } else { ", " });
        text.push_str(aspect.name());
        if let (Some(old), Some(new)) = (value(before, *aspect), value(after, *aspect)) {
            let _ = write!(text, " {old} -> {new}");
        }
    }
    if !text.is_empty() {
        text.push(')');
    }
    text
}

/// What a state has of an aspect, where that is a word.
fn value(state: &Listed, aspect: Aspect) -> Option<String> {
    let e = &state.entry;
    let owner = |name: &Option<String>, id: u32| match name {
        Some(name) => path_text(name.as_bytes()),
        None => id.to_string(),
    };
    Some(match aspect {
        Aspect::Type => e.kind.as_str().to_owned(),
        Aspect::Size => e.size.to_string(),
        Aspect::Mtime => time(e.mtime),
        Aspect::Target => path_text(&e.target),
        Aspect::Device => format!("{}:{}", e.rdev.0, e.rdev.1),
        Aspect::Mode => format!("{:04o}", e.mode),
        Aspect::Owner => owner(&state.user, e.uid),
        Aspect::Group => owner(&state.group, e.gid),
        Aspect::Flags => format!("{:#x}", e.inode_flags),
        Aspect::Contents | Aspect::HardLink | Aspect::Xattrs | Aspect::Ctime => return None,
    })
}

fn json_of_change(change: &Change) -> Map<String, Value> {
    let mut object = Map::new();
    put_path(&mut object, "path", &[b"/", &path_of(change)[..]].concat());
    object.insert("change".to_owned(), change.kind.name().into());
    let what: Vec<&str> = change.what.iter().map(|a| a.name()).collect();
    object.insert("what".to_owned(), what.into());
    let state = |l: &Option<Listed>| l.as_ref().map_or(Value::Null, |l| json_of(l).into());
    object.insert("before".to_owned(), state(&change.before));
    object.insert("after".to_owned(), state(&change.after));
    object
}
