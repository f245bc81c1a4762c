//! Media of a kind that the cell never heard of: stores in memory, which a device host has as one more kind.
//!
//! A cell backs up to them, copies, mirrors, restores, verifies, prunes and imports, and makes an array of them, through the device host
//! of this process as it is.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

#[path = "../../cell/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use capstan_address::{Address, store};
use capstan_cell::keyring::Secrets;
use capstan_cell::observe::Stop;
use capstan_cell::prune::{Count, KeepRules, PruneRequest};
use capstan_cell::repair::RepairRequest;
use capstan_cell::report::Report;
use capstan_cell::request::{BackupRequest, CopyRequest, CopyWhat, VerifyRequest, VersionName};
use capstan_cell::{Cell, VersionState};
use capstan_devices::host::{Kinds, LocalDevices};
use capstan_devices::memory::{FaultyStorage, Memory};
use capstan_medium::host::Media;
use capstan_medium::names::HEADER_NAME;
use capstan_medium::storage::Storage;
use support::{Deaf, State};
use tempfile::TempDir;

struct House {
    dir: TempDir,
    memory: Memory,
}

/// A device by its name. Nobody writes this one on a command line; it is read as the database has it.
fn device(name: &str) -> Address {
    Address::of_record(name.to_owned())
}

impl House {
    /// A made tree, and blank stores of these names.
    fn with(stores: &[&str]) -> Self {
        let house = Self { dir: support::fast_dir(), memory: Memory::default() };
        stores.iter().for_each(|name| house.memory.put(*name, FaultyStorage::new(None)));
        fs::create_dir(house.at("source")).unwrap();
        support::make_tree(&house.at("source"), 3000);
        house
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A cell with a device host that has these stores.
    fn cell(&self, home: &str) -> Cell {
        let kinds = Kinds::default().and(store::MEMORY, Arc::new(self.memory.clone()));
        let agents = capstan_local::agents(LocalDevices::with(kinds)).unwrap();
        Cell::open(&self.at(home), Secrets::none(), agents).unwrap()
    }

    fn request(&self, to: &str) -> BackupRequest {
        let request = support::backup_request(&self.at("source"), Path::new("/nowhere"));
        BackupRequest { device: device(to), ..request }
    }

    fn tree(&self) -> BTreeMap<PathBuf, State> {
        support::tree(&self.at("source"))
    }

    /// Restores a version and compares it.
    fn restores(&self, cell: &Cell, version: &str, had: &BTreeMap<PathBuf, State>) {
        let into = self.at("restored");
        let report = support::restore(cell, version, &into).unwrap();
        assert_eq!(report.status, "completed", "{version}: {:?}", report.errors);
        let below = into.join(self.at("source").strip_prefix("/").unwrap());
        assert_eq!(support::tree(&below), *had, "{version}");
    }

    /// Without some stores, which are there again behind it.
    fn without(&self, away: &[&str], run: impl FnOnce()) {
        let taken: Vec<_> = away.iter().map(|name| (*name, self.memory.take(name))).collect();
        run();
        taken.into_iter().for_each(|(name, store)| self.memory.put(name, store.unwrap()));
    }
}

fn copy(to: &str, session: &str) -> CopyRequest {
    CopyRequest {
        what: CopyWhat::Version(VersionName::parse(&format!("made@{session}"))),
        only: false,
        log_level: None,
        device: device(to),
        eject_to: None,
        block_size: None,
        new_medium: false,
        encrypt: None,
    }
}

fn completed(report: Report) -> String {
    assert_eq!(report.status, "completed", "{:?}", report.errors);
    report.session
}

#[test]
fn a_cell_uses_stores_of_a_kind_that_it_does_not_know() {
    let house = House::with(&["a", "b", "c"]);
    let cell = house.cell("home");
    let (deaf, stop) = (Deaf, Stop::default());
    // A full to one store, mirrored to another; an incremental behind it.
    let request = BackupRequest { mirrors: vec![device("mem:b")], ..house.request("mem:a") };
    let first = completed(cell.backup(&request, &deaf, &stop).unwrap());
    let before = house.tree();
    fs::write(house.at("source/letters/new"), "new").unwrap();
    fs::remove_file(house.at("source/big")).unwrap();
    let request = BackupRequest { level: None, ..house.request("mem:a") };
    let second = completed(cell.backup(&request, &deaf, &stop).unwrap());
    let after = house.tree();
    // A copy of the chain to the third.
    completed(cell.copy(&copy("mem:c", &second), &deaf, &stop).unwrap());
    house.restores(&cell, &format!("made@{first}"), &before);
    house.restores(&cell, &format!("made@{second}"), &after);
    house.without(&["a", "c"], || house.restores(&cell, &format!("made@{first}"), &before));
    house.without(&["a", "b"], || house.restores(&cell, &format!("made@{second}"), &after));
    for medium in ["a", "b", "c"] {
        completed(cell.verify(&VerifyRequest::Medium(medium.to_owned()), &deaf, &stop).unwrap());
    }
    // What is recorded is the name as it was given, and a cell that is opened anew reads it.
    drop(cell);
    let cell = house.cell("home");
    let places: Vec<_> =
        cell.media_list(None).unwrap().into_iter().map(|m| m.medium.device).collect();
    assert_eq!(places, ["mem:a", "mem:b", "mem:c"].map(device));
    // A home that knows nothing of it imports the copy.
    let other = house.cell("other");
    completed(other.import(&device("mem:c"), &deaf, &stop).unwrap());
    house.restores(&other, &format!("made@{second}"), &after);
    drop(other);
    // Prune removes the old chain when a new full is there.
    let third = completed(cell.backup(&house.request("mem:a"), &deaf, &stop).unwrap());
    let names_before = house.memory.get("a").unwrap().list().unwrap();
    let rules = KeepRules { last: Some(Count::Last(1)), ..KeepRules::default() };
    let names = vec!["made".to_owned()];
    let prune = PruneRequest { names, rules, ..PruneRequest::default() };
    let pruned = cell.prune(&prune, &deaf, &stop).unwrap();
    assert_eq!(pruned.errors, 0);
    let left = cell.versions_of_object("made").unwrap();
    let left: Vec<_> = left.into_iter().filter(|v| v.state == VersionState::Completed).collect();
    assert_eq!(left.len(), 1);
    assert!(house.memory.get("a").unwrap().list().unwrap().len() < names_before.len());
    house.restores(&cell, &format!("made@{third}"), &after);
}

#[test]
fn a_lost_header_and_a_store_that_is_away_are_told() {
    let house = House::with(&["a"]);
    let cell = house.cell("home");
    let session = completed(cell.backup(&house.request("mem:a"), &Deaf, &Stop::default()).unwrap());
    let store = house.memory.get("a").unwrap();
    store.remove(HEADER_NAME).unwrap();
    let refused = cell.backup(&house.request("mem:a"), &Deaf, &Stop::default()).unwrap_err();
    assert!(refused.to_string().contains("mem:a"), "{refused}");
    let repair = RepairRequest {
        medium: "a".to_owned(),
        from: None,
        dry_run: false,
        as_it_is: false,
        remove_unreadable: false,
    };
    completed(cell.media_repair(&repair, &Deaf, &Stop::default()).unwrap());
    house.restores(&cell, &format!("made@{session}"), &house.tree());
    // Where it was, no other medium is made by itself.
    house.memory.put("a", FaultyStorage::new(None));
    let taken = cell.backup(&house.request("mem:a"), &Deaf, &Stop::default()).unwrap_err();
    assert!(taken.to_string().contains("mem:a"), "{taken}");
}

#[test]
fn an_array_is_made_of_them_and_a_lost_member_is_written_anew() {
    let house = House::with(&["a", "b", "c", "d"]);
    let cell = house.cell("home");
    let array = "rait5:mem:a,mem:b,mem:c";
    let session = completed(cell.backup(&house.request(array), &Deaf, &Stop::default()).unwrap());
    let had = house.tree();
    let version = format!("made@{session}");
    for lost in ["a", "b", "c"] {
        house.without(&[lost], || house.restores(&cell, &version, &had));
    }
    house.memory.take("b");
    let label = cell.media_list(None).unwrap().remove(0).medium.label;
    let (rebuilt, _) =
        cell.array_rebuild(&label, "2", &device("mem:d"), false, &Deaf, &Stop::default()).unwrap();
    assert!(rebuilt.segments > 0 && rebuilt.damaged.is_empty());
    house.without(&["a"], || house.restores(&cell, &version, &had));
    assert_eq!(cell.media_list(None).unwrap()[0].medium.device, device("rait5:mem:a,mem:d,mem:c"));
}

#[test]
fn a_store_is_there_for_the_hosts_that_were_given_it() {
    let house = House::with(&["a"]);
    completed(house.cell("home").backup(&house.request("mem:a"), &Deaf, &Stop::default()).unwrap());
    // Another host has other stores of that kind, or none of it: then that is no device.
    let others = Kinds::default().and(store::MEMORY, Arc::new(Memory::default()));
    let refused = LocalDevices::with(others).medium(&device("mem:a")).err().unwrap();
    assert!(refused.to_string().starts_with("cannot open mem:a"), "{refused}");
    let refused = LocalDevices::default().medium(&device("mem:a")).err().unwrap();
    assert!(refused.to_string().starts_with("'mem:a' is not a device"), "{refused}");
    // Two writers at once are kept apart.
    let kinds = Kinds::default().and(store::MEMORY, Arc::new(house.memory.clone()));
    let host = LocalDevices::with(kinds);
    let held = host.held(&device("mem:a")).unwrap();
    let refused = cell_error(&house);
    assert!(refused.contains("mem:a"), "{refused}");
    drop(held);
    completed(house.cell("home").backup(&house.request("mem:a"), &Deaf, &Stop::default()).unwrap());
}

fn cell_error(house: &House) -> String {
    let done = house.cell("home").backup(&house.request("mem:a"), &Deaf, &Stop::default());
    done.unwrap_err().to_string()
}
