//! Which tape of a library a session takes, and where it goes on when that is full. Of arrays of tapes [`crate::supply::tapes::arrays`] says it.
//!
//! A session that names a library and no tape gets, in this order: a tape of this cell that takes more, the one written
//! last; a free one of this cell; one that is blank: first those that were seen to be. What was seen not to be is not loaded again
//! ([`crate::supply::tapes::seen`]). Tapes that are in a pool are the pool's; foreign tapes, and tapes that hold
//! anything that is not known, are left alone.

pub(crate) mod arrays;
pub(crate) mod by_hand;
pub(crate) mod scratch;
pub(crate) mod seen;

use std::collections::HashMap;

use capstan_address::{Address, TapeAddress};
use capstan_engine::message::shell_word;
use capstan_engine::problem::Problem;
use capstan_format::id::MediumId;
use capstan_idb::{Medium, TapeIs};
use capstan_medium::DeviceError;
use capstan_medium::host::DeviceHost;
use capstan_medium::tape::{Held, Media};
use capstan_port::media::write::error::WriteError;
use capstan_port::media::write::members::{LostMirror, LostPart, Member};
use capstan_port::media::write::options::OnMedia;

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{CellError, Result, SupplyRefusal, chain};
use crate::media::exchanged::Looked;
use crate::media::libraries::is_of;
use crate::media::{MediumInfo, MediumState, WriteFailure};
use crate::request::Turn;
use crate::session::now_us;
use crate::supply::Wanted;
use crate::supply::pools::queue::{Queue, has_no_drive};
use crate::supply::tapes::by_hand::Choice;
use crate::supply::tapes::seen::why_not;
use crate::supply::unfit::{IS_FULL, PassedOver, Unfit, Why, why_next, why_passed};

/// Where the media of a session come from.
#[derive(Debug, Clone)]
pub(crate) struct Supply {
    /// The pool that chooses them.
    pub pool: Option<String>,
    /// Which of its media are taken, where they rotate.
    turn: Turn,
    /// The libraries of which tapes are taken that are in no pool, and arrays of such.
    libraries: Vec<Address>,
    /// Whether the drives compress, where that was decided.
    pub drives_compress: Option<bool>,
    /// Whether the drives encrypt.
    by_drive: ByDrive,
    /// Media that are not written, whatever they are.
    but: Vec<PassedOver>,
}

impl Supply {
    /// Where a session to these devices, or to that pool, gets its media.
    pub fn of<'a>(pool: Option<&str>, devices: impl IntoIterator<Item = &'a Address>) -> Self {
        let libraries = devices.into_iter().filter(|device| device.names_no_medium());
        Self {
            pool: pool.map(str::to_owned),
            turn: Turn::of_now(),
            libraries: libraries.cloned().collect(),
            drives_compress: None,
            by_drive: ByDrive::default(),
            but: Vec::new(),
        }
    }

    /// The same, with tapes that are encrypted by their drives or not.
    pub fn encrypted(self, by_drive: ByDrive) -> Self {
        Self { by_drive, ..self }
    }

    /// The same by that turn of its pool.
    pub fn in_turn(self, turn: Turn) -> Self {
        Self { turn, ..self }
    }

    /// The same without these media either.
    pub fn but(mut self, but: impl IntoIterator<Item = PassedOver>) -> Self {
        self.but.extend(but);
        self
    }

    /// Whether there are no media but those that were named.
    pub fn is_none(&self) -> bool {
        self.pool.is_none() && self.libraries.is_empty()
    }
}

impl Cell {
    /// Opens a tape of a library to write, none of those that were `passed` over. Where labels turn out to be exchanged, the tapes are
    /// chosen anew, by what each is.
    pub(crate) fn open_tape_of(
        &self,
        library: &TapeAddress,
        wanted: &Wanted,
        passed: &[PassedOver],
    ) -> Result<Member> {
        let library = &library.resolved();
        let mut looked = Looked::default();
        loop {
            match self.open_one_of(library, wanted, passed, &mut looked) {
                Err(CellError::Exchanged(_)) => {}
                opened => return opened,
            }
        }
    }

    /// The same, by what is recorded. An error where that was not right, of each place once.
    fn open_one_of(
        &self,
        library: &TapeAddress,
        wanted: &Wanted,
        passed: &[PassedOver],
        looked: &mut Looked,
    ) -> Result<Member> {
        let at: Vec<(TapeAddress, &Why)> = passed
            .iter()
            .filter_map(|(id, why)| Some((self.tape_of(*id)?.recorded(), why)))
            .collect();
        let mut unfit = Unfit::default();
        for candidate in self.tapes_in_order(library, wanted.by_drive)? {
            let Candidate { barcode, known, why_not, is_seen } = candidate;
            let (drive, spool) = (library.drive, library.spool.clone());
            let tape = TapeAddress { drive, spool, ..library.with_tape(&barcode) };
            // Tapes of other libraries may have the same barcodes.
            let place = tape.recorded();
            let is_passed = known.and_then(|(id, _)| why_passed(passed, id));
            let is_passed = is_passed.or_else(|| Some(at.iter().find(|at| at.0 == place)?.1));
            match (is_passed.map(ToString::to_string), why_not) {
                (None, None) => {}
                (None, Some(why)) if is_seen => {
                    unfit.say_seen(&barcode, why, &library.library);
                    continue;
                }
                (Some(why), _) | (None, Some(why)) => {
                    unfit.say(&barcode, why);
                    continue;
                }
            }
            let address = Address::from(tape.clone());
            // What will not do is looked at once more, before its drive is given back.
            let trial = self.devices.trial(&address);
            match self.open_on_trial(&address, wanted) {
                Err(e @ CellError::Exchanged(_))
                    if known.is_some_and(|of| looked.is_new(of.0, &barcode)) =>
                {
                    return Err(e);
                }
                Err(e) => {
                    self.note_passed_over(&barcode, known.map(|of| of.0), &e);
                    if known.is_none() {
                        self.remember_unfit(&tape, &e)?;
                    }
                    let no_drive = has_no_drive(&e);
                    unfit.add(&barcode, e)?;
                    // The next one would have none either.
                    if no_drive {
                        break;
                    }
                }
                // It was brought here from another library.
                Ok(opened) => match why_passed(passed, opened.medium.medium) {
                    Some(why) => unfit.say(&barcode, why.to_string()),
                    None => {
                        trial.keep();
                        return Ok(opened);
                    }
                },
            }
        }
        Err(unfit.error(&format!("tape of {}", library.library), |found| {
            let library = &library.library;
            Problem::new(format!("no tape of {library} can be written ({found})")).hint(format!(
                "put a blank tape into a mail slot and `capstan library import {}` it, or recycle one",
                shell_word(library)
            ))
        }))
    }

    /// The tapes of a library, those first that are taken first; with the reason why one cannot be used.
    pub(crate) fn tapes_in_order(
        &self,
        library: &TapeAddress,
        by_drive: ByDrive,
    ) -> Result<Vec<Candidate>> {
        let known = self.idb.media()?;
        let arrays = arrays_by_tape(&known);
        let changed = self.idb.changed_media()?;
        let held = tapes_held(&*self.devices, library)?;
        let seen = self.seen_in(&library.library, &held)?;
        let mut ranked: Vec<((u8, i64), Candidate)> = Vec::new();
        for (place, Held { barcode, .. }) in held.into_iter().enumerate() {
            let tape = library.with_tape(&barcode);
            let found = seen.get(&barcode);
            let mut candidate = Candidate { barcode, known: None, why_not: None, is_seen: false };
            // What is known to be blank saves the look at others.
            let is_blank = found.is_some_and(|seen| seen.is == TapeIs::Blank);
            let mut rank = (if is_blank { 2 } else { 3 }, place as i64);
            if let Some(array) = arrays.get(&tape) {
                candidate.why_not = Some(format!("is a part of array '{array}'"));
            } else if let Some(medium) = on_tape(&known, &Address::Tape(tape), &changed) {
                let info = self.medium_info(medium)?;
                (rank, candidate.why_not) = self.turn_of(&info, by_drive, place)?;
                candidate.known = Some((medium.id, info.state));
            } else {
                candidate.why_not = found.and_then(why_not);
                candidate.is_seen = candidate.why_not.is_some();
            }
            // What can be written once is for who names it, as long as there are others. One that was begun is gone on with.
            let is_worm = Media::of_barcode(&candidate.barcode).is_some_and(|media| media.worm);
            if is_worm && rank.0 > 0 {
                rank.0 += WORM_LAST;
            }
            if candidate.why_not.is_none() {
                let barcode = &candidate.barcode;
                candidate.why_not = self
                    .devices
                    .why_not_written(&library.library, barcode)
                    .map_err(DeviceError::from)?;
            }
            ranked.push((rank, candidate));
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        Ok(ranked.into_iter().map(|(_, candidate)| candidate).collect())
    }

    /// When it is a medium's turn, the `place`th of its library; and why it cannot be used, if so.
    pub(crate) fn turn_of(
        &self,
        info: &MediumInfo,
        by_drive: ByDrive,
        place: usize,
    ) -> Result<((u8, i64), Option<String>)> {
        if let Some(pool) = &info.management.pool {
            return Ok(((4, 0), Some(format!("is in pool {pool}"))));
        }
        let rank = match info.state {
            MediumState::Appendable => (0, -info.holdings.last_order.unwrap_or(0)),
            _ => (1, place as i64),
        };
        let why = match crate::supply::pools::usable::unusable(info) {
            None if info.state == MediumState::Expired => {
                Some("holds nothing that must stay, and can be recycled".to_owned())
            }
            None => self.passed_over(by_drive, info)?,
            why => why,
        };
        Ok((rank, why))
    }

    /// The barcodes of the tapes of a library, by place, without those that clean.
    pub(crate) fn barcodes(&self, library: &TapeAddress) -> Result<Vec<String>> {
        barcodes(&*self.devices, library)
    }

    /// Where a tape was last seen, if it is one.
    pub(crate) fn tape_of(&self, medium: MediumId) -> Option<TapeAddress> {
        match self.device_of_medium(medium)? {
            Address::Tape(tape) => Some(tape),
            _ => None,
        }
    }

    /// Where the tapes of a medium were last seen: one, those of an array, or none.
    pub(crate) fn tapes_of(&self, medium: MediumId) -> Vec<TapeAddress> {
        self.device_of_medium(medium).map(|device| device.tapes()).unwrap_or_default()
    }

    /// Where a medium was last seen.
    pub(crate) fn device_of_medium(&self, medium: MediumId) -> Option<Address> {
        Some(self.idb.medium(medium).ok()??.device)
    }

    /// Gives the drives of a medium back, of which this session reads no more.
    pub(crate) fn done_reading(&self, medium: MediumId) {
        if let Some(device) = self.device_of_medium(medium) {
            self.devices.done_reading(&device);
        }
    }

    /// Whether a medium is a tape that somebody puts into a drive by hand.
    pub(crate) fn is_by_hand(&self, medium: MediumId) -> bool {
        self.tape_of(medium).is_some_and(|tape| tape.tape.is_none())
    }

    /// The drive that stands alone into which somebody puts a medium, if it is such a tape.
    pub(crate) fn drive_by_hand(&self, medium: MediumId) -> Option<TapeAddress> {
        self.tape_of(medium).filter(|tape| self.devices.is_by_hand(tape).unwrap_or(false))
    }

    /// Media by their labels.
    pub(crate) fn media_called(&self, labels: &[String]) -> Result<Vec<MediumId>> {
        let media = self.idb.media()?;
        Ok(media.iter().filter(|m| labels.contains(&m.label)).map(|m| m.id).collect())
    }

    /// Opens a medium of a pool to write, none of those that were `passed` over.
    pub(crate) fn open_medium_of(
        &self,
        pool: &str,
        turn: Turn,
        wanted: &Wanted,
        passed: &mut Vec<PassedOver>,
    ) -> Result<Member> {
        let (mut queue, mut looked) = (Queue::begin(&self.devices), Looked::default());
        loop {
            let medium =
                self.allocate_or_wait(pool, turn, wanted.by_drive, passed, &mut queue, 1)?;
            let choice =
                Choice { pool: Some(pool.to_owned()), passed: passed.clone(), asks: false };
            let address = &medium.device;
            let opened = self.open_chosen(address, wanted, &choice).and_then(|member| {
                self.refuse_not_chosen(pool, address, &member.medium)?;
                Ok(member)
            });
            match opened {
                // Chosen by its pool, so nothing is waited for yet.
                Err(e) if e.is_out_of_reach() => queue.pass(medium.id, e, passed)?,
                Err(CellError::Exchanged(_)) if looked.is_new(medium.id, &medium.device) => {}
                Err(e) if let Some(why) = why_next(&e) => {
                    self.note_passed_over(&medium.label, Some(medium.id), &e);
                    passed.push((medium.id, why.into()));
                }
                Err(e) if queue.decides_anew(self, pool, medium.id, &e) => {}
                other => return other,
            }
        }
    }

    /// The media on which a session goes on when some of these have ended, or those that are named failed in that way; `said` gets
    /// what there is to say. One of several for which there is no other medium is left.
    pub(crate) fn next_media(
        &self,
        supply: &Supply,
        members: Vec<Member>,
        failure: Option<(WriteFailure, &[MediumId])>,
        said: &mut dyn FnMut(&Member, &str),
    ) -> OnMedia {
        let mut next = Vec::new();
        let mut passed: Vec<PassedOver> = supply.but.clone();
        for member in &members {
            let id = member.medium.medium;
            if why_passed(&passed, id).is_none() {
                let why = match failure {
                    None if member.device.is_ending() => IS_FULL,
                    _ => "is written by this session",
                };
                passed.push((id, why.into()));
            }
        }
        let mut none = None;
        for member in members {
            let stays = match failure {
                None => !member.device.is_ending(),
                Some((_, failed)) => !failed.contains(&member.medium.medium),
            };
            if stays {
                next.push(Ok(member));
                continue;
            }
            let old = member.medium.clone();
            match self.next_medium(supply, member, failure.map(|of| of.0), &mut passed) {
                Ok(member) => {
                    said(&member, &old.label);
                    next.push(Ok(member));
                }
                Err(e) => {
                    let (medium, label, part) = (old.medium, old.label, LostPart::Mirror);
                    next.push(Err(LostMirror { medium, label, error: chain(&e), part }));
                    none.get_or_insert(e);
                }
            }
        }
        match none {
            Some(e) if next.iter().all(std::result::Result::is_err) => Err(e),
            _ => Ok(next),
        }
    }

    /// The medium that takes the place of one that has ended, or failed in that way.
    fn next_medium(
        &self,
        supply: &Supply,
        member: Member,
        failure: Option<WriteFailure>,
        passed: &mut Vec<PassedOver>,
    ) -> std::result::Result<Member, WriteError> {
        let failed = |e: CellError| WriteError::Media(chain(&e));
        let old = member.medium.clone();
        match failure {
            None => self.idb.set_medium_full(old.medium, now_us()).map_err(CellError::from),
            Some(failure) => self.note_write_failure(old.medium, failure),
        }
        .map_err(failed)?;
        // Its drive is free for the next one, or for another session once that is in another drive.
        drop(member);
        let by_drive = supply.by_drive.going_on(&old);
        let block_size = Some(old.block_size);
        let wanted = &Wanted { block_size, by_drive, new_medium: false, as_it_is: false };
        let here = self.device_of_medium(old.medium);
        let library = here.and_then(|here| supply.libraries.iter().find(|l| is_of(&here, l)));
        let pool = self.idb.management(old.medium).map_err(|e| failed(e.into()))?.pool;
        let opened = match (pool.filter(|pool| supply.pool.as_ref() == Some(pool)), library) {
            (Some(pool), _) => self.open_medium_of(&pool, supply.turn, wanted, passed),
            (None, Some(library)) => {
                self.open_chosen(library, wanted, &Choice { asks: true, ..Choice::but(passed) })
            }
            (None, None) => Err(SupplyRefusal::TakesNoMore { label: old.label.clone() }.into()),
        };
        if let Some(old) = self.device_of_medium(old.medium) {
            self.devices.done_writing(&old);
        }
        let mut member = opened.map_err(failed)?;
        if let Some(on) = supply.drives_compress {
            member.device.set_compression(on)?;
        }
        member.medium.protection = old.protection;
        member.goes_on = true;
        passed.push((member.medium.medium, "is written by this session".into()));
        Ok(member)
    }
}

/// WORM tapes with nothing on them come behind all others.
const WORM_LAST: u8 = 10;

/// A tape of a library that a session may take.
pub(crate) struct Candidate {
    pub barcode: String,
    /// The medium on it, and its state, if that is known.
    pub known: Option<(MediumId, MediumState)>,
    /// Why it cannot be used.
    pub why_not: Option<String>,
    /// That is by what was seen on it before.
    pub is_seen: bool,
}

/// The labels of the arrays that tapes are parts of, by the tape.
fn arrays_by_tape(known: &[Medium]) -> HashMap<TapeAddress, &str> {
    let mut arrays = HashMap::new();
    for medium in known {
        if let array @ Address::Array(_) = &medium.device {
            let tapes = array.tapes().into_iter();
            arrays.extend(tapes.map(|tape| (tape, medium.label.as_str())));
        }
    }
    arrays
}

/// The medium that is known to be on a tape: not one that was found to be there no more, if another one is.
fn on_tape<'a>(known: &'a [Medium], device: &Address, changed: &[MediumId]) -> Option<&'a Medium> {
    let here = known.iter().filter(|m| m.device == *device);
    here.min_by_key(|m| changed.contains(&m.id))
}

/// The tapes of a library, by place, without those that clean.
pub(crate) fn barcodes(devices: &dyn DeviceHost, library: &TapeAddress) -> Result<Vec<String>> {
    Ok(tapes_held(devices, library)?.into_iter().map(|tape| tape.barcode).collect())
}

/// The tapes of a library, by place, without those that clean.
fn tapes_held(devices: &dyn DeviceHost, library: &TapeAddress) -> Result<Vec<Held>> {
    let held = devices.inventory(&library.library).map_err(DeviceError::from)?;
    Ok(held.into_iter().filter(|tape| !tape.is_cleaning()).collect())
}
