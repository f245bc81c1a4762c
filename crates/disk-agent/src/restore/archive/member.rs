//! One member of an archive: what of its row can be had, its header, its contents.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use capstan_engine::frames::{FramePort, Lack};
use capstan_engine::message::Code;
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::entry::{Entry, Kind, Timestamp};
use capstan_port::disk::archive::{ArchiveFailed, ArchiveRun, GoesOn, Member, Planned};
use capstan_port::disk::contents::Piece;
use capstan_port::disk::further_names::{of_link, of_link_away, of_link_found};
use capstan_port::disk::restore::{RestoreListener, RestoreWith};
use capstan_stream::contents::Chunk;
use tar::{Builder, EntryType};

use super::header::{Names, Sparse, append_pax, header};
use super::held::Held;
use super::{Counts, Source};
use crate::target::{TargetError, check_link_text, check_path};

/// Where an archive goes, with the time that takes.
struct Metered<'a, W> {
    out: W,
    meters: &'a Meters,
}

impl<W: Write> Write for Metered<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (mut lap, meter) = (Lap::start(), self.meters.of(Stage::Source));
        let written = self.out.write(bytes);
        lap.busy(meter);
        written.inspect(|n| meter.bytes(*n as u64))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// An archive that is written.
pub(super) struct Archive<'a> {
    archive: Builder<BufWriter<Metered<'a, Box<dyn Write + 'a>>>>,
    source: Source<'a>,
    held: Held,
    /// Pieces that were said to be needed by members that did not come yet.
    expected: usize,
    numeric_ids: bool,
    listener: &'a dyn RestoreListener,
    stop: &'a AtomicBool,
    counts: Arc<Counts>,
    /// Names of which the archive has the contents: further names are links to them.
    first_names: HashMap<Vec<u8>, Vec<u8>>,
    /// First names whose contents are not whole.
    broken: HashSet<Vec<u8>>,
    /// First names whose contents are away.
    broken_away: HashSet<Vec<u8>>,
}

type Done<T> = Result<T, ArchiveFailed>;

/// An error of writing.
fn failed(e: io::Error) -> ArchiveFailed {
    ArchiveFailed(format!("cannot write the archive: {e}").into())
}

impl<'a> Archive<'a> {
    pub fn new(
        out: Box<dyn Write + 'a>,
        with: RestoreWith<'a>,
        frames: Box<dyn FramePort + 'a>,
        (held, numeric_ids, counts): (Held, bool, Arc<Counts>),
    ) -> Self {
        let RestoreWith { listener, meters, stop, .. } = with;
        let out = Metered { out, meters };
        Self {
            archive: Builder::new(BufWriter::with_capacity(1 << 18, out)),
            source: Source::new(&with, frames),
            held,
            expected: 0,
            numeric_ids,
            listener,
            stop,
            counts,
            first_names: HashMap::new(),
            broken: HashSet::new(),
            broken_away: HashSet::new(),
        }
    }
}

impl ArchiveRun for Archive<'_> {
    fn room(&self) -> u64 {
        self.held.room
    }

    fn hold(&mut self, pieces: &[Piece]) {
        self.source.expect(pieces);
        self.held.hold(pieces, &mut self.source, self.stop);
    }

    fn expect(&mut self, pieces: &[Piece]) {
        self.expected += pieces.len();
        self.source.expect(pieces);
    }

    fn add(&mut self, mut of: Member) -> Done<GoesOn> {
        if let Some(Ok(planned)) = &of.contents {
            match self.expected.checked_sub(planned.pieces.len()) {
                Some(left) => self.expected = left,
                // Nobody said it. What is held is not read again.
                None if self.held.is_empty() => self.source.expect(&planned.pieces),
                None => {}
            }
        }
        if !self.takes(&of) {
            return Ok(GoesOn::Yes);
        }
        self.say_of_link(&of);
        let planned = match of.contents.take().transpose() {
            Ok(planned) => planned,
            // With zeros in its place it would replace a file that is whole, wherever the archive is unpacked.
            Err(why) => {
                self.lost(&of, &why);
                return Ok(GoesOn::Yes);
            }
        };
        let size = planned.as_ref().map_or(0, |p| p.len);
        let Some((entry_type, link)) = self.type_of(&of) else { return Ok(GoesOn::Yes) };
        let kind = of.entry.kind;
        if !of.entry.link && kind != Kind::Dir {
            self.first_names.insert(of.first.clone(), of.name.clone());
        }
        let is_short = planned.as_ref().is_some_and(|plan| plan.lost.is_some());
        let sparse = planned.as_ref().and_then(|plan| Sparse::of(plan, &of.name));
        self.head(&of, is_short, (entry_type, size, &link), sparse.as_ref())?;
        if let Some(plan) = planned
            && self.body(&of, plan, sparse.as_ref())? == GoesOn::No
        {
            return Ok(GoesOn::No);
        }
        match kind {
            Kind::Dir => self.counts.dirs.fetch_add(u64::from(!of.is_again), Relaxed),
            _ => self.counts.files.fetch_add(1, Relaxed),
        };
        Ok(GoesOn::Yes)
    }

    fn end(mut self: Box<Self>, is_cut: bool) -> Done<()> {
        if is_cut {
            return self.archive.get_mut().flush().map_err(failed);
        }
        let mut out = self.archive.into_inner().map_err(failed)?;
        out.flush().map_err(failed)
    }
}

impl Archive<'_> {
    /// Whether a row can become a member. It is said why not.
    fn takes(&self, of: &Member) -> bool {
        let e = &of.entry;
        if let Err(bad) = check_names(e, &of.name) {
            if !of.is_again {
                self.listener.say(Code::BadName, "disk agent", &of.shown, bad.to_string());
            }
            return false;
        }
        if e.kind == Kind::Socket {
            let text = "a socket has no place in an archive".to_owned();
            self.listener.say(Code::NotRestored, "disk agent", &of.shown, text);
            return false;
        }
        true
    }

    /// Says of a further name that the file is not whole: it is one file, however many names it has.
    fn say_of_link(&self, Member { entry: e, shown, .. }: &Member) {
        if !e.link {
            return;
        }
        if self.broken_away.contains(&e.target) {
            self.listener.say(Code::FileAway, "media agent", shown, of_link_away(&e.target));
        }
        if self.broken.contains(&e.target) {
            self.listener.say(Code::Damaged, "media agent", shown, of_link(&e.target));
        }
    }

    /// What kind of member a row becomes, and where it leads; none for a further name whose first one is not in the archive.
    fn type_of(&self, Member { entry: e, shown, .. }: &Member) -> Option<(EntryType, Vec<u8>)> {
        if e.link {
            let first = self.first_names.get(&e.target).cloned();
            // Of one that was left out it was said why.
            let is_said = self.broken_away.contains(&e.target) || self.broken.contains(&e.target);
            if first.is_none() && !is_said {
                let text = of_link_found(&e.target, "that is not in the archive");
                self.listener.say(Code::Missing, "media agent", shown, text);
            }
            return first.map(|first| (EntryType::Link, first));
        }
        let entry_type = match e.kind {
            Kind::Symlink => return Some((EntryType::Symlink, e.target.clone())),
            Kind::File => EntryType::Regular,
            Kind::Dir => EntryType::Directory,
            Kind::Fifo => EntryType::Fifo,
            Kind::CharDevice => EntryType::Char,
            _ => EntryType::Block,
        };
        Some((entry_type, Vec::new()))
    }

    /// Writes a member's headers: its type, size, and where it leads.
    fn head(
        &mut self,
        of: &Member,
        is_short: bool,
        (entry_type, size, link): (EntryType, u64, &[u8]),
        sparse: Option<&Sparse>,
    ) -> Done<()> {
        let mut e = &of.entry;
        let dated;
        if is_short {
            // With its own time nobody would see that it is not whole.
            dated = Entry { mtime: Timestamp::default(), ..e.clone() };
            e = &dated;
        }
        let names = match self.numeric_ids {
            true => Names::default(),
            false => Names {
                user: of.user.as_deref(),
                group: of.group.as_deref(),
                acl: of.acl.as_deref(),
            },
        };
        let name = sparse.map_or(&of.name, |s| &s.stored_as);
        let size = sparse.map_or(size, |s| s.data.saturating_add(s.map.len() as u64));
        let archive = &mut self.archive;
        append_pax(archive, e, name, link, &names, size, sparse).map_err(failed)?;
        let header = header(e, name, link, &names, entry_type, size);
        archive.append(&header, io::empty()).map_err(failed)
    }

    /// Writes a file's contents, and fills the member's last block.
    fn body(&mut self, of: &Member, plan: Planned, sparse: Option<&Sparse>) -> Done<GoesOn> {
        let data = sparse.map_or(plan.len, |s| s.data);
        let out = self.archive.get_mut();
        if let Some(sparse) = sparse {
            out.write_all(&sparse.map).map_err(failed)?;
        }
        let (source, held) = (&mut self.source, &mut self.held);
        let written = write_pieces(source, held, &plan.pieces, out, self.stop);
        self.counts.bytes_read.store(self.source.bytes_read(), Relaxed);
        let why = match written? {
            // The archive ends within a file: nobody takes it for a whole one.
            Written::Stopped => return Ok(GoesOn::No),
            Written::All(done, why) => {
                self.counts.bytes.fetch_add(done, Relaxed);
                why
            }
        };
        if let Some(e) = plan.lost.or(why) {
            self.lost(of, &e);
        }
        let padding = (512 - data % 512) % 512;
        let out = self.archive.get_mut();
        out.write_all(&[0; 512][..padding as usize]).map_err(failed)?;
        Ok(GoesOn::Yes)
    }

    /// Notes that a file's data cannot be had, and says so.
    fn lost(&mut self, of: &Member, why: &Lack) {
        match why {
            Lack::Away { medium, why, .. } => {
                self.listener.away(*medium, why, of.entry.size);
                self.listener.say(Code::FileAway, "media agent", &of.shown, why.clone());
                self.broken_away.insert(of.first.clone());
            }
            Lack::Damaged(_) | Lack::Unread(_) => {
                self.listener.say(Code::Damaged, "media agent", &of.shown, why.text());
                self.counts.corrupt.fetch_add(1, Relaxed);
                self.broken.insert(of.first.clone());
            }
        }
    }
}

/// Why the pieces of a file are not written any further.
enum Halt {
    /// They cannot be had.
    Lack(Lack),
    /// The archive cannot be written.
    Write(io::Error),
    /// It was stopped.
    Stopped,
}

impl From<Lack> for Halt {
    fn from(why: Lack) -> Self {
        Self::Lack(why)
    }
}

/// What writing the pieces of a file came to.
enum Written {
    /// So many bytes of it were read, and why others were not, for which there are zeros.
    All(u64, Option<Lack>),
    /// It was ended early.
    Stopped,
}

/// Writes the pieces of a file, one after the other. The archive goes on where its header promised: what cannot be read is
/// zeros, never more than frames were to give.
fn write_pieces(
    source: &mut Source<'_>,
    held: &mut Held,
    pieces: &[Piece],
    out: &mut dyn Write,
    stop: &AtomicBool,
) -> Done<Written> {
    let (mut done, mut lost) = (0, None);
    let mut written = 0_u64;
    let mut put = |bytes: &[u8], written: &mut u64| -> Result<(), Halt> {
        if stop.load(Relaxed) {
            return Err(Halt::Stopped);
        }
        out.write_all(bytes).map_err(Halt::Write)?;
        *written += bytes.len() as u64;
        Ok(())
    };
    let mut end = 0_u64;
    for piece in pieces {
        let read = match piece.at {
            Some((stream, logical)) => {
                held.bytes(source, stream, logical, piece.len, &mut |chunk| {
                    chunk.each(&mut |bytes| put(bytes, &mut written))
                })
            }
            None => Ok(()),
        };
        done += written - end;
        end += piece.len;
        match read {
            Ok(()) | Err(Halt::Stopped) => {}
            Err(Halt::Write(e)) => return Err(failed(e)),
            Err(Halt::Lack(why)) => lost = lost.or(Some(why)),
        }
        let rest = Chunk::Zeros(end.saturating_sub(written));
        let filled = rest.each(&mut |bytes| put(bytes, &mut written));
        if stop.load(Relaxed) {
            return Ok(Written::Stopped);
        }
        if let Err(Halt::Write(e)) = filled {
            return Err(failed(e));
        }
    }
    Ok(Written::All(done, lost))
}

/// Whether the names from the medium are such as a restore into a directory takes: an archive must not lead out of the
/// directory it is unpacked in.
fn check_names(e: &Entry, name: &[u8]) -> Result<(), TargetError> {
    check_path(name)?;
    match e.kind {
        _ if e.link => check_path(&e.target),
        Kind::Symlink => check_link_text(name, &e.target),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_where_an_archive_is_unpacked_are_refused() {
        let link =
            |target: &[u8]| Entry { link: true, target: target.to_vec(), ..Entry::default() };
        let soft = |target: &[u8]| Entry { kind: Kind::Symlink, ..link(target) };
        let soft = |target| Entry { link: false, ..soft(target) };
        for bad in [&b"../x"[..], b"a/../../x", b"/etc/x", b"a//x", b"./x", b"a\0b"] {
            assert!(check_names(&Entry::default(), bad).is_err(), "{bad:?}");
            assert!(check_names(&link(bad), b"x").is_err(), "{bad:?}");
        }
        assert!(
            check_names(&soft(b""), b"x").is_err() && check_names(&soft(b"a\0b"), b"x").is_err()
        );
        // Where a symbolic link leads is its own affair: it is not followed.
        assert!(check_names(&soft(b"../../x"), b"a/x").is_ok());
        assert!(check_names(&link(b"a/y"), b"a/x").is_ok());
    }
}
