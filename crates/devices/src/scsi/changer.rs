//! A real library as a [`Changer`].
//!
//! The changer's device is open only while something is asked of it: other processes of this host take turns with a lock.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use capstan_scsi::element::{Element, ElementKind};
use capstan_scsi::inquiry::Identity;
use capstan_scsi::{self as scsi, Drive, Inventory, holders};
use capstan_tape::changer::{DriveInfo, Elements, Held, Place};
use capstan_tape::{Changer, TapeDrive, TapeError, lock};

use super::drive::{Expect, ScsiDrive, eject};
use super::errors::explain;
use super::units::{Reached, Unit};
use super::{lock_path, transport};

/// How long a robot that another process uses is waited for: a move takes minutes, a look into every slot up to an hour.
const ROBOT_PATIENCE: Duration = Duration::from_secs(20 * 60);

/// A library with a robot.
pub(super) struct ScsiLibrary {
    name: String,
    lock: PathBuf,
    /// Addresses of the elements, in their order.
    drives: Vec<u16>,
    slots: Vec<u16>,
    mail: Vec<u16>,
    /// Which device is which drive, by the drive's address, once that was asked for.
    units: Option<BTreeMap<u16, Unit>>,
}

/// The robot, for this process alone.
struct Robot {
    changer: scsi::Changer,
    _lock: File,
}

impl ScsiLibrary {
    pub fn open(device: &str, identity: &Identity) -> Result<Self, TapeError> {
        let mut this = Self {
            name: device.to_owned(),
            lock: lock_path("changer", identity, device),
            drives: Vec::new(),
            slots: Vec::new(),
            mail: Vec::new(),
            units: None,
        };
        let inventory = this.robot()?.changer.inventory().map_err(|e| explain(e, device))?;
        let addresses = |kind| inventory.of(kind).map(|element| element.address).collect();
        this.drives = addresses(ElementKind::Drive);
        this.slots = addresses(ElementKind::Slot);
        this.mail = addresses(ElementKind::ImportExport);
        Ok(this)
    }

    fn robot(&self) -> Result<Robot, TapeError> {
        let what = format!("the robot of library {}", self.name);
        let lock = lock::wait(&self.lock, &what, ROBOT_PATIENCE)?;
        let changer = transport(&self.name).and_then(scsi::Changer::on);
        Ok(Robot { changer: changer.map_err(|e| explain(e, &self.name))?, _lock: lock })
    }

    fn look(&self) -> Result<Inventory, TapeError> {
        self.robot()?.changer.inventory().map_err(|e| explain(e, &self.name))
    }

    fn says(&self, problem: String) -> TapeError {
        TapeError::Library { library: self.name.clone(), problem }
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
    fn unit(&mut self, address: u16, inventory: &Inventory) -> Result<Option<&Unit>, TapeError> {
        if self.units.is_none() {
            let reached = Reached::from(&self.name, self.drives.len());
            let reached = reached.map_err(|e| explain(e, &self.name))?;
            self.units = Some(reached.assign(inventory));
        }
        Ok(self.units.as_ref().and_then(|units| units.get(&address)))
    }

    /// The same where there must be one.
    fn device(&mut self, number: u32, inventory: &Inventory) -> Result<Unit, TapeError> {
        let address = self.address(Place::Drive(number))?;
        if let Some(unit) = self.unit(address, inventory)? {
            return Ok(unit.clone());
        }
        let name = inventory.at(address).and_then(|e| e.drive.as_ref()).map(|name| &name.text);
        let who = name.map_or(String::new(), |name| format!(" ({name})"));
        Err(self.says(format!(
            "drive {number}{who} is none of the tape drives that this host reaches; connect it to this host, or use \
             another one"
        )))
    }

    /// Holds the drives of places, so that nobody begins to use one whose tape is about to go.
    fn hold_drives(&mut self, places: &[Place], seen: &Inventory) -> Result<Vec<File>, TapeError> {
        let mut held = Vec::new();
        for place in places {
            let Place::Drive(number) = place else { continue };
            // One that this host cannot reach, nobody here can use.
            let Some(unit) = self.unit(self.address(*place)?, seen)?.cloned() else { continue };
            let what = format!("drive {number} of library {}", self.name);
            let path = lock_path("drive", &unit.found.identity, &unit.found.name);
            held.push(lock::take(&path, &what)?);
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

    /// Waits until a drive has cleaned itself, and takes the cleaning tape back.
    fn take_back(&self, robot: &mut Robot, drive: u16, to: u16) -> Result<(), TapeError> {
        const LONGEST: Duration = Duration::from_secs(20 * 60);
        const PAUSE: Duration = Duration::from_secs(2);
        let start = Instant::now();
        loop {
            match robot.changer.move_medium(drive, to) {
                Ok(()) => return Ok(()),
                // While it cleans, it does not let the tape go.
                Err(e) if e.sense().is_some() && start.elapsed() < LONGEST => thread::sleep(PAUSE),
                Err(e) => return Err(explain(e, &self.name)),
            }
        }
    }
}

impl Changer for ScsiLibrary {
    fn name(&self) -> &str {
        &self.name
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
            let hint = "`capstan library status` shows where they are";
            return Err(self.says(format!("{from} holds no tape; {hint}")));
        }
        if let Some(there) = seen.at(target).filter(|element| element.full) {
            let barcode = there.barcode.clone().unwrap_or_else(|| "without a barcode".to_owned());
            return Err(self.says(format!("{to} holds tape {barcode} already; move that first")));
        }
        let _drives = self.hold_drives(&[from, to], &seen)?;
        robot.changer.move_medium(source, target).map_err(|e| explain(e, &self.name))
    }

    fn open_drive(&mut self, number: u32) -> Result<Box<dyn TapeDrive>, TapeError> {
        let address = self.address(Place::Drive(number))?;
        let inventory = self.look()?;
        let unit = self.device(number, &inventory)?;
        let name = format!("drive {number} of {}", self.name);
        let element = inventory.at(address).filter(|element| element.full);
        let expect = match element {
            Some(element) => Expect::Tape(element.barcode.as_deref().unwrap_or_default()),
            None => Expect::Nothing,
        };
        Ok(Box::new(ScsiDrive::open(&unit.found.name, &name, expect)?))
    }

    fn unload_drive(&mut self, number: u32) -> Result<(), TapeError> {
        let inventory = self.look()?;
        let unit = self.device(number, &inventory)?;
        eject(&unit.found.name, &format!("drive {number} of {}", self.name))
    }

    fn drive_info(&mut self, number: u32) -> Result<DriveInfo, TapeError> {
        let address = self.address(Place::Drive(number))?;
        let inventory = self.look()?;
        let named = inventory.at(address).and_then(|e| e.drive.as_ref()).map(|n| n.text.clone());
        let Some(unit) = self.unit(address, &inventory)? else {
            let note = Some("not reached from this host".to_owned());
            return Ok(DriveInfo {
                model: named.unwrap_or_default(),
                note,
                ..DriveInfo::default()
            });
        };
        let note = "its device is told by its order, since the library does not say serial numbers";
        Ok(DriveInfo { note: unit.by_order.then(|| note.to_owned()), ..info_of(&unit.found) })
    }

    fn clean(&mut self, drive: u32, tape_at: Place) -> Result<Option<u32>, TapeError> {
        const SPENT: u8 = 22;
        const UNFIT: u8 = 23;
        let (source, target) = (self.address(tape_at)?, self.address(Place::Drive(drive))?);
        let mut robot = self.robot()?;
        let seen = robot.changer.inventory().map_err(|e| explain(e, &self.name))?;
        let unit = self.device(drive, &seen)?;
        let held = self.hold_drives(&[Place::Drive(drive)], &seen)?;
        robot.changer.move_medium(source, target).map_err(|e| explain(e, &self.name))?;
        self.take_back(&mut robot, target, source)?;
        drop(held);
        // What the drive thinks of the tape it says afterwards.
        let said = transport(&unit.found.name).and_then(Drive::on).and_then(|mut d| d.alerts());
        let said = said.map_err(|e| explain(e, &self.name))?;
        match said.iter().find(|alert| matches!(alert.number(), SPENT | UNFIT)) {
            Some(alert) => Err(self.says(format!("drive {drive} was not cleaned: {alert}"))),
            None => Ok(None),
        }
    }
}

/// What is known of a device without opening it.
pub(crate) fn info_of(found: &scsi::find::Found) -> DriveInfo {
    let identity = &found.identity;
    let ours = lock::holder(&lock_path("drive", identity, &found.name));
    let others = || Some(holders::find(&found.numbers)).filter(|o| !o.is_empty());
    DriveInfo {
        model: format!("{} {}", identity.vendor, identity.product),
        serial: Some(identity.serial.clone()).filter(|serial| !serial.is_empty()),
        device: Some(found.name.clone()),
        in_use: ours.or_else(|| others().map(|others| holders::list(&others))),
        note: None,
    }
}
