//! A prune that removes versions from a medium while an import reads it: the import leaves nothing on record that is gone.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use capstan_cell::Cell;
use capstan_cell::keyring::Secrets;
use capstan_cell::observe::{Observer, Progress, Stop};
use capstan_cell::prune::{Count, KeepRules, PruneRequest};
use capstan_engine::message::{Listener, Message};
use support::{Deaf, agents, backup, backup_request, make_tree, restore, tree};

/// Prunes at the first message: an import says one of a damaged catalog when it comes to it.
struct Pruner {
    home: PathBuf,
    has_pruned: AtomicBool,
}

impl Listener for Pruner {
    fn message(&self, message: Message) {
        if self.has_pruned.swap(true, Ordering::Relaxed) {
            return;
        }
        assert!(message.text.contains("are taken from its streams"), "{message:?}");
        let cell = Cell::open(&self.home, Secrets::none(), agents()).unwrap();
        let rules = KeepRules { last: Some(Count::Last(1)), ..KeepRules::default() };
        let request = PruneRequest { rules, ..PruneRequest::default() };
        let pruned = cell.prune(&request, &Deaf, &Stop::default()).unwrap();
        assert_eq!(pruned.removed_versions, 2);
    }
}

impl Observer for Pruner {
    fn progress(&self, _progress: &Progress) {}
}

fn segment(medium: &Path, number: u32) -> PathBuf {
    medium.join(format!("{number:08}.segment"))
}

#[test]
fn what_a_prune_removes_while_a_medium_is_imported_is_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("source")).unwrap();
    make_tree(&at("source"), 1024);
    let cell = Cell::open(&at("home"), Secrets::none(), agents()).unwrap();
    let request = backup_request(&at("source"), &at("medium"));
    for _ in 0..3 {
        backup(&cell, &request);
    }
    // Of three fulls the second one's catalog is damaged.
    let numbers = fs::read_dir(at("medium"))
        .unwrap()
        .filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == "segment"));
    let middle = segment(&at("medium"), numbers.count() as u32 / 2 + 1);
    let mut bytes = fs::read(&middle).unwrap();
    let position = bytes.len() - 1000;
    bytes[position] ^= 1;
    fs::write(&middle, bytes).unwrap();

    let pruner = Pruner { home: at("home"), has_pruned: AtomicBool::new(false) };
    let device = format!("file:{}", at("medium").display()).parse().unwrap();
    cell.import(&device, &pruner, &Stop::default()).unwrap();
    assert!(pruner.has_pruned.load(Ordering::Relaxed));
    assert!(!middle.exists());
    assert_eq!(cell.idb().prune_rows().unwrap().len(), 1);
    cell.idb_check(&Stop::default(), &mut |finding| panic!("{finding:?}")).unwrap();
    assert_eq!(restore(&cell, "made", &at("out")).unwrap().status, "completed");
    let back = at("out").join(at("source").strip_prefix("/").unwrap());
    assert!(tree(&at("source")) == tree(&back));
}
