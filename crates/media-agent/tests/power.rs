//! Power cuts and full disks: what was reported as committed is there afterwards, whole; what was not leaves nothing
//! that is in the way.

mod common;

use std::collections::BTreeMap;

use capstan_devices::memory::FaultyStorage;
use capstan_format::id::SegmentNumber;
use capstan_media_agent::read::scan::scan;
use capstan_media_agent::read::segment::SegmentReader;
use capstan_medium::storage::Storage;
use capstan_port::media::write::error::WriteError;
use capstan_wire::compression::Compression;
use common::{
    Given, Got, Random, Reported, Shape, Spec, assert_same, device, open, read_all, recorder, take,
    write_session, writer,
};

const BLOCK: u32 = 64 << 10;

fn seeds() -> u64 {
    if std::env::var_os("CAPSTAN_SOAK").is_some() { 10_000 } else { 1_000 }
}

fn shape(seed: u64) -> Shape {
    Shape {
        block_size: BLOCK,
        segment_size: u64::from(BLOCK) * (1 + seed % 4),
        catalog_limit: 4 << 20,
        buffers: 4,
        compression: Compression::Off,
        crc: true,
        sealed: false,
        seed,
    }
}

fn files(random: &mut Random) -> Vec<Vec<Spec>> {
    let mut stream =
        |n: u64| (0..n).map(|_| Spec::file([10, 3000, 90_000][random.below(3) as usize])).collect();
    vec![stream(8), stream(5)]
}

/// Bytes of each segment that was reported as committed.
type Kept = BTreeMap<SegmentNumber, Vec<u8>>;

/// Writes a session until the power fails, and returns what had been reported by then.
fn write_until_cut(storage: &FaultyStorage, seed: u64) -> (Kept, Vec<Given>, bool) {
    let reported = Reported::default();
    let mut random = Random(seed);
    let Ok(device) = device(storage, BLOCK) else { return (Kept::new(), Vec::new(), false) };
    let writer = writer(Box::new(device), &shape(seed), 3, recorder(&reported));
    let (given, ended) = write_session(writer, &shape(seed), 3, &files(&mut random), 0);
    let mut kept = Kept::new();
    if let Ok(medium) = open(storage) {
        for (header, ..) in reported.lock().unwrap().iter() {
            kept.insert(header.number, read_all(&medium, header.number));
        }
    }
    (kept, given, ended.is_ok())
}

/// A segment that is whole on its own, as verification sees it.
fn assert_whole(reader: &SegmentReader) {
    let scan = scan(reader).unwrap();
    assert_eq!(scan.damage, []);
    assert!(scan.catalog_whole);
    reader.catalog().unwrap();
}

#[test]
fn what_was_committed_survives_a_power_cut() {
    let whole = FaultyStorage::new(None);
    let (kept, _, ended) = write_until_cut(&whole, 0);
    assert!(ended && kept.len() > 2);
    let operations = whole.operations();
    let (mut cut, mut survived, mut unreported) = (0, 0, 0);
    for seed in 0..seeds() {
        let mut random = Random(seed ^ 0x5eed);
        let storage = FaultyStorage::new(Some(random.below(operations + 5)));
        let (kept, given, ended) = write_until_cut(&storage, seed);
        cut += u64::from(!ended);
        survived += kept.len();
        let after = storage.after_crash(&mut |n| random.below(n));
        unreported += check(&after, &kept, seed);
        go_on(&after, &kept, seed);
        if ended {
            all_there(&after, &given);
        }
    }
    // The seeds reach all the cases; else this would prove nothing.
    assert!(
        cut > seeds() / 2 && survived as u64 > seeds() / 2 && unreported > 0,
        "{cut} {survived} {unreported}"
    );
}

/// Every reported segment is there as it was; every other that has a name is whole too. Returns how many others.
fn check(after: &FaultyStorage, kept: &Kept, seed: u64) -> u64 {
    let Ok(medium) = open(after) else {
        assert!(kept.is_empty(), "seed {seed}: the medium is gone");
        return 0;
    };
    let numbers = medium.segments().unwrap();
    for (number, bytes) in kept {
        assert!(numbers.contains(number), "seed {seed}: segment {} is gone", number.0);
        assert!(&read_all(&medium, *number) == bytes, "seed {seed}: segment {} changed", number.0);
    }
    for number in &numbers {
        assert_whole(&SegmentReader::open(&medium, *number).unwrap());
    }
    (numbers.len() - kept.len()) as u64
}

/// After the crash the medium takes another session, which reads back, and nothing is left lying about.
fn go_on(after: &FaultyStorage, kept: &Kept, seed: u64) {
    let reported = Reported::default();
    let again = device(after, BLOCK).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let names = after.list().unwrap();
    assert!(names.iter().all(|n| !n.ends_with(".part") && !n.ends_with(".new")), "{names:?}");
    let shape = shape(seed);
    let writer = writer(Box::new(again), &shape, 4, recorder(&reported));
    let streams = [vec![Spec::file(100_000), Spec::file(10)]];
    let (given, written) = write_session(writer, &shape, 4, &streams, 0);
    let written = written.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let medium = open(after).unwrap();
    let mut got: BTreeMap<_, Got> = BTreeMap::new();
    for number in &written.segments {
        assert!(!kept.contains_key(number), "seed {seed}: a number was used twice");
        let reader = SegmentReader::open(&medium, *number).unwrap();
        assert_whole(&reader);
        take(&mut got, &reader, &reader.catalog().unwrap(), false);
    }
    assert_same(&given[0], &got[&given[0].stream]);
    check(after, kept, seed);
}

fn all_there(after: &FaultyStorage, given: &[Given]) {
    let medium = open(after).unwrap();
    let mut got: BTreeMap<_, Got> = BTreeMap::new();
    for number in medium.segments().unwrap() {
        let reader = SegmentReader::open(&medium, number).unwrap();
        take(&mut got, &reader, &reader.catalog().unwrap(), false);
    }
    for given in given {
        assert_same(given, &got[&given.stream]);
    }
}

#[test]
fn power_may_fail_again_and_again() {
    for seed in 0..seeds() / 10 {
        let mut random = Random(seed);
        let mut storage = FaultyStorage::new(Some(20 + random.below(60)));
        let mut kept = Kept::new();
        for round in 0..5 {
            let (more, ..) = write_until_cut(&storage, seed * 10 + round);
            for number in more.keys() {
                assert!(!kept.contains_key(number), "seed {seed}: a number was used twice");
            }
            kept.extend(more);
            storage = storage.after_crash(&mut |n| random.below(n));
            storage.fail_after(20 + random.below(60));
            check(&storage, &kept, seed);
        }
        assert!(!kept.is_empty());
    }
}

#[test]
fn a_full_disk_ends_the_session_and_keeps_what_was_committed() {
    for seed in 0..40 {
        let storage = FaultyStorage::new(None);
        let made = device(&storage, BLOCK).unwrap();
        let mut random = Random(seed);
        storage.full_after(random.below(700_000));
        let reported = Reported::default();
        let shape = shape(seed);
        let writer = writer(Box::new(made), &shape, 3, recorder(&reported));
        let streams = [vec![Spec::file(200_000); 5], vec![Spec::file(3000); 50]];
        let (_, ended) = write_session(writer, &shape, 3, &streams, 0);
        match ended {
            Err(WriteError::Device(e)) => {
                assert!(e.is_full(), "{e}");
                assert!(e.to_string().contains("free space"), "{e}");
            }
            other => panic!("seed {seed}: {other:?}"),
        }
        let medium = open(&storage).unwrap();
        let numbers: Vec<_> = reported.lock().unwrap().iter().map(|r| r.0.number).collect();
        assert_eq!(medium.segments().unwrap(), numbers);
        for number in numbers {
            assert_whole(&SegmentReader::open(&medium, number).unwrap());
        }
        assert!(
            storage.list().unwrap().iter().all(|n| !n.ends_with(".part")),
            "space is given back"
        );
        storage.full_after(u64::MAX / 2);
        go_on(&storage, &Kept::new(), seed);
    }
}
