//! Rotation sets that take one medium beyond their number, so that a night which has begun is not for nothing.

use capstan_engine::message::{Code, shell_word};
use capstan_idb::{Medium, Pool, RotationSet};

use crate::Cell;
use crate::error::Result;
use crate::request::Turn;
use crate::supply::pools::allocate::ask::Ask;
use crate::supply::pools::calendar::was_written;
use crate::supply::unfit::HAS_FAILED;

impl Cell {
    /// Whether the set takes one medium beyond its number, from now on: a night that began on the set, or whose medium failed, and found no
    /// more of it would be for nothing. Who begins a night waits for the media of its set.
    pub(super) fn goes_beyond(&self, name: &str, ask: &mut Ask) -> Result<bool> {
        let Turn::Night(_) = ask.turn else { return Ok(false) };
        let pool = self.pool(name)?;
        let media = self.media_list(Some(name))?;
        let Some(set) = ask.turn.set(&pool) else { return Ok(false) };
        let has_begun = media.iter().any(|m| was_written(m, set, ask.today));
        let has_failed = ask.passed.iter().any(|(_, why)| why.starts_with(HAS_FAILED));
        let goes = (has_begun || has_failed) && !ask.may_join(&pool, &media);
        ask.beyond |= goes;
        Ok(goes)
    }

    /// Says that a medium that was taken is one beyond the number of its set, if it is.
    pub(super) fn say_beyond(
        &self,
        name: &str,
        ask: &Ask,
        only_ask: bool,
        medium: Medium,
    ) -> Result<Medium> {
        let pool = self.pool(name)?;
        let Some(set) = ask.turn.set(&pool).filter(|_| ask.beyond && !only_ask) else {
            return Ok(medium);
        };
        let media = self.media_list(Some(name))?;
        let seated = media.iter().filter(|m| ask.is_seated(&pool, set, m)).count();
        let rotation = with_size(&pool, set, seated);
        self.note_passed(
            Code::SetOutgrown,
            &medium.label,
            format!(
                "it joins the {set} set of pool '{name}', which is to have {} media and has {seated} now, as this night found no more \
                 of them; `capstan pool set {} --rotation {rotation}` gives the set that number",
                pool.size_of(set),
                shell_word(name)
            ),
        );
        Ok(medium)
    }
}

/// The rotation sets of a pool as they are written in an option, with that many media of one of them.
pub(super) fn with_size(pool: &Pool, set: RotationSet, size: usize) -> String {
    let size = |(of, n): (RotationSet, u32)| {
        (n > 0).then(|| format!("{of}={}", if of == set { size } else { n as usize }))
    };
    let sets = RotationSet::ALL.into_iter().zip(pool.rotation).filter_map(size);
    sets.collect::<Vec<_>>().join(",")
}
