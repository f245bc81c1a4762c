//! The robot of a library: what lies where, and moving it.

use std::collections::BTreeMap;

use crate::answers::element::{self, Element, ElementKind};
use crate::answers::inquiry::{Identity, Kind};
use crate::answers::mode::{self, ElementRanges, ModeData};
use crate::device::Device;
use crate::patience::Reconnects;
use crate::transport::{Data, Transport};
use crate::{Error, cdb};

/// A changer.
pub struct Changer {
    device: Device,
    ranges: ElementRanges,
}

/// What lies in a library.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// All elements, by type and address.
    pub elements: Vec<Element>,
}

impl Inventory {
    /// Elements of a type.
    pub fn of(&self, kind: ElementKind) -> impl Iterator<Item = &Element> {
        self.elements.iter().filter(move |element| element.kind == kind)
    }

    /// The element at an address.
    pub fn at(&self, address: u16) -> Option<&Element> {
        self.elements.iter().find(|element| element.address == address)
    }

    /// Where the medium with that barcode is.
    pub fn find(&self, barcode: &str) -> Option<&Element> {
        self.elements.iter().find(|element| element.barcode.as_deref() == Some(barcode))
    }

    /// An empty import/export slot, through which a medium can go out.
    pub fn free_export(&self) -> Option<&Element> {
        self.of(ElementKind::ImportExport)
            .find(|element| !element.full && element.exception.is_none())
    }

    /// Import/export slots with media that wait to be taken in.
    pub fn imports(&self) -> impl Iterator<Item = &Element> {
        self.of(ElementKind::ImportExport).filter(|element| element.full)
    }

    /// Where a medium in a drive belongs: the slot that it came from, where that is empty; else any empty one.
    pub fn home_of(&self, element: &Element) -> Option<&Element> {
        let free = |slot: &&Element| {
            slot.kind == ElementKind::Slot && !slot.full && slot.exception.is_none()
        };
        let source = element.source.and_then(|address| self.at(address)).filter(free);
        source.or_else(|| self.elements.iter().find(free))
    }

    /// In which element each of these drives is, by serial number. A drive for which that is not certain is left out.
    pub fn match_drives(&self, drives: &[Identity]) -> BTreeMap<u16, usize> {
        let named =
            || self.of(ElementKind::Drive).filter_map(|e| Some((e.address, e.drive.as_ref()?)));
        let mut matched = BTreeMap::new();
        for (address, name) in named() {
            if let Some(found) = only(drives.iter().positions(|drive| name.is(drive))) {
                matched.insert(address, found);
            }
        }
        // Names that were cut off fit what is left, or nothing.
        for (address, name) in named().filter(|(_, name)| !name.whole) {
            let free = |i: &usize| !matched.values().any(|taken| taken == i);
            let fitting = drives.iter().positions(|drive| name.may_be(drive)).filter(free);
            if let Some(found) = only(fitting) {
                matched.insert(address, found);
            }
        }
        matched
    }
}

/// Where in a sequence something holds.
trait Positions: Iterator + Sized {
    fn positions(self, holds: impl Fn(Self::Item) -> bool) -> impl Iterator<Item = usize> {
        self.enumerate().filter_map(move |(i, item)| holds(item).then_some(i))
    }
}

impl<I: Iterator> Positions for I {}

/// The one item of an iterator that has no more.
fn only(mut items: impl Iterator<Item = usize>) -> Option<usize> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

impl Changer {
    /// Opens a changer by its name (see [`crate::open`]).
    pub fn open(name: &str) -> Result<Self, Error> {
        Self::on(crate::open(name)?)
    }

    /// Opens a changer behind a transport.
    pub fn on(transport: Box<dyn Transport>) -> Result<Self, Error> {
        let mut device = Device::open(transport)?;
        if device.kind() != Kind::Changer {
            let found = device.kind().to_string();
            return Err(Error::WrongKind {
                device: device.name().to_owned(),
                found,
                wanted: "changer",
            });
        }
        let ranges = element_ranges(&mut device)?;
        Ok(Self { device, ranges })
    }

    /// The changer's name for messages.
    pub fn name(&self) -> &str {
        self.device.name()
    }

    /// Maker, model, serial number.
    pub fn identity(&self) -> &Identity {
        self.device.identity()
    }

    /// First address and number of each type of elements.
    pub fn ranges(&self) -> ElementRanges {
        self.ranges
    }

    /// What lies where. Asks for each type alone: some changers get an answer for all types wrong.
    pub fn inventory(&mut self) -> Result<Inventory, Error> {
        let ranges = self.ranges;
        let types = [
            (ElementKind::Robot, ranges.robots),
            (ElementKind::Slot, ranges.slots),
            (ElementKind::ImportExport, ranges.import_export),
            (ElementKind::Drive, ranges.drives),
        ];
        let mut elements = Vec::new();
        for (kind, (first, count)) in types {
            self.read_elements(kind, first, count, &mut elements)?;
        }
        Ok(Inventory { elements })
    }

    /// Reads a type's elements, in as many answers as the changer likes to give.
    fn read_elements(
        &mut self,
        kind: ElementKind,
        first: u16,
        count: u16,
        elements: &mut Vec<Element>,
    ) -> Result<(), Error> {
        let end = first.saturating_add(count);
        let mut from = first;
        while from < end {
            let found = self.read_some(kind, from, end - from)?;
            // Some changers answer with elements that were not asked for.
            let found =
                found.into_iter().filter(|e| e.kind == kind && (from..end).contains(&e.address));
            let before = elements.len();
            elements.extend(found);
            let Some(last) = elements.get(before..).and_then(|new| new.last()) else {
                // Addresses may have gaps, so fewer than stated is no error.
                return Ok(());
            };
            from = last.address.saturating_add(1);
        }
        Ok(())
    }

    fn read_some(
        &mut self,
        kind: ElementKind,
        from: u16,
        count: u16,
    ) -> Result<Vec<Element>, Error> {
        /// Room for the longest descriptor that is known.
        const ELEMENT_LEN: u32 = 256;
        const LONGEST: u32 = 1 << 20;
        let len = (1024 + u32::from(count) * ELEMENT_LEN).min(LONGEST);
        let mut cdb =
            cdb::read_element_status(kind as u8, from, count, kind == ElementKind::Drive, len);
        let bytes = match self.device.answer(cdb, len as usize) {
            // Older changers do not say which drive is where.
            Err(e) if e.is_unsupported() && kind == ElementKind::Drive => {
                cdb = cdb::read_element_status(kind as u8, from, count, false, len);
                self.device.answer(cdb, len as usize)?
            }
            answer => answer?,
        };
        if bytes.len() < element::HEAD_LEN {
            return Err(self.device.senseless(cdb, "the inventory has no head"));
        }
        Ok(element::decode(&bytes))
    }

    /// Makes the changer look into every slot, which can take an hour.
    pub fn rescan(&mut self) -> Result<(), Error> {
        self.device.run(cdb::initialize_element_status(), Data::None).map(drop)
    }

    /// Moves a medium from one element to another: slots, drives and import/export slots alike. The drive at the source
    /// must have unloaded it.
    ///
    /// Fails with a unit attention (sense key 6) where something happened to the library since the last command: then the
    /// inventory must be taken again before anything is moved.
    pub fn move_medium(&mut self, source: u16, target: u16) -> Result<(), Error> {
        let robot = self.ranges.robots.0;
        self.device.run(cdb::move_medium(robot, source, target), Data::None).map(drop)
    }

    /// Locks door and import/export slots, or unlocks them. False where the changer has no lock.
    pub fn prevent_removal(&mut self, prevent: bool) -> Result<bool, Error> {
        match self.device.run(cdb::prevent_removal(prevent), Data::None) {
            Err(e) if e.is_unsupported() => Ok(false),
            result => result.map(|_| true),
        }
    }

    /// Reserves the changer for this host. False where it has no reservations.
    pub fn reserve(&mut self) -> Result<bool, Error> {
        match self.device.run(cdb::reserve(), Data::None) {
            Err(e) if e.is_unsupported() => Ok(false),
            result => result.map(|_| true),
        }
    }

    /// Ends the reservation.
    pub fn release(&mut self) -> Result<(), Error> {
        match self.device.run(cdb::release(), Data::None) {
            Err(e) if e.is_unsupported() => Ok(()),
            result => result.map(drop),
        }
    }

    /// Something happened to the library since this was last asked: what lies where must be read again.
    pub fn take_disturbed(&mut self) -> bool {
        self.device.take_disturbed()
    }

    /// The library said since this was last asked, and also as it was opened, that somebody may have changed media in it.
    pub fn take_exchanged(&mut self) -> bool {
        self.device.take_exchanged()
    }

    /// Connects again after [`Error::Lost`] or [`Error::TimedOut`].
    pub fn reconnect(&mut self, reconnects: &Reconnects) -> Result<(), Error> {
        self.device.reconnect(reconnects)?;
        self.ranges = element_ranges(&mut self.device)?;
        Ok(())
    }
}

fn element_ranges(device: &mut Device) -> Result<ElementRanges, Error> {
    const LEN: u8 = 252;
    let cdb = cdb::mode_sense6(mode::PAGE_ELEMENTS, 0, LEN);
    let bytes = device.answer(cdb, LEN.into())?;
    let data = ModeData::decode(&bytes, false);
    let ranges = data.page(mode::PAGE_ELEMENTS).and_then(mode::element_ranges);
    ranges.ok_or_else(|| device.senseless(cdb, "it does not state its slots and drives"))
}

#[cfg(test)]
mod tests;
