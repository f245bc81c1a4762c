//! What sessions wait for that others have: on record while they wait, so that `status` shows it, whichever process waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use capstan_idb::{SessionWait, SessionsOf, Status};
use capstan_medium::host::queue::Board;
use parking_lot::Mutex;

use crate::Cell;
use crate::error::Result;
use crate::process::{Sight, birth, look};
use crate::session::now_us;

/// A process that waits says so again after so long.
const HEARD_EVERY: Duration = Duration::from_secs(10);
/// One that cannot be seen and was not heard of for so long, in microseconds, is gone. It looks every quarter of a minute.
const GONE_US: i64 = 60_000_000;
/// Sessions that are looked through for those that wait.
const LOOKED_BACK: usize = 500;

/// Something that a process waits for.
#[derive(Debug, Clone)]
pub struct WaitNow {
    /// Which process waits, since when, for what.
    pub wait: SessionWait,
    /// Its sessions that run; none where it has not begun one yet.
    pub sessions: Vec<WaitingSession>,
}

impl Cell {
    /// Who has to be told what this process waits for, and that it waits no longer: it goes on record, with the command that it was
    /// called with. A record that cannot be made keeps no session from going on.
    pub fn wait_board(&self, command: &str) -> Board {
        // The board outlives the cell, which closes its database when it ends.
        let (idb, command) = (Arc::downgrade(&self.idb), command.to_owned());
        let waiting: Mutex<HashMap<u64, (SessionWait, Instant)>> = Mutex::default();
        Box::new(move |number, why| {
            let Some(idb) = idb.upgrade() else { return };
            let mut waiting = waiting.lock();
            let known = waiting.remove(&number);
            let Some((why, waited)) = why else {
                let _ = idb.remove_wait(std::process::id(), &birth(), number);
                return;
            };
            let is_fresh = |(wait, heard): &(SessionWait, Instant)| {
                wait.why == why && heard.elapsed() < HEARD_EVERY
            };
            if let Some(known) = known.as_ref().filter(|known| is_fresh(known)) {
                waiting.insert(number, known.clone());
                return;
            }
            let now = now_us();
            let waited_us = i64::try_from(waited.as_micros()).unwrap_or(i64::MAX);
            let wait = SessionWait {
                host: idb.host().to_owned(),
                pid: std::process::id(),
                birth: birth(),
                number,
                command: command.clone(),
                why: why.to_owned(),
                since_us: now.saturating_sub(waited_us),
                heard_us: now,
            };
            let _ = idb.put_wait(&wait);
            waiting.insert(number, (wait, Instant::now()));
        })
    }

    /// What sessions wait for now, the longest wait first. What a process left that was killed is forgotten.
    pub fn waits(&self) -> Result<Vec<WaitNow>> {
        let mut all = Vec::new();
        for wait in self.idb.waits()? {
            let sight = look(wait.pid, &wait.birth, self.idb.is_on_server());
            let is_heard = || now_us().saturating_sub(wait.heard_us) < GONE_US;
            match sight {
                Sight::There => all.push(wait),
                Sight::Hidden if is_heard() => all.push(wait),
                Sight::Hidden => {}
                Sight::Gone => self.idb.remove_wait(wait.pid, &wait.birth, wait.number)?,
            }
        }
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let sessions = self.idb.described_sessions(&SessionsOf::default(), LOOKED_BACK)?;
        let with_sessions = |wait: SessionWait| {
            let is_its = |s: &capstan_idb::Session| {
                s.status == Status::Running && (s.pid, &s.birth) == (wait.pid, &wait.birth)
            };
            let its = sessions.iter().filter(|(s, _)| is_its(s));
            let sessions = its.map(|(s, described)| WaitingSession {
                id: s.id.to_string(),
                kind: s.kind.clone(),
                name: described.name.clone(),
            });
            WaitNow { sessions: sessions.collect(), wait }
        };
        Ok(all.into_iter().map(with_sessions).collect())
    }
}

/// A session that waits.
#[derive(Debug, Clone)]
pub struct WaitingSession {
    /// Its id.
    pub id: String,
    /// What it does: `backup`, `restore`.
    pub kind: String,
    /// The object's name, where it has one.
    pub name: String,
}
