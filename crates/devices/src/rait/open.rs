//! Arrays opened by their names: to read, to hold, to write.

use std::collections::HashMap;
use std::sync::Arc;

use capstan_address::{Address, ArrayAddress};
use capstan_engine::message::shell_word;
use capstan_engine::problem::{Explain, Problem};
use capstan_format::array::RebuiltMember;
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_medium::held::Lock;
use capstan_medium::host::KnownMembers;
use capstan_medium::host::placed::Placed;
use capstan_medium::storage::Storage;
use capstan_medium::{DeviceError, HeldMedium, LostMember, OpenMedium};

use super::drives::Drives;
use super::enough::wait_for_enough;
use super::storage::{RaitStorage, StoredMember};
use crate::host::LocalDevices;
use crate::store::{Site, StorageDevice, UNFINISHED};

/// An array that was opened.
pub struct Opened {
    /// Where it was opened.
    pub(crate) host: LocalDevices,
    /// What it holds.
    pub storage: Arc<RaitStorage>,
    /// Its name, with its members in their places.
    pub address: ArrayAddress,
    /// The stores that are there.
    stores: Vec<Site>,
    /// The names of members that are lost, also of arrays in it.
    lost: Vec<Address>,
    /// Which members took the place of others, by the array that they are of: it, or one in it.
    rebuilt: Vec<(MediumId, Vec<RebuiltMember>)>,
}

/// A member that was opened.
struct Member {
    storage: Arc<dyn Storage>,
    header: MediumHeader,
    stores: Vec<Site>,
    address: Address,
    /// Where it is an array: the names of members that are lost.
    lost: Vec<Address>,
    /// And which took the place of others.
    rebuilt: Vec<(MediumId, Vec<RebuiltMember>)>,
}

/// The identity of the medium that a member has, whatever array it is of.
pub fn look(host: &LocalDevices, member: &Address) -> Result<MediumId, DeviceError> {
    let mut drives = Drives::of_members(std::slice::from_ref(member));
    let found = open_member(host, member, &mut drives, &(), Whose::Reader)?;
    match found.header.array {
        Some(_) => Ok(found.header.medium),
        None => Err(DeviceError::NotOfArray {
            path: member.to_string(),
            problem: "the medium in it is of no array".into(),
        }),
    }
}

/// Opens the medium that an array is, to read.
pub fn medium(host: &LocalDevices, address: &ArrayAddress) -> Result<OpenMedium, DeviceError> {
    open_known(host, address, &())?.medium()
}

/// The medium that an array is, held: nobody else writes to it.
pub fn hold(host: &LocalDevices, address: &ArrayAddress) -> Result<HeldMedium, DeviceError> {
    let opened = open_for(host, address, &(), Whose::Writer)?;
    let locks = opened.lock()?;
    Ok(HeldMedium::new(opened.medium()?, locks))
}

/// The medium that an array is, held for changes of its header and its segments. Segments are written by [`device`].
pub fn manage(host: &LocalDevices, address: &ArrayAddress) -> Result<StorageDevice, DeviceError> {
    let opened = open_for(host, address, &(), Whose::Writer)?;
    let locks = opened.lock()?;
    StorageDevice::on(opened.storage.clone(), &opened.address.to_string(), locks, None)
}

impl Opened {
    /// The medium that it is.
    pub fn medium(&self) -> Result<OpenMedium, DeviceError> {
        OpenMedium::on(self.storage.clone(), &self.address.to_string())
    }

    /// Where it was found.
    pub fn placed(&self) -> Placed {
        let placed = Placed::new(&Address::Array(self.address.clone()), &self.lost);
        placed.with_rebuilt(self.rebuilt.clone())
    }

    /// The same, with that device in the place of a member, which was written anew there.
    pub fn placed_with(&self, place: usize, onto: &Address) -> Placed {
        let mut address = self.address.clone();
        let before = std::mem::replace(&mut address.members[place], onto.clone());
        let mut lost = self.lost.clone();
        if let Some(of) = lost.iter().position(|of| *of == before) {
            lost.swap_remove(of);
        }
        let mut rebuilt = self.rebuilt.clone();
        if let Some((_, of)) = rebuilt.first_mut() {
            *of = self.storage.rebuilt();
        }
        Placed::new(&Address::Array(address), &lost).with_rebuilt(rebuilt)
    }

    /// Keeps others from writing to its members.
    pub fn lock(&self) -> Result<Vec<Lock>, DeviceError> {
        self.stores.iter().map(Site::lock).collect()
    }
}

/// Opens an array of which enough is there, without the members that are known to have been replaced. Where its tapes are more than
/// there are drives for, it does without the last of them as long as it can.
pub fn open_known(
    host: &LocalDevices,
    address: &ArrayAddress,
    known: &dyn KnownMembers,
) -> Result<Opened, DeviceError> {
    open_for(host, address, known, Whose::Reader)
}

/// For whom an array is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// He does without members that others have, as long as there are enough of the others.
    Reader,
    /// He needs all that are not lost: what others have is not lost, and he would leave it behind.
    Writer,
}

pub(super) fn open_for(
    host: &LocalDevices,
    address: &ArrayAddress,
    known: &dyn KnownMembers,
    whose: Whose,
) -> Result<Opened, DeviceError> {
    wait_for_enough(host, address);
    open_with(host, address, &mut Drives::of(address), known, whose)
}

fn open_with(
    host: &LocalDevices,
    address: &ArrayAddress,
    drives: &mut Drives,
    known: &dyn KnownMembers,
    whose: Whose,
) -> Result<Opened, DeviceError> {
    let mut named: Vec<(usize, &Address)> = address.members.iter().enumerate().collect();
    // In one order, whatever the order in which they are named: of two who want them all one comes first.
    named.sort_by_cached_key(|(_, member)| member.to_string());
    let mut found = Vec::new();
    for (at, member) in named {
        match open_member(host, member, drives, known, whose) {
            Err(e) if whose == Whose::Writer && e.is_busy() => return Err(e),
            member => found.push((at, member)),
        }
    }
    found.sort_by_key(|(at, _)| *at);
    assemble(host, address, found.into_iter().map(|(_, member)| member).collect(), known)
}

fn open_member(
    host: &LocalDevices,
    address: &Address,
    drives: &mut Drives,
    known: &dyn KnownMembers,
    whose: Whose,
) -> Result<Member, DeviceError> {
    let member = |medium: OpenMedium, stores| Member {
        storage: medium.storage().clone(),
        header: medium.header().clone(),
        stores,
        address: address.clone(),
        lost: Vec::new(),
        rebuilt: Vec::new(),
    };
    // What makes a medium of a device that stands alone makes none of an array's.
    let not_alone = |e| match e {
        DeviceError::NoMedium(path) => {
            DeviceError::NotOfArray { path, problem: "no medium is in it".into() }
        }
        e => e,
    };
    match address {
        Address::Store(store) => {
            let site = host.site(store)?;
            if site.has(UNFINISHED) {
                let problem = Problem::new("it was not written to its end");
                let problem = problem.hint("do `capstan rait rebuild` again");
                return Err(DeviceError::NotOfArray { path: site.shown().to_owned(), problem });
            }
            let medium = site.member().map_err(not_alone)?;
            Ok(member(medium, vec![site]))
        }
        Address::Tape(tape) => {
            let tape = host.named(tape)?;
            drives.take(host, tape)?;
            match crate::tape::open_member(host, tape) {
                Ok(medium) => Ok(member(medium, Vec::new())),
                Err(e) => {
                    drives.give_back(tape);
                    Err(not_alone(e))
                }
            }
        }
        Address::Array(array) => {
            let opened = open_with(host, array, drives, known, whose)?;
            Ok(Member {
                header: opened.storage.header(),
                storage: opened.storage,
                stores: opened.stores,
                lost: opened.lost,
                rebuilt: opened.rebuilt,
                address: Address::Array(opened.address),
            })
        }
        no_medium => Err(DeviceError::has_no_medium(no_medium)),
    }
}

/// What most of these are; of those that are as many the first.
fn most<T: Eq + std::hash::Hash + Clone>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: HashMap<T, usize> = HashMap::new();
    let values: Vec<T> = values.collect();
    values.iter().for_each(|v| *counts.entry(v.clone()).or_default() += 1);
    values.into_iter().rev().max_by_key(|v| counts[v])
}

/// The members of an array by their places.
struct Places {
    /// Each, or why it is lost.
    members: Vec<Option<Result<Member, DeviceError>>>,
    /// Of those that are lost, the device that is taken for it.
    names: Vec<Option<Address>>,
    /// How many are lost.
    lost: usize,
}

/// Puts members into their places, wherever they were named. An error where too few are left and others have one of them.
fn in_places(
    address: &ArrayAddress,
    found: Vec<Result<Member, DeviceError>>,
    array: Option<MediumId>,
    rebuilt: &[RebuiltMember],
) -> Result<Places, DeviceError> {
    let layout = address.layout;
    let mut places: Vec<Option<Result<Member, DeviceError>>> =
        (0..layout.members()).map(|_| None).collect();
    let mut lost = Vec::new();
    for (named, member) in found.into_iter().enumerate() {
        match member.and_then(|m| place_of(m, address, array, rebuilt)) {
            Ok((place, member)) if places[place].is_none() => places[place] = Some(Ok(member)),
            Ok((place, member)) => {
                let problem = format!("member {} is there already", place + 1).into();
                let path = member.address.to_string();
                lost.push((named, DeviceError::NotOfArray { path, problem }));
            }
            Err(e) => lost.push((named, e)),
        }
    }
    let mut names = vec![None; layout.members()];
    let total = lost.len();
    // That others have it is waited for.
    if total > layout.parity()
        && let Some(at) = lost.iter().position(|(_, e)| e.is_busy())
    {
        return Err(lost.swap_remove(at).1);
    }
    // Those that are lost are taken for the ones that are named where they are, then for any.
    for (named, why) in lost {
        let free = |place: &usize| places[*place].is_none();
        let place = Some(named).filter(free).or_else(|| (0..layout.members()).find(free));
        if let Some(place) = place {
            names[place] = Some(address.members[named].clone());
            places[place] = Some(Err(why));
        }
    }
    Ok(Places { members: places, names, lost: total })
}

/// Makes an array of its members, as far as they are there.
fn assemble(
    host: &LocalDevices,
    address: &ArrayAddress,
    found: Vec<Result<Member, DeviceError>>,
    known: &dyn KnownMembers,
) -> Result<Opened, DeviceError> {
    let layout = address.layout;
    let there = || found.iter().flatten().filter_map(|m| m.header.array.as_ref());
    let array = most(there().map(|place| place.array));
    let of_it = there().filter(|place| Some(place.array) == array);
    let said = of_it.flat_map(|place| place.rebuilt.iter().copied());
    let known = array.map(|array| known.rebuilt(array)).unwrap_or_default();
    let rebuilt = RebuiltMember::newest(known.into_iter().chain(said));
    let Places { members: places, names, lost: total } =
        in_places(address, found, array, &rebuilt)?;
    let headers = || places.iter().flatten().flatten().filter_map(|m| m.header.of_array());
    let count = |header: &MediumHeader| headers().filter(|h| h == header).count();
    let all: Vec<MediumHeader> = headers().collect();
    let header = all.iter().rev().max_by_key(|h| count(h)).cloned();
    let is_enough = total <= layout.parity();
    let (mut members, mut addresses, mut stores) = (Vec::new(), Vec::new(), Vec::new());
    let (mut lost, mut failure) = (Vec::new(), None::<DeviceError>);
    let mut all_rebuilt = Vec::from_iter(array.map(|array| (array, rebuilt.clone())));
    for (place, (member, name)) in places.into_iter().zip(names).enumerate() {
        match member {
            Some(Ok(member)) => {
                stores.extend(member.stores);
                lost.extend(member.lost);
                all_rebuilt.extend(member.rebuilt);
                addresses.push(member.address.clone());
                members.push(Ok(StoredMember {
                    name: member.address.to_string(),
                    storage: member.storage,
                    medium: member.header.medium,
                }));
            }
            other => {
                let name = name.unwrap_or_else(|| address.members[place].clone());
                let device = name.to_string();
                lost.push(name.clone());
                addresses.push(name);
                let error = other.and_then(Result::err);
                let why = error.as_ref().map_or_else(|| Problem::new(""), Explain::problem);
                let is_away = error.as_ref().is_some_and(DeviceError::spares_medium);
                // One that is only not to be had now comes before those that are damaged: with it the array may be whole.
                failure = match (failure, error) {
                    (Some(known), Some(next)) if known.blames_medium() && !next.blames_medium() => {
                        Some(next)
                    }
                    (known, next) => known.or(next),
                };
                let (member, error, since) = (place, why, None);
                members.push(Err(LostMember { member, device, error, is_away, since }));
            }
        }
    }
    let Some(header) = header.filter(|_| is_enough) else {
        let none = || DeviceError::NoMedium(address.to_string());
        return Err(DeviceError::ArrayBroken {
            array: address.to_string(),
            lost: total,
            members: layout.members(),
            spare: layout.parity(),
            source: Box::new(failure.unwrap_or_else(none)),
        });
    };
    let address = ArrayAddress { layout, members: addresses };
    let storage = Arc::new(RaitStorage::new(layout, header, members).with_rebuilt(rebuilt));
    let host = host.clone();
    Ok(Opened { host, storage, address, stores, lost, rebuilt: all_rebuilt })
}

/// The place that a member says it has, if it is one of this array.
fn place_of(
    member: Member,
    address: &ArrayAddress,
    array: Option<MediumId>,
    rebuilt: &[RebuiltMember],
) -> Result<(usize, Member), DeviceError> {
    let path = member.address.to_string();
    let not = |problem: Problem| DeviceError::NotOfArray { path: path.clone(), problem };
    let Some(place) = &member.header.array else {
        return Err(not("the medium in it is of no array, or its header is lost".into()));
    };
    let layout =
        place.layout().map_err(|source| DeviceError::Medium { path: path.clone(), source })?;
    if layout != address.layout {
        let problem =
            Problem::new(format!("it is of an array {layout} with {} members", layout.members()));
        return Err(not(problem.hint("name the array so")));
    }
    if Some(place.array) != array {
        return Err(not(format!("it is of another array, {}", place.array.short()).into()));
    }
    let now = rebuilt.iter().find(|of| of.member == place.member);
    if now.is_some_and(|now| now.medium != member.header.medium) {
        let label = shell_word(&member.header.label);
        return Err(not(Problem::new("`capstan rait rebuild` replaced it").hint(format!(
            "`capstan rait status {label}` names the device that took its place, use that one"
        ))));
    }
    Ok((place.member as usize, member))
}
