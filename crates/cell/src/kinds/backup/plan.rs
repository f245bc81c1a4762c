//! What is settled before a backup begins: what is read, under which name, in how many streams.

use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use capstan_address::Address;
use capstan_engine::message::Code;
use capstan_format::block::is_block_size;
use capstan_port::disk::PathsError;
use capstan_port::media::write::options::default_buffers;
use capstan_select::Patterns;
use capstan_wire::backup::{MountedLast, ReadOptions, Rules, Trees};
use capstan_wire::source::{BadPath, Named};

use crate::clients::Client;
use crate::error::{BackupRefusal, CellError, Result, SupplyRefusal};
use crate::kinds::backup::roots::{inner, outermost};
use crate::report::Selected;
use crate::request::{BackupRequest, Compression, Level, Source};
use crate::session::SessionLog;
use crate::{Cell, names};

/// Segment size: 1 GiB. Smaller ones cost more synchronising, larger ones lose more to a kill.
pub(super) const SEGMENT_SIZE: u64 = 1 << 30;
/// Streams by default: as many as processors, within these bounds.
const STREAMS: std::ops::RangeInclusive<usize> = 2..=8;

/// All that is settled before anything is written.
pub(super) struct Plan {
    /// Whose files are backed up.
    pub(super) client: Client,
    /// What is walked; without roots where an input is read.
    pub(super) trees: Trees,
    /// The paths that are named, each with the root that it is.
    pub(super) named: Vec<Named>,
    /// Roots that no PATH leads to: they may be what those that are missing led to.
    pub(super) unplaced: Vec<Vec<u8>>,
    /// What the PATHs lead to of which nobody knows where they led, while there are such.
    pub(super) open: Vec<Vec<u8>>,
    pub(super) name: String,
    pub(super) streams: usize,
    pub(super) buffers: usize,
    pub(super) compression: Compression,
    pub(super) null: bool,
    /// Full, or what it builds on: settled when the base is known.
    pub(super) method: String,
    /// What the report says besides.
    pub(super) notes: Vec<String>,
}

impl Cell {
    pub(super) fn plan(&self, request: &BackupRequest, log: &SessionLog<'_>) -> Result<Plan> {
        check_given(request)?;
        let client = self.client(request.client.as_ref())?;
        let (named, default_name) = match &request.source {
            Source::Paths(paths) if paths.is_empty() => {
                return Err(BackupRefusal::NoPath.into());
            }
            Source::Paths(paths) => {
                let named = self.paths_to_walk(&client, request, paths)?;
                let roots = outermost(&named, &[]);
                let names = roots.iter().map(|r| format!("/{}", String::from_utf8_lossy(r)));
                (named, names.collect::<Vec<_>>().join(","))
            }
            Source::Stdin(name) | Source::Command(_, name) => (Vec::new(), name.clone()),
        };
        if request.name.is_none() {
            names::check_length(&default_name)?;
        }
        check_media(request)?;
        request.keep.check(request.keeps_nothing())?;
        Patterns::new(&request.exclude, &request.include)?;
        let rules = Rules { inner_roots: inner(&named), ..rules_of(request) };
        let processors = client.agent.processors().number as usize;
        let inputs = !matches!(request.source, Source::Paths(_));
        let wanted = request
            .streams
            .unwrap_or(processors.clamp(*STREAMS.start(), *STREAMS.end()))
            .clamp(1, 64);
        let concurrency = request.concurrency.unwrap_or(wanted).max(1);
        let streams = if inputs { 1 } else { wanted.min(concurrency) };
        if streams < wanted && !inputs {
            let text = format!("{wanted} streams take turns as {streams}: that is the concurrency");
            log.say(Code::Adapted, "cell", &default_name, text);
        }
        Ok(Plan {
            client,
            trees: Trees {
                roots: outermost(&named, &[]),
                rules,
                mounted_last: MountedLast::default(),
                read: ReadOptions {
                    locked: request.locked,
                    lock_files: request.lock_files,
                    hard_links_as_files: request.hard_links_as_files,
                    retries: request.retries,
                    retry_wait: request.retry_wait,
                    mode: request.read,
                },
            },
            named,
            unplaced: Vec::new(),
            open: Vec::new(),
            name: request.name.clone().unwrap_or(default_name),
            streams,
            buffers: request.buffers.unwrap_or(default_buffers(streams)).max(streams + 1),
            compression: request.compression,
            null: request.keeps_nothing(),
            method: Level::Full.to_string(),
            notes: Vec::new(),
        })
    }
}

impl Plan {
    /// Our own media and home are never backed up; but a medium that is named as what to back up is.
    pub(super) fn never(&mut self, cell: &Cell, request: &BackupRequest) -> Result<()> {
        if !self.client.is_here {
            return Ok(());
        }
        let devices = std::iter::once(&request.device).chain(&request.mirrors);
        let written = devices.flat_map(Address::directories);
        cell.never_enter(written, &mut self.trees.rules)
    }

    /// What was asked for, for the report.
    pub(super) fn selected(&self, request: &BackupRequest) -> Option<Selected> {
        let text = |path: &[u8]| String::from_utf8([b"/", path].concat()).ok();
        let through = self.named.iter().filter(|of| of.trimmed() != of.root);
        let through = through.filter_map(|of| Some((text(&of.path)?, text(&of.root)?)));
        let roots = self.trees.roots.iter().chain(&self.trees.rules.inner_roots);
        // What was never met is nothing that a later one takes less of.
        let roots = roots.filter(|root| !self.open.contains(root));
        let unplaced = self.unplaced.iter().map(|root| text(root));
        Some(Selected {
            paths: roots.map(|root| text(root)).collect::<Option<_>>()?,
            through: through.collect(),
            unplaced: unplaced.collect::<Option<_>>()?,
            exclude: request.exclude.iter().map(|p| p.text.clone()).collect(),
            include: request.include.iter().map(|p| p.text.clone()).collect(),
            exclude_caches: request.exclude_caches,
            exclude_if_present: request.exclude_if_present.clone(),
            sizes: request.sizes.as_ref().map(|s| (*s.start(), *s.end())),
            one_file_system: request.one_file_system,
        })
    }
}

/// Refuses a request of which the object, its one file or its tags cannot be called so, before anything is looked at.
pub fn check_names(request: &BackupRequest) -> Result<()> {
    check_given(request)?;
    match (&request.name, &request.source) {
        (None, Source::Paths(paths)) => {
            let all: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
            names::check_length(&all.join(","))
        }
        _ => Ok(()),
    }
}

/// Refuses names and tags that somebody gave.
fn check_given(request: &BackupRequest) -> Result<()> {
    if let Some(name) = &request.name {
        names::check_object(name)?;
    }
    if let Source::Stdin(name) | Source::Command(_, name) = &request.source {
        names::input_path(name)?;
    }
    names::check_tags(&request.tags)
}

impl Cell {
    /// The paths as they are walked. As long as any of them is there, the others are errors of the session. Refused is what can only come
    /// to nothing: every path is what is written to, or the home. One of several is an error of the session.
    fn paths_to_walk(
        &self,
        client: &Client,
        request: &BackupRequest,
        paths: &[PathBuf],
    ) -> Result<Vec<Named>> {
        let refused = |path: &str, why: &str| -> CellError {
            BackupRefusal::PathUnavailable { path: path.to_owned(), why: why.to_owned() }.into()
        };
        let devices = std::iter::once(&request.device).chain(&request.mirrors);
        // Other hosts have neither.
        let mut own: Vec<_> = match client.is_here {
            true => devices.flat_map(Address::directories).collect(),
            false => Vec::new(),
        };
        own.extend(client.is_here.then(|| self.home.clone()));
        let named = client.ask_paths(paths, &own).map_err(|e| match e {
            PathsError::Bad(BadPath { path, why }) => refused(&path, &why),
            PathsError::Lost(lost) => lost.into(),
        })?;
        let missing: Vec<_> = named.iter().filter_map(|of| of.missing.as_ref()).collect();
        if missing.len() == paths.len()
            && let (Some(why), Some(path)) = (missing.first(), paths.first())
        {
            let path = path.display().to_string();
            return Err(match missing.len() {
                1 => refused(&path, why),
                n => refused(&format!("any of {n} paths, of which the first is {path}"), why),
            });
        }
        let roots = outermost(&named, &[]);
        let is_own = |root: &Vec<u8>| named.iter().any(|of| of.root == *root && of.is_own);
        match roots.first().filter(|_| roots.iter().all(is_own)) {
            Some(first) => Err(BackupRefusal::OwnPath(first.clone()).into()),
            None => Ok(named),
        }
    }

    /// Has a walk leave out our own home and media; media that others write are left out unless they are roots.
    pub(crate) fn never_enter(
        &self,
        written: impl Iterator<Item = PathBuf>,
        rules: &mut Rules,
    ) -> Result<()> {
        let bytes =
            |path: PathBuf| std::path::absolute(&path).unwrap_or(path).into_os_string().into_vec();
        rules.never.push(bytes(self.home.clone()));
        rules.never.extend(written.map(bytes));
        for known in self.idb.media()? {
            let directories = known.device.directories();
            // Where a medium was there may be other things now: those are backed up.
            if !directories.is_empty() && self.is_at(known.id, &known.device) {
                rules.media.extend(directories.into_iter().map(bytes));
            }
        }
        Ok(())
    }
}

/// What a request leaves out, as far as that is said in it.
fn rules_of(request: &BackupRequest) -> Rules {
    let present = request.exclude_if_present.iter();
    Rules {
        exclude: request.exclude.clone(),
        include: request.include.clone(),
        exclude_caches: request.exclude_caches,
        exclude_if_present: present.map(|name| name.clone().into_bytes()).collect(),
        sizes: request.sizes.clone(),
        one_file_system: request.one_file_system,
        ..Rules::default()
    }
}

/// Refuses sizes that are out of range, and mirrors of what keeps nothing.
fn check_media(request: &BackupRequest) -> Result<()> {
    if let Some(size) = request.block_size
        && !is_block_size(size)
    {
        return Err(SupplyRefusal::BlockSizeOutOfRange { size }.into());
    }
    let null = Address::keeps_nothing;
    let has_mirrors = !request.mirrors.is_empty();
    if request.mirrors.iter().any(null) || request.keeps_nothing() && has_mirrors {
        return Err(BackupRefusal::NullMirror.into());
    }
    if request.segment_size == Some(0) {
        return Err(BackupRefusal::SegmentSizeZero.into());
    }
    Ok(())
}
