//! Two cells in one process, at one virtual library: each backs up to its own tape and restores from it, and neither has what is the
//! other's.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use capstan_address::{Address, HostName};
use capstan_cell::Cell;
use capstan_cell::keyring::Secrets;
use capstan_cell::observe::Stop;
use capstan_cell::report::Report;
use capstan_cell::request::{BackupRequest, Level};
use capstan_medium::host::operator::Operator;
use capstan_medium::tape::ANOTHER_HOST;
use capstan_port::disk::DiskAgent;
use capstan_port::{Agents, Clients};
use capstan_tape::vtl::library::{Design, Library};
use support::{Deaf, agents, backup, backup_request, make_tree, restore, restore_to, tree};

/// A cell with what it backs up, and the tape that it backs up to.
struct House {
    cell: Cell,
    source: PathBuf,
    out: PathBuf,
    tape: Address,
}

impl House {
    fn new(dir: &Path, name: &str, barcode: &str) -> Self {
        let at = |what: &str| dir.join(format!("{what}-{name}"));
        let cell = Cell::open(&at("home"), Secrets::none(), agents()).unwrap();
        std::fs::create_dir(at("source")).unwrap();
        make_tree(&at("source"), 4096);
        std::fs::write(at("source").join("whose"), name).unwrap();
        let tape = format!("vtape:{}?tape={barcode}", dir.join("vtl").display()).parse().unwrap();
        Self { cell, source: at("source"), out: at("out"), tape }
    }

    fn backup(&self) -> Report {
        let of_directory = backup_request(&self.source, Path::new("/none"));
        let device = self.tape.clone();
        backup(&self.cell, &BackupRequest { device, segment_size: None, ..of_directory })
    }

    fn restore(&self) -> Report {
        let report = restore(&self.cell, "made", &self.out).unwrap();
        assert_eq!(report.status, "completed", "{:?}", report.errors);
        let back = self.out.join(self.source.strip_prefix("/").unwrap());
        assert!(tree(&self.source) == tree(&back));
        report
    }

    /// Whether it is the tape that a report says was in a drive, and the only one.
    fn was_alone_in(&self, report: &Report) -> bool {
        let own = self.tape.tapes().into_iter().map(|tape| tape.tape);
        report.drives.iter().map(|drive| drive.tape.clone()).eq(own)
    }

    fn imports(&self, tape: &Address) {
        let read = self.cell.import(tape, &Deaf, &Stop::default()).unwrap();
        assert!(read.status.starts_with("completed"), "{:?}", read.errors);
        assert_eq!(self.cell.idb().media().unwrap().len(), 2);
    }
}

#[test]
fn two_cells_of_one_process_do_not_meet() {
    let dir = tempfile::tempdir().unwrap();
    let design = Design {
        model: "lto-9".into(),
        drives: 2,
        slots: 4,
        mail_slots: 0,
        alone: false,
        capacity: Some(200_000_000),
        scale: 1e6,
        ratio: 1.0,
    };
    Library::create(&dir.path().join("vtl"), &design, 2).unwrap();
    let houses =
        [("one", "V00001L9"), ("two", "V00002L9")].map(|(n, t)| House::new(dir.path(), n, t));
    // One has an operator who waits; the other has nobody.
    houses[0].cell.devices().operator().set(Operator {
        patience: Some(Duration::from_secs(60)),
        tell: Box::new(|_| ()),
        board: Box::new(|_, _| ()),
    });
    assert!(!houses[1].cell.devices().operator().is_there());
    // At the same time, each in a drive of its own.
    std::thread::scope(|scope| {
        let each = houses.each_ref().map(|house| {
            scope.spawn(move || {
                assert!(house.was_alone_in(&house.backup()));
                assert!(house.was_alone_in(&house.restore()));
            })
        });
        each.into_iter().for_each(|one| one.join().unwrap());
    });
    // A tape that one looked at stays in his drive, and so the other does not get it.
    let [one, two] = &houses;
    for (cell, of_other) in [(&one.cell, two), (&two.cell, one)] {
        // Who waits gives back what he does not use.
        for house in &houses {
            house.cell.devices().medium(&house.tape).unwrap();
        }
        let refused = cell.import(&of_other.tape, &Deaf, &Stop::default()).unwrap_err();
        assert!(refused.is_busy() && refused.to_string().contains(ANOTHER_HOST), "{refused}");
        assert_eq!(cell.idb().media().unwrap().len(), 1);
    }
    // What one gives back is the other's to have.
    one.cell.devices().release_idle();
    two.imports(&one.tape);
    // A host ends with its cell, and gives back what it has.
    let [one, two] = houses;
    drop(two.cell);
    one.imports(&two.tape);
}

/// Homes of two names, as those of two hosts that one process serves: what each backs up is its own host's.
#[test]
fn each_cell_calls_its_host_by_its_own_name() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str, settings: &str| {
        let home = dir.path().join(name);
        std::fs::create_dir(&home).unwrap();
        std::fs::write(home.join("capstan.toml"), settings).unwrap();
        Cell::open(&home, Secrets::none(), agents()).unwrap()
    };
    let cells = [open("one", "host = \"one\"\n"), open("two", "host = \"two\"\n"), open("own", "")];
    let source = dir.path().join("source");
    std::fs::create_dir(&source).unwrap();
    make_tree(&source, 4096);
    let own = capstan_cell::system_host();
    for (cell, host) in cells.iter().zip(["one", "two", &own]) {
        let medium = dir.path().join(format!("medium-of-{host}"));
        assert_eq!(
            (
                cell.host().as_str(),
                backup(cell, &backup_request(&source, &medium)).host.to_string()
            ),
            (host, host.to_string())
        );
        let hosts =
            |of: Vec<capstan_idb::Object>| of.into_iter().map(|o| o.host).collect::<Vec<_>>();
        assert_eq!(hosts(cell.idb().objects().unwrap()), [host]);
        assert_eq!(cell.idb().media().unwrap()[0].hosts, [host]);
    }
}

/// A client, whose files are at this host too.
struct OneClient(Arc<dyn DiskAgent>);

impl Clients for OneClient {
    fn disk_agent(&self, host: &HostName) -> Option<Arc<dyn DiskAgent>> {
        (*host == "web1").then(|| self.0.clone())
    }
}

/// The same name at two hosts is two objects: neither builds on the other's versions.
#[test]
fn an_object_is_of_the_client_whose_files_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let agents = agents();
    let agents = Agents { clients: Arc::new(OneClient(agents.disk.clone())), ..agents };
    let cell = Cell::open(&dir.path().join("home"), Secrets::none(), agents).unwrap();
    let source = dir.path().join("source");
    std::fs::create_dir(&source).unwrap();
    make_tree(&source, 4096);
    let level = Some(Level::Incremental);
    let of_own = BackupRequest { level, ..backup_request(&source, &dir.path().join("medium")) };
    let of_client = BackupRequest { client: Some("web1".parse().unwrap()), ..of_own.clone() };
    let (own, first) = (backup(&cell, &of_own), backup(&cell, &of_client));
    assert!(own.host == *cell.host() && first.host == "web1");
    assert_eq!((first.method.as_str(), first.base_session), ("full", None));
    let second = backup(&cell, &of_client);
    assert_eq!((second.host.as_str(), second.base_session), ("web1", Some(first.session)));
    let nobody = BackupRequest { client: Some("web9".parse().unwrap()), ..of_own };
    let refused = cell.backup(&nobody, &Deaf, &Stop::default()).unwrap_err().to_string();
    assert!(refused.starts_with("'web9' is no client of this cell"), "{refused}");
    let restored = restore_to(
        &cell,
        &format!("made@{}", second.session),
        &dir.path().join("out"),
        Some("web9".parse().unwrap()),
    );
    assert!(restored.unwrap_err().to_string().starts_with("'web9' is no client"));
}
