//! Indexes and tables that are damaged, cut, sealed, or another segment's are never believed.

use std::fs;

use capstan_format::entry::Entry;
use capstan_format::id::{KeyId, ObjectId, SessionId, VersionId};
use capstan_format::keys::{Cipher, Key32};
use capstan_format::record::SessionLabel;
use capstan_idb::Idb;
use tempfile::TempDir;

use super::*;
use crate::places::SegmentPlace;

const NAME: &[u8] = b"a-name-to-hide";

struct Home {
    dir: TempDir,
    idb: Idb,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { idb: Idb::open(dir.path()).unwrap(), dir }
    }

    fn read(&self, segment: SegmentId, extension: &str) -> Option<Vec<u8>> {
        fs::read(self.dir.path().join(format!("catalogs/{segment}.{extension}"))).ok()
    }

    fn write(&self, segment: SegmentId, extension: &str, bytes: &[u8]) {
        fs::write(self.dir.path().join(format!("catalogs/{segment}.{extension}")), bytes).unwrap();
    }

    /// A segment with a catalog, and its sparse index.
    fn indexed(&self, n: u8, keys: &VersionKeys, key: Option<KeyId>) -> StreamIndex {
        let index = index_of(n, key);
        self.idb.write_catalog(segment(n), &[b"a catalog"]).unwrap();
        save(&self.idb, segment(n), 9, std::slice::from_ref(&index), keys).unwrap();
        index
    }

    /// All that a segment's index says, if it is believed.
    fn all_of(&self, n: u8, keys: &VersionKeys) -> Option<(Outline, Vec<BatchPlace>, bool)> {
        let open = || Saved::open(&self.idb, segment(n));
        let outline = open()?.outlines(keys).ok()?.pop()?;
        let may_have = open()?.may_have(outline.stream, NAME, keys).ok()?;
        Some((outline, open()?.into_batches(stream(n), keys).ok()?.places, may_have))
    }
}

fn segment(n: u8) -> SegmentId {
    SegmentId([n; 16])
}

fn stream(n: u8) -> StreamId {
    StreamId([n + 100; 16])
}

fn label(key: Option<KeyId>) -> SessionLabel {
    SessionLabel {
        session: SessionId([1; 16]),
        object: ObjectId([2; 16]),
        version: VersionId([3; 16]),
        parent: None,
        base: None,
        started_us: 4,
        key,
        cipher: key.map(|_| Cipher::Aes256Gcm),
        state_us: None,
        stands_for: None,
    }
}

fn index_of(n: u8, key: Option<KeyId>) -> StreamIndex {
    let path = |name: &[u8]| Some((vec![b'd', n], name.to_vec()));
    let entry = Entry { kind: Kind::Part, name: NAME.to_vec(), ..Entry::default() };
    let outline = Outline {
        stream: stream(n),
        label: Some(label(key)),
        begin: 5,
        end: 500 + u64::from(n),
        links: 6,
        flagged: 7,
        first: path(b"a"),
        last: path(NAME),
        ahead: vec![(70_000, 600)],
        aside: vec![Aside { row: 8, start: 9, sum: Some(10), entry }],
    };
    let place = |at| BatchPlace {
        copy: CopyPlace { at, len: 80, number: 3 },
        sums: Some(CopyPlace { at: at + 80, len: 20, number: 1 }),
        first: path(&at.to_le_bytes()),
    };
    let mut names = NameGatherer::default();
    (0..200u32).for_each(|n| names.add(&n.to_le_bytes()));
    names.add(NAME);
    StreamIndex {
        outline,
        batches: (0..9).map(|n| place(n * 100)).collect(),
        names: names.finish(),
    }
}

fn secret(n: u8) -> (KeyId, VersionKeys) {
    let id = KeyId([n; 16]);
    (id, VersionKeys::of_names(id, &Key32::new([n; 32]), Cipher::Aes256Gcm))
}

fn places(of: std::ops::Range<u8>) -> Vec<SegmentPlace> {
    let place = |n| SegmentPlace {
        bytes: 0,
        segment: segment(n),
        media: Vec::new(),
        copies: Vec::new(),
        streams: vec![stream(n)],
        spans: Vec::new(),
        session: 0,
        by: SessionId([1; 16]),
        last: Vec::new(),
        behind: Vec::new(),
        away: Vec::new(),
        lacking: Vec::new(),
    };
    of.map(place).collect()
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}

/// Each byte changed, and each begin of them.
fn damaged(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let flipped = (0..bytes.len()).map(move |at| {
        let mut other = bytes.to_vec();
        other[at] ^= 1 << (at % 8);
        other
    });
    flipped.chain((0..bytes.len()).step_by(7).map(move |len| bytes[..len].to_vec()))
}

#[test]
fn a_damaged_index_says_the_same_or_nothing() {
    let (home, keys) = (Home::new(), VersionKeys::default());
    let index = home.indexed(1, &keys, None);
    let all = (index.outline, index.batches, true);
    assert_eq!(home.all_of(1, &keys), Some(all.clone()));
    let bytes = home.read(segment(1), "index").unwrap();
    let mut believed = 0;
    for other in damaged(&bytes) {
        home.write(segment(1), "index", &other);
        let found = home.all_of(1, &keys);
        assert!(found.as_ref().is_none_or(|found| *found == all), "{found:?}");
        believed += usize::from(found.is_some());
    }
    assert!(believed < 30, "{believed}: no more than what pads its sections is not looked at");
}

#[test]
fn an_index_is_of_its_segment_its_catalog_and_this_version_only() {
    let (home, keys) = (Home::new(), VersionKeys::default());
    home.indexed(1, &keys, None);
    home.indexed(2, &keys, None);
    let (one, two) = (home.read(segment(1), "index"), home.read(segment(2), "index").unwrap());
    home.write(segment(1), "index", &two);
    assert_eq!(home.all_of(1, &keys), None, "another's of the same length");
    let mut of_another_version = one.clone().unwrap();
    of_another_version[4] -= 1;
    home.write(segment(1), "index", &of_another_version);
    assert_eq!(home.all_of(1, &keys), None, "of the version before");
    home.write(segment(1), "index", &one.unwrap());
    assert!(home.all_of(1, &keys).is_some());
    home.write(segment(1), "catalog", b"a longer catalog");
    assert_eq!(home.all_of(1, &keys), None, "of another catalog");
    home.idb.write_catalog(segment(1), &[b"a catalog"]).unwrap();
    assert_eq!(home.read(segment(1), "index"), None, "it goes with the catalog that it is of");
}

/// Makes a table of segments 1 to 3 and returns what it is made of.
fn tabled(home: &Home, keys: &VersionKeys, key: Option<KeyId>) -> Vec<Outline> {
    let all: Vec<_> = (1..4).map(|n| home.indexed(n, keys, key).outline).collect();
    let mut maker = TableMaker::new(state_of(&home.idb, &places(1..4)).unwrap());
    all.iter().for_each(|o| maker.add(&[label(key)], std::slice::from_ref(o)));
    maker.save(&home.idb, &places(1..4), keys).unwrap();
    all
}

/// What the table of some segments says, if it is believed.
fn table_of(home: &Home, places: &[SegmentPlace], keys: &VersionKeys) -> Option<Vec<Outline>> {
    let table = Table::open(&home.idb, places, state_of(&home.idb, places)?)?;
    let mut rows = table.outlines(keys).ok()?;
    let mut all = Vec::new();
    for _ in places {
        all.extend(rows.next().ok()?);
    }
    Some(all)
}

#[test]
fn a_damaged_table_says_the_same_or_nothing() {
    let (home, keys) = (Home::new(), VersionKeys::default());
    let all = tabled(&home, &keys, None);
    assert_eq!(table_of(&home, &places(1..4), &keys), Some(all.clone()));
    let bytes = home.read(segment(1), "table").unwrap();
    for other in damaged(&bytes) {
        home.write(segment(1), "table", &other);
        let found = table_of(&home, &places(1..4), &keys);
        assert!(found.as_ref().is_none_or(|found| *found == all), "{found:?}");
    }
    let mut of_another_version = bytes;
    of_another_version[4] += 1;
    home.write(segment(1), "table", &of_another_version);
    assert_eq!(table_of(&home, &places(1..4), &keys), None);
}

#[test]
fn a_table_is_of_what_there_was_when_it_was_made() {
    let (home, keys) = (Home::new(), VersionKeys::default());
    let all = tabled(&home, &keys, None);
    let three = places(1..4);
    assert!(table_of(&home, &three, &keys).is_some());
    home.indexed(4, &keys, None);
    assert_eq!(table_of(&home, &places(1..5), &keys), None, "a segment more");
    assert_eq!(table_of(&home, &places(1..3), &keys), None, "one less");
    let mut other = three.clone();
    other[1].streams.push(stream(9));
    assert_eq!(table_of(&home, &other, &keys), None, "a stream more");
    other[1].streams.pop();
    other.swap(1, 2);
    assert_eq!(table_of(&home, &other, &keys), None, "in another order");
    assert_eq!(table_of(&home, &three, &keys), Some(all));
    // The same bytes, but anew: they may be read from elsewhere.
    home.indexed(3, &keys, None);
    assert_eq!(table_of(&home, &three, &keys), None, "another catalog file");
    tabled(&home, &keys, None);
    fs::remove_file(home.dir.path().join(format!("catalogs/{}.catalog", segment(2)))).unwrap();
    assert_eq!(table_of(&home, &three, &keys), None, "a catalog less");
    tabled(&home, &keys, None);
    let table = home.read(segment(1), "table").unwrap();
    home.write(segment(2), "table", &table);
    assert_eq!(table_of(&home, &places(2..4), &keys), None, "another session's");
}

#[test]
fn names_of_an_encrypted_session_are_sealed_in_both() {
    let (key, keys) = secret(1);
    let (home, open) = (Home::new(), VersionKeys::default());
    let all = tabled(&home, &keys, Some(key));
    let filter = index_of(1, None).names;
    let index = home.read(segment(1), "index").unwrap();
    let table = home.read(segment(1), "table").unwrap();
    for sealed in [&index, &table] {
        assert!(!has(sealed, NAME) && !has(sealed, &filter) && !has(sealed, &filter[20..40]));
    }
    assert!(home.all_of(1, &keys).is_some_and(|found| found.2));
    assert_eq!(table_of(&home, &places(1..4), &keys), Some(all));
    // Who has no key, or another one, learns nothing; the labels are open.
    for keys in [&open, &secret(2).1] {
        assert_eq!(home.all_of(1, keys), None);
        assert!(
            Saved::open(&home.idb, segment(1)).unwrap().may_have(stream(1), b"x", keys).is_err()
        );
        assert_eq!(table_of(&home, &places(1..4), keys), None);
    }
    let three = places(1..4);
    let state = state_of(&home.idb, &three).unwrap();
    assert_eq!(Table::open(&home.idb, &three, state).unwrap().labels(), [label(Some(key))]);
    // The same in clear has them.
    tabled(&home, &open, None);
    let index = home.read(segment(1), "index").unwrap();
    assert!(has(&index, &filter[20..40]));
}

#[test]
fn no_table_is_made_that_one_key_does_not_open() {
    let (key, keys) = secret(1);
    let home = Home::new();
    tabled(&home, &keys, Some(key));
    home.idb.remove_table(segment(1)).unwrap();
    let three = places(1..4);
    let made = |keys: &VersionKeys, of: [Option<KeyId>; 2]| {
        let mut maker = TableMaker::new(state_of(&home.idb, &three).unwrap());
        for (n, key) in of.into_iter().enumerate() {
            let outline = index_of(n as u8, key).outline;
            maker.add(&[label(key)], &[outline]);
        }
        maker.save(&home.idb, &three, keys).unwrap();
        home.read(segment(1), "table").is_some()
    };
    assert!(!made(&keys, [None, Some(key)]) && !made(&keys, [Some(key), None]));
    assert!(!made(&keys, [Some(key), Some(KeyId([9; 16]))]));
    assert!(!made(&VersionKeys::default(), [Some(key); 2]), "and none in clear without its key");
    assert!(made(&keys, [Some(key); 2]));
}
