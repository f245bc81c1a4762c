//! What an array writes is read back whatever may be lost of it.

use std::sync::Arc;

use capstan_engine::buffer::Buffer;
use capstan_format::array::Layout;
use capstan_format::array::stamp::Stamp;
use capstan_format::block::{BLOCK_ALIGN, BlockKind, HEADER_LEN, MaHeader};
use capstan_format::id::{BlockIndex, MediumId, SegmentId, SegmentNumber, SessionId};
use capstan_format::record::{FORMAT_VERSION, MediumHeader, Protection, SegmentEnd, encode_record};
use capstan_medium::storage::Storage;
use capstan_medium::tape::TapeError;
use capstan_medium::{Device, DeviceError, LostMember};

use super::device::RaitDevice;
use super::storage::{RaitStorage, StoredMember};
use crate::memory::FaultyStorage;
use crate::store::StorageDevice;

const B: usize = 64 << 10;

fn header() -> MediumHeader {
    let header = MediumHeader {
        format: FORMAT_VERSION,
        incompatible: 0,
        compatible: 0,
        medium: MediumId([1; 16]),
        label: "array".to_owned(),
        block_size: B as u32,
        created_us: 0,
        protection: Protection::None,
        cell: None,
        array: None,
        drive_key: None,
    };
    header.as_array()
}

/// An array whose leaves are directories in memory.
#[derive(Clone)]
enum Node {
    Leaf(FaultyStorage),
    Array(Layout, Vec<Option<Node>>),
}

impl Node {
    fn array(name: &str, members: Vec<Self>) -> Self {
        let layout = Layout::of(name, members.len()).unwrap();
        Self::Array(layout, members.into_iter().map(Some).collect())
    }

    fn leaves(name: &str, members: usize) -> Self {
        Self::array(name, (0..members).map(|_| Self::Leaf(FaultyStorage::new(None))).collect())
    }

    fn device(&self, header: &MediumHeader) -> Result<Box<dyn Device>, DeviceError> {
        match self {
            Self::Leaf(storage) => {
                let new = || Ok(header.clone());
                Ok(Box::new(StorageDevice::on_storage(Arc::new(storage.clone()), "leaf", new)?))
            }
            Self::Array(..) => Ok(Box::new(self.rait(header)?)),
        }
    }

    fn rait(&self, header: &MediumHeader) -> Result<RaitDevice, DeviceError> {
        let Self::Array(layout, members) = self else { panic!("a leaf") };
        let open = |(place, node): (usize, &Option<Self>)| {
            let header = header.of_member(MediumId([place as u8 + 100; 16]), *layout, place);
            let gone = || DeviceError::NoMedium(format!("m{place}"));
            let device = node.as_ref().ok_or_else(gone).and_then(|n| n.device(&header));
            (format!("m{place}"), device)
        };
        let members = members.iter().enumerate().map(open).collect();
        RaitDevice::new("array".to_owned(), *layout, members, B as u32)
    }

    fn storage(&self) -> Arc<dyn Storage> {
        self.storage_of(&header())
    }

    fn storage_of(&self, header: &MediumHeader) -> Arc<dyn Storage> {
        match self {
            Self::Leaf(storage) => Arc::new(storage.clone()),
            Self::Array(..) => Arc::new(self.rait_storage(header)),
        }
    }

    fn rait_storage(&self, header: &MediumHeader) -> RaitStorage {
        self.rait_storage_with(header, &[])
    }

    /// The same; of those that are lost these are away.
    fn rait_storage_with(&self, header: &MediumHeader, away: &[usize]) -> RaitStorage {
        let Self::Array(layout, members) = self else { panic!("a leaf") };
        let open = |(place, node): (usize, &Option<Self>)| match node {
            Some(node) => Ok(StoredMember {
                name: format!("m{place}"),
                storage: {
                    let id = MediumId([place as u8 + 100; 16]);
                    node.storage_of(&header.of_member(id, *layout, place))
                },
                medium: MediumId([place as u8 + 100; 16]),
            }),
            None => Err(LostMember {
                member: place,
                device: format!("m{place}"),
                error: "gone".into(),
                is_away: away.contains(&place),
                since: None,
            }),
        };
        let members = members.iter().enumerate().map(open).collect();
        RaitStorage::new(*layout, header.clone(), members)
    }

    fn without(&self, lost: &[usize]) -> Self {
        let Self::Array(layout, members) = self else { panic!("a leaf") };
        let keep =
            |(place, node): (usize, &Option<Self>)| node.clone().filter(|_| !lost.contains(&place));
        Self::Array(*layout, members.iter().enumerate().map(keep).collect())
    }

    fn leaf(&self, place: usize) -> FaultyStorage {
        let Self::Array(_, members) = self else { panic!("a leaf") };
        match &members[place] {
            Some(Self::Leaf(storage)) => storage.clone(),
            _ => panic!("no leaf"),
        }
    }
}

fn block(kind: BlockKind, index: u32, length: usize, seed: u64) -> Buffer {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(index);
    let mut bytes = Buffer::new(length);
    for byte in &mut bytes[HEADER_LEN..] {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (state >> 33) as u8;
    }
    let segment = SegmentId([seed as u8; 16]);
    MaHeader { kind, segment, index: BlockIndex(index), length: length as u32 }.encode(&mut bytes);
    bytes
}

/// The blocks of a segment with data blocks of these lengths.
fn segment(seed: u64, lengths: &[usize]) -> Vec<Buffer> {
    let mut blocks = vec![block(BlockKind::SegmentHeader, 0, 8192, seed)];
    let data = lengths.len() as u32;
    blocks.extend((1..).zip(lengths).map(|(i, len)| block(BlockKind::Data, i, *len, seed)));
    let catalog_at = blocks.iter().map(|b| b.len() as u64).sum();
    for (i, length) in [B, B, 12288].into_iter().enumerate() {
        blocks.push(block(BlockKind::Catalog, data + 1 + i as u32, length, seed));
    }
    let odd = |(i, b): (usize, &Buffer)| (b.len() != B).then_some((i as u32, b.len() as u32));
    let end = SegmentEnd {
        segment: SegmentId([seed as u8; 16]),
        number: SegmentNumber(1),
        session: SessionId([2; 16]),
        data_blocks: data,
        blocks: data + 5,
        catalog_at,
        short_blocks: blocks[..=data as usize].iter().enumerate().filter_map(odd).collect(),
        streams: Vec::new(),
        session_end: None,
        other_ends: Vec::new(),
        lacks: 0,
        lacks_names: false,
        written_us: 0,
    };
    let (index, id) = (BlockIndex(data + 4), end.segment);
    let bytes = encode_record(BlockKind::SegmentEnd, id, index, &end, BLOCK_ALIGN).unwrap();
    let mut last = Buffer::new(bytes.len());
    last.copy_from_slice(&bytes);
    blocks.push(last);
    blocks
}

fn write(device: &mut dyn Device, blocks: &[Buffer]) -> Result<u32, DeviceError> {
    let number = device.begin_segment()?;
    for block in blocks {
        device.write(block)?;
    }
    device.end_segment()?;
    device.commit()?;
    Ok(number.0)
}

/// The blocks' bytes but the headers, which have stamps on a medium.
fn contents<'a>(blocks: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    blocks.flat_map(|b| &b[HEADER_LEN..]).copied().collect()
}

fn name(number: u32) -> String {
    format!("{number:08}.segment")
}

/// Reads a segment in pieces of `step` bytes and compares it.
fn reads_back(array: &Node, number: u32, blocks: &[Buffer], step: usize) {
    let file = array.storage().open(&name(number)).unwrap();
    let total: usize = blocks.iter().map(|b| b.len()).sum();
    assert_eq!(file.len().unwrap(), total as u64);
    let mut bytes = vec![0; total];
    for (i, piece) in bytes.chunks_mut(step).enumerate() {
        let want = piece.len();
        assert_eq!(file.read_at(piece, (i * step) as u64).unwrap(), want);
    }
    assert_eq!(file.read_at(&mut [0; 10], total as u64).unwrap(), 0);
    let mut at = 0;
    for (i, block) in blocks.iter().enumerate() {
        let read = &bytes[at..at + block.len()];
        assert_eq!(MaHeader::decode(read), MaHeader::decode(block), "block {i}");
        assert!(read[HEADER_LEN..] == block[HEADER_LEN..], "block {i} differs");
        assert!(Stamp::check(read).is_ok(), "block {i}");
        at += block.len();
    }
    assert_eq!(contents(std::iter::once(&bytes[..HEADER_LEN])).len(), 0);
}

const LENGTHS: [usize; 11] = [B, B, 4096, B, B, B, 8192, B, B, 40960, B];

fn made(array: Node) -> (Node, Vec<Buffer>) {
    let blocks = segment(7, &LENGTHS);
    let mut device = array.rait(&header()).unwrap();
    assert_eq!(write(&mut device, &blocks).unwrap(), 1);
    drop(device);
    (array, blocks)
}

#[test]
fn every_layout_reads_back_without_any_members_it_can_lose() {
    for (layout, members) in
        [("rait0", 3), ("rait1", 2), ("rait1", 3), ("rait5", 3), ("rait5", 4), ("rait:3+2", 5)]
    {
        let (array, blocks) = made(Node::leaves(layout, members));
        let spare = Layout::of(layout, members).unwrap().parity();
        for set in 0..1_u32 << members {
            let lost: Vec<usize> = (0..members).filter(|m| set & (1 << m) != 0).collect();
            if lost.len() <= spare {
                for step in [B, 5000, 1 << 20] {
                    reads_back(&array.without(&lost), 1, &blocks, step);
                }
            }
        }
    }
}

#[test]
fn segments_of_any_number_of_blocks_read_back() {
    for blocks in 0..8 {
        let array = Node::leaves("rait:3+1", 4);
        let blocks = segment(9, &LENGTHS[..blocks]);
        write(&mut array.rait(&header()).unwrap(), &blocks).unwrap();
        for lost in 0..4 {
            reads_back(&array.without(&[lost]), 1, &blocks, B);
        }
    }
}

#[test]
fn arrays_of_arrays_read_back() {
    let mirror = Node::array("rait1", vec![Node::leaves("rait0", 2), Node::leaves("rait0", 2)]);
    let parity = Node::array("rait5", (0..3).map(|_| Node::leaves("rait5", 3)).collect());
    let mixed = Node::array(
        "rait:2+1",
        vec![
            Node::leaves("rait1", 2),
            Node::leaves("rait0", 3),
            Node::Leaf(FaultyStorage::new(None)),
        ],
    );
    for (array, members) in [(mirror, 2), (parity, 3), (mixed, 3)] {
        let (array, blocks) = made(array);
        reads_back(&array, 1, &blocks, B);
        let storage = array.storage();
        let file = storage.open(&name(1)).unwrap();
        file.read_at(&mut vec![0; file.len().unwrap() as usize], 0).unwrap();
        storage.check_spare(&name(1)).unwrap();
        assert_eq!(storage.problems(), [""; 0]);
        for lost in 0..members {
            reads_back(&array.without(&[lost]), 1, &blocks, B);
        }
    }
}

/// A member of a member is lost, and another member whole.
#[test]
fn losses_inside_members_count_there() {
    let (array, blocks) =
        made(Node::array("rait5", (0..3).map(|_| Node::leaves("rait5", 3)).collect()));
    let Node::Array(layout, members) = &array else { panic!() };
    let mut members = members.clone();
    members[0] = members[0].as_ref().map(|m| m.without(&[1]));
    members[1] = members[1].as_ref().map(|m| m.without(&[2]));
    members[2] = None;
    reads_back(&Node::Array(*layout, members), 1, &blocks, 1 << 20);
}

/// Damages every member in another stripe: more members than parity, but never two blocks of one stripe.
#[test]
fn damage_is_made_good_block_by_block() {
    let (array, blocks) = made(Node::leaves("rait5", 3));
    for (place, at) in
        [(0, 8192 + 100), (1, 8192 + B as u64 + 100), (2, 8192 + 2 * B as u64 + 9000)]
    {
        damage(&array.leaf(place), &name(1), at);
    }
    reads_back(&array, 1, &blocks, B);
    reads_back(&array, 1, &blocks, 4096);
    let storage = array.rait_storage(&header());
    let file = storage.open(&name(1)).unwrap();
    file.read_at(&mut vec![0; 1 << 20], 0).unwrap();
    let problems = storage.problems();
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems[0].contains("damaged or missing blocks"), "{problems:?}");
}

/// A segment that a member lacks counts once, however often it is opened.
#[test]
fn a_segment_that_lacks_counts_once() {
    let (array, blocks) = made(Node::leaves("rait5", 3));
    assert_eq!(write(&mut array.rait(&header()).unwrap(), &blocks).unwrap(), 2);
    let gone = array.leaf(1);
    [1, 2].iter().for_each(|number| gone.remove(&name(*number)).unwrap());
    let storage = array.rait_storage(&header());
    for number in [1, 2, 1, 2, 1] {
        storage.open(&name(number)).unwrap();
    }
    let problems = storage.problems();
    assert_eq!(problems, ["member 2 (m1) lacks 2 of the segments read"]);
}

/// What damaged blocks lack may be on members that are away: it is damaged only where these are too few, too.
#[test]
fn what_members_that_are_away_may_have_is_not_damaged() {
    for (name_of, members) in [("rait1", 2), ("rait5", 3), ("rait:2+2", 4)] {
        let (array, blocks) = made(Node::leaves(name_of, members));
        let layout = Layout::of(name_of, members).unwrap();
        let spare: Vec<usize> =
            (layout.data()..members).map(|role| layout.member_of(0, role)).collect();
        let array = array.without(&spare);
        let is_away = |away: &[usize], at: u64, len: usize| {
            let file = array.rait_storage_with(&header(), away).open(&name(1)).unwrap();
            let read = file.read_at(&mut vec![0; len], at);
            let is_away = |e: &std::io::Error| {
                let of = e.get_ref().and_then(|e| e.downcast_ref::<TapeError>());
                matches!(of, Some(TapeError::OthersAway(_)))
            };
            read.as_ref().err().is_some_and(is_away)
        };
        // While all is whole that is there nothing is wanted.
        assert!(!is_away(&spare, 0, 1 << 20), "{name_of}");
        damage(&array.leaf(layout.member_of(0, 0)), &name(1), 8192 + 100);
        for len in [B, 1 << 20] {
            assert!(!is_away(&[], 8192, len), "{name_of}");
            assert!(is_away(&spare, 8192, len), "{name_of}");
            assert!(is_away(&spare[..1], 8192, len), "{name_of}");
        }
        if layout.data() > 1 {
            damage(&array.leaf(layout.member_of(0, 1)), &name(1), 8192 + 100);
            assert!(!is_away(&spare[..1], 8192, 2 * B), "{name_of}");
            assert_eq!(is_away(&spare, 8192, 2 * B), spare.len() > 1, "{name_of}");
        }
        // The end is on each.
        let total: usize = blocks.iter().map(|b| b.len()).sum();
        let catalog = total as u64 - 2 * B as u64;
        for place in (0..members).filter(|place| !spare.contains(place)) {
            let leaf = array.leaf(place);
            let len = leaf.open(&name(1)).unwrap().len().unwrap();
            damage(&leaf, &name(1), len - 2 * B as u64 + 200);
        }
        assert!(is_away(&spare, catalog, B) && !is_away(&[], catalog, B), "{name_of}");
    }
}

/// Parity, and copies that nobody needs, are read when somebody asks.
#[test]
fn damage_of_what_is_spare_is_found() {
    for (layout, members) in [("rait5", 3), ("rait1", 2), ("rait:2+2", 4)] {
        let (array, _) = made(Node::leaves(layout, members));
        let last = array.leaf(members - 1);
        let len = last.open(&name(1)).unwrap().len().unwrap();
        // Parity of the first stripe, and the catalog.
        for at in [8192 + 80, len - 4096 - 100] {
            damage(&last, &name(1), at);
        }
        let storage = array.rait_storage(&header());
        let total = storage.open(&name(1)).unwrap().len().unwrap() as usize;
        storage.open(&name(1)).unwrap().read_at(&mut vec![0; total], 0).unwrap();
        assert_eq!(storage.problems(), [""; 0]);
        storage.check_spare(&name(1)).unwrap();
        let problems = storage.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("has 2 damaged"), "{problems:?}");
    }
}

/// Headers, catalogs and end records are on every member: any one of them is enough.
#[test]
fn what_all_have_is_read_from_any() {
    let (array, blocks) = made(Node::leaves("rait0", 3));
    let len = |place: usize| array.leaf(place).open(&name(1)).unwrap().len().unwrap();
    damage(&array.leaf(0), &name(1), 100);
    damage(&array.leaf(0), &name(1), len(0) - 4000);
    damage(&array.leaf(1), &name(1), len(1) - 4096 - 12288 + 70);
    damage(&array.leaf(2), &name(1), len(2) - 4096 - 12288 - 70);
    reads_back(&array, 1, &blocks, B);
}

/// Too much is lost of one stripe: the others are read, and those blocks that are there.
#[test]
fn damage_beyond_parity_costs_only_what_it_touches() {
    let (array, blocks) = made(Node::leaves("rait5", 3));
    let array = array.without(&[0]);
    damage(&array.leaf(1), &name(1), 8192 + 200);
    let file = array.storage().open(&name(1)).unwrap();
    let total: usize = blocks.iter().map(|b| b.len()).sum();
    let mut bytes = vec![0; total];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), total);
    let mut at = 0;
    let mut bad = Vec::new();
    for (i, block) in blocks.iter().enumerate() {
        if bytes[at + HEADER_LEN..at + block.len()] != block[HEADER_LEN..] {
            bad.push(i);
        }
        at += block.len();
    }
    assert_eq!(bad, [1, 2], "block 1 was on the lost member, block 2 is damaged");
}

fn damage(storage: &FaultyStorage, file: &str, at: u64) {
    let old = storage.open(file).unwrap();
    let mut bytes = Buffer::new(old.len().unwrap() as usize);
    old.read_at(&mut bytes, 0).unwrap();
    bytes[at as usize] ^= 0x40;
    storage.remove(file).unwrap();
    let mut new = storage.create(file).unwrap();
    new.append(&bytes).unwrap();
    new.sync().unwrap();
    storage.sync().unwrap();
}

/// Whenever a member fails while it is written to: the others go on, and everything reads back.
#[test]
fn a_member_that_fails_is_left() {
    let sessions = [segment(3, &LENGTHS), segment(4, &LENGTHS[..4]), segment(5, &[])];
    let mut operations = 0;
    loop {
        let array = Node::leaves("rait5", 3);
        let mut device = array.rait(&header()).unwrap();
        let lost = device.lost();
        array.leaf(1).fail_after(operations);
        let numbers: Vec<u32> =
            sessions.iter().map(|blocks| write(&mut device, blocks).unwrap()).collect();
        drop(device);
        let left = array.without(&[1]);
        for (number, blocks) in numbers.iter().zip(&sessions) {
            reads_back(&left, *number, blocks, B);
        }
        let lost = lost.lock().clone();
        if lost.is_empty() {
            assert!(operations > 15);
            return;
        }
        assert_eq!((lost.len(), lost[0].member), (1, 1), "{lost:?}");
        assert!(lost[0].error.sentence.contains("power has failed"), "{lost:?}");
        operations += 1;
    }
}

#[test]
fn an_array_without_spare_members_fails_with_the_first() {
    let array = Node::leaves("rait0", 2);
    let mut device = array.rait(&header()).unwrap();
    array.leaf(0).full_after(200_000);
    let failed = (0..3).map(|i| write(&mut device, &segment(i, &LENGTHS))).find_map(Result::err);
    let failed = failed.expect("it is full");
    assert!(failed.is_full(), "{failed}");
    assert!(matches!(failed, DeviceError::ArrayBroken { lost: 1, members: 2, spare: 0, .. }));
}

/// Members that write without each other never give two segments one number.
#[test]
fn numbers_differ_where_members_were_apart() {
    let (array, _) = made(Node::leaves("rait1", 2));
    let mut numbers = vec![1];
    for lost in [1, 0, 1, 1, 0] {
        let mut device = array.without(&[lost]).rait(&header()).unwrap();
        numbers.push(write(&mut device, &segment(1, &[])).unwrap());
        numbers.push(write(&mut device, &segment(1, &[])).unwrap());
    }
    let mut device = array.rait(&header()).unwrap();
    numbers.push(write(&mut device, &segment(1, &[])).unwrap());
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), numbers.len(), "{numbers:?}");
    assert_eq!(array.storage().list().unwrap().len(), 1 + numbers.len(), "all of them are there");
}

/// A segment that was removed, or never committed, while a member was away is none when the member is back.
#[test]
fn what_too_few_members_have_is_no_segment() {
    let (array, _) = made(Node::leaves("rait5", 3));
    array.without(&[2]).storage().remove(&name(1)).unwrap();
    let names = array.storage().list().unwrap();
    assert!(!names.contains(&name(1)), "{names:?}");
    assert!(array.leaf(2).list().unwrap().contains(&name(1)));
}

#[test]
fn a_header_is_changed_on_all_members() {
    use capstan_medium::OpenMedium;
    use capstan_medium::names::HEADER_NAME;
    let (array, _) = made(Node::leaves("rait1", 2));
    let storage: Arc<dyn Storage> = array.storage();
    let device = StorageDevice::on(storage.clone(), "array", Vec::new(), None).unwrap();
    assert_eq!(device.medium().header(), &header());
    let named = MediumHeader { label: "other".to_owned(), ..header() };
    device.replace_header(&named).unwrap();
    assert_eq!(OpenMedium::on(storage, "array").unwrap().header(), &named);
    for place in 0..2 {
        let leaf = Arc::new(array.leaf(place));
        assert!(leaf.list().unwrap().contains(&HEADER_NAME.to_owned()));
        let alone = OpenMedium::on(leaf.clone(), "leaf").err().expect("a member is no medium");
        assert!(matches!(alone, DeviceError::ArrayMember { .. }), "{alone}");
        let header = OpenMedium::member_on(leaf, "leaf").unwrap().header().clone();
        assert_eq!(header.label, "other");
        assert_eq!(header.array.as_ref().map(|a| a.member), Some(place as u32));
        assert_eq!(header.of_array().as_ref(), Some(&named));
    }
}

/// Whenever the power fails, on each member at another moment: what was committed reads back, whatever is listed is whole,
/// and no number comes twice.
#[test]
fn a_crash_costs_nothing_that_was_committed() {
    for at in 0..40_u64 {
        let array = Node::leaves("rait5", 3);
        let mut committed = Vec::new();
        if let Ok(mut device) = array.rait(&header()) {
            for place in 0..3 {
                array.leaf(place).fail_after(at + place as u64 * (at % 5));
            }
            for seed in 0..3 {
                let blocks = segment(seed, &LENGTHS[..3 + seed as usize]);
                match write(&mut device, &blocks) {
                    Ok(number) => committed.push((number, blocks)),
                    Err(_) => break,
                }
            }
        }
        for seed in 0..3_u64 {
            let after = |place: usize| {
                let mut turn = seed * 7 + place as u64 * 3 + at;
                let storage = array.leaf(place).after_crash(&mut |n| {
                    turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (turn >> 33) % n
                });
                Some(Node::Leaf(storage))
            };
            let layout = Layout::of("rait5", 3).unwrap();
            let left = Node::Array(layout, (0..3).map(after).collect());
            for (number, blocks) in &committed {
                reads_back(&left, *number, blocks, B);
            }
            let listed: Vec<u32> =
                left.storage().list().unwrap().iter().filter_map(|n| number_of(n)).collect();
            for number in &listed {
                let file = left.storage().open(&name(*number)).unwrap();
                let mut bytes = vec![0; file.len().unwrap() as usize];
                assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
                let mut at = 0;
                while at < bytes.len() {
                    let (ma, _) = Stamp::check(&bytes[at..]).expect("a whole block");
                    at += ma.length as usize;
                }
            }
            let mut device = left.rait(&header()).unwrap();
            let next = write(&mut device, &segment(77, &LENGTHS)).unwrap();
            assert!(listed.iter().all(|n| *n < next), "{listed:?} {next}");
            reads_back(&left, next, &segment(77, &LENGTHS), B);
        }
    }
}

fn number_of(name: &str) -> Option<u32> {
    crate::rait::storage::number_of(name).map(|n| n.0)
}
