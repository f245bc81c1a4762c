//! Paths that are named and not there, as a symbolic link above them leads elsewhere than it did: to a disk that is not mounted, or to
//! what lacks the path. Each counts as missing where the object's last version had it, so that nothing of that is given up.

use capstan_engine::message::{Code, path_text};
use capstan_format::entry::{Kind, is_inside};
use capstan_idb::{Object, Version};
use capstan_wire::source::Named;

use crate::Cell;
use crate::error::Result;
use crate::kinds::backup::plan::Plan;
use crate::kinds::backup::roots::outermost;
use crate::report::Selected;
use crate::session::SessionLog;

/// A path that is missing and was elsewhere.
pub(in crate::kinds::backup) struct Switched {
    /// Which one of those that are named.
    at: usize,
    /// What it is resolved to now.
    now: Vec<u8>,
}

/// So many paths of the last version that no PATH leads to are kept for those that are missing.
const UNPLACED_MAX: usize = 100;

/// Paths that are missing which are named in a message; the others are counted.
const UNPLACED_SAID: usize = 3;

/// Where a path was when the last version was made.
enum Was {
    /// There.
    At(Vec<u8>),
    /// Nobody knows.
    Unknown,
}

impl Cell {
    /// Puts what the object's last version had in the place of what paths lead to now and is not there.
    pub(in crate::kinds::backup) fn look_above(
        &self,
        object: Option<&Object>,
        plan: &mut Plan,
    ) -> Result<Vec<Switched>> {
        let mut switched = Vec::new();
        let is_missing = plan.named.iter().any(|of| of.missing.is_some());
        let Some(object) = object.filter(|_| is_missing && !plan.null) else { return Ok(switched) };
        let versions = self.idb.versions_of(object.id)?;
        let last = versions.iter().find(|v| v.is_complete_by(None) && !v.null_device);
        let Some(last) = last else { return Ok(switched) };
        let before = self.selected_by(last)?;
        let mut unknown = Vec::new();
        for at in 0..plan.named.len() {
            let of = &plan.named[at];
            if of.missing.is_none() {
                continue;
            }
            let was = match &before {
                Some(before) => was_by(of, before),
                // Of a version that was imported it is not known what it was told to take.
                None => self.was_itself(of, last)?,
            };
            let was = match was {
                Was::At(was) if was != of.root => was,
                Was::At(_) => continue,
                Was::Unknown => {
                    unknown.push(at);
                    continue;
                }
            };
            // What is backed up under another name, or has some of that in it, is not missing.
            let mut found = plan.named.iter().filter(|other| other.missing.is_none());
            if found.any(|other| is_inside(&was, &other.root) || is_inside(&other.root, &was)) {
                continue;
            }
            let now = std::mem::replace(&mut plan.named[at].root, was.clone());
            plan.trees.rules.kept_roots.push(was);
            switched.push(Switched { at, now });
        }
        let unplaced = match &before {
            _ if unknown.is_empty() => Vec::new(),
            Some(before) => still_unplaced(before, plan, &unknown),
            None => self.unplaced(last, plan, &unknown)?,
        };
        if !unplaced.is_empty() {
            plan.open = unknown.iter().map(|at| plan.named[*at].root.clone()).collect();
            plan.trees.rules.kept_roots.extend(plan.open.iter().chain(&unplaced).cloned());
            plan.unplaced = unplaced;
        }
        if !switched.is_empty() || !plan.unplaced.is_empty() {
            plan.trees.roots = outermost(&plan.named, &plan.unplaced);
        }
        Ok(switched)
    }

    /// Where a path was, by what a version has: where it leads now, or where it is written.
    fn was_itself(&self, of: &Named, version: &Version) -> Result<Was> {
        // Where its names cannot be read there is nothing to be kept.
        let Ok(mut rows) = self.named(version) else { return Ok(Was::At(of.root.clone())) };
        let mut has = |path: &[u8]| {
            let mut has = false;
            let read = rows.each_below(path, Some(0), &mut |_, _| has = true);
            read.is_ok() && has
        };
        let at = [&of.root[..], of.trimmed()].into_iter().find(|path| has(path));
        Ok(at.map_or(Was::Unknown, |path| Was::At(path.to_vec())))
    }

    /// What a version has and no path leads to, as its highest directories and files; nothing if there are too many of them.
    fn unplaced(&self, version: &Version, plan: &Plan, unknown: &[usize]) -> Result<Vec<Vec<u8>>> {
        let Ok(mut rows) = self.named(version) else { return Ok(Vec::new()) };
        let mut names_in = |dir: &[u8]| {
            let mut names = Vec::new();
            let read = rows.each_below(dir, Some(1), &mut |_, row| {
                let path = row.entry.path();
                if path != dir && !path.is_empty() && row.entry.kind != Kind::Tombstone {
                    names.push((path, row.entry.kind == Kind::Dir));
                }
            });
            read.map(|()| names).unwrap_or_default()
        };
        let known = plan.named.iter().enumerate().filter(|(at, _)| !unknown.contains(at));
        let known: Vec<_> = known.map(|(_, of)| &of.root).collect();
        let (mut tops, mut on_the_way) = (Vec::new(), vec![Vec::new()]);
        while let Some(dir) = on_the_way.pop() {
            for (path, is_directory) in names_in(&dir) {
                if known.iter().any(|root| is_inside(&path, root)) {
                } else if known.iter().any(|root| is_inside(root, &path)) {
                    on_the_way.push(path);
                } else {
                    tops.push((path, is_directory));
                }
            }
            if tops.len() > UNPLACED_MAX {
                return Ok(Vec::new());
            }
        }
        // A link above a path leaves its last name as it is: where one directory after the other leads to that, this is the path.
        let lasts: Vec<_> = unknown.iter().map(|at| last_name(plan.named[*at].trimmed())).collect();
        let narrowed = tops.into_iter().map(|(top, mut is_directory)| {
            let mut path = top.clone();
            while is_directory && !lasts.contains(&last_name(&path)) {
                match &names_in(&path)[..] {
                    [(only, kind)] => (path, is_directory) = (only.clone(), *kind),
                    _ => break,
                }
            }
            if lasts.contains(&last_name(&path)) { path } else { top }
        });
        Ok(narrowed.collect())
    }
}

fn last_name(path: &[u8]) -> &[u8] {
    path.rsplit(|b| *b == b'/').next().unwrap_or_default()
}

/// What was kept for paths that are missing still, and is not met now.
fn still_unplaced(before: &Selected, plan: &Plan, unknown: &[usize]) -> Vec<Vec<u8>> {
    let known = plan.named.iter().enumerate().filter(|(at, _)| !unknown.contains(at));
    let known: Vec<_> = known.map(|(_, of)| &of.root).collect();
    let bare = before.unplaced.iter().map(|path| path.trim_start_matches('/').as_bytes().to_vec());
    bare.filter(|path| !known.iter().any(|root| is_inside(path, root) || is_inside(root, path)))
        .collect()
}

/// What a path was resolved to by a selection that had it.
fn was_by(of: &Named, before: &Selected) -> Was {
    let text = |path: &[u8]| String::from_utf8([b"/", path].concat()).ok();
    let has = |path: &Option<String>| path.as_ref().is_some_and(|path| before.paths.contains(path));
    let bare = |path: &String| Was::At(path.trim_start_matches('/').as_bytes().to_vec());
    let (itself, now) = (text(of.trimmed()), text(&of.root));
    // While it is not known where a path was, what it leads to is no record of that.
    let is_known = before.unplaced.is_empty();
    if let Some(root) = text(&of.path).and_then(|path| before.through.get(&path))
        && (is_known || Some(root) != now.as_ref())
    {
        return bare(root);
    }
    // Else it led where it is written.
    match itself {
        Some(itself) if !has(&now) && has(&Some(itself.clone())) => bare(&itself),
        _ if is_known => Was::At(of.root.clone()),
        _ => Was::Unknown,
    }
}

/// Says which paths are missing that the walk does not come to, and those that were elsewhere.
pub(in crate::kinds::backup) fn say_missing(
    plan: &Plan,
    switched: &[Switched],
    builds_on: bool,
    log: &SessionLog<'_>,
) {
    let shown = |path: &[u8]| format!("/{}", path_text(path));
    let kept = match builds_on {
        true => "what the last version has of it, if anything, is kept as it was",
        false => "this version has nothing of it",
    };
    if !plan.unplaced.is_empty() {
        let is_open = |of: &&Named| of.missing.is_some() && plan.open.contains(&of.root);
        let open = plan.named.iter().filter(is_open);
        let open = open.map(|of| {
            let why = of.missing.as_deref().unwrap_or_default();
            match of.trimmed() == of.root {
                true => format!("{} ({why})", shown(&of.path)),
                false => {
                    format!("{} (which leads to {} now: {why})", shown(&of.path), shown(&of.root))
                }
            }
        });
        let mut open: Vec<_> = open.collect();
        let more = open.len().saturating_sub(UNPLACED_SAID);
        open.truncate(UNPLACED_SAID);
        let more = if more > 0 { format!(" or {more} more") } else { String::new() };
        let text = format!(
            "no PATH leads to it now; it may be what was backed up as {}{more}, which is not there, and where that led is not \
             on record: {kept}",
            open.join(" or ")
        );
        for root in &plan.unplaced {
            log.say(Code::PathMissing, "cell", &shown(root), text.clone());
        }
    }
    for (at, of) in plan.named.iter().enumerate() {
        let Some(why) = of.missing.clone() else { continue };
        if let Some(Switched { now, .. }) = switched.iter().find(|of| of.at == at) {
            let by = match of.trimmed() == of.root {
                true => "it".to_owned(),
                false => format!("it was backed up as {}, which", shown(&of.path)),
            };
            let text = format!(
                "{by} leads to {} now by a symbolic link, and that cannot be backed up ({why}): {kept}",
                shown(now)
            );
            log.say(Code::PathMissing, "cell", &shown(&of.root), text);
        } else if !plan.trees.roots.contains(&of.root) && !plan.open.contains(&of.root) {
            // What lies in another root the walk does not look for.
            log.say(Code::PathMissing, "cell", &shown(&of.root), why);
        }
    }
}
