//! What an administrator can do where a medium is not as it was last written.

use capstan_address::Address;
use capstan_engine::message::shell_word;
use capstan_idb::Medium;

/// What is on a tape that has no header of ours.
pub(super) const OTHERS: &str = "something else was written over it";
/// What is on one that has nothing.
pub(super) const BLANK: &str = "its tape is blank";
/// What is on one that was made a member of an array.
pub(super) const PART: &str = "its tape is a part of an array";
/// What follows the name of another medium that is there.
pub(in crate::media) const ON_IT: &str = "is on its tape now";

/// What can be done about a medium that was changed where it is, by what was found there.
pub(crate) fn ways(row: &Medium, address: &Address, found: &str) -> String {
    let label = &row.label;
    let named = shell_word(address);
    if let Some(store) = address.as_store() {
        return format!(
            "If another disk or directory is the one that was written, bring that back; `capstan media adopt {0} --as-new` makes \
             this one a medium of its own; if this is the one itself, `capstan media repair '{label}' --as-it-is` writes anew what \
             it lost and other media have; `capstan import {0}` takes it as it is, keeps what is left of segments that were cut, and forgets those that are gone",
            shell_word(store.shown())
        );
    }
    let forget = format!("`capstan media forget '{label}'` gives up what it held");
    let of = if address.is_sequential() { "tape" } else { "array" };
    match found {
        OTHERS | BLANK => format!(
            "`capstan media recycle '{label}' --foreign` gives up what it held, erases the tape and makes it a free medium; \
             {forget} and leaves the {of} as it is"
        ),
        PART => forget,
        found if found.ends_with(ON_IT) => {
            format!("{forget}; `capstan import {named}` makes known what is there now")
        }
        _ => format!(
            "`capstan import {named}` takes it as it is, keeps what is left of a segment that was cut, and forgets those that are \
             gone; {forget} and leaves the {of} as it is"
        ),
    }
}

/// What can be done about a copy of a medium that lies elsewhere. It may be the only one that is left, so nobody is told to erase it.
pub(super) fn other_ways(row: &Medium, address: &Address) -> String {
    let Medium { label, device, .. } = row;
    let (named, at) = (shell_word(address), shell_word(device));
    match address {
        Address::Store(store) => format!(
            "write to the first, or make this one a medium of its own: `capstan media adopt {} --as-new`; if the first is lost, \
             `capstan media forget {}` gives it up then",
            shell_word(store.shown()),
            shell_word(label)
        ),
        Address::Tape(_) => format!(
            "write to the first. If this is the only one, its tape is in another case: `capstan import` the library, or put it into \
             the case that it was in ({device}), and `capstan import {at}` takes it as it is; `capstan media forget '{label}'` \
             and then `capstan import {named}` make known what this one has"
        ),
        _ => format!(
            "write to the first. If this is the only one, `capstan media forget '{label}'` and then `capstan import {named}` \
             make known what it has"
        ),
    }
}
