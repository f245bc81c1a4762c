//! Trees that change between listing, opening and reading: what is backed up then.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use capstan_engine::buffer::Buffer;
use capstan_engine::link::{FilledBlock, Grant, SegmentOrdinal};
use capstan_format::batch::Batch;
use capstan_format::codec::Decompressor;
use capstan_format::entry::{Entry, Kind};
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader, FrameType};
use capstan_format::id::StreamId;

use rustix::fs::Stat;

use capstan_wire::backup::{Locked, ReadMode};
use capstan_wire::compression::Compression;

use super::input::saved::OfInput;
use super::*;
use crate::linux::source::{DirHandle, Listed};
use crate::walk::WalkItem;
use capstan_engine::ladder::Ladder;
use capstan_port::disk::base::BaseRow;
use capstan_stream::choice::CompressionChoice;

const BLOCK: usize = 256 << 10;
const STREAM: StreamId = StreamId([1; 16]);

type Change = Box<dyn FnOnce() + Send>;

/// A media agent of one segment that never ends. It keeps the rows, and changes the tree when the stream asks for its first block: its
/// first names are opened then, and nothing is read.
#[derive(Default)]
struct Port {
    is_closed: AtomicBool,
    change: Mutex<Option<Change>>,
    rows: Mutex<Vec<Entry>>,
}

impl BlockPort for Port {
    fn block_size(&self) -> usize {
        BLOCK
    }
    fn open_stream(&self, _: StreamId) {}
    fn grant(&self, _: StreamId) -> Result<Grant, LinkClosed> {
        if let Some(change) = self.change.lock().take() {
            change();
        }
        Ok(Grant { buffer: Buffer::new(BLOCK), segment: SegmentOrdinal(0), last: false })
    }
    fn grant_more(&self, _: StreamId, segment: SegmentOrdinal) -> Result<Grant, LinkClosed> {
        Ok(Grant { buffer: Buffer::new(BLOCK), segment, last: true })
    }
    fn submit(&self, block: FilledBlock) -> Result<(), LinkClosed> {
        for copy in &block.notes.copies {
            let header = FrameHeader::decode(STREAM, copy).unwrap();
            if header.frame_type != FrameType::Batch {
                continue;
            }
            let stored = &copy[FRAME_HEADER_LEN..][..header.stored as usize];
            let (mut scratch, mut plain) = (Vec::new(), Vec::new());
            header
                .open(stored, None, &mut Decompressor::default(), &mut scratch, &mut plain)
                .unwrap();
            self.rows.lock().extend(Batch::decode(&plain).unwrap().entries);
        }
        Ok(())
    }
    fn give_back(&self, _: StreamId, _: Grant) {}
    fn is_closing(&self, _: StreamId, _: SegmentOrdinal) -> bool {
        false
    }
    fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }
    fn leave_segment(&self, _: StreamId, _: SegmentOrdinal) {}
    fn close_stream(&self, _: StreamId) -> Result<(), LinkClosed> {
        Ok(())
    }
}

/// A base that has some rows, and changes the tree when it is asked for some names: each is listed then, and not opened.
#[derive(Default)]
struct Base {
    rows: BTreeMap<Vec<u8>, BaseRow>,
    changes: BTreeMap<&'static str, Change>,
}

impl BaseCursor for Base {
    fn find(&mut self, _: &[u8], name: &[u8], _: &mut Vec<(Vec<u8>, Vec<u8>)>) -> Option<BaseRow> {
        if let Some(change) = str::from_utf8(name).ok().and_then(|name| self.changes.remove(name)) {
            change();
        }
        self.rows.get(name).cloned()
    }
    fn rest(&mut self, _: &mut Vec<(Vec<u8>, Vec<u8>)>) {}
}

impl Base {
    fn changing(name: &'static str, change: impl FnOnce() + Send + 'static) -> Self {
        Self { changes: BTreeMap::from([(name, Box::new(change) as Change)]), ..Self::default() }
    }
}

#[derive(Default)]
struct Said(Mutex<Vec<Code>>);

impl Listener for Said {
    fn message(&self, message: Message) {
        self.0.lock().push(message.code);
    }
}

/// Lets `run` have a backup, by way of `port`. The newest row of each name, how many rows there were of it, and what was said.
fn rows_of(
    port: &Arc<Port>,
    retry_wait: Duration,
    run: impl FnOnce(&Backup<'_>, StreamOptions),
) -> (BTreeMap<String, (Entry, usize)>, Vec<Code>) {
    let said = Said::default();
    let options = ReadOptions {
        locked: Locked::Warn,
        lock_files: false,
        hard_links_as_files: false,
        retries: 2,
        retry_wait,
        mode: ReadMode::Auto,
    };
    let (selection, stop) = (Selection::all(), AtomicBool::new(false));
    let counters = Counters::default();
    let backup = Backup {
        port: port.clone(),
        meters: Arc::default(),
        owners: Arc::default(),
        selection: &selection,
        base: None,
        known: None,
        options: &options,
        stop: &stop,
        counters: &counters,
        listener: &said,
    };
    let stream = StreamOptions {
        stream: STREAM,
        label: b"{}".to_vec(),
        names: b"{}".to_vec(),
        sealers: None,
        crc: true,
        choice: CompressionChoice::new(Compression::Off, Arc::new(Ladder::default())),
    };
    run(&backup, stream);
    let mut newest: BTreeMap<String, (Entry, usize)> = BTreeMap::new();
    for row in port.rows.lock().drain(..).filter(|row| row.kind.is_inode()) {
        let name = String::from_utf8_lossy(&row.name).into_owned();
        let count = newest.get(&name).map_or(0, |(_, count)| *count);
        newest.insert(name, (row, count + 1));
    }
    let said = std::mem::take(&mut *said.0.lock());
    (newest, said)
}

/// Backs a directory up, which changes meanwhile.
fn back_up(
    dir: &Path,
    mut base: Base,
    change: Change,
) -> (BTreeMap<String, (Entry, usize)>, Vec<Code>) {
    let port = Arc::new(Port { change: Mutex::new(Some(change)), ..Port::default() });
    let root = dir.as_os_str().as_bytes()[1..].to_vec();
    rows_of(&port, Duration::ZERO, |backup, stream| {
        backup.run(&[root], Some(&mut base), vec![stream]).unwrap();
    })
}

fn path_of(dir: &Path, name: &str) -> Vec<u8> {
    dir.join(name).as_os_str().as_bytes()[1..].to_vec()
}

/// A file of two names is touched, and its first name is another file's before it is read again.
#[test]
fn further_names_stay_those_of_the_file_that_was_met_first() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    fs::write(dir.join("a"), "old contents").unwrap();
    fs::hard_link(dir.join("a"), dir.join("z")).unwrap();
    let old = fs::metadata(dir.join("z")).unwrap().ino();
    let to_change = dir.clone();
    let change = move || {
        let file = fs::File::options().write(true).open(to_change.join("a")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        fs::write(to_change.join("new"), "new").unwrap();
        fs::rename(to_change.join("new"), to_change.join("a")).unwrap();
    };
    let (rows, said) = back_up(&dir, Base::default(), Box::new(change));
    let (a, times) = &rows["a"];
    assert_eq!((a.ino, a.size, *times), (old, 12, 2), "the second reading is of the same file");
    let (z, _) = &rows["z"];
    assert!(z.link && z.target == path_of(&dir, "a"));
    assert!(!said.contains(&Code::Changed), "the second reading found one state: {said:?}");
}

/// The same file once more, whose names are asked for twice: the second asking does not count as another name.
#[test]
fn a_second_reading_forgets_no_further_name() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    fs::write(dir.join("a"), "contents").unwrap();
    // Its further name comes in a later group.
    for n in 0..crate::walk::GROUP {
        fs::write(dir.join(format!("m{n}")), "").unwrap();
    }
    fs::hard_link(dir.join("a"), dir.join("z")).unwrap();
    let to_change = dir.clone();
    let change = move || {
        let file = fs::File::options().write(true).open(to_change.join("a")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    };
    let (rows, _) = back_up(&dir, Base::default(), Box::new(change));
    assert_eq!(rows["a"].1, 2);
    assert!(rows["z"].0.link && rows["z"].0.target == path_of(&dir, "a"));
}

#[test]
fn a_link_or_a_node_that_became_a_file_is_backed_up_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    symlink("nowhere", dir.join("link")).unwrap();
    let to_change = dir.join("link");
    let change = move || {
        fs::remove_file(&to_change).unwrap();
        fs::write(&to_change, "a file").unwrap();
    };
    let base = Base::changing("link", change);
    let (rows, said) = back_up(&dir, base, Box::new(|| {}));
    let row = rows.get("link").map(|(row, _)| (row.kind, row.size));
    assert_eq!(row, Some((Kind::File, 6)), "{said:?}");
    assert!(!said.contains(&Code::NotOpened));
}

/// A file's first name is another file's between the glance at it, which asks for its names, and its opening.
#[test]
fn a_name_that_is_another_files_when_it_is_opened_is_nobodys_first() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    fs::write(dir.join("a"), "old contents").unwrap();
    // Changed so long ago that it is not in use.
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    fs::File::open(dir.join("a")).unwrap().set_modified(long_ago).unwrap();
    fs::hard_link(dir.join("a"), dir.join("z")).unwrap();
    let handle = directory(&dir);
    let stat = source::stat_at(&handle, b"a").unwrap();
    // Further names of what is not among the names of this version: each is to be opened.
    let item = |name| item(&handle, name, stat, base_of(&stat));
    let group = Group { items: vec![item("a"), item("z")], ..Group::default() };
    fs::write(dir.join("new"), "new").unwrap();
    fs::rename(dir.join("new"), dir.join("a")).unwrap();
    let (rows, _) = read_group(group, None);
    assert_eq!(rows["a"].0.size, 3);
    let z = &rows["z"].0;
    assert_eq!((z.link, z.size), (false, 12), "what is at /a is another file");
}

/// What stat said before a file was read tells nothing of it when it is read again.
#[test]
fn what_is_read_again_is_not_held_against_the_base_by_an_old_stat() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let path = dir.join("f");
    let write = |path: &Path, text: &str| {
        fs::write(path, text).unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(3600 + text.len() as u64);
        fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
    };
    write(&path, "old");
    let handle = directory(&dir);
    let stat = source::stat_at(&handle, b"f").unwrap();
    let group = Group {
        items: vec![item(&handle, "f", stat, BaseRow { link_to: None, ..base_of(&stat) })],
        ..Group::default()
    };
    write(&path, "changed");
    // It is locked when it is read, changes, and is free when it is read again.
    let holder = fs::File::open(&path).unwrap();
    rustix::fs::flock(&holder, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let change = move || {
        write(&path, "changed again");
        drop(holder);
    };
    let (rows, said) = read_group(group, Some(Box::new(change)));
    let (f, times) = &rows["f"];
    assert_eq!((f.size, *times), (13, 2), "{said:?}");
}

fn directory(dir: &Path) -> Arc<DirHandle> {
    Arc::new(DirHandle {
        fd: fs::File::open(dir).unwrap().into(),
        path: dir.as_os_str().as_bytes()[1..].to_vec(),
    })
}

/// A name of which stat was asked ahead.
fn item(dir: &Arc<DirHandle>, name: &str, stat: Stat, base: BaseRow) -> WalkItem {
    WalkItem {
        dir: dir.clone(),
        listed: Listed { name: name.as_bytes().to_vec(), kind: Some(Kind::File), ino: stat.st_ino },
        base: Some(base),
        gone: false,
        left_out: None,
        ours: AtomicBool::new(false),
        stat: OnceLock::from(Box::new(stat)),
        entered: None,
    }
}

/// A base's row of the file that stat describes; a further name of one that is not among the names of the version.
fn base_of(stat: &Stat) -> BaseRow {
    BaseRow {
        complete: true,
        sum: None,
        kind: Kind::File,
        access: None,
        details: None,
        size: source::size_of(Kind::File, stat),
        mtime: source::mtime_of(stat),
        ctime: source::ctime_of(stat),
        ino: stat.st_ino,
        dev: stat.st_dev,
        data: None,
        link_to: Some(b"elsewhere".to_vec()),
        saved: Vec::new(),
    }
}

/// Reads names; the tree changes when the first ones are opened.
fn read_group(
    group: Group,
    change: Option<Change>,
) -> (BTreeMap<String, (Entry, usize)>, Vec<Code>) {
    let port = Arc::new(Port { change: Mutex::new(change), ..Port::default() });
    // So long as a reading of the kernel's locks is believed.
    rows_of(&port, Duration::from_millis(2100), |backup, stream| {
        let queues = [Queue::new(1)];
        assert!(queues[0].give(Arc::new(group)).is_ok());
        queues[0].close();
        let (pieces, ahead, busy) = (Pieces::default(), Ahead::default(), Mutex::new(1));
        let writer = backup.open_stream(stream);
        let reader = StreamReader::new(backup, writer, &queues[0], &pieces, &ahead, true);
        reader.run(&busy).unwrap();
    })
}

#[test]
fn a_directory_that_is_moved_while_it_is_walked_has_a_row() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    fs::create_dir(dir.join("sub")).unwrap();
    fs::write(dir.join("sub/x"), "contents").unwrap();
    let mode = fs::Permissions::from_mode(0o751);
    fs::set_permissions(dir.join("sub"), mode).unwrap();
    let to_change = dir.clone();
    let change = move || fs::rename(to_change.join("sub"), to_change.join("new")).unwrap();
    // What is in it is listed, and it has no row yet.
    let base = Base::changing("x", change);
    let (rows, said) = back_up(&dir, base, Box::new(|| {}));
    assert_eq!(rows["x"].0.size, 8);
    let row = rows.get("sub").map(|(row, times)| (row.kind, row.mode, *times));
    assert_eq!(row, Some((Kind::Dir, 0o751, 1)), "{said:?}");
    assert_eq!(said, [Code::Vanished]);
}

/// An empty directory is removed between the walk, which entered it, and its stream. Nothing holds it open meanwhile.
#[test]
fn a_directory_that_vanishes_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    fs::create_dir(dir.join("a")).unwrap();
    fs::create_dir(dir.join("b")).unwrap();
    fs::write(dir.join("b/x"), "contents").unwrap();
    let gone = dir.join("a");
    let base = Base::changing("x", move || fs::remove_dir(gone).unwrap());
    let (rows, said) = back_up(&dir, base, Box::new(|| {}));
    let row = rows.get("a").map(|(row, times)| (row.kind, *times));
    assert_eq!(row, Some((Kind::Dir, 1)), "{said:?}");
    assert_eq!(said, [Code::Vanished]);
}

/// A directory is put in the place of another, and is entered after its row was asked for.
#[test]
fn a_directory_that_comes_back_before_it_is_entered_has_a_row() {
    let (dir, aside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = dir.path().canonicalize().unwrap();
    fs::create_dir(dir.join("a")).unwrap();
    fs::write(dir.join("a/x"), "contents").unwrap();
    for n in 0..crate::walk::GROUP {
        fs::write(dir.join(format!("m{n}")), "").unwrap();
    }
    fs::write(dir.join("z"), "").unwrap();
    let (at, away) = (dir.join("a"), aside.path().join("away"));
    let take_away = {
        let (at, away) = (at.clone(), away.clone());
        move || fs::rename(at, away).unwrap()
    };
    let (is_back, back) = std::sync::mpsc::channel();
    let put_back = move || {
        fs::rename(away, at).unwrap();
        is_back.send(()).unwrap();
    };
    let mut base = Base::changing("m0", take_away);
    // The directory comes first in the first group. The others are listed when that was opened.
    base.changes.insert("z", Box::new(move || back.recv().unwrap()));
    let (rows, said) = back_up(&dir, base, Box::new(put_back));
    assert_eq!(rows["x"].0.size, 8);
    let row = rows.get("a").map(|(row, times)| (row.kind, *times));
    assert_eq!(row, Some((Kind::Dir, 1)), "{said:?}");
}

/// The device fails while nothing comes.
#[test]
fn an_input_that_gives_nothing_is_not_waited_for_where_nothing_can_be_written() {
    struct Silent(Arc<Port>);
    impl std::io::Read for Silent {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            assert!(!self.0.is_closed.swap(true, Relaxed), "it is waited for still");
            Err(std::io::ErrorKind::WouldBlock.into())
        }
    }
    let port = Arc::new(Port::default());
    rows_of(&port, Duration::ZERO, |backup, stream| {
        let Backup { port: blocks, meters, stop, counters, .. } = backup;
        let of = OfInput { port: blocks.clone(), meters: meters.clone(), stop, counters };
        assert!(of.run(b"f", &mut Silent(port.clone()), stream).is_err());
    });
}
