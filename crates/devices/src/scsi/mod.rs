//! Real drives and libraries as [`capstan_tape`] asks for them: over SG_IO and iSCSI.
//!
//! [`drive`] is a drive, [`changer`] a library with a robot, [`alone`] a drive without one. [`units`] finds the devices that
//! a library's drives are. Which tape goes into which drive is decided elsewhere.

mod alone;
mod changer;
mod cleaning;
mod counted;
mod drive;
mod errors;
mod gone;
mod owed;
mod place;
#[cfg(test)]
mod tests;
mod units;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{env, fs};

use capstan_address::iscsi::{SECRET_VARIABLE, Target};
use capstan_medium::tape::TapeError;
use capstan_scsi::find::{self, Found};
use capstan_scsi::inquiry::{Identity, Kind};
use capstan_scsi::iscsi::Iscsi;
use capstan_scsi::patience::Again;
use capstan_scsi::transport::Transport;
use capstan_scsi::{Drive, Error};
use capstan_tape::Changer;
use capstan_tape::lock::Locks;
use parking_lot::Mutex;
use zeroize::Zeroizing;

pub use capstan_scsi::patience::Reconnects;
pub(crate) use changer::info_of;
pub(crate) use errors::explain;
use gone::Gone;
use owed::Debts;

/// How real drives and libraries are reached at a host, and what is known of them.
#[derive(Default)]
pub(crate) struct Initiator {
    /// What the host has locked.
    locks: Locks,
    /// The secret of iSCSI logins, where the program took it out of the environment.
    secret: OnceLock<Zeroizing<String>>,
    /// Portals that it was connected to: where one does not answer any more, it is tried again.
    reached: Mutex<HashSet<String>>,
    /// What did not come back.
    gone: Gone,
    /// What devices elsewhere are: these are asked once.
    asked: Mutex<HashMap<String, Found>>,
    debts: Debts,
    /// What is done about connections that were lost, where the program said it.
    reconnects: OnceLock<Reconnects>,
    by_default: Reconnects,
}

impl Initiator {
    pub fn with(locks: Locks) -> Self {
        let mut this = Self::default();
        this.locks = locks;
        this
    }

    /// Opens a library by the name of its changer, or a drive that stands alone.
    pub fn open(self: &Arc<Self>, device: &str) -> Result<Box<dyn Changer>, TapeError> {
        capstan_scsi::patience::ends_when(capstan_engine::leaving::has_left);
        let found = self.what_is(device).map_err(|e| explain(e, device))?;
        match found.kind {
            Kind::Changer => {
                Ok(Box::new(changer::ScsiLibrary::open(self.clone(), device, &found.identity)?))
            }
            Kind::Tape => Ok(Box::new(alone::Alone::new(self.clone(), device, found))),
            other => Err(explain(
                Error::WrongKind {
                    device: device.to_owned(),
                    found: other.to_string(),
                    wanted: "tape drive or changer",
                },
                device,
            )),
        }
    }

    /// Gives the secret of iSCSI logins, once. Whoever gives two means the first.
    pub fn give_secret(&self, secret: &str) {
        let _ = self.secret.set(Zeroizing::new(secret.to_owned()));
    }

    /// Says what is done about connections that were lost, once; without that they are tried for two minutes.
    pub fn reconnect_as(&self, reconnects: Reconnects) {
        let _ = self.reconnects.set(reconnects);
    }

    /// Tells all drives what was not told. A drive with our key is waited for, some minutes at most. `say` gets what is worth knowing,
    /// in sentences.
    pub fn settle(&self, say: &dyn Fn(&str)) {
        self.debts.settle(&|drive| self.reconnect(drive), Duration::MAX, say);
    }

    fn reconnects(&self) -> &Reconnects {
        self.reconnects.get().unwrap_or(&self.by_default)
    }

    /// The login of an iSCSI name.
    fn target(&self, name: &str) -> Result<Target, Error> {
        Ok(self.with_secret(Target::parse(name)?))
    }

    /// The same with the secret that was given, or that of the environment, where a user is named.
    pub fn with_secret(&self, target: Target) -> Target {
        if target.user.is_none() || target.secret().is_some() {
            return target;
        }
        match self.secret.get() {
            Some(secret) => target.with_secret(secret),
            None => match env::var(SECRET_VARIABLE) {
                Ok(secret) => target.with_secret(&secret),
                Err(_) => target,
            },
        }
    }

    /// The way to a device.
    fn transport(&self, device: &str) -> Result<Box<dyn Transport>, Error> {
        if !device.contains("://") {
            return capstan_scsi::open(device);
        }
        let target = self.target(device)?;
        let portal = target.portal();
        if !self.reached.lock().contains(&portal) {
            let opened = Iscsi::open(target)?;
            self.reached.lock().insert(portal);
            return Ok(Box::new(opened));
        }
        let names = [device, &portal];
        self.refuse_looked_for(names)?;
        let mut again = Again::begin(self.reconnects());
        loop {
            let begun = Instant::now();
            let opened = Iscsi::open_again(target.clone());
            if matches!(opened, Err(Error::Connect { .. }))
                && !self.gone.has(names)
                && again.again(device)
            {
                continue;
            }
            self.note_way(names, opened.as_ref().err(), begun.elapsed());
            return Ok(Box::new(opened?));
        }
    }

    /// Opens the way to a drive again, and tries for as long as lost connections are tried, unless it is gone.
    fn reconnect(&self, drive: &mut Drive) -> Result<(), Error> {
        let device = drive.name().to_owned();
        let portal = Target::parse(&device).map_or_else(|_| device.clone(), |of| of.portal());
        let names = [&*device, &*portal];
        self.refuse_looked_for(names)?;
        let at_once = Reconnects { most: Duration::ZERO, ..Reconnects::default() };
        let (is_gone, begun) = (self.gone.has(names), Instant::now());
        let done = drive.reconnect(if is_gone { &at_once } else { self.reconnects() });
        let took = if is_gone { begun.elapsed() } else { Duration::ZERO };
        self.note_way(names, done.as_ref().err(), took);
        done
    }

    /// Refuses a device that is gone, as long as it is not worth another look.
    fn refuse_looked_for(&self, names: [&str; 2]) -> Result<(), Error> {
        match self.gone.looked(names) {
            Some(why) => Err(Error::Connect { device: names[0].to_owned(), why }),
            None => Ok(()),
        }
    }

    /// Notes of a device and its host what came of trying it, for so long the last time, until nobody waited any longer.
    fn note_way(&self, names: [&str; 2], failed: Option<&Error>, took: Duration) {
        match failed {
            None => self.gone.is_back(names),
            // What is there is not what was there.
            Some(Error::WrongKind { .. } | Error::Busy { .. } | Error::NoLibiscsi(_)) => {}
            Some(Error::Connect { why, .. }) => {
                names.iter().for_each(|name| self.gone.note(name, Some((why, took))));
            }
            Some(_) => self.gone.note(names[0], None),
        }
    }

    /// What a device is. One of this machine is not opened for that: another process may have it. Others are asked once.
    fn what_is(&self, device: &str) -> Result<Found, Error> {
        if !device.contains("://") {
            let number = fs::metadata(device).map(|meta| meta.rdev()).unwrap_or_default();
            if let Some(found) = find::local().into_iter().find(|f| f.numbers.contains(&number)) {
                return Ok(found);
            }
        }
        if let Some(found) = self.asked.lock().get(device) {
            return Ok(found.clone());
        }
        let (kind, identity) = capstan_scsi::Device::identify(self.transport(device)?)?;
        let (tape_node, address, numbers) = (None, None, Vec::new());
        let found = Found { name: device.to_owned(), kind, identity, tape_node, address, numbers };
        self.asked.lock().insert(device.to_owned(), found.clone());
        Ok(found)
    }
}

impl Drop for Initiator {
    /// Tells the drives what was not told, and waits for none. If a key may be left in one, whoever hears of lost connections hears it;
    /// without him it goes to standard error.
    fn drop(&mut self) {
        let at_once = Reconnects { most: Duration::ZERO, ..Reconnects::default() };
        self.debts.settle(&|drive| drive.reconnect(&at_once), Duration::ZERO, &|text| match self
            .reconnects
            .get()
        {
            Some(reconnects) => (reconnects.tell)(text),
            None => drop(writeln!(io::stderr().lock(), "{text}")),
        });
    }
}

/// The file by which processes of this host take turns with a robot (`changer`), a drive, or with bringing a tape to one (`claim`). Named after its serial number, so
/// whatever way leads to it, it is the same file.
fn lock_path(of: &str, identity: &Identity, device: &str) -> PathBuf {
    let name = if identity.serial.is_empty() { device } else { &identity.serial };
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = name.chars().map(plain).collect();
    let name = format!("capstan-{of}-{name}.lock");
    let shared = Path::new("/run/lock");
    // Where only root may make it, and has not: who is not root shares with those who are not either.
    match shared.join(&name).exists() || is_writable(shared) {
        true => shared.join(name),
        false => env::temp_dir().join(name),
    }
}

fn is_writable(dir: &Path) -> bool {
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod names {
    use super::*;

    #[test]
    fn locks_are_named_after_serial_numbers() {
        let identity = |serial: &str| Identity { serial: serial.to_owned(), ..Identity::default() };
        let name = |serial, device| {
            let path = lock_path("drive", &identity(serial), device);
            path.file_name().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(name("HU123", "/dev/sg3"), "capstan-drive-HU123.lock");
        assert_eq!(name("../x y", "/dev/sg3"), "capstan-drive----x-y.lock");
        assert_eq!(name("", "/dev/sg3"), "capstan-drive--dev-sg3.lock");
    }

    #[test]
    fn what_is_no_device_is_said() {
        for (name, words) in [
            ("/dev/null", "not a SCSI device"),
            ("/dev/sg4711", "cannot find /dev/sg4711"),
            ("iscsi://127.0.0.1:1/iqn.2026-11.test:x/0", "cannot connect"),
        ] {
            let text = Arc::new(Initiator::default()).open(name).err().unwrap().to_string();
            assert!(text.contains(words), "{text}");
        }
    }
}
