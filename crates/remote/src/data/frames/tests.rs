//! A reader of frames and a port within one process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use capstan_engine::entropy::Entropy;
use capstan_engine::frames::{Expected, FramePort, Gap, Lack, OpenFrame, StoredFrame};
use capstan_format::codec::Codec;
use capstan_format::crc::payload_crc;
use capstan_format::frame::{FrameHeader, FrameType};
use capstan_format::id::{MediumId, ObjectId, SessionId, StreamId, VersionId};
use capstan_format::record::SessionLabel;
use capstan_wire::data::Reach;

use super::WINDOW;
use super::port::RemoteFrames;
use super::serve::FrameService;
use crate::connection::Broken;
use crate::data::registry::Registry;
use crate::data::{Dial, dial_here};
use crate::transport::Transport;

const A: StreamId = StreamId([1; 16]);
const B: StreamId = StreamId([2; 16]);
const LONG: u64 = 1000;

fn label(n: u8) -> SessionLabel {
    SessionLabel {
        session: SessionId([n; 16]),
        object: ObjectId([2; 16]),
        version: VersionId([n; 16]),
        parent: None,
        base: None,
        started_us: 6,
        key: None,
        cipher: None,
        state_us: None,
        stands_for: None,
    }
}

/// The frame of a stream that has that byte, as a medium has it: `copy` tells its bytes from those of other media.
fn frame(stream: StreamId, number: u64, copy: u8) -> (FrameHeader, Vec<u8>) {
    let stored: Vec<u8> = (0..LONG).map(|n| (n * 7 + number) as u8 ^ stream.0[0] ^ copy).collect();
    let header = FrameHeader {
        frame_type: FrameType::Data,
        codec: Codec::None,
        sealed: false,
        sequence: number,
        logical: number * LONG,
        length: LONG,
        stored: LONG as u32,
        payload_crc: Some(payload_crc(stream, number, &stored)),
    };
    (header, stored)
}

/// A port that has every frame of every stream, on three media; none of the frames in `gaps`.
#[derive(Default)]
struct Media {
    gaps: Vec<u64>,
    asked: Arc<AtomicUsize>,
    slow: Duration,
}

impl FramePort for Media {
    fn frame_at(
        &mut self,
        stream: StreamId,
        at: u64,
        open: &mut OpenFrame<'_>,
    ) -> Result<FrameHeader, Gap> {
        self.asked.fetch_add(1, Relaxed);
        thread::sleep(self.slow);
        let number = at / LONG;
        let (from, to) = (number * LONG, (number + 1) * LONG);
        if self.gaps.contains(&number) {
            let why = Lack::Away {
                medium: MediumId([9; 16]),
                why: "in the safe".to_owned(),
                text: "it is in the safe".into(),
            };
            return Err(Gap { from, to, why });
        }
        let label = label(stream.0[0]);
        let mut first = None;
        for copy in 0..3 {
            let (header, stored) = frame(stream, number, copy);
            let frame = StoredFrame { label: Some(&label), header: &header, stored: &stored };
            match open(&frame) {
                Ok(()) => return Ok(header),
                Err(why) => first = first.or(Some(why)),
            }
        }
        Err(Gap { from, to, why: Lack::Damaged(first.unwrap_or_default()) })
    }
}

/// Has ports served to a reader, one after the other. Gives what came of each.
fn served<T>(
    ports: Vec<Media>,
    window: u64,
    read: impl FnOnce(RemoteFrames) -> T,
) -> (T, Vec<Result<(), Broken>>) {
    let registry = Registry::new(Entropy::seeded(7));
    let waiting = registry.expect().unwrap();
    let reach = Reach { at: String::new(), ticket: waiting.ticket().clone() };
    let dial = dial_here(&registry);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let mut service = FrameService::of(waiting.next(Duration::from_secs(20)).unwrap())?;
            Ok(ports.into_iter().map(|mut port| service.serve(&mut port)).collect())
        });
        let read = read(RemoteFrames::dial(&reach, &*dial, window).unwrap());
        (read, serving.join().unwrap().map_err(|e: Broken| e).unwrap())
    })
}

/// Reads a stretch as a reader does who keeps the last frame of a stream. Checks each byte.
fn read(frames: &mut RemoteFrames, kept: &mut BTreeMap<StreamId, u64>, range: Expected) {
    let Expected { stream, from, to } = range;
    let mut at = from;
    while at < to {
        if kept.get(&stream) != Some(&(at / LONG)) {
            let (header, expected) = frame(stream, at / LONG, 0);
            let found = frames.frame_at(stream, at, &mut |got| {
                assert!(got.stored == expected);
                assert_eq!(got.label, Some(&label(stream.0[0])));
                Ok(())
            });
            assert_eq!(found.unwrap(), header);
            kept.insert(stream, at / LONG);
        }
        at = (at / LONG + 1) * LONG;
    }
}

fn of(stream: StreamId, from: u64, len: u64) -> Expected {
    Expected { stream, from, to: from + len }
}

#[test]
fn what_is_expected_comes_once_and_in_its_order() {
    let asked = Arc::new(AtomicUsize::new(0));
    let media = Media { asked: asked.clone(), ..Media::default() };
    // Small files, several in a frame, and a large one.
    let mut ranges: Vec<Expected> = (0..500).map(|n| of(A, n * 300, 300)).collect();
    ranges.push(of(A, 150_000, 200 * LONG));
    let frames = (150_000 / LONG + 200) as usize;
    served(vec![media], 20_000, |mut port| {
        port.expect(&ranges);
        let mut kept = BTreeMap::new();
        ranges.iter().for_each(|range| read(&mut port, &mut kept, *range));
    });
    assert_eq!(asked.load(Relaxed), frames);
}

#[test]
fn what_is_left_out_or_out_of_order_comes_too() {
    served(vec![Media::default()], 8_000, |mut port| {
        let ranges: Vec<Expected> =
            (0..20_000).map(|n| of(if n % 3 == 0 { B } else { A }, n * 450, 450)).collect();
        port.expect(&ranges);
        let mut kept = BTreeMap::new();
        for (n, range) in ranges.iter().enumerate() {
            // Most files exist already. Some want what nobody expected.
            match n % 97 {
                0..5 => read(&mut port, &mut kept, *range),
                50 => read(&mut port, &mut kept, of(B, (n as u64 + 90_000) * LONG, 10)),
                _ => {}
            }
        }
        read(&mut port, &mut kept, ranges[0]);
    });
}

#[test]
fn a_frame_that_does_not_open_comes_from_the_next_place() {
    let gaps = vec![3];
    served(vec![Media { gaps, ..Media::default() }], WINDOW, |mut port| {
        port.expect(&[of(A, 0, 10 * LONG)]);
        // The first copy is damaged, of frame 5 all are.
        for number in 0..10 {
            let mut tries = 0;
            let found = port.frame_at(A, number * LONG + 1, &mut |got| {
                tries += 1;
                let is_first = got.stored == frame(A, number, 0).1;
                match number {
                    5 => Err(format!("damaged {tries}")),
                    _ if is_first => Err("damaged".to_owned()),
                    _ => Ok(()),
                }
            });
            match number {
                3 => assert!(matches!(found.unwrap_err().why, Lack::Away { .. })),
                5 => {
                    let gap = found.unwrap_err();
                    assert_eq!((gap.from, gap.to), (5000, 6000));
                    assert_eq!(gap.why, Lack::Damaged("damaged 1".to_owned()));
                    assert_eq!(tries, 3);
                }
                _ => {
                    assert_eq!(found.unwrap().sequence, number);
                    assert_eq!(tries, 2);
                }
            }
        }
    });
}

#[test]
fn ports_come_one_after_the_other() {
    let (_, ends) = served((0..4).map(|_| Media::default()).collect(), 30_000, |mut port| {
        for n in 0..4 {
            let mut kept = BTreeMap::new();
            // More is expected than is read of each.
            port.expect(&[of(A, n * LONG, 100 * LONG)]);
            read(&mut port, &mut kept, of(A, (n + 20) * LONG, 30 * LONG));
            port.next_port().unwrap();
        }
    });
    assert_eq!(ends, [const { Ok(()) }; 4]);
}

/// A transport that is cut by the side that dials after so many reads or writes.
fn cut_after(registry: &Arc<Registry>, operations: usize) -> Arc<Dial> {
    let registry = registry.clone();
    Arc::new(move |_: &Reach| {
        let (here, there) = Transport::pair()?;
        registry.admit_beside(there).map_err(std::io::Error::other)?;
        Ok(crate::data::cut::cut_after(here, operations))
    })
}

#[test]
fn a_connection_that_is_cut_is_a_gap_that_says_so() {
    let mut whole = 0;
    for operations in 0..200 {
        let registry = Registry::new(Entropy::seeded(7));
        let waiting = registry.expect().unwrap();
        let reach = Reach { at: String::new(), ticket: waiting.ticket().clone() };
        let dial = cut_after(&registry, operations);
        thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let arrived = waiting.next(Duration::from_secs(20))?;
                let mut service = FrameService::of(arrived).ok()?;
                service.serve(&mut Media::default()).err()
            });
            let Ok(mut port) = RemoteFrames::dial(&reach, &*dial, 10_000) else {
                waiting.close();
                serving.join().unwrap();
                return;
            };
            port.expect(&[of(A, 0, 40 * LONG)]);
            let mut broken = None;
            for number in 0..40 {
                match port.frame_at(A, number * LONG, &mut |_| Ok(())) {
                    Ok(header) => {
                        assert!(broken.is_none(), "it goes on after it broke");
                        assert_eq!(header.sequence, number);
                    }
                    Err(gap) => broken = Some((number, gap)),
                }
            }
            match broken {
                None => whole += 1,
                Some((number, gap)) => {
                    assert_eq!((gap.from, gap.to), (number * LONG, u64::MAX));
                    let text = gap.why.text();
                    assert!(
                        text.starts_with("the connection to the media agent broke: "),
                        "{text}"
                    );
                }
            }
            drop(port);
            assert!(serving.join().unwrap().is_some());
        });
    }
    assert!(whole > 0, "none came through");
}
