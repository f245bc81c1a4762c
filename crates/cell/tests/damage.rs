//! Damaged media: every flipped bit is found, only the files it touches are lost, they are named, and the others come
//! back; the same for media that were cut short, and where the internal database must be made anew.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::{fs, io};

use capstan_cell::Cell;
use capstan_cell::observe::Stop;
use capstan_cell::report::Report;
use capstan_cell::request::{BackupRequest, Compression, VerifyRequest};
use capstan_devices::directory::Directories;
use capstan_engine::message::path_text;
use capstan_format::batch::Batch;
use capstan_format::block::{Block, BlockKind, MaHeader, PAYLOAD_AT};
use capstan_format::codec::{Decompressor, Method};
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader, FrameType};
use capstan_format::id::{SegmentNumber, StreamId};
use capstan_media_agent::read::scan::scan;
use capstan_media_agent::read::segment::SegmentReader;
use capstan_medium::OpenMedium;
use capstan_medium::names::HEADER_NAME;
use capstan_medium::storage::{ReadFile, Storage, WriteFile};
use support::{
    Deaf, State, agents, backup, backup_request, fast_dir, make_ring, make_tree, restore, secrets,
    tree,
};
use tempfile::TempDir;

const PASSPHRASE: &str = "open sesame";

fn soak() -> bool {
    std::env::var_os("CAPSTAN_SOAK").is_some()
}

/// A medium with one session, the tree that is on it, and the home that knows it.
struct Made {
    dir: TempDir,
    cell: Cell,
    passphrase: Option<&'static str>,
    before: BTreeMap<PathBuf, State>,
}

impl Made {
    fn new(unit: usize, passphrase: Option<&'static str>, compression: Compression) -> Self {
        let dir = fast_dir();
        let (source, home) = (dir.path().join("src"), dir.path().join("home"));
        fs::create_dir(&source).unwrap();
        make_tree(&source, unit);
        if let Some(p) = passphrase {
            make_ring(&home, p);
        }
        let cell = Cell::open(&home, secrets(passphrase), agents()).unwrap();
        let request =
            BackupRequest { compression, ..backup_request(&source, &dir.path().join("medium")) };
        backup(&cell, &request);
        let before = tree(&source);
        Self { dir, cell, passphrase, before }
    }

    fn medium(&self) -> PathBuf {
        self.dir.path().join("medium")
    }

    /// Names and lengths of the medium's files.
    fn files(&self) -> Vec<(String, u64)> {
        let list = fs::read_dir(self.medium()).unwrap().map(|e| e.unwrap());
        let mut files: Vec<_> = list
            .map(|e| (e.file_name().into_string().unwrap(), e.metadata().unwrap().len()))
            .collect();
        files.sort();
        files
    }

    fn segments(&self) -> Vec<(String, u64)> {
        self.files().into_iter().filter(|(n, _)| n != HEADER_NAME).collect()
    }

    /// A cell that knows nothing yet, with what a key needs.
    fn new_cell(&self, name: &str) -> Cell {
        let home = self.dir.path().join(name);
        let _ = fs::remove_dir_all(&home);
        if self.passphrase.is_some() {
            fs::create_dir(&home).unwrap();
            let ring = "keyring.json";
            fs::copy(self.dir.path().join("home").join(ring), home.join(ring)).unwrap();
        }
        Cell::open(&home, secrets(self.passphrase), agents()).unwrap()
    }

    fn import(&self, cell: &Cell) -> Report {
        let device = format!("file:{}", self.medium().display()).parse().unwrap();
        cell.import(&device, &Deaf, &Stop::default()).unwrap()
    }

    /// What is below the restored place of the source.
    fn restored(&self, into: &Path) -> BTreeMap<PathBuf, State> {
        let source = self.dir.path().join("src");
        tree(&into.join(source.strip_prefix("/").unwrap()))
    }

    /// Checks a restore: what is not as it was is named; returns the lost files, by their path in the source.
    fn lost(&self, report: &Report, into: &Path, what: &str) -> BTreeSet<PathBuf> {
        let after = self.restored(into);
        let source = self.dir.path().join("src");
        let named = |path: &Path| {
            let bytes = source.join(path).as_os_str().as_bytes().to_vec();
            let text = path_text(&bytes);
            report.errors.iter().any(|e| e.path == text)
        };
        let mut lost = BTreeSet::new();
        for (path, state) in &self.before {
            if after.get(path) != Some(state) {
                // One inode is one file: the name of its first link stands for all.
                let is_named = named(path) || state.names.iter().any(|n| named(n));
                assert!(is_named, "{what}: {} is not as it was: {report:?}", path.display());
                lost.insert(path.clone());
            }
        }
        let more = after.keys().find(|p| !self.before.contains_key(*p));
        assert_eq!(more, None, "{what}");
        let expected = if lost.is_empty() && report.errors.is_empty() {
            "completed"
        } else {
            "completed_with_errors"
        };
        assert_eq!(report.status, expected, "{what}: {report:?}");
        lost
    }
}

/// The medium's files in memory, one of them with a flipped bit. Reading does not copy the rest.
struct Flipped {
    files: Arc<BTreeMap<String, Vec<u8>>>,
    name: String,
    bit: Arc<AtomicU64>,
}

impl Storage for Flipped {
    fn create(&self, _: &str) -> io::Result<Box<dyn WriteFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        if !self.files.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let bit = (name == self.name).then(|| self.bit.clone());
        Ok(Box::new(FlippedFile { files: self.files.clone(), name: name.to_owned(), bit }))
    }
    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn replace(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.keys().cloned().collect())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

struct FlippedFile {
    files: Arc<BTreeMap<String, Vec<u8>>>,
    name: String,
    bit: Option<Arc<AtomicU64>>,
}

impl ReadFile for FlippedFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = &self.files[&self.name];
        let from = (offset as usize).min(bytes.len());
        let n = out.len().min(bytes.len() - from);
        out[..n].copy_from_slice(&bytes[from..from + n]);
        if let Some(bit) = &self.bit {
            let bit = bit.load(Relaxed);
            let at = (bit / 8) as usize;
            if (from..from + n).contains(&at) {
                out[at - from] ^= 1 << (bit % 8);
            }
        }
        Ok(n)
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.files[&self.name].len() as u64)
    }
}

/// Flips each `step`-th bit of each file of the medium in turn; every one must be found. Returns how many were flipped.
fn flip_all(made: &Made, step: u64) -> u64 {
    let files: BTreeMap<String, Vec<u8>> = made
        .files()
        .into_iter()
        .map(|(name, _)| (name.clone(), fs::read(made.medium().join(name)).unwrap()))
        .collect();
    let files = Arc::new(files);
    let jobs: Vec<(String, Range<u64>)> = files
        .iter()
        .flat_map(|(name, bytes)| {
            let bits = bytes.len() as u64 * 8;
            let half = bits / 2 / step * step;
            [(name.clone(), 0..half), (name.clone(), half..bits)]
        })
        .collect();
    let next = AtomicU64::new(0);
    let flipped = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((name, bits)) = jobs.get(next.fetch_add(1, Relaxed) as usize) {
                    for bit in bits.clone().step_by(step as usize) {
                        flipped.fetch_add(1, Relaxed);
                        assert!(is_found(&files, name, bit), "{name}, bit {bit}: not found");
                    }
                }
            });
        }
    });
    flipped.into_inner()
}

fn is_found(files: &Arc<BTreeMap<String, Vec<u8>>>, name: &str, bit: u64) -> bool {
    let storage =
        Flipped { files: files.clone(), name: name.to_owned(), bit: Arc::new(AtomicU64::new(bit)) };
    let Ok(medium) = OpenMedium::on(Arc::new(storage), "memory") else { return true };
    if name == HEADER_NAME {
        return medium.header_problem().is_some();
    }
    assert!(medium.header_problem().is_none());
    let number = SegmentNumber(name[..8].parse().unwrap());
    match SegmentReader::open(&medium, number).and_then(|r| scan(&r)) {
        Ok(scan) => !scan.damage.is_empty(),
        Err(_) => true,
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let made = Made::new(2000, None, Compression::Off);
    let total: u64 = made.files().iter().map(|f| f.1).sum();
    assert!(
        (256 << 10..400 << 10).contains(&total) && made.segments().len() > 2,
        "{:?}",
        made.files()
    );
    // Every bit; else every seventh, so that each of a byte's eight has its turn.
    let step = if soak() { 1 } else { 7 };
    assert!(flip_all(&made, step) >= total * 8 / step);
}

#[test]
fn every_flipped_bit_is_found_where_it_is_encrypted_or_compressed() {
    let step = if soak() { 1 } else { 41 };
    for passphrase in [Some(PASSPHRASE), None] {
        let made = Made::new(1500, passphrase, Compression::Fixed(Method::Zstd(1)));
        flip_all(&made, step);
    }
}

#[test]
fn verifying_a_medium_finds_what_is_flipped_on_the_disk() {
    let made = Made::new(1500, None, Compression::Off);
    let verify = |what: &str| {
        let request = VerifyRequest::Medium(made.medium().display().to_string());
        let report = made.cell.verify(&request, &Deaf, &Stop::default()).unwrap();
        (report.status == "completed", format!("{what}: {report:?}"))
    };
    let (clean, text) = verify("untouched");
    assert!(clean, "{text}");
    for (name, len) in made.files() {
        for bit in (5..len * 8).step_by(39_979) {
            let undo = Flip::on(&made.medium().join(&name), bit);
            let (clean, text) = verify(&format!("{name}, bit {bit}"));
            assert!(!clean, "{text}");
            drop(undo);
        }
    }
    fs::remove_file(made.medium().join(HEADER_NAME)).unwrap();
    assert!(!verify("no header").0);
}

/// A bit flipped in place, until dropped.
struct Flip {
    file: fs::File,
    bit: u64,
}

impl Flip {
    fn on(path: &Path, bit: u64) -> Self {
        let file = fs::File::options().read(true).write(true).open(path).unwrap();
        let flip = Self { file, bit };
        flip.flip();
        flip
    }

    fn flip(&self) {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, self.bit / 8).unwrap();
        byte[0] ^= 1 << (self.bit % 8);
        self.file.write_all_at(&byte, self.bit / 8).unwrap();
    }
}

impl Drop for Flip {
    fn drop(&mut self) {
        self.flip();
    }
}

/// Where the contents of the files lie on the medium: read here anew, without the code that is tested.
struct Map {
    /// Of each segment file: bytes of data frames (headers included), with stream and logical range.
    frames: BTreeMap<String, Vec<(Range<u64>, StreamId, Range<u64>)>>,
    /// Logical ranges of each stream and the file they belong to.
    files: Vec<(StreamId, Range<u64>, PathBuf)>,
    /// Of each batch in a stream its segment file, its bytes there, and the paths of its rows.
    rows: Vec<(String, Vec<Range<u64>>, Vec<PathBuf>)>,
}

impl Map {
    fn of(made: &Made) -> Self {
        let mut map = Self { frames: BTreeMap::new(), files: Vec::new(), rows: Vec::new() };
        let source = made.dir.path().join("src");
        for (name, _) in made.segments() {
            let bytes = fs::read(made.medium().join(&name)).unwrap();
            map.segment(&name, &bytes, &source);
        }
        map
    }

    fn segment(&mut self, name: &str, bytes: &[u8], source: &Path) {
        // Of each stream its stored bytes, and where each piece of them lies.
        let mut streams: BTreeMap<StreamId, (Vec<u8>, Vec<(usize, u64)>)> = BTreeMap::new();
        let mut at = 0;
        while at < bytes.len() {
            let ma = MaHeader::decode(&bytes[at..]).unwrap();
            if ma.kind == BlockKind::Data {
                let block = Block::decode(&bytes[at..]).unwrap();
                let (stored, pieces) = streams.entry(block.da.stream).or_default();
                pieces.push((stored.len(), (at + PAYLOAD_AT) as u64));
                stored.extend_from_slice(block.payload);
            }
            at += ma.length as usize;
        }
        let frames = self.frames.entry(name.to_owned()).or_default();
        for (stream, (stored, pieces)) in streams {
            let mut at = 0;
            while at < stored.len() {
                let header = FrameHeader::decode(stream, &stored[at..]).unwrap();
                let end = at + FRAME_HEADER_LEN + header.stored as usize;
                let logical = header.logical..header.logical + header.logical_len();
                let mut places = Vec::new();
                for (i, (begin, place)) in pieces.iter().enumerate() {
                    let stop = pieces.get(i + 1).map_or(stored.len(), |p| p.0);
                    let (from, to) = (at.max(*begin), end.min(stop));
                    if from < to {
                        places.push(place + (from - begin) as u64..place + (to - begin) as u64);
                    }
                }
                if header.frame_type == FrameType::Batch && !header.sealed {
                    let payload = &stored[at + FRAME_HEADER_LEN..end];
                    let paths = batch(&mut self.files, stream, &header, payload, source);
                    self.rows.push((name.to_owned(), places, paths));
                } else if header.frame_type.is_logical() {
                    frames.extend(places.into_iter().map(|p| (p, stream, logical.clone())));
                }
                at += header.total_len();
            }
        }
    }

    /// The files with contents in the frames that have that byte of that file of the medium.
    fn touched(&self, name: &str, byte: u64) -> BTreeSet<PathBuf> {
        let frames = self.frames.get(name).into_iter().flatten();
        let hit = frames.filter(|(bytes, ..)| bytes.contains(&byte));
        hit.flat_map(|(_, stream, logical)| {
            let overlaps = move |f: &&(StreamId, Range<u64>, PathBuf)| {
                f.0 == *stream && f.1.start < logical.end && logical.start < f.1.end
            };
            self.files.iter().filter(overlaps).map(|f| f.2.clone())
        })
        .collect()
    }
}

fn batch(
    files: &mut Vec<(StreamId, Range<u64>, PathBuf)>,
    stream: StreamId,
    header: &FrameHeader,
    payload: &[u8],
    source: &Path,
) -> Vec<PathBuf> {
    let mut plain = Vec::new();
    let mut scratch = Vec::new();
    header.open(payload, None, &mut Decompressor::default(), &mut scratch, &mut plain).unwrap();
    let batch = Batch::decode(&plain).unwrap();
    let mut start = header.logical + batch.data_at;
    let mut paths = Vec::new();
    for entry in batch.entries {
        let len = entry.logical_len();
        let path = PathBuf::from(OsString::from_vec([b"/", &entry.path()[..]].concat()));
        if let Ok(short) = path.strip_prefix(source) {
            if len > 0 {
                files.push((stream, start..start + len, short.to_owned()));
            }
            paths.push(short.to_owned());
        }
        start += len;
    }
    paths
}

/// The names of the files of which only the contents are lost, all links of an inode counted.
fn with_links(made: &Made, files: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let links = files.iter().flat_map(|f| made.before[f].names.iter().cloned());
    files.iter().cloned().chain(links).collect()
}

#[test]
fn a_flipped_bit_costs_the_files_it_touches_and_no_others() {
    let made = Made::new(1500, None, Compression::Off);
    let map = Map::of(&made);
    let into = made.dir.path().join("out");
    let step = if soak() { 97 } else { 97 * 24 };
    let mut lossy = 0;
    for (name, len) in made.files() {
        for bit in (0..len * 8).step_by(step) {
            let what = format!("{name}, bit {bit}");
            let undo = Flip::on(&made.medium().join(&name), bit);
            let report = restore(&made.cell, "made", &into).unwrap();
            let lost = made.lost(&report, &into, &what);
            let touched = map.touched(&name, bit / 8);
            assert_eq!(lost, with_links(&made, &touched), "{what}");
            lossy += u64::from(!lost.is_empty());
            drop(undo);
        }
    }
    assert!(lossy > 8000 / (step as u64 / 97), "{lossy}");
}

#[test]
fn an_import_mends_what_a_flipped_bit_damaged() {
    let made = Made::new(1500, None, Compression::Off);
    let map = Map::of(&made);
    let into = made.dir.path().join("out");
    let step = if soak() { 97 } else { 97 * 37 };
    for (name, len) in made.files() {
        for bit in (3..len * 8).step_by(step) {
            let what = format!("import, {name}, bit {bit}");
            let undo = Flip::on(&made.medium().join(&name), bit);
            let cell = made.new_cell("home2");
            made.import(&cell);
            let report = restore(&cell, "made", &into).unwrap();
            let lost = made.lost(&report, &into, &what);
            let touched = map.touched(&name, bit / 8);
            assert_eq!(lost, with_links(&made, &touched), "{what}");
            drop(undo);
        }
    }
}

#[test]
fn an_encrypted_medium_loses_no_more() {
    let made = Made::new(1500, Some(PASSPHRASE), Compression::Off);
    let into = made.dir.path().join("out");
    let step = if soak() { 997 } else { 997 * 23 };
    let mut lossy = 0;
    for (name, len) in made.files() {
        for (i, bit) in (3..len * 8).step_by(step).enumerate() {
            let what = format!("encrypted, {name}, bit {bit}");
            let undo = Flip::on(&made.medium().join(&name), bit);
            let lost = if i % 2 == 0 {
                let report = restore(&made.cell, "made", &into).unwrap();
                made.lost(&report, &into, &what)
            } else {
                let cell = made.new_cell("home2");
                made.import(&cell);
                let report = restore(&cell, "made", &into).unwrap();
                made.lost(&report, &into, &what)
            };
            lossy += u64::from(!lost.is_empty());
            // A frame is one file's contents, or those of a few small ones.
            assert!(lost.len() <= 14, "{what}: {lost:?}");
            drop(undo);
        }
    }
    assert!(lossy > 10);
}

/// A file of the medium cut to a length, until dropped.
struct Cut(PathBuf, Vec<u8>);

impl Cut {
    fn to(path: &Path, len: u64) -> Self {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..len as usize]).unwrap();
        Self(path.to_owned(), bytes)
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        fs::write(&self.0, &self.1).unwrap();
    }
}

/// Where segments are cut: at each 4096 bytes, and at odd places.
fn cuts(len: u64) -> Vec<u64> {
    let mut cuts: Vec<u64> = (0..len).step_by(4096).collect();
    cuts.extend([1, 63, 100, 4097].into_iter().filter(|c| *c < len));
    let mut state = len;
    for _ in 0..if soak() { 200 } else { 10 } {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        cuts.push((state >> 20) % len);
    }
    cuts
}

#[test]
fn a_segment_cut_short_is_found_and_costs_what_lay_behind() {
    let made = Made::new(1500, None, Compression::Off);
    let map = Map::of(&made);
    let into = made.dir.path().join("out");
    for (name, len) in made.segments() {
        for cut in cuts(len) {
            let what = format!("{name} cut to {cut} of {len}");
            let undo = Cut::to(&made.medium().join(&name), cut);
            let medium = Directories::site(&made.medium()).medium().unwrap();
            let number = SegmentNumber(name[..8].parse().unwrap());
            let found = SegmentReader::open(&medium, number).and_then(|r| scan(&r));
            assert!(found.map_or(true, |s| !s.damage.is_empty()), "{what}");
            // The internal database has the catalogs: what lies before the cut comes back.
            let report = restore(&made.cell, "made", &into).unwrap();
            let lost = made.lost(&report, &into, &what);
            let behind: BTreeSet<PathBuf> =
                (cut..len).step_by(8).flat_map(|byte| map.touched(&name, byte)).collect();
            assert_eq!(lost, with_links(&made, &behind), "{what}");
            drop(undo);
        }
    }
}

#[test]
fn a_segment_cut_short_is_imported_as_far_as_it_goes() {
    let made = Made::new(1500, None, Compression::Off);
    let map = Map::of(&made);
    let into = made.dir.path().join("out");
    for (name, len) in made.segments() {
        for cut in cuts(len) {
            let what = format!("import, {name} cut to {cut} of {len}");
            let undo = Cut::to(&made.medium().join(&name), cut);
            let cell = made.new_cell("home2");
            let imported = made.import(&cell);
            assert_eq!(imported.status, "completed_with_errors", "{what}: {imported:?}");
            check_import(&made, &map, &cell, &into, &what, &|file, byte| {
                file == name && byte >= cut
            });
            drop(undo);
        }
    }
}

#[test]
fn a_missing_segment_costs_what_it_had() {
    let made = Made::new(1500, None, Compression::Off);
    let map = Map::of(&made);
    let into = made.dir.path().join("out");
    for (name, _) in made.segments() {
        let what = format!("{name} is missing");
        let path = made.medium().join(&name);
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let report = restore(&made.cell, "made", &into).unwrap();
        let lost = made.lost(&report, &into, &what);
        let had: BTreeSet<PathBuf> =
            (0..bytes.len() as u64).step_by(8).flat_map(|byte| map.touched(&name, byte)).collect();
        assert_eq!(lost, with_links(&made, &had), "{what}");
        let cell = made.new_cell("home2");
        made.import(&cell);
        check_import(&made, &map, &cell, &into, &what, &|file, _| file == name);
        fs::write(&path, bytes).unwrap();
    }
}

/// After an import of a medium of which some bytes are gone: what has a row left and all its contents comes back, and
/// what has a row and not all its contents is named.
fn check_import(
    made: &Made,
    map: &Map,
    cell: &Cell,
    into: &Path,
    what: &str,
    gone: &dyn Fn(&str, u64) -> bool,
) {
    let sessions = cell.sessions(None, None, 100).unwrap();
    let Some(session) = sessions.iter().find(|s| s.kind == "backup") else {
        panic!("{what}: no session was found");
    };
    let report = restore(cell, &format!("made@{}", session.id), into);
    let report = report.unwrap_or_else(|e| panic!("{what}: {e}"));
    let after = made.restored(into);
    let text = |p: &Path| path_text(made.dir.path().join("src").join(p).as_os_str().as_bytes());
    let is_named = |p: &Path| report.errors.iter().any(|e| e.path == text(p));
    let cut_off =
        |name: &str, bytes: &Range<u64>| gone(name, bytes.start) || gone(name, bytes.end - 1);
    let known = |path: &PathBuf| {
        let left = |(name, places, paths): &(String, Vec<Range<u64>>, Vec<PathBuf>)| {
            paths.contains(path) && !places.iter().any(|p| cut_off(name, p))
        };
        map.rows.iter().any(left)
    };
    let mut lost: BTreeSet<PathBuf> = BTreeSet::new();
    for (name, frames) in &map.frames {
        for (bytes, stream, logical) in frames {
            if cut_off(name, bytes) {
                let hit = map.files.iter().filter(|f| {
                    f.0 == *stream && f.1.start < logical.end && logical.start < f.1.end
                });
                lost.extend(hit.map(|f| f.2.clone()));
            }
        }
    }
    let lost = with_links(made, &lost);
    for (path, before) in &made.before {
        let named = is_named(path) || before.names.iter().any(|n| is_named(n));
        let same = after.get(path) == Some(before);
        let all_known = known(path) && before.names.iter().all(known);
        if all_known && !lost.contains(path) {
            assert!(same, "{what}: {} could be restored: {report:?}", path.display());
        } else if all_known {
            assert!(named, "{what}: {} is lost and not named: {report:?}", path.display());
        } else if after.get(path).is_some_and(|a| a.contents != before.contents) {
            assert!(named, "{what}: {} is wrong and not named: {report:?}", path.display());
        }
    }
    let more = after.keys().find(|p| !made.before.contains_key(*p));
    assert_eq!(more, None, "{what}");
}
