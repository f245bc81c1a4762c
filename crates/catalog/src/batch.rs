//! Batches of rows, opened: decrypted, decompressed and decoded.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use capstan_format::acl::{self, AclNames, Whose};
use capstan_format::batch::Batch;
use capstan_format::catalog::{RawFrame, StreamContents};
use capstan_format::codec::Decompressor;
use capstan_format::entry::Entry;
use capstan_format::id::StreamId;
use capstan_format::keys::{FrameSealer, Purpose};
use capstan_format::sums::Sums;

use crate::error::{CatalogError, Result};
use crate::keys::VersionKeys;
use crate::row::{Ordinal, Row, row_number};

/// Opens batches.
#[derive(Default)]
pub struct BatchOpener {
    decompressor: Decompressor,
    scratch: Vec<u8>,
    plain: Vec<u8>,
}

impl BatchOpener {
    /// A batch and the logical offset of its first row's data.
    pub fn open(
        &mut self,
        raw: &RawFrame,
        stream: StreamId,
        sealer: Option<&FrameSealer>,
    ) -> Result<(Batch, u64)> {
        let format = |source| CatalogError::Format {
            what: format!("a batch of stream {}", stream.short()),
            source,
        };
        let Self { decompressor, scratch, plain } = self;
        raw.header.open(&raw.stored, sealer, decompressor, scratch, plain).map_err(format)?;
        let batch = Batch::decode(plain).map_err(format)?;
        let start = raw.header.logical.saturating_add(batch.data_at);
        Ok((batch, start))
    }

    /// Calls with the directory and name of each row of a batch, as long as it returns `true`.
    pub fn names(
        &mut self,
        raw: &RawFrame,
        stream: StreamId,
        sealer: Option<&FrameSealer>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let format = |source| CatalogError::Format {
            what: format!("a batch of stream {}", stream.short()),
            source,
        };
        let Self { decompressor, scratch, plain } = self;
        raw.header.open(&raw.stored, sealer, decompressor, scratch, plain).map_err(format)?;
        Batch::each_name(plain, each).map_err(format)
    }

    /// The checksums of a batch's rows.
    pub fn sums(&mut self, raw: &RawFrame, sealer: Option<&FrameSealer>) -> Result<Sums> {
        let format =
            |source| CatalogError::Format { what: "checksums of contents".to_owned(), source };
        let Self { decompressor, scratch, plain } = self;
        raw.header.open(&raw.stored, sealer, decompressor, scratch, plain).map_err(format)?;
        Sums::decode(plain).map_err(format)
    }
}

/// Some of a stream's batches, each with the logical offset of its first row's data.
pub fn batches_of<E: From<CatalogError>>(
    keys: &VersionKeys,
    stream: &StreamContents,
    range: Range<usize>,
    each: &mut dyn FnMut(usize, Batch, u64) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let label = stream.label.as_ref().map(|l| &l.session);
    let sealer = keys.sealer(Purpose::Names, label, stream.stream).map_err(CatalogError::Key)?;
    let mut opener = BatchOpener::default();
    for (index, raw) in stream.batches.iter().enumerate().skip(range.start).take(range.len()) {
        let (batch, start) = opener.open(raw, stream.stream, sealer.as_ref())?;
        each(index, batch, start)?;
    }
    Ok(())
}

type Names = HashMap<u32, Arc<[u8]>>;

/// The names of whom the ACLs of a row name, as its batch has them.
fn acl_names(entry: &Entry, users: &Names, groups: &Names) -> Option<Arc<AclNames>> {
    let name = |of @ (whose, id)| {
        let known = match whose {
            Whose::User => users.get(&id),
            Whose::Group => groups.get(&id),
        };
        known.map(|name| (of, name.clone()))
    };
    let names: AclNames = acl::named(&entry.xattrs).filter_map(name).collect();
    (!names.is_empty()).then(|| names.into())
}

/// The rows of a batch, the `index`th of a stream in a segment: `of` is the session's number, the segment's and the stream;
/// `sums` are the checksums of its rows that have data, as far as they are known.
pub fn rows_of_batch<E>(
    of: (u32, u32, StreamId),
    index: usize,
    batch: Batch,
    mut start: u64,
    sums: &Sums,
    each: &mut dyn FnMut(Row) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let names = |names: Vec<(u32, Vec<u8>)>| -> Names {
        names.into_iter().map(|(id, name)| (id, name.into())).collect()
    };
    let (session, segment, stream) = of;
    let (users, groups) = (names(batch.users), names(batch.groups));
    let (mut own, mut whole) = (sums.sums.iter(), sums.whole.iter().peekable());
    for (at, entry) in batch.entries.into_iter().enumerate() {
        let len = entry.logical_len();
        let (user, group) = (users.get(&entry.uid).cloned(), groups.get(&entry.gid).cloned());
        let ordinal = Ordinal { session, segment, row: row_number(index, at), stream };
        let acl = acl_names(&entry, &users, &groups);
        let of_whole = whole.next_if(|(row, _)| *row as usize == at).map(|(_, sum)| *sum);
        let sum = if len > 0 { own.next().copied().flatten() } else { of_whole };
        each(Row { entry, ordinal, start, data: ordinal, sum, user, group, acl })?;
        start = start.saturating_add(len);
    }
    Ok(())
}

/// The rows of a stream's batches with the logical offset of each one's data, outside of any version.
pub fn rows_of_stream(
    keys: &VersionKeys,
    stream: &StreamContents,
    each: &mut dyn FnMut(&Entry, u64),
) -> Result<()> {
    batches_of(keys, stream, 0..stream.batches.len(), &mut |_, batch, mut start| -> Result<()> {
        for entry in &batch.entries {
            each(entry, start);
            start = start.saturating_add(entry.logical_len());
        }
        Ok(())
    })
}
