//! Messages of data connections: their bytes never change, each comes back as it was, and what is none does no harm.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

use capstan_engine::buffer::Buffer;
use capstan_engine::frames::{Expected, Gap, Lack};
use capstan_engine::link::{BlockNotes, FilledBlock, FrameNote, SegmentOrdinal};
use capstan_engine::problem::Problem;
use capstan_format::block::{DaHeader, PAYLOAD_AT};
use capstan_format::codec::Codec;
use capstan_format::frame::{FrameHeader, FrameType};
use capstan_format::id::{MediumId, ObjectId, SessionId, StreamId, VersionId};
use capstan_format::record::SessionLabel;
use capstan_wire::data::block::{BlockHead, Progress, encode};
use capstan_wire::data::course::{Ahead, Course, Stretch, Wanted};
use capstan_wire::data::credit::{Credit, Granted, Ledger, OfSegment, Place, Purse};
use capstan_wire::data::frames::{Asked, For, Given, Labelled, Lacking, NotOpened, Ranges, Room};
use capstan_wire::data::opening::{Of, Opening};
use capstan_wire::data::{DataError, Ticket};
use proptest::prelude::*;

const STREAM: StreamId = StreamId([3; 16]);
const BLOCK: usize = 64 << 10;

/// As they were when they were made first.
const GOLDEN: &str = include_str!("golden/data.hex");

fn block() -> FilledBlock {
    let mut buffer = Buffer::new(BLOCK);
    for (n, byte) in buffer[PAYLOAD_AT..PAYLOAD_AT + 400].iter_mut().enumerate() {
        *byte = n as u8;
    }
    let header = DaHeader { stream: STREAM, position: 0, used: 400, first_frame: 16 };
    header.encode(&mut buffer);
    let copy = buffer[PAYLOAD_AT + 16..PAYLOAD_AT + 86].to_vec();
    let note = |sequence, byte, logical, logical_frame| FrameNote {
        logical_frame,
        sequence,
        logical,
        byte,
    };
    let frames = vec![note(0, 16, 0, false), note(1, 88, 0, true), note(2, 200, 300_000, true)];
    let copies = vec![b"began before".to_vec(), copy];
    FilledBlock {
        buffer,
        short_len: 4096,
        stream: STREAM,
        segment: SegmentOrdinal(70_000),
        ends_segment: true,
        notes: BlockNotes { frames, copies, rows: 500, logical_end: 400_000 },
    }
}

fn label() -> SessionLabel {
    SessionLabel {
        session: SessionId([1; 16]),
        object: ObjectId([2; 16]),
        version: VersionId([3; 16]),
        parent: None,
        base: None,
        started_us: 1_795_000_000_000_000,
        key: None,
        cipher: None,
        state_us: None,
        stands_for: None,
    }
}

fn given() -> Given {
    let header = FrameHeader {
        frame_type: FrameType::Data,
        codec: Codec::Zstd,
        sealed: true,
        sequence: 7,
        logical: 1 << 33,
        length: 300_000,
        stored: 1000,
        payload_crc: None,
    };
    Given { of: For::Range(300), stream: STREAM, header, label: Labelled::By(Box::new(label())) }
}

fn lacking(why: Lack) -> Lacking {
    Lacking { of: For::Asked, stream: STREAM, gap: Gap { from: 5, to: u64::MAX, why } }
}

fn away() -> Lack {
    let text = Problem { sentence: "it is away".into(), hint: Some("bring it".into()) };
    Lack::Away { medium: MediumId([6; 16]), why: "in the safe".into(), text }
}

/// Each message with its bytes.
fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = Vec::new();
    let mut add = |name, write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        all.push((name, out));
    };
    add("block", &|out| encode(&block(), 300, true, out));
    let credits = [(7, false), (7, true), (8, false)]
        .map(|(segment, last)| Credit { segment: SegmentOrdinal(segment), last })
        .to_vec();
    add("granted", &|out| Granted { taken: 299, credits: credits.clone() }.encode(out));
    let segment = SegmentOrdinal(70_000);
    add("of_segment", &|out| OfSegment { blocks: 300, segment }.encode(out));
    let range = |stream, from, to| Expected { stream, from, to };
    let ranges =
        vec![range(STREAM, 5, 300), range(STREAM, 300, 301), range(StreamId([4; 16]), 0, 1 << 40)];
    add("ranges", &|out| Ranges { from: 290, first: 299, ranges: ranges.clone() }.encode(out));
    add("room", &|out| Room { bytes: 4 << 20, from: 7 }.encode(out));
    let refused = vec![NotOpened { crc: 0x0102_0304, why: "it is damaged".into() }];
    add("asked", &|out| {
        Asked { from: 9, stream: STREAM, at: 300, refused: refused.clone() }.encode(out)
    });
    add("given", &|out| given().encode(out).unwrap());
    add("damaged", &|out| lacking(Lack::Damaged("it is damaged".into())).encode(out));
    add("unread", &|out| lacking(Lack::Unread("it is not read".into())).encode(out));
    add("away", &|out| lacking(away()).encode(out));
    let opening = |of| Opening { protocol: 1, ticket: Ticket(vec![1, 0xab]), of };
    let blocks = Of::Blocks { stream: STREAM, block_size: 65536 };
    add("opening_blocks", &|out| *out = capstan_wire::encode(&opening(blocks.clone())).unwrap());
    add("opening_frames", &|out| *out = capstan_wire::encode(&opening(Of::Frames)).unwrap());
    all
}

#[test]
fn bytes_never_change() {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let now: String =
        messages().iter().map(|(name, bytes)| format!("{name} {}\n", hex(bytes))).collect();
    if std::env::var_os("CAPSTAN_BLESS").is_some() {
        std::fs::write("tests/golden/data.hex", &now).unwrap();
    }
    assert_eq!(now, GOLDEN);
}

#[test]
fn each_message_comes_back_as_it_was() {
    let all = messages();
    let bytes = |name: &str| all.iter().find(|(of, _)| *of == name).unwrap().1.as_slice();
    let again = |name: &str, write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        assert_eq!(out, bytes(name), "{name}");
    };
    let granted = Granted::decode(bytes("granted")).unwrap();
    again("granted", &|out| granted.encode(out));
    let of = OfSegment::decode(bytes("of_segment")).unwrap();
    again("of_segment", &|out| of.encode(out));
    let ranges = Ranges::decode(bytes("ranges")).unwrap();
    again("ranges", &|out| ranges.encode(out));
    let room = Room::decode(bytes("room")).unwrap();
    again("room", &|out| room.encode(out));
    let asked = Asked::decode(bytes("asked")).unwrap();
    again("asked", &|out| asked.encode(out));
    assert_eq!(Given::decode(bytes("given"), 1000).unwrap(), given());
    assert!(Given::decode(bytes("given"), 1001).is_err());
    assert_eq!(Lacking::decode(bytes("away")).unwrap(), lacking(away()));
    for name in ["damaged", "unread"] {
        let lacking = Lacking::decode(bytes(name)).unwrap();
        again(name, &|out| lacking.encode(out));
    }
}

#[test]
fn a_block_comes_back_as_it_was() {
    let block = block();
    let mut body = Vec::new();
    encode(&block, 0, false, &mut body);
    // What is in the block does not cross twice.
    assert!(body.len() < 60, "{}", body.len());
    let head = BlockHead::decode(&body, BLOCK).unwrap();
    assert_eq!((head.segment, head.ends_segment, head.is_more), (block.segment, true, false));
    let mut progress = Progress::of(STREAM);
    progress.check(&head, &block.buffer).unwrap();
    assert_eq!(progress.check(&head, &block.buffer), Err(DataError::Block("number")));
    let notes = head.notes(&block.buffer).unwrap();
    assert_eq!(notes.frames, block.notes.frames);
    assert_eq!(notes.copies, block.notes.copies);
    assert_eq!((notes.rows, notes.logical_end), (500, 400_000));
    // What a later version says besides is left alone.
    body.extend_from_slice(b"more");
    assert!(BlockHead::decode(&body, BLOCK).is_ok());
}

#[test]
fn no_text_is_longer_than_a_message() {
    let long = "ä".repeat(100_000);
    let mut out = Vec::new();
    lacking(Lack::Damaged(long.clone())).encode(&mut out);
    assert!(out.len() < 2000);
    let Lack::Damaged(text) = Lacking::decode(&out).unwrap().gap.why else { panic!() };
    assert_eq!(text, long[..1024]);
}

proptest! {
    #[test]
    fn what_is_no_message_does_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..300), of in 0..12usize, at in any::<prop::sample::Index>(), flip in 1..=255u8) {
        // Any bytes, and messages of which one byte is another.
        let mut message = messages().swap_remove(of).1;
        let at = at.index(message.len());
        message[at] ^= flip;
        bytes.truncate(300);
        for bytes in [bytes, message] {
            if let Ok(head) = BlockHead::decode(&bytes, BLOCK) {
                let block = block();
                let _ = Progress::of(STREAM).check(&head, &block.buffer);
                let _ = head.notes(&block.buffer);
            }
            let _ = Granted::decode(&bytes);
            let _ = OfSegment::decode(&bytes);
            let _ = Ranges::decode(&bytes);
            let _ = Room::decode(&bytes);
            let _ = Asked::decode(&bytes);
            let _ = Given::decode(&bytes, 1000);
            let _ = Lacking::decode(&bytes);
            let _ = capstan_wire::decode::<Opening>(&bytes);
        }
    }

    /// Both sides make the same of credit, whatever the order is in which they hear of each other.
    #[test]
    fn credit_is_the_same_on_both_sides(steps in prop::collection::vec(0..7u8, 1..400)) {
        let (mut ledger, mut purse) = (Ledger::<u32>::default(), Purse::default());
        // What is under way.
        let mut granted: std::collections::VecDeque<Credit> = Default::default();
        let mut sent: std::collections::VecDeque<(Vec<u8>, Option<SegmentOrdinal>)> = Default::default();
        let (mut segment, mut out) = (0, 0_i64);
        let mut current: Option<SegmentOrdinal> = None;
        for step in steps {
            match step {
                // A grant, now and then the last of its segment.
                0 | 1 => {
                    let credit = Credit { segment: SegmentOrdinal(segment), last: step == 1 };
                    segment += u32::from(credit.last);
                    out += 1;
                    match ledger.grant(credit, segment) {
                        Ok(()) => granted.push_back(credit),
                        Err(_) => out -= 1,
                    }
                }
                2 | 3 => if let Some(credit) = granted.pop_front() {
                    purse.granted(&Granted { taken: 0, credits: vec![credit] }).unwrap();
                },
                // A block; it ends its segment where it was the last, or by itself.
                4 | 5 => if let Some(credit) = purse.take() {
                    let ends_segment = credit.last || step == 5;
                    let number = purse.send();
                    let block = FilledBlock { segment: credit.segment, ends_segment, ..block() };
                    let mut body = Vec::new();
                    encode(&block, number, false, &mut body);
                    sent.push_back((body, None));
                    current = Some(credit.segment);
                    if ends_segment {
                        purse.leave(credit.segment);
                        current = None;
                    }
                },
                // It leaves its segment.
                _ => if let Some(of) = current.take() {
                    purse.leave(of);
                    sent.push_back((Vec::new(), Some(of)));
                },
            }
            if step % 2 == 0 && let Some((body, left)) = sent.pop_front() {
                out -= take(&mut ledger, &body, left);
            }
        }
        for (body, left) in sent {
            out -= take(&mut ledger, &body, left);
        }
        out -= ledger.end().len() as i64;
        prop_assert_eq!(out, 0, "all that was granted is used or comes back");
    }

    /// Who asks for what he expected, or leaves it out, or asks for something else, gets it all.
    #[test]
    fn what_is_expected_comes(
        ranges in prop::collection::vec((0..3u8, 0..40u64, 1..30u64), 1..60),
        wanted in prop::collection::vec((any::<bool>(), 0..3u8, 0..70u64), 60),
        room in 1..9usize,
    ) {
        let (mut course, mut ahead) = (Course::default(), Ahead::<u64>::default());
        let stream = |n: u8| StreamId([n; 16]);
        let expected: Vec<Expected> = ranges.iter().map(|(of, from, len)| Expected { stream: stream(*of), from: *from, to: from + len }).collect();
        ahead.expect(&expected);
        let mut held = 0;
        for (range, (is_wanted, other, at)) in expected.iter().zip(wanted) {
            let asked = if is_wanted { (range.stream, range.from) } else { (stream(other), at) };
            let mut turns = 0;
            loop {
                turns += 1;
                prop_assert!(turns < 1000, "nobody gets on");
                while let Some(ranges) = ahead.untold(7) {
                    course.expect(ranges).unwrap();
                }
                let mut unused = Vec::new();
                let found = ahead.want(asked.0, asked.1, &mut unused);
                held -= unused.len();
                match found {
                    Wanted::Came(frame) => {
                        held -= 1;
                        prop_assert_eq!(frame, asked.1 / 10);
                        break;
                    }
                    Wanted::Ask => {
                        course.skip(ahead.first());
                        course.sent(frame_of(asked.0, asked.1), asked.1);
                        break;
                    }
                    Wanted::Wait => {}
                }
                // The other side sends as much as there is room for.
                course.skip(ahead.first());
                while held < room {
                    let Some((number, of, at)) = course.coming() else {
                        ahead.served(course.next_number()).unwrap();
                        break;
                    };
                    course.sent(frame_of(of, at), at);
                    if ahead.came(number, frame_of(of, at), at / 10).unwrap().is_none() {
                        held += 1;
                    }
                }
            }
        }
    }
}

/// A frame has ten bytes.
fn frame_of(stream: StreamId, at: u64) -> Stretch {
    Stretch { stream, from: at / 10 * 10, to: at / 10 * 10 + 10 }
}

/// Takes a block, or that a segment was left. Says how many grants were used or come back.
fn take(ledger: &mut Ledger<u32>, body: &[u8], left: Option<SegmentOrdinal>) -> i64 {
    if let Some(segment) = left {
        assert!(ledger.has_been_in(segment));
        return ledger.leave(segment).len() as i64;
    }
    let head = BlockHead::decode(body, BLOCK).unwrap();
    assert!(matches!(ledger.place(&head), Ok(Place::Here(_))));
    let back = if head.ends_segment { ledger.leave(head.segment).len() as i64 } else { 0 };
    1 + back
}
