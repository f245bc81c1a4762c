//! Arrays made, where nothing is on their members.

use std::collections::HashMap;

use capstan_address::{Address, ArrayAddress, TapeAddress};
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_medium::DeviceError;
use capstan_medium::error::io_error;
use capstan_medium::host::Stores;
use capstan_medium::host::arrays::NewId;
use capstan_medium::host::stores::InStore;

use crate::host::LocalDevices;
use crate::tape::Claim;

/// Whether nothing is on any of the members: then they are to be made. An error if something is in the way.
pub(crate) fn is_blank(host: &LocalDevices, members: &[Address]) -> Result<bool, DeviceError> {
    let mut failed = None;
    for tape in members.iter().flat_map(Address::tapes) {
        match host.named(&tape).and_then(|tape| crate::tape::is_blank(host, tape)) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            // It may be a lost member of an array that is there.
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    for store in members.iter().flat_map(Address::stores) {
        if host.look_in(&store)? != InStore::Nothing {
            return Ok(false);
        }
    }
    failed.map_or(Ok(true), Err)
}

/// The same, with the stores that are to be made: all that has to be there is there before anything is written.
pub(crate) fn is_blank_place(
    host: &LocalDevices,
    members: &[Address],
) -> Result<bool, DeviceError> {
    if !is_blank(host, members)? {
        return Ok(false);
    }
    for store in members.iter().flat_map(Address::stores) {
        host.site(&store)?.make()?;
    }
    Ok(true)
}

/// Makes all members of an array with that header, of the array. Its tapes are blank, or hold one of the media that `may_go` and
/// nothing of it. Before anything is written all of them are there, and nobody else's.
pub fn make(
    host: &LocalDevices,
    address: &ArrayAddress,
    header: &MediumHeader,
    may_go: &[MediumId],
    new_id: NewId<'_>,
) -> Result<(), DeviceError> {
    let tapes = claims(host, &Address::Array(address.clone()), may_go)?;
    make_members(host, address, header, &tapes, new_id)
}

/// Tapes that are this process's until they are made.
pub(super) type Claims = HashMap<TapeAddress, Claim>;

pub(super) fn claims(
    host: &LocalDevices,
    of: &Address,
    may_go: &[MediumId],
) -> Result<Claims, DeviceError> {
    let claim = |tape: TapeAddress| {
        let claim = Claim::on(host, host.named(&tape)?, may_go)?;
        Ok((tape, claim))
    };
    of.tapes().into_iter().map(claim).collect()
}

fn make_members(
    host: &LocalDevices,
    address: &ArrayAddress,
    header: &MediumHeader,
    tapes: &Claims,
    new_id: NewId<'_>,
) -> Result<(), DeviceError> {
    for (place, member) in address.members.iter().enumerate() {
        let id = new_id().map_err(io_error("make a new medium in", &member.to_string()))?;
        make_one(host, member, &header.of_member(id, address.layout, place), tapes, new_id)?;
    }
    Ok(())
}

/// Makes a blank member with that header.
pub(super) fn make_member(
    host: &LocalDevices,
    member: &Address,
    header: &MediumHeader,
    new_id: NewId<'_>,
) -> Result<(), DeviceError> {
    make_one(host, member, header, &claims(host, member, &[])?, new_id)
}

pub(super) fn make_one(
    host: &LocalDevices,
    member: &Address,
    header: &MediumHeader,
    tapes: &Claims,
    new_id: NewId<'_>,
) -> Result<(), DeviceError> {
    match member {
        Address::Store(store) => {
            host.site(store)?.member_device(|| Ok(header.clone()), None).map(drop)
        }
        Address::Tape(tape) => match tapes.get(tape) {
            Some(claim) => claim.make(header),
            None => Err(DeviceError::WhichTape(tape.to_string())),
        },
        Address::Array(array) => make_members(host, array, header, tapes, new_id),
        no_medium => Err(DeviceError::has_no_medium(no_medium)),
    }
}
