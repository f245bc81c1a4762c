//! A real library as a [`Changer`].
//!
//! The changer's device is open only while something is asked of it: other processes of this host take turns with a lock.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use capstan_engine::leaving;
use capstan_engine::problem::Problem;
use capstan_medium::tape::{DriveInfo, Elements, Held, Place, TapeError, TapeLibrary};
use capstan_scsi::element::{Element, ElementKind};
use capstan_scsi::inquiry::Identity;
use capstan_scsi::{self as scsi, Inventory, holders};
use capstan_tape::lock::{Lock, Locks};
use capstan_tape::{Changer, TapeDrive};

use super::drive::{Expect, ScsiDrive, eject};
use super::errors::explain;
use super::units::{Reached, Unit};
use super::{Initiator, cleaning, lock_path};

/// How long a robot that another process uses is waited for: a move takes minutes, a look into every slot up to an hour.
const ROBOT_PATIENCE: Duration = Duration::from_secs(20 * 60);

/// A library with a robot.
pub(super) struct ScsiLibrary {
    initiator: Arc<Initiator>,
    name: String,
    lock: PathBuf,
    /// What its robot is called on all hosts: nodes have other names on each.
    robot_name: String,
    /// Addresses of the elements, in their order.
    drives: Vec<u16>,
    /// What the library says of its drives themselves; that stays.
    drive_elements: Inventory,
    slots: Vec<u16>,
    mail: Vec<u16>,
    /// Which device is which drive, by the drive's address, once that was asked for.
    units: Option<BTreeMap<u16, Unit>>,
    /// It said that somebody may have changed tapes in it.
    disturbed: Arc<AtomicBool>,
}

/// How often a robot that another host has is asked for again.
const PAUSE: Duration = Duration::from_millis(500);

/// The robot, for this process alone: of this host by a lock, of all hosts where it can be reserved.
struct Robot {
    changer: scsi::Changer,
    reserved: bool,
    /// Where it is noted that somebody may have changed tapes.
    disturbed: Arc<AtomicBool>,
    _lock: Lock,
}

impl Drop for Robot {
    fn drop(&mut self) {
        self.disturbed.fetch_or(self.changer.take_exchanged(), Relaxed);
        if self.reserved {
            // The end of the connection releases it, too.
            let _ = self.changer.release();
        }
    }
}

/// Tries until no other host has the device, or there is no more patience.
fn in_turn<T>(
    patience: Duration,
    pause: Duration,
    mut attempt: impl FnMut() -> Result<T, scsi::Error>,
) -> Result<T, scsi::Error> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(scsi::Error::Reserved { .. })
                if begun.elapsed() < patience && leaving::nap(pause) => {}
            other => return other,
        }
    }
}

impl ScsiLibrary {
    pub fn open(
        initiator: Arc<Initiator>,
        device: &str,
        identity: &Identity,
    ) -> Result<Self, TapeError> {
        let mut this = Self {
            initiator,
            name: device.to_owned(),
            lock: lock_path("changer", identity, device),
            robot_name: match identity.serial.is_empty() {
                true => device.to_owned(),
                false => format!("{} {} {}", identity.vendor, identity.product, identity.serial),
            },
            drives: Vec::new(),
            drive_elements: Inventory::default(),
            slots: Vec::new(),
            mail: Vec::new(),
            units: None,
            disturbed: Arc::default(),
        };
        let inventory = this.robot()?.changer.inventory().map_err(|e| explain(e, device))?;
        let addresses = |kind| inventory.of(kind).map(|element| element.address).collect();
        this.drives = addresses(ElementKind::Drive);
        this.slots = addresses(ElementKind::Slot);
        this.mail = addresses(ElementKind::ImportExport);
        this.drive_elements.elements = inventory.of(ElementKind::Drive).cloned().collect();
        Ok(this)
    }

    fn robot(&self) -> Result<Robot, TapeError> {
        let what = format!("the robot of library {}", self.name);
        let lock = self.initiator.locks.wait(&self.lock, &what, ROBOT_PATIENCE)?;
        let (changer, reserved) = in_turn(ROBOT_PATIENCE, PAUSE, || self.reserved())
            .map_err(|e| explain(e, &self.name))?;
        Ok(Robot { changer, reserved, disturbed: self.disturbed.clone(), _lock: lock })
    }

    /// The changer, and whether it is reserved for this host now.
    fn reserved(&self) -> Result<(scsi::Changer, bool), scsi::Error> {
        let mut changer = self.initiator.transport(&self.name).and_then(scsi::Changer::on)?;
        let reserved = changer.reserve()?;
        Ok((changer, reserved))
    }

    fn look(&self) -> Result<Inventory, TapeError> {
        self.robot()?.changer.inventory().map_err(|e| explain(e, &self.name))
    }

    fn says(&self, problem: impl Into<Problem>) -> TapeError {
        TapeError::Library { library: self.name.clone(), problem: problem.into() }
    }

    fn address(&self, place: Place) -> Result<u16, TapeError> {
        let (of, n) = match place {
            Place::Drive(n) => (&self.drives, n),
            Place::Slot(n) => (&self.slots, n),
            Place::Mail(n) => (&self.mail, n),
        };
        let at = (n as usize).checked_sub(1).and_then(|i| of.get(i));
        at.copied().ok_or_else(|| self.says(format!("it has no {place}")))
    }

    fn place(&self, address: u16) -> Option<Place> {
        let find = |of: &[u16]| of.iter().position(|a| *a == address).map(|i| i as u32 + 1);
        let drive = find(&self.drives).map(Place::Drive);
        drive
            .or_else(|| find(&self.slots).map(Place::Slot))
            .or_else(|| find(&self.mail).map(Place::Mail))
    }

    /// The device that a drive is.
    fn unit(&mut self, address: u16) -> Result<Option<&Unit>, TapeError> {
        if self.units.is_none() {
            let reached = Reached::from(&self.initiator, &self.name, self.drives.len());
            let reached = reached.map_err(|e| explain(e, &self.name))?;
            self.units = Some(reached.assign(&self.drive_elements));
        }
        Ok(self.units.as_ref().and_then(|units| units.get(&address)))
    }

    /// The same where there must be one.
    fn device(&mut self, number: u32) -> Result<Unit, TapeError> {
        let address = self.address(Place::Drive(number))?;
        if let Some(unit) = self.unit(address)? {
            return Ok(unit.clone());
        }
        let who = self.named(address).map_or(String::new(), |name| format!(" ({name})"));
        Err(self.says(
            Problem::new(format!(
                "drive {number}{who} is none of the tape drives that this host reaches"
            ))
            .hint("connect it to this host, or use another one"),
        ))
    }

    /// What the library says of a drive.
    fn named(&self, address: u16) -> Option<String> {
        let element = self.drive_elements.at(address)?;
        element.drive.as_ref().map(|name| name.text.clone())
    }

    /// Holds the drives of places, so that nobody begins to use one whose tape is about to go.
    fn hold_drives(&mut self, places: &[Place]) -> Result<Vec<Lock>, TapeError> {
        let mut held = Vec::new();
        for place in places {
            let Place::Drive(number) = place else { continue };
            // One that this host cannot reach, nobody here can use.
            let Some(unit) = self.unit(self.address(*place)?)?.cloned() else { continue };
            let what = format!("drive {number} of library {}", self.name);
            let path = lock_path("drive", &unit.found.identity, &unit.found.name);
            held.push(self.initiator.locks.take(&path, &what)?);
            // Programs that know nothing of our locks.
            let others = holders::find(&unit.found.numbers);
            if !others.is_empty() {
                return Err(TapeError::Busy { what, holder: holders::list(&others) });
            }
        }
        Ok(held)
    }

    fn held(&self, element: &Element) -> Option<Held> {
        let place = self.place(element.address).filter(|_| element.full)?;
        let from = element.source.and_then(|source| self.place(source));
        Some(Held {
            place,
            barcode: element.barcode.clone().unwrap_or_default(),
            from: from.filter(|from| matches!(place, Place::Drive(_)) && *from != place),
        })
    }
}

impl TapeLibrary for ScsiLibrary {
    fn name(&self) -> &str {
        &self.name
    }

    fn robot(&self) -> String {
        self.robot_name.clone()
    }

    fn elements(&self) -> Elements {
        let count = |of: &[u16]| of.len() as u32;
        Elements {
            drives: count(&self.drives),
            slots: count(&self.slots),
            mail_slots: count(&self.mail),
        }
    }

    fn inventory(&mut self) -> Result<Vec<Held>, TapeError> {
        let inventory = self.look()?;
        let mut held: Vec<Held> =
            inventory.elements.iter().filter_map(|element| self.held(element)).collect();
        held.sort_by_key(|held| held.place);
        Ok(held)
    }

    fn rescan(&mut self) -> Result<(), TapeError> {
        self.robot()?.changer.rescan().map_err(|e| explain(e, &self.name))
    }

    fn move_tape(&mut self, from: Place, to: Place) -> Result<(), TapeError> {
        let (source, target) = (self.address(from)?, self.address(to)?);
        let mut robot = self.robot()?;
        let seen = robot.changer.inventory().map_err(|e| explain(e, &self.name))?;
        if seen.at(source).is_none_or(|element| !element.full) {
            let problem = Problem::new(format!("{from} holds no tape"));
            return Err(self.says(problem.hint("`capstan library status` shows where they are")));
        }
        if let Some(there) = seen.at(target).filter(|element| element.full) {
            let barcode = there.barcode.clone().unwrap_or_else(|| "without a barcode".to_owned());
            return Err(self.says(
                Problem::new(format!("{to} holds tape {barcode} already")).hint("move that first"),
            ));
        }
        let _drives = self.hold_drives(&[from, to])?;
        robot.changer.move_medium(source, target).map_err(|e| explain(e, &self.name))
    }

    fn unload_drive(&mut self, number: u32) -> Result<(), TapeError> {
        let unit = self.device(number)?;
        eject(&self.initiator, &unit.found.name, &format!("drive {number} of {}", self.name))
    }

    fn drive_info(&mut self, number: u32) -> Result<DriveInfo, TapeError> {
        let address = self.address(Place::Drive(number))?;
        let Some(unit) = self.unit(address)?.cloned() else {
            let model = self.named(address).unwrap_or_default();
            let note = Some("not reached from this host".to_owned());
            return Ok(DriveInfo { model, note, ..DriveInfo::default() });
        };
        let note = "its device is told by its order, since the library does not say serial numbers";
        Ok(DriveInfo {
            note: unit.by_order.then(|| note.to_owned()),
            ..info_of(&self.initiator.locks, &unit.found)
        })
    }

    fn clean(&mut self, drive: u32, tape_at: Place) -> Result<Option<u32>, TapeError> {
        let (from, to) = (self.address(tape_at)?, self.address(Place::Drive(drive))?);
        let unit = self.device(drive)?;
        let mut robot = self.robot()?;
        let _held = self.hold_drives(&[Place::Drive(drive)])?;
        let why = |e| explain(e, &self.name);
        robot.changer.move_medium(from, to).map_err(why)?;
        let cleaned = cleaning::wait(&self.initiator, &unit.found.name);
        cleaning::take_back(&mut robot.changer, to, from).map_err(why)?;
        match cleaned.map_err(why)? {
            None => Ok(None),
            Some(problem) => Err(self.says(format!("drive {drive} was not cleaned: {problem}"))),
        }
    }
}

impl Changer for ScsiLibrary {
    fn take_disturbed(&mut self) -> bool {
        self.disturbed.swap(false, Relaxed)
    }

    fn claim_drive(&mut self, number: u32) -> Result<Box<dyn Send>, TapeError> {
        let unit = self.device(number)?;
        let path = lock_path("claim", &unit.found.identity, &unit.found.name);
        Ok(Box::new(
            self.initiator
                .locks
                .take(&path, &format!("drive {number} of library {}", self.name))?,
        ))
    }

    fn open_drive(&mut self, number: u32) -> Result<Box<dyn TapeDrive>, TapeError> {
        let address = self.address(Place::Drive(number))?;
        let unit = self.device(number)?;
        let inventory = self.look()?;
        let name = format!("drive {number} of {}", self.name);
        let element = inventory.at(address).filter(|element| element.full);
        let expect = match element {
            Some(element) => Expect::Tape(element.barcode.as_deref().unwrap_or_default()),
            None => Expect::Nothing,
        };
        Ok(Box::new(ScsiDrive::open(&self.initiator, &unit.found.name, &name, expect)?))
    }
}

/// What is known of a device without opening it.
pub(crate) fn info_of(locks: &Locks, found: &scsi::find::Found) -> DriveInfo {
    let identity = &found.identity;
    let ours = locks
        .holder(&lock_path("drive", identity, &found.name))
        .or_else(|| locks.holder(&lock_path("claim", identity, &found.name)));
    let others = || Some(holders::find(&found.numbers)).filter(|o| !o.is_empty());
    DriveInfo {
        model: format!("{} {}", identity.vendor, identity.product),
        serial: Some(identity.serial.clone()).filter(|serial| !serial.is_empty()),
        device: Some(found.name.clone()),
        in_use: ours.or_else(|| others().map(|others| holders::list(&others))),
        note: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_robot_that_another_host_has_is_waited_for_not_for_ever() {
        let reserved = || scsi::Error::Reserved { device: "/dev/sg3".to_owned() };
        let pause = Duration::from_millis(1);
        let mut tried = 0;
        let third = in_turn(Duration::from_secs(60), pause, || {
            tried += 1;
            if tried < 3 { Err(reserved()) } else { Ok(tried) }
        });
        assert_eq!(third.ok(), Some(3));
        let never = in_turn(Duration::from_millis(5), pause, || Err::<(), _>(reserved()));
        assert!(matches!(never, Err(scsi::Error::Reserved { .. })));
        let lost = || Err::<(), _>(scsi::Error::NoMedium { device: "/dev/sg3".to_owned() });
        assert!(matches!(
            in_turn(Duration::from_secs(60), pause, lost),
            Err(scsi::Error::NoMedium { .. })
        ));
    }
}
