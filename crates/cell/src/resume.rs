//! Resuming: what an incomplete session committed is the base of the next run of the same version.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use capstan_disk_agent::walk::{BaseCursor, BaseRow};
use capstan_engine::message::Code;
use capstan_format::entry::{Kind, join, path_order};
use capstan_format::id::{SessionId, StreamId};
use capstan_idb::{Object, Status, Version};
use capstan_media_agent::reader::{Contents, StreamContents};

use crate::Cell;
use crate::error::Result;
use crate::session::Ears;
use crate::version::{Overview, Row, VersionView};

/// The rows of one stream in all segments of a version, in order.
struct StreamRows {
    stream: StreamId,
    /// Segments that have it, by their place in the version.
    segments: VecDeque<u32>,
    /// The segment at hand, and which of the stream's batches there comes next.
    at: Option<(u32, Arc<Contents>, usize)>,
    ready: VecDeque<Row>,
    /// Logical offset up to which rows were seen: those below it were sent again at a segment's begin.
    promised: u64,
    last: Option<(Vec<u8>, Vec<u8>)>,
}

impl StreamRows {
    fn head(&mut self, view: &VersionView<'_>) -> Result<Option<&Row>> {
        while self.ready.is_empty() {
            let Some((index, contents, batch)) = self.at.take() else {
                let Some(index) = self.segments.pop_front() else { return Ok(None) };
                let contents = view.contents(&view.segments[index as usize])?;
                self.at = Some((index, contents, 0));
                continue;
            };
            let stream = contents.streams.iter().find(|s| s.stream == self.stream);
            if let Some(stream) = stream.filter(|s| batch < s.batches.len()) {
                self.fill(view, index, stream, batch)?;
                self.at = Some((index, contents, batch + 1));
            }
        }
        Ok(self.ready.front())
    }

    fn fill(
        &mut self,
        view: &VersionView<'_>,
        index: u32,
        stream: &StreamContents,
        batch: usize,
    ) -> Result<()> {
        let (promised, last, ready) = (&mut self.promised, &mut self.last, &mut self.ready);
        view.rows_of(index, stream, batch..batch + 1, &mut |row| {
            let e = &row.entry;
            let len = e.logical_len();
            let again = len > 0 && row.start < *promised;
            *promised = (*promised).max(row.start.saturating_add(len));
            if !e.kind.is_inode() && e.kind != Kind::Tombstone || again {
                return Ok(());
            }
            let ordered = last.as_ref().is_none_or(|(dir, name)| {
                path_order((dir, name), (&e.dir, &e.name)) == Ordering::Less
            });
            // A file read again comes late; that it was is known from the overview.
            if ordered {
                *last = Some((e.dir.clone(), e.name.clone()));
                ready.push_back(row);
            }
            Ok(())
        })
    }
}

/// All rows of a version in the order of the walk, the newest of each path.
pub(crate) struct Merged<'a> {
    pub view: VersionView<'a>,
    pub overview: Overview,
    streams: Vec<StreamRows>,
}

impl<'a> Merged<'a> {
    pub fn new(view: VersionView<'a>) -> Result<Self> {
        let overview = Overview::of(&view)?;
        let mut streams: Vec<StreamRows> = Vec::new();
        for (index, place) in view.segments.iter().enumerate() {
            for id in &place.streams {
                match streams.iter_mut().find(|s| s.stream == *id) {
                    Some(s) => s.segments.push_back(index as u32),
                    None => streams.push(StreamRows {
                        stream: *id,
                        segments: VecDeque::from([index as u32]),
                        at: None,
                        ready: VecDeque::new(),
                        promised: 0,
                        last: None,
                    }),
                }
            }
        }
        Ok(Self { view, overview, streams })
    }

    /// The next path's newest row, with its stream.
    pub fn next(&mut self) -> Result<Option<(StreamId, Row)>> {
        let mut first: Option<(Vec<u8>, Vec<u8>)> = None;
        for s in &mut self.streams {
            if let Some(row) = s.head(&self.view)? {
                let e = &row.entry;
                let less = first.as_ref().is_none_or(|(dir, name)| {
                    path_order((&e.dir, &e.name), (dir, name)) == Ordering::Less
                });
                if less {
                    first = Some((e.dir.clone(), e.name.clone()));
                }
            }
        }
        let Some((dir, name)) = first else { return Ok(None) };
        let mut newest: Option<(StreamId, Row)> = None;
        for s in &mut self.streams {
            let same =
                s.head(&self.view)?.is_some_and(|r| r.entry.dir == dir && r.entry.name == name);
            if same && let Some(row) = s.ready.pop_front() {
                let newer = newest.as_ref().is_none_or(|(_, n)| row.ordinal > n.ordinal);
                if newer {
                    newest = Some((s.stream, row));
                }
            }
        }
        Ok(newest)
    }
}

/// Looks names up in what an incomplete session committed.
pub(crate) struct Cursor<'a> {
    merged: Merged<'a>,
    head: Option<(StreamId, Row)>,
    begun: bool,
}

impl<'a> Cursor<'a> {
    pub fn new(merged: Merged<'a>) -> Self {
        Self { merged, head: None, begun: false }
    }

    fn advance(&mut self) {
        // What cannot be read is as if it had not been saved: it is read again.
        self.head = self.merged.next().ok().flatten();
        self.begun = true;
    }

    fn base_row(&self, stream: StreamId, row: &Row) -> BaseRow {
        let path = row.entry.path();
        let overview = &self.merged.overview;
        let complete = overview.is_whole(stream, row)
            && overview.is_clean(&path, row.ordinal)
            && !overview.is_replaced(&path, row.ordinal);
        let e = &row.entry;
        BaseRow {
            complete,
            kind: e.kind,
            size: e.size,
            mtime: e.mtime,
            ctime: e.ctime,
            ino: e.ino,
            link_to: e.link.then(|| e.target.clone()),
        }
    }
}

impl BaseCursor for Cursor<'_> {
    fn find(
        &mut self,
        dir: &[u8],
        name: &[u8],
        passed: &mut Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Option<BaseRow> {
        if !self.begun {
            self.advance();
        }
        while let Some((stream, row)) = &self.head {
            match path_order((&row.entry.dir, &row.entry.name), (dir, name)) {
                Ordering::Less => {
                    if row.entry.kind != Kind::Tombstone {
                        passed.push((row.entry.dir.clone(), row.entry.name.clone()));
                    }
                    self.advance();
                }
                Ordering::Equal => {
                    let base = self.base_row(*stream, row);
                    self.advance();
                    return Some(base);
                }
                Ordering::Greater => break,
            }
        }
        None
    }

    fn rest(&mut self, passed: &mut Vec<(Vec<u8>, Vec<u8>)>) {
        if !self.begun {
            self.advance();
        }
        while let Some((_, row)) = &self.head {
            if row.entry.kind != Kind::Tombstone {
                passed.push((row.entry.dir.clone(), row.entry.name.clone()));
            }
            self.advance();
        }
    }
}

/// What a backup goes on with.
pub(crate) struct Resumed<'a> {
    pub version: Version,
    pub parent: SessionId,
    pub cursor: Cursor<'a>,
}

/// The incomplete version of an object that can be resumed: its newest, if that is incomplete and has something.
pub(crate) fn resumable<'a>(
    cell: &'a Cell,
    object: &Object,
    ears: &Ears<'_>,
) -> Result<Option<Resumed<'a>>> {
    let newest = cell.idb.versions_of(object.id)?.into_iter().find(|v| !v.null_device);
    let Some(version) = newest.filter(|v| v.status == Status::Incomplete) else { return Ok(None) };
    let Some(parent) = cell.idb.sessions_of_version(version.id)?.last().map(|s| s.id) else {
        return Ok(None);
    };
    let mut view = VersionView::open(&cell.idb, version.id)?;
    if view.segments.is_empty() {
        return Ok(None);
    }
    let opened = cell.add_keys(&mut view, false).and_then(|()| Merged::new(view));
    match opened {
        Ok(merged) => Ok(Some(Resumed { version, parent, cursor: Cursor::new(merged) })),
        Err(e) => {
            let text = format!("cannot go on with the incomplete session, all is saved anew: {e}");
            ears.say(Code::Adapted, "cell", &object.name, text);
            Ok(None)
        }
    }
}

/// `dir/name`, for messages.
pub(crate) fn path_of(row: &Row) -> Vec<u8> {
    join(&row.entry.dir, &row.entry.name)
}
