//! A version as a tar archive: which rows come, in which order, and where their contents lie. The disk agent writes it.

mod depth;
mod further;
mod passes;

use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::row::{Row, path_of};
use capstan_catalog::version::{Merged, Overview};
use capstan_engine::message::path_text;
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::entry::{Entry, Kind};
use capstan_port::disk::archive::{ArchiveFailed, GoesOn, Member, OpenArchive};
use capstan_port::disk::restore::RestoreWith;

use self::depth::DepthFirst;
use self::further::Further;
use self::passes::{Pass, Passes, Turn};
use crate::error::{CellError, Result};
use crate::kinds::restore::tree::losses::Heard;
use crate::kinds::restore::wanted::chosen::Chosen;
use crate::observe::Stop;
use crate::reading::contents::{FileContents, session_keys};
use crate::reading::serving::lack_of;
use crate::reading::version::VersionView;
use crate::request::RestoreRequest;

/// What the writing of an archive is told to, and counted in.
pub(crate) struct Told<'a> {
    pub heard: &'a Heard<'a>,
    pub meters: &'a Meters,
    pub stop: &'a Stop,
}

impl From<ArchiveFailed> for CellError {
    fn from(ArchiveFailed(text): ArchiveFailed) -> Self {
        Self::Unfinished(text)
    }
}

/// Has a version written as an archive.
pub(crate) fn write<'a>(
    view: VersionView<'_>,
    files_of: &'a VersionView<'a>,
    request: &RestoreRequest,
    chosen: &Chosen,
    archive: Box<dyn OpenArchive<'a> + 'a>,
    told: &Told<'a>,
) -> Result<()> {
    let Told { heard, meters, stop } = *told;
    let overview = Overview::with_replaced(files_of)?;
    let mut contents = FileContents::new(files_of, &overview)?;
    view.settle_links_as(files_of);
    let mut merged = Merged::new(view.into_rows())?;
    let further = Further::of(&mut merged, &overview, request, chosen, stop)?;
    let with = RestoreWith {
        listener: heard,
        meters,
        stop: &stop.0,
        keys: session_keys(&files_of.keys),
        has_links: overview.links > 0,
        has_flags: overview.flagged > 0,
    };
    let frames = files_of.media.agent().frames(files_of, files_of.spans());
    let mut archive = archive.begin(with, frames)?;
    let mut passes = Passes::new(files_of, archive.room())?;
    while let Some(pass) = passes.next()? {
        merged.rewind();
        let mut rows = DepthFirst::new(pass == Pass::All, || {
            let (mut lap, row) = (Lap::start(), merged.next());
            lap.busy(meters.of(Stage::Metadata));
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
            let turn = passes.turn(pass, &row, &contents)?;
            let Some(name) = stripped(&path, request.strip) else { continue };
            match turn {
                Turn::Not => continue,
                Turn::Held(tape) => {
                    if let Ok(plan) = contents.plan(&row, &overview) {
                        archive.hold(&passes.on_tape(tape, &plan.pieces)?);
                    }
                    continue;
                }
                Turn::Written => {}
            }
            let is_again = pass == Pass::DirsAgain;
            let planned = has_contents(&row.entry)
                .then(|| contents.plan(&row, &overview).map_err(|e| lack_of(&e)));
            let shown = format!("/{}", path_text(&path));
            let Row { entry, user, group, acl, .. } = row;
            let member =
                Member { entry, user, group, acl, first, name, shown, is_again, contents: planned };
            if archive.add(member)? == GoesOn::No {
                return Ok(archive.end(true)?);
            }
        }
        passes.dirs_hold = pass == Pass::All && !rows.some_early;
    }
    Ok(archive.end(false)?)
}

fn has_contents(e: &Entry) -> bool {
    e.kind == Kind::File && !e.link && e.size > 0
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
