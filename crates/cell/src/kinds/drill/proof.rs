//! Holding restored files against what is recorded of them, and against the live ones.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::diff::{Aspect, LiveRows, differences};
use capstan_catalog::listed::Listed;
use capstan_catalog::row::Row;
use capstan_engine::message::{Code, path_text};
use capstan_format::entry::Kind;
use capstan_port::disk::DiskAgent;
use capstan_port::disk::check::{Inquiry, Looked, ProofRow, Proven, RowsBroken};
use capstan_port::disk::ctime::proves_contents;
use capstan_wire::check::ProofJob;

use crate::error::{CellError, Result};
use crate::kinds::compare::listed;
use crate::kinds::restore::wanted::sample_arc::SampleArc;
use crate::observe::Stop;
use crate::report::DrillReport;
use crate::session::SessionLog;

/// So many rows are pushed at a time.
const ROWS: usize = 64;

/// What proves a file.
enum By {
    Live,
    Checksum,
    /// Its data carry no checksums: length and metadata are right.
    Length,
}

/// What is known of a drill's restored files.
pub(super) struct Restored {
    /// The sample.
    pub arc: SampleArc,
    /// Owners and other metadata could not all be restored, which was said: they prove nothing either way.
    pub limited: bool,
    /// Some of what was read carries no checksums.
    pub unchecked: bool,
    /// Files that lie on media which are away, which was said.
    pub away: HashSet<Vec<u8>>,
}

/// Which names are pushed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Files.
    Files,
    /// Further names, each by the row of its first one.
    Links,
    Done,
}

/// A file that was pushed.
struct Pushed {
    path: Vec<u8>,
    /// Its row, with the length to which it was restored.
    recorded: Listed,
    sum: Option<u64>,
    /// Whether it has contents.
    has_contents: bool,
}

/// A drill's restored files, as they are pushed to the disk agent and judged.
pub(super) struct Proof<'a> {
    of: Restored,
    rows: LiveRows<'a>,
    pass: Pass,
    /// Further names, by first ones. They have what was found of the first when it was read, which may be another state than when they were.
    links: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Of a row of which several names are pushed: what is left of them.
    pushed: VecDeque<Pushed>,
    failed: Option<CellError>,
    log: &'a SessionLog<'a>,
    stop: &'a Stop,
    drill: &'a mut DrillReport,
}

impl<'a> Proof<'a> {
    pub fn new(
        of: Restored,
        rows: LiveRows<'a>,
        log: &'a SessionLog<'a>,
        stop: &'a Stop,
        drill: &'a mut DrillReport,
    ) -> Self {
        let (links, pushed) = (HashMap::new(), VecDeque::new());
        Self { of, rows, pass: Pass::Files, links, pushed, failed: None, log, stop, drill }
    }

    /// Proves each file of the sample, and counts how.
    pub fn run(mut self, agent: &dyn DiskAgent, job: &ProofJob) -> Result<()> {
        let looked_at = agent.prove(job, &self.stop.0, &mut self);
        if let Some(e) = self.failed {
            return Err(e);
        }
        looked_at?;
        for (first, names) in std::mem::take(&mut self.links) {
            let why = format!("its contents are those of /{}, which has no row", path_text(&first));
            names.iter().for_each(|path| self.count(path, Err(why.clone())));
        }
        Ok(())
    }

    /// The next rows to push.
    fn more(&mut self) -> Result<Vec<ProofRow>> {
        let mut rows = Vec::new();
        while rows.len() < ROWS && self.pass != Pass::Done {
            let Some((row, listed)) = self.rows.next()? else {
                self.pass = match self.pass {
                    Pass::Files if !self.links.is_empty() => Pass::Links,
                    _ => Pass::Done,
                };
                self.rows.rewind();
                continue;
            };
            let path = row.entry.path();
            if self.pass == Pass::Links {
                for name in self.links.remove(&path).unwrap_or_default() {
                    rows.push(self.push(&row, &listed, name));
                }
                continue;
            }
            if row.entry.kind != Kind::File || !self.of.arc.has(&path) {
                continue;
            }
            let first = if row.entry.link { &row.entry.target } else { &path };
            if self.of.away.contains(first) {
                continue;
            }
            if row.entry.link {
                self.links.entry(row.entry.target).or_default().push(path);
                continue;
            }
            rows.push(self.push(&row, &listed, path));
        }
        Ok(rows)
    }

    /// Pushes what was restored at a path, with the row that has its data.
    fn push(&mut self, row: &Row, recorded: &Listed, path: Vec<u8>) -> ProofRow {
        let sum = self.rows.content_sum(row);
        let mut recorded = recorded.clone();
        recorded.entry.size = self.rows.restored_len(row);
        let has_contents = row.entry.size > 0;
        self.pushed.push_back(Pushed { path: path.clone(), recorded, sum, has_contents });
        ProofRow { path, entry: row.entry.clone(), sum }
    }

    /// Counts how a file was proved, or says why it is not. Where the drill was ended early nothing is said of it.
    fn count(&mut self, path: &[u8], proved: std::result::Result<By, String>) {
        match proved {
            Ok(By::Live) => self.drill.by_live_file += 1,
            Ok(By::Checksum) => self.drill.by_checksum += 1,
            Ok(By::Length) => self.drill.by_length += 1,
            Err(_) if self.stop.0.load(Relaxed) => {}
            Err(why) => {
                self.drill.failed += 1;
                let shown = format!("/{}", path_text(path));
                self.log.say(Code::NotProved, "cell", &shown, why);
            }
        }
    }

    /// Holds what was restored against the row that has its data.
    fn judge(&self, of: &Pushed, proven: Proven) -> std::result::Result<By, String> {
        let unreadable = |e: String| format!("what was restored cannot be read: {e}");
        let restored = proven.restored.map_err(unreadable)?.ok_or("it was not restored")?;
        let what = self.differences(&of.recorded, restored);
        if !what.is_empty() {
            let what: Vec<_> = what.iter().map(|a| a.name()).collect();
            return Err(format!("it was restored with another {}", what.join(", ")));
        }
        if let Some(sum) = proven.sum.transpose().map_err(unreadable)?
            && Some(sum) != of.sum
        {
            return Err("its contents are others than those that were backed up".to_owned());
        }
        let entry = &of.recorded.entry;
        match proven.is_as_live.map_err(unreadable)? {
            Some(true) => return Ok(By::Live),
            // Where ctime proves nothing, the live file may have changed.
            Some(false) if proves_contents(entry.mtime, entry.ctime) => {
                return Err("its contents are others than those of the live file, which is \
                            unchanged since the backup"
                    .to_owned());
            }
            _ => {}
        }
        let unknown = self.of.unchecked && of.sum.is_none() && of.has_contents;
        Ok(if unknown { By::Length } else { By::Checksum })
    }

    fn differences(&self, recorded: &Listed, restored: Looked) -> Vec<Aspect> {
        let mut restored = listed(restored);
        // Which of its names is the first one is the backup's affair.
        let of = &recorded.entry;
        (restored.entry.link, restored.entry.target) = (of.link, of.target.clone());
        let limited = self.of.limited;
        let mut what = differences(recorded, &restored);
        what.retain(|a| match a {
            // Flags are not set in scratch space: what is immutable could not be removed.
            Aspect::Flags | Aspect::Ctime => false,
            Aspect::Owner | Aspect::Group | Aspect::Xattrs | Aspect::Mode => !limited,
            _ => true,
        });
        what
    }
}

impl Inquiry<ProofRow, Proven> for Proof<'_> {
    fn rows(&mut self) -> std::result::Result<Vec<ProofRow>, RowsBroken> {
        self.more().map_err(|e| {
            self.failed.get_or_insert(e);
            RowsBroken
        })
    }

    fn found(&mut self, proven: Proven) {
        if let Some(of) = self.pushed.pop_front() {
            let proved = self.judge(&of, proven);
            self.count(&of.path, proved);
        }
    }
}
