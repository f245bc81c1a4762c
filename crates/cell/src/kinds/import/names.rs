//! The name of an object, as it stands in a stream.

use capstan_catalog::keys::VersionKeys;
use capstan_format::catalog::StreamContents;
use capstan_format::codec::Decompressor;
use capstan_format::keys::Purpose;
use capstan_format::record::StreamNames;

use crate::error::{CellError, Damage, Result};
use crate::names::{NAME_MAX, TAGS_MAX, TEXT_MAX, bounded};

/// The object's name, opened where it is encrypted and its key is open.
pub(super) fn names(stream: &StreamContents, keys: &VersionKeys) -> Result<StreamNames> {
    let what = "the object's name".to_owned();
    let Some(raw) = &stream.names else {
        return Err(Damage::NoName.into());
    };
    let label = stream.label.as_ref().map(|l| &l.session);
    let sealer = keys.sealer(Purpose::Names, label, stream.stream)?;
    let (mut scratch, mut plain) = (Vec::new(), Vec::new());
    let mut decompressor = Decompressor::default();
    raw.header
        .open(&raw.stored, sealer.as_ref(), &mut decompressor, &mut scratch, &mut plain)
        .map_err(|source| CellError::Format { what, source })?;
    let names: StreamNames = serde_json::from_slice(&plain).map_err(|_| Damage::NameUnreadable)?;
    // Capstan writes none that are longer; others may.
    Ok(StreamNames {
        name: bounded(names.name, NAME_MAX),
        host: bounded(names.host, TEXT_MAX),
        method: bounded(names.method, TEXT_MAX),
        tags: names.tags.into_iter().take(TAGS_MAX).map(|t| bounded(t, TEXT_MAX)).collect(),
    })
}
