//! Whether the pages of the internal database are whole: a damaged one that nobody reads passes many backups, and fails a restore.

use capstan_engine::message::Code;

use crate::Cell;
use crate::error::{CellError, Damage, Result, chain};
use crate::session::{SessionLog, now_us};

/// The setting with the time at which the pages and indexes were found whole.
const CHECKED: &str = "idb-pages-checked-us";
/// The pages of tables up to this size are checked each time, which takes a tenth of a second of a processor.
const SMALL: u64 = 64 << 20;
/// Indexes are held against their tables each time up to this size, which takes as long.
const SMALL_INDEXES: u64 = 8 << 20;
/// Larger ones once a day, in microseconds.
const EVERY_US: i64 = 86_400_000_000;

impl Cell {
    /// Says it where pages of the database are damaged. What was asked for is done all the same: data on media do not rest on it.
    pub(crate) fn check_pages(&self, log: &SessionLog<'_>) {
        let Err(e) = self.sound_pages() else { return };
        // What could not be looked at for want of memory is not damaged by that.
        let code = match is_for_want_of_memory(&e) {
            true => Code::Adapted,
            false => Code::IdbDamaged,
        };
        log.say(code, "cell", &self.home.display().to_string(), chain(&e));
    }

    /// In a sentence, that pages of the database are damaged, and what to do; nothing where they are whole.
    pub fn damaged_pages(&self) -> Option<String> {
        self.sound_pages().err().filter(|e| !is_for_want_of_memory(e)).map(|why| chain(&why))
    }

    /// Refuses a database of which pages are damaged: a backup of it must not take the place of a whole one, and what removes data, or
    /// makes of versions what stands for them, must not rest on it.
    pub(crate) fn sound_pages(&self) -> Result<()> {
        let bytes = self.idb.table_bytes()?;
        let thorough = bytes <= SMALL_INDEXES || !self.was_checked()?;
        if !thorough && bytes > SMALL {
            return Ok(());
        }
        let found = self.idb.page_damage(thorough)?;
        let Some(first) = found.first() else {
            if thorough && bytes > SMALL_INDEXES {
                self.idb.put_setting(CHECKED, &now_us().to_string())?;
            }
            return Ok(());
        };
        let more = match found.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        Err(Damage::DatabaseDamaged {
            place: self.idb.place().to_string(),
            first: first.replace('\n', " "),
            more,
        }
        .into())
    }

    /// Whether the pages were found whole within a day, by a clock that did not jump.
    fn was_checked(&self) -> Result<bool> {
        let at = self.idb.setting(CHECKED)?.and_then(|text| text.parse::<i64>().ok());
        let since = at.map(|at| now_us().saturating_sub(at));
        Ok(since.is_some_and(|since| (0..EVERY_US).contains(&since)))
    }
}

fn is_for_want_of_memory(e: &CellError) -> bool {
    matches!(e, CellError::Idb(e) if e.is_for_want_of_memory())
}
