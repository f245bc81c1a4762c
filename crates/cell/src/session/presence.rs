//! Sessions that run: their process says again and again that it is there, and what is left of dead ones is found.
//!
//! A process that can be seen is judged by that. One that cannot, as it is in another container or on another host, is dead when it
//! was not heard of for long; it is not if it is heard of again, then its sessions run on.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use capstan_engine::leaving;
use capstan_idb::{Idb, IdbError, Running, Session, Version};

use crate::Cell;
use crate::error::Result;
use crate::process::keeper::Keeper;
use crate::process::{Sight, birth, look};
use crate::session::adds_much;

/// When who cannot be seen is dead.
#[derive(Debug, Clone, Copy)]
struct Terms {
    /// Not heard of for so long, on a host of the same name that was started anew since: it may be another host of that name.
    restarted: Duration,
    /// Not heard of for so long, elsewhere.
    silent: Duration,
    /// Such a one is watched for so long before: the database may be back only now, for it as for us.
    watch: Duration,
    /// How often it is looked at meanwhile.
    look: Duration,
}

const TERMS: Terms = Terms {
    restarted: Duration::from_secs(2 * 60),
    silent: Duration::from_secs(10 * 60),
    watch: Duration::from_secs(15),
    look: Duration::from_millis(500),
};

/// How often a process says that it is there.
const BEAT: Duration = Duration::from_secs(10);

impl Cell {
    /// Puts a session on record, with the version that it makes. From now on this process says that it is there.
    pub(crate) fn begin_session(&self, session: &Session, version: Option<&Version>) -> Result<()> {
        if !adds_much(&session.kind) {
            self.idb.give_up_reserve();
        }
        self.idb.begin_session(session, version)?;
        self.presence.get_or_init(|| {
            let (idb, birth) = (Arc::downgrade(&self.idb), birth());
            Keeper::begin("sessions", BEAT, move || {
                // While the database is away others hear nothing of it, and can do nothing either.
                let Some(idb) = idb.upgrade() else { return };
                let _ = idb.beat(std::process::id(), &birth);
            })
        });
        Ok(())
    }
}

/// Marks the sessions of dead processes.
pub(crate) fn end_dead_sessions(idb: &Idb) -> std::result::Result<(), IdbError> {
    end_dead(idb, TERMS)
}

fn end_dead(idb: &Idb, terms: Terms) -> std::result::Result<(), IdbError> {
    let shared = idb.is_on_server();
    let begun = Instant::now();
    let mut first = HashMap::new();
    let mut heard = HashSet::new();
    loop {
        let mut is_watched = false;
        for running in idb.running_sessions()? {
            let id = running.session.id;
            if sight(&running, shared) != Sight::Hidden {
                continue;
            }
            if running.silent_us.is_none() {
                idb.hear_first(id)?;
            } else if *first.entry(id).or_insert(running.heard_us) != running.heard_us {
                heard.insert(id);
            } else {
                is_watched |= is_silent(&running, idb.host(), terms);
            }
        }
        if !is_watched || begun.elapsed() >= terms.watch {
            break;
        }
        if leaving::has_left() {
            return Ok(());
        }
        thread::sleep(terms.look);
    }
    idb.mark_dead_sessions(&|running| match sight(running, shared) {
        Sight::There => false,
        Sight::Gone => true,
        Sight::Hidden => {
            is_silent(running, idb.host(), terms) && !heard.contains(&running.session.id)
        }
    })?;
    Ok(())
}

fn sight(running: &Running, shared: bool) -> Sight {
    look(running.session.pid, &running.session.birth, shared)
}

/// Whether one that cannot be seen was not heard of for so long that it is dead.
fn is_silent(running: &Running, here: &str, terms: Terms) -> bool {
    let boot = |birth: &str| birth.split(' ').next().unwrap_or_default().to_owned();
    let is_restarted =
        running.session.host == here && boot(&running.session.birth) != boot(&birth());
    let limit = if is_restarted { terms.restarted } else { terms.silent };
    running.silent_us.is_some_and(|us| u128::try_from(us).is_ok_and(|us| us >= limit.as_micros()))
}
