//! A version as a tar archive (pax): for tools and machines that have no capstan.
//!
//! Files with holes are stored as GNU tar's sparse format 1.0, which bsdtar reads too. Extended attributes, ACLs and
//! capabilities go into `SCHILY.xattr.` records, as GNU tar and star do, ACLs as text into `SCHILY.acl.` records too;
//! inode flags and sockets have no place in an archive and are left out, and said.

mod acl;
mod depth;
mod further;
mod held;
mod passes;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use capstan_catalog::row::path_of;
use capstan_catalog::version::{Merged, Overview};
use capstan_disk_agent::restore::{of_link, of_link_away, of_link_found};
use capstan_disk_agent::target::{TargetError, check_link_text, check_path};
use capstan_engine::message::{Code, path_text};
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::entry::{Entry, Kind, Timestamp};
use tar::{Builder, EntryType, Header};

use self::depth::DepthFirst;
use self::further::Further;
use self::held::Held;
use self::passes::{Pass, Passes, Turn};
use crate::error::{CellError, Result};
use crate::kinds::restore::wanted::chosen::Chosen;
use crate::observe::Stop;
use crate::reading::away_files::AwayFiles;
use crate::reading::contents::{Chunk, FileContents, Piece, Plan};
use crate::reading::version::VersionView;
use crate::request::RestoreRequest;
use crate::session::SessionLog;

/// What an archive came to so far.
#[derive(Default)]
pub(crate) struct Archived {
    /// Files, all that are not directories.
    pub files: AtomicU64,
    /// Directories.
    pub dirs: AtomicU64,
    /// Bytes of files' contents that were written.
    pub bytes: AtomicU64,
    /// Stored bytes read from the media.
    pub bytes_read: AtomicU64,
    /// Files that are not whole.
    pub corrupt: AtomicU64,
    /// What its stages did.
    pub meters: Arc<Meters>,
    /// Files of which something is on media that are away.
    pub away: AwayFiles,
}

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

/// Writes a version as an archive, and counts what it does.
#[expect(
    clippy::too_many_arguments,
    reason = "two views of one version, what of it, and what every session has"
)]
pub(crate) fn write(
    view: VersionView<'_>,
    files_of: &VersionView<'_>,
    request: &RestoreRequest,
    chosen: &Chosen,
    out: Box<dyn Write + '_>,
    log: &SessionLog<'_>,
    stop: &Stop,
    counts: &Archived,
) -> Result<()> {
    let failed = |e| CellError::io("write", "the archive")(e);
    let out = Metered { out, meters: counts.meters.clone() };
    let mut archive = Builder::new(io::BufWriter::with_capacity(1 << 18, out));
    let overview = Overview::with_replaced(files_of)?;
    let mut contents = FileContents::new(files_of, &overview)?.metered(&counts.meters);
    // Names of which the archive has the contents: further names are links to them.
    let mut first_names: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let mut broken: HashSet<Vec<u8>> = HashSet::new();
    let mut broken_away: HashSet<Vec<u8>> = HashSet::new();
    view.settle_links_as(files_of);
    let mut merged = Merged::new(view.into_rows())?;
    let further = Further::of(&mut merged, &overview, request, chosen, stop)?;
    let mut held = Held::new(request.spool.as_ref())?;
    let mut passes = Passes::new(files_of, held.room)?;
    while let Some(pass) = passes.next()? {
        merged.rewind();
        let again = pass == Pass::DirsAgain;
        let mut rows = DepthFirst::new(pass == Pass::All, || {
            let (mut lap, row) = (Lap::start(), merged.next());
            lap.busy(counts.meters.of(Stage::Metadata));
            Ok(row?)
        });
        while let Some(row) = rows.next()? {
            if stop.0.load(Relaxed) {
                break;
            }
            let path = path_of(&row);
            if !row.entry.kind.is_inode()
                || !chosen.has(&path, row.entry.kind == Kind::Dir)
                || overview.is_replaced(&path, row.ordinal)
            {
                continue;
            }
            let stands_in =
                if row.entry.link { further.row(&row.entry.target, &path) } else { None };
            // What further names of it call it.
            let first = match &stands_in {
                Some(_) => row.entry.target.clone(),
                None => path.clone(),
            };
            let row = stands_in.unwrap_or(row);
            let mut e = &row.entry;
            let turn = passes.turn(pass, &row, &contents)?;
            if turn == Turn::Not {
                continue;
            }
            let Some(name) = stripped(&path, request.strip) else { continue };
            if let Turn::Held(tape) = turn {
                if let Ok(plan) = contents.plan(&row, &overview) {
                    held.hold(&passes.on_tape(tape, &plan.pieces)?, &mut contents, stop);
                }
                continue;
            }
            let shown = format!("/{}", path_text(&path));
            if let Err(bad) = check_names(e, &name) {
                if again {
                    continue;
                }
                log.say(Code::BadName, "disk agent", &shown, bad.to_string());
                continue;
            }
            if e.kind == Kind::Socket {
                log.say(
                    Code::NotRestored,
                    "disk agent",
                    &shown,
                    "a socket has no place in an archive".to_owned(),
                );
                continue;
            }
            if e.link && broken_away.contains(&e.target) {
                log.say(Code::FileAway, "media agent", &shown, of_link_away(&e.target));
            }
            if e.link && broken.contains(&e.target) {
                // It is one file, however many names it has.
                log.say(Code::Damaged, "media agent", &shown, of_link(&e.target));
            }
            let mut plan = None;
            if e.kind == Kind::File && !e.link && e.size > 0 {
                match contents.plan(&row, &overview) {
                    Ok(made) => plan = Some(made),
                    // With zeros in its place it would replace a file that is whole, wherever the archive is unpacked.
                    Err(e) => {
                        if not_had(&counts.away, row.entry.size, &e, log, &shown) {
                            broken_away.insert(first);
                        } else {
                            counts.corrupt.fetch_add(1, Relaxed);
                            broken.insert(first);
                        }
                        continue;
                    }
                }
            }
            let mut link: Option<Vec<u8>> = None;
            let (entry_type, size) = match e.kind {
                _ if e.link => {
                    link = first_names.get(&e.target).cloned();
                    if link.is_none() {
                        // Of one that was left out it was said why.
                        if !broken_away.contains(&e.target) && !broken.contains(&e.target) {
                            let text = of_link_found(&e.target, "that is not in the archive");
                            log.say(Code::Missing, "media agent", &shown, text);
                        }
                        continue;
                    }
                    (EntryType::Link, 0)
                }
                Kind::Symlink => {
                    link = Some(e.target.clone());
                    (EntryType::Symlink, 0)
                }
                Kind::File => (EntryType::Regular, plan.as_ref().map_or(0, |p| p.len)),
                Kind::Dir => (EntryType::Directory, 0),
                Kind::Fifo => (EntryType::Fifo, 0),
                Kind::CharDevice => (EntryType::Char, 0),
                _ => (EntryType::Block, 0),
            };
            if !e.link && e.kind != Kind::Dir {
                first_names.insert(first.clone(), name.clone());
            }
            let dated;
            if plan.as_ref().is_some_and(|plan| plan.lost.is_some()) {
                // With its own time nobody would see that it is not whole.
                dated = Entry { mtime: Timestamp::default(), ..e.clone() };
                e = &dated;
            }
            let owners = (row.user.as_deref(), row.group.as_deref());
            let owners = if request.numeric_ids { (None, None) } else { owners };
            let link = link.unwrap_or_default();
            let sparse = plan.as_ref().and_then(|plan| Sparse::of(plan, &name));
            let name = sparse.as_ref().map_or(name, |s| s.stored_as.clone());
            let data = sparse.as_ref().map_or(size, |s| s.data);
            let map = sparse.as_ref().map_or(&[][..], |s| &s.map);
            let size = data.saturating_add(map.len() as u64);
            append_pax(&mut archive, e, &name, &link, owners, size, sparse.as_ref())
                .map_err(failed)?;
            let header = header(e, &name, &link, entry_type, size);
            archive.append(&header, io::empty()).map_err(failed)?;
            if let Some(plan) = plan {
                let out = archive.get_mut();
                out.write_all(map).map_err(failed)?;
                let mut lost = plan.lost;
                let written = write_pieces(&mut contents, &mut held, &plan.pieces, out, stop);
                counts.bytes_read.store(contents.bytes_read(), Relaxed);
                match written? {
                    Written::Stopped => {
                        // The archive ends within a file: nobody takes it for a whole one.
                        return out.flush().map_err(failed);
                    }
                    Written::All(done, why) => {
                        counts.bytes.fetch_add(done, Relaxed);
                        lost = lost.or(why);
                    }
                }
                if let Some(e) = lost {
                    if not_had(&counts.away, row.entry.size, &e, log, &shown) {
                        broken_away.insert(first);
                    } else {
                        counts.corrupt.fetch_add(1, Relaxed);
                        broken.insert(first);
                    }
                }
                let padding = (512 - data % 512) % 512;
                out.write_all(&[0; 512][..padding as usize]).map_err(failed)?;
            }
            match e.kind {
                Kind::Dir => counts.dirs.fetch_add(u64::from(!again), Relaxed),
                _ => counts.files.fetch_add(1, Relaxed),
            };
        }
        passes.dirs_hold = pass == Pass::All && !rows.some_early;
    }
    let mut out = archive.into_inner().map_err(failed)?;
    out.flush().map_err(failed)
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

/// A file with holes as GNU tar stores it (GNU tar manual, "PAX Format, Version 1.0"): under a name that a tool which
/// does not know the format may safely use, its data after a map of where they belong.
struct Sparse {
    name: Vec<u8>,
    stored_as: Vec<u8>,
    real_size: u64,
    map: Vec<u8>,
    data: u64,
}

impl Sparse {
    /// `None` for a file without holes.
    fn of(plan: &Plan, name: &[u8]) -> Option<Self> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for piece in &plan.pieces {
            match ranges.last_mut() {
                Some((from, len)) if from.saturating_add(*len) == piece.offset => *len += piece.len,
                _ => ranges.push((piece.offset, piece.len)),
            }
        }
        if ranges == [(0, plan.len)] || plan.len == 0 {
            return None;
        }
        let data = ranges.iter().fold(0_u64, |sum, r| sum.saturating_add(r.1));
        if ranges.last().is_none_or(|(from, len)| from.saturating_add(*len) < plan.len) {
            ranges.push((plan.len, 0));
        }
        let mut map = format!("{}\n", ranges.len()).into_bytes();
        for (from, len) in ranges {
            map.extend_from_slice(format!("{from}\n{len}\n").as_bytes());
        }
        map.resize(map.len().next_multiple_of(512), 0);
        let (dir, file) = match name.iter().rposition(|b| *b == b'/') {
            Some(at) => (&name[..=at], &name[at + 1..]),
            None => (&b""[..], name),
        };
        let stored_as = [dir, b"GNUSparseFile.0/", file].concat();
        Some(Self { name: name.to_vec(), stored_as, real_size: plan.len, map, data })
    }
}

/// The path without its first `strip` components.
fn stripped(path: &[u8], strip: usize) -> Option<Vec<u8>> {
    let mut rest = path;
    for _ in 0..strip {
        let at = rest.iter().position(|b| *b == b'/')?;
        rest = &rest[at + 1..];
    }
    (!rest.is_empty()).then(|| rest.to_vec())
}

/// The ustar header; what does not fit it stands in the pax records before it.
fn header(e: &Entry, name: &[u8], link: &[u8], entry_type: EntryType, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(entry_type);
    header.set_mode(e.mode.into());
    header.set_uid(u64::from(e.uid).min(0o777_7777));
    header.set_gid(u64::from(e.gid).min(0o777_7777));
    header.set_mtime(u64::try_from(e.mtime.sec).unwrap_or(0));
    header.set_size(size.min(0o777_7777_7777));
    if let Some(ustar) = header.as_ustar_mut() {
        let fit = |to: &mut [u8], from: &[u8]| {
            let n = from.len().min(to.len());
            to[..n].copy_from_slice(&from[..n]);
        };
        fit(&mut ustar.name, name);
        fit(&mut ustar.linkname, link);
        if matches!(entry_type, EntryType::Char | EntryType::Block) {
            ustar.set_device_major(e.rdev.0);
            ustar.set_device_minor(e.rdev.1);
        }
    }
    header.set_cksum();
    header
}

/// The pax records of an entry (POSIX.1-2017, pax, "pax Extended Header").
fn append_pax<W: Write>(
    archive: &mut Builder<W>,
    e: &Entry,
    name: &[u8],
    link: &[u8],
    owners: (Option<&[u8]>, Option<&[u8]>),
    size: u64,
    sparse: Option<&Sparse>,
) -> io::Result<()> {
    let mut records: Vec<u8> = Vec::new();
    let mut add = |key: &[u8], value: &[u8]| {
        // A record's length counts its own digits.
        let rest = key.len() + value.len() + 3;
        let mut len = rest + 1;
        while rest + len.to_string().len() != len {
            len = rest + len.to_string().len();
        }
        records.extend_from_slice(format!("{len} ").as_bytes());
        records.extend_from_slice(key);
        records.push(b'=');
        records.extend_from_slice(value);
        records.push(b'\n');
    };
    if name.len() > 100 {
        add(b"path", name);
    }
    if link.len() > 100 {
        add(b"linkpath", link);
    }
    if e.mtime.nsec != 0 || e.mtime.sec < 0 {
        // Negative times count their fraction downwards.
        let ns = i128::from(e.mtime.sec) * 1_000_000_000 + i128::from(e.mtime.nsec);
        let (sign, ns) = if ns < 0 { ("-", -ns) } else { ("", ns) };
        let text = format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        add(b"mtime", text.as_bytes());
    }
    if size > 0o777_7777_7777 {
        add(b"size", size.to_string().as_bytes());
    }
    if e.uid > 0o777_7777 {
        add(b"uid", e.uid.to_string().as_bytes());
    }
    if e.gid > 0o777_7777 {
        add(b"gid", e.gid.to_string().as_bytes());
    }
    if let Some(user) = owners.0 {
        add(b"uname", user);
    }
    if let Some(group) = owners.1 {
        add(b"gname", group);
    }
    if let Some(sparse) = sparse {
        add(b"GNU.sparse.major", b"1");
        add(b"GNU.sparse.minor", b"0");
        add(b"GNU.sparse.name", &sparse.name);
        add(b"GNU.sparse.realsize", sparse.real_size.to_string().as_bytes());
    }
    for (key, value) in &e.xattrs {
        if let Some((keyword, text)) = acl::keyword(key).zip(acl::text(value)) {
            add(keyword, text.as_bytes());
        }
        add(&[b"SCHILY.xattr.", key.as_slice()].concat(), value);
    }
    if records.is_empty() {
        return Ok(());
    }
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::XHeader);
    header.set_path("pax")?;
    header.set_mode(0o600);
    header.set_size(records.len() as u64);
    header.set_cksum();
    archive.append(&header, records.as_slice())
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
