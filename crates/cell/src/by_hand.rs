//! Tapes of drives that stand alone: looked at before they are written, and asked for where they will not do.

use capstan_devices::address::{Address, TapeAddress};
use capstan_devices::operator::{self, Refused};
use capstan_devices::tape::eject;
use capstan_devices::{DeviceError, open};
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_tape::TapeError;
use capstan_tape::changer::Held;

use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::media::{shown, unusable};

/// Which tapes a session takes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    /// Those of this pool only.
    pub pool: Option<String>,
    /// None of these, as they are full or failed.
    pub passed: Vec<MediumId>,
    /// Where a library has none that will do, somebody is asked for one.
    pub asks: bool,
}

impl Choice {
    /// Any but these.
    pub fn but(passed: &[MediumId]) -> Self {
        Self { passed: passed.to_vec(), ..Self::default() }
    }

    fn wanted(&self) -> String {
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
        operator::insist(&name, &choice.wanted(), &mut || {
            let refused = match self.unfit_in(drive, choice) {
                Ok(None) => match open() {
                    Ok(opened) => return Ok(opened),
                    Err(e) => refused(e),
                },
                Ok(Some(why)) => {
                    let text = format!(
                        "{name}: {why}; put in {}, and run it again on a terminal or with CAPSTAN_TAPE_WAIT to be asked \
                         for it",
                        choice.wanted()
                    );
                    Refused::Other(CellError::BadInput(text), why)
                }
                Err(e) => refused(e),
            };
            if let Refused::Other(..) = refused
                && operator::is_there()
                && let Err(e) = eject(drive)
            {
                return Err(Refused::Failed(DeviceError::from(e).into()));
            }
            Err(refused)
        })
    }

    /// Opens what a library has to be written to; where no tape of it takes more, once somebody brings one.
    pub(crate) fn open_when_brought<T>(
        &self,
        library: &TapeAddress,
        choice: &Choice,
        open: &mut dyn FnMut() -> Result<T>,
    ) -> Result<T> {
        let name = library.library.to_string();
        let mut refused: Option<(Vec<Held>, String)> = None;
        operator::insist_on_library(&name, &choice.wanted(), &mut || {
            let held = capstan_devices::tape::inventory(&library.library).ok();
            // As long as nobody brought anything it is not looked at again.
            if let (Some((before, why)), Some(held)) = (&refused, &held)
                && before == held
            {
                return Err(Refused::Empty(CellError::NoTape(why.clone())));
            }
            open().map_err(|e| match e {
                CellError::NoTape(why) => {
                    // Tapes were moved to look at them.
                    let held = capstan_devices::tape::inventory_now(&library.library);
                    refused = held.ok().map(|held| (held, why.clone()));
                    Refused::Empty(CellError::NoTape(why))
                }
                e => Refused::Failed(e),
            })
        })
    }

    /// Why what is in the drive cannot be written, as far as its header and the database tell.
    fn unfit_in(&self, drive: &TapeAddress, choice: &Choice) -> Result<Option<String>> {
        let header = match open::medium(&Address::Tape(drive.clone())) {
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
        if choice.passed.contains(&header.medium) {
            return Ok(Some(format!("{name} is in it, which takes no more of this session")));
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

/// What an error of opening to write means for who puts in tapes.
fn refused(error: CellError) -> Refused<CellError> {
    let why = match &error {
        CellError::BadInput(why) | CellError::Changed(why) => why.clone(),
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
