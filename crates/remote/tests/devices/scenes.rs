//! What is done with a device host, and what it tells: the same wherever it is.

use std::fmt::Debug;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capstan_address::{Address, ArrayAddress, LibraryName, StoreAddress, TapeAddress};
use capstan_engine::problem::Explain;
use capstan_format::array::RebuiltMember;
use capstan_format::id::{CellId, MediumId, SegmentNumber, VersionId};
use capstan_format::keys::Key32;
use capstan_format::lock::VersionLock;
use capstan_format::record::{FORMAT_VERSION, MediumHeader, Protection};
use capstan_medium::host::operator::Operator;
use capstan_medium::host::queue::{Patience, Queue};
use capstan_medium::host::shared::Common;
use capstan_medium::host::{DeviceHost, KnownMembers, OpenArray, Wanted};
use capstan_medium::names::HEADER_NAME;
use capstan_medium::storage::{Recorded, SegmentSize};
use capstan_medium::tape::{Place, TapeError};
use capstan_medium::{Device, DeviceError};
use capstan_tape::vtl::library::{Design, Library};

const BLOCK: usize = 64 << 10;

type Told<'t> = &'t mut Vec<String>;

pub fn header(id: u8) -> MediumHeader {
    MediumHeader {
        format: FORMAT_VERSION,
        incompatible: 0,
        compatible: 0,
        medium: MediumId([id; 16]),
        label: format!("m{id}"),
        block_size: BLOCK as u32,
        created_us: 0,
        protection: Protection::None,
        cell: None,
        array: None,
        drive_key: None,
    }
}

pub fn lock() -> VersionLock {
    VersionLock::new(VersionId([3; 16]), 1 << 50, &[SegmentNumber(1), SegmentNumber(2)])
}

/// Makes a medium in a directory, with two segments.
pub fn made(host: &dyn DeviceHost, path: &Path, id: u8) -> Address {
    let at: Address = format!("file:{}", path.display()).parse().unwrap();
    let opened = host.writable(&at, &|| Ok(header(id)), None, &()).unwrap();
    let mut device = opened.into_device().into_device().unwrap();
    write(&mut *device, 1).unwrap();
    write(&mut *device, 2).unwrap();
    at
}

pub fn write(device: &mut dyn Device, fill: u8) -> Result<(), DeviceError> {
    device.begin_segment()?;
    let mut block = capstan_engine::buffer::Buffer::new(BLOCK);
    block.fill(fill);
    (0..3).try_for_each(|_| device.write(&block))?;
    device.begin_catalog()?;
    device.write(&block)?;
    device.end_segment()?;
    device.commit()
}

/// Tells what came, and what an error decides.
fn tell<T: Debug>(told: Told<'_>, what: &str, came: Result<T, DeviceError>) {
    told.push(match came {
        Ok(came) => format!("{what}: {came:?}"),
        Err(e) => format!(
            "{what}: {e} | {} | {:?} | {} {} {} {} {} {} {} {} {} {}",
            e.sentence(),
            e.hint(),
            e.is_full(),
            e.is_busy(),
            e.is_no_medium(),
            e.is_used(),
            e.spares_medium(),
            e.tells_on_medium(),
            e.blames_drive(),
            e.blames_medium(),
            e.is_unreachable(),
            e.is_of_spool(),
        ),
    });
}

fn tell_tape<T: Debug>(told: Told<'_>, what: &str, came: Result<T, TapeError>) {
    tell(told, what, came.map_err(DeviceError::from));
}

fn tell_io<T: Debug>(told: Told<'_>, what: &str, came: std::io::Result<T>) {
    told.push(match came {
        Ok(came) => format!("{what}: {came:?}"),
        Err(e) => format!("{what}: {e} {:?} {:?}", e.kind(), e.raw_os_error()),
    });
}

pub fn stores(host: &dyn DeviceHost, dir: &Path, told: Told<'_>) {
    let (at_new, at_other) = (dir.join("new"), dir.join("other"));
    let of = |path: &Path| StoreAddress::from(path);
    let (new, other) = (of(&at_new), of(&at_other));
    fs::create_dir(&at_other).unwrap();
    fs::write(at_other.join("something"), b"x").unwrap();
    std::os::unix::fs::symlink(&at_other, dir.join("link")).unwrap();
    told.push(format!("{:?}", host.whole(&of(&dir.join("link/below")))));
    tell_io(told, "resolve", host.resolve(&of(&dir.join("link"))));
    tell_io(told, "resolve none", host.resolve(&of(&dir.join("none"))));
    told.push(format!("{:?}", host.empty_mount_point(&of(dir))));
    let link = of(&dir.join("link"));
    told.push(format!("{} {}", host.is_there(&new), host.is_there(&link)));
    told.push(format!("{} {}", host.is_same(&link, &other), host.is_same(&new, &other)));
    tell(told, "new", host.look_in(&new));
    tell(told, "other", host.look_in(&other));
    tell(told, "file", host.look_in(&of(&at_other.join("something"))));
    tell(told, "foresee new", host.foresee(&new));
    tell(told, "foresee other", host.foresee(&other));
    tell(told, "no header", host.header_in(&other));
    made(host, &at_new, 1);
    tell(told, "foresee", host.foresee(&new));
    tell(told, "header", host.header_in(&new));
    tell(told, "not lost", host.lost_header(&new));
    told.push(format!("{} {}", host.has_header(&new), host.has_header(&other)));
    told.push(format!("{:?}", host.space(&new).map(|space| space.file_system)));
    fs::write(at_new.join(HEADER_NAME), vec![7; 5000]).unwrap();
    tell(told, "lost", host.lost_header(&new));
    tell(told, "damaged", host.header_in(&new));
    let medium = host.medium_of(&new, header(4)).unwrap();
    told.push(format!("{:?} {:?}", medium.header(), medium.segments().unwrap()));
    tell(told, "anew", host.rewrite_header(&new, &header(4)));
    tell(told, "again", host.header_in(&new));
    let backup: Vec<u8> = (0..3_000_000u32).map(|n| (n * 31) as u8).collect();
    tell(told, "backup", host.write_idb_backup(&new, 1_700_000_000_000_000, &backup));
    let backups = host.idb_backups(&new).unwrap();
    told.push(format!("{backups:?}"));
    let read = host.read_idb_backup(&new, &backups[0].name, 1 << 30).unwrap();
    assert!(read == backup);
    tell_io(told, "too large", host.read_idb_backup(&new, &backups[0].name, 100).map(|b| b.len()));
    tell_io(told, "none", host.read_idb_backup(&new, "none", 100));
    tell(told, "nowhere", host.idb_backups(&of(&dir.join("none"))));
}

pub fn media(host: &dyn DeviceHost, dir: &Path, told: Told<'_>) {
    let at: Address = format!("file:{}", dir.join("m").display()).parse().unwrap();
    let null: Address = "null:".parse().unwrap();
    tell(told, "none", host.medium(&at).map(|_| ()));
    tell(told, "null", host.medium(&null).map(|_| ()));
    tell(told, "blank", host.is_blank(&at));
    let refused = || Err(ErrorKind::PermissionDenied.into());
    tell(told, "no header", host.writable(&at, &refused, None, &()).map(|_| ()));
    made(host, &dir.join("m"), 1);
    tell(told, "not blank", host.is_blank(&at));
    let medium = host.medium(&at).unwrap();
    told.push(format!("{} {:?} {:?}", medium.path(), medium.header(), medium.header_problem()));
    told.push(format!("{:?} {}", medium.problems(), medium.is_on_tape()));
    let wanted =
        Wanted { medium: MediumId([1; 16]), label: "m1".to_owned(), asks: CellId([9; 16]) };
    told.push(format!("{:?}", host.known(&at, wanted).unwrap().segments().unwrap()));
    tell(told, "blocks", host.writable(&at, &refused, Some(4096), &()).map(|_| ()));
    let opened = host.writable(&at, &refused, None, &()).unwrap();
    let device = opened
        .judged(|medium, is_new| {
            told.push(format!("{:?} {is_new}", medium.header()));
            Ok::<(), DeviceError>(())
        })
        .unwrap();
    tell(told, "busy", host.held(&at).map(|_| ()));
    tell(told, "drive", device.check_drive());
    tell(told, "worm", device.refuse_worm());
    told.push(format!("{} {:?}", device.address(&at), device.placed(&at)));
    told.push(format!("{:?}", device.lost_members()));
    tell(told, "hold", device.hold().map(|held| held.medium().segments().unwrap()));
    let mut device = device.into_device().unwrap();
    told.push(format!("{:?} {}", device.next_number(), device.can_leave_out_numbers()));
    told.push(format!("{} {}", device.short_blocks(), device.commits_each_segment()));
    told.push(format!("{:?} {:?}", device.segment_size(), device.speeds()));
    told.push(format!("{} {}", device.is_instant(), device.is_ending()));
    told.push(format!("{} {:?}", device.compresses(), device.take_lost()));
    tell(told, "compression", device.set_compression(true));
    device.advance(SegmentNumber(7));
    tell(told, "begin", device.begin_segment());
    device.abandon_segment();
    tell(told, "write", write(&mut *device, 3));
    told.push(format!("{:?} {:?}", device.next_number(), device.object_of(SegmentNumber(7))));
    told.push(format!("{} {:?}", device.cut(SegmentNumber(7)), device.drive_sessions()));
    drop(device);
    told.push(format!("{:?}", host.medium(&at).unwrap().segments().unwrap()));
    let again = host.writable(&at, &refused, None, &()).unwrap().into_device();
    tell(told, "replace", again.replace_header(&MediumHeader { label: "x".into(), ..header(1) }));
    let again = host.writable(&at, &refused, None, &()).unwrap().into_device();
    told.push(format!("{:?}", again.medium().header()));
    tell(told, "anew", again.begin_anew(&header(2)));
    told.push(format!("{:?}", host.medium(&at).unwrap().segments().unwrap()));
    let again = host.writable(&at, &refused, None, &()).unwrap().into_device();
    tell(told, "erase", again.erase(true));
    tell(told, "erased", host.is_blank(&at));
    let key = MediumId([5; 16]);
    host.open_key(key, Key32::new([6; 32]));
    told.push(format!("{} {}", host.has_key(key), host.has_key(MediumId([1; 16]))));
    tell(told, "spool", host.read_through(None));
    let mut keeps_nothing = host.null(&null, BLOCK as u32).unwrap();
    tell(told, "null", write(&mut *keeps_nothing, 1));
    tell(told, "no null", host.null(&at, BLOCK as u32).map(|_| ()));
}

pub fn storages(host: &dyn DeviceHost, dir: &Path, told: Told<'_>) {
    let at = made(host, &dir.join("m"), 1);
    let medium = host.medium(&at).unwrap();
    let one = SegmentNumber(1);
    tell(told, "segments", medium.segments());
    tell(told, "lengths", medium.lengths());
    tell(told, "length", medium.segment_length(one));
    tell(told, "none", medium.segment_length(SegmentNumber(9)));
    let size = SegmentSize { bytes: 1 << 20, blocks: 3 };
    tell(told, "cut", medium.is_cut(one, size, &mut 3));
    tell(told, "away", medium.may_be_away(one));
    tell(told, "found", medium.segment_found(one));
    told.push(format!("{:?}", medium.segment_at(one)));
    tell(told, "spare", medium.check_spare(one));
    let place =
        Recorded { number: one, segment: capstan_format::id::SegmentId([1; 16]), object: 3 };
    medium.recall(vec![place]);
    tell(told, "attachment", medium.attachment(one));
    told.push(format!("{}", medium.takes_attachments()));
    tell(told, "locks", medium.version_locks());
    tell(told, "removed", medium.last_removed());
    let file = medium.open_segment(one).unwrap();
    let mut bytes = vec![0; 5000];
    tell_io(told, "read", file.read_at(&mut bytes, 100));
    tell_io(told, "block", file.read_block(2, 2 * BLOCK as u64, &mut bytes));
    tell_io(told, "behind", file.read_at(&mut bytes, 1 << 30));
    file.expect(1);
    tell_io(told, "len", file.len());
    tell_io(told, "data", file.data_from(5));
    told.push(format!("{:?} {:?}", file.object(), &bytes[..5]));
    tell(told, "no segment", medium.open_segment(SegmentNumber(8)).map(|_| ()));
    let held = host.held(&at).unwrap();
    tell(told, "lock", held.put_lock(&lock()));
    let later = VersionLock { until_us: 5, ..lock() };
    tell(told, "lock again", held.put_lock(&later));
    let found = held.medium().version_locks();
    told.push(format!("{found:?}"));
    tell(told, "not passed", held.remove_passed_locks(&found.unwrap(), 7));
    let removed = held.remove_segments(&[SegmentNumber(2), SegmentNumber(5)]);
    told.push(format!("{removed:?}"));
    tell(told, "segments", held.medium().segments());
    tell(told, "removed", held.medium().last_removed());
    let storage = held.medium().storage();
    tell_io(told, "list", storage.list());
    tell_io(told, "write", storage.write_file("a", &[]));
    tell_io(told, "exists", storage.write_file("a", &[]));
    let block = capstan_engine::buffer::Buffer::new(4096);
    let mut new = storage.create("b").unwrap();
    tell_io(told, "append", new.append(&block));
    tell_io(told, "sync", new.sync());
    tell_io(told, "rename", storage.rename("b", "c"));
    tell_io(told, "rename none", storage.rename("b", "c"));
    tell_io(told, "replace", storage.replace("c", "a"));
    tell_io(told, "length", storage.length("a"));
    tell_io(told, "length none", storage.length("b"));
    tell_io(told, "empty", storage.empty("a"));
    tell_io(told, "holds", storage.holds(one));
    tell_io(told, "remove", storage.remove("a"));
    tell_io(told, "remove none", storage.remove("a"));
    let gone = storage.remove_each(&["x".to_owned(), format!("{HEADER_NAME}/y"), "z".to_owned()]);
    told.push(format!("{gone:?}"));
    let begins = storage.read_begins(&[HEADER_NAME.to_owned(), "none".to_owned()], 60);
    told.push(format!("{begins:?}"));
    tell_io(told, "piece", storage.read_piece("00000001.segment", 9, 9));
    told.push(format!("{} {}", storage.is_array(), storage.has_blocks_of_ours()));
    tell_io(told, "sync", storage.sync());
}

fn library(dir: &Path) -> LibraryName {
    let design = Design {
        model: "lto-9".into(),
        drives: 2,
        slots: 5,
        mail_slots: 1,
        alone: false,
        capacity: Some(100_000_000),
        scale: 1e6,
        ratio: 1.0,
    };
    let path = dir.join("vtl");
    Library::create(&path, &design, 4).unwrap();
    LibraryName::Virtual(path)
}

fn tape(library: &LibraryName, number: u32) -> TapeAddress {
    match format!("{library}?tape=V{number:05}L9").parse().unwrap() {
        Address::Tape(tape) => tape,
        other => unreachable!("{other}"),
    }
}

pub fn tapes(host: &dyn DeviceHost, dir: &Path, told: Told<'_>) {
    let name = library(dir);
    let (one, none) = (tape(&name, 1), tape(&name, 9));
    let at = Address::Tape(one.clone());
    let mut opened = host.library(&name).unwrap();
    told.push(format!("{} {} {:?}", opened.name(), opened.robot(), opened.elements()));
    tell_tape(told, "inventory", opened.inventory());
    tell_tape(told, "rescan", opened.rescan());
    tell_tape(told, "move", opened.move_tape(Place::Slot(4), Place::Mail(1)));
    tell_tape(told, "move none", opened.move_tape(Place::Slot(5), Place::Slot(4)));
    tell_tape(told, "info", opened.drive_info(1).map(|info| (info.model, info.in_use)));
    tell_tape(told, "info none", opened.drive_info(7).map(|info| info.model));
    told.push(format!("{:?}", opened.cleanings_left("CLN001L1")));
    tell_tape(told, "clean", opened.clean(1, Place::Slot(1)));
    tell_tape(told, "unload", opened.unload_drive(2));
    drop(opened);
    let missing = LibraryName::Virtual(dir.join("none"));
    tell_tape(told, "no library", host.library(&missing).map(|_| ()));
    tell_tape(told, "inventory", host.inventory(&name));
    tell_tape(told, "inventory now", host.inventory_now(&name));
    tell(told, "by hand", host.is_by_hand(&one));
    tell(told, "no drive", host.refuse_no_drive(&format!("{name}?drive=7").parse().unwrap()));
    tell_tape(told, "why not", host.why_not_written(&name, "V00001L7"));
    tell_tape(told, "writes", host.why_not_written(&name, "V00001L9"));
    tell(told, "blank", host.is_blank(&at));
    tell(told, "unused", host.refuse_used(&one));
    tell(told, "none", host.medium(&Address::Tape(none.clone())).map(|_| ()));
    tell(told, "which", host.medium(&Address::Tape(tape(&name, 2))).map(|_| ()));
    let writable = host.writable(&at, &|| Ok(header(1)), None, &()).unwrap();
    let mut device = writable.into_device().into_device().unwrap();
    told.push(format!("{:?} {:?}", device.segment_size(), device.speeds()));
    told.push(format!("{} {}", device.compresses(), device.can_leave_out_numbers()));
    tell(told, "write", write(&mut *device, 1));
    told.push(format!("{:?}", device.object_of(SegmentNumber(1))));
    told.push(format!("{}", device.drive_sessions().len()));
    drop(device);
    host.done_writing(&at);
    tell(told, "used", host.refuse_used(&one));
    tell(told, "header", host.header_on(&one));
    let medium = host.medium(&at).unwrap();
    told.push(format!("{:?} {}", medium.segments(), medium.is_on_tape()));
    told.push(format!("{}", medium.takes_attachments()));
    let mut bytes = vec![0; BLOCK];
    let file = medium.open_segment(SegmentNumber(1)).unwrap();
    tell_io(told, "block", file.read_block(1, BLOCK as u64, &mut bytes));
    told.push(format!("{:?} {:?}", bytes[0], file.object()));
    drop(file);
    let lock = lock();
    let new = capstan_medium::NewAttachment {
        id: capstan_format::id::SegmentId([8; 16]),
        kind: capstan_format::attachment::AttachmentKind::Lock,
        contents: Vec::new(),
        locks: vec![lock],
        written_us: 7,
    };
    tell(told, "attach", medium.attach(&new));
    let medium = host.medium(&at).unwrap();
    let attached = medium.attachment(SegmentNumber(2));
    told.push(format!("{attached:?}"));
    if let Ok(Some(attached)) = attached {
        tell(told, "attached", medium.read_attachment(&attached));
        tell(told, "both", medium.has_both_records(&attached));
    }
    drop(medium);
    told.push(format!("{:?}", host.seen_on(&one)));
    told.push(format!("{:?}", host.medium_in(&tape(&name, 1))));
    let trial = host.trial(&Address::Tape(tape(&name, 2)));
    trial.keep();
    drop(host.trial(&at));
    host.wait_for(&at);
    host.leave_exported(&at);
    host.note_use(MediumId([1; 16]), &at);
    told.push(format!("{}", host.has_all_drives(&name)));
    host.done_reading(&at);
    host.release_idle();
    told.push(format!("{:?}", host.take_sessions().iter().map(|s| &s.name).collect::<Vec<_>>()));
    told.push(format!("{:?} {:?}", host.take_suspects(), host.take_drive_faults()));
    told.push(format!("{:?} {}", host.drive_fault_of(&one), host.is_drive_sound(&name, 1)));
    told.push(format!("{:?}", host.take_struck()));
    tell(told, "worm", host.refuse_worm(&one));
    tell(told, "erase", host.erase_tape(&one, false));
    tell(told, "blank", host.is_blank(&at));
    tell_tape(told, "eject", host.eject(&one));
    tell(told, "devices", host.devices_at("user@").map(|_| ()));
    host.settle(&|_| ());
}

fn array(dir: &Path, names: [&str; 3]) -> ArrayAddress {
    let members: Vec<String> =
        names.iter().map(|name| format!("file:{}", dir.join(name).display())).collect();
    match format!("rait5:{}", members.join(",")).parse().unwrap() {
        Address::Array(array) => array,
        other => unreachable!("{other}"),
    }
}

pub fn arrays(host: &dyn DeviceHost, dir: &Path, told: Told<'_>) {
    let name = array(dir, ["a", "b", "c"]);
    let at = Address::Array(name.clone());
    let ids = Mutex::new(10);
    let new_id = || {
        *ids.lock().unwrap() += 1;
        Ok(MediumId([*ids.lock().unwrap(); 16]))
    };
    tell(told, "none", host.array(&name, &()).map(|_| ()));
    let refused = || Err(ErrorKind::PermissionDenied.into());
    let no_id = || Err(ErrorKind::PermissionDenied.into());
    tell(told, "no id", host.make_array(&name, &header(1), &[], &no_id));
    tell(told, "make", host.make_array(&name, &header(1), &[], &new_id));
    told.push(format!("{}", host.half_made(&name).is_some()));
    fs::remove_dir_all(dir.join("b")).unwrap();
    let half = host.half_made(&name).unwrap();
    told.push(format!("{:?} {:?}", half.header(), half.blank()));
    told.push(format!("{:?}", half.blank_stores()));
    tell(told, "half", half.make(&new_id));
    drop(half);
    tell(told, "look", host.look_at_member(&name.members[1]));
    tell(told, "member alone", host.medium(&name.members[1]).map(|_| ()));
    tell(told, "drives", host.refuse_too_few_drives(&name));
    let writable = host.writable(&at, &refused, None, &()).unwrap().into_device();
    told.push(format!("{:?} {:?}", writable.placed(&at), writable.lost_members()));
    drop(writable);
    fs::remove_dir_all(dir.join("c")).unwrap();
    let opened = host.array(&name, &()).unwrap();
    told.push(format!("{} {:?}", opened.address(), opened.header()));
    told.push(format!("{:?}", opened.lost()));
    for member in opened.members() {
        let Some(member) = member else {
            told.push("lost".to_owned());
            continue;
        };
        told.push(format!("{:?} {:?}", member.medium(), member.problems()));
        tell(told, "segments", member.segments());
        tell(told, "held", member.held());
    }
    told.push(format!("{:?}", opened.placed()));
    let new: Address = format!("file:{}", dir.join("d").display()).parse().unwrap();
    told.push(format!("{:?}", opened.placed_with(2, &new)));
    let medium = opened.medium().unwrap();
    told.push(format!("{:?} {:?}", medium.header(), medium.problems()));
    told.push(format!("{:?}", medium.segments()));
    let lock = opened.lock().unwrap();
    tell(told, "busy", host.held(&at).map(|_| ()));
    let mut bytes = 0;
    let rebuilt = opened.rebuild(2, &new, &new_id, &mut |written| {
        bytes += written;
        true
    });
    tell(told, "rebuilt", rebuilt);
    told.push(format!("{bytes}"));
    drop(lock);
    drop(opened);
    let now = array(dir, ["a", "b", "d"]);
    tell(told, "now", host.array(&now, &()).map(|array| array.lost()));
    let held = host.held(&Address::Array(now)).unwrap();
    tell(told, "segments", held.medium().segments());
    let library = library(dir);
    let one = tape(&library, 1);
    host.set_incomplete(std::slice::from_ref(&one), std::slice::from_ref(&one));
    told.push(format!("{} {}", host.is_incomplete(&one), host.is_incomplete(&tape(&library, 2))));
    told.push(format!("{:?}", host.member_without_data(&one)));
}

/// Knows something of members, and asks an array that is opened.
struct Judge<'t>(Mutex<Told<'t>>);

// Where it is asked only one thread is at it.
impl KnownMembers for Judge<'_> {
    fn rebuilt(&self, array: MediumId) -> Vec<RebuiltMember> {
        self.0.lock().unwrap().push(format!("rebuilt of {array:?}"));
        Vec::new()
    }

    fn unfit(&self, of: &dyn OpenArray) -> Vec<(usize, String)> {
        let mut told = self.0.lock().unwrap();
        told.push(format!("{} {:?} {:?}", of.address(), of.header(), of.lost()));
        for member in of.members().into_iter().flatten() {
            told.push(format!("{:?} {:?}", member.medium(), member.problems()));
            told.push(format!("{:?} {:?}", member.segments().unwrap(), member.held().unwrap()));
        }
        vec![(1, "it is not liked".to_owned())]
    }
}

struct Booking(Arc<Mutex<Vec<String>>>);

struct Booked(String, Arc<Mutex<Vec<String>>>);

impl Drop for Booked {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(format!("given back {}", self.0));
    }
}

impl Common for Booking {
    fn book(&self, _: &Arc<Queue>, robot: &str) -> Result<Box<dyn Send>, TapeError> {
        self.0.lock().unwrap().push(format!("booked {robot}"));
        Ok(Box::new(Booked(robot.to_owned(), self.0.clone())))
    }

    fn claim(&self, drive: &str) -> Result<Box<dyn Send>, TapeError> {
        self.0.lock().unwrap().push(format!("claimed {drive}"));
        Ok(Box::new(Booked(drive.to_owned(), self.0.clone())))
    }

    fn disturbed(&self, library: &LibraryName) {
        self.0.lock().unwrap().push(format!("disturbed {library}"));
    }
}

pub fn asked_back(host: &dyn DeviceHost, dir: &Path, told: Told<'_>) {
    let name = array(dir, ["a", "b", "c"]);
    let ids = Mutex::new(10);
    let new_id = || {
        *ids.lock().unwrap() += 1;
        Ok(MediumId([*ids.lock().unwrap(); 16]))
    };
    host.make_array(&name, &header(1), &[], &new_id).unwrap();
    let refused = || Err(ErrorKind::PermissionDenied.into());
    let judge = Judge(Mutex::new(told));
    let opened = host.writable(&Address::Array(name.clone()), &refused, None, &judge).unwrap();
    let told = judge.0.into_inner().unwrap();
    told.push(format!("{:?}", opened.into_device().lost_members()));

    let library = library(dir);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let say = |what: &'static str| {
        let heard = heard.clone();
        move |text: String| heard.lock().unwrap().push(format!("{what}: {text}"))
    };
    let (event, recorded, exported) = (say("event"), say("recorded"), say("exported"));
    host.share_with(Arc::new(Booking(heard.clone())));
    host.keep_with(Box::new(move |happened| event(format!("{happened:?}"))));
    host.doubt_drives_by(Box::new(move |library| {
        recorded(library.to_string());
        Vec::new()
    }));
    host.know_exported_by(Box::new(move |library, barcode| {
        exported(format!("{library} {barcode}"));
        None
    }));
    let (told_operator, board) = (say("told"), say("board"));
    host.operator().set(Operator {
        patience: Some(Duration::from_millis(1500)),
        tell: Box::new(move |text| told_operator(text.to_owned())),
        board: Box::new(move |drive, wanted| board(format!("{drive} {wanted:?}"))),
    });
    let (waits, shown) = (say("waits"), say("shown"));
    host.queue().set(Patience {
        most: Some(Duration::from_millis(300)),
        name: Box::new(|text| format!("named {text}")),
        tell: Box::new(move |text| waits(text.to_owned())),
        board: Box::new(move |_, wait| shown(format!("{:?}", wait.map(|wait| wait.0.to_owned())))),
    });
    let one = Address::Tape(tape(&library, 1));
    let writable = host.writable(&one, &|| Ok(header(1)), None, &()).unwrap();
    let mut device = writable.into_device().into_device().unwrap();
    write(&mut *device, 1).unwrap();
    host.note_use(MediumId([1; 16]), &one);
    drop(device);
    host.done_writing(&one);
    drop(host.medium(&one).unwrap());
    // A tape that is not there is asked for, and waited for in vain.
    let missing = Address::Tape(tape(&library, 9));
    let wanted =
        Wanted { medium: MediumId([9; 16]), label: "m9".to_owned(), asks: CellId([9; 16]) };
    let device = missing.to_string();
    let asked = host.operator().ask_for(vec![(device, "tape 9".to_owned())], "bring tape 9");
    host.wait_for(&missing);
    tell(told, "missing", host.known(&missing, wanted).map(|_| ()));
    drop(asked);
    // The host has waited, which the cell hears a little later.
    let begun = std::time::Instant::now();
    while host.waits().waited() < Duration::from_secs(1) && begun.elapsed().as_secs() < 10 {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(host.waits().waited() >= Duration::from_secs(1));
    // How often a board is shown is a matter of time.
    let mut heard = heard.lock().unwrap().clone();
    heard.dedup();
    heard.retain(|text| !text.starts_with("board"));
    told.extend(heard);
}
