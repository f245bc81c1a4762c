//! `idb check`: whether rows, catalog files and media agree.

use std::collections::{HashMap, HashSet};
use std::io::BufReader;
use std::sync::atomic::Ordering::Relaxed;

use capstan_address::Address;
use capstan_engine::message::shell_word;
use capstan_format::catalog::Contents;
use capstan_format::id::{SegmentId, SegmentNumber, VersionId};
use capstan_idb::{Dangling, LogLevel, Medium, Segment};
use capstan_medium::OpenMedium;

use crate::Cell;
use crate::error::{Result, chain};
use crate::media::shown;
use crate::observe::Stop;
use crate::session::{now_us, writes_versions};

/// How many segments are looked up at once.
const SEGMENTS_AT_ONCE: u32 = 1024;

/// Something that does not agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// On what.
    pub what: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub advice: String,
}

impl Cell {
    /// Checks the internal database; gives each finding as it comes. Returns the number of segments that were looked at.
    pub fn idb_check(&self, stop: &Stop, each: &mut dyn FnMut(Finding)) -> Result<u64> {
        for dangling in self.idb.dangling()? {
            each(self.finding(&dangling)?);
        }
        let segments = self.check_catalogs(stop, each)?;
        for medium in self.idb.media()? {
            if stop.0.load(Relaxed) {
                break;
            }
            self.check_medium(&medium, each)?;
        }
        Ok(segments)
    }

    fn finding(&self, dangling: &Dangling) -> Result<Finding> {
        let version = |id: &VersionId| self.version_shown(*id);
        let import = "import the medium that has it".to_owned();
        Ok(match dangling {
            Dangling::Database(said) => Finding {
                what: "the tables".to_owned(),
                problem: format!("the database is damaged: {said}"),
                advice: "bring it back with `capstan idb recover` into an empty home".to_owned(),
            },
            Dangling::Base(id, base) => Finding {
                what: version(id)?,
                problem: format!("builds on version {}, which is not known", base.short()),
                advice: import,
            },
            Dangling::Key(id, key) => Finding {
                what: version(id)?,
                problem: format!("its wrapped keys {} are not known", key.short()),
                advice: "import its medium: media carry the wrapped keys".to_owned(),
            },
            Dangling::NoSegment(id) => Finding {
                what: version(id)?,
                problem: "nothing of it is on any known medium".to_owned(),
                advice: import,
            },
            Dangling::NoPlace(id) => Finding {
                what: format!("segment {}", id.short()),
                problem: "it lies on no known medium".to_owned(),
                advice: import,
            },
            Dangling::Parent(id, parent) => Finding {
                what: format!("session {}", id.short()),
                problem: format!("goes on with session {}, which is not known", parent.short()),
                advice: import,
            },
        })
    }

    /// A version as people write it.
    pub(crate) fn version_shown(&self, id: VersionId) -> Result<String> {
        let Some(version) = self.idb.version(id)? else {
            return Ok(format!("version {}", id.short()));
        };
        let name = self.idb.object(version.object)?.map(|o| o.name).filter(|n| !n.is_empty());
        let sessions = self.idb.sessions_of_version(id)?;
        let session = sessions.into_iter().find(|s| writes_versions(&s.kind));
        let session = session.map_or_else(|| id.short(), |s| s.id.short());
        Ok(format!("{}@{session}", name.unwrap_or_else(|| "(encrypted name)".to_owned())))
    }

    fn check_catalogs(&self, stop: &Stop, each: &mut dyn FnMut(Finding)) -> Result<u64> {
        let mut last: Option<SegmentId> = None;
        let mut count = 0;
        loop {
            let segments = self.idb.segments_after(last, SEGMENTS_AT_ONCE)?;
            let Some(end) = segments.last() else { return Ok(count) };
            last = Some(*end);
            for segment in segments {
                if stop.0.load(Relaxed) {
                    return Ok(count);
                }
                count += 1;
                if let Some(finding) = self.check_catalog(segment)? {
                    each(finding);
                }
            }
        }
    }

    fn check_catalog(&self, segment: SegmentId) -> Result<Option<Finding>> {
        let problem = match self.idb.read_catalog(segment)? {
            Some(file) => match Contents::from_catalog(segment, BufReader::new(file)) {
                Ok(_) => return Ok(None),
                Err(e) => format!("its catalog file is damaged: {e}"),
            },
            None if self.keeps_no_catalog(segment)? => return Ok(None),
            None => "its catalog file is missing".to_owned(),
        };
        let of = self.idb.version_of_segment(segment)?;
        let shown = of.map(|(version, _)| self.version_shown(version)).transpose()?;
        let of = shown.as_ref().map(|s| format!(" of {s}")).unwrap_or_default();
        let load = shown.map_or_else(|| "--medium MEDIUM".to_owned(), shell_word);
        Ok(Some(Finding {
            what: format!("segment {}{of}", segment.short()),
            problem,
            advice: format!("`capstan catalog load {load}` makes it again from the medium"),
        }))
    }

    /// Whether no catalog of a segment is to be here: the session that wrote it was to leave none, no version of it keeps it any more,
    /// or the session of another host left it in that one's home.
    fn keeps_no_catalog(&self, segment: SegmentId) -> Result<bool> {
        let Some((_, session)) = self.idb.version_of_segment(segment)? else { return Ok(false) };
        if self.idb.is_on_server()
            && let Some(by) = self.idb.session(session)?
            && !by.host.is_empty()
            && by.host != self.host()
        {
            return Ok(true);
        }
        Ok(self.idb.log_level_of(segment, session)? != LogLevel::All
            || !self.idb.keeps_catalog(segment, now_us())?)
    }

    /// Holds what is recorded of a medium against the medium, if it is at hand.
    fn check_medium(&self, medium: &Medium, each: &mut dyn FnMut(Finding)) -> Result<()> {
        let name = shown(medium.id, &medium.label);
        let address = &medium.device;
        // Tapes are not loaded for it: `verify --medium` reads them.
        if Address::is_sequential(address) {
            return Ok(());
        }
        // One that is elsewhere is no contradiction; `media list` shows it.
        let Ok(there) = self.devices.medium(address) else { return Ok(()) };
        if there.header().medium != medium.id {
            return Ok(());
        }
        let repair = format!("capstan media repair {}", shell_word(&medium.label));
        if let Some(problem) = there.header_problem() {
            each(Finding {
                what: name.clone(),
                problem: format!("its header file cannot be read: {problem}"),
                advice: format!("`{repair}` writes it anew"),
            });
        }
        // More than one of a number where a medium was set back and written to again.
        let mut recorded: HashMap<SegmentNumber, Vec<Segment>> = HashMap::new();
        let taken = self.idb.bytes_of_places(medium.id)?;
        for mut segment in self.idb.segments_of_medium(medium.id)? {
            // What an import took as it is, is on record so.
            segment.bytes = taken.get(&segment.id).copied().unwrap_or(segment.bytes);
            recorded.entry(segment.number).or_default().push(segment);
        }
        let mut unknown = Vec::new();
        for number in there.segments()? {
            let Some(rows) = recorded.remove(&number) else {
                unknown.push(number);
                continue;
            };
            for problem in rows.iter().filter_map(|row| compare(self, &there, row)) {
                each(Finding {
                    what: format!("segment {} of {name}", number.0),
                    problem,
                    advice: format!(
                        "`{repair}` writes it anew from where it is whole, and names what is lost if it is whole nowhere"
                    ),
                });
            }
        }
        let mut gone: Vec<Segment> = recorded.into_values().flatten().collect();
        let mut leaving = HashSet::new();
        if !unknown.is_empty() || !gone.is_empty() {
            leaving = self.leaving()?;
            self.leave_out_running((&there, address), &mut unknown, &mut gone, &leaving)?;
        }
        if !unknown.is_empty() {
            each(Finding {
                what: name.clone(),
                problem: format!("it has {} segments that are not recorded", unknown.len()),
                advice: format!("`capstan import {}` records them", shell_word(address)),
            });
        }
        self.check_gone((gone, &leaving), medium, address, each)
    }

    /// Leaves out what a session did beside the check, or is doing now: what it commits is on the medium before it is recorded, and what
    /// is given up goes from the medium first.
    fn leave_out_running(
        &self,
        (there, address): (&OpenMedium, &Address),
        unknown: &mut Vec<SegmentNumber>,
        gone: &mut Vec<Segment>,
        leaving: &HashSet<SegmentId>,
    ) -> Result<()> {
        // Held, the medium is nobody else's until both were looked at again.
        let held = self.devices.held(address);
        let (rows, on_medium) =
            (self.idb.segments_of_medium(there.header().medium)?, there.segments()?);
        let ids: HashSet<SegmentId> = rows.iter().map(|row| row.id).collect();
        let recorded: HashSet<SegmentNumber> = rows.iter().map(|row| row.number).collect();
        unknown.retain(|n| !recorded.contains(n) && on_medium.contains(n));
        gone.retain(|row| ids.contains(&row.id));
        if held.is_err_and(|e| e.is_busy()) {
            // A session writes behind what is recorded.
            let last = recorded.iter().max();
            unknown.retain(|n| last.is_some_and(|last| n < last));
            gone.retain(|row| !leaving.contains(&row.id));
        }
        Ok(())
    }

    /// Tells of segments that are recorded and not there.
    fn check_gone(
        &self,
        (mut gone, leaving): (Vec<Segment>, &HashSet<SegmentId>),
        medium: &Medium,
        address: &Address,
        each: &mut dyn FnMut(Finding),
    ) -> Result<()> {
        let name = shown(medium.id, &medium.label);
        let repair = format!("capstan media repair {}", shell_word(&medium.label));
        gone.sort_by_key(|segment| segment.number);
        for segment in gone {
            if leaving.contains(&segment.id) {
                each(Finding {
                    what: format!("segment {} of {name}", segment.number.0),
                    problem:
                        "it was given up, is gone, and is still recorded: a prune was interrupted"
                            .to_owned(),
                    advice: "`capstan prune` goes on with it".to_owned(),
                });
                continue;
            }
            let of = self.idb.version_of_segment(segment.id)?;
            let of = of.map(|(version, _)| self.version_shown(version)).transpose()?;
            each(Finding {
                what: format!("segment {} of {name}", segment.number.0),
                problem: format!(
                    "it is recorded and not there{}",
                    of.map_or(String::new(), |of| format!(" ({of})"))
                ),
                advice: format!(
                    "`{repair}` writes it anew from where it is whole, and names what is lost if it is whole nowhere; `capstan \
                     import {}` takes the medium as it is",
                    shell_word(address)
                ),
            });
        }
        Ok(())
    }
}

impl Cell {
    /// Segments that only versions have something in which were given up, and that nothing needs: prune takes them away.
    pub(crate) fn leaving(&self) -> Result<HashSet<SegmentId>> {
        let needed = self.needed()?;
        let mut segments = self.idb.expired_segments()?;
        segments.retain(|segment| segment.versions.iter().all(|id| !needed.contains_key(id)));
        Ok(segments.into_iter().map(|segment| segment.segment).collect())
    }
}

/// What is wrong with a segment of a medium, by its header and its length.
fn compare(cell: &Cell, medium: &OpenMedium, row: &Segment) -> Option<String> {
    let reader = match cell.read_segment(medium, row.number) {
        Ok(reader) => reader,
        Err(e) => return Some(format!("it cannot be opened: {}", chain(&e))),
    };
    match reader.bytes() {
        Ok(len) if len == row.bytes => {}
        Ok(len) => return Some(format!("it has {len} bytes, and {} are recorded", row.bytes)),
        Err(e) => return Some(format!("it cannot be opened: {}", chain(&e))),
    }
    match reader.header() {
        Ok(header) if header.segment != row.id => Some(format!(
            "it is segment {}, and {} is recorded",
            header.segment.short(),
            row.id.short()
        )),
        Ok(_) => None,
        Err(e) => Some(format!("its header cannot be read: {}", chain(&e))),
    }
}
