//! A backup of an input that is no file: what it gives becomes one file of a given path.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::SystemTime;

use capstan_engine::link::{BlockPort, LinkClosed};
use capstan_engine::meter::{Meters, Stage};
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind, Timestamp};

use crate::backup::counters::Counters;
use capstan_stream::StreamWriter;
use capstan_stream::options::StreamOptions;

/// What the backup of an input works with.
pub(in crate::backup) struct OfInput<'a> {
    /// The media agent.
    pub port: Arc<dyn BlockPort + 'a>,
    /// Where the time goes.
    pub meters: Arc<Meters>,
    /// Set to end early.
    pub stop: &'a AtomicBool,
    /// What is counted.
    pub counters: &'a Counters,
}

impl OfInput<'_> {
    /// Fills a buffer from an input, as far as there is more and nobody stops it. Gives how many bytes that were, or why it cannot be read.
    fn fill(
        &self,
        input: &mut dyn Read,
        buffer: &mut [u8],
        writer: &mut StreamWriter<'_>,
    ) -> Result<io::Result<usize>, LinkClosed> {
        let mut filled = 0;
        loop {
            match input.read(&mut buffer[filled..]) {
                Ok(0) => return Ok(Ok(filled)),
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => writer.idle()?,
                Err(e) => return Ok(Err(e)),
            }
            if filled == buffer.len() || self.stop.load(Relaxed) {
                return Ok(Ok(filled));
            }
        }
    }

    /// Saves what a reader gives as one file of that name. Its length is not known before, so it is stored in parts. A reader that has
    /// nothing yet says now and then that it would block: it is waited for as long as what it gives can be written.
    pub fn run(
        &self,
        path: &[u8],
        input: &mut dyn Read,
        stream: StreamOptions,
    ) -> Result<io::Result<u64>, LinkClosed> {
        let (port, meters) = (self.port.clone(), self.meters.clone());
        let mut writer = StreamWriter::open(port, meters, Arc::default(), stream);
        let (dir, name) = match path.iter().rposition(|b| *b == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&[][..], path),
        };
        let mut offset = 0;
        let mut buffer = vec![0; 1 << 20];
        let result = loop {
            let filled = self.fill(input, &mut buffer, &mut writer)?;
            writer.mark(Stage::Source);
            let filled = match filled {
                Ok(0) => break Ok(offset),
                Ok(filled) => filled,
                Err(e) => break Err(e),
            };
            let part = Entry {
                kind: Kind::Part,
                dir: dir.to_vec(),
                name: name.to_vec(),
                size: filled as u64,
                part_offset: offset,
                ..Entry::default()
            };
            writer.rows(vec![part])?;
            let mut rest = &buffer[..filled];
            while !rest.is_empty() {
                let space = writer.space()?;
                let n = space.len().min(rest.len());
                space[..n].copy_from_slice(&rest[..n]);
                rest = &rest[n..];
                writer.advance(n)?;
            }
            offset += filled as u64;
            self.counters.bytes.fetch_add(filled as u64, Relaxed);
            self.meters.of(Stage::Source).bytes(filled as u64);
            if self.stop.load(Relaxed) {
                break Err(io::Error::other("stopped"));
            }
        };
        if result.is_ok() {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let time = Timestamp { sec: now.as_secs() as i64, nsec: now.subsec_nanos() };
            let extents = if offset > 0 {
                vec![Extent { len: offset, kind: ExtentKind::Parts }]
            } else {
                Vec::new()
            };
            let entry = Entry {
                dir: dir.to_vec(),
                name: name.to_vec(),
                mode: 0o600,
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
                size: offset,
                mtime: time,
                ctime: time,
                extents,
                ..Entry::default()
            };
            writer.rows(vec![entry])?;
            self.counters.files.fetch_add(1, Relaxed);
        }
        writer.finish()?;
        Ok(result)
    }
}
