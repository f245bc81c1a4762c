//! Blank tapes for a pool that takes such: one of them where no medium is to be had.

use capstan_engine::problem::{Explain, Problem};
use capstan_idb::Medium;

use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::supply::pools::allocate::ask::Ask;

impl Cell {
    /// A blank tape, where the pool takes such and nothing else was to be had for that reason.
    pub(super) fn or_scratch(
        &self,
        name: &str,
        ask: &Ask,
        only_ask: bool,
        why: CellError,
    ) -> Result<Medium> {
        self.or_blank(name, ask, only_ask.then_some(0), why)
    }

    /// The same; where it is only asked for, the blank tape behind so many others.
    pub(in crate::supply) fn or_blank(
        &self,
        name: &str,
        ask: &Ask,
        only_ask: Option<usize>,
        why: CellError,
    ) -> Result<Medium> {
        let pool = self.pool(name)?;
        let set = ask.turn.set(&pool);
        if !pool.scratch || !ask.may_join(&pool, &self.media_list(Some(name))?) {
            return Err(why);
        }
        self.take_scratch(&pool, set, ask.by_drive, only_ask).map_err(|none| match none {
            CellError::InUse(none) => CellError::InUse(both(&why, none)),
            CellError::NoMedium(none) | CellError::NoTape(none) => {
                CellError::NoMedium(both(&why, none))
            }
            e if e.refusal().is_some() => CellError::NoMedium(both(&why, e.problem())),
            other => other,
        })
    }
}

/// Why there is no medium, and no blank tape instead.
fn both(why: &CellError, none: Problem) -> Problem {
    let sentence = format!("{}; {}", chain(why), none.sentence);
    Problem { sentence, ..none }
}
