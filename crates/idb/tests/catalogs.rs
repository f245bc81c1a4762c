//! Catalog files in every kind of store: what holds for a directory holds for objects elsewhere.

mod common;

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use capstan_format::id::{MediumId, SegmentId, SessionId, VersionId};
use capstan_idb::{CatalogStore, Idb, Status};
use common::*;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;

const GRACE: Duration = Duration::from_secs(3600);

/// Runs a test on a directory, and on objects in memory; it gets the store's handle too.
fn on_each(test: impl Fn(&Idb, &dyn Fn(&str) -> bool)) {
    let (dir, idb) = begun();
    let catalogs = dir.path().join("home/catalogs");
    test(&idb, &|name| catalogs.join(name).exists());

    let dir = tempfile::tempdir().unwrap();
    let objects = Arc::new(InMemory::new());
    let store = CatalogStore::of(Arc::<InMemory>::clone(&objects)).unwrap();
    let idb = Idb::open_with(&dir.path().join("home"), store).unwrap();
    begin(&idb);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    test(&idb, &|name| runtime.block_on(objects.head(&Path::from(name))).is_ok());
    assert_eq!(std::fs::read_dir(dir.path().join("home/catalogs")).unwrap().count(), 0);
}

fn id(n: u8) -> SegmentId {
    SegmentId(nth(n))
}

fn content(mut file: capstan_idb::CatalogFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(file.len(), bytes.len() as u64);
    bytes
}

#[test]
fn what_is_written_is_read_back_and_replaced_whole() {
    on_each(|idb, there| {
        assert!(idb.read_catalog(id(1)).unwrap().is_none());
        let large = vec![7; 100_000];
        idb.write_catalog(id(1), &[b"head", b"", &large, b"tail"]).unwrap();
        let all = [&b"head"[..], &large, b"tail"].concat();
        let open = idb.read_catalog(id(1)).unwrap().unwrap();
        let mut some = [0; 6];
        open.read_exact_at(&mut some, 2).unwrap();
        assert_eq!(some, *b"ad\x07\x07\x07\x07");
        open.read_exact_at(&mut some, 100_002).unwrap();
        assert_eq!(some, *b"\x07\x07tail");
        assert!(open.read_exact_at(&mut some, 100_003).is_err());
        assert!(open.read_exact_at(&mut some, u64::MAX - 3).is_err());
        // A reader that has it open keeps what it opened; its index is not the new one's.
        idb.write_index(id(1), b"index").unwrap();
        assert_eq!(content(idb.read_index(id(1)).unwrap().unwrap()), b"index");
        idb.write_catalog(id(1), &[b"new"]).unwrap();
        assert_eq!(content(open), all);
        assert_eq!(content(idb.read_catalog(id(1)).unwrap().unwrap()), b"new");
        assert!(idb.read_index(id(1)).unwrap().is_none());
        idb.write_listing(id(1), b"listing").unwrap();
        assert_eq!(content(idb.read_listing(id(1)).unwrap().unwrap()), b"listing");
        assert!(there(&format!("{}.catalog", id(1))) && there(&format!("{}.listing", id(1))));
        let sizes = idb.sizes().unwrap();
        assert_eq!((sizes.catalogs, sizes.catalog_bytes), (1, 3));
    });
}

#[test]
fn what_no_row_refers_to_goes_after_its_time() {
    on_each(|idb, there| {
        let files = |n: u8| ["catalog", "listing", "index"].map(|kind| format!("{}.{kind}", id(n)));
        for n in 1..=2 {
            idb.write_catalog(id(n), &[b"x"]).unwrap();
            idb.write_listing(id(n), b"x").unwrap();
            idb.write_index(id(n), b"x").unwrap();
        }
        idb.write_index(id(3), b"x").unwrap();
        idb.commit_segments(&[(segment(1, 1, 1, 1), vec![])]).unwrap();
        assert_eq!(idb.reconcile_catalogs(GRACE).unwrap(), 0);
        assert!((1..=2).all(|n| files(n).iter().all(|name| there(name))));
        assert_eq!(idb.reconcile_catalogs(Duration::ZERO).unwrap(), 3);
        assert!(files(1).iter().all(|name| there(name)));
        // An index goes when its catalog is seen to be gone.
        assert_eq!(files(2).map(|name| there(&name)), [false, false, true]);
        assert_eq!(idb.reconcile_catalogs(Duration::ZERO).unwrap(), 1);
        assert_eq!(idb.reconcile_catalogs(Duration::ZERO).unwrap(), 0);
    });
}

#[test]
fn all_of_a_segment_goes_with_it() {
    on_each(|idb, there| {
        let row = (segment(1, 1, 1, 1), vec![part(1, 1, 1, 0, 9)]);
        idb.commit_segments(&[row]).unwrap();
        idb.write_catalog(id(1), &[b"x"]).unwrap();
        idb.write_listing(id(1), b"x").unwrap();
        idb.write_index(id(1), b"x").unwrap();
        let done = Status::Completed;
        idb.end_session(SessionId(nth(1)), done, 9, &Default::default(), "{}", Some(done)).unwrap();
        let version = VersionId(nth(1));
        idb.expire(77, &[], |_| ([version].into(), ())).unwrap();
        idb.forget(&[(id(1), MediumId(nth(1)))], &[version], 0).unwrap();
        for kind in ["catalog", "listing", "index"] {
            assert!(!there(&format!("{}.{kind}", id(1))), "{kind}");
        }
        assert_eq!(idb.sizes().unwrap().catalogs, 0);
    });
}

#[test]
fn files_of_a_directory_are_their_owners_and_what_a_kill_left_goes() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, idb) = begun();
    let catalogs = dir.path().join("home/catalogs");
    idb.write_catalog(id(1), &[b"x"]).unwrap();
    idb.commit_segments(&[(segment(1, 1, 1, 1), vec![])]).unwrap();
    let path = catalogs.join(format!("{}.catalog", id(1)));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // As `object_store` names what it has not written to its end.
    let unfinished = catalogs.join(format!("{}.catalog#1", id(2)));
    let foreign = catalogs.join("notes#a");
    std::fs::write(&unfinished, "half").unwrap();
    std::fs::write(&foreign, "").unwrap();
    assert_eq!(idb.reconcile_catalogs(GRACE).unwrap(), 0);
    assert_eq!(idb.reconcile_catalogs(Duration::ZERO).unwrap(), 1);
    assert!(!unfinished.exists() && foreign.exists() && path.exists());
}
