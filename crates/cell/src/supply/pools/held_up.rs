//! Why none of the media of a rotation set is written now: what they hold that must stay, which of them would do if it were here, and
//! what lets another one go.

use capstan_engine::message::shell_word;
use capstan_idb::{Protection, RotationSet};

use crate::Cell;
use crate::error::Result;
use crate::media::{Holds, Keeps, MediumInfo};
use crate::supply::pools::usable::HOLDS;

/// So many versions are named of each medium.
const NAMED: usize = 2;

/// What is said of media of a set that are not taken, and what helps.
#[derive(Debug, Default)]
pub(in crate::supply) struct HeldUp {
    /// What is said of each medium further, behind why it is not taken.
    pub said: Vec<String>,
    /// What makes the first of them usable whose turn has come.
    pub fetch: Option<String>,
    /// What lets the first of them go that holds what must stay.
    pub let_go: Option<String>,
}

impl Cell {
    /// What keeps these media of a set, each with why it is not taken.
    pub(in crate::supply) fn held_up(
        &self,
        pool: &str,
        set: RotationSet,
        media: &[(MediumInfo, String)],
    ) -> Result<HeldUp> {
        let keeps = self.keeps()?;
        let lasts = keeps.lasts(self)?;
        let next = lasts.sets.get(&(pool.to_owned(), set)).map_or(&[][..], |turns| &turns.next);
        let mut all = HeldUp::default();
        for (info, why) in media {
            let holds = lasts.holds.get(&info.medium.id).map_or(&[][..], Vec::as_slice);
            let is_away = info.management.exported_us.is_some() || info.absent.is_some();
            let says_holds = why.starts_with(HOLDS);
            if info.waits_for.is_some() || info.management.retired_us.is_some() {
                all.said.push(String::new());
                continue;
            }
            all.said.push(match holds {
                [] if is_away && next.contains(&info.medium.id) => {
                    " and its turn has come".to_owned()
                }
                [] => String::new(),
                holds if says_holds => format!(": {}", self.holds_text(holds)?),
                holds if is_away => format!(" and {HOLDS}: {}", self.holds_text(holds)?),
                _ => String::new(),
            });
            if all.let_go.is_none() && (says_holds || is_away) {
                all.let_go = self.way_to_let_go(&keeps, info, holds)?;
            }
        }
        let first = next.iter().find_map(|id| media.iter().find(|(info, _)| info.medium.id == *id));
        all.fetch = first.map(|(info, _)| fetch_text(info));
        Ok(all)
    }

    /// The versions that a medium holds, in a list.
    fn holds_text(&self, holds: &[Holds]) -> Result<String> {
        let mut parts = Vec::new();
        // What stays for its own sake says more.
        let (own, others): (Vec<&Holds>, Vec<&Holds>) =
            holds.iter().partition(|of| of.why.is_some());
        for of in own.into_iter().chain(others).take(NAMED) {
            let name = self.name_of_version(of.version)?;
            parts.push(match (&of.why, of.is_on_it) {
                // A semicolon would part it from the next medium.
                (Some(why), true) => format!("{name} ({})", why.replace("; ", ", ")),
                (Some(why), false) => {
                    format!("what {name} builds on ({})", why.replace("; ", ", "))
                }
                (None, _) => {
                    let on = self.idb.labels_of_version(of.version)?.join(" and ");
                    format!("what {name} builds on (until the turn of {on})")
                }
            });
        }
        let more = match holds.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Ok(format!("{}{more}", parts.join(" and ")))
    }

    /// The command that lets a medium be written in its turn, where one version alone holds it that is protected by itself.
    fn way_to_let_go(
        &self,
        keeps: &Keeps,
        info: &MediumInfo,
        holds: &[Holds],
    ) -> Result<Option<String>> {
        let [of] = holds else { return Ok(None) };
        let keeping = self.idb.keeping(of.version)?;
        let is_protected =
            matches!(keeping.protection, Protection::Permanent | Protection::UntilUs(_));
        let is_locked = keeping.lock_at(self.believed_us()?).is_some();
        Ok((is_protected && !is_locked && keeps.stays_in_turn(of.version)).then_some(format!(
            "`capstan protect {} --none` lets {} be written in its turn",
            shell_word(self.name_of_version(of.version)?),
            info.medium.label
        )))
    }
}

/// That a medium is to be fetched, and how it is taken in.
fn fetch_text(info: &MediumInfo) -> String {
    let from = info.management.exported_to.as_deref().filter(|to| !to.is_empty());
    let from = from.filter(|_| info.management.exported_us.is_some());
    let from = from.map_or(String::new(), |from| format!(" from {from}"));
    let mut libraries: Vec<String> =
        info.tapes.iter().map(|tape| shell_word(tape.library.to_string()).to_string()).collect();
    libraries.dedup();
    let take_in: Vec<String> =
        libraries.iter().map(|library| format!("`capstan library import {library}`")).collect();
    let label = &info.medium.label;
    match take_in.is_empty() {
        true => format!("bring {label} back{from}"),
        false => format!(
            "fetch {label}{from}, put it into a mail slot and take it in with {}",
            take_in.join(" and ")
        ),
    }
}
