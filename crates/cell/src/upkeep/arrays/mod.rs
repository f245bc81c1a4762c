//! Arrays of devices: how their members are, and a lost member written anew.

pub(crate) mod members;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use capstan_address::{Address, ArrayAddress, TapeAddress};
use capstan_engine::message::{Code, shell_word};
use capstan_engine::problem::{Explain, Problem};
use capstan_format::id::{MediumId, SegmentNumber};
use capstan_format::record::MediumHeader;
use capstan_idb::{LostMember, Medium};
use capstan_medium::OpenMedium;
use capstan_medium::host::arrays::Rebuilt;
use capstan_medium::host::{DeviceHost, OpenArray};

use self::members::since_known;
use crate::Cell;
use crate::error::{Result, UpkeepRefusal, chain};
use crate::observe::{Observer, Progress, Stop};
use crate::session::SessionLog;
use crate::versions::missing::{MissingSegment, too_few_members};

/// How often a rebuilding says how far it is.
const EACH_MS: u128 = 250;

/// How an array is.
#[derive(Debug, Clone)]
pub struct ArrayInfo {
    /// Its label and identity, where enough of it is there.
    pub medium: Option<(String, MediumId)>,
    /// Its device, with its members in their places.
    pub device: String,
    /// `rait5`, …
    pub layout: String,
    /// As many members may be lost.
    pub spare: usize,
    /// Its segments, with those that are missing.
    pub segments: u64,
    /// Segments that are recorded and that too few of the members at hand have.
    pub missing: Vec<MissingSegment>,
    /// Its members, by their places.
    pub members: Vec<MemberInfo>,
    /// Why it cannot be used; nothing where it can.
    pub broken: Option<String>,
}

/// How a member of an array is.
#[derive(Debug, Clone)]
pub struct MemberInfo {
    /// Its device.
    pub device: String,
    /// Its identity, where it is there.
    pub medium: Option<MediumId>,
    /// Segments that it has.
    pub segments: u64,
    /// Segments of the array that it lacks.
    pub lacking: Vec<SegmentNumber>,
    /// Why it is lost, or what is wrong in it.
    pub problems: Vec<Problem>,
}

impl MemberInfo {
    /// In a word.
    pub fn state(&self) -> &'static str {
        match (self.medium, self.lacking.is_empty() && self.problems.is_empty()) {
            (None, _) => "lost",
            (_, true) => "whole",
            (_, false) => "incomplete",
        }
    }

    /// Why it is not whole.
    fn fault(&self) -> String {
        let lacks = || format!("it lacks {} of the segments of the array", self.lacking.len());
        self.problems.first().map_or_else(lacks, |problem| problem.sentence.clone())
    }
}

impl ArrayInfo {
    /// In a word.
    pub fn state(&self) -> &'static str {
        match self.members.iter().all(|m| m.state() == "whole") {
            _ if self.broken.is_some() => "broken",
            _ if !self.missing.is_empty() => "incomplete",
            true => "whole",
            false => "degraded",
        }
    }

    /// Why not all of it can be used; nothing where it can.
    pub fn problem(&self) -> Option<String> {
        let missing = (!self.missing.is_empty()).then(|| too_few_members(&self.missing));
        self.broken.clone().or(missing)
    }
}

impl Cell {
    /// How an array is, by the medium that it is, or by its device.
    pub fn array_status(&self, name: &str) -> Result<ArrayInfo> {
        self.status_of_array(&self.array_of(name)?)
    }

    fn status_of_array(&self, address: &ArrayAddress) -> Result<ArrayInfo> {
        let layout = address.layout;
        let mut info = ArrayInfo {
            medium: None,
            device: address.to_string(),
            layout: layout.to_string(),
            spare: layout.parity(),
            segments: 0,
            missing: Vec::new(),
            members: Vec::new(),
            broken: None,
        };
        self.devices.wait_for(&Address::from(address.clone()));
        let opened = match self.devices.array(address, &self.known_members()) {
            Ok(opened) => opened,
            Err(e) => {
                info.broken = Some(chain(&e));
                info.members =
                    address.members.iter().map(|member| alone(&*self.devices, member)).collect();
                return Ok(info);
            }
        };
        let header = opened.header();
        info.medium = Some((header.label, header.medium));
        info.device = opened.address().to_string();
        let recorded = self.recorded_on(header.medium)?;
        let held = held(&*opened)?;
        info.missing = self.missing_on(header.medium, &recorded, &enough(&*opened, &held))?;
        let mut all: BTreeSet<_> = opened.medium()?.segments()?.into_iter().collect();
        all.extend(info.missing.iter().map(|m| m.number));
        info.segments = all.len() as u64;
        let lost = opened.lost();
        for (place, member) in opened.members().into_iter().enumerate() {
            let device = opened.address().members[place].to_string();
            let Some(member) = member else {
                let why = lost.iter().find(|l| l.member == place).map(|l| l.error.clone());
                let (medium, segments, lacking) = (None, 0, Vec::new());
                let problems = why.into_iter().collect();
                info.members.push(MemberInfo { device, medium, segments, lacking, problems });
                continue;
            };
            let lacking: Vec<_> = all.difference(&held[place]).copied().collect();
            info.members.push(MemberInfo {
                device,
                medium: Some(member.medium()),
                segments: (all.len() - lacking.len()) as u64,
                lacking,
                problems: member.problems().into_iter().map(Problem::from).collect(),
            });
        }
        self.note_state_of(&info)?;
        Ok(info)
    }

    /// Notes how the members of an array of tapes are, where they are looked at as they are recorded.
    fn note_state_of(&self, info: &ArrayInfo) -> Result<()> {
        let Some((_, id)) = &info.medium else { return Ok(()) };
        let row = self.idb.medium(*id)?;
        let is_it = |of: &Address| of.to_string() == info.device && of.is_sequential();
        if !row.is_some_and(|row| is_it(&row.device)) {
            return Ok(());
        }
        let known = self.idb.lost_members(*id)?;
        let members = info.members.iter().enumerate().filter(|(_, m)| m.state() != "whole");
        let lost = members.map(|(place, of)| {
            let (member, device) = (place as u32, of.device.clone());
            // What one lacks that is not here cannot be seen.
            let since = match of.medium {
                Some(_) => of.lacking.first().copied(),
                None => since_known(&known, member, &device),
            };
            LostMember { member, device, why: of.fault(), since }
        });
        self.note_lost_members(*id, &lost.collect::<Vec<_>>())
    }

    /// How the array is that a medium is, if it is one and nobody has to load tapes for it.
    pub fn array_at_hand(&self, medium: &Medium) -> Option<ArrayInfo> {
        let array = medium.device.as_array().filter(|_| medium.device.is_on_stores())?;
        self.status_of_array(array).ok()
    }

    /// Writes a member of an array anew onto another device, which takes its place. `member` is its device, or its number
    /// from 1. `new_medium`: though another medium was there, or a disk is not mounted there.
    pub fn array_rebuild(
        &self,
        name: &str,
        member: &str,
        onto: &Address,
        new_medium: bool,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<(Rebuilt, ArrayInfo)> {
        let address = self.array_of(name)?;
        let array = Address::from(address.clone());
        let _booked = self.book_drives_of(&[&array, onto])?;
        self.devices.wait_for(&array);
        let opened = self.devices.array(&address, &self.known_members())?;
        let place = place_of(opened.address(), member)?;
        let header = opened.header();
        self.open_drive_key(&header)?;
        self.refuse_other_cells(&header, &opened.address().to_string())?;
        self.refuse_taken_by_others(onto, header.medium, new_medium)?;
        let _locks = opened.lock()?;
        self.refuse_missing(&*opened)?;
        let begun = Instant::now();
        let mut progress = Progress::default();
        let mut said = 0;
        let mut follow = |bytes: u64| {
            progress.bytes += bytes;
            let ms = begun.elapsed().as_millis();
            if ms / EACH_MS != said {
                said = ms / EACH_MS;
                progress.elapsed_s = begun.elapsed().as_secs_f64();
                progress.rate_out = progress.bytes as f64 / progress.elapsed_s;
                observer.progress(&progress);
            }
            !stop.0.load(Relaxed)
        };
        let new_id = || self.entropy.id().map(MediumId);
        let rebuilt = opened.rebuild(place, onto, &new_id, &mut follow)?;
        let log = SessionLog::new(observer);
        for number in &rebuilt.damaged {
            let what = format!("segment {} of {}", number.0, opened.address());
            let text = format!(
                "too little of it is left: some of its blocks are damaged on the new member too; `capstan media repair {}` takes \
                 them from a copy",
                shell_word(&header.label)
            );
            log.say(Code::Damaged, "media agent", &what, text);
        }
        let placed = opened.placed_with(place, onto);
        let row = self.put_medium_of(&placed, &header)?;
        if let Address::Tape(TapeAddress { library, tape: Some(barcode), .. }) = onto {
            // Whatever is recorded of the array as a whole, this one is here.
            self.tape_is_back(&row, library, barcode)?;
        }
        let info = self.status_of_array(&as_array(placed.address().clone())?)?;
        Ok((rebuilt, info))
    }

    /// Refuses to write a member anew from members that lack what is recorded: it would be forgotten with the one that has it.
    fn refuse_missing(&self, opened: &dyn OpenArray) -> Result<()> {
        let medium = opened.header().medium;
        let recorded = self.recorded_on(medium)?;
        let there = enough(opened, &held(opened)?);
        match self.missing_on(medium, &recorded, &there)? {
            missing if missing.is_empty() => Ok(()),
            missing => Err(UpkeepRefusal::TooFewMembers {
                array: opened.address().clone(),
                missing: too_few_members(&missing),
            }
            .into()),
        }
    }

    fn array_of(&self, name: &str) -> Result<ArrayAddress> {
        let named = match name.parse::<Address>() {
            Ok(address @ Address::Array(_)) => address,
            _ => self.find_medium(name)?.device,
        };
        as_array(named)
    }

    /// Numbers of the segments recorded of a medium, without those that a prune removes or was interrupted in removing.
    pub(crate) fn recorded_and_kept(&self, medium: MediumId) -> Result<BTreeSet<SegmentNumber>> {
        let recorded = self.idb.segments_of_medium(medium)?;
        let leaving = self.leaving()?;
        Ok(recorded.into_iter().filter(|s| !leaving.contains(&s.id)).map(|s| s.number).collect())
    }

    /// Makes the members that an array lacks where a session was killed while it made the array: none has more than its header, the
    /// others nothing, and nothing is recorded of it. Returns which array it is, if that was so.
    pub(crate) fn end_making(
        &self,
        address: &ArrayAddress,
        new_medium: bool,
        observer: &dyn Observer,
    ) -> Result<Option<MediumId>> {
        let Some(half) = self.devices.half_made(address) else { return Ok(None) };
        let header = half.header();
        if !self.is_unknown_array_of_ours(header)? {
            return Ok(None);
        }
        for store in half.blank_stores() {
            self.refuse_taken(&store.into(), new_medium)?;
        }
        half.make(&|| self.entropy.id().map(MediumId))?;
        let made: Vec<String> = half.blank().into_iter().map(Address::to_string).collect();
        let text = format!(
            "a session that was killed had begun to make this array; what it lacked is made: {}",
            made.join(", ")
        );
        SessionLog::new(observer).say(Code::Adapted, "cell", &header.label, text);
        Ok(Some(header.medium))
    }

    /// Whether a header is that of an array of this cell, or of a member of one, of which nothing is recorded: nothing was written to it.
    fn is_unknown_array_of_ours(&self, header: &MediumHeader) -> Result<bool> {
        Ok(header.cell == Some(self.id()) && self.idb.medium(header.whole())?.is_none())
    }

    /// The member of an array that a killed session left on a tape when it had begun to make the array. Nothing else is on it.
    pub(crate) fn left_of_making(&self, tape: &TapeAddress) -> Result<Option<MediumId>> {
        let Some(header) = self.devices.member_without_data(tape) else {
            return Ok(None);
        };
        Ok(self.is_unknown_array_of_ours(&header)?.then_some(header.medium))
    }

    /// The same of an array that is to be repaired, with the one way in which its members are.
    pub(crate) fn say_members(&self, medium: &OpenMedium, log: &SessionLog<'_>) -> bool {
        let is_degraded = Self::say_problems(medium, log);
        if is_degraded {
            let label = &medium.header().label;
            let text = format!(
                "what its members lack is computed from the others: `capstan rait status {0}` says which they are, `capstan rait \
                 rebuild {0} --member DEVICE --onto NEW` writes one anew",
                shell_word(label)
            );
            log.say(Code::MemberLost, "media agent", label, text);
        }
        is_degraded
    }

    /// Says what an array that was read had to be made up for; returns whether there was anything.
    pub(crate) fn say_problems(medium: &OpenMedium, log: &SessionLog<'_>) -> bool {
        let problems = medium.problems();
        for problem in &problems {
            log.say(Code::MemberLost, "media agent", &medium.header().label, problem.clone());
        }
        !problems.is_empty()
    }
}

/// What each member has, by their places; nothing for those that are lost. On tape it looks for each segment.
fn held(opened: &dyn OpenArray) -> Result<Vec<BTreeSet<SegmentNumber>>> {
    let mut held = Vec::new();
    for member in opened.members() {
        let numbers = member.map(|m| m.held()).transpose()?.unwrap_or_default();
        held.push(numbers.into_iter().collect());
    }
    Ok(held)
}

/// Segments that enough members have.
fn enough(opened: &dyn OpenArray, held: &[BTreeSet<SegmentNumber>]) -> BTreeSet<SegmentNumber> {
    let data = opened.address().layout.data();
    let on = |number: &SegmentNumber| held.iter().filter(|h| h.contains(number)).count();
    held.iter().flatten().filter(|number| on(number) >= data).copied().collect()
}

/// A member of an array that is broken, looked at by itself.
fn alone(devices: &dyn DeviceHost, member: &Address) -> MemberInfo {
    let looked = devices.look_at_member(member);
    MemberInfo {
        device: member.to_string(),
        medium: looked.as_ref().ok().copied(),
        segments: 0,
        lacking: Vec::new(),
        problems: looked.err().map(|e| e.problem()).into_iter().collect(),
    }
}

fn as_array(device: Address) -> Result<ArrayAddress> {
    match device {
        Address::Array(array) => Ok(array),
        device => Err(UpkeepRefusal::NoArray { device }.into()),
    }
}

/// The place of the member that somebody names.
fn place_of(array: &ArrayAddress, name: &str) -> Result<usize> {
    if let Ok(number) = name.parse::<usize>()
        && (1..=array.members.len()).contains(&number)
    {
        return Ok(number - 1);
    }
    let whole = |a: &Address| match a {
        Address::Store(store) => store.absolute().into(),
        Address::Tape(tape) => Address::Tape(tape.recorded()),
        other => other.clone(),
    };
    let is_barcode = |a: &Address| matches!(a, Address::Tape(t) if t.tape.as_deref() == Some(name));
    let named = name.parse::<Address>().ok().map(|a| whole(&a));
    let is_it = |m: &Address| Some(whole(m)) == named || m.to_string() == name || is_barcode(m);
    // Tapes of two libraries may have the same barcode.
    if array.members.iter().filter(|m| is_barcode(m)).count() > 1 {
        return Err(UpkeepRefusal::BarcodeAmbiguous {
            name: name.to_owned(),
            array: array.clone(),
        }
        .into());
    }
    let found = array.members.iter().position(is_it);
    found.ok_or_else(|| {
        UpkeepRefusal::ArrayHasNoSuchMember { name: name.to_owned(), array: array.clone() }.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_named_by_its_barcode_where_no_other_has_that() {
        let array = "rait5:vtape:/v?tape=A,vtape:/w?tape=A,vtape:/w?tape=B";
        let Ok(Address::Array(array)) = array.parse() else { unreachable!() };
        let place = |name| place_of(&array, name).ok();
        assert_eq!((place("B"), place("vtape:/w?tape=A"), place("1")), (Some(2), Some(1), Some(0)));
        let why = place_of(&array, "A").unwrap_err().to_string();
        assert!(why.contains("'A' is the barcode of several members"), "{why}");
        assert_eq!(place("C"), None);
    }
}
