//! A kill between a commit on the medium and its record in the internal database: the medium has a whole segment that
//! the database does not know. The next session on that medium records it, and no later import finds files twice.

mod support;

use std::fs;
use std::path::Path;

use capstan_cell::Cell;
use capstan_cell::keyring::Secrets;
use capstan_cell::observe::Stop;
use capstan_cell::request::{BackupRequest, VerifyRequest};
use support::{Deaf, agents, backup, backup_request, fast_dir, make_tree, restore, tree};

fn segment(medium: &Path, number: u32) -> std::path::PathBuf {
    medium.join(format!("{number:08}.segment"))
}

fn import(cell: &Cell, medium: &Path) {
    let device = format!("file:{}", medium.display()).parse().unwrap();
    let report = cell.import(&device, &Deaf, &Stop::default()).unwrap();
    assert_eq!(report.status, "completed", "{report:?}");
}

#[test]
fn a_segment_that_was_not_recorded_is_recorded_by_the_next_session() {
    for (unrecorded, resume) in
        [(4, true), (5, false), (7, true), (10, true), (11, true), (13, true)]
    {
        let dir = fast_dir();
        let (source, medium, aside) =
            (dir.path().join("src"), dir.path().join("medium"), dir.path().join("aside"));
        fs::create_dir(&source).unwrap();
        make_tree(&source, 3000);
        // So many that the rows of the last segments are in none before.
        for i in 0..3000 {
            fs::write(source.join(format!("letters/note{i}")), format!("note {i}").repeat(30))
                .unwrap();
        }
        let request = BackupRequest { resume, ..backup_request(&source, &medium) };
        let first = Cell::open(&dir.path().join("home1"), Secrets::none(), agents()).unwrap();
        backup(&first, &request);
        let last = capstan_devices::directory::Directories::site(&medium)
            .medium()
            .unwrap()
            .segments()
            .unwrap()
            .len() as u32;
        assert!(last > unrecorded);

        // As a kill leaves it: nothing was written behind the segment that the database does not know.
        for number in unrecorded + 1..=last {
            fs::remove_file(segment(&medium, number)).unwrap();
        }
        fs::rename(segment(&medium, unrecorded), &aside).unwrap();
        let second = Cell::open(&dir.path().join("home2"), Secrets::none(), agents()).unwrap();
        import(&second, &medium);
        // Another home is another cell: it writes to what it made its own.
        second.media_adopt(&format!("file:{}", medium.display()), false, &Deaf).unwrap();
        fs::rename(&aside, segment(&medium, unrecorded)).unwrap();

        let report = backup(&second, &request);
        assert_eq!(report.kept > 0, resume, "{report:?}");
        let before = tree(&source);
        let same = |cell: &Cell, what: &str| {
            let into = dir.path().join("out");
            let report = restore(cell, "made", &into).unwrap();
            assert_eq!(report.status, "completed", "{what}: {report:?}");
            let after = tree(&into.join(source.strip_prefix("/").unwrap()));
            assert_eq!(after, before, "{what}");
            let files = before.values().filter(|s| s.kind != "directory").count() as u64;
            assert_eq!(report.files, files, "{what}: each file once");
        };
        same(&second, "by the database");
        let verify = VerifyRequest::Medium(medium.display().to_string());
        let report = second.verify(&verify, &Deaf, &Stop::default()).unwrap();
        assert_eq!(report.status, "completed", "{report:?}");
        let third = Cell::open(&dir.path().join("home3"), Secrets::none(), agents()).unwrap();
        import(&third, &medium);
        same(&third, "by an import");
    }
}
