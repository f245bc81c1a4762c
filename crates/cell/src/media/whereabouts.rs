//! Where tapes are: in which place of their library; and how full media are.

use capstan_address::{Address, TapeAddress};
use capstan_engine::problem::{Explain, Problem};
use capstan_idb::{Holdings, Management};
use capstan_medium::host::DeviceHost;
use capstan_medium::tape::Place;

use super::AtHand;

/// A tape of a medium.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapeAt {
    /// The tape, as a device.
    pub device: String,
    /// Its library, as devices are named.
    pub library: String,
    /// What is on its sticker.
    pub barcode: String,
    /// Where in that library it is; nothing where it is not in there, or that cannot be asked.
    pub place: Option<Place>,
    /// When it left the house, in microseconds since 1970, and where it went, if it did.
    pub exported: Option<(i64, String)>,
}

impl TapeAt {
    /// Where it is, in words: a place of its library, where it was brought, or that it is not there.
    pub fn shown(&self) -> String {
        let place = self.place.map(|place| place.short());
        let Some((_, to)) = &self.exported else {
            return place.unwrap_or_else(|| "not in the library".to_owned());
        };
        let to = if to.is_empty() { "out of the house" } else { to };
        place.map_or_else(|| to.to_owned(), |place| format!("{to} (still in {place})"))
    }
}

/// Where a tape is in its library; or why that cannot be asked. A tape without a barcode lies on a shelf, or in its drive.
pub(super) fn place_of(
    devices: &dyn DeviceHost,
    tape: &TapeAddress,
) -> Result<Option<Place>, Problem> {
    let Some(barcode) = tape.tape.as_deref() else { return Ok(None) };
    match devices.inventory(&tape.library) {
        Ok(held) => Ok(held.iter().find(|h| h.barcode == barcode).map(|h| h.place)),
        Err(e) => Err(e.problem()),
    }
}

/// The tapes of a medium that have barcodes, with places by this.
pub(super) fn tapes_of(
    address: &Address,
    place: impl Fn(&TapeAddress) -> Option<Place>,
) -> Vec<TapeAt> {
    let at = |tape: &TapeAddress| {
        let barcode = tape.tape.clone()?;
        Some(TapeAt {
            device: super::tape_name(tape),
            library: tape.library.to_string(),
            barcode,
            place: place(tape),
            exported: None,
        })
    };
    address.tapes().iter().filter_map(at).collect()
}

/// Where several tapes are, each with its barcode where they are not all in one place.
pub(crate) fn places_shown(tapes: &[TapeAt]) -> String {
    let mut places: Vec<String> = tapes.iter().map(TapeAt::shown).collect();
    let all_in = tapes.iter().all(|tape| tape.place.is_some() && tape.exported.is_none());
    if all_in {
        return places.join(", ");
    }
    if places.windows(2).all(|two| two[0] == two[1]) {
        return places.pop().unwrap_or_default();
    }
    let each = tapes.iter().zip(places).map(|(tape, place)| format!("{} {place}", tape.barcode));
    each.collect::<Vec<_>>().join("; ")
}

/// How much of a medium is used, from 0 to 1, where that is known: of a tape by what its drive said last, of a directory by its file
/// system.
pub(super) fn used(management: &Management, holdings: &Holdings, found: &AtHand) -> Option<f64> {
    let share = |used: u64, all: u64| (used as f64 / (all as f64).max(1.0)).clamp(0.0, 1.0);
    if let (Some(free), Some(used)) = (found.free_bytes, found.used_bytes) {
        return Some(share(used, used.saturating_add(free)));
    }
    let capacity = management.capacity.filter(|capacity| *capacity > 0);
    match (capacity, management.used) {
        // It ended, whatever it was made for.
        _ if management.full_us.is_some() => Some(1.0),
        // It was given up since a drive was asked.
        (Some(_), _) if holdings.segments == 0 => Some(0.0),
        (Some(capacity), Some(used)) => Some(share(used, capacity)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_full_a_medium_is() {
        let tape = |capacity, used, full_us| Management {
            capacity,
            used,
            full_us,
            ..Management::default()
        };
        let holds = |segments| Holdings { segments, ..Holdings::default() };
        let nothing = AtHand::default();
        let of = |m: &Management, segments| used(m, &holds(segments), &nothing);
        assert_eq!(of(&tape(Some(400), Some(100), None), 1), Some(0.25));
        assert_eq!(
            of(&tape(Some(400), Some(500), None), 1),
            Some(1.0),
            "more than it was made for"
        );
        assert_eq!(of(&tape(Some(400), Some(100), Some(5)), 1), Some(1.0));
        assert_eq!(of(&tape(Some(400), Some(100), None), 0), Some(0.0), "it was recycled");
        assert_eq!(of(&tape(None, None, None), 1), None);
        assert_eq!(of(&tape(Some(0), Some(0), None), 1), None);
        let disk = AtHand { free_bytes: Some(1), used_bytes: Some(3), ..AtHand::default() };
        assert_eq!(used(&tape(None, None, None), &holds(0), &disk), Some(0.75));
    }
}
