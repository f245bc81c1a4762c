//! What is refused before a restore writes anything.

pub(in crate::kinds::restore) mod kept;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use capstan_catalog::places::SegmentPlace;
use capstan_catalog::version::Overview;
use capstan_engine::message::{Code, path_text};
use capstan_format::entry::{Kind, split};
use capstan_port::disk::restore::RestoreTarget;

use crate::kinds::restore::wanted::chosen::Chosen;

use crate::error::{RestoreRefusal, Result};
use crate::kinds::restore::wanted::scope::{Scope, each_live};
use crate::queries::leads::not_in_version;
use crate::reading::version::VersionView;
use crate::request::{RestoreRequest, RestoreTo};
use crate::session::SessionLog;

/// A version and what is asked of it.
pub(in crate::kinds::restore) struct Check<'a> {
    pub view: &'a VersionView<'a>,
    pub overview: &'a Overview,
    pub request: &'a RestoreRequest,
    /// What is restored.
    pub chosen: &'a Chosen,
    /// What can have something of it.
    pub scope: &'a Scope,
}

/// Takes a path, and whether it is a directory.
type EachPath<'f> = dyn FnMut(&[u8], bool) + 'f;

/// Refuses what can be told from the request alone.
pub(in crate::kinds::restore) fn destination(request: &RestoreRequest) -> Result<()> {
    let (to, name) = match &request.to {
        RestoreTo::Into(dir) => (dir.as_path(), "--into a directory"),
        RestoreTo::Tar(Some(file)) => (file.as_path(), "--to-tar a file, or -"),
        RestoreTo::InPlace | RestoreTo::Tar(None) => (Path::new("/"), ""),
    };
    if to.as_os_str().is_empty() {
        return Err(RestoreRefusal::PlaceEmpty { how: name }.into());
    }
    Ok(())
}

/// Finds out what is chosen: refuses paths that the version does not have and patterns that leave nothing, says which patterns did
/// nothing, and learns which directories lead to the rest.
pub(in crate::kinds::restore) fn choose(
    view: &VersionView<'_>,
    overview: &Overview,
    chosen: &mut Chosen,
    scope: &Scope,
    log: &SessionLog<'_>,
    name: &str,
) -> Result<()> {
    if !chosen.is_narrow() {
        return Ok(());
    }
    let mut missing: HashSet<Vec<u8>> = chosen.paths().cloned().collect();
    let mut any = false;
    each_path(view, overview, scope, &mut |path, is_dir| {
        if !missing.is_empty() {
            // Nested ones are met as well.
            let mut at = chosen.asked_of(path);
            while let Some(asked) = at {
                missing.remove(asked);
                at = (!asked.is_empty()).then(|| chosen.asked_of(split(asked).0)).flatten();
            }
        }
        if chosen.has_patterns() && chosen.has(path, is_dir) {
            any = true;
            chosen.learn(path);
        }
    })?;
    if let Some(path) = missing.iter().min() {
        let mut links: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
        each_live(view, overview, &Scope::default(), &mut |row, at| {
            let entry = &row.entry;
            let is_above = path.strip_prefix(at).is_some_and(|rest| rest.starts_with(b"/"));
            if entry.kind == Kind::Symlink && is_above {
                links.insert(at.to_vec(), entry.target.clone());
            }
        })?;
        return Err(not_in_version(path, &mut |at| links.get(at).cloned()));
    }
    let useless = chosen.useless();
    if chosen.has_patterns() && !any {
        let why = useless.first().map(|why| format!(" ({why})")).unwrap_or_default();
        return Err(RestoreRefusal::PatternsLeaveNothing { why }.into());
    }
    for text in useless {
        log.say(Code::NoMatch, "cell", name, text);
    }
    Ok(())
}

/// Calls with each path that is there, asked for or not.
fn each_path(
    view: &VersionView<'_>,
    overview: &Overview,
    scope: &Scope,
    each: &mut EachPath<'_>,
) -> Result<()> {
    scope.rows(view, &mut |stream, row| {
        if row.entry.kind.is_inode() && overview.is_first(stream, &row) {
            let path = row.entry.path();
            if !overview.is_replaced(&path, row.ordinal) {
                each(&path, row.entry.kind == Kind::Dir);
            }
        }
        Ok(())
    })
}

impl Check<'_> {
    /// Refuses what can be told from the request, the database, and a look at the media.
    pub fn request(
        &self,
        needed: &dyn Fn(usize, &SegmentPlace) -> bool,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        self.strip(log)?;
        self.view.require_a_medium(needed, false)
    }

    /// Calls with each path that is chosen.
    fn each_chosen(&self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        each_path(self.view, self.overview, self.scope, &mut |path, is_dir| {
            if self.chosen.has(path, is_dir) {
                each(path);
            }
        })
    }

    /// Refuses stripping that leaves nothing of any path, or of a file that was asked for by its own; says how many others are left
    /// out by it.
    pub fn strip(&self, log: &SessionLog<'_>) -> Result<()> {
        let strip = self.request.strip;
        if strip == 0 {
            return Ok(());
        }
        let mut longest = 0;
        let (mut named, mut first): (Option<Vec<u8>>, Option<Vec<u8>>) = (None, None);
        // By hash, as a path may come twice.
        let (hasher, mut gone) = (RandomState::new(), HashSet::new());
        each_path(self.view, self.overview, self.scope, &mut |path, is_dir| {
            if path.is_empty() || !self.chosen.has(path, is_dir) {
                return;
            }
            let components = path.split(|b| *b == b'/').count();
            longest = longest.max(components);
            if !is_dir && components <= strip {
                gone.insert(hasher.hash_one(path));
                first.get_or_insert_with(|| path.to_vec());
                if self.chosen.asked_of(path) == Some(path) {
                    named.get_or_insert_with(|| path.to_vec());
                }
            }
        })?;
        if longest == 0 {
            return Ok(());
        }
        if longest <= strip {
            return Err(RestoreRefusal::StripLeavesNothing { strip, longest }.into());
        }
        if let Some(path) = named {
            return Err(RestoreRefusal::StripLeavesNothingOf { strip, path }.into());
        }
        self.meeting(strip)?;
        if let Some(first) = first {
            let text = match gone.len() {
                1 => format!("--strip {strip} leaves nothing of its path: it is left out"),
                n => format!(
                    "--strip {strip} leaves nothing of the paths of {n} files, of which this is one: they are left out"
                ),
            };
            log.say(Code::Stripped, "cell", &format!("/{}", path_text(&first)), text);
        }
        Ok(())
    }

    /// Stripping after which two files have one path.
    fn meeting(&self, strip: usize) -> Result<()> {
        // By hash, for there may be millions. A path comes twice where a later version changed only its metadata.
        let (hasher, mut seen) = (RandomState::new(), HashMap::new());
        let mut met: Option<Vec<u8>> = None;
        each_path(self.view, self.overview, self.scope, &mut |path, is_dir| {
            let at = path.iter().enumerate().filter(|(_, b)| **b == b'/').nth(strip - 1);
            if let Some((at, _)) = at.filter(|_| !is_dir && self.chosen.has(path, is_dir)) {
                let whole = hasher.hash_one(path);
                let first = *seen.entry(hasher.hash_one(&path[at + 1..])).or_insert(whole);
                if first != whole {
                    met.get_or_insert_with(|| path.to_vec());
                }
            }
        })?;
        let Some(path) = met else { return Ok(()) };
        Err(RestoreRefusal::StripMeets { strip, path }.into())
    }

    /// A directory in which nothing can be made, though something would have to be.
    pub fn target(&self, target: &dyn RestoreTarget, dir: &Path) -> Result<()> {
        let Some(why) = target.not_writable() else { return Ok(()) };
        let mut tops: BTreeSet<Vec<u8>> = BTreeSet::new();
        self.each_chosen(&mut |path| {
            let mut rest = path.split(|b| *b == b'/').skip(self.request.strip);
            if let Some(top) = rest.next().filter(|t| !t.is_empty())
                && !tops.contains(top)
            {
                tops.insert(top.to_vec());
            }
        })?;
        let tops: Vec<_> = tops.into_iter().collect();
        if target.has(&tops)?.iter().all(|has| *has) {
            return Ok(());
        }
        Err(RestoreRefusal::PlaceNotWritable { dir: dir.to_owned(), why }.into())
    }
}
