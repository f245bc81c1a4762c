//! The outlines of all segments of a session in one file: who lists a directory opens it instead of hundreds of sparse
//! indexes, each of which would only say that it does not have that directory.
//!
//! It lies beside the catalog file of the session's first segment, is made of the sparse indexes when all of a session's are
//! read, and says of which catalog files it is. A file of sections like these, with one.

use capstan_format::FormatError;
use capstan_format::bytes::{Cursor, put_bytes, put_varint};
use capstan_format::id::{KeyId, StreamId};
use capstan_format::keys::{FrameSealer, Purpose};
use capstan_format::record::SessionLabel;
use capstan_format::sums::ContentSum;
use capstan_idb::Idb;
use serde::{Deserialize, Serialize};

use super::Outline;
use super::sections::{Form, Section, SectionFile, SectionWriter, bad};
use crate::error::Result;
use crate::keys::VersionKeys;
use crate::places::SegmentPlace;

const WHAT: &str = "table of outlines";
const FORM: Form = Form { magic: b"CpSt", version: 1, what: WHAT };
/// Most bytes of the outlines: 4,000 segments take 2 MB. Beyond that the sparse indexes are read one by one, as without it.
const TABLE_MAX: usize = 16 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// Drawn anew for each file: what the section is sealed under.
    id: StreamId,
    /// What it was made of, see [`state_of`].
    state: u64,
    /// The labels of all streams of the segments, each once.
    labels: Vec<SessionLabel>,
    /// The key of all those that have rows.
    key: Option<KeyId>,
    outlines: Section,
}

/// What a table of these segments is made of, as one number: which they are, their streams, and their catalog files as they
/// are now. `None` if one has no catalog file, or there is no more than one.
pub fn state_of(idb: &Idb, places: &[SegmentPlace]) -> Option<u64> {
    if places.len() < 2 {
        return None;
    }
    let mut sum = ContentSum::default();
    for place in places {
        let stamp = idb.catalog_stamp(place.segment).ok()??;
        sum.update(place.segment.as_bytes());
        let numbers = [stamp.len, stamp.tag, stamp.written_us as u64];
        for number in numbers.into_iter().chain([place.streams.len() as u64]) {
            sum.update(&number.to_le_bytes());
        }
        place.streams.iter().for_each(|stream| sum.update(stream.as_bytes()));
    }
    Some(sum.take())
}

/// A table, open.
pub struct Table(SectionFile<Header>);

impl Table {
    /// Opens the table of a session's segments, if there is one and it was made of what there is now.
    pub fn open(idb: &Idb, places: &[SegmentPlace], state: u64) -> Option<Self> {
        let file = idb.read_table(places.first()?.segment).ok()??;
        let file = SectionFile::<Header>::open(&FORM, file)?;
        (file.header.state == state).then_some(Self(file))
    }

    /// The labels of all streams of the segments, for which no key is needed.
    pub fn labels(&self) -> &[SessionLabel] {
        &self.0.header.labels
    }

    /// The outlines, to be taken one by one.
    pub fn outlines(self, keys: &VersionKeys) -> Result<TableRows> {
        let header = &self.0.header;
        let label = label_of(&header.labels, header.key);
        let sealer = keys.sealer(Purpose::Names, label, header.id)?;
        let plain = self.0.section(header.id, header.outlines, sealer.as_ref())?;
        Ok(TableRows { labels: self.0.header.labels, plain, at: 0 })
    }
}

/// The outlines of a table.
pub struct TableRows {
    labels: Vec<SessionLabel>,
    plain: Vec<u8>,
    at: usize,
}

impl TableRows {
    /// Those of the next segment.
    pub fn next(&mut self) -> Result<Vec<Outline>> {
        let rest = self.plain.get(self.at..).unwrap_or_default();
        let mut c = Cursor::new(rest, WHAT);
        let outlines = self.segment(&mut c).map_err(bad(WHAT))?;
        self.at = self.plain.len() - c.remaining();
        Ok(outlines)
    }

    fn segment(&self, c: &mut Cursor<'_>) -> capstan_format::Result<Vec<Outline>> {
        let mut outlines = Vec::new();
        for _ in 0..c.count()? {
            let stream = StreamId(c.array()?);
            let label = match c.varint()? {
                0 => None,
                n => {
                    let label = usize::try_from(n - 1).ok().and_then(|n| self.labels.get(n));
                    Some(label.ok_or(FormatError::Invalid(WHAT))?.clone())
                }
            };
            outlines.push(Outline::decode(c.bytes()?, stream, label)?);
        }
        Ok(outlines)
    }
}

/// Gathers a table.
pub struct TableMaker {
    state: u64,
    labels: Vec<SessionLabel>,
    /// The key of all streams that have rows; those before the first are of none.
    key: Option<Option<KeyId>>,
    plain: Vec<u8>,
    fits: bool,
}

impl TableMaker {
    /// For segments in the state that [`state_of`] said before any of them was read.
    pub fn new(state: u64) -> Self {
        Self { state, labels: Vec::new(), key: None, plain: Vec::new(), fits: true }
    }

    /// Adds what the next segment has: the labels of all its streams, and the outlines of those that have rows.
    pub fn add(&mut self, labels: &[SessionLabel], outlines: &[Outline]) {
        for label in labels {
            self.number_of(label);
        }
        put_varint(&mut self.plain, outlines.len() as u64);
        for o in outlines {
            let number = o.label.as_ref().map_or(0, |label| self.number_of(label) + 1);
            let key = o.label.as_ref().and_then(|label| label.key);
            self.fits &= *self.key.get_or_insert(key) == key;
            self.plain.extend_from_slice(o.stream.as_bytes());
            put_varint(&mut self.plain, number as u64);
            put_bytes(&mut self.plain, &o.encode());
        }
        self.fits &= self.plain.len() <= TABLE_MAX;
        if !self.fits {
            self.plain.clear();
        }
    }

    fn number_of(&mut self, label: &SessionLabel) -> usize {
        self.labels.iter().position(|l| l == label).unwrap_or_else(|| {
            self.labels.push(label.clone());
            self.labels.len() - 1
        })
    }

    /// Keeps the table beside the catalog of the session's first segment, if it is one: of one key, and not too large.
    pub fn save(self, idb: &Idb, places: &[SegmentPlace], keys: &VersionKeys) -> Result<()> {
        let Some(first) = places.first().filter(|_| self.fits) else { return Ok(()) };
        let mut writer = SectionWriter::new()?;
        let key = self.key.flatten();
        let label = label_of(&self.labels, key);
        let sealer: Option<FrameSealer> = keys.sealer(Purpose::Names, label, writer.id())?;
        if key.is_some() && sealer.is_none() {
            // Names of an encrypted session never rest in clear.
            return Ok(());
        }
        let outlines = writer.put(&self.plain, sealer.as_ref())?;
        let (id, state) = (writer.id(), self.state);
        let header = Header { id, state, labels: self.labels, key, outlines };
        Ok(idb.write_table(first.segment, &writer.finish(&FORM, &header)?)?)
    }
}

/// A label that has that key.
fn label_of(labels: &[SessionLabel], key: Option<KeyId>) -> Option<&SessionLabel> {
    labels.iter().find(|label| key.is_some() && label.key == key)
}
