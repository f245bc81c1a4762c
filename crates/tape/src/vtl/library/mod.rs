//! A virtual library: a directory with slots, drives and a robot.
//!
//! `library.toml` says what it is and is never changed; `inventory.json` where each tape is; `tapes/` has their files. Whoever
//! moves a tape locks `robot`, whoever uses a drive its `drive-N`: so several processes share a library, and a kill frees
//! what it held.

mod by_hand;
mod cleaning;
mod locks;
mod shelf;
mod stock;

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use by_hand::ByHand;
use capstan_engine::durable;
use capstan_engine::problem::{Explain, Problem};
use serde::{Deserialize, Serialize};
pub use stock::NewTape;

use crate::Changer;
use crate::drive::TapeDrive;
use crate::lock::Locks;
use crate::model::DriveModel;
use crate::vtl::cartridge::{Cartridge, Label};
use crate::vtl::clock::Clock;
use crate::vtl::drive::VirtualDrive;
use crate::vtl::faults::{Account, Fault, Faults, Operation, StruckLog};
use crate::vtl::small_file;
use crate::vtl::small_file::write_whole;
use capstan_medium::tape::TapeError;
use capstan_medium::tape::error::{damaged, failed};
use capstan_medium::tape::{DriveInfo, Elements, Held, Place, TapeLibrary};

/// Seconds in which a robot moves a tape: an estimate, of a library of one frame.
const MOVE_S: f64 = 12.0;
/// How long a robot that others use is waited for.
const ROBOT_PATIENCE: Duration = Duration::from_secs(600);
/// Most slots, and most drives, of a library.
const MOST: u32 = 10_000;

/// What a virtual library is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Design {
    /// The type of its drives.
    pub model: String,
    /// How many.
    pub drives: u32,
    /// Slots for tapes.
    pub slots: u32,
    /// Slots by which tapes come and go.
    #[serde(default)]
    pub mail_slots: u32,
    /// It has one drive and no robot: its slots are a shelf, from which somebody takes the tapes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// Bytes of a tape; what the drive's tapes hold, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// How many times as fast as the world its clock runs.
    #[serde(default = "one")]
    pub scale: f64,
    /// How many bytes the drives' compression makes one.
    #[serde(default = "one")]
    pub ratio: f64,
}

fn one() -> f64 {
    1.0
}

/// A virtual library.
#[derive(Debug)]
pub struct Library {
    dir: PathBuf,
    name: String,
    design: Design,
    model: &'static DriveModel,
    clock: Arc<Clock>,
    /// Faults of the robot of which only this process knows.
    faults: Account,
    struck: StruckLog,
    locks: Locks,
    jammed: bool,
}

impl Library {
    /// Makes a library in a new or empty directory, with a tape in each of the first `tapes` slots.
    pub fn create(dir: &Path, design: &Design, tapes: u32) -> Result<Self, TapeError> {
        check(dir, design, tapes)?;
        let model = model_of(dir, design)?;
        let is_blank = fs::read_dir(dir).is_ok_and(|mut names| names.next().is_none());
        if !is_blank {
            make_directory(dir)?;
        }
        make_directory(&dir.join("tapes"))?;
        let capacity = design.capacity.map_or(model.capacity, |bytes| bytes as f64);
        let mut inventory = Vec::new();
        for n in 1..=tapes {
            let barcode = format!("V{n:05}{}", suffix(&design.model));
            let label = Label {
                barcode: barcode.clone(),
                capacity,
                write_protected: false,
                loads: 0,
                passes: 0.0,
                cleanings: None,
                media: None,
            };
            Cartridge::create(&tape_path(dir, &barcode), &label)?;
            inventory.push(Held { place: Place::Slot(n), barcode, from: None });
        }
        write_inventory(dir, &inventory)?;
        let path = dir.join("library.toml");
        let text = toml_of(design);
        // Last: a directory without it is no library.
        write_whole(&path, &text).map_err(failed("write", &path))?;
        durable::synchronise_way_to(dir).map_err(failed("make durable the name of", dir))?;
        Self::open(dir)
    }

    /// Opens one.
    pub fn open(dir: &Path) -> Result<Self, TapeError> {
        let path = dir.join("library.toml");
        let Some(text) = small_file::read_if_there(&path)? else {
            return Err(TapeError::Library {
                library: dir.display().to_string(),
                problem: Problem::new("there is no virtual library")
                    .hint("`capstan vtl create` makes one"),
            });
        };
        let design: Design = toml::from_str(&text).map_err(|e| damaged(&path, e.message()))?;
        check(dir, &design, 0)?;
        let model = model_of(dir, &design)?;
        let clock = Arc::new(Clock::real(design.scale));
        let (dir, faults) = (dir.to_owned(), Account::default());
        let name = dir.display().to_string();
        let (struck, locks) = (StruckLog::default(), Locks::default());
        Ok(Self { dir, name, design, model, clock, faults, struck, locks, jammed: false })
    }

    /// With a clock that costs no time.
    pub fn in_virtual_time(mut self) -> Self {
        self.clock = Arc::new(Clock::virtual_time());
        self
    }

    /// The same at a device host, which keeps what faults strike and what is locked.
    pub fn at_host(self, struck: StruckLog, locks: Locks) -> Self {
        Self { struck, locks, ..self }
    }

    /// Gives its robot a plan of faults.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = Account::of_process(&self.robot_name(), faults, &self.struck);
    }

    /// Plans faults of a drive, or of the robot where no drive is named. They are counted from its next opening on, by whoever opens
    /// it, and each strikes once.
    pub fn plan_faults(&self, drive: Option<u32>, faults: &str) -> Result<(), TapeError> {
        let plan = faults.parse::<Faults>().map_err(|e| self.says(e.problem()))?;
        if let Some(number) = drive {
            self.refuse_nowhere(Place::Drive(number))?;
        }
        if plan.of_robot().any(|of_robot| of_robot != drive.is_none()) {
            let what = "the robot moves tapes, and a drive does the rest: write move:N=jam without --drive, all else with it";
            return Err(self.says(what.to_owned()));
        }
        Account::begin(&self.dir.join(faults_name(drive)), faults)
    }

    fn robot_name(&self) -> String {
        format!("the robot of {}", self.name)
    }

    /// What it is.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// Its clock.
    pub fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// All tapes that are in it, by place.
    pub fn tapes(&self) -> Result<Vec<Held>, TapeError> {
        let path = inventory_path(&self.dir);
        let text = small_file::read(&path)?;
        let mut held: Vec<Held> =
            serde_json::from_str(&text).map_err(|e| damaged(&path, &e.to_string()))?;
        held.sort_by_key(|h| h.place);
        Ok(held)
    }

    fn carry(&mut self, from: Place, to: Place) -> Result<(), TapeError> {
        let _robot = self.wait_for_robot()?;
        // A drive that is in use keeps its tape.
        let _drives = [from, to]
            .into_iter()
            .filter_map(|place| if let Place::Drive(n) = place { Some(n) } else { None })
            .map(|n| self.lock_drive(n))
            .collect::<Result<Vec<_>, _>>()?;
        self.refuse_nowhere(from)?;
        self.refuse_nowhere(to)?;
        let mut held = self.tapes()?;
        if let Some(there) = held.iter().find(|h| h.place == to) {
            return Err(self.says(
                Problem::new(format!("{to} holds tape {} already", there.barcode))
                    .hint("move that first"),
            ));
        }
        let Some(moved) = held.iter_mut().find(|h| h.place == from) else {
            return Err(self.holds_none(from));
        };
        self.refuse_jammed()?;
        self.clock.wait_until(self.clock.now() + MOVE_S);
        moved.from = matches!(to, Place::Drive(_)).then_some(from);
        moved.place = to;
        write_inventory(&self.dir, &held)
    }

    /// Refuses where the robot is jammed, or jams now by plan.
    fn refuse_jammed(&mut self) -> Result<(), TapeError> {
        if !self.jammed {
            let path = self.dir.join(faults_name(None));
            let mut planned = Account::open(&path, &self.robot_name(), &self.struck)?;
            let of_all = planned.next(Operation::Move)?;
            let own = self.faults.next(Operation::Move)?;
            self.jammed = of_all.or(own) == Some(Fault::Jam);
        }
        if self.jammed {
            return Err(TapeError::Robot {
                library: self.name.clone(),
                problem: Problem::new("its robot is jammed").hint("open it and look"),
            });
        }
        Ok(())
    }

    /// A drive for this process alone, with the tape that is in it.
    pub fn drive(&self, number: u32) -> Result<VirtualDrive, TapeError> {
        self.refuse_nowhere(Place::Drive(number))?;
        let lock = self.lock_drive(number)?;
        let name = format!("{} of {}", Place::Drive(number), self.dir.display());
        let mut drive = VirtualDrive::new(&name, self.model, self.clock.clone(), self.design.ratio);
        let held = self.tapes()?;
        if let Some(there) = held.iter().find(|h| h.place == Place::Drive(number)) {
            let tape = Cartridge::open(&tape_path(&self.dir, &there.barcode))?;
            // One that cleans is nothing to write on.
            if tape.label.cleanings.is_none() {
                drive.load(tape)?;
            }
        }
        drive.set_dirty_mark(self.dirty_mark(number));
        let plan = self.dir.join(faults_name(Some(number)));
        drive.count_faults(Account::open(&plan, &name, &self.struck)?);
        drive.hold(lock);
        Ok(drive)
    }

    fn refuse_nowhere(&self, place: Place) -> Result<(), TapeError> {
        let (n, most) = match place {
            Place::Drive(n) => (n, self.design.drives),
            Place::Slot(n) => (n, self.design.slots),
            Place::Mail(n) => (n, self.design.mail_slots),
        };
        match (1..=most).contains(&n) {
            true => Ok(()),
            false => Err(self.says(format!("it has no {place}"))),
        }
    }

    fn holds_none(&self, place: Place) -> TapeError {
        let problem = Problem::new(format!("{place} holds no tape"));
        self.says(problem.hint("`capstan library status` shows where they are"))
    }

    fn says(&self, problem: impl Into<Problem>) -> TapeError {
        let (library, problem) = (self.dir.display().to_string(), problem.into());
        TapeError::Library { library, problem }
    }
}

impl TapeLibrary for Library {
    fn name(&self) -> &str {
        &self.name
    }

    fn robot(&self) -> String {
        fs::canonicalize(&self.dir).unwrap_or_else(|_| self.dir.clone()).display().to_string()
    }

    fn elements(&self) -> Elements {
        Elements {
            drives: self.design.drives,
            slots: self.design.slots,
            mail_slots: self.design.mail_slots,
        }
    }

    fn inventory(&mut self) -> Result<Vec<Held>, TapeError> {
        self.tapes()
    }

    fn move_tape(&mut self, from: Place, to: Place) -> Result<(), TapeError> {
        self.carry(from, to)
    }

    fn unload_drive(&mut self, number: u32) -> Result<(), TapeError> {
        self.refuse_nowhere(Place::Drive(number))?;
        let _lock = self.lock_drive(number)?;
        self.clock.pass(self.model.unload_s);
        Ok(())
    }

    fn drive_info(&mut self, number: u32) -> Result<DriveInfo, TapeError> {
        self.refuse_nowhere(Place::Drive(number))?;
        let dirty = self.dirty_mark(number).exists();
        Ok(DriveInfo {
            model: format!("virtual {}", self.design.model),
            in_use: self.user_of(number),
            note: dirty.then(|| "asks to be cleaned".to_owned()),
            ..DriveInfo::default()
        })
    }

    fn cleanings_left(&mut self, barcode: &str) -> Option<u32> {
        Cartridge::open(&tape_path(&self.dir, barcode)).ok()?.label.cleanings
    }

    fn clean(&mut self, drive: u32, tape_at: Place) -> Result<Option<u32>, TapeError> {
        self.clean_drive(drive, tape_at).map(Some)
    }
}

impl Changer for Library {
    fn claim_drive(&mut self, number: u32) -> Result<Box<dyn Send>, TapeError> {
        self.refuse_nowhere(Place::Drive(number))?;
        Ok(Box::new(self.claim(number)?))
    }

    fn open_drive(&mut self, number: u32) -> Result<Box<dyn TapeDrive>, TapeError> {
        Ok(Box::new(self.drive(number)?))
    }
}

/// Others may look into it, whatever the umask, and no more.
fn make_directory(path: &Path) -> Result<(), TapeError> {
    let made = DirBuilder::new().mode(0o755).create(path);
    made.map_err(failed("make the directory", path))
}

fn faults_name(drive: Option<u32>) -> String {
    drive.map_or("robot.faults".to_owned(), |n| format!("drive-{n}.faults"))
}

fn check(dir: &Path, design: &Design, tapes: u32) -> Result<(), TapeError> {
    let bad = |problem: &str| {
        let library = dir.display().to_string();
        Err(TapeError::Library { library, problem: problem.into() })
    };
    if !(1..=MOST).contains(&design.drives)
        || !(1..=MOST).contains(&design.slots)
        || design.mail_slots > MOST
    {
        return bad("it needs 1 to 10,000 drives and slots, and at most 10,000 mail slots");
    }
    if tapes > design.slots {
        return bad("it has fewer slots than tapes");
    }
    if design.alone && (design.drives, design.mail_slots) != (1, 0) {
        return bad("a drive that stands alone is one drive without mail slots");
    }
    let sane = |value: f64, most: f64| value.is_finite() && value > 0.0 && value <= most;
    if !sane(design.scale, 1e9) || !sane(design.ratio, 100.0) || design.capacity == Some(0) {
        return bad("scale must be above 0 and at most 10^9, ratio at most 100, capacity above 0");
    }
    Ok(())
}

fn model_of(dir: &Path, design: &Design) -> Result<&'static DriveModel, TapeError> {
    DriveModel::named(&design.model).ok_or_else(|| TapeError::Library {
        library: dir.display().to_string(),
        problem: Problem::new(format!("there is no drive model '{}'", design.model))
            .hint(format!("there are {}", DriveModel::names().join(", "))),
    })
}

fn toml_of(design: &Design) -> String {
    let mut text = format!(
        "model = \"{}\"\ndrives = {}\nslots = {}\nmail_slots = {}\nscale = {:?}\nratio = {:?}\n",
        design.model, design.drives, design.slots, design.mail_slots, design.scale, design.ratio
    );
    if design.alone {
        text.push_str("alone = true\n");
    }
    if let Some(capacity) = design.capacity {
        text.push_str(&format!("capacity = {capacity}\n"));
    }
    text
}

/// What the makers put behind the number on a sticker: L9 for LTO-9.
fn suffix(model: &str) -> String {
    model.strip_prefix("lto-").map(|n| format!("L{n}")).unwrap_or_default()
}

fn tape_path(dir: &Path, barcode: &str) -> PathBuf {
    dir.join("tapes").join(format!("{barcode}.tape"))
}

fn inventory_path(dir: &Path) -> PathBuf {
    dir.join("inventory.json")
}

fn write_inventory(dir: &Path, held: &[Held]) -> Result<(), TapeError> {
    let path = inventory_path(dir);
    let text = serde_json::to_string_pretty(held).map_err(|e| damaged(&path, &e.to_string()))?;
    write_whole(&path, &text).map_err(failed("write", &path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Read, TapeDrive};

    pub(super) fn design() -> Design {
        Design {
            model: "lto-9".into(),
            drives: 2,
            slots: 4,
            mail_slots: 1,
            alone: false,
            capacity: Some(100_000_000),
            scale: 1.0,
            ratio: 1.0,
        }
    }

    pub(super) fn library() -> (tempfile::TempDir, Library) {
        let dir = tempfile::tempdir().unwrap();
        let library = Library::create(&dir.path().join("vtl"), &design(), 3).unwrap();
        (dir, library.in_virtual_time())
    }

    #[test]
    fn tapes_move_and_keep_what_is_on_them() {
        let (_dir, mut library) = library();
        library.move_tape(Place::Slot(2), Place::Drive(1)).unwrap();
        {
            let mut drive = library.drive(1).unwrap();
            assert_eq!(drive.tape().unwrap().label.barcode, "V00002L9");
            drive.write_block(b"hello").unwrap();
            drive.write_filemark().unwrap();
            let busy = library.move_tape(Place::Drive(1), Place::Slot(2)).unwrap_err();
            assert!(busy.to_string().contains("in use"), "{busy}");
            drive.eject().unwrap();
        }
        library.move_tape(Place::Drive(1), Place::Drive(2)).unwrap();
        let at = |library: &Library| {
            let held = library.tapes().unwrap().into_iter();
            held.map(|h| format!("{}: {}", h.place, h.barcode)).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(at(&library), "drive 2: V00002L9, slot 1: V00001L9, slot 3: V00003L9");
        let mut drive = library.drive(2).unwrap();
        let mut block = [0; 10];
        assert_eq!(drive.read_block(&mut block).unwrap(), Read::Block(5));
        assert_eq!(&block[..5], b"hello");
        drop(drive);
        library.move_tape(Place::Drive(2), Place::Mail(1)).unwrap();
        // Another process sees the same.
        assert_eq!(at(&Library::open(&library.dir).unwrap()), at(&library));
        assert_eq!(Library::open(&library.dir).unwrap().design(), &design());
    }

    #[test]
    fn what_cannot_be_moved_is_said() {
        let (_dir, mut library) = library();
        let mut says = |from, to, words: &str| {
            let error = library.move_tape(from, to).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        says(Place::Slot(4), Place::Drive(1), "slot 4 holds no tape");
        says(Place::Slot(1), Place::Slot(2), "holds tape V00002L9 already");
        says(Place::Slot(1), Place::Drive(3), "no drive 3");
        says(Place::Mail(0), Place::Drive(1), "no mail slot 0");
        library.set_faults("move:1=jam".parse().unwrap());
        for _ in 0..2 {
            let error = library.move_tape(Place::Slot(1), Place::Drive(1)).unwrap_err();
            assert!(error.to_string().contains("jammed"), "{error}");
        }
        assert_eq!(library.tapes().unwrap().len(), 3);
    }

    #[test]
    fn nonsense_is_refused_before_anything_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vtl");
        let bad = [
            Design { model: "floppy".into(), ..design() },
            Design { drives: 0, ..design() },
            Design { slots: 2, ..design() },
            Design { scale: 0.0, ..design() },
            Design { ratio: f64::NAN, ..design() },
        ];
        for design in bad {
            assert!(Library::create(&path, &design, 3).is_err(), "{design:?}");
            assert!(!path.exists());
        }
        fs::create_dir(&path).unwrap();
        Library::create(&path, &design(), 0).unwrap();
        assert!(Library::create(&path, &design(), 0).is_err(), "there is one already");
        fs::write(path.join("library.toml"), "model = 1").unwrap();
        assert!(matches!(Library::open(&path), Err(TapeError::Damaged { .. })));
    }
}
