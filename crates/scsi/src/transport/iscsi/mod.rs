//! Commands to iSCSI targets, through the system's libiscsi, which is opened when it is first needed.
//!
//! A lost connection stays lost until [`Transport::reconnect`]: the library would otherwise connect again and repeat
//! what was outstanding, and blocks get lost or doubled on tape. A command that does not end in time ends the connection
//! too: only so it is sure that nobody touches its buffer any more, and the target breaks the command off.

mod library;
mod session;

use std::fs;
use std::time::Duration;

use capstan_address::iscsi::Target;
use session::Session;

use super::{Data, Left, Outcome, Transport, TransportError};
use crate::Error;

/// Connecting and logging in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// The same where the connection was there and broke: it is tried again soon.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// The same where the process is to end.
const CONNECT_AT_END: Duration = Duration::from_secs(5);
/// Where the system's own initiator keeps the name by which targets know this host.
const INITIATOR_NAME: &str = "/etc/iscsi/initiatorname.iscsi";

/// A connection to a logical unit.
pub struct Iscsi {
    target: Target,
    name: String,
    initiator: String,
    /// `None` while the connection is lost.
    session: Option<Session>,
    /// A command was left at work, and the connection closed.
    has_left: bool,
    /// It was connected before.
    was_there: bool,
}

impl Iscsi {
    /// Connects and logs in.
    pub fn open(target: Target) -> Result<Self, Error> {
        Self::connected(target, false)
    }

    /// The same to a host that was connected to before: it is not waited for as long.
    pub fn open_again(target: Target) -> Result<Self, Error> {
        Self::connected(target, true)
    }

    fn connected(target: Target, was_there: bool) -> Result<Self, Error> {
        let (name, initiator) = (target.to_string(), initiator_name());
        let mut iscsi = Self { target, name, initiator, session: None, has_left: false, was_there };
        iscsi.reconnect()?;
        Ok(iscsi)
    }
}

/// The names of the targets that a host has.
pub fn discover(host: &Target) -> Result<Vec<String>, Error> {
    let library = library::get().map_err(|why| Error::NoLibiscsi(why.to_owned()))?;
    let host = host.unit("", 0);
    let mut names = Session::targets(library, &host, &initiator_name(), CONNECT_TIMEOUT)
        .map_err(|why| Error::Connect { device: host.portal(), why })?;
    names.sort();
    names.dedup();
    Ok(names)
}

impl Transport for Iscsi {
    fn execute(
        &mut self,
        cdb: &[u8],
        data: Data<'_>,
        timeout: Duration,
    ) -> Result<Outcome, TransportError> {
        let Some(session) = &mut self.session else {
            return Err(TransportError::Lost("the connection is closed".to_owned()));
        };
        let result = session.execute(cdb, data, timeout);
        if matches!(result, Err(TransportError::Lost(_) | TransportError::TimedOut)) {
            self.has_left |= session.has_left();
            self.session = None;
        }
        result
    }

    /// Whether the target is still at it shows when it is asked for something.
    fn left(&mut self, _: Duration) -> Left {
        if self.has_left { Left::Over } else { Left::No }
    }

    fn reconnect(&mut self) -> Result<(), Error> {
        self.session = None;
        let library = library::get().map_err(|why| Error::NoLibiscsi(why.to_owned()))?;
        let patience = match self.was_there {
            _ if self.has_left => CONNECT_AT_END,
            true => RECONNECT_TIMEOUT,
            false => CONNECT_TIMEOUT,
        };
        let session = Session::connect(library, &self.target, &self.initiator, patience);
        self.session =
            Some(session.map_err(|why| Error::Connect { device: self.name.clone(), why })?);
        (self.has_left, self.was_there) = (false, true);
        Ok(())
    }

    fn max_transfer(&self) -> usize {
        // The library cuts what is longer into bursts.
        crate::cdb::TRANSFER_MAX
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// The name of this host: the system's, where it has one, so that a target's access lists hold for us too.
fn initiator_name() -> String {
    let system = fs::read_to_string(INITIATOR_NAME).ok().and_then(|text| name_in(&text));
    system.unwrap_or_else(|| {
        let host = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
        let host: String =
            host.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.')).collect();
        format!("iqn.2026-11.org.capstan-backup:{host}")
    })
}

fn name_in(text: &str) -> Option<String> {
    let name = text.lines().find_map(|line| line.trim().strip_prefix("InitiatorName="))?.trim();
    (!name.is_empty() && name.len() <= 223 && name.is_ascii()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_name_is_taken() {
        let text =
            "## comment\n#InitiatorName=iqn.no\n InitiatorName=iqn.1993-08.org.debian:01:abc \n";
        assert_eq!(name_in(text).as_deref(), Some("iqn.1993-08.org.debian:01:abc"));
        assert_eq!(name_in("InitiatorName=\n"), None);
        assert!(initiator_name().starts_with("iqn."));
    }
}
