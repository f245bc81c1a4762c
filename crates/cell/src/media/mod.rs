//! Media and pools: what is known of each medium, the states of its life, its condition, whose it is, and which one a
//! session takes.

pub(crate) mod anew;
pub(crate) mod changed;
pub(crate) mod condition;
pub(crate) mod exchanged;
pub(crate) mod gone;
pub(crate) mod hosts;
pub(crate) mod info;
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

use capstan_address::{Address, StoreAddress, TapeAddress};
use capstan_engine::message::shell_word;
use capstan_engine::problem::{Explain, Problem};
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_idb::{Idb, Management, Medium, Segment};
use capstan_medium::OpenMedium;
use capstan_medium::host::DeviceHost;
use capstan_medium::host::Wanted;
use capstan_medium::storage::Recorded;
use capstan_medium::tape::Media;
use capstan_medium::tape::Place;

pub(crate) use self::changed::taken::Taken;
pub(crate) use self::condition::failure::WriteFailure;
pub(crate) use self::condition::proven::{way_to_prove, ways_out_of_poor};
pub use self::condition::{Condition, Limits, limits_of};
pub(crate) use self::hosts::{at_other_host, is_elsewhere, is_place_here, other_host};
pub use self::info::{MediumInfo, place_shown};
pub(crate) use self::keeps::{Holds, Keeps, Kept, Lasts, SetTurns};
pub(crate) use self::libraries::{Libraries, tape_away};
pub(crate) use self::out::{
    exported, tape_exported, tape_name, tape_of_library_exported, tapes_to_come,
};
pub(crate) use self::owner::{identity, recorded};
pub(crate) use self::place::{refuse_new_medium_of, refuse_unmounted_home};
pub use self::state::{Facts, MediumState};
pub use self::whereabouts::TapeAt;
use crate::Cell;
use crate::error::{CellError, MediumRefusal, Result, plain};
use crate::session::now_us;

/// In so many drives a tape may have asked for cleaning before it is thought to be at fault.
pub(crate) const DRIVES_MAX: usize = 2;
/// Block size of new media: 512 KiB. Two frames fill it, and a few blocks stay in a core's cache.
pub(crate) const BLOCK_SIZE: u32 = 512 << 10;
/// Least space that a medium's file system must have for a session to begin.
pub(crate) const LEAST_SPACE: u64 = 8 << 20;

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
                CellError::from(MediumRefusal::NotThere {
                    medium: shown(medium.id, &medium.label),
                    device: address.clone(),
                    why: crate::error::chain(&e),
                })
            })
        })?;
        if there.header().medium != medium.id {
            if let Some(exchanged) = self.set_right(address, there.header())? {
                return Err(exchanged);
            }
            if let Some(e) = at_other_host(&self.idb, medium) {
                return Err(e);
            }
            return Err(MediumRefusal::AnotherThere {
                device: address.clone(),
                found: shown(there.header().medium, &there.header().label),
                wanted: shown(medium.id, &medium.label),
            }
            .into());
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
        Address::Store(store) => store.last_part(),
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
fn look(devices: &dyn DeviceHost, medium: &Medium) -> AtHand {
    let mut found = AtHand::default();
    let store = match &medium.device {
        Address::Store(store) => store,
        address @ Address::Array(_) => return look_at_array(devices, medium, address, found),
        // Nobody loads a tape to look at it.
        address @ Address::Tape(tape) => {
            let place = whereabouts::place_of(devices, tape);
            found.absent = absent(tape, &place).map(|why| why.to_string());
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
    match devices.medium(&medium.device) {
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
            (found.free_bytes, found.used_bytes) = free_and_used(devices, store).unzip();
            found.there = Some(there);
        }
        Err(capstan_medium::DeviceError::Io { source, .. }) => found.absent = Some(plain(&source)),
        Err(capstan_medium::DeviceError::NoMedium(_)) => {
            found.absent = Some("no medium is there".to_owned());
        }
        Err(e) => found.problem = Some(crate::error::chain(&e)),
    }
    found
}

/// The same of an array: it is at hand if enough of its members are.
fn look_at_array(
    devices: &dyn DeviceHost,
    medium: &Medium,
    address: &Address,
    mut found: AtHand,
) -> AtHand {
    // Nobody loads tapes to look at them.
    if address.is_sequential() {
        let (absent, lacking) = lacking_tapes(devices, address);
        (found.absent, found.lost) = (absent.map(|why| why.to_string()), lacking);
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
            let stores = address.stores();
            let spaces = stores.iter().filter_map(|store| free_and_used(devices, store));
            (found.free_bytes, found.used_bytes) = spaces.min().unzip();
            found.there = Some(there);
        }
        Err(e) => found.absent = Some(crate::error::chain(&e)),
    }
    found
}

/// Why a tape is not in its library, if it is not.
pub(crate) fn absent_tape(devices: &dyn DeviceHost, tape: &TapeAddress) -> Option<Problem> {
    absent(tape, &whereabouts::place_of(devices, tape))
}

fn absent(
    tape: &TapeAddress,
    place: &std::result::Result<Option<Place>, Problem>,
) -> Option<Problem> {
    match place {
        Ok(None) if tape.tape.is_some() => Some("it is not in the library".into()),
        Ok(_) => None,
        Err(why) => Some(why.clone()),
    }
}

/// Why too few tapes of an array are where they were last seen, if so; and what lacks of it in any case.
pub(crate) fn lacking_tapes(
    devices: &dyn DeviceHost,
    address: &Address,
) -> (Option<Problem>, Vec<String>) {
    match address {
        Address::Tape(tape) => {
            let unknown = tape.tape.is_none() && !devices.is_by_hand(tape).unwrap_or(true);
            let why = match unknown {
                true => Some("it is not known which tape it is".into()),
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
            (lacking.first().filter(|_| broken).map(|first| first.as_str().into()), lacking)
        }
        Address::Store(store) if !devices.is_there(store) => {
            let why = format!("{address} is not there");
            (Some(why.clone().into()), vec![why])
        }
        Address::Store(_) | Address::Null { .. } => (None, Vec::new()),
        Address::Unknown(_) => {
            let why = address.known().err().map(|e| e.problem());
            let lacking = why.iter().map(ToString::to_string).collect();
            (why, lacking)
        }
    }
}

/// Bytes free and bytes used where a store lies.
fn free_and_used(devices: &dyn DeviceHost, store: &StoreAddress) -> Option<(u64, u64)> {
    devices.space(store).map(|space| (space.free, space.used))
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
