//! What keeps a prune from consolidating a chain. Where the disk that gets the next backups lasts for a few of them only, that is said,
//! with what helps: nobody else would notice before a backup has no room.

use capstan_address::HostName;
use std::collections::BTreeSet;

use capstan_format::id::{MediumId, VersionId};

use super::outlook::Outlook;
use super::plan::Base;
use super::room::{needed_for, on_another_disk};
use super::site::Disks;
use crate::Cell;
use crate::error::Result;
use crate::kinds::prune::report::UnconsolidatedBase;
use crate::media::{LEAST_SPACE, mb};
use crate::reading::version::VersionView;

/// Why a prune leaves a chain as it is, however much of it is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds::prune) enum Hinder {
    /// It passes by itself, another host sees to it, or no disk would have more room for it.
    Passes,
    /// No key is given, so nobody can say what is dead.
    NoKey,
    /// It lies on several media.
    Media,
}

impl Cell {
    /// What keeps a base from being replaced now, wherever it lies.
    pub(in crate::kinds::prune) fn hinder_of(
        &self,
        base: &Base,
        view: &VersionView<'_>,
    ) -> Result<Option<Hinder>> {
        // A restore that runs may have found out already what it reads.
        if self.idb.is_in_use(base.version.object)? {
            return Ok(Some(Hinder::Passes));
        }
        // Without its keys nobody can say what is dead.
        if view.encrypted && !self.secrets.are_given() {
            return Ok(Some(Hinder::NoKey));
        }
        Ok((!self.opens_unasked(view)?).then_some(Hinder::Passes))
    }

    /// What is to be said of a base that is left as it is: nothing, as long as there is room for many backups, or if nothing would come
    /// back. `takes` says what its full would take, where anybody knows.
    pub(in crate::kinds::prune) fn hindered(
        &self,
        base: &Base,
        (name, host): (&str, &HostName),
        hinder: Hinder,
        takes: &dyn Fn() -> Result<Option<u64>>,
        outlook: &Outlook<'_>,
    ) -> Result<Option<UnconsolidatedBase>> {
        let object = base.version.object;
        if hinder == Hinder::Passes || !outlook.is_growing(base.version.id, object) {
            return Ok(None);
        }
        let mut shortest: Option<(u64, Disks)> = None;
        let mut looked_at: BTreeSet<MediumId> = BTreeSet::new();
        for medium in outlook.media(base.versions()) {
            if looked_at.contains(&medium) {
                continue;
            }
            let Some(disks) = self.disks_with(medium)? else { continue };
            looked_at.extend(&disks.media);
            let Some(backups) = outlook.lasts_for(&disks.media, disks.free) else { continue };
            // With less no session begins.
            let of_use = disks.free.checked_sub(LEAST_SPACE);
            let of_use = of_use.and_then(|free| outlook.lasts_for(&disks.media, free));
            let backups = of_use.map_or(0, |of_use| backups.min(of_use + 1));
            // At least half of what the next backup takes comes back: what only grows is not helped so.
            let growth = outlook.growth_of(object, &disks.media);
            let chain: u64 = base.versions().map(|id| outlook.bytes(id, &disks.media)).sum();
            let gain = || takes().map(|takes| takes.map(|takes| chain.saturating_sub(takes)));
            if growth == 0 || gain()?.is_some_and(|gain| gain == 0 || gain < growth / 2) {
                continue;
            }
            if shortest.as_ref().is_none_or(|(least, ..)| backups < *least) {
                shortest = Some((backups, disks));
            }
        }
        let Some((backups, disks)) = shortest else { return Ok(None) };
        let left = match backups {
            0 => "too little for one more backup".to_owned(),
            1 => "enough for 1 more backup".to_owned(),
            n => format!("enough for {n} more backups"),
        };
        let why = format!(
            "{} are free on {}, {left}, and prune makes no room there: {}",
            mb(disks.free),
            self.media_named(disks.media.iter())?,
            match hinder {
                Hinder::NoKey => {
                    let root = base.versions().last().map(|id| outlook.bytes(id, &disks.media));
                    without_key(name, &base.session, disks.free < needed_for(root.unwrap_or(0)))
                }
                _ => format!(
                    "what was given up lies on {}, which are no disks of one pool, and none has all of it; {}",
                    self.media_named(outlook.media(base.versions()).iter())?,
                    self.lets_go(base.version.id, name, on_another_disk(name, &base.session))?
                ),
            }
        );
        Ok(Some(UnconsolidatedBase {
            name: name.to_owned(),
            host: host.to_owned(),
            session: base.session.clone(),
            why,
            lacks_bytes: None,
        }))
    }

    /// What lets a chain go: a full of it, as that says; if none may take its place, one of the source.
    pub(in crate::kinds::prune) fn lets_go(
        &self,
        version: VersionId,
        name: &str,
        full: String,
    ) -> Result<String> {
        if self.may_be_replaced(&VersionView::open(self, version)?)? {
            return Ok(full);
        }
        Ok(format!(
            "a tape, a rotation set or another host has some of it, so no full takes its place; a full backup of '{name}' (`capstan \
             backup --full`) to a disk with room begins a new chain, and the old one goes when nothing that is kept builds on it"
        ))
    }

    /// `medium 'a'`, `media 'a', 'b'`
    fn media_named<'a>(&self, media: impl Iterator<Item = &'a MediumId>) -> Result<String> {
        let labels = self.labels(media)?;
        let what = if labels.len() == 1 { "medium" } else { "media" };
        Ok(format!("{what} '{}'", labels.join("', '")))
    }
}

/// What helps where prune has no key; and where its full would have no room beside what was given up.
fn without_key(name: &str, session: &str, lacks_room: bool) -> String {
    let key = "it is encrypted, and prune was given no key; give it one with CAPSTAN_KEY_FILE, CAPSTAN_PASSPHRASE, or `key-file` in \
               the specification, and prune again";
    match lacks_room {
        false => key.to_owned(),
        true => format!("{key}; if it lacks room then, {}", on_another_disk(name, session)),
    }
}
