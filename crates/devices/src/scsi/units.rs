//! Which devices a library's drives are.
//!
//! Libraries say the serial numbers of their drives, and that settles it. Where one does not, its drives are taken to come in
//! the order of the tape devices beside its changer, if there are as many: that is said wherever drives are shown.

use std::collections::BTreeMap;

use capstan_scsi::element::{Element, ElementKind};
use capstan_scsi::find::{self, Found};
use capstan_scsi::inquiry::{Identity, Kind};
use capstan_scsi::{Error, Inventory};

use super::Initiator;

/// A library's drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    /// The device.
    pub found: Found,
    /// It is told by its order, not by its serial number.
    pub by_order: bool,
}

/// Tape drives that can be reached where a changer is: those beside it first, `beside` of them.
#[derive(Debug, Default)]
pub(super) struct Reached {
    drives: Vec<Found>,
    beside: usize,
}

impl Reached {
    /// Looks for the drives of a changer that has `wanted` of them.
    pub fn from(initiator: &Initiator, device: &str, wanted: usize) -> Result<Self, Error> {
        let is_tape = |found: &Found| found.kind == Kind::Tape;
        if !device.contains("://") {
            return Ok(Self::local(device, find::local()));
        }
        let target = initiator.target(device)?;
        let mut drives: Vec<Found> = find::units(&target)?.into_iter().filter(is_tape).collect();
        let beside = drives.len();
        if beside < wanted {
            // Some libraries have a target for each drive. Hosts that tell nobody what they have are no reason to fail.
            let others = find::at_host(&target).unwrap_or_default().found.into_iter();
            let others: Vec<_> = others
                .filter(|found| is_tape(found) && drives.iter().all(|d| d.name != found.name))
                .collect();
            drives.extend(others);
        }
        Ok(Self { drives, beside })
    }

    /// Of this machine: those of the same host adapter are beside the changer.
    fn local(changer: &str, all: Vec<Found>) -> Self {
        let number = rustix::fs::stat(changer).map(|stat| stat.st_rdev).unwrap_or_default();
        let host = all.iter().find(|f| f.numbers.contains(&number)).and_then(|f| f.address);
        let is_beside = |f: &Found| host.is_none() || f.address.map(|a| a[0]) == host.map(|h| h[0]);
        let tapes = all.into_iter().filter(|found| found.kind == Kind::Tape);
        let (mut drives, others): (Vec<_>, Vec<_>) = tapes.partition(is_beside);
        let beside = drives.len();
        drives.extend(others);
        Self { drives, beside }
    }

    /// Which device is in which drive element.
    pub fn assign(&self, inventory: &Inventory) -> BTreeMap<u16, Unit> {
        let identities: Vec<Identity> =
            self.drives.iter().map(|found| found.identity.clone()).collect();
        let matched = inventory.match_drives(&identities);
        let unit = |i: usize, by_order| Unit { found: self.drives[i].clone(), by_order };
        let mut units: BTreeMap<u16, Unit> =
            matched.iter().map(|(address, i)| (*address, unit(*i, false))).collect();
        let is_nameless = |e: &&Element| !units.contains_key(&e.address) && e.drive.is_none();
        let nameless: Vec<u16> =
            inventory.of(ElementKind::Drive).filter(is_nameless).map(|e| e.address).collect();
        let left = |near: usize| -> Vec<usize> {
            (0..near).filter(|i| !matched.values().any(|taken| taken == i)).collect()
        };
        // Beside the changer, or else anywhere.
        let fits = [self.beside, self.drives.len()].map(left).into_iter();
        if let Some(fit) = fits.into_iter().find(|left| left.len() == nameless.len()) {
            units.extend(nameless.into_iter().zip(fit).map(|(at, i)| (at, unit(i, true))));
        }
        units
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_scsi::element::DriveName;

    fn found(name: &str, serial: &str) -> Found {
        Found {
            name: name.to_owned(),
            kind: Kind::Tape,
            identity: Identity { serial: serial.to_owned(), ..Identity::default() },
            tape_node: None,
            address: None,
            numbers: Vec::new(),
        }
    }

    fn inventory(names: &[Option<&str>]) -> Inventory {
        let element = |(i, name): (usize, &Option<&str>)| Element {
            kind: ElementKind::Drive,
            address: 256 + i as u16,
            full: false,
            barcode: None,
            accessible: true,
            put_in_by_operator: false,
            exception: None,
            source: None,
            drive: name.map(|text| DriveName { text: text.to_owned(), whole: true }),
        };
        Inventory { elements: names.iter().enumerate().map(element).collect() }
    }

    fn assigned(reached: &Reached, names: &[Option<&str>]) -> Vec<String> {
        let units = reached.assign(&inventory(names)).into_iter();
        let shown = |(at, unit): (u16, Unit)| {
            format!("{at} {}{}", unit.found.name, if unit.by_order { " by order" } else { "" })
        };
        units.map(shown).collect()
    }

    #[test]
    fn serial_numbers_decide_and_order_only_where_there_are_none() {
        let drives = vec![found("sg1", "B"), found("sg2", "A"), found("sg7", "C")];
        let reached = Reached { drives, beside: 2 };
        assert_eq!(assigned(&reached, &[Some("A"), Some("B")]), ["256 sg2", "257 sg1"]);
        assert_eq!(assigned(&reached, &[None, None]), ["256 sg1 by order", "257 sg2 by order"]);
        assert_eq!(assigned(&reached, &[None, Some("B")]), ["256 sg2 by order", "257 sg1"]);
        // One that is named is that one or none: it may hang at another host.
        assert_eq!(assigned(&reached, &[Some("A"), Some("X")]), ["256 sg2"]);
        // As many as there are anywhere, not beside the changer.
        let all = assigned(&reached, &[None, None, None]);
        assert_eq!(all, ["256 sg1 by order", "257 sg2 by order", "258 sg7 by order"]);
        assert!(assigned(&reached, &[None; 4]).is_empty());
    }
}
