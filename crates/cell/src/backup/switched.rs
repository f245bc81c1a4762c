//! Paths that are named and not there, as a symbolic link above them leads elsewhere than it did: to a disk that is not mounted, or to
//! what lacks the path. Each counts as missing where the object's last version had it, so that nothing of that is given up.

use capstan_disk_agent::backup::{Named, outermost};
use capstan_disk_agent::walk::is_inside;
use capstan_engine::message::{Code, path_text};
use capstan_idb::{Object, Version};

use super::plan::Plan;
use crate::Cell;
use crate::error::{Result, plain};
use crate::report::Selected;
use crate::restore::is_complete_by;
use crate::session::Ears;

/// A path that is missing and was elsewhere.
pub(super) struct Switched {
    /// Which one of those that are named.
    at: usize,
    /// What it is resolved to now.
    now: Vec<u8>,
}

impl Cell {
    /// Puts what the object's last version had in the place of what paths lead to now and is not there.
    pub(super) fn look_above(
        &self,
        object: Option<&Object>,
        plan: &mut Plan,
    ) -> Result<Vec<Switched>> {
        let mut switched = Vec::new();
        let is_missing = plan.named.iter().any(|of| of.missing.is_some());
        let Some(object) = object.filter(|_| is_missing && !plan.null) else { return Ok(switched) };
        let versions = self.idb.versions_of(object.id)?;
        let last = versions.iter().find(|v| is_complete_by(v, None) && !v.null_device);
        let Some(last) = last else { return Ok(switched) };
        let before = self.selected_by(last)?;
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
            let Some(was) = was.filter(|was| *was != of.root) else { continue };
            // What is backed up under another name, or has some of that in it, is not missing.
            let mut found = plan.named.iter().filter(|other| other.missing.is_none());
            if found.any(|other| is_inside(&was, &other.root) || is_inside(&other.root, &was)) {
                continue;
            }
            let now = std::mem::replace(&mut plan.named[at].root, was.clone());
            plan.selection.kept_roots.push(was);
            switched.push(Switched { at, now });
        }
        if !switched.is_empty() {
            plan.roots = outermost(&plan.named);
        }
        Ok(switched)
    }

    /// The path as it is written, if a version has something there and nothing where it leads now.
    fn was_itself(&self, of: &Named, version: &Version) -> Result<Option<Vec<u8>>> {
        // Where its names cannot be read it is not known.
        let Ok(mut rows) = self.named(version) else { return Ok(None) };
        let mut has = |path: &[u8]| {
            let mut has = false;
            let read = rows.each_below(path, Some(0), &mut |_, _| has = true);
            read.is_ok() && has
        };
        Ok((!has(&of.root) && has(of.trimmed())).then(|| of.trimmed().to_vec()))
    }
}

/// What a path was resolved to by a selection that had it.
fn was_by(of: &Named, before: &Selected) -> Option<Vec<u8>> {
    let text = |path: &[u8]| String::from_utf8([b"/", path].concat()).ok();
    let has = |path: &str| before.paths.iter().any(|of| of == path);
    let bare = |path: &String| path.trim_start_matches('/').as_bytes().to_vec();
    if let Some(root) = before.through.get(&text(&of.path)?) {
        return Some(bare(root));
    }
    // Else it led where it is written.
    let itself = text(of.trimmed())?;
    (!has(&text(&of.root)?) && has(&itself)).then(|| bare(&itself))
}

/// Says which paths are missing that the walk does not come to, and those that were elsewhere.
pub(super) fn say_missing(plan: &Plan, switched: &[Switched], builds_on: bool, ears: &Ears<'_>) {
    let shown = |path: &[u8]| format!("/{}", path_text(path));
    for (at, of) in plan.named.iter().enumerate() {
        let Some(why) = of.missing.as_ref().map(plain) else { continue };
        if let Some(Switched { now, .. }) = switched.iter().find(|of| of.at == at) {
            let by = match of.trimmed() == of.root {
                true => "it".to_owned(),
                false => format!("it was backed up as {}, which", shown(&of.path)),
            };
            let kept = match builds_on {
                true => "what the last version has of it, if anything, is kept as it was",
                false => "this version has nothing of it",
            };
            let text = format!(
                "{by} leads to {} now by a symbolic link, and that cannot be backed up ({why}): {kept}",
                shown(now)
            );
            ears.say(Code::PathMissing, "cell", &shown(&of.root), text);
        } else if !plan.roots.contains(&of.root) {
            // What lies in another root the walk does not look for.
            ears.say(Code::PathMissing, "cell", &shown(&of.root), why);
        }
    }
}
