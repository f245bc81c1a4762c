//! A version as a tar archive (pax): for tools and machines that have no capstan.
//!
//! Files with holes are stored as GNU tar's sparse format 1.0, which bsdtar reads too. Extended attributes, ACLs and
//! capabilities go into `SCHILY.xattr.` records, as GNU tar and star do, ACLs as text into `SCHILY.acl.` records too;
//! inode flags and sockets have no place in an archive and are left out, and said.

mod acl;
mod depth;
mod further;
mod header;
mod held;
mod member;
mod passes;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use capstan_catalog::row::path_of;
use capstan_catalog::version::{Merged, Overview};
use capstan_engine::message::path_text;
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::entry::Kind;

use self::depth::DepthFirst;
use self::further::Further;
use self::held::Held;
use self::member::{Archive, Member, Named};
use self::passes::{Pass, Passes, Turn};
use crate::error::Result;
use crate::kinds::restore::wanted::chosen::Chosen;
use crate::observe::Stop;
use crate::reading::away::files::AwayFiles;
use crate::reading::contents::FileContents;
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
    let overview = Overview::with_replaced(files_of)?;
    let contents = FileContents::new(files_of, &overview)?.metered(&counts.meters);
    view.settle_links_as(files_of);
    let mut merged = Merged::new(view.into_rows())?;
    let further = Further::of(&mut merged, &overview, request, chosen, stop)?;
    let held = Held::new(request.spool.as_ref())?;
    let mut passes = Passes::new(files_of, held.room)?;
    let contents = (contents, &overview);
    let mut archive = Archive::new(out, contents, held, request, (log, stop, counts));
    while let Some(pass) = passes.next()? {
        merged.rewind();
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
            let first = match &stands_in {
                Some(_) => row.entry.target.clone(),
                None => path.clone(),
            };
            let row = stands_in.unwrap_or(row);
            let turn = passes.turn(pass, &row, &archive.contents)?;
            let Some(name) = stripped(&path, request.strip) else { continue };
            match turn {
                Turn::Not => continue,
                Turn::Held(tape) => {
                    if let Ok(plan) = archive.contents.plan(&row, &overview) {
                        let pieces = passes.on_tape(tape, &plan.pieces)?;
                        archive.held.hold(&pieces, &mut archive.contents, stop);
                    }
                    continue;
                }
                Turn::Written => {}
            }
            let shown = format!("/{}", path_text(&path));
            let is_again = pass == Pass::DirsAgain;
            if archive.add(&Named { row: &row, first, name, shown, is_again })? == Member::Stopped {
                return archive.flush();
            }
        }
        passes.dirs_hold = pass == Pass::All && !rows.some_early;
    }
    archive.finish()
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
