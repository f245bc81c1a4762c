//! What is recorded of where an array lies: by what was found of it, and by what was recorded before.

use capstan_address::{Address, ArrayAddress, TapeAddress};
use capstan_format::array::RebuiltMember;
use capstan_format::id::MediumId;
use serde::{Deserialize, Serialize};

/// Where a medium was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Placed {
    #[serde(with = "crate::form::device")]
    address: Address,
    #[serde(with = "crate::form::device::list")]
    lost: Vec<Address>,
    #[serde(with = "crate::form::device::list")]
    others: Vec<Address>,
    rebuilt: Vec<(MediumId, Vec<RebuiltMember>)>,
}

impl From<Address> for Placed {
    fn from(address: Address) -> Self {
        Self::new(&address, &[])
    }
}

impl Placed {
    /// A medium on that device; of an array with its members in their places. Of those `lost` were not found, and have the names by
    /// which they were looked for.
    pub fn new(address: &Address, lost: &[Address]) -> Self {
        let lost = lost.iter().map(Address::recorded).collect();
        Self { address: address.recorded(), lost, others: Vec::new(), rebuilt: Vec::new() }
    }

    /// The same, where on these tapes something else was found.
    pub fn without(self, others: &[TapeAddress]) -> Self {
        let others = others.iter().map(|tape| Address::Tape(tape.recorded())).collect();
        Self { others, ..self }
    }

    /// The same, of whose members these took the place of others, by the array that they are of.
    pub fn with_rebuilt(self, rebuilt: Vec<(MediumId, Vec<RebuiltMember>)>) -> Self {
        Self { rebuilt, ..self }
    }

    /// Which members of arrays took the place of others.
    pub fn rebuilt(&self) -> &[(MediumId, Vec<RebuiltMember>)] {
        &self.rebuilt
    }

    /// Its device.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Its device, with the members that were not found where they are `known` to be: one that was replaced, or is away, does not take
    /// the place of the one that is known. What was found somewhere is not where it was before.
    pub fn with_known(&self, known: &Address) -> Address {
        let (Address::Array(now), Address::Array(known)) = (&self.address, known.recorded()) else {
            return self.address.clone();
        };
        let mut taken = self.others.clone();
        self.found_in(&self.address, &mut taken);
        Address::Array(self.merged(now, &known, &taken))
    }

    fn merged(&self, now: &ArrayAddress, known: &ArrayAddress, taken: &[Address]) -> ArrayAddress {
        if now.layout != known.layout {
            return now.clone();
        }
        let places = now.members.iter().zip(&known.members);
        let members = places.map(|(member, before)| match (member, before) {
            (lost, before) if self.lost.contains(lost) => match is_any_of(before, taken) {
                true => lost.clone(),
                false => before.clone(),
            },
            (Address::Array(inner), Address::Array(before)) => {
                Address::Array(self.merged(inner, before, taken))
            }
            (found, _) => found.clone(),
        });
        ArrayAddress { layout: now.layout, members: members.collect() }
    }

    /// Whether something of it was found on a tape.
    pub fn was_found(&self, tape: &TapeAddress) -> bool {
        let mut found = Vec::new();
        self.found_in(&self.address, &mut found);
        found.contains(&Address::Tape(tape.recorded()))
    }

    /// The devices at which something of it was found.
    fn found_in(&self, of: &Address, found: &mut Vec<Address>) {
        match of {
            lost if self.lost.contains(lost) => {}
            Address::Array(array) => array.members.iter().for_each(|m| self.found_in(m, found)),
            one => found.push(one.clone()),
        }
    }
}

fn is_any_of(device: &Address, taken: &[Address]) -> bool {
    match device {
        Address::Array(array) => array.members.iter().any(|member| is_any_of(member, taken)),
        one => taken.contains(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    fn merged(now: &str, lost: &[&str], known: &str) -> String {
        let lost: Vec<Address> = lost.iter().map(|text| address(text)).collect();
        Placed::new(&address(now), &lost).with_known(&address(known)).to_string()
    }

    #[test]
    fn a_member_that_was_not_found_stays_where_it_is_known() {
        let known = "rait1:vtape:/v?tape=A,vtape:/w?tape=A";
        let now = "rait1:vtape:/v?tape=A,vtape:/v";
        assert_eq!(merged(now, &["vtape:/v"], known), known);
        // Another tape of it was found.
        let now = "rait1:vtape:/v?tape=A,vtape:/v?tape=B";
        assert_eq!(merged(now, &[], known), now);
        // What is known now has the place of the one that was found.
        let now = "rait1:vtape:/w?tape=A,vtape:/w";
        assert_eq!(merged(now, &["vtape:/w"], known), now);
        // On disk, and where something else is known.
        assert_eq!(merged("rait1:/a,/b", &["/b"], "rait1:/a,/new"), "rait1:file:/a,file:/new");
        assert_eq!(merged("rait1:/a,/b", &["/b"], "rait0:/a,/new"), "rait1:file:/a,file:/b");
        assert_eq!(merged("rait1:/a,/b", &["/b"], "/a"), "rait1:file:/a,file:/b");
    }

    #[test]
    fn on_a_tape_that_has_something_else_is_no_member() {
        let now = address("rait1:vtape:/v?tape=A,vtape:/v");
        let placed = Placed::new(&now, &[address("vtape:/v")]);
        let known = address("rait1:vtape:/v?tape=A,vtape:/v?tape=B");
        assert_eq!(placed.with_known(&known), known);
        let other = known.tapes().pop().unwrap();
        assert_eq!(placed.without(&[other]).with_known(&known), now);
    }

    #[test]
    fn members_of_members_stay_too() {
        let known = "rait1:(rait0:vtape:/v?tape=A,vtape:/v?tape=B),(rait1:/a,/b)";
        let now = "rait1:vtape:/x,(rait1:/a,/c)";
        assert_eq!(
            merged(now, &["vtape:/x", "/c"], known),
            "rait1:(rait0:vtape:/v?tape=A,vtape:/v?tape=B),(rait1:file:/a,file:/b)"
        );
        // Half of a member is no member, and its tapes are where they were.
        let half = "(rait0:vtape:/v?tape=A,vtape:/v)";
        let now = format!("rait1:{half},(rait1:/a,/b)");
        let half = half.trim_matches(['(', ')']);
        assert!(merged(&now, &[half], known).starts_with("rait1:(rait0:vtape:/v?tape=A,vtape:/v?"));
    }
}
