//! Incremental backups: which version one builds on, and whether that can be built on.

use capstan_engine::message::Code;
use capstan_format::id::{MediumId, SessionId, VersionId};
use capstan_idb::{Object, Version};

use crate::Cell;
use crate::error::{CellError, Result};
use crate::merged::Merged;
use crate::request::Level;
use crate::restore::is_complete_by;
use crate::resume::Cursor;
use crate::session::Ears;
use crate::version::{SegmentPlace, VersionView};

/// What an incremental builds on.
pub(crate) struct Based<'a> {
    pub version: VersionId,
    /// The session that completed it.
    pub session: SessionId,
    pub cursor: Cursor<'a>,
}

impl Cell {
    /// The version that a backup builds on; `None` if it is a full one, or has to be one, which is said where something else
    /// was asked for. Where nothing was, it builds on the last version if all of that is on the medium that is written (and its mirrors), and
    /// encrypted if this one is: who backs up to another medium wants it to be enough by itself, and who begins to encrypt
    /// wants all encrypted.
    pub(crate) fn base_for(
        &self,
        object: &Object,
        asked: Option<Level>,
        media: &[MediumId],
        encrypted: bool,
        ears: &Ears<'_>,
    ) -> Result<Option<Based<'_>>> {
        let level = asked.unwrap_or(Level::Incremental);
        if level == Level::Full {
            return Ok(None);
        }
        let found = self.idb.versions_of(object.id)?.into_iter().find(|v| is_base(v, level));
        let Some(base) = found else {
            if asked.is_some() {
                let text =
                    format!("a full backup is made: there is no version that {level} builds on");
                ears.say(Code::Adapted, "cell", &object.name, text);
            }
            return Ok(None);
        };
        match self.open_base(&base) {
            Ok(based) if asked.is_none() && !based.cursor.is_alike(media, encrypted) => Ok(None),
            Ok(based) => Ok(Some(based)),
            Err(e) => {
                let text = format!(
                    "a full backup is made, as what {level} builds on is not all at hand: {}",
                    crate::error::chain(&e)
                );
                ears.say(Code::NoBase, "cell", &object.name, text);
                Ok(None)
            }
        }
    }

    /// Opens a version and all that it builds on; an error if any segment of them cannot be opened.
    fn open_base(&self, base: &Version) -> Result<Based<'_>> {
        let mut view = VersionView::open(self, base.id)?;
        for place in &view.segments {
            self.refuse_damaged(place)?;
            view.require(place)?;
        }
        self.add_keys(&mut view, false)?;
        let session = self.idb.sessions_of_version(base.id)?.last().map(|s| s.id);
        Ok(Based {
            version: base.id,
            session: session.unwrap_or(SessionId(base.id.0)),
            cursor: Cursor::new(Merged::with_sums(view)?),
        })
    }
}

impl Cell {
    /// Refuses a segment that is only on media which the last verification found damaged: the source has its files still.
    fn refuse_damaged(&self, place: &SegmentPlace) -> Result<()> {
        let mut damaged = None;
        for (_, medium, _) in place.places() {
            if self.idb.management(medium)?.damaged_us.is_none() {
                return Ok(());
            }
            damaged = damaged.or(Some(medium));
        }
        let Some(medium) = damaged else { return Ok(()) };
        let label = self.idb.medium(medium)?.map_or_else(|| medium.short(), |m| m.label);
        Err(CellError::BadInput(format!(
            "medium '{label}' was found damaged; `capstan verify --medium` says whether it still is"
        )))
    }
}

fn is_base(version: &Version, level: Level) -> bool {
    let lower = version.method.parse::<Level>().is_ok_and(|of| level.builds_on(of));
    is_complete_by(version, None) && lower && !version.null_device
}
