//! What keeps a prune from consolidating a chain. Where the disk that gets the next backups lasts for a few of them only, that is said,
//! with what helps: nobody else would notice before a backup has no room.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use capstan_devices::address::Address;
use capstan_devices::medium::OpenMedium;
use capstan_format::id::{MediumId, VersionId};
use capstan_idb::Medium;

use super::outlook::Outlook;
use super::plan::{Base, UnconsolidatedBase};
use super::room::{needed_for, on_another_disk};
use crate::Cell;
use crate::error::Result;
use crate::media::{free_bytes, is_elsewhere, mb};
use crate::reading::version::VersionView;

/// Why a prune leaves a chain as it is, however much of it is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hinder {
    /// It passes by itself, another host sees to it, or no disk would have more room for it.
    Passes,
    /// No key is given, so nobody can say what is dead.
    NoKey,
    /// It lies on several media.
    Media,
}

/// Disks that take backups in turn: those of a pool, or a single one.
pub(super) struct Disks {
    pub media: Vec<MediumId>,
    /// Bytes free on all of them.
    pub free: u64,
}

impl Cell {
    /// What keeps a base from being replaced now, wherever it lies.
    pub(super) fn hinder_of(&self, base: &Base, view: &VersionView<'_>) -> Result<Option<Hinder>> {
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

    /// Whether a full elsewhere may take the place of all this: it lies on disks, and those that are in use have all of it. Copies stay
    /// where there is room ([`KeptCopies`](super::kept_copies::KeptCopies)); a tape would be given up without it.
    pub(super) fn may_be_replaced(&self, view: &VersionView<'_>) -> Result<bool> {
        for segment in &view.segments {
            let mut is_had = false;
            for (_, id, _) in segment.places() {
                let Some(medium) = self.idb.medium(id)? else { return Ok(false) };
                // Its host does that, and sets have the nights' backups as they were written.
                if is_elsewhere(self, &medium)
                    || self.set_of_medium(id)?.is_some()
                    || self.is_on_tape(id)?
                {
                    return Ok(false);
                }
                let of = self.idb.management(id)?;
                is_had |= of.exported_us.is_none() && of.retired_us.is_none();
            }
            if !is_had {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is to be said of a base that is left as it is: nothing, as long as there is room for many backups, or if nothing would come
    /// back. `takes` says what its full would take, where anybody knows.
    pub(super) fn hindered(
        &self,
        base: &Base,
        (name, host): (&str, &str),
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
                    "what was given up lies on {}, and prune consolidates on one disk only; {}",
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
    pub(super) fn lets_go(&self, version: VersionId, name: &str, full: String) -> Result<String> {
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

    /// The disks that take backups in turn with a medium, where it is a disk at hand that gets any; of a pool that has tapes too nobody
    /// knows the room.
    pub(super) fn disks_with(&self, medium: MediumId) -> Result<Option<Disks>> {
        let pool = match self.idb.management(medium)?.pool {
            Some(name) => self.idb.pool(&name)?,
            None => None,
        };
        let mut disks = Disks { media: Vec::new(), free: 0 };
        let mut counted: BTreeSet<u64> = BTreeSet::new();
        for known in self.idb.media()? {
            let of = self.idb.management(known.id)?;
            let is_of_pool = pool.as_ref().is_some_and(|pool| {
                of.pool
                    .as_ref()
                    .is_some_and(|name| *name == pool.name || Some(name) == pool.free_pool.as_ref())
            });
            let is_out = of.exported_us.is_some() || of.retired_us.is_some();
            if is_out || !(is_of_pool || known.id == medium) {
                continue;
            }
            let Some(path) = self.disk_of(&known)? else {
                if known.device.parse::<Address>().is_ok_and(|device| !device.is_sequential()) {
                    continue;
                }
                return Ok(None);
            };
            let Some(free) = free_bytes(&path) else { continue };
            disks.media.push(known.id);
            let device = std::fs::metadata(&path).map(|of| of.dev());
            if device.is_ok_and(|device| counted.insert(device)) {
                disks.free = disks.free.saturating_add(free);
            }
        }
        Ok(disks.media.contains(&medium).then_some(disks))
    }

    /// The directory of a medium, if it is one that is at hand and gets what is asked for.
    fn disk_of(&self, medium: &Medium) -> Result<Option<PathBuf>> {
        let Ok(Address::File(path)) = medium.device.parse() else { return Ok(None) };
        let is_it =
            || OpenMedium::open(&path).is_ok_and(|there| there.header().medium == medium.id);
        let is_here = !is_elsewhere(self, medium) && is_it();
        Ok((is_here && self.set_of_medium(medium.id)?.is_none()).then_some(path))
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
