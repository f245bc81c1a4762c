//! Segments of a medium that are not recorded yet: each with its catalog, and the sessions that wrote it.

use std::io::BufReader;
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::message::Code;
use capstan_format::catalog::{Contents, rebuild};
use capstan_format::id::SegmentNumber;
use capstan_format::keys::KeyRecord;
use capstan_format::record::{SegmentHeader, SessionLabel};
use capstan_idb::{Segment, Status, StreamPart};
use capstan_medium::OpenMedium;
use capstan_port::media::read::segment::ReadSegment;

use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::keys::records::key_records;
use crate::kinds::backup::stream_parts;
use crate::kinds::import::WITHOUT;
use crate::kinds::import::completed::completed;
use crate::kinds::import::found::{Imported, Imports};
use crate::kinds::import::removed::is_removed;
use crate::observe::Stop;
use crate::reading::unread::of_way;
use crate::session::{SessionLog, now_us};
use crate::upkeep::media::tape_use::Before;

impl Cell {
    /// Records the segments behind the last recorded one: a writer that was killed had committed them on the medium and
    /// not here yet. The caller holds the medium for writing.
    pub(crate) fn record_unknown(&self, medium: &OpenMedium, log: &SessionLog<'_>) -> Result<()> {
        let last = self.idb.last_segment_number(medium.header().medium)?;
        let unknown = medium.segments()?.into_iter().filter(|n| last.is_none_or(|last| *n > last));
        self.record_numbers(medium, unknown.collect(), log)
    }

    /// Records segments that are not recorded, by their numbers.
    pub(crate) fn record_numbers(
        &self,
        medium: &OpenMedium,
        unknown: Vec<SegmentNumber>,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        if !unknown.is_empty() {
            self.open_drive_key(medium.header())?;
        }
        let mut found = Imports { but_gone_on: true, ..Imports::default() };
        // A backup asks nobody, and goes on whatever is given.
        if self.secrets.are_given() {
            let records = key_records(&*self.agents.media, medium, &unknown);
            let opened = self.open_keys_if_given(&records, false, &medium.header().label, WITHOUT);
            found.keys = opened.map(|o| o.keys).unwrap_or_default();
        }
        for number in unknown {
            self.import_number(medium, number, &mut found, log)?;
        }
        found.say_gaps(log);
        self.import_sessions(&found.sessions)?;
        // What is locked stays, whatever else is recorded of it.
        Ok(self.idb.raise_locks(&found.locks)?)
    }

    /// Whether a session was gone on with since.
    fn was_gone_on_with(&self, label: &SessionLabel) -> Result<bool> {
        let sessions = self.idb.sessions_of_version(label.version)?;
        let known = sessions.iter().find(|s| s.id == label.session);
        Ok(known.is_some_and(|of| sessions.iter().any(|s| s.started_us > of.started_us)))
    }

    /// Says that something on a medium cannot be read, and records it: nothing is added to that medium.
    fn note_unread(
        &self,
        medium: &OpenMedium,
        number: SegmentNumber,
        why: &CellError,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let what = format!("segment {} of {}", number.0, medium.path());
        log.say(Code::Damaged, "media agent", &what, chain(why));
        let id = medium.header().medium;
        let recorded = self.idb.segments_of_medium(id)?.into_iter();
        let hurt: Vec<_> = recorded.filter(|s| s.number == number).map(|s| s.id).collect();
        Ok(self.idb.put_damage(id, &hurt, now_us())?)
    }

    /// Takes what has these numbers on a medium, until it is stopped. Gives the bytes that they have.
    pub(super) fn import_numbers(
        &self,
        medium: &OpenMedium,
        numbers: &[SegmentNumber],
        found: &mut Imports,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<u64> {
        let mut bytes = 0;
        for number in numbers.iter().copied() {
            if stop.0.load(Relaxed) {
                break;
            }
            bytes += match self.import_number(medium, number, found, log) {
                Err(_) if is_removed(medium, number) => 0,
                // What lies behind it may be sound.
                Err(e) if e.is_unreadable() => {
                    self.note_unread(medium, number, &e, log)?;
                    0
                }
                bytes => bytes?,
            };
        }
        Ok(bytes)
    }

    /// Takes what has that number on a medium: a segment, or what was attached to it.
    fn import_number(
        &self,
        medium: &OpenMedium,
        number: SegmentNumber,
        found: &mut Imports,
        log: &SessionLog<'_>,
    ) -> Result<u64> {
        match medium.attachment(number)? {
            Some(attached) => {
                let locks = attached.locks.iter().map(|lock| (lock.version, lock.until_us));
                found.locks.extend(locks);
                Ok(0)
            }
            None if found.kept.contains(&number) => {
                self.pass_known(medium, number, found)?;
                Ok(0)
            }
            None => self.import_segment(medium, number, found, log),
        }
    }

    /// Takes no more of a segment than where it comes among the others, from what is known of it.
    fn pass_known(
        &self,
        medium: &OpenMedium,
        number: SegmentNumber,
        found: &mut Imports,
    ) -> Result<()> {
        let recorded = self.idb.segments_of_medium(medium.header().medium)?;
        let Some(segment) = recorded.into_iter().find(|s| s.number == number) else {
            return Ok(());
        };
        let file = match self.idb.read_catalog(segment.id)? {
            None => self.idb.read_listing(segment.id)?,
            file => file,
        };
        let known = file.and_then(|f| Contents::from_catalog(segment.id, BufReader::new(f)).ok());
        if let Some((Some(header), Some(end))) = known.map(|known| (known.header, known.end)) {
            let what = format!("segment {} of {}", number.0, medium.path());
            found.take_spans(&what.into(), &header, &end);
        }
        Ok(())
    }

    /// Those of these sessions that were not gone on with since; `parts` loses what is of the others.
    fn not_gone_on(
        &self,
        labels: Vec<SessionLabel>,
        parts: &mut Vec<StreamPart>,
    ) -> Result<Vec<SessionLabel>> {
        let mut gone = Vec::new();
        for label in &labels {
            if self.was_gone_on_with(label)? {
                gone.push(label.session);
                parts.retain(|part| part.version != label.version);
            }
        }
        Ok(labels.into_iter().filter(|label| !gone.contains(&label.session)).collect())
    }

    /// Records the keys that a segment's header has.
    fn import_keys_of(&self, header: &SegmentHeader) -> Result<()> {
        for key in &header.keys {
            let json = key.to_string();
            let record = KeyRecord::from_json(json.as_bytes())?;
            self.idb.import_key(&capstan_idb::KeyRecord { id: record.id(), record: json })?;
        }
        Ok(())
    }

    fn import_segment(
        &self,
        medium: &OpenMedium,
        number: SegmentNumber,
        found: &mut Imports,
        log: &SessionLog<'_>,
    ) -> Result<u64> {
        let reader = self.read_segment(medium, number)?;
        let what = reader.path().to_owned();
        let Read { contents, whole, is_complete } = read_contents(&*reader, &what, log)?;
        let Some(contents) = completed(contents, medium.header(), number) else {
            let text = "nothing of it can be read".to_owned();
            log.say(Code::Damaged, "media agent", &what, text);
            return Ok(reader.bytes()?);
        };
        let (Some(header), Some(end)) = (&contents.header, &contents.end) else {
            return Ok(reader.bytes()?);
        };
        found.take_spans(&what.as_str().into(), header, end);
        let mut parts = stream_parts(end.segment, &end.streams);
        let labels = labels_of(header, &contents);
        let labels = if found.but_gone_on { self.not_gone_on(labels, &mut parts)? } else { labels };
        if labels.is_empty() {
            return Ok(reader.bytes()?);
        }
        let Imports { sessions, keys, follows, .. } = found;
        let label = header.session.clone();
        follows.extend(header.follows.clone().map(|medium| Before {
            session: label.session,
            medium,
            at_us: header.written_us,
        }));
        self.import_keys_of(header)?;
        for label in labels {
            let at = sessions.iter().position(|s| s.label.session == label.session);
            let at = at.unwrap_or_else(|| {
                sessions.push(Imported::of(&label, header));
                sessions.len() - 1
            });
            let session = &mut sessions[at];
            session.add(&contents, end, reader.bytes()?, keys);
            session.found_in.push(number);
            self.put_session(session, Status::Incomplete)?;
        }
        // What is known from a mirror is not replaced by what is left here. A catalog that lacks anything would be taken for all, at
        // other places too: who reads the medium, or another one that has the segment, finds what is left.
        let is_known = self.idb.read_catalog(end.segment)?.is_some();
        if whole || is_complete && !is_known {
            let catalog = rebuild(&contents).unwrap_or_default();
            self.idb.write_catalog(end.segment, &[&catalog])?;
        } else if is_known {
            parts.clear();
        }
        if let Some(origin) = header.copy_of {
            self.idb.put_copy(end.segment, origin, end.lacks)?;
        }
        let row = Segment {
            id: end.segment,
            medium: medium.header().medium,
            number,
            object: reader.object(),
            session: label.session,
            blocks: end.blocks,
            bytes: reader.bytes()?,
            committed_us: end.written_us,
        };
        // A mirror may have it, or an earlier import: what is known of it is no less than what is left here.
        if whole || !self.idb.put_damaged_place(&row, now_us())? {
            self.idb.commit_segments(&[(row, parts)])?;
        }
        Ok(reader.bytes()?)
    }
}

/// What a segment says of itself.
struct Read {
    contents: Contents,
    /// Whether its own catalog says that all is well.
    whole: bool,
    /// Whether it is known where all of it lies, damaged or not.
    is_complete: bool,
}

/// Reads a segment's catalog; where that is damaged, its streams.
fn read_contents(reader: &dyn ReadSegment, what: &str, log: &SessionLog<'_>) -> Result<Read> {
    let e = match reader.catalog() {
        Ok(contents) => return Ok(Read { contents, whole: true, is_complete: true }),
        Err(e) if of_way(&e).is_some() => return Err(e.into()),
        Err(e) => e,
    };
    let text = format!("{e}; its contents are taken from its streams");
    log.say(Code::Damaged, "media agent", what, text);
    let mut read = reader.scan()?;
    let catalog = read.catalog.take().filter(|c| c.header.is_some() && c.end.is_some());
    Ok(match catalog {
        Some(contents) => Read { contents, whole: false, is_complete: true },
        None => Read { is_complete: read.is_complete(), contents: read.contents, whole: false },
    })
}

/// The sessions that wrote a segment, first the one that its header names. Those of which a consolidation passed frames on did not.
fn labels_of(header: &SegmentHeader, contents: &Contents) -> Vec<SessionLabel> {
    let mut labels = vec![header.session.clone()];
    let streams = contents.streams.iter().filter_map(|s| s.label.as_ref()).map(|l| &l.session);
    let streams = streams.filter(|_| header.session.stands_for.is_none());
    // One that ends here may have nothing else here.
    let ended = contents.end.iter().flat_map(|end| &end.other_ends).map(|other| &other.session);
    for label in streams.chain(ended) {
        if labels.iter().all(|known| known.session != label.session) {
            labels.push(label.clone());
        }
    }
    labels
}
