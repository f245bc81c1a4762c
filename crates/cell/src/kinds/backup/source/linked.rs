//! Paths that are named and are symbolic links. A link is backed up as what it is, not what it leads to. Where it stands in the place
//! of a directory that the object's last version has, that directory was moved: nothing of it is given up by itself.

use capstan_engine::message::{Code, path_text};
use capstan_format::entry::Kind;
use capstan_idb::{Object, Version};
use capstan_wire::source::RootLink;

use crate::Cell;
use crate::error::Result;
use crate::kinds::backup::plan::Plan;
use crate::session::SessionLog;

/// Links that are named one by one in warnings; the others are counted.
const NAMED: usize = 5;

impl Cell {
    /// Says which roots are links to directories that are not backed up. One that was a directory counts as not reached.
    pub(in crate::kinds::backup) fn look_for_links(
        &self,
        object: Option<&Object>,
        builds_on: bool,
        mut links: Vec<RootLink>,
        plan: &mut Plan,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        // Of what is not looked at it was said why.
        links.retain(|link| !plan.trees.rules.kept_roots.contains(&link.root));
        if links.is_empty() {
            return Ok(());
        }
        let were = match object.filter(|_| !plan.null) {
            Some(object) => self.were_directories(object, &links)?,
            None => vec![false; links.len()],
        };
        let mut more = 0;
        for (at, (link, was_directory)) in links.iter().zip(were).enumerate() {
            let path = format!("/{}", path_text(&link.root));
            let target = path_text(&link.target);
            if was_directory {
                let kept = match builds_on {
                    true => "what the last version has of it, if anything, is kept as it was",
                    false => "this version has nothing of it",
                };
                let text = format!(
                    "it was a directory and is a symbolic link to {target} now, which is not backed up: {kept}"
                );
                log.say(Code::PathBecameLink, "cell", &path, text);
                plan.trees.rules.kept_roots.push(link.root.clone());
            } else if link.is_to_directory && at < NAMED {
                let text = format!(
                    "it is a symbolic link, and the directory that it leads to is not backed up: {target}"
                );
                log.say(Code::PathIsLink, "cell", &path, text);
            } else if link.is_to_directory {
                more += 1;
            }
        }
        if more > 0 {
            let text = format!(
                "{more} more of the paths are symbolic links to directories that are not backed up"
            );
            log.say(Code::PathIsLink, "cell", &plan.name, text);
        }
        Ok(())
    }

    /// Which of these roots the object's last version has as directories, or lacks.
    fn were_directories(&self, object: &Object, links: &[RootLink]) -> Result<Vec<bool>> {
        let versions = self.idb.versions_of(object.id)?;
        let last = versions.iter().find(|v| v.is_complete_by(None) && !v.null_device);
        let Some(last) = last else { return Ok(vec![false; links.len()]) };
        let lacking = self.lacking_paths()?;
        let lacks = |link: &RootLink| {
            let path = format!("/{}", path_text(&link.root));
            lacking.of(last.id).is_some_and(|paths| paths.have(&path))
        };
        // Where its names cannot be read it is not known, and nothing is given up.
        let had = self.directories_of(last, links);
        let had = had.unwrap_or_else(|_| links.iter().map(|link| link.is_to_directory).collect());
        Ok(links.iter().zip(had).map(|(link, had)| had || lacks(link)).collect())
    }

    /// Which of these roots a version has as directories.
    fn directories_of(&self, version: &Version, links: &[RootLink]) -> Result<Vec<bool>> {
        let mut rows = self.named(version)?;
        let mut is_directory = |link: &RootLink| {
            let mut is = false;
            rows.each_below(&link.root, Some(0), &mut |_, row| is |= row.entry.kind == Kind::Dir)?;
            Ok(is)
        };
        links.iter().map(&mut is_directory).collect()
    }
}
