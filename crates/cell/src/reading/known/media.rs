//! The media of a version: opened once, asked whether they are at hand, and named in the report as they were read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use capstan_address::{Address, TapeAddress};
use capstan_engine::frames::Place;
use capstan_engine::message::shell_word;
use capstan_engine::problem::{Explain, Problem};
use capstan_format::id::{MediumId, SegmentId};
use capstan_idb::Idb;
use capstan_medium::host::DeviceHost;
use capstan_medium::os_errors::is_far;
use capstan_medium::tape::TapeError;
use capstan_medium::{DeviceError, OpenMedium};
use capstan_port::media::MediaAgent;
use capstan_port::media::read::error::ReadError;
use capstan_port::media::read::segment::ReadSegment;
use parking_lot::Mutex;

use crate::Cell;
use crate::error::{CellError, Damage, MediumRefusal, Result, plain};
use crate::media::{at_other_host, lacking_tapes, recall};
use crate::reading::unread::{not_now, of_way};
use crate::session::lease::Reading;
use crate::session::{SessionLog, now_us};

/// Of a segment, a place that could not give all, and the place that gave what it lacks.
#[derive(Debug)]
pub(crate) struct Stood {
    pub(in crate::reading) segment: SegmentId,
    pub(in crate::reading) first: Place,
    pub(in crate::reading) used: Place,
    pub(in crate::reading) why: String,
    pub(in crate::reading) frames: u64,
}

/// The media of a version that is read, each opened once, and what became of them.
pub(crate) struct OpenMedia<'a> {
    pub(in crate::reading) cell: &'a Cell,
    pub(crate) idb: &'a Idb,
    open: Mutex<HashMap<MediumId, OpenMedium>>,
    /// Media that others have, and why they were given up.
    pub(crate) in_use: Mutex<HashMap<MediumId, Problem>>,
    /// What was read elsewhere than where it was looked for first.
    pub(crate) replicas: Mutex<Vec<Stood>>,
    /// Segments of which names are lost: no place at hand has all of them.
    pub(in crate::reading) poor: Mutex<Vec<SegmentId>>,
    /// Segments, copies as well, of which not all names can be read where they were read to their end.
    pub(in crate::reading) poor_there: Mutex<HashSet<SegmentId>>,
    /// Places at which damage was found, and recorded.
    hurt: Mutex<Vec<Place>>,
    /// Segments of which a frame was damaged in the place that comes first.
    pub(crate) hurt_segments: Mutex<HashSet<u32>>,
    /// What media lack that are not as they were last written.
    lacking: Mutex<HashMap<MediumId, HashSet<SegmentId>>>,
    /// Media that segments were opened on, in that order.
    used: Mutex<Vec<MediumId>>,
    /// Nothing of the version is removed meanwhile.
    _reading: Option<Reading>,
}

impl<'a> OpenMedia<'a> {
    /// None yet.
    pub fn of(cell: &'a Cell) -> Self {
        Self {
            cell,
            idb: &cell.idb,
            open: Mutex::default(),
            in_use: Mutex::default(),
            replicas: Mutex::default(),
            poor: Mutex::default(),
            poor_there: Mutex::default(),
            hurt: Mutex::default(),
            hurt_segments: Mutex::default(),
            lacking: Mutex::default(),
            used: Mutex::default(),
            _reading: None,
        }
    }

    /// None yet; the version is held as long as this is there.
    pub fn held(cell: &'a Cell, reading: Reading) -> Self {
        Self { _reading: Some(reading), ..Self::of(cell) }
    }
}

impl OpenMedia<'_> {
    /// The medium, opened once.
    pub fn medium(&self, id: MediumId) -> Result<OpenMedium> {
        let mut media = self.open.lock();
        if let Some(medium) = media.get(&id) {
            return Ok(medium.clone());
        }
        let row = self.idb.medium(id)?;
        let row = row.ok_or(MediumRefusal::UnknownId(id))?;
        let address = &row.device;
        let medium = self.cell.open_known(&row, address)?;
        self.cell.open_drive_key(medium.header())?;
        recall(self.idb, address, &medium)?;
        media.insert(id, medium.clone());
        Ok(medium)
    }

    /// The same; one that others had for as long as it was waited for is not waited for again.
    pub fn medium_once(&self, id: MediumId) -> Result<OpenMedium> {
        if let Some(why) = self.in_use.lock().get(&id) {
            return Err(CellError::InUse(why.clone()));
        }
        self.medium(id).inspect_err(|e| {
            if e.is_busy() {
                self.in_use.lock().insert(id, e.problem());
            }
        })
    }

    /// Who reads the media.
    pub(crate) fn agent(&self) -> &dyn MediaAgent {
        &*self.cell.agents.media
    }

    /// Opens a segment that is recorded of a medium. Where it is not there, the error says what became of the medium, and what can be
    /// done.
    pub(crate) fn open_segment(
        &self,
        there: &OpenMedium,
        (segment, id, number): Place,
    ) -> Result<Arc<dyn ReadSegment>> {
        let e = match self.cell.read_segment(there, number) {
            Ok(reader) => return Ok(reader),
            Err(e) => e,
        };
        let Some(row) = self.idb.medium(id)?.filter(|_| is_not_there(&e)) else {
            return Err(self.unread(id, e));
        };
        Err(self.cell.segment_gone(there, &row, (segment, number)))
    }

    /// Notes that a segment was opened on a medium.
    pub(crate) fn note_used(&self, medium: MediumId) {
        let mut used = self.used.lock();
        if !used.contains(&medium) {
            used.push(medium);
        }
    }

    /// Whether a segment was opened on a medium.
    pub(crate) fn was_used(&self, medium: MediumId) -> bool {
        self.used.lock().contains(&medium)
    }

    /// Labels of the media that segments were opened on, as it came to them.
    pub fn used_media(&self) -> Vec<String> {
        self.names_of_media(&self.used.lock())
    }

    fn names_of_media(&self, media: &[MediumId]) -> Vec<String> {
        let mut labels: Vec<String> = Vec::new();
        let mut last = None;
        for medium in media.iter().filter(|id| last.replace(**id) != Some(**id)) {
            let label = self.idb.medium(*medium).ok().flatten().map(|m| m.label);
            let label = label.unwrap_or_else(|| medium.short());
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        labels
    }

    /// Says what had to be made up for on the media that were read.
    pub fn say_problems(&self, log: &SessionLog<'_>) {
        self.open.lock().values().for_each(|medium| {
            Cell::say_problems(medium, log);
        });
    }

    /// Whether a medium is read from begin to end best, as tapes are.
    pub fn is_sequential(&self, id: MediumId) -> Result<bool> {
        let device = self.idb.medium(id)?.map(|row| row.device);
        Ok(device.is_some_and(|device| device.is_sequential()))
    }

    /// Records of a segment and its medium that damage was found there: whoever reads it, whatever for.
    pub fn note_damage(&self, at: Place) {
        let (segment, medium, _) = at;
        if self.hurt.lock().contains(&at) {
            return;
        }
        self.hurt.lock().push(at);
        let note = || -> Result<()> {
            let there = self.medium(medium)?;
            // Where that cannot be found out, it is damage.
            if !matches!(self.lacks_as_changed(&there, segment), Ok(true)) {
                self.idb.put_damage(medium, &[segment], now_us())?;
            }
            self.cell.note_changed_known(&there).map(drop)
        };
        if note().is_err() {
            // It is found again by who reads it next.
            self.hurt.lock().retain(|of| *of != at);
        }
    }

    /// Whether a segment lacks on a directory that is not as it was last written.
    fn lacks_as_changed(&self, there: &OpenMedium, segment: SegmentId) -> Result<bool> {
        let id = there.header().medium;
        if let Some(lacking) = self.lacking.lock().get(&id) {
            return Ok(lacking.contains(&segment));
        }
        let lacking = self.cell.lacking_as_changed(there)?;
        let lacks = lacking.contains(&segment);
        self.lacking.lock().insert(id, lacking);
        Ok(lacks)
    }

    /// Whether a medium is on tape, and can be expected to come when it is needed.
    pub(in crate::reading) fn is_tape_to_be_had(&self, medium: MediumId) -> Result<bool> {
        let device = self.idb.medium(medium)?.map(|row| row.device);
        match device {
            Some(address) if address.is_sequential() => self.cell.is_to_be_had(&address),
            _ => Ok(false),
        }
    }

    /// Whether a medium is on tapes that are not in their libraries, and somebody is there to bring them.
    pub(in crate::reading) fn is_to_be_brought(&self, medium: MediumId) -> Result<bool> {
        Ok(self.cell.has_operator() && !self.cell.tapes_away(medium)?.is_empty())
    }
}

impl OpenMedia<'_> {
    /// The error for what could not be read of a medium: as it is; or, where the way to the medium failed, that this is all.
    pub(crate) fn unread(&self, medium: MediumId, e: ReadError) -> CellError {
        match of_way(&e) {
            Some(why) => not_now(self.idb, medium, &why),
            None => e.into(),
        }
    }

    /// The same, of an error that may have come from reading.
    pub(crate) fn unread_or(&self, medium: MediumId, e: CellError) -> CellError {
        match e {
            CellError::Read(e) => self.unread(medium, e),
            e => e,
        }
    }

    /// The same, of what was read at a place; what is damaged there is recorded.
    pub(crate) fn note_unread(&self, at: Place, e: ReadError) -> CellError {
        if of_way(&e).is_none() {
            self.note_damage(at);
        }
        self.unread(at.1, e)
    }
}

/// Whether a segment is not where it was listed or recorded.
fn is_not_there(e: &ReadError) -> bool {
    match e {
        ReadError::Device(e @ DeviceError::Io { source, .. }) => {
            let beyond = matches!(e.of_tape(), Some(TapeError::BeyondEnd { .. }));
            beyond || source.kind() == std::io::ErrorKind::NotFound
        }
        ReadError::Device(DeviceError::Tape(TapeError::BeyondEnd { .. })) => true,
        _ => false,
    }
}

/// What brings tapes of a drive that stands alone.
const PUT_IN: &str = "put in the one that is wanted first, and run it again on a terminal, or with CAPSTAN_TAPE_WAIT (as 8h), to be asked for \
                      each that it needs";

/// Whether a medium is a tape that somebody puts into a drive that stands alone.
fn is_put_in(devices: &dyn DeviceHost, medium: &capstan_idb::Medium) -> bool {
    match &medium.device {
        Address::Tape(tape) if tape.tape.is_none() => devices.is_by_hand(tape).unwrap_or(false),
        _ => false,
    }
}

/// The error for a medium that cannot be opened where it was last seen.
pub(crate) fn not_there(cell: &Cell, e: DeviceError, medium: &capstan_idb::Medium) -> CellError {
    if let Some(e) = elsewhere(&cell.idb, medium) {
        return e;
    }
    if let Some(e) = out_of_reach(&*cell.devices, &e, medium) {
        return e;
    }
    if e.blames_medium() {
        return cell.unreadable(medium, &e);
    }
    // That is seen from outside, without a mark.
    if let DeviceError::HeaderLost { .. } = &e {
        return CellError::Unreadable { medium: medium.id, text: e.problem() };
    }
    let why = match &e {
        DeviceError::Io { source, .. } => plain(source),
        DeviceError::NoMedium(_) => "no medium is there".to_owned(),
        _ => return e.into(),
    };
    let (label, id, device) = (&medium.label, medium.id.short(), &medium.device);
    let is_missing = matches!(
        &e,
        DeviceError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound
    );
    let text = format!("cannot read medium '{label}' ({id}) in {device}: {why}");
    match e.of_tape() {
        Some(tape) if tape.is_busy() => CellError::InUse(text.into()),
        // Its file is none of a tape.
        Some(tape) if tape.blames_tape() => {
            let (label, device) = (label.clone(), device.clone());
            Damage::NotATape { label, id, device, why }.into()
        }
        Some(tape) if tape.spares_tape() || matches!(tape, TapeError::Robot { .. }) => {
            not_now(&cell.idb, medium.id, &why)
        }
        of_tape => {
            let way = match is_put_in(&*cell.devices, medium) {
                true => PUT_IN,
                false => "mount it there, or import it from where it is now",
            };
            let is_away = match &e {
                // A tape on which nothing is was erased.
                DeviceError::NoMedium(_) => device.is_on_stores(),
                _ => is_missing || of_tape.is_some_and(TapeError::is_away),
            };
            match is_away {
                true => {
                    let why = format!("which is not in {device}: {why}");
                    CellError::Away { medium: medium.id, why, text: Problem::new(text).hint(way) }
                }
                false => {
                    let (label, device) = (label.clone(), device.clone());
                    Damage::MediumNotRead { label, id, device, why, way }.into()
                }
            }
        }
    }
}

/// The error for a medium whose library or directory cannot be reached, if it is that: of what is on it that tells nothing.
fn out_of_reach(
    devices: &dyn DeviceHost,
    e: &DeviceError,
    medium: &capstan_idb::Medium,
) -> Option<CellError> {
    if e.is_busy() || e.of_tape().is_some_and(TapeError::is_away) {
        return None;
    }
    let address = &medium.device;
    let why = match e {
        DeviceError::Io { source, .. } if e.of_tape().is_none() && is_far(source) => plain(source),
        DeviceError::HostLost(why) => why.sentence.clone(),
        _ if address.is_sequential() => lacking_tapes(devices, address).0?.sentence,
        _ => return None,
    };
    // What can be done is said below: to make a new library is no help.
    let (label, id, device) = (&medium.label, medium.id.short(), &medium.device);
    let text = Problem::new(format!("cannot reach medium '{label}' ({id}) in {device}: {why}"))
        .hint("make it reachable there, or import it from where it is now");
    Some(CellError::Away {
        medium: medium.id,
        why: format!("which cannot be reached: {why}"),
        text,
    })
}

/// The error for a place at which another medium is.
pub(crate) fn another(cell: &Cell, found: MediumId, medium: &capstan_idb::Medium) -> CellError {
    elsewhere(&cell.idb, medium).unwrap_or_else(|| {
        let text = Problem::new(format!(
            "{} holds medium {}, not {} ({})",
            medium.device,
            found.short(),
            medium.id.short(),
            medium.label
        ))
        .hint(match is_put_in(&*cell.devices, medium) {
            true => PUT_IN,
            false => "mount the right one there, or import it from where it is",
        });
        let why = format!("which is not in {}: medium {} is", medium.device, found.short());
        CellError::Away { medium: medium.id, why, text }
    })
}

/// The error for a medium of which it is known why it is not here.
fn elsewhere(idb: &Idb, medium: &capstan_idb::Medium) -> Option<CellError> {
    exported(idb, medium).or_else(|| at_other_host(idb, medium))
}

/// Refuses a medium that is recorded as out of the house.
pub(crate) fn refuse_exported(idb: &Idb, medium: &capstan_idb::Medium) -> Result<()> {
    exported(idb, medium).map_or(Ok(()), Err)
}

/// The error for all of these media: who goes for one of them brings the others, too.
pub(crate) fn all_away(cell: &Cell, away: Vec<CellError>) -> Option<CellError> {
    let idb = &cell.idb;
    let mut all_put_in = true;
    let names: Option<Vec<String>> = away
        .iter()
        .map(|e| match e {
            CellError::Away { medium, why, .. } => {
                let row = idb.medium(*medium).ok()?;
                all_put_in &= row.as_ref().is_some_and(|row| is_put_in(&*cell.devices, row))
                    && crate::media::exported(idb, *medium).ok().flatten().is_none();
                let label = row.map_or_else(|| medium.short(), |m| m.label);
                Some(format!("'{label}', {why}"))
            }
            _ => None,
        })
        .collect();
    let first = away.into_iter().next()?;
    match (first, names) {
        (CellError::Away { medium, why, .. }, Some(names)) if names.len() > 1 => {
            let way = match all_put_in {
                true => PUT_IN,
                false => {
                    "bring them all, then `capstan library import` the tapes and `capstan media import` the others"
                }
            };
            let sentence = format!(
                "{} media are wanted and are not at hand: {}",
                names.len(),
                names.join("; ")
            );
            let text = Problem::new(sentence).hint(way);
            Some(CellError::Away { medium, why, text })
        }
        (first, _) => Some(first),
    }
}

/// The error for a medium that is recorded as out of the house.
fn exported(idb: &Idb, medium: &capstan_idb::Medium) -> Option<CellError> {
    let where_to = crate::media::exported(idb, medium.id).ok().flatten()?;
    let back = match &medium.device {
        Address::Tape(TapeAddress { library, tape: Some(barcode), .. }) => format!(
            "`capstan library import {}`; in a library of another name `capstan import 'LIBRARY?tape={barcode}'`",
            shell_word(library.to_string())
        ),
        array @ Address::Array(_) if array.tapes().iter().any(|tape| tape.tape.is_some()) => {
            "`capstan library import` its tapes".to_owned()
        }
        _ => "`capstan media import` it from where it is".to_owned(),
    };
    let text =
        Problem::new(format!("medium '{}' ({}) {where_to}", medium.label, medium.id.short()))
            .hint(format!("bring it back, then {back}"));
    Some(CellError::Away { medium: medium.id, why: format!("which {where_to}"), text })
}
