//! One member of an archive: what of its row can be had, its header, its contents.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::row::Row;
use capstan_catalog::version::Overview;
use capstan_disk_agent::target::{TargetError, check_link_text, check_path};
use capstan_engine::message::Code;
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::entry::{Entry, Kind, Timestamp};
use capstan_port::disk::further_names::{of_link, of_link_away, of_link_found};
use tar::{Builder, EntryType};

use super::Archived;
use super::header::{Names, Sparse, append_pax, header};
use super::held::Held;
use crate::error::{CellError, Result};
use crate::observe::Stop;
use crate::reading::away::files::AwayFiles;
use crate::reading::contents::{Chunk, FileContents, Plan};
use crate::request::RestoreRequest;
use crate::session::SessionLog;
use capstan_port::disk::contents::Piece;

/// Where an archive goes, with the time that takes.
struct Metered<W> {
    out: W,
    meters: Arc<Meters>,
}

impl<W: Write> Write for Metered<W> {
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

/// What writing a member came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// It is in the archive.
    Written,
    /// It was left out, and that was said.
    LeftOut,
    /// The archive was ended within it.
    Stopped,
}

/// A row that is to become a member.
pub(super) struct Named<'r> {
    pub row: &'r Row,
    /// What further names of its inode call it.
    pub first: Vec<u8>,
    /// Its name in the archive.
    pub name: Vec<u8>,
    /// Its path in messages.
    pub shown: String,
    /// Whether it was in the archive before: a directory whose times come again.
    pub is_again: bool,
}

/// An archive that is written.
pub(super) struct Archive<'a> {
    archive: Builder<BufWriter<Metered<Box<dyn Write + 'a>>>>,
    pub contents: FileContents<'a>,
    pub held: Held,
    overview: &'a Overview,
    request: &'a RestoreRequest,
    log: &'a SessionLog<'a>,
    stop: &'a Stop,
    counts: &'a Archived,
    /// Names of which the archive has the contents: further names are links to them.
    first_names: HashMap<Vec<u8>, Vec<u8>>,
    /// First names whose contents are not whole.
    broken: HashSet<Vec<u8>>,
    /// First names whose contents are away.
    broken_away: HashSet<Vec<u8>>,
}

/// An error of writing.
fn failed(e: io::Error) -> CellError {
    CellError::io("write", "the archive")(e)
}

impl<'a> Archive<'a> {
    pub fn new(
        out: Box<dyn Write + 'a>,
        (contents, overview): (FileContents<'a>, &'a Overview),
        held: Held,
        request: &'a RestoreRequest,
        (log, stop, counts): (&'a SessionLog<'a>, &'a Stop, &'a Archived),
    ) -> Self {
        let out = Metered { out, meters: counts.meters.clone() };
        Self {
            archive: Builder::new(BufWriter::with_capacity(1 << 18, out)),
            contents,
            held,
            overview,
            request,
            log,
            stop,
            counts,
            first_names: HashMap::new(),
            broken: HashSet::new(),
            broken_away: HashSet::new(),
        }
    }

    /// Writes what is not written yet, without an archive's end.
    pub fn flush(&mut self) -> Result<()> {
        self.archive.get_mut().flush().map_err(failed)
    }

    /// Writes the archive's end.
    pub fn finish(self) -> Result<()> {
        let mut out = self.archive.into_inner().map_err(failed)?;
        out.flush().map_err(failed)
    }

    /// Writes a member.
    pub fn add(&mut self, of: &Named<'_>) -> Result<Member> {
        let e = &of.row.entry;
        if !self.takes(of) {
            return Ok(Member::LeftOut);
        }
        self.say_of_link(e, &of.shown);
        let mut planned = None;
        if e.kind == Kind::File && !e.link && e.size > 0 {
            match self.contents.plan(of.row, self.overview) {
                Ok(made) => planned = Some(made),
                // With zeros in its place it would replace a file that is whole, wherever the archive is unpacked.
                Err(e) => {
                    self.lost(of, &e);
                    return Ok(Member::LeftOut);
                }
            }
        }
        let size = planned.as_ref().map_or(0, |p| p.len);
        let Some((entry_type, link)) = self.type_of(e, &of.shown) else {
            return Ok(Member::LeftOut);
        };
        if !e.link && e.kind != Kind::Dir {
            self.first_names.insert(of.first.clone(), of.name.clone());
        }
        let is_short = planned.as_ref().is_some_and(|plan| plan.lost.is_some());
        let sparse = planned.as_ref().and_then(|plan| Sparse::of(plan, &of.name));
        self.head(of, is_short, (entry_type, size, &link), sparse.as_ref())?;
        if let Some(plan) = planned
            && self.body(of, plan, sparse.as_ref())? == Member::Stopped
        {
            return Ok(Member::Stopped);
        }
        match of.row.entry.kind {
            Kind::Dir => self.counts.dirs.fetch_add(u64::from(!of.is_again), Relaxed),
            _ => self.counts.files.fetch_add(1, Relaxed),
        };
        Ok(Member::Written)
    }

    /// Whether a row can become a member. It is said why not.
    fn takes(&self, of: &Named<'_>) -> bool {
        let e = &of.row.entry;
        if let Err(bad) = check_names(e, &of.name) {
            if !of.is_again {
                self.log.say(Code::BadName, "disk agent", &of.shown, bad.to_string());
            }
            return false;
        }
        if e.kind == Kind::Socket {
            let text = "a socket has no place in an archive".to_owned();
            self.log.say(Code::NotRestored, "disk agent", &of.shown, text);
            return false;
        }
        true
    }

    /// Says of a further name that the file is not whole: it is one file, however many names it has.
    fn say_of_link(&self, e: &Entry, shown: &str) {
        if !e.link {
            return;
        }
        if self.broken_away.contains(&e.target) {
            self.log.say(Code::FileAway, "media agent", shown, of_link_away(&e.target));
        }
        if self.broken.contains(&e.target) {
            self.log.say(Code::Damaged, "media agent", shown, of_link(&e.target));
        }
    }

    /// What kind of member a row becomes, and where it leads; none for a further name whose first one is not in the archive.
    fn type_of(&self, e: &Entry, shown: &str) -> Option<(EntryType, Vec<u8>)> {
        if e.link {
            let first = self.first_names.get(&e.target).cloned();
            // Of one that was left out it was said why.
            let is_said = self.broken_away.contains(&e.target) || self.broken.contains(&e.target);
            if first.is_none() && !is_said {
                let text = of_link_found(&e.target, "that is not in the archive");
                self.log.say(Code::Missing, "media agent", shown, text);
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
        of: &Named<'_>,
        is_short: bool,
        (entry_type, size, link): (EntryType, u64, &[u8]),
        sparse: Option<&Sparse>,
    ) -> Result<()> {
        let mut e = &of.row.entry;
        let dated;
        if is_short {
            // With its own time nobody would see that it is not whole.
            dated = Entry { mtime: Timestamp::default(), ..e.clone() };
            e = &dated;
        }
        let names = match self.request.numeric_ids {
            true => Names::default(),
            false => Names {
                user: of.row.user.as_deref(),
                group: of.row.group.as_deref(),
                acl: of.row.acl.as_deref(),
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
    fn body(&mut self, of: &Named<'_>, plan: Plan, sparse: Option<&Sparse>) -> Result<Member> {
        let data = sparse.map_or(plan.len, |s| s.data);
        let out = self.archive.get_mut();
        if let Some(sparse) = sparse {
            out.write_all(&sparse.map).map_err(failed)?;
        }
        let (contents, held) = (&mut self.contents, &mut self.held);
        let written = write_pieces(contents, held, &plan.pieces, out, self.stop);
        self.counts.bytes_read.store(self.contents.bytes_read(), Relaxed);
        let why = match written? {
            // The archive ends within a file: nobody takes it for a whole one.
            Written::Stopped => return Ok(Member::Stopped),
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
        Ok(Member::Written)
    }

    /// Notes that a file's data cannot be had.
    fn lost(&mut self, of: &Named<'_>, e: &CellError) {
        if not_had(&self.counts.away, of.row.entry.size, e, self.log, &of.shown) {
            self.broken_away.insert(of.first.clone());
        } else {
            self.counts.corrupt.fetch_add(1, Relaxed);
            self.broken.insert(of.first.clone());
        }
    }
}

/// Says of a file that its data cannot be had. True if they are only away.
fn not_had(away: &AwayFiles, bytes: u64, e: &CellError, log: &SessionLog<'_>, shown: &str) -> bool {
    match e.away() {
        Some((medium, why)) => {
            away.add(medium, why, bytes);
            log.say(Code::FileAway, "media agent", shown, why.to_owned());
            true
        }
        None => {
            log.say(Code::Damaged, "media agent", shown, crate::error::chain(e));
            false
        }
    }
}

/// What writing the pieces of a file came to.
enum Written {
    /// So many bytes of it were read, and why others were not, for which there are zeros.
    All(u64, Option<CellError>),
    /// It was ended early.
    Stopped,
}

/// Writes the pieces of a file, one after the other. The archive goes on where its header promised: what cannot be read is
/// zeros, never more than frames were to give.
fn write_pieces(
    contents: &mut FileContents<'_>,
    held: &mut Held,
    pieces: &[Piece],
    out: &mut dyn Write,
    stop: &Stop,
) -> Result<Written> {
    let (mut done, mut lost) = (0, None);
    let mut written = 0_u64;
    let mut put = |bytes: &[u8], written: &mut u64| -> Result<()> {
        if stop.0.load(Relaxed) {
            return Err(CellError::Unfinished("stopped".to_owned()));
        }
        out.write_all(bytes).map_err(CellError::io("write", "the archive"))?;
        *written += bytes.len() as u64;
        Ok(())
    };
    let mut end = 0_u64;
    for piece in pieces {
        let read = match piece.at {
            Some((stream, logical)) => {
                held.bytes(contents, stream, logical, piece.len, &mut |chunk| {
                    chunk.each(&mut |bytes| put(bytes, &mut written))
                })
            }
            None => Ok(()),
        };
        done += written - end;
        end += piece.len;
        match read {
            Err(e) if matches!(e, CellError::Io { action: "write", .. }) => return Err(e),
            read => lost = lost.or(read.err()),
        }
        let rest = Chunk::Zeros(end.saturating_sub(written));
        let filled = rest.each(&mut |bytes| put(bytes, &mut written));
        if stop.0.load(Relaxed) {
            return Ok(Written::Stopped);
        }
        filled?;
    }
    Ok(Written::All(done, lost))
}

/// Whether the names from the medium are such as a restore into a directory takes: an archive must not lead out of the
/// directory it is unpacked in.
fn check_names(e: &Entry, name: &[u8]) -> std::result::Result<(), TargetError> {
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
