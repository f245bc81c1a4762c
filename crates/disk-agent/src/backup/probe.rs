//! A probe of the source before a backup: how fast one reader gets its files, and how well they compress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use capstan_engine::meter::Meters;
use capstan_engine::queue::Queue;
use capstan_engine::threads;
use capstan_format::codec::{Compressor, Method};
use capstan_format::entry::Kind;
use capstan_format::id::StreamId;
use capstan_format::keys::{FrameSealer, Purpose};
use capstan_wire::probe::{Probe, Work};

use super::GROUPS_WAITING;
use crate::linux::source;
use crate::linux::source_file::{Reader, SourceFile};
use crate::select::Selection;
use crate::walk::ahead::Ahead;
use crate::walk::{Group, WalkItem, Walker};
use capstan_stream::choice::CompressionChoice;

/// Bytes that are read at most: 256 MiB.
const MOST: u64 = 256 << 20;
/// Time that it takes at most.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of one read: 256 KiB, as those of a backup.
const READ: usize = 256 << 10;
/// One of so many reads is compressed, to see what comes of it.
const TRIED: u64 = 16;

/// A stream's work, ready to be done.
struct Tools {
    choice: CompressionChoice,
    sealer: Option<FrameSealer>,
}

impl Tools {
    fn of(work: Work) -> Self {
        let choice = CompressionChoice::new(work.compression, Arc::default());
        // Nothing of what is made here is kept, so any key will do. Without a sealer it is only faster.
        let stream = StreamId([0; 16]);
        let sealer = |cipher| FrameSealer::new(&[0; 32], Purpose::Contents, stream, cipher).ok();
        Self { choice, sealer: work.cipher.and_then(sealer) }
    }
}

/// Reads the first files of the roots for a second, or 256 MiB of them, and works on them as a stream would.
pub(super) fn probe(
    roots: &[Vec<u8>],
    selection: &Selection,
    work: Option<Work>,
    stop: &AtomicBool,
) -> Probe {
    taste_most(roots, selection, work, stop, MOST)
}

fn taste_most(
    roots: &[Vec<u8>],
    selection: &Selection,
    work: Option<Work>,
    stop: &AtomicBool,
    most: u64,
) -> Probe {
    let queues = [Queue::<Arc<Group>>::new(GROUPS_WAITING)];
    let (ahead, meters, found) = (Ahead::default(), Meters::default(), AtomicU64::new(0));
    let enough = AtomicBool::new(false);
    let mut taster = Taster {
        probe: Probe::default(),
        most,
        begun: Instant::now(),
        reader: Reader::default(),
        compressor: Compressor::default(),
        tools: work.map(Tools::of),
        buffer: vec![0; READ],
        compressed: Vec::new(),
        compressing: Duration::ZERO,
        reads: 0,
    };
    std::thread::scope(|scope| {
        let walker = Walker {
            selection,
            queues: &queues,
            ahead: &ahead,
            names_left_out: false,
            stop: &enough,
            found: &found,
            meters: &meters,
            event: &|_| {},
        };
        // Without a thread nothing is known of the source; the backup itself says so.
        if threads::start_in(scope, "walk", move || walker.run(roots, None)).is_err() {
            return;
        }
        let mut waited = Duration::ZERO;
        while let Some(group) = queues[0].take(&mut waited) {
            for item in &group.items {
                if stop.load(Relaxed) || taster.has_enough() {
                    // The walk ends, and what it had found already is passed over.
                    enough.store(true, Relaxed);
                    break;
                }
                taster.file(item, selection);
            }
        }
    });
    Probe { time: taster.begun.elapsed().saturating_sub(taster.compressing), ..taster.probe }
}

struct Taster {
    probe: Probe,
    /// Bytes that are enough.
    most: u64,
    begun: Instant,
    reader: Reader,
    compressor: Compressor,
    tools: Option<Tools>,
    buffer: Vec<u8>,
    compressed: Vec<u8>,
    /// Time that is not the source's.
    compressing: Duration,
    reads: u64,
}

impl Taster {
    fn has_enough(&self) -> bool {
        self.probe.bytes >= self.most || self.begun.elapsed() >= PATIENCE
    }

    /// Reads a file; what cannot be read is the backup's to report.
    fn file(&mut self, item: &WalkItem, selection: &Selection) {
        let name = &item.listed.name;
        let Ok(stat) = source::stat_at(&item.dir, name) else { return };
        let Some(entry) = source::entry_of(&item.dir, name, &stat) else { return };
        let is_wanted = selection.takes_size(entry.size);
        if entry.kind != Kind::File || source::may_be_sparse(&stat) || !is_wanted {
            return;
        }
        let Ok(file) = SourceFile::open(&item.dir, name) else { return };
        let was_cold = file.is_cold();
        self.reader.next_file(entry.dev);
        let mut at = 0;
        while !self.has_enough() {
            let n = match self.reader.read_at(&file, &mut self.buffer, at) {
                Ok(n) if n > 0 => n,
                _ => break,
            };
            at += n as u64;
            self.probe.bytes += n as u64;
            self.reads += 1;
            match &self.tools {
                Some(_) => self.work_on(n),
                None if self.reads % TRIED == 1 => self.try_lz4(n),
                None => {}
            }
        }
        if was_cold && self.reader.must_drop() {
            file.drop_pages();
        }
    }

    fn work_on(&mut self, n: usize) {
        let Some(tools) = &mut self.tools else { return };
        let plain = &self.buffer[..n];
        let method = tools.choice.method();
        let shrunk = self.compressor.compress(method, plain, &mut self.compressed).is_some();
        if method != Method::Store {
            tools.choice.learn(shrunk);
        }
        let made = if shrunk { &mut self.compressed[..] } else { &mut self.buffer[..n] };
        self.probe.tried += n as u64;
        self.probe.shrunk += made.len() as u64;
        if let Some(sealer) = &tools.sealer {
            // What it costs is all that is wanted of it.
            let _ = sealer.seal_in_place(self.reads, &[], made);
        }
    }

    fn try_lz4(&mut self, n: usize) {
        let begun = Instant::now();
        let plain = &self.buffer[..n];
        let shrunk = self.compressor.compress(Method::Lz4, plain, &mut self.compressed);
        self.probe.tried += n as u64;
        self.probe.shrunk += shrunk.map_or(n, |_| self.compressed.len()) as u64;
        self.compressing += begun.elapsed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_format::keys::Cipher;
    use capstan_wire::backup::Rules;
    use capstan_wire::compression::Compression;

    fn of(dir: &std::path::Path) -> Probe {
        let root = source::resolve(dir).unwrap();
        let rules = Rules { exclude: vec!["*.left".into()], ..Rules::default() };
        let (last, here) = Default::default();
        let selection = Selection::new(&rules, &[], &last, here).unwrap();
        probe(&[root], &selection, None, &AtomicBool::new(false))
    }

    #[test]
    fn what_a_stream_does_with_it_is_part_of_its_rate() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..20 {
            std::fs::write(dir.path().join(format!("{n}")), vec![b'a'; 1_000_000]).unwrap();
        }
        let root = source::resolve(dir.path()).unwrap();
        let (all, stop) = (Selection::all(), AtomicBool::new(false));
        let probed = |method: Method, seals: bool| {
            let compression = Compression::Fixed(method);
            let work = Work { compression, cipher: seals.then(Cipher::best) };
            probe(std::slice::from_ref(&root), &all, Some(work), &stop)
        };
        let stored = probed(Method::Store, true);
        assert_eq!(
            (stored.bytes, stored.tried, stored.shrunk),
            (20_000_000, 20_000_000, 20_000_000)
        );
        assert!((stored.made().rate() / stored.rate() - 1.0).abs() < 1e-6);
        let compressed = probed(Method::Zstd(3), false);
        assert_eq!(compressed.tried, 20_000_000);
        assert!(compressed.made().rate() < compressed.rate() / 20.0, "{compressed:?}");
    }

    #[test]
    fn the_first_files_tell_how_fast_and_how_compressible() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(of(dir.path()).bytes, 0);
        assert_eq!(Probe::default().ratio(), 1.0);
        std::fs::create_dir(dir.path().join("d")).unwrap();
        for n in 0..40 {
            std::fs::write(dir.path().join(format!("d/{n}")), vec![b'a'; 100_000]).unwrap();
        }
        std::fs::write(dir.path().join("x.left"), vec![0; 5_000_000]).unwrap();
        let probe = of(dir.path());
        assert_eq!(probe.bytes, 4_000_000, "what is excluded is not read");
        assert!(probe.ratio() > 20.0 && probe.rate() > 1e6, "{probe:?}");
    }

    #[test]
    fn a_large_source_is_only_tasted() {
        let dir = tempfile::tempdir().unwrap();
        let mut noise = 1_u64;
        let mut word = || {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            noise.to_le_bytes()
        };
        let block: Vec<u8> = (0..1 << 17).flat_map(|_| word()).collect();
        for n in 0..8 {
            std::fs::write(dir.path().join(format!("{n}")), &block).unwrap();
        }
        let root = source::resolve(dir.path()).unwrap();
        let (all, stop) = (Selection::all(), AtomicBool::new(false));
        let probe = taste_most(&[root], &all, None, &stop, 3 << 20);
        assert!((3 << 20..=(3 << 20) + READ as u64).contains(&probe.bytes), "{probe:?}");
        assert!(probe.ratio() < 1.01, "{probe:?}");
    }
}
