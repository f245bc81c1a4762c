//! What is carried between libraries and vaults: the media that belong outside, and those that are wanted back.
//!
//! A medium belongs outside when it was exported and is here still, when a session was to bring it out and could not, or when it takes no more and its pool has a vault. It is wanted back
//! when nothing on it must stay, so that it can be used again, when it is among those that the next night of its rotation set takes, or
//! when a session waits for it. Each host lists the media that it had
//! last, so that each is in the list of one host only; media of other cells are in none.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use capstan_address::{Address, LibraryName, TapeAddress};
use capstan_format::id::VersionId;
use capstan_idb::{Medium, Pool};
use capstan_medium::host::DeviceHost;
use capstan_medium::tape::Place;
use jiff::civil::Date;

use crate::Cell;
use crate::drives::library;
use crate::drives::tapes_wanted::TapeWanted;
use crate::error::{Result, chain};
use crate::media::hosts::other_host;
use crate::media::{Condition, MediumInfo, MediumState, TapeAt, tape_name};
use crate::session::now_us;
use crate::supply::pools::calendar::local_date;

/// What is to be carried.
#[derive(Debug, Clone, Default)]
pub struct VaultReport {
    /// To a vault, by library and place.
    pub to_vault: Vec<ToVault>,
    /// From a vault, by location and barcode.
    pub to_fetch: Vec<ToFetch>,
    /// Libraries that could not be asked, and why: their tapes are in no list but where they are wanted back.
    pub unasked: Vec<(String, String)>,
}

/// A tape of a medium; or a medium that is no tape of a library.
#[derive(Debug, Clone)]
pub struct Carried {
    /// The medium.
    pub info: MediumInfo,
    /// The tape.
    pub tape: Option<TapeAt>,
}

/// What belongs outside.
#[derive(Debug, Clone)]
pub struct ToVault {
    /// What.
    pub what: Carried,
    /// Where to; empty where nobody said.
    pub to: String,
    /// Why.
    pub why: Vaulting,
}

/// Why a medium belongs outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vaulting {
    /// It was exported, and is here still.
    Exported,
    /// A session was to bring it out, and it is here still.
    Asked,
    /// It has no room left.
    Full,
    /// Its pool appends nothing to it.
    Closed,
    /// It is of a rotation set, and its day is over.
    Rotated,
    /// Somebody put it into a mail slot.
    InMail,
}

/// What is wanted back.
#[derive(Debug, Clone)]
pub struct ToFetch {
    /// What; nothing where any tape will do, or it is not known which one is meant.
    pub what: Option<Carried>,
    /// Where it was brought; empty where nobody said.
    pub location: String,
    /// Why.
    pub why: Fetch,
}

/// Why a medium is wanted back.
#[derive(Debug, Clone)]
pub enum Fetch {
    /// Nothing on it must stay.
    Expired,
    /// It holds nothing.
    Free,
    /// The next night of its rotation set takes several, and it is one of them.
    Next,
    /// Nothing by record, which is older than the last recovery of the database: what it holds by now is not known.
    Unseen,
    /// These sessions wait for it.
    Wanted(Vec<TapeWanted>),
}

impl Vaulting {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exported => "exported",
            Self::Asked => "asked",
            Self::Full => "full",
            Self::Closed => "closed",
            Self::Rotated => "rotated",
            Self::InMail => "mail slot",
        }
    }
}

impl Fetch {
    /// The word for it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Free => "free",
            Self::Next => "next",
            Self::Unseen => "unseen",
            Self::Wanted(_) => "wanted",
        }
    }
}

impl Cell {
    /// What is to be carried from and to all libraries, or one.
    pub fn vault_report(&self, library: Option<&LibraryName>) -> Result<VaultReport> {
        if let Some(name) = library {
            // One that is not there has nothing to say, and that is no empty list.
            library::open(&*self.devices, name)?;
        }
        let mut report = VaultReport::default();
        let mut media = self.media_list(None)?;
        let wanted = self.wanted_here(library)?;
        report.to_fetch = by_tape(wanted, &media);
        media.retain(|m| !m.foreign && other_host(&self.idb, &m.medium).is_none());
        let pools: HashMap<String, Pool> =
            self.idb.pools()?.into_iter().map(|pool| (pool.name.clone(), pool)).collect();
        let mut judge = Judge::new(self)?;
        let (coming, recovered_us) = (self.coming_in_sets()?, self.recovered_us()?);
        let mut asked = HashMap::new();
        let leaving: HashMap<String, String> =
            self.idb.leaving()?.into_iter().map(|of| (of.tape, of.to)).collect();
        for info in &media {
            let pool = info.management.pool.as_ref().and_then(|name| pools.get(name));
            let vault = pool.and_then(|pool| pool.vault.as_deref());
            let is_out = info.management.exported_us.is_some();
            let leaves = |tape: &TapeAt| leaving.get(&tape.device);
            if !is_out && vault.is_none() && !info.tapes.iter().any(|tape| leaves(tape).is_some()) {
                continue;
            }
            let tapes = carried(info, library);
            for name in tapes.iter().filter_map(|what| what.tape.as_ref()).map(|t| &t.library) {
                asked.entry(name.clone()).or_insert_with(|| unasked(&*self.devices, name));
            }
            let comes = coming.contains(&info.medium.id);
            if is_out && (comes || Judge::is_to_be_had(info)) {
                let is_unseen = info.management.exported_us < recovered_us;
                let why = match info.holdings.segments {
                    _ if is_unseen => Fetch::Unseen,
                    0 => Fetch::Free,
                    _ if comes && info.kept > 0 => Fetch::Next,
                    _ => Fetch::Expired,
                };
                let is_wanted = |of: &Carried| report.to_fetch.iter().any(|w| w.is(of));
                let fetched: Vec<_> = tapes.into_iter().filter(|of| !is_wanted(of)).collect();
                // Of an array some may be here.
                let fetched = fetched.into_iter().filter(Carried::is_out);
                report.to_fetch.extend(fetched.map(|what| ToFetch {
                    location: what.location(),
                    what: Some(what),
                    why: why.clone(),
                }));
                continue;
            }
            for what in tapes {
                let is_wanted = report.to_fetch.iter().any(|wanted| wanted.is(&what));
                if is_wanted || !what.is_here() || judge.is_in_use(&what) {
                    continue;
                }
                let leaves = what.tape.as_ref().and_then(leaves).filter(|_| !what.is_out());
                let why = match (what.is_out(), leaves, vault) {
                    (true, ..) => Some(Vaulting::Exported),
                    (false, Some(_), _) => Some(Vaulting::Asked),
                    // It would be fetched at once.
                    (false, None, Some(_)) if comes => None,
                    (false, None, Some(_)) => judge.vaulting(&what),
                    (false, None, None) => None,
                };
                let to = Some(what.location()).filter(|to| !to.is_empty());
                let to = to.or_else(|| leaves.cloned());
                let to = to.or_else(|| vault.map(str::to_owned)).unwrap_or_default();
                report.to_vault.extend(why.map(|why| ToVault { what, to, why }));
            }
        }
        let unasked = asked.into_iter().filter_map(|(name, why)| Some((name, why?)));
        report.unasked = unasked.collect();
        report.sort();
        Ok(report)
    }

    /// Where a session was to bring a medium, or that tape of it.
    pub(crate) fn leaves_to(
        &self,
        medium: &Medium,
        tape: Option<&TapeAddress>,
    ) -> Result<Option<String>> {
        let tape = tape.map(tape_name);
        let mut leaving = self.idb.leaving()?.into_iter();
        let of = leaving
            .find(|of| of.medium == medium.id && tape.as_ref().is_none_or(|tape| of.tape == *tape));
        Ok(of.map(|of| of.to))
    }

    /// The vault of a medium's pool.
    pub(crate) fn vault_of(&self, medium: &Medium) -> Result<Option<String>> {
        let Some(name) = self.idb.management(medium.id)?.pool else { return Ok(None) };
        Ok(self.idb.pool(&name)?.and_then(|pool| pool.vault))
    }

    /// What sessions of this host wait for.
    fn wanted_here(&self, library: Option<&LibraryName>) -> Result<Vec<TapeWanted>> {
        let mut wanted = self.tapes_wanted()?;
        wanted.retain(|of| !self.idb.is_on_server() || of.request.host == self.host());
        wanted.retain(|of| match of.request.drive.parse() {
            Ok(Address::Tape(tape)) => is_of(&tape.library, library),
            _ => library.is_none(),
        });
        Ok(wanted)
    }
}

impl VaultReport {
    /// Whether nothing is to be carried.
    pub fn is_empty(&self) -> bool {
        self.to_vault.is_empty() && self.to_fetch.is_empty()
    }

    fn sort(&mut self) {
        self.to_vault.sort_by_key(|of| {
            let tape = of.what.tape.as_ref();
            let place = tape.and_then(|tape| tape.place);
            // What is in the mail slots is taken first.
            let in_mail = Reverse(matches!(place, Some(Place::Mail(_))));
            (
                tape.map(|tape| tape.library.clone()),
                in_mail,
                place,
                of.what.info.medium.label.clone(),
            )
        });
        self.to_fetch.sort_by_key(|of| {
            let what = of.what.as_ref();
            let barcode = what.and_then(|what| what.tape.as_ref()).map(|t| t.barcode.clone());
            (of.location.clone(), barcode, what.map(|what| what.info.medium.label.clone()))
        });
        self.unasked.sort();
    }
}

impl Carried {
    /// Whether it left the house, by record.
    pub fn is_out(&self) -> bool {
        match &self.tape {
            Some(tape) => tape.exported.is_some(),
            None => self.info.management.exported_us.is_some(),
        }
    }

    /// When it left the house, in microseconds since 1970.
    pub fn exported_us(&self) -> Option<i64> {
        match &self.tape {
            Some(tape) => tape.exported.as_ref().map(|(us, _)| *us),
            None => self.info.management.exported_us,
        }
    }

    /// Where it was brought; empty where nobody said.
    fn location(&self) -> String {
        let to = match &self.tape {
            Some(tape) => tape.exported.as_ref().map(|(_, to)| to.clone()),
            None => self.info.management.exported_to.clone(),
        };
        to.unwrap_or_default()
    }

    /// Whether it is in its library, or at hand in its place.
    fn is_here(&self) -> bool {
        match &self.tape {
            Some(tape) => tape.place.is_some(),
            None => self.info.absent.is_none(),
        }
    }
}

impl ToFetch {
    fn is(&self, what: &Carried) -> bool {
        let tape = |of: &Carried| of.tape.as_ref().map(|t| (t.library.clone(), t.barcode.clone()));
        self.what
            .as_ref()
            .is_some_and(|own| own.info.medium.id == what.info.medium.id && tape(own) == tape(what))
    }
}

/// What decides on media, looked up where it is needed.
struct Judge<'c> {
    cell: &'c Cell,
    today: Date,
    /// Versions that sessions write or read now.
    running: HashSet<VersionId>,
    /// The drives of each library that somebody uses.
    busy: HashMap<String, HashSet<u32>>,
}

impl<'c> Judge<'c> {
    fn new(cell: &'c Cell) -> Result<Self> {
        let running = cell.idb.running_sessions()?;
        let running = running.iter().filter_map(|of| of.session.version).collect();
        let today = local_date(now_us());
        Ok(Self { cell, today, running, busy: HashMap::new() })
    }

    /// Whether a medium that is outside could be used again.
    fn is_to_be_had(info: &MediumInfo) -> bool {
        let of = &info.management;
        let is_sound = of.retired_us.or(of.changed_us).or(of.damaged_us).is_none()
            && info.condition != Condition::Poor;
        is_sound && info.kept == 0 && info.held.is_none()
    }

    /// Whether a session has something to do with it still.
    fn is_in_use(&mut self, what: &Carried) -> bool {
        if what.info.versions.iter().any(|id| self.running.contains(id)) {
            return true;
        }
        let Some(TapeAt { library, place: Some(Place::Drive(drive)), .. }) = &what.tape else {
            return false;
        };
        let of_library = self.busy.entry(library.clone());
        of_library.or_insert_with(|| busy_drives(&*self.cell.devices, library)).contains(drive)
    }

    /// Why a medium of a pool with a vault belongs there, if it does.
    fn vaulting(&self, what: &Carried) -> Option<Vaulting> {
        let info = &what.info;
        // Other tapes of it may have left already.
        let state = info.state_inside;
        let is_of_set = info.management.rotation_set.is_some();
        let day = info.holdings.run_us.map(local_date).filter(|_| is_of_set);
        let place = what.tape.as_ref().and_then(|tape| tape.place);
        takes_no_more(state, place, day.is_some_and(|day| day != self.today))
    }
}

/// Why a medium in that state and place is written no more; of one of a rotation set it is said whether its day is over.
fn takes_no_more(state: MediumState, place: Option<Place>, day_is_over: bool) -> Option<Vaulting> {
    match (state, place) {
        (MediumState::Full, _) => Some(Vaulting::Full),
        (MediumState::Protected, _) => Some(Vaulting::Closed),
        (MediumState::Appendable, Some(Place::Mail(_))) => Some(Vaulting::InMail),
        (MediumState::Appendable, _) => day_is_over.then_some(Vaulting::Rotated),
        _ => None,
    }
}

/// The tapes of a medium, as far as they are of that library; or the medium, where it has none.
fn carried(info: &MediumInfo, library: Option<&LibraryName>) -> Vec<Carried> {
    let of = |tape: Option<TapeAt>| Carried { info: info.clone(), tape };
    if info.tapes.is_empty() {
        return Vec::from_iter(library.is_none().then(|| of(None)));
    }
    let is_asked = |tape: &&TapeAt| {
        tape.library.parse::<LibraryName>().is_ok_and(|name| is_of(&name, library))
    };
    info.tapes.iter().filter(is_asked).map(|tape| of(Some(tape.clone()))).collect()
}

/// Whether a library is the one that is asked for, if one is.
fn is_of(name: &LibraryName, asked: Option<&LibraryName>) -> bool {
    asked.is_none_or(|asked| asked.resolved() == name.resolved())
}

/// Why a library cannot be asked where its tapes are, if so.
fn unasked(devices: &dyn DeviceHost, library: &str) -> Option<String> {
    let name = library.parse::<LibraryName>().map_err(|e| chain(&e));
    let held = name.and_then(|name| devices.inventory(&name).map(drop).map_err(|e| chain(&e)));
    held.err()
}

/// The drives of a library that somebody uses.
fn busy_drives(devices: &dyn DeviceHost, library: &str) -> HashSet<u32> {
    let Some(status) = library.parse().ok().and_then(|name| library::status(devices, &name).ok())
    else {
        return HashSet::new();
    };
    let busy = status.drives.into_iter().filter(|drive| drive.info.in_use.is_some());
    busy.map(|drive| drive.number).collect()
}

/// What sessions wait for, each tape once.
fn by_tape(wanted: Vec<TapeWanted>, media: &[MediumInfo]) -> Vec<ToFetch> {
    let mut list: Vec<ToFetch> = Vec::new();
    for of in wanted {
        let what = media.iter().find_map(|info| is_tape_of(&of, info));
        let known = list.iter_mut().find(|f| what.as_ref().is_some_and(|what| f.is(what)));
        if let Some(ToFetch { why: Fetch::Wanted(sessions), .. }) = known {
            sessions.push(of);
            continue;
        }
        let location = what.as_ref().map(Carried::location).unwrap_or_default();
        list.push(ToFetch { what, location, why: Fetch::Wanted(vec![of]) });
    }
    list
}

/// The tape that a session waits for, where it is one of this medium.
fn is_tape_of(wanted: &TapeWanted, info: &MediumInfo) -> Option<Carried> {
    let Ok(Address::Tape(tape)) = wanted.request.drive.parse::<Address>() else { return None };
    let barcode = tape.tape.as_deref()?;
    let is_it = |of: &&TapeAt| {
        let library = of.library.parse::<LibraryName>().ok();
        of.barcode == barcode && library.is_some_and(|name| is_of(&name, Some(&tape.library)))
    };
    let tape = info.tapes.iter().find(is_it)?.clone();
    Some(Carried { info: info.clone(), tape: Some(tape) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_that_hold_something_and_take_no_more_belong_outside() {
        use MediumState::{Appendable, Damaged, Expired, Free, Full, Poor, Protected};
        let (slot, mail) = (Some(Place::Slot(1)), Some(Place::Mail(1)));
        assert_eq!(takes_no_more(Full, slot, false), Some(Vaulting::Full));
        assert_eq!(takes_no_more(Full, None, false), Some(Vaulting::Full), "a disk");
        assert_eq!(takes_no_more(Protected, mail, false), Some(Vaulting::Closed));
        assert_eq!(takes_no_more(Appendable, slot, false), None);
        assert_eq!(takes_no_more(Appendable, slot, true), Some(Vaulting::Rotated));
        assert_eq!(takes_no_more(Appendable, mail, true), Some(Vaulting::InMail));
        // What can be written anew, and what is to be looked after here, stays.
        for state in [Free, Expired, Damaged, Poor] {
            assert_eq!(takes_no_more(state, mail, true), None, "{state}");
        }
    }
}
