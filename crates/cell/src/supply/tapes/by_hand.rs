//! Tapes of drives that stand alone: looked at before they are written, and asked for where they will not do.

use capstan_address::{Address, LibraryName, TapeAddress};
use capstan_engine::problem::Problem;
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_idb::Medium;
use capstan_medium::DeviceError;
use capstan_medium::host::operator::Refused;
use capstan_medium::tape::TapeError;

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{CellError, Result, SupplyRefusal, chain};
use crate::media::shown;
use crate::request::Turn;
use crate::supply::pools::queue::{OUT_OF_REACH, Queue};
use crate::supply::pools::usable::unusable;
use crate::supply::unfit::{PassedOver, why_passed};

/// Which tapes a session takes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    /// Those of this pool only.
    pub pool: Option<String>,
    /// None of these, as they are full or failed.
    pub passed: Vec<PassedOver>,
    /// Where a library has none that will do, somebody is asked for one.
    pub asks: bool,
}

impl Choice {
    /// Any but these.
    pub fn but(passed: &[PassedOver]) -> Self {
        Self { passed: passed.to_vec(), ..Self::default() }
    }

    pub fn wanted(&self) -> String {
        match &self.pool {
            Some(pool) => format!("a tape of pool {pool} that takes more"),
            None => "a blank tape, or one of this cell that takes more".to_owned(),
        }
    }
}

impl Cell {
    /// Opens what somebody puts into a drive that stands alone, once it can be written.
    pub(crate) fn open_by_hand<T>(
        &self,
        drive: &TapeAddress,
        choice: &Choice,
        open: &mut dyn FnMut() -> Result<T>,
    ) -> Result<T> {
        let name = drive.library.to_string();
        self.devices.operator().insist(&name, &choice.wanted(), &mut || {
            let refused = match self.unfit_in(drive, choice) {
                Ok(None) => match open() {
                    Ok(opened) => return Ok(opened),
                    Err(e) => refused(e),
                },
                Ok(Some(why)) => Refused::Other(
                    SupplyRefusal::UnfitTapeInDrive {
                        drive: name.clone(),
                        why: why.clone(),
                        wanted: choice.wanted(),
                    }
                    .into(),
                    why,
                ),
                Err(e) => refused(e),
            };
            if let Refused::Other(..) = refused
                && self.has_operator()
                && let Err(e) = self.devices.eject(drive)
            {
                return Err(Refused::Failed(DeviceError::from(e).into()));
            }
            Err(refused)
        })
    }

    /// Opens what some libraries have to be written to; where no tape of them takes more, once somebody brings one that is `wanted`.
    pub(crate) fn open_when_brought<T>(
        &self,
        libraries: &[LibraryName],
        wanted: &str,
        open: &mut dyn FnMut() -> Result<T>,
    ) -> Result<T> {
        if libraries.is_empty() {
            return open();
        }
        let names: Vec<String> = libraries.iter().map(ToString::to_string).collect();
        let mut refused: Option<(Stock, Lacks)> = None;
        self.devices.operator().insist_on_library(&names.join(", "), wanted, &mut || {
            // As long as nobody brought anything it is not looked at again.
            if let (Some((before, lacks)), Some(stock)) = (&refused, self.stock(libraries, false))
                && *before == stock
            {
                return Err(Refused::Empty(lacks.error()));
            }
            // As it is before it is looked at: what comes meanwhile may be passed over.
            let stock = self.stock(libraries, true);
            open().map_err(|e| {
                let lacks = match &e {
                    CellError::NoTape(why) => Lacks(CellError::NoTape, why.clone()),
                    CellError::NoMedium(why) => Lacks(CellError::NoMedium, why.clone()),
                    _ => return Refused::Failed(e),
                };
                refused = stock.map(|stock| (stock, lacks));
                Refused::Empty(e)
            })
        })
    }

    /// Which tapes are in libraries, wherever there, and which of their media may be written by record: where neither has changed, nothing
    /// new is to be found. Nothing where a library does not say.
    fn stock(&self, libraries: &[LibraryName], now: bool) -> Option<Stock> {
        let look = |library: &LibraryName| match now {
            true => self.devices.inventory_now(library),
            false => self.devices.inventory(library),
        };
        let tapes_in = |library| {
            let mut tapes: Vec<_> =
                look(library).ok()?.into_iter().map(|held| held.barcode).collect();
            tapes.sort();
            Some(tapes)
        };
        let held: Option<Vec<_>> = libraries.iter().map(tapes_in).collect();
        let names: Vec<LibraryName> = libraries.iter().map(LibraryName::resolved).collect();
        let mut out = Vec::new();
        for medium in self.idb.media().ok()? {
            let device = &medium.device;
            if device.tapes().iter().any(|tape| names.contains(&tape.recorded().library)) {
                let management = self.idb.management(medium.id).ok()?;
                out.push((medium.id, management.exported_us, management.full_us, management.pool));
            }
        }
        Some(Stock { held: held?, media: out })
    }

    /// A medium of a pool to be written, none of those that were `passed` over; where none takes more, once somebody brings one. It is
    /// the first of so many.
    pub(crate) fn allocate_or_wait(
        &self,
        pool: &str,
        turn: Turn,
        by_drive: ByDrive,
        passed: &mut Vec<PassedOver>,
        queue: &mut Queue,
        count: usize,
    ) -> Result<Medium> {
        let libraries = self.libraries_to_fill(pool)?;
        let wanted = self.wanted_of_pool(pool, turn)?;
        let mut looked = false;
        self.open_when_brought(&libraries, &wanted, &mut || {
            // It may be what was brought.
            if std::mem::replace(&mut looked, true) {
                passed.retain(|(_, why)| why.what != OUT_OF_REACH);
            }
            loop {
                let enough = self.refuse_to_end_early(pool, turn, by_drive, passed, count);
                match enough.and_then(|()| self.allocate(pool, turn, by_drive, passed, false)) {
                    Err(e) => queue.again(e, passed)?,
                    Ok(medium) => {
                        queue.tries_one();
                        return Ok(medium);
                    }
                }
            }
        })
    }

    /// What somebody is asked for who may bring a tape of a pool: with those that are out of the house and would take more, or whose turn
    /// comes in the rotation set that is written.
    fn wanted_of_pool(&self, pool: &str, turn: Turn) -> Result<String> {
        if !self.has_operator() {
            return Ok(String::new());
        }
        let mut out = Vec::new();
        let row = self.pool(pool)?;
        let next = match turn.set(&row) {
            Some(set) => {
                let turns = self.turns_of_set(&row, Some(set))?;
                Some(turns.next.into_iter().take(turns.a_night).collect::<Vec<_>>())
            }
            None => None,
        };
        for info in self.media_list(Some(pool))? {
            let m = &info.management;
            let takes_more = match &next {
                Some(next) => next.contains(&info.medium.id),
                None => m.full_us.is_none() && m.damaged_us.is_none() && m.retired_us.is_none(),
            };
            // All tapes of an array are written.
            let mut tapes = self.tapes_of(info.medium.id);
            tapes.retain(|tape| takes_more && tape.tape.is_some() && !self.is_tape_here(tape));
            for tape in tapes {
                out.push(self.name_of_tape(info.medium.id, &tape.to_string())?);
            }
        }
        let choice = Choice { pool: Some(pool.to_owned()), ..Choice::default() };
        let blank = if row.scratch { ", or a blank one" } else { "" };
        let away = match out.is_empty() {
            true => String::new(),
            false => format!("; of those that are away these may: {}", out.join("; ")),
        };
        Ok(format!("{}{blank}{away}", choice.wanted()))
    }

    /// Why what is in the drive cannot be written, as far as its header and the database tell.
    fn unfit_in(&self, drive: &TapeAddress, choice: &Choice) -> Result<Option<String>> {
        let header = match self.devices.medium(&Address::from(drive.clone())) {
            Ok(there) => there.header().clone(),
            Err(DeviceError::NoMedium(_)) => {
                let pool = choice.pool.as_ref();
                return Ok(pool.map(|pool| {
                    format!("the tape in it is blank and not in pool {pool}; `capstan media init` puts it there")
                }));
            }
            Err(e) if matches!(e.of_tape(), Some(TapeError::NoTape { .. })) => return Err(e.into()),
            // Whoever opens it to write says what is wrong.
            Err(_) => return Ok(None),
        };
        self.unfit(&header, choice)
    }

    fn unfit(&self, header: &MediumHeader, choice: &Choice) -> Result<Option<String>> {
        let name = shown(header.medium, &header.label);
        if let Some(why) = why_passed(&choice.passed, header.medium) {
            return Ok(Some(format!("{name} is in it, which {why}")));
        }
        if let Some(pool) = &choice.pool
            && self.idb.management(header.medium)?.pool.as_ref() != Some(pool)
        {
            return Ok(Some(format!("{name} is in it, which is not in pool {pool}")));
        }
        let Some(row) = self.idb.medium(header.medium)? else { return Ok(None) };
        let why = unusable(&self.medium_info(&row)?);
        Ok(why.map(|why| format!("{name} is in it, which {why}")))
    }

    /// What the next tape without a sticker is called.
    pub(crate) fn next_label(&self) -> Result<String> {
        let media = self.idb.media()?;
        let is_free = |label: &String| media.iter().all(|medium| medium.label != *label);
        Ok((1..).map(|n: u32| format!("tape-{n:04}")).find(is_free).unwrap_or_default())
    }
}

/// What a session finds that looks for a tape to write.
#[derive(PartialEq)]
struct Stock {
    /// Barcodes, by library.
    held: Vec<Vec<String>>,
    /// Media with the times at which they were exported and were full, and their pools.
    media: Vec<(MediumId, Option<i64>, Option<i64>, Option<String>)>,
}

/// Why no tape will do, to be said again.
struct Lacks(fn(Problem) -> CellError, Problem);

impl Lacks {
    fn error(&self) -> CellError {
        (self.0)(self.1.clone())
    }
}

/// What an error of opening to write means for who puts in tapes.
fn refused(error: CellError) -> Refused<CellError> {
    let why = match &error {
        e if e.refusal().is_some() => e.to_string(),
        CellError::Changed(why) => why.to_string(),
        CellError::Away { text, .. } => text.to_string(),
        CellError::Device(e) => match e {
            e if matches!(e.of_tape(), Some(TapeError::NoTape { .. })) => {
                return Refused::Empty(error);
            }
            DeviceError::NotOurs(_) => "the tape in it is not blank and not of Capstan".to_owned(),
            DeviceError::Tape(TapeError::WriteProtected { .. }) => {
                "the tape in it is write-protected".to_owned()
            }
            DeviceError::BlockSize { .. }
            | DeviceError::Medium { .. }
            | DeviceError::HeaderLost { .. }
            | DeviceError::ArrayMember { .. } => chain(e),
            e if e.of_tape().is_some_and(TapeError::blames_tape) => chain(e),
            _ => return Refused::Failed(error),
        },
        _ => return Refused::Failed(error),
    };
    Refused::Other(error, why)
}
