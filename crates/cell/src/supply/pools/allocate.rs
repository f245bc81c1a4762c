//! Which medium of a pool a session takes.
//!
//! In this order: one of the pool that takes more, the one written last; a free one of the pool; an expired one of the
//! pool, the oldest, which is recycled; a free or expired one of the free pool; where the pool is loose, a free one that is
//! in no pool; where it takes blank tapes, one of those, which is the pool's from then on. Where a pool has rotation sets, only media of the day's set count, and a medium is appended to on the day on
//! which it was begun.
//!
//! A medium of a set that has all its media is expired when its turn comes ([`crate::supply::rotation`]). As long as media have a seat to
//! take, because one is written no more or failed just now, they come before it.

use capstan_engine::message::{Code, shell_word};
use capstan_format::id::MediumId;
use capstan_idb::{Medium, Pool, RotationSet};
use jiff::Timestamp;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{CellError, Result, chain};
use crate::media::exchanged::Looked;
use crate::media::{MediumInfo, MediumState, way_to_prove};
use crate::request::Turn;
use crate::session::now_us;
use crate::supply::pools::held_up::HeldUp;
use crate::supply::pools::queue::has_no_drive;
use crate::supply::pools::seat::{has_failed, has_seat};
use crate::supply::pools::usable::unusable;
use crate::supply::unfit::{FAILURES, HAS_FAILED, PassedOver, Why, a_few, loses_seat, why_next};

/// The rank of a medium: less is taken first.
type Rank = (u8, i64, i64);

/// From this rank on, blank tapes come before it.
const BEHIND_BLANK: u8 = 6;

impl Turn {
    /// The turn of a run that began then, in microseconds since 1970.
    pub fn of_run(began_us: i64) -> Self {
        Self::Night(local_date(began_us))
    }

    /// The turn of what begins now.
    pub fn of_now() -> Self {
        Self::of_run(now_us())
    }

    /// The day whose turn it is.
    fn day(self) -> Date {
        match self {
            Self::Night(day) => day,
            Self::InPlaceOf(_) => local_date(now_us()),
        }
    }

    pub(in crate::supply) fn set(self, pool: &Pool) -> Option<RotationSet> {
        match self {
            Self::Night(day) => set_of(pool, day),
            Self::InPlaceOf(set) => set,
        }
    }
}

impl Cell {
    /// The medium that a session to a pool takes, not one of those that were `passed` over for a reason. It is the pool's from then on,
    /// and what was expired on it is given up, unless it is only asked for. One that cannot be given up now, as somebody reads it, is
    /// passed over for another one, as is one that cannot be written anew: that is added to those that were passed over.
    pub(crate) fn allocate(
        &self,
        name: &str,
        turn: Turn,
        by_drive: ByDrive,
        passed: &mut Vec<PassedOver>,
        only_ask: bool,
    ) -> Result<Medium> {
        self.settle_directories(&self.pool(name)?)?;
        let mut ask = Ask::of(turn, by_drive).but(passed);
        let (mut busy, mut failures) = (None, 0);
        loop {
            let chosen = match self.choose(name, &ask) {
                // What others have may do when they are done.
                Err(e @ CellError::NoMedium(_)) => match self.or_scratch(name, &ask, only_ask, e) {
                    Err(none) if none.is_busy() => return Err(none),
                    Err(_) if self.goes_beyond(name, &mut ask)? => continue,
                    Err(none) => return Err(busy.unwrap_or(none)),
                    taken => return self.say_beyond(name, &ask, only_ask, taken?),
                },
                Err(e) => return Err(busy.unwrap_or(e)),
                Ok(chosen) => chosen,
            };
            if chosen.behind_blank {
                let none = CellError::NoMedium(String::new());
                match self.or_scratch(name, &ask, only_ask, none) {
                    Err(e) if !e.is_busy() => {}
                    taken => return self.say_beyond(name, &ask, only_ask, taken?),
                }
            }
            if only_ask {
                return Ok(chosen.info.medium);
            }
            match self.take(name, &chosen) {
                Ok(medium) => return self.say_beyond(name, &ask, only_ask, medium),
                Err(NotTaken::NotWritten(e)) => {
                    let Medium { id, label, .. } = &chosen.info.medium;
                    self.note_not_anew(label, &e);
                    ask.pass(*id, Why::ended(false, &chain(&e)), passed);
                    failures += 1;
                    // Nothing more is given up for what may be the drive's fault.
                    if failures >= FAILURES {
                        return Err(e);
                    }
                }
                Err(NotTaken::Kept(e @ CellError::Idb(_))) => return Err(e),
                // The next one would have no drive either.
                Err(NotTaken::Kept(e)) if has_no_drive(&e) => return Err(e),
                // It is chosen once more, where it is.
                Err(NotTaken::Kept(CellError::Exchanged(_)))
                    if ask.looked.is_new(chosen.info.medium.id, &chosen.info.medium.device) => {}
                // One that was changed is marked, and has no seat by that.
                Err(NotTaken::Kept(e))
                    if !matches!(e, CellError::Changed(_))
                        && let Some(why) = why_next(&e) =>
                {
                    let Medium { id, label, .. } = &chosen.info.medium;
                    self.note_passed_over(label, Some(*id), &e);
                    ask.pass(*id, why.into(), passed);
                }
                Err(NotTaken::Kept(e)) => {
                    let why = format!("cannot be given up now ({})", chain(&e));
                    ask.passed.push((chosen.info.medium.id, why));
                    busy = if e.is_busy() { Some(e) } else { busy };
                }
            }
        }
    }

    /// Whether the set takes one medium beyond its number, from now on: a night that began on the set, or whose medium failed, and found no
    /// more of it would be for nothing. Who begins a night waits for the media of its set.
    fn goes_beyond(&self, name: &str, ask: &mut Ask) -> Result<bool> {
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
    fn say_beyond(&self, name: &str, ask: &Ask, only_ask: bool, medium: Medium) -> Result<Medium> {
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

    /// A blank tape, where the pool takes such and nothing else was to be had for that reason.
    fn or_scratch(&self, name: &str, ask: &Ask, only_ask: bool, why: CellError) -> Result<Medium> {
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
            CellError::InUse(none) => CellError::InUse(format!("{}; {none}", chain(&why))),
            CellError::NoMedium(none) | CellError::NoTape(none) | CellError::BadInput(none) => {
                CellError::NoMedium(format!("{}; {none}", chain(&why)))
            }
            other => other,
        })
    }

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
            Ok(_) => CellError::NoMedium(String::new()),
            Err(e) => e,
        };
        let had = self.or_scratch(&pool.name, &ask, true, none);
        Ok(had.map_or_else(|e| e.is_busy(), |_| true))
    }

    /// Makes a medium that was chosen the pool's, and gives up what was expired on it.
    fn take(
        &self,
        name: &str,
        Chosen { info, set, .. }: &Chosen,
    ) -> std::result::Result<Medium, NotTaken> {
        let mut medium = info.medium.clone();
        if info.state == MediumState::Expired {
            let may_go = || {
                let now = self.medium_info(&info.medium)?;
                let refused = |why| CellError::NoMedium(format!("{} {why}", info.medium.label));
                now.held.map_or(Ok(()), |why| Err(refused(why)))
            };
            let trial = self.devices.trial(&medium.device);
            let device = self.hold_now(&medium)?;
            let given_up = self.give_up_held(&device, &medium, &may_go)?;
            let anew = self.begin_anew(device, &medium, given_up);
            medium = anew.map_err(NotTaken::not_written)?.medium;
            trial.keep();
        }
        if info.management.pool.as_deref() != Some(name) || info.management.rotation_set != *set {
            self.idb.set_medium_pool(medium.id, Some(name), *set).map_err(CellError::from)?;
        }
        Ok(medium)
    }

    /// Notes that a medium could not be written anew, for a session to say.
    fn note_not_anew(&self, label: &str, why: &CellError) {
        let text = format!(
            "writing to medium '{label}' failed as it was to be written anew, and another is taken: {}",
            chain(why)
        );
        self.note_passed(Code::MediumFailed, label, text);
    }
}

/// Why a medium that was chosen is not taken.
enum NotTaken {
    /// What it holds is not given up, or it cannot be had.
    Kept(CellError),
    /// It could not be written anew.
    NotWritten(CellError),
}

impl NotTaken {
    fn not_written(e: CellError) -> Self {
        match e {
            CellError::Device(_) => Self::NotWritten(e),
            e => Self::Kept(e),
        }
    }
}

impl From<CellError> for NotTaken {
    fn from(e: CellError) -> Self {
        Self::Kept(e)
    }
}

/// A medium that a pool would take, and the rotation set that it is for.
pub(in crate::supply) struct Chosen {
    pub info: MediumInfo,
    pub set: Option<RotationSet>,
    /// Whether a blank tape comes before it.
    pub behind_blank: bool,
}

/// Which medium of a pool is wanted.
pub(in crate::supply) struct Ask {
    pub turn: Turn,
    by_drive: ByDrive,
    /// None of these, each for a reason.
    pub passed: Vec<(MediumId, String)>,
    /// Those of them whose seat in their set another one takes.
    unseated: Vec<MediumId>,
    pub today: Date,
    /// Media whose turn has come by then.
    pub foreseen: Vec<MediumId>,
    /// How many others have joined the set by then.
    pub joined: usize,
    /// Whether the set takes further media beyond its number.
    pub beyond: bool,
    /// Where media were looked for whose tapes are others.
    looked: Looked,
}

impl Ask {
    pub fn of(turn: Turn, by_drive: ByDrive) -> Self {
        let today = turn.day();
        let (passed, unseated, looked) = (Vec::new(), Vec::new(), Looked::default());
        let (foreseen, joined, beyond) = (Vec::new(), 0, false);
        Self { turn, by_drive, passed, unseated, today, foreseen, joined, beyond, looked }
    }

    /// The same without those that were passed over.
    pub fn but(mut self, passed: &[PassedOver]) -> Self {
        self.unseated = passed.iter().filter(|(_, why)| loses_seat(why)).map(|of| of.0).collect();
        self.passed = passed.iter().map(|(id, why)| (*id, why.to_string())).collect();
        self
    }

    /// Passes over a medium, from now on.
    fn pass(&mut self, id: MediumId, why: Why, passed: &mut Vec<PassedOver>) {
        self.passed.push((id, why.to_string()));
        if loses_seat(&why) {
            self.unseated.push(id);
        }
        passed.push((id, why));
    }

    /// Makes of a medium what it is by then.
    fn foresee(&self, info: &mut MediumInfo) {
        use MediumState::{Appendable, Full, Protected};
        let holds = matches!(info.state, Appendable | Full | Protected);
        if holds && self.foreseen.contains(&info.medium.id) {
            (info.state, info.held, info.waits_for) = (MediumState::Expired, None, None);
        }
    }

    /// Whether the set takes further media.
    fn may_join(&self, pool: &Pool, media: &[MediumInfo]) -> bool {
        let Some(set) = self.turn.set(pool) else { return true };
        let seated = media.iter().filter(|m| self.is_seated(pool, set, m));
        self.beyond || seated.count() + self.joined < pool.size_of(set) as usize
    }

    /// Whether a medium has a seat in that set.
    fn is_seated(&self, pool: &Pool, set: RotationSet, m: &MediumInfo) -> bool {
        let is_of_set = m.management.pool.as_deref() == Some(&*pool.name)
            && m.management.rotation_set == Some(set);
        is_of_set && has_seat(m) && !self.unseated.contains(&m.medium.id)
    }
}

/// What is asked for.
struct Asked<'a> {
    pool: &'a Pool,
    set: Option<RotationSet>,
    /// Whether the set takes further media.
    may_join: bool,
    turn: Turn,
    today: Date,
}

impl Asked<'_> {
    /// The rank of a medium; nothing where it is none of the pool's business; why it cannot be used, where it is.
    fn rank(&self, m: &MediumInfo) -> std::result::Result<Option<Rank>, String> {
        let of = m.management.pool.as_deref();
        let own = of == Some(&*self.pool.name);
        let drawn = of.is_some() && of == self.pool.free_pool.as_deref();
        let loose = of.is_none() && self.pool.allocation == capstan_idb::Allocation::Loose;
        if !(own || drawn || loose) {
            return Ok(None);
        }
        let turn = own && m.management.rotation_set == self.set;
        // One of another set has its own days; one without a set joins today's, if that takes more.
        if own && !turn && m.management.rotation_set.is_some() {
            return Ok(None);
        }
        if let Some(why) = unusable(m) {
            // Media that are not the pool's are no news where they are of no use.
            return if own { Err(why) } else { Ok(None) };
        }
        if !turn && !self.may_join {
            return Ok(None);
        }
        let first = m.management.first_us;
        let (last, at) = (m.holdings.last_order.unwrap_or(0), m.holdings.last_us.unwrap_or(0));
        let begun = m.holdings.run_us.or(m.holdings.last_us).unwrap_or(first);
        // What was written last to it was all that it took: it is tried again where there is no other.
        let is_last = turn && self.set.is_some() && has_failed(m);
        // Nothing goes for what is copied.
        let may_go = matches!(self.turn, Turn::Night(_)) || self.set.is_none();
        match m.state {
            MediumState::Expired if own && !may_go => {
                Err("is for the next backup of its set".to_owned())
            }
            MediumState::Free if own && is_last => Ok(Some((BEHIND_BLANK, first, 0))),
            MediumState::Expired if turn && self.set.is_some() && self.may_join => {
                Ok(Some((BEHIND_BLANK + 1, last, at)))
            }
            // One without a set joins as long as it holds nothing.
            MediumState::Appendable if own && !turn => Ok(None),
            MediumState::Appendable if own => match self.set {
                Some(_) if local_date(begun) != self.today => {
                    Err("holds what must stay and was begun on another day".to_owned())
                }
                _ => Ok(Some((0, -last, -at))),
            },
            MediumState::Free if own => Ok(Some((1, first, 0))),
            MediumState::Expired if own => Ok(Some((2, last, at))),
            MediumState::Free if drawn => Ok(Some((3, first, 0))),
            MediumState::Expired if drawn => Ok(Some((4, last, at))),
            MediumState::Free => Ok(Some((5, first, 0))),
            _ => Ok(None),
        }
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
    CellError::NoMedium(format!(
        "pool '{}' has no usable medium{of}: {why}; {to_do}, or {add}",
        pool.name
    ))
}

/// The rotation sets of a pool as they are written in an option, with that many media of one of them.
fn with_size(pool: &Pool, set: RotationSet, size: usize) -> String {
    let size = |(of, n): (RotationSet, u32)| {
        (n > 0).then(|| format!("{of}={}", if of == set { size } else { n as usize }))
    };
    let sets = RotationSet::ALL.into_iter().zip(pool.rotation).filter_map(size);
    sets.collect::<Vec<_>>().join(",")
}

/// Whether a run of that day wrote to a medium of a set.
pub(in crate::supply) fn was_written(m: &MediumInfo, set: RotationSet, day: Date) -> bool {
    let run = m.holdings.run_us.filter(|us| Timestamp::from_microsecond(*us).is_ok());
    m.management.rotation_set == Some(set) && run.is_some_and(|us| local_date(us) == day)
}

/// The rotation set whose day it is: the first of the month, else Sunday, else any, of the sets that the pool has.
pub(in crate::supply) fn set_of(pool: &Pool, today: Date) -> Option<RotationSet> {
    let has = |set: RotationSet| pool.size_of(set) > 0;
    let due = [
        (RotationSet::Monthly, today.day() == 1),
        (RotationSet::Weekly, today.weekday() == Weekday::Sunday),
        (RotationSet::Daily, true),
    ];
    let due = due.into_iter().find(|(set, due)| *due && has(*set)).map(|(set, _)| set);
    // Without a daily set, other days belong to the set that comes round most often.
    due.or_else(|| RotationSet::ALL.into_iter().find(|set| has(*set)))
}

/// The day of a time, here.
pub(crate) fn local_date(us: i64) -> Date {
    let time = Timestamp::from_microsecond(us).unwrap_or(Timestamp::UNIX_EPOCH);
    time.to_zoned(TimeZone::system()).date()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::Condition;
    use crate::supply::pools::PoolInfo;
    use capstan_idb::{Allocation, Holdings, Management};
    use jiff::civil::date;

    fn medium(label: &str, pool: Option<&str>, state: MediumState, last_us: i64) -> MediumInfo {
        MediumInfo {
            medium: Medium {
                id: MediumId([label.len() as u8; 16]),
                label: label.to_owned(),
                device: "file:/m".parse().unwrap(),
                block_size: 1 << 19,
                created_us: 0,
                hosts: Vec::new(),
            },
            management: Management { pool: pool.map(str::to_owned), ..Management::default() },
            holdings: Holdings {
                last_us: Some(last_us),
                last_order: Some(last_us),
                ..Holdings::default()
            },
            host: None,
            state,
            state_inside: state,
            condition: Condition::Good,
            reasons: Vec::new(),
            ways_out: None,
            absent: None,
            used: None,
            tapes: Vec::new(),
            protected_us: None,
            free_bytes: None,
            foreign: false,
            versions: Vec::new(),
            kept: 0,
            held: None,
            waits_for: None,
            kept_until_us: None,
            kept_for_ever: false,
            kept_by_set: false,
            drive_key: None,
        }
    }

    fn pool(allocation: Allocation, free_pool: Option<&str>, rotation: [u32; 3]) -> Pool {
        let free_pool = free_pool.map(str::to_owned);
        Pool { allocation, free_pool, rotation, ..PoolInfo::default_of("p") }
    }

    #[test]
    fn media_are_taken_in_order() {
        use MediumState::*;
        let strict = pool(Allocation::Strict, Some("spare"), [0; 3]);
        let loose = pool(Allocation::Loose, None, [0; 3]);
        let rank = |pool: &Pool, m: &MediumInfo| {
            let today = date(2026, 11, 20);
            let asked = Asked { pool, set: None, may_join: true, turn: Turn::Night(today), today };
            asked.rank(m)
        };
        let order = [
            medium("newer", Some("p"), Appendable, 9),
            medium("older", Some("p"), Appendable, 5),
            medium("free", Some("p"), Free, 0),
            medium("old", Some("p"), Expired, 3),
            medium("less old", Some("p"), Expired, 4),
            medium("drawn", Some("spare"), Free, 0),
            medium("drawn old", Some("spare"), Expired, 1),
        ];
        let ranks: Vec<_> = order.iter().map(|m| rank(&strict, m).unwrap().unwrap()).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
        let nobodys = medium("x", None, Free, 0);
        assert_eq!(rank(&strict, &nobodys), Ok(None));
        assert_eq!(rank(&loose, &nobodys), Ok(Some((5, 0, 0))));
        // What others have, and what was given up by nobody, stays.
        assert_eq!(rank(&loose, &medium("x", None, Expired, 0)), Ok(None));
        assert_eq!(rank(&loose, &medium("x", None, Appendable, 0)), Ok(None));
        assert_eq!(rank(&loose, &medium("x", Some("q"), Free, 0)), Ok(None));
        assert_eq!(rank(&strict, &medium("x", Some("spare"), Appendable, 0)), Ok(None));
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let p = pool(Allocation::Strict, None, [0; 3]);
        let today = date(2026, 11, 20);
        let asked = Asked { pool: &p, set: None, may_join: true, turn: Turn::Night(today), today };
        let why = |m: MediumInfo| asked.rank(&m).unwrap_err();
        let own = |state| medium("x", Some("p"), state, 0);
        assert_eq!(why(own(MediumState::Full)), "is full");
        assert_eq!(why(own(MediumState::Damaged)), "is damaged");
        assert_eq!(why(own(MediumState::Retired)), "is retired");
        let absent =
            MediumInfo { absent: Some("no medium is there".into()), ..own(MediumState::Free) };
        assert_eq!(why(absent), "is not in file:/m: no medium is there");
        let mut exported = own(MediumState::Exported);
        exported.management.exported_to = Some("the bank".into());
        assert_eq!(why(exported), "is exported to the bank");
        assert_eq!(
            why(MediumInfo { foreign: true, ..own(MediumState::Foreign) }),
            "belongs to another cell"
        );
        let poor = MediumInfo {
            condition: Condition::Poor,
            reasons: vec!["3 errors".into()],
            ..own(MediumState::Poor)
        };
        assert_eq!(why(poor), "is in poor condition (3 errors)");
    }

    #[test]
    fn media_rotate_by_the_calendar() {
        let all = pool(Allocation::Strict, None, [5, 4, 12]);
        let weekly = pool(Allocation::Strict, None, [0, 4, 0]);
        let none = pool(Allocation::Strict, None, [0; 3]);
        let (first, sunday, friday) = (date(2026, 11, 1), date(2026, 11, 22), date(2026, 11, 20));
        assert_eq!(set_of(&all, first), Some(RotationSet::Monthly));
        assert_eq!(set_of(&all, sunday), Some(RotationSet::Weekly));
        assert_eq!(set_of(&all, friday), Some(RotationSet::Daily));
        assert_eq!(set_of(&weekly, friday), Some(RotationSet::Weekly));
        assert_eq!(set_of(&none, friday), None);
    }

    #[test]
    fn a_medium_of_a_set_is_appended_to_on_its_day() {
        let p = pool(Allocation::Strict, None, [2, 0, 0]);
        let day = 86_400_000_000;
        let today = local_date(100 * day);
        let set = Some(RotationSet::Daily);
        let asked = |may_join| Asked { pool: &p, set, may_join, turn: Turn::Night(today), today };
        let of_set = |last_us, set| {
            let mut m = medium("x", Some("p"), MediumState::Appendable, last_us);
            m.management.rotation_set = set;
            m
        };
        assert!(asked(false).rank(&of_set(100 * day, set)).unwrap().is_some());
        assert!(asked(false).rank(&of_set(98 * day, set)).is_err());
        assert_eq!(asked(true).rank(&of_set(100 * day, Some(RotationSet::Weekly))), Ok(None));
        // A medium without a set joins where the set has room.
        let free = medium("x", Some("p"), MediumState::Free, 0);
        assert!(asked(true).rank(&free).unwrap().is_some());
        assert_eq!(asked(false).rank(&free), Ok(None));
    }

    #[test]
    fn what_is_written_no_more_leaves_its_seat_to_another() {
        let p = pool(Allocation::Strict, None, [2, 0, 0]);
        let set = Some(RotationSet::Daily);
        let of_set = |n: u8| {
            let mut m = medium("x", Some("p"), MediumState::Protected, 0);
            m.medium.id = MediumId([n; 16]);
            m.holdings.segments = 1;
            m.management.rotation_set = set;
            m
        };
        let today = date(2026, 11, 20);
        let mut ask = Ask::of(Turn::Night(today), ByDrive::AsItIs);
        let both = [of_set(1), of_set(2)];
        assert!(!ask.may_join(&p, &both));
        let after = |change: &dyn Fn(&mut MediumInfo)| {
            let mut media = both.clone();
            change(&mut media[1]);
            ask.may_join(&p, &media)
        };
        assert!(after(&|m| m.management.retired_us = Some(1)));
        assert!(after(&|m| m.management.damaged_us = Some(1)));
        assert!(after(&|m| m.management.changed_us = Some(1)));
        assert!(after(&|m| m.condition = Condition::Poor));
        assert!(after(&|m| (m.management.errors, m.holdings.segments) = (1, 0)));
        assert!(after(&|m| m.protected_us = Some(1)));
        assert!(!after(&|m| m.management.errors = 1), "it holds something");
        assert!(!after(&|m| m.management.exported_us = Some(1)), "it comes back");
        ask.unseated.push(MediumId([1; 16]));
        assert!(ask.may_join(&p, &both));
    }

    #[test]
    fn a_medium_whose_turn_has_come_waits_as_long_as_others_have_a_seat_to_take() {
        let p = pool(Allocation::Loose, None, [2, 0, 0]);
        let set = Some(RotationSet::Daily);
        let today = date(2026, 11, 20);
        let of_set = |state, errors| {
            let mut m = medium("x", Some("p"), state, 0);
            m.management.rotation_set = set;
            m.management.errors = errors;
            m
        };
        let rank =
            |turn, may_join, m: &MediumInfo| Asked { pool: &p, set, may_join, turn, today }.rank(m);
        let (due, failed) = (of_set(MediumState::Expired, 0), of_set(MediumState::Free, 1));
        let nobodys = medium("x", None, MediumState::Free, 0);
        let ranks =
            [&nobodys, &failed, &due].map(|m| rank(Turn::Night(today), true, m).unwrap().unwrap());
        assert!(ranks.is_sorted() && ranks[1].0 >= BEHIND_BLANK, "{ranks:?}");
        assert_eq!(rank(Turn::Night(today), false, &due), Ok(Some((2, 0, 0))));
        // Nothing goes for what is copied off another one.
        let in_place = Turn::InPlaceOf(set);
        assert!(rank(in_place, true, &due).is_err());
        assert!(rank(in_place, true, &of_set(MediumState::Free, 0)).unwrap().is_some());
    }
}
