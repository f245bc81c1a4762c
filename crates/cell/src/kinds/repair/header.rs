//! The header file of a medium in a directory, written anew where it is damaged or missing: from what the segments repeat of it,
//! and from the database.

use capstan_address::{Address, StoreAddress};
use capstan_engine::message::{Code, shell_word};
use capstan_format::record::{MediumHeader, Protection};
use capstan_idb::{Medium, Status};
use capstan_medium::host::stores::LostHeader;
use capstan_medium::names::HEADER_NAME;

use super::{REPAIR, RepairRequest, close, refuse_itself, report_of};
use crate::Cell;
use crate::error::{CellError, RepairRefusal, Result};
use crate::media::{is_place_here, shown};
use crate::report::Report;
use crate::session::SessionLog;

/// What was done about a header file.
pub(super) enum HeaderMended {
    /// There was nothing to do.
    Nothing,
    /// It was written anew.
    File,
    /// The same, or it was only to be said; and nothing else can be done: the medium is not this cell's, or not known.
    All(Box<Report>),
}

impl Cell {
    /// Mends the header file of the medium that is named, if that is a directory and the file is damaged or missing.
    pub(super) fn mend_header(
        &self,
        request: &RepairRequest,
        from: Option<&Medium>,
        started_us: i64,
        log: &SessionLog<'_>,
    ) -> Result<HeaderMended> {
        let Some(store) = self.store_of(&request.medium)? else {
            return Ok(HeaderMended::Nothing);
        };
        let Some(lost) = self.devices.lost_header(&store)? else {
            return Ok(HeaderMended::Nothing);
        };
        let (header, row) = self.header_of(&store, &lost)?;
        // What else is refused is refused before that.
        refuse_itself(from, header.medium, &header.label)?;
        if let Some(row) = &row {
            self.refuse_retired(row.id, &row.label)?;
            let there = self.devices.medium_of(&store, header.clone())?;
            self.changed_to_mend(&store.clone().into(), &there, request.as_it_is)?;
        }
        let file = format!("{}/{HEADER_NAME}", store.shown());
        let name = shown(header.medium, &header.label);
        let mut report = report_of(self.host(), &header.label, started_us, request.dry_run);
        if request.dry_run {
            let text = format!("{file} would be written anew, as of {name}: {}", lost.problem);
            report.notes.push(text);
            close(&*self.devices, &mut report, Status::Completed, log);
            return Ok(HeaderMended::All(Box::new(report)));
        }
        self.devices.rewrite_header(&store, &header)?;
        let text = format!("it was written anew, as of {name}; it was damaged: {}", lost.problem);
        log.say(Code::Repaired, "media agent", &file, text);
        let next = match (self.other_cell(&header)?, row) {
            (None, Some(_)) => return Ok(HeaderMended::File),
            (Some(_), _) => format!(
                "{name} belongs to another cell, so nothing else is done to it; `capstan import {0}` reads what it has, `capstan \
                 media adopt {0}` makes it one of this cell",
                shell_word(store.shown())
            ),
            (None, None) => format!(
                "{name} is not known here; `capstan import {}` records what it has",
                shell_word(store.shown())
            ),
        };
        report.notes.extend([format!("{file} was written anew"), next]);
        close(&*self.devices, &mut report, Status::Completed, log);
        self.record(&mut report, REPAIR, started_us, Status::Completed)?;
        Ok(HeaderMended::All(Box::new(report)))
    }

    /// The store that somebody names: as such, or by the medium that is known to be in it.
    fn store_of(&self, text: &str) -> Result<Option<StoreAddress>> {
        let address = match self.known_medium(text)? {
            Some(known) => Some(known.device),
            None => text.parse().ok(),
        };
        let store = address.as_ref().and_then(Address::as_store);
        Ok(store.filter(|store| self.devices.is_there(store)).cloned())
    }

    /// The header that the medium in a store had, and what the database has of that medium. Refused where nothing says which
    /// medium it is, or where what says so is not of one mind.
    fn header_of(
        &self,
        store: &StoreAddress,
        lost: &LostHeader,
    ) -> Result<(MediumHeader, Option<Medium>)> {
        if lost.headers.iter().any(MediumHeader::is_array) {
            return Err(RepairRefusal::MemberOfArray(store.shown()).into());
        }
        let place = Address::from(store.recorded());
        let is_there = |row: &Medium| row.device == place && is_place_here(&self.idb, row);
        let known: Vec<Medium> = self.idb.media()?.into_iter().filter(is_there).collect();
        let mut fitting = Vec::new();
        for row in &known {
            let header = self.header_by(row, lost)?;
            if self.fits(store, row, &header, lost)? {
                fitting.push((header, row.clone()));
            }
        }
        let mut ids: Vec<_> = lost.headers.iter().map(|h| h.medium).collect();
        ids.dedup();
        match (fitting.len(), ids.as_slice()) {
            (1, _) => {}
            // Nothing is known of that place: the segments alone say it, as of a disk that came from elsewhere.
            (0, [id]) if known.is_empty() => {
                let row = self.idb.medium(*id)?;
                let last = lost.headers.iter().rfind(|h| h.medium == *id);
                let header = match (&row, last) {
                    (Some(row), _) => self.header_by(row, lost)?,
                    (None, Some(last)) => {
                        MediumHeader { protection: Protection::None, ..last.clone() }
                    }
                    (None, None) => return Err(no_header(store, lost)),
                };
                return Ok((header, row));
            }
            (0, []) => return Err(no_header(store, lost)),
            _ => return Err(contradiction(store, &known, lost)),
        }
        let found = fitting.pop().map(|(header, row)| (header, Some(row)));
        found.ok_or_else(|| no_header(store, lost))
    }

    /// The header of a medium that the database knows, with what only its segments say.
    fn header_by(&self, row: &Medium, lost: &LostHeader) -> Result<MediumHeader> {
        let own = lost.headers.iter().rfind(|h| h.medium == row.id);
        let base = match own.or(lost.headers.last()) {
            Some(base) => base.clone(),
            None => self
                .new_medium(&row.label, row.block_size)
                .map_err(CellError::io("read", "/dev/urandom"))?,
        };
        let other = self.idb.management(row.id)?.other_cell.and_then(|cell| cell.parse().ok());
        // A cell that adopted it wrote what nobody knows here. What is recorded here may be older than an adoption of ours.
        let recorded = self.recorded_on(row.id)?;
        let is_news = lost.newest.is_some_and(|number| !recorded.contains(&number));
        let said = own.and_then(|header| header.cell).filter(|_| is_news);
        let other = said.or(other).filter(|cell| *cell != self.id());
        Ok(MediumHeader {
            medium: row.id,
            // Its own cell calls it as it says itself.
            label: if other.is_some() { base.label.clone() } else { row.label.clone() },
            block_size: row.block_size,
            created_us: row.created_us,
            protection: Protection::None,
            cell: Some(other.unwrap_or(self.id())),
            ..base
        })
    }

    /// Whether what lies in a store is the medium of that row.
    fn fits(
        &self,
        store: &StoreAddress,
        row: &Medium,
        header: &MediumHeader,
        lost: &LostHeader,
    ) -> Result<bool> {
        if lost.headers.iter().all(|h| h.medium == row.id) && !lost.headers.is_empty() {
            return Ok(true);
        }
        // It got its identity after these segments were written, or none of them says what it is: then those that are recorded
        // of it have to be there.
        let has_some = self.idb.last_segment_number(row.id)?.is_some();
        if !has_some || lost.segments == 0 {
            return Ok(!has_some && lost.segments == 0);
        }
        let there = self.devices.medium_of(store, header.clone())?;
        Ok(self.difference(&store.clone().into(), &there)?.is_none())
    }
}

fn no_header(store: &StoreAddress, lost: &LostHeader) -> CellError {
    RepairRefusal::UnknownHeader { path: store.shown(), segments: lost.segments }.into()
}

fn contradiction(store: &StoreAddress, known: &[Medium], lost: &LostHeader) -> CellError {
    let mut of_segments: Vec<String> =
        lost.headers.iter().map(|h| shown(h.medium, &h.label)).collect();
    of_segments.dedup();
    let known: Vec<String> = known.iter().map(|row| shown(row.id, &row.label)).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    RepairRefusal::UncertainHeader {
        path: store.shown(),
        of_segments: of_segments.join(", "),
        known,
    }
    .into()
}
