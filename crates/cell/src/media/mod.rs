//! Media and pools: what is known of each medium, the states of its life, its condition, whose it is, and which one a
//! session takes.

pub(crate) mod anew;
pub(crate) mod changed;
pub(crate) mod condition;
pub(crate) mod exchanged;
pub(crate) mod gone;
pub(crate) mod hosts;
pub(crate) mod keeps;
pub(crate) mod libraries;
pub(crate) mod named;
pub(crate) mod out;
pub(crate) mod owner;
pub(crate) mod place;
pub(crate) mod state;
pub(crate) mod unreadable;
pub(crate) mod whereabouts;
pub(crate) mod write_protected;

use std::path::Path;

use capstan_address::{Address, TapeAddress};
use capstan_devices::drives::Wanted;
use capstan_devices::host::DeviceHost;
use capstan_devices::medium::OpenMedium;
use capstan_devices::medium::storage::Recorded;
use capstan_engine::message::shell_word;
use capstan_format::id::{MediumId, VersionId};
use capstan_format::keys::PairId;
use capstan_format::record::MediumHeader;
use capstan_idb::{Holdings, Idb, Management, Medium, Segment};
use capstan_tape::Media;
use capstan_tape::changer::Place;

pub(crate) use self::changed::taken::Taken;
pub(crate) use self::condition::failure::WriteFailure;
pub(crate) use self::condition::proven::{way_to_prove, ways_out_of_poor};
pub use self::condition::{Condition, Limits, limits_of};
use self::hosts::look_here;
pub(crate) use self::hosts::{at_other_host, is_elsewhere, is_place_here, other_host};
pub(crate) use self::keeps::{Holds, Keeps, Kept, Lasts, SetTurns};
pub(crate) use self::libraries::{Libraries, tape_away};
pub(crate) use self::out::{
    exported, tape_exported, tape_name, tape_of_library_exported, tapes_to_come,
};
pub(crate) use self::owner::{identity, recorded};
pub(crate) use self::place::{refuse_new_medium_of, refuse_unmounted_home};
pub use self::state::{Facts, MediumState};
pub use self::whereabouts::{TapeAt, place_shown};
use crate::Cell;
use crate::error::{CellError, Result, plain};
use crate::session::{local, now_us};

/// In so many drives a tape may have asked for cleaning before it is thought to be at fault.
pub(crate) const DRIVES_MAX: usize = 2;
/// Block size of new media: 512 KiB. Two frames fill it, and a few blocks stay in a core's cache.
pub(crate) const BLOCK_SIZE: u32 = 512 << 10;
/// Least space that a medium's file system must have for a session to begin.
pub(crate) const LEAST_SPACE: u64 = 8 << 20;

/// A medium, as it is shown.
#[derive(Debug, Clone)]
pub struct MediumInfo {
    /// What the database has of it.
    pub medium: Medium,
    /// Its pool and its history.
    pub management: Management,
    /// What lies on it, in numbers.
    pub holdings: Holdings,
    /// Its state.
    pub state: MediumState,
    /// What its state were if nothing of it had left the house.
    pub state_inside: MediumState,
    /// Its condition, with the reasons where it is not good.
    pub condition: Condition,
    /// The reasons.
    pub reasons: Vec<String>,
    /// What can be done about it, where the condition is poor.
    pub ways_out: Option<String>,
    /// Why it cannot be used where it was last seen; nothing where it is at hand.
    pub absent: Option<String>,
    /// The host that has it, where that is another one.
    pub host: Option<String>,
    /// Bytes free where it lies, if it is at hand.
    pub free_bytes: Option<u64>,
    /// How much of it is used, from 0 to 1, where that is known.
    pub used: Option<f64>,
    /// Its tapes, as far as they have barcodes.
    pub tapes: Vec<TapeAt>,
    /// When it was seen to be write-protected, in microseconds since 1970, if it lies since then where it lay.
    pub protected_us: Option<i64>,
    /// Whether another cell writes it.
    pub foreign: bool,
    /// The versions that have something on it.
    pub versions: Vec<VersionId>,
    /// Those of them that must stay.
    pub kept: u64,
    /// Why it is not given up though none of them must: with it something would go that no prune would remove.
    pub held: Option<String>,
    /// Of a medium of a rotation set: what on one that is written no more keeps it from its turn, and what helps.
    pub waits_for: Option<String>,
    /// Until when the last of those that have an end must stay, in microseconds since 1970.
    pub kept_until_us: Option<i64>,
    /// Whether one of them must stay without end.
    pub kept_for_ever: bool,
    /// Whether what must stay on it does so until its turn comes in its rotation set, if nothing keeps it longer.
    pub kept_by_set: bool,
    /// Where its drive encrypts it: the key pairs that open its key.
    pub drive_key: Option<Vec<PairId>>,
}

/// What is found where a medium was last seen.
#[derive(Default)]
pub(crate) struct AtHand {
    /// Members of an array that are lost.
    lost: Vec<String>,
    header: Option<MediumHeader>,
    problem: Option<String>,
    pub(crate) absent: Option<String>,
    free_bytes: Option<u64>,
    used_bytes: Option<u64>,
    /// Where its tapes are, if they are in their libraries.
    tapes: Vec<TapeAt>,
    /// The medium, where it is at hand on disk.
    there: Option<OpenMedium>,
}

impl Cell {
    /// All media, or those of a pool.
    pub fn media_list(&self, pool: Option<&str>) -> Result<Vec<MediumInfo>> {
        if let Some(name) = pool {
            self.pool(name)?;
        }
        let mut list = Vec::new();
        let keeps = self.keeps()?;
        for medium in self.idb.media()? {
            let info = self.medium_info_by(&medium, &keeps)?;
            if pool.is_none_or(|name| info.management.pool.as_deref() == Some(name)) {
                list.push(info);
            }
        }
        Ok(list)
    }

    /// A medium by label, begin of its id, or device.
    pub fn media_show(&self, text: &str) -> Result<MediumInfo> {
        let medium = self.find_medium(text)?;
        self.medium_info(&medium)
    }

    pub(crate) fn medium_info(&self, medium: &Medium) -> Result<MediumInfo> {
        self.medium_info_by(medium, &self.keeps()?)
    }

    /// The same, where it is known already what must stay.
    fn medium_info_by(&self, medium: &Medium, keeps: &Keeps) -> Result<MediumInfo> {
        let management = self.idb.management(medium.id)?;
        let holdings = self.idb.holdings(medium.id)?;
        let versions = self.idb.versions_on_medium(medium.id)?;
        let lasts = match management.rotation_set {
            Some(_) => Some(keeps.lasts(self)?),
            None => None,
        };
        let is_due =
            lasts.is_some_and(|of| of.due.contains(&medium.id) || of.past.contains(&medium.id));
        let waits_for = lasts.and_then(|of| of.waits_for.get(&medium.id).copied());
        let waits_for = waits_for.map(|of| self.waits_for_text(of)).transpose()?;
        let kept = if is_due { Vec::new() } else { keeps.of(&versions) };
        let is_asked = holdings.segments > 0 && kept.is_empty() && !is_due;
        let held = match is_asked {
            true => self.held_text(medium, keeps.lasts(self)?)?,
            false => None,
        };
        let at_hand = look_here(self, medium);
        let pool =
            management.pool.as_deref().map(|name| self.idb.pool(name)).transpose()?.flatten();
        let appendable = pool.as_ref().is_none_or(|pool| pool.appendable);
        let takes_turns = |set| pool.as_ref().is_some_and(|pool| pool.size_of(set) > 0);
        let kept_by_set = !kept.is_empty()
            && management.rotation_set.is_some_and(takes_turns)
            && !is_worm(medium);
        let kept_longest = if kept_by_set { keeps.of_in_turn(&versions) } else { kept.clone() };
        let (condition, mut reasons) = judged(medium, &management, holdings.sessions);
        let ways_out = (condition == Condition::Poor && management.retired_us.is_none())
            .then(|| ways_out_of_poor(medium, management.errors));
        let foreign = match &at_hand.header {
            Some(header) => self.other_cell(header)?.is_some(),
            None => management.is_other_cells(),
        };
        let mut facts = Facts {
            is_initialised: true,
            is_exported: management.exported_us.is_some(),
            is_damaged: management.damaged_us.is_some() || at_hand.problem.is_some(),
            holds_data: holdings.segments > 0,
            // What is on one that is only appended to stays, whether it must or not.
            is_kept: !kept.is_empty() || held.is_some() || is_worm(medium),
            has_room: management.full_us.is_none()
                && at_hand.free_bytes.is_none_or(|free| free >= LEAST_SPACE),
            appendable,
            is_poor: condition == Condition::Poor,
            is_retired: management.retired_us.is_some(),
            is_foreign: foreign,
            is_changed: management.changed_us.is_some(),
        };
        let state = MediumState::of(&facts);
        facts.is_exported = false;
        let state_inside = MediumState::of(&facts);
        reasons.extend(management.changed_why.iter().map(|why| format!("changed: {why}")));
        let used = whereabouts::used(&management, &holdings, &at_hand);
        let mut tapes = at_hand.tapes;
        if tapes.is_empty() {
            tapes = whereabouts::tapes_of(&medium.device, |_| None);
        }
        for tape in &mut tapes {
            tape.exported =
                management.tape_exported(&tape.device).map(|(us, to)| (us, to.to_owned()));
        }
        let protected_us = self.protected_since(medium)?;
        reasons.extend(protected_us.map(|us| format!("write-protected, seen {}", local(us))));
        reasons.extend(held.clone());
        reasons.extend(at_hand.problem);
        reasons.extend(at_hand.lost);
        Ok(MediumInfo {
            medium: medium.clone(),
            host: other_host(&self.idb, medium).map(str::to_owned),
            foreign,
            state,
            state_inside,
            condition,
            reasons,
            ways_out,
            absent: at_hand.absent,
            free_bytes: at_hand.free_bytes,
            used,
            tapes,
            protected_us,
            kept: kept.len() as u64,
            held,
            waits_for,
            kept_until_us: kept_longest.iter().filter_map(Kept::until_us).max(),
            kept_for_ever: kept_longest.iter().any(|k| k.until_us().is_none()),
            kept_by_set,
            drive_key: self.drive_key_pairs(medium.id)?,
            versions,
            management,
            holdings,
        })
    }
}

impl MediumInfo {
    /// Sessions that wrote on it in its whole life.
    pub fn passes(&self) -> u64 {
        self.management.passes.saturating_add(self.holdings.sessions)
    }
}

impl Cell {
    /// The medium where it was last seen, which has to be that one.
    pub(crate) fn open_medium(&self, medium: &Medium) -> Result<OpenMedium> {
        let address = &medium.device;
        let there = self.devices.known(address, self.wanted(medium)).map_err(|e| {
            // It is there, and others have it: they are named, and can be waited for.
            if e.is_busy() {
                return e.into();
            }
            let away = at_other_host(&self.idb, medium);
            away.or_else(|| self.without_header(medium, address, &e)).unwrap_or_else(|| {
                CellError::BadInput(format!(
                    "{} is not in {address}: {}; mount it there, or import it from where it is now",
                    shown(medium.id, &medium.label),
                    crate::error::chain(&e)
                ))
            })
        })?;
        if there.header().medium != medium.id {
            if let Some(exchanged) = self.set_right(address, there.header())? {
                return Err(exchanged);
            }
            if let Some(e) = at_other_host(&self.idb, medium) {
                return Err(e);
            }
            return Err(CellError::BadInput(format!(
                "{address} holds {}, not {}; mount the right one there, or import it from where it is",
                shown(there.header().medium, &there.header().label),
                shown(medium.id, &medium.label)
            )));
        }
        recall(&self.idb, address, &there)?;
        Ok(there)
    }
}

/// The condition of a medium on which so many sessions wrote, by what is recorded of it; with a reason for each thing that is not
/// good.
fn judged(medium: &Medium, management: &Management, sessions: u64) -> (Condition, Vec<String>) {
    let passes = management.passes.saturating_add(sessions);
    let age_us = now_us().saturating_sub(management.first_us);
    let limits = limits_of(&kind_of(medium));
    let (mut condition, mut reasons) = limits.judge(age_us, passes, management.errors);
    let dirty = management.cleaning_drives.len();
    if dirty >= DRIVES_MAX {
        condition = Condition::Poor;
        reasons.push(format!("asked for cleaning in {dirty} drives"));
    }
    (condition, reasons)
}

impl Cell {
    /// The condition of a medium. What lies on it is counted only where that matters: there may be very many segments.
    pub(crate) fn condition_of(
        &self,
        medium: &Medium,
        management: &Management,
    ) -> Result<(Condition, Vec<String>)> {
        let counts = limits_of(&kind_of(medium)).passes.is_some();
        let sessions = if counts { self.idb.holdings(medium.id)?.sessions } else { 0 };
        Ok(judged(medium, management, sessions))
    }
}

/// Whether a medium has a tape that is only appended to, by their barcodes.
pub(crate) fn is_worm(medium: &Medium) -> bool {
    let tapes = medium.device.tapes();
    let media = tapes.iter().filter_map(|tape| Media::of_barcode(tape.tape.as_deref()?));
    media.into_iter().any(|media| media.worm)
}

/// The kind of medium, by which its limits are found.
fn kind_of(medium: &Medium) -> String {
    match &medium.device {
        Address::Tape(_) => "tape".to_owned(),
        other => other.scheme(),
    }
}

/// What a medium on a device is called if nobody says: as its directory, or as its tape's sticker says.
pub(crate) fn label_of(address: &Address) -> String {
    let label = match address {
        Address::File(path) => path.file_name().map(|n| n.to_string_lossy().into_owned()),
        Address::Tape(tape) => tape.tape.clone(),
        Address::Array(array) => array.members.first().map(label_of),
        Address::Null { .. } => Some("null".to_owned()),
        Address::Unknown(_) => None,
    };
    label.unwrap_or_else(|| "medium".to_owned())
}

/// A label that is free, made of one that may not be.
fn numbered(first: &str, is_free: impl Fn(&str) -> bool) -> String {
    let next = |n: u32| if n == 1 { first.to_owned() } else { format!("{first}-{n}") };
    (1..u32::MAX).map(next).find(|label| is_free(label)).unwrap_or_default()
}

/// Whether a label was made of another one so.
fn is_numbered(label: &str, first: &str) -> bool {
    let number = label.strip_prefix(first).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|n| n.parse::<u32>().is_ok())
}

impl Cell {
    /// What a new medium there is called: as its directory or tape, where no other medium is called so.
    pub(crate) fn new_label(&self, address: &Address) -> Result<String> {
        let media = self.idb.media()?;
        let is_free = |label: &str| media.iter().all(|medium| medium.label != label);
        Ok(numbered(&label_of(address), is_free))
    }
}

/// The label by which a medium is recorded among others: its own, or, where another medium of the cell has that, its own with a number.
/// A label names one medium.
fn label_for(media: &[Medium], id: MediumId, own: &str) -> String {
    let is_free = |label: &str| media.iter().all(|m| m.label != label || m.id == id);
    let known = media.iter().find(|m| m.id == id).map(|m| m.label.as_str());
    // One that got a number keeps it, as others may have written it down.
    let kept = known.filter(|known| is_numbered(known, own) && !is_free(own) && is_free(known));
    kept.map_or_else(|| numbered(own, is_free), str::to_owned)
}

/// Looks whether a medium is where it was last seen.
fn look(devices: &DeviceHost, medium: &Medium) -> AtHand {
    let mut found = AtHand::default();
    let path = match &medium.device {
        Address::File(path) => path,
        address @ Address::Array(_) => return look_at_array(devices, medium, address, found),
        // Nobody loads a tape to look at it.
        address @ Address::Tape(tape) => {
            let place = whereabouts::place_of(devices, tape);
            found.absent = absent(tape, &place);
            let place = place.ok().flatten();
            found.tapes = whereabouts::tapes_of(address, |_| place);
            return found;
        }
        Address::Null { .. } => {
            return AtHand { absent: Some("nothing is kept".to_owned()), ..found };
        }
        unknown @ Address::Unknown(_) => {
            return AtHand { absent: unknown.known().err().map(|e| e.to_string()), ..found };
        }
    };
    match OpenMedium::open(path) {
        Ok(there) if there.header().medium != medium.id => {
            let other = &there.header().label;
            found.absent = Some(format!("medium '{other}' is in its place"));
        }
        Ok(there) => {
            found.problem = there.header_problem().map(|p| {
                format!(
                    "its header file: {p}; `capstan media repair {}` writes it anew",
                    shell_word(&medium.label)
                )
            });
            found.header = Some(there.header().clone());
            (found.free_bytes, found.used_bytes) = whereabouts::space(path).unzip();
            found.there = Some(there);
        }
        Err(capstan_devices::DeviceError::Io { source, .. }) => found.absent = Some(plain(&source)),
        Err(capstan_devices::DeviceError::NoMedium(_)) => {
            found.absent = Some("no medium is there".to_owned());
        }
        Err(e) => found.problem = Some(crate::error::chain(&e)),
    }
    found
}

/// The same of an array: it is at hand if enough of its members are.
fn look_at_array(
    devices: &DeviceHost,
    medium: &Medium,
    address: &Address,
    mut found: AtHand,
) -> AtHand {
    // Nobody loads tapes to look at them.
    if address.is_sequential() {
        let (absent, lacking) = lacking_tapes(devices, address);
        (found.absent, found.lost) = (absent, lacking);
        let place = |tape: &TapeAddress| whereabouts::place_of(devices, tape).ok().flatten();
        found.tapes = whereabouts::tapes_of(address, place);
        return found;
    }
    match devices.medium(address) {
        Ok(there) if there.header().medium != medium.id => {
            let other = &there.header().label;
            found.absent = Some(format!("medium '{other}' is in its place"));
        }
        Ok(there) => {
            found.lost = there.problems();
            found.header = Some(there.header().clone());
            // The fullest member is full first.
            let directories = address.directories();
            let spaces = directories.iter().filter_map(|path| whereabouts::space(path));
            (found.free_bytes, found.used_bytes) = spaces.min().unzip();
            found.there = Some(there);
        }
        Err(e) => found.absent = Some(crate::error::chain(&e)),
    }
    found
}

/// Why a tape is not in its library, if it is not.
pub(crate) fn absent_tape(devices: &DeviceHost, tape: &TapeAddress) -> Option<String> {
    absent(tape, &whereabouts::place_of(devices, tape))
}

fn absent(
    tape: &TapeAddress,
    place: &std::result::Result<Option<Place>, String>,
) -> Option<String> {
    match place {
        Ok(None) if tape.tape.is_some() => Some("it is not in the library".to_owned()),
        Ok(_) => None,
        Err(why) => Some(why.clone()),
    }
}

/// Why too few tapes of an array are where they were last seen, if so; and what lacks of it in any case.
pub(crate) fn lacking_tapes(
    devices: &DeviceHost,
    address: &Address,
) -> (Option<String>, Vec<String>) {
    match address {
        Address::Tape(tape) => {
            let unknown = tape.tape.is_none() && !devices.is_by_hand(tape).unwrap_or(true);
            let why = match unknown {
                true => Some("it is not known which tape it is".to_owned()),
                false => absent_tape(devices, tape),
            };
            let lacking = why.iter().map(|why| format!("{tape}: {why}")).collect();
            (why, lacking)
        }
        Address::Array(array) => {
            let members: Vec<_> =
                array.members.iter().map(|member| lacking_tapes(devices, member)).collect();
            let lost = members.iter().filter(|(why, _)| why.is_some()).count();
            let lacking: Vec<String> = members.into_iter().flat_map(|(_, all)| all).collect();
            let broken = lost > array.layout.parity();
            (lacking.first().filter(|_| broken).cloned(), lacking)
        }
        Address::File(path) if !path.exists() => {
            let why = format!("{address} is not there");
            (Some(why.clone()), vec![why])
        }
        Address::File(_) | Address::Null { .. } => (None, Vec::new()),
        Address::Unknown(_) => {
            let why = address.known().err().map(|e| e.to_string());
            (why.clone(), why.into_iter().collect())
        }
    }
}

/// Bytes free on the file system of a path. File systems that store nothing (proc, sysfs) count no blocks.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    whereabouts::space(path).map(|(free, _)| free)
}

/// Bytes, as sentences have them.
pub(crate) fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// How a medium is named in messages.
pub(crate) fn shown(id: MediumId, label: &str) -> String {
    format!("medium '{label}' ({})", id.short())
}

/// Refuses a place that cannot be shown.
pub(crate) fn check_location(to: &str) -> Result<()> {
    crate::names::check_text("where it goes", to)
}

/// Tells a tape where its segments lie, as far as its drive said so when they were written or imported.
pub(crate) fn recall(idb: &Idb, address: &Address, medium: &OpenMedium) -> Result<()> {
    if !address.is_sequential() {
        return Ok(());
    }
    let segments = idb.segments_of_medium(medium.header().medium)?;
    let place = |s: Segment| Some(Recorded { number: s.number, segment: s.id, object: s.object? });
    medium.recall(segments.into_iter().filter_map(place).collect());
    Ok(())
}

impl Cell {
    /// The medium, as it is asked for where somebody puts it into its drive.
    pub(crate) fn wanted(&self, row: &Medium) -> Wanted {
        Wanted { medium: row.id, label: row.label.clone(), asks: self.id }
    }
}
