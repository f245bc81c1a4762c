//! One life of a cell: sessions in any order, and what fails meanwhile.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use capstan_address::{Address, HostName, store};
use capstan_cell::keyring::Secrets;
use capstan_cell::observe::Stop;
use capstan_cell::prune::{Count, KeepRules, PruneRequest};
use capstan_cell::report::Report;
use capstan_cell::request::{
    BackupRequest, ConsolidateRequest, CopyRequest, CopyWhat, Level, VerifyRequest, VersionName,
};
use capstan_cell::{Cell, VersionState};
use capstan_devices::host::{Kinds, LocalDevices};
use capstan_devices::memory::{FaultyStorage, Memory};
use capstan_media_agent::agent::LocalMediaAgent;
use capstan_medium::host::DeviceHost;
use capstan_port::disk::DiskAgent;
use capstan_port::media::MediaAgent;
use capstan_port::{Agents, Clients};
use capstan_remote::connection::Connection;
use tempfile::TempDir;

use crate::behind::{self, CutAfter};
use crate::dice::Dice;
use crate::disk::Cut;
use crate::far::Far;
use crate::support::{self, Deaf, State};

/// Sessions of one life.
const LENGTH: usize = 10;
/// The names of the disks, which are stores in memory.
const DISKS: [&str; 3] = ["m", "n", "o"];

/// The clients of the cell: the host that it is on, and two more.
const CLIENTS: [&str; 3] = ["", "web1", "web2"];

/// The clients that are other hosts.
struct Others(Arc<Cut>);

impl Clients for Others {
    fn disk_agent(&self, host: &HostName) -> Option<Arc<dyn DiskAgent>> {
        let is_client = CLIENTS[1..].contains(&host.as_str());
        is_client.then(|| Arc::new(crate::disk::Agent::of(self.0.clone())) as Arc<dyn DiskAgent>)
    }
}

/// A client of the cell, as requests name it.
fn named(client: &str) -> Option<HostName> {
    (!client.is_empty()).then(|| client.parse().unwrap())
}

/// What a tree had.
type Tree = BTreeMap<PathBuf, State>;

/// What lives came to.
#[derive(Debug, Default)]
pub struct Sums {
    pub sessions: u64,
    pub completed: u64,
    pub failed: u64,
    pub restored: u64,
    /// Of those, from one medium alone.
    pub alone: u64,
}

impl Sums {
    pub fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.completed += other.completed;
        self.failed += other.failed;
        self.restored += other.restored;
        self.alone += other.alone;
    }
}

/// What fails in a session.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Nothing,
    /// The power of the disk that is written, after so many operations.
    Power(u64),
    /// The disk that is written is full after so many bytes.
    Full(u64),
    /// The link from disk agent to media agent is cut after so many blocks.
    Cut(u64),
    /// What the manager recorded since the session began is lost.
    Forgotten,
    /// The connection to the device host is cut after so many bytes.
    Apart(u64),
}

pub struct Life {
    dir: TempDir,
    dice: Dice,
    disks: Memory,
    cut: Arc<Cut>,
    /// Whether the devices are behind a connection.
    is_far: bool,
    far: Far,
    /// When the connection to the disk agent is cut, where it is behind one.
    wire: Option<Arc<CutAfter>>,
    /// What serves it there.
    served: RefCell<Option<Connection>>,
    /// Of each session that wrote a version, whose files it has, and what these were.
    states: BTreeMap<String, (&'static str, Arc<Tree>)>,
    pub told: Vec<String>,
    pub sums: Sums,
}

/// What went wrong.
type Wrong = String;

/// What a session came to.
#[derive(Debug)]
struct Done {
    status: String,
    session: String,
    errors: String,
}

impl From<Report> for Done {
    fn from(report: Report) -> Self {
        let errors = format!("{:?}", report.errors);
        Self { status: report.status, session: report.session, errors }
    }
}

impl Life {
    pub fn new(seed: u64) -> Self {
        let life = Self {
            dir: support::fast_dir(),
            dice: Dice::new(seed),
            disks: Memory::default(),
            cut: Arc::default(),
            is_far: seed % 4 == 3,
            far: Far::default(),
            wire: seed.is_multiple_of(8).then(Arc::default),
            served: RefCell::default(),
            states: BTreeMap::new(),
            told: Vec::new(),
            sums: Sums::default(),
        };
        for disk in DISKS {
            life.disks.put(disk, FaultyStorage::new(None));
        }
        for (at, client) in CLIENTS.iter().enumerate() {
            let source = life.source(client);
            fs::create_dir_all(source.join("sub")).unwrap();
            for n in 0..6 {
                let seed = seed ^ (at * 6 + n) as u64;
                fs::write(source.join(name(n)), support::bytes(20_000, seed)).unwrap();
            }
        }
        life
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What is backed up of a client. All call it the same.
    fn source(&self, client: &str) -> PathBuf {
        self.at(&format!("client-{client}")).join("source")
    }

    fn cell(&self) -> Cell {
        let disk = Arc::new(crate::disk::Agent::of(self.cut.clone()));
        let disk: Arc<dyn DiskAgent> = match &self.wire {
            None => disk,
            Some(wire) => {
                let (there, served) = behind::disk(disk, wire);
                self.served.replace(Some(served));
                Arc::new(there)
            }
        };
        let clients = Arc::new(Others(self.cut.clone()));
        let media: Arc<dyn MediaAgent> = Arc::new(LocalMediaAgent::system().unwrap());
        let kinds = Kinds::default().and(store::MEMORY, Arc::new(self.disks.clone()));
        let devices: Arc<dyn DeviceHost> = Arc::new(LocalDevices::with(kinds));
        let (devices, media) = match self.is_far {
            true => self.far.connected(devices, &media),
            false => (devices, media),
        };
        let agents = Agents { disk, clients, media, devices };
        Cell::open(&self.at("home"), Secrets::none(), agents).unwrap()
    }

    /// Lives it; says what is not as it has to be.
    pub fn live(&mut self) -> Result<(), Wrong> {
        for _ in 0..LENGTH {
            match self.dice.below(12) {
                0..=5 => self.backup()?,
                6 | 7 => self.copy()?,
                8 => self.verify()?,
                9 => self.prune()?,
                10 => self.consolidate()?,
                _ => self.import()?,
            }
            if self.dice.once_in(4) {
                self.check()?;
            }
        }
        self.check()
    }

    fn change(&mut self, client: &str) {
        for _ in 0..1 + self.dice.below(3) {
            let path = self.source(client).join(name(self.dice.below(8)));
            match self.dice.once_in(5) {
                true => drop(fs::remove_file(path)),
                false => {
                    let length = self.dice.below(60_000);
                    fs::write(path, support::bytes(length, self.dice.next())).unwrap();
                }
            }
        }
    }

    fn fault(&mut self) -> Fault {
        match self.dice.below(if self.is_far { 13 } else { 9 }) {
            0 | 1 => Fault::Power(self.dice.below(60) as u64),
            2 => Fault::Full(self.dice.below(200_000) as u64),
            3 => Fault::Cut(self.dice.below(8) as u64),
            4 => Fault::Forgotten,
            9.. => Fault::Apart(self.dice.below(60_000) as u64),
            _ => Fault::Nothing,
        }
    }

    /// Runs a session on a disk while something fails, and puts right what can be put right.
    fn session(
        &mut self,
        what: &str,
        on: &str,
        fault: Fault,
        run: &dyn Fn(&Cell) -> capstan_cell::Result<Done>,
    ) -> Option<Done> {
        let disk = self.disks.get(on).unwrap_or_default();
        match fault {
            Fault::Power(after) => disk.fail_after(after),
            Fault::Full(after) => disk.full_after(after),
            Fault::Cut(after) => match &self.wire {
                // A block is some writes, and so is what is said besides.
                Some(wire) => wire.set(Some(after * 9)),
                None => self.cut.after(Some(after)),
            },
            Fault::Apart(after) => self.far.cut_after(after),
            Fault::Forgotten => copy_dir(&self.at("home"), &self.at("home-before")),
            Fault::Nothing => {}
        }
        let done = run(&self.cell());
        self.cut.after(None);
        self.far.ended();
        self.wire.iter().for_each(|wire| wire.set(None));
        match fault {
            Fault::Power(_) => {
                let dice = &mut self.dice;
                let left = disk.after_crash(&mut |n| dice.next() % n.max(1));
                self.disks.put(on, left);
            }
            Fault::Full(_) => disk.full_after(1 << 40),
            Fault::Forgotten if self.at("home-before").exists() => {
                fs::remove_dir_all(self.at("home")).unwrap();
                fs::rename(self.at("home-before"), self.at("home")).unwrap();
            }
            _ => {}
        }
        self.sums.sessions += 1;
        let (told, done) = match done {
            Ok(done) => (done.status.clone(), Some(done)),
            Err(e) => (e.to_string(), None),
        };
        match told.as_str() {
            "completed" => self.sums.completed += 1,
            _ => self.sums.failed += 1,
        }
        self.told.push(format!("{what} on {on} ({fault:?}): {told}"));
        done
    }

    fn backup(&mut self) -> Result<(), Wrong> {
        let client = CLIENTS[self.dice.below(4).saturating_sub(1)];
        self.change(client);
        let (device, mirror) = (*self.dice.pick(&DISKS), *self.dice.pick(&DISKS));
        let fault = self.fault();
        let mut request = BackupRequest {
            level: self.dice.once_in(3).then_some(Level::Full),
            resume: self.dice.once_in(3),
            segment_size: Some(64 << 10),
            client: named(client),
            device: device_of(device),
            ..support::backup_request(&self.source(client), Path::new("/nowhere"))
        };
        if mirror != device && self.dice.once_in(3) {
            request.mirrors = vec![device_of(mirror)];
        }
        let what = format!(
            "backup of {client}{}{}{}",
            if request.resume { " --resume" } else { "" },
            if request.level.is_some() { " --full" } else { "" },
            if request.mirrors.is_empty() { String::new() } else { format!(" --mirror {mirror}") },
        );
        let had = Arc::new(support::tree(&self.source(client)));
        let report = self.session(&what, device, fault, &|cell| {
            cell.backup(&request, &Deaf, &Stop::default()).map(Done::from)
        });
        let Some(report) = report else { return Ok(()) };
        self.states.insert(report.session.clone(), (client, had));
        // One that goes on has what it committed before on other media.
        let is_whole = request.level.is_some() && !request.resume && !request.mirrors.is_empty();
        if is_whole && report.status == "completed" && matches!(fault, Fault::Nothing) {
            self.restores("made", &report.session, Some(device))?;
            self.restores("made", &report.session, Some(mirror))?;
        }
        Ok(())
    }

    /// Sessions of complete versions that are known, oldest first.
    fn complete(&self) -> Vec<String> {
        let cell = self.cell();
        if !cell.has_object("made").unwrap() {
            return Vec::new();
        }
        let mut all = cell.versions_of_object("made").unwrap();
        all.retain(|version| version.state == VersionState::Completed);
        all.into_iter().rev().map(|version| version.session).collect()
    }

    fn any_complete(&mut self) -> Option<VersionName> {
        let all = self.complete();
        let session = all.get(self.dice.below(all.len()))?;
        Some(VersionName::parse(&format!("made@{session}")))
    }

    fn copy(&mut self) -> Result<(), Wrong> {
        let Some(version) = self.any_complete() else { return Ok(()) };
        let (device, fault) = (*self.dice.pick(&DISKS), self.fault());
        let request = CopyRequest {
            what: CopyWhat::Version(version.clone()),
            only: false,
            log_level: None,
            device: device_of(device),
            eject_to: None,
            block_size: None,
            new_medium: false,
            encrypt: None,
        };
        let report = self.session("copy", device, fault, &|cell| {
            cell.copy(&request, &Deaf, &Stop::default()).map(Done::from)
        });
        match report {
            Some(report) if report.status == "completed" && !matches!(fault, Fault::Forgotten) => {
                self.restores(&version.name, &version.session.unwrap_or_default(), Some(device))
            }
            _ => Ok(()),
        }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        let Some(version) = self.any_complete() else { return Ok(()) };
        let request = VerifyRequest::Version(version);
        let report = self.session("verify", "", Fault::Nothing, &|cell| {
            cell.verify(&request, &Deaf, &Stop::default()).map(Done::from)
        });
        match report {
            Some(report) if report.status == "completed" => Ok(()),
            Some(done) => Err(format!("a complete version does not verify: {}", done.errors)),
            None => Err("a complete version cannot be verified".to_owned()),
        }
    }

    fn prune(&mut self) -> Result<(), Wrong> {
        let last = Some(Count::Last(2));
        let request = PruneRequest {
            names: vec!["made".to_owned()],
            rules: KeepRules { last, ..KeepRules::default() },
            ..PruneRequest::default()
        };
        let (device, fault) = (*self.dice.pick(&DISKS), self.fault());
        // What a home does not know to be removed on purpose it misses: that is no fault.
        let fault = match fault {
            Fault::Forgotten | Fault::Full(_) | Fault::Apart(_) => Fault::Nothing,
            other => other,
        };
        self.session("prune --keep-last 2", device, fault, &|cell| {
            let pruned = cell.prune(&request, &Deaf, &Stop::default())?;
            let status = if pruned.errors == 0 { "completed" } else { "failed" }.to_owned();
            Ok(Done { status, session: String::new(), errors: String::new() })
        });
        Ok(())
    }

    fn consolidate(&mut self) -> Result<(), Wrong> {
        let Some(version) = self.any_complete() else { return Ok(()) };
        let had = version.session.as_ref().and_then(|session| self.states.get(session)).cloned();
        let (device, fault) = (*self.dice.pick(&DISKS), self.fault());
        let request = ConsolidateRequest {
            version,
            device: Some(device_of(device)),
            pool: None,
            block_size: None,
            new_medium: false,
            encrypt: None,
        };
        let report = self.session("consolidate", device, fault, &|cell| {
            cell.consolidate(&request, &Deaf, &Stop::default()).map(Done::from)
        });
        if let (Some(report), Some(had)) = (report, had) {
            self.states.insert(report.session, had);
        }
        Ok(())
    }

    fn import(&mut self) -> Result<(), Wrong> {
        let device = *self.dice.pick(&DISKS);
        let address = device_of(device);
        self.session("import", device, Fault::Nothing, &|cell| {
            cell.import(&address, &Deaf, &Stop::default()).map(Done::from)
        });
        Ok(())
    }

    /// Whatever is recorded as completed restores.
    fn check(&mut self) -> Result<(), Wrong> {
        for session in self.complete() {
            self.restores("made", &session, None)?;
        }
        Ok(())
    }

    /// Restores a version, from one disk alone if that is named, and compares it.
    fn restores(&mut self, name: &str, session: &str, alone: Option<&str>) -> Result<(), Wrong> {
        let Some((client, had)) = self.states.get(session).cloned() else { return Ok(()) };
        let to = *self.dice.pick(&CLIENTS);
        let others: Vec<&str> =
            DISKS.into_iter().filter(|disk| alone.is_some_and(|alone| alone != *disk)).collect();
        let taken: Vec<_> = others.into_iter().map(|disk| (disk, self.disks.take(disk))).collect();
        let into = self.at("restored");
        let done =
            support::restore_to(&self.cell(), &format!("{name}@{session}"), &into, named(to));
        for (path, disk) in taken {
            if let Some(disk) = disk {
                self.disks.put(path, disk);
            }
        }
        let from = alone.map_or_else(String::new, |alone| format!(" from {alone} alone"));
        let which = format!("{name}@{session}{from}");
        let report = done.map_err(|e| format!("{which} does not restore: {e}"))?;
        if report.status != "completed" {
            return Err(format!("{which} restored {}: {:?}", report.status, report.errors));
        }
        let below = into.join(self.source(client).strip_prefix("/").unwrap());
        let found = support::tree(&below);
        self.sums.restored += 1;
        self.sums.alone += u64::from(alone.is_some());
        match found == *had {
            true => Ok(()),
            false => {
                Err(format!("{which} is not what was backed up: {}", difference(&found, &had)))
            }
        }
    }
}

/// A disk as a device, by its name as the database has it.
fn device_of(disk: &str) -> Address {
    Address::of_record(format!("mem:{disk}"))
}

fn name(n: usize) -> String {
    match n % 3 {
        0 => format!("sub/f{n}"),
        _ => format!("f{n}"),
    }
}

fn difference(found: &Tree, had: &Tree) -> String {
    let lacks = had.iter().filter(|(path, state)| found.get(*path) != Some(state));
    let more = found.keys().filter(|path| !had.contains_key(*path));
    let lacks: Vec<_> = lacks.map(|(path, _)| path.display().to_string()).collect();
    let more: Vec<_> = more.map(|path| path.display().to_string()).collect();
    format!("it lacks or has otherwise {lacks:?}, it has besides {more:?}")
}

/// Copies a directory of files and directories; nothing where there is none.
fn copy_dir(from: &Path, to: &Path) {
    let Ok(list) = fs::read_dir(from) else { return };
    fs::create_dir_all(to).unwrap();
    for entry in list {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy_dir(&path, &to),
            false => drop(fs::copy(&path, to).unwrap()),
        }
    }
}
