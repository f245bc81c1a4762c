//! Which medium of a pool a session would take, or why none of them will do. Nothing is loaded, and nothing changes.

use capstan_engine::message::shell_word;
use capstan_engine::problem::Problem;
use capstan_idb::{Pool, RotationSet};

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{CellError, Result};
use crate::media::{MediumInfo, MediumState, way_to_prove};
use crate::request::Turn;
use crate::supply::pools::allocate::ask::Ask;
use crate::supply::pools::allocate::beyond::with_size;
use crate::supply::pools::allocate::rank::{Asked, BEHIND_BLANK, Rank};
use crate::supply::pools::held_up::HeldUp;
use crate::supply::pools::seat::has_failed;
use crate::supply::unfit::a_few;

/// A medium that a pool would take, and the rotation set that it is for.
pub(in crate::supply) struct Chosen {
    pub info: MediumInfo,
    pub set: Option<RotationSet>,
    /// Whether a blank tape comes before it.
    pub behind_blank: bool,
}

impl Cell {
    /// The medium that a session to a pool would take.
    pub(in crate::supply) fn choose(&self, name: &str, ask: &Ask) -> Result<Chosen> {
        let pool = self.pool(name)?;
        let mut all = self.media_list(None)?;
        all.iter_mut().for_each(|info| ask.foresee(info));
        let set = ask.turn.set(&pool);
        let may_join = ask.may_join(&pool, &all);
        let asked = Asked { pool: &pool, set, may_join, turn: ask.turn, today: ask.today };
        let (passed, by_drive) = (&ask.passed, ask.by_drive);
        let mut best: Option<(Rank, MediumInfo)> = None;
        let (mut unfit, mut prove) = (Vec::new(), None);
        let (mut of_set, mut in_set) = (Vec::new(), Vec::new());
        for info in all {
            if let Some((_, why)) = passed.iter().find(|(id, _)| *id == info.medium.id) {
                unfit.push((info.medium.label.clone(), format!(" {why}")));
                continue;
            }
            match asked.rank(&info) {
                Ok(Some(rank)) if best.as_ref().is_none_or(|(least, _)| rank < *least) => {
                    match self.passed_over(by_drive, &info)? {
                        None => best = Some((rank, info)),
                        Some(why) => unfit.push((info.medium.label.clone(), format!(" {why}"))),
                    }
                }
                Ok(_) => {}
                Err(why) => {
                    if info.state == MediumState::Poor {
                        prove =
                            prove.or_else(|| way_to_prove(&info.medium, info.management.errors));
                    }
                    let label = info.medium.label.clone();
                    if set.is_some() && info.management.rotation_set == set {
                        in_set.push(unfit.len());
                        of_set.push((info, why.clone()));
                    }
                    unfit.push((label, format!(" {why}")));
                }
            }
        }
        match best {
            Some((rank, info)) => {
                let behind_blank = rank.0 >= BEHIND_BLANK && pool.scratch;
                Ok(Chosen { info, set, behind_blank })
            }
            None => {
                let held_up = match set {
                    Some(set) => self.held_up(name, set, &of_set)?,
                    None => HeldUp::default(),
                };
                for (at, said) in in_set.into_iter().zip(&held_up.said) {
                    unfit[at].1.push_str(said);
                }
                let prove = prove.or(held_up.let_go);
                let to_do = match (held_up.fetch, prove) {
                    (Some(fetch), _) => fetch,
                    (None, Some(prove)) => format!("make one of them usable ({prove})"),
                    (None, None) => "make one of them usable".to_owned(),
                };
                Err(needed(&pool, set.filter(|_| !may_join), set, &unfit, &to_do))
            }
        }
    }

    /// Whether a medium is there that would join a set which has a seat for it. Nothing is loaded for it.
    pub(in crate::supply) fn would_join(&self, pool: &Pool, set: RotationSet) -> Result<bool> {
        let turn = Turn::InPlaceOf(Some(set));
        let ask = Ask::of(turn, ByDrive::AsItIs);
        let none = match self.choose(&pool.name, &ask) {
            Ok(chosen) if chosen.info.state == MediumState::Free && !has_failed(&chosen.info) => {
                return Ok(true);
            }
            Ok(_) => CellError::NoMedium("".into()),
            Err(e) => e,
        };
        let had = self.or_scratch(&pool.name, &ask, true, none);
        Ok(had.map_or_else(|e| e.is_busy(), |_| true))
    }
}

/// The error for a pool without a usable medium: it says what is `to_do`, and what is needed else, which for a set that is `complete` is
/// a further place, too.
fn needed(
    pool: &Pool,
    complete: Option<RotationSet>,
    set: Option<RotationSet>,
    unfit: &[(String, String)],
    to_do: &str,
) -> CellError {
    let of = set.map_or(String::new(), |set| format!(" for its {set} set"));
    let why = match unfit.is_empty() {
        true => "it has none".to_owned(),
        false => a_few(unfit),
    };
    let name = shell_word(&pool.name);
    let add = match complete {
        None => format!("add a free one: `capstan media init DEVICE --pool {name}`"),
        Some(set) => {
            let sets = with_size(pool, set, pool.size_of(set) as usize + 1);
            let blank = match pool.scratch {
                true => "which takes a blank tape".to_owned(),
                false => format!("and `capstan media init DEVICE --pool {name}`"),
            };
            format!(
                "let the set have one more: `capstan pool set {name} --rotation {sets}`, {blank}"
            )
        }
    };
    CellError::NoMedium(
        Problem::new(format!("pool '{}' has no usable medium{of}: {why}", pool.name))
            .hint(format!("{to_do}, or {add}")),
    )
}
