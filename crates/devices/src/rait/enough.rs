//! Tapes of an array that are not in their libraries: as many are waited for as the array cannot be read without, whichever come.

use capstan_address::{Address, ArrayAddress, TapeAddress};
use capstan_medium::host::operator::Refused;
use capstan_medium::host::{Arrays, DeviceHost, Stores, Tapes};

use crate::drives::Tape;
use crate::host::LocalDevices;

/// Waits until enough members of an array are there to read it, as long as somebody is asked for tapes. Those that lack then are not
/// waited for when they are opened.
pub(super) fn wait_for_enough(host: &LocalDevices, array: &ArrayAddress) {
    let address = Address::Array(array.clone());
    let is_waited_for = |tape: &TapeAddress| Tape::of(host.tapes(), tape).is_patient();
    let absent: Vec<TapeAddress> =
        address.tapes().into_iter().filter(|t| is_waited_for(t) && is_absent(host, t)).collect();
    let wanted: Vec<&TapeAddress> =
        absent.iter().filter(|tape| !host.is_incomplete(tape)).collect();
    if let Some(first) = wanted.first()
        && !is_enough(host, array)
    {
        let library = first.library.to_string();
        let names: Vec<&str> = wanted.iter().filter_map(|tape| tape.tape.as_deref()).collect();
        let named = match &names[..] {
            [one] => format!("tape {one}"),
            all => format!("some of tapes {}, until the array has enough of them", all.join(", ")),
        };
        let devices: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        let idle = || host.tapes().give_back_idle();
        // Where they do not come, opening the array says so.
        let _ = host.operator().insist_on_some(&devices, &library, &named, &idle, &mut || {
            absent.iter().for_each(|tape| host.tapes().look_again(&tape.library));
            is_enough(host, array).then_some(()).ok_or(Refused::Empty(()))
        });
    }
    for tape in absent.iter().filter(|tape| is_absent(host, tape)) {
        Tape::of(host.tapes(), tape).be_impatient();
    }
}

/// Whether a tape is known not to be in its library.
fn is_absent(host: &LocalDevices, tape: &TapeAddress) -> bool {
    let Some(barcode) = tape.tape.as_deref() else { return false };
    let held = host.inventory(&tape.library);
    held.is_ok_and(|held| held.iter().all(|held| held.barcode != barcode))
}

/// Whether enough members of an array may be there.
fn is_enough(host: &LocalDevices, array: &ArrayAddress) -> bool {
    let lacks = |member: &&Address| match member {
        // Which tape of a library it is, is not known.
        Address::Tape(tape) if tape.tape.is_none() => !host.is_by_hand(tape).unwrap_or(false),
        Address::Tape(tape) => is_absent(host, tape) || host.is_incomplete(tape),
        Address::Array(inner) => !is_enough(host, inner),
        Address::Store(store) => !host.is_there(store),
        Address::Null { .. } | Address::Unknown(_) => true,
    };
    array.members.iter().filter(lacks).count() <= array.layout.parity()
}
