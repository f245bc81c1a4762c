//! Segments are removed and versions locked while the power fails.

use std::sync::Arc;

use capstan_engine::buffer::Buffer;
use capstan_format::id::MediumId;
use capstan_format::id::{SegmentNumber, VersionId};
use capstan_format::lock::VersionLock;
use capstan_format::record::{FORMAT_VERSION, MediumHeader, Protection};
use capstan_medium::held::LOCK_SUFFIX;
use capstan_medium::names::GONE_SUFFIX;
use capstan_medium::storage::Storage;
use capstan_medium::{Device, FoundLock, HeldMedium};

use crate::memory::FaultyStorage;
use crate::store::StorageDevice;

fn device(storage: &FaultyStorage) -> StorageDevice {
    let header = || {
        Ok(MediumHeader {
            format: FORMAT_VERSION,
            incompatible: 0,
            compatible: 0,
            medium: MediumId([1; 16]),
            label: "m".to_owned(),
            block_size: 64 << 10,
            created_us: 0,
            protection: Protection::None,
            cell: None,
            array: None,
            drive_key: None,
        })
    };
    StorageDevice::on_storage(Arc::new(storage.clone()), "m", header).unwrap()
}

fn write(storage: &FaultyStorage, segments: u32) -> u32 {
    let mut device = device(storage);
    let mut last = 0;
    for _ in 0..segments {
        last = device.begin_segment().unwrap().0;
        device.write(&Buffer::new(4096)).unwrap();
        device.end_segment().unwrap();
        device.commit().unwrap();
    }
    last
}

fn held(storage: &FaultyStorage) -> HeldMedium {
    device(storage).hold()
}

fn remove(storage: &FaultyStorage, numbers: &[u32]) -> Vec<u32> {
    let numbers: Vec<_> = numbers.iter().copied().map(SegmentNumber).collect();
    let (removed, failure) = held(storage).remove_segments(&numbers);
    assert!(failure.is_none(), "{failure:?}");
    removed.iter().map(|n| n.0).collect()
}

fn lock(until_us: i64, numbers: &[u32]) -> VersionLock {
    let numbers: Vec<_> = numbers.iter().copied().map(SegmentNumber).collect();
    VersionLock::new(VersionId([9; 16]), until_us, &numbers)
}

#[test]
fn numbers_of_removed_segments_are_not_given_again() {
    let storage = FaultyStorage::new(None);
    assert_eq!(write(&storage, 4), 4);
    // Gone already is as good as removed.
    assert_eq!(remove(&storage, &[3, 4, 77]), [77, 4, 3]);
    assert_eq!(remove(&storage, &[2, 1]), [2, 1]);
    assert_eq!(write(&storage, 1), 5);
    assert_eq!(remove(&storage, &[5]), [5]);
    assert_eq!(write(&storage, 1), 6);
    let gone: Vec<_> =
        storage_names(&storage).into_iter().filter(|n| n.ends_with(GONE_SUFFIX)).collect();
    assert_eq!(gone, ["00000005.gone"]);
}

fn storage_names(storage: &FaultyStorage) -> Vec<String> {
    storage.list().unwrap()
}

/// Whenever the power fails: what is left is the begin of what was there, and no number comes twice.
#[test]
fn a_removal_that_is_cut_short_leaves_the_first_segments() {
    for at in 0.. {
        let storage = FaultyStorage::new(None);
        write(&storage, 5);
        let held = held(&storage);
        storage.fail_after(at);
        let (removed, failure) = held.remove_segments(&[3, 5, 4].map(SegmentNumber));
        for seed in 0..8_u64 {
            let left = storage.after_crash(&mut |n| (seed * 7 + at) % n);
            let medium = device(&left);
            let numbers: Vec<_> = medium.medium().segments().unwrap();
            let numbers: Vec<u32> = numbers.iter().map(|n| n.0).collect();
            assert!([1, 2, 3, 4, 5].starts_with(&numbers) && numbers.len() >= 2, "{numbers:?}");
            assert!(removed.iter().all(|n| !numbers.contains(&n.0)), "{removed:?} {numbers:?}");
            drop(medium);
            assert_eq!(write(&left, 1), 6);
        }
        if failure.is_none() {
            assert_eq!(removed.len(), 3);
            return;
        }
    }
}

/// Whenever the power fails: a lock is there as it was or as it is to be.
#[test]
fn a_lock_is_never_lost_nor_shortened() {
    for at in 0.. {
        let storage = FaultyStorage::new(None);
        write(&storage, 3);
        let held = held(&storage);
        held.put_lock(&lock(50, &[1, 2])).unwrap();
        storage.fail_after(at);
        let done = held.put_lock(&lock(90, &[3]));
        for seed in 0..8_u64 {
            let left = storage.after_crash(&mut |n| (seed * 5 + at) % n);
            let found = device(&left).medium().version_locks().unwrap();
            let was = [FoundLock::Whole(lock(50, &[1, 2]))];
            let is = [FoundLock::Whole(lock(90, &[1, 2, 3]))];
            assert!(found == is || done.is_err() && found == was, "{at} {seed}: {found:?}");
        }
        if done.is_ok() {
            return;
        }
    }
}

#[test]
fn a_damaged_lock_is_still_one() {
    let storage = FaultyStorage::new(None);
    write(&storage, 1);
    let held = held(&storage);
    held.put_lock(&lock(50, &[1])).unwrap();
    held.put_lock(&lock(40, &[1])).unwrap();
    let found = held.medium().version_locks().unwrap();
    assert_eq!(found, [FoundLock::Whole(lock(50, &[1]))], "it is never shortened");
    let name = format!("{}{LOCK_SUFFIX}", VersionId([8; 16]));
    storage.create(&name).unwrap();
    let found = held.medium().version_locks().unwrap();
    assert!(found.contains(&FoundLock::Damaged(VersionId([8; 16]))), "{found:?}");
    held.remove_passed_locks(&found, 50).unwrap();
    assert_eq!(held.medium().version_locks().unwrap(), [FoundLock::Damaged(VersionId([8; 16]))]);
    device(&storage);
}
