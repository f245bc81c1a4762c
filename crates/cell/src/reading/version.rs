//! An object version that is read: its rows, and the media that have what its catalogs do not.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use capstan_catalog::version::VersionRows;
use capstan_format::id::VersionId;
use capstan_idb::Version;

use crate::Cell;
use crate::error::Result;
use crate::reading::known::media::OpenMedia;

/// An object version, with what it builds on: its rows and its media.
pub(crate) struct VersionView<'a> {
    pub cell: &'a Cell,
    rows: VersionRows<'a>,
    pub media: Arc<OpenMedia<'a>>,
}

impl<'a> VersionView<'a> {
    /// A version that is to be read: with all that it builds on it is held as long as this, or what is made of it, is there.
    pub fn open(cell: &'a Cell, version: VersionId) -> Result<Self> {
        let reading = cell.hold_version(version)?;
        Self::of_chain(cell, version, OpenMedia::held(cell, reading))
    }

    /// The same of one whose base nobody has any more, as far as it is known; and the version that lacks, if any.
    pub fn open_known(cell: &'a Cell, version: VersionId) -> Result<(Self, Option<VersionId>)> {
        let media = Arc::new(OpenMedia::held(cell, cell.hold_version(version)?));
        let (rows, lacks) = VersionRows::of_known(&cell.idb, version, media.clone())?;
        Ok((Self { cell, rows, media }, lacks))
    }

    /// A version of which no more is looked at than the database has: rows, names.
    pub fn open_rows(cell: &'a Cell, version: VersionId) -> Result<Self> {
        Self::of_chain(cell, version, OpenMedia::of(cell))
    }

    fn of_chain(cell: &'a Cell, version: VersionId, media: OpenMedia<'a>) -> Result<Self> {
        let media = Arc::new(media);
        Ok(Self { cell, rows: VersionRows::of_chain(&cell.idb, version, media.clone())?, media })
    }

    /// A version without what it builds on, to be copied: with all that says of its sessions how they ended. Who copies holds what he
    /// copies.
    pub fn open_alone(cell: &'a Cell, version: Version) -> Result<Self> {
        let media = Arc::new(OpenMedia::of(cell));
        Ok(Self { cell, rows: VersionRows::alone(&cell.idb, version, media.clone())?, media })
    }

    /// Its rows alone. What it is held by stays with them, and they still ask its media for what no catalog has.
    pub fn into_rows(self) -> VersionRows<'a> {
        self.rows
    }
}

impl<'a> Deref for VersionView<'a> {
    type Target = VersionRows<'a>;

    fn deref(&self) -> &VersionRows<'a> {
        &self.rows
    }
}

impl<'a> DerefMut for VersionView<'a> {
    fn deref_mut(&mut self) -> &mut VersionRows<'a> {
        &mut self.rows
    }
}
