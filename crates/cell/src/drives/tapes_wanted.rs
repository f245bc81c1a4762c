//! Drives without a robot that wait for a tape: on record while they do, so that whoever has the tapes sees which is wanted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use capstan_address::Address;
use capstan_idb::{Medium, SessionsOf, Status, TapeRequest};
use capstan_medium::host::operator::Board;
use parking_lot::Mutex;

use crate::Cell;
use crate::error::Result;
use crate::media::tape_name;
use crate::process::{Sight, birth, look};
use crate::session::now_us;
use crate::session::waits::WaitingSession;

/// A process that waits says so again after so long.
const HEARD_EVERY: Duration = Duration::from_secs(10);
/// One that cannot be seen and was not heard of for so long, in microseconds, is gone.
const GONE_US: i64 = 60_000_000;
/// Sessions that are looked through for the one that waits.
const LOOKED_BACK: usize = 500;

/// A drive that waits for a tape.
#[derive(Debug, Clone)]
pub struct TapeWanted {
    /// The drive, and which process waits since when for what.
    pub request: TapeRequest,
    /// The tape of a library that is wanted, where it is a certain one: its barcode, and where it is as far as that is on record.
    pub tape: Option<(String, Option<String>)>,
    /// The session of that process; nothing where it has not begun yet.
    pub session: Option<WaitingSession>,
}

impl Cell {
    /// Who has to be told what drives wait for, and that they wait no longer: it goes on record. A record that cannot be made
    /// keeps no session from going on.
    pub fn tape_board(&self) -> Board {
        // The board outlives the cell, which closes its database when it ends.
        let idb = Arc::downgrade(&self.idb);
        let waiting: Mutex<HashMap<String, (TapeRequest, Instant)>> = Mutex::default();
        Box::new(move |drive, wanted| {
            let Some(idb) = idb.upgrade() else { return };
            let mut waiting = waiting.lock();
            let known = waiting.remove(drive);
            let Some(wanted) = wanted else {
                let _ = idb.remove_tape_request(idb.host(), std::process::id(), drive);
                return;
            };
            let is_fresh = |(request, heard): &(TapeRequest, Instant)| {
                request.wanted == wanted && heard.elapsed() < HEARD_EVERY
            };
            if let Some(known) = known.as_ref().filter(|known| is_fresh(known)) {
                waiting.insert(drive.to_owned(), known.clone());
                return;
            }
            let now = now_us();
            let request = TapeRequest {
                host: idb.host().to_owned(),
                pid: std::process::id(),
                birth: birth(),
                drive: drive.to_owned(),
                wanted: wanted.to_owned(),
                since_us: known.map_or(now, |(request, _)| request.since_us),
                heard_us: now,
            };
            let _ = idb.put_tape_request(&request);
            waiting.insert(drive.to_owned(), (request, Instant::now()));
        })
    }

    /// Which tape is wanted, and where it is.
    fn tape_of_request(&self, request: &TapeRequest) -> Option<(String, Option<String>)> {
        let Ok(Address::Tape(tape)) = request.drive.parse() else { return None };
        let barcode = tape.tape.clone()?;
        let is_it = |medium: &Medium| {
            medium.device.tapes().iter().any(|of| of.recorded() == tape.recorded())
        };
        let medium = self.idb.media().ok()?.into_iter().find(is_it);
        let management = medium.and_then(|medium| self.idb.management(medium.id).ok());
        let place = management.and_then(|m| {
            let (_, to) = m.tape_exported(&tape_name(&tape))?;
            Some(to.to_owned())
        });
        Some((barcode, place))
    }

    /// The drives that wait for a tape now. What a process left that was killed is forgotten.
    pub fn tapes_wanted(&self) -> Result<Vec<TapeWanted>> {
        let mut wanted = Vec::new();
        for request in self.idb.tape_requests()? {
            let sight = look(request.pid, &request.birth, self.idb.is_on_server());
            let waits = match sight {
                Sight::There => true,
                Sight::Gone => false,
                Sight::Hidden => now_us().saturating_sub(request.heard_us) < GONE_US,
            };
            if waits {
                wanted.push(request);
            } else if sight == Sight::Gone {
                self.idb.remove_tape_request(&request.host, request.pid, &request.drive)?;
            }
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let sessions = self.idb.described_sessions(&SessionsOf::default(), LOOKED_BACK)?;
        let with_session = |request: TapeRequest| {
            let session = sessions.iter().find(|(s, _)| {
                s.status == Status::Running && (s.pid, &s.birth) == (request.pid, &request.birth)
            });
            let session = session.map(|(s, described)| WaitingSession {
                id: s.id.to_string(),
                kind: s.kind.clone(),
                name: described.name.clone(),
            });
            let tape = self.tape_of_request(&request);
            TapeWanted { request, tape, session }
        };
        Ok(wanted.into_iter().map(with_session).collect())
    }
}
