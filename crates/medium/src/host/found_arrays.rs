//! Arrays put together from what tapes say of themselves.

use capstan_address::{Address, ArrayAddress, TapeAddress};
use capstan_format::array::RebuiltMember;
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;

use super::arrays::KnownMembers;

/// A tape that is a member of an array, with its header.
pub type FoundTape = (TapeAddress, MediumHeader);

/// An array of which some members were found.
#[derive(Debug, Clone)]
pub struct FoundArray {
    /// Its identity.
    pub medium: MediumId,
    /// Its label.
    pub label: String,
    /// Its name, with its members in their places. In the place of one that was not found is a library.
    pub address: ArrayAddress,
    /// So many of its members were found, of which enough is there.
    pub found: usize,
}

impl FoundArray {
    /// Whether what was found is enough to read it.
    pub fn is_enough(&self) -> bool {
        self.found >= self.address.layout.data()
    }
}

/// A member of an array, tape or array.
struct Part {
    address: Address,
    header: MediumHeader,
    is_there: bool,
}

/// The arrays that tapes are members of, in the order in which they were found. One that was replaced is no member: the one that took
/// its place says so, or it is `known`. Of others that say they are the same member the first counts.
pub fn arrays_of(tapes: Vec<FoundTape>, known: &dyn KnownMembers) -> Vec<FoundArray> {
    let part = |(tape, header)| Part { address: Address::Tape(tape), header, is_there: true };
    let mut parts: Vec<Part> = tapes.into_iter().map(part).collect();
    let mut found = Vec::new();
    // Members are joined to arrays, which may be members themselves.
    while !parts.is_empty() {
        let mut groups: Vec<(MediumId, Vec<Part>)> = Vec::new();
        for part in parts {
            let Some(id) = part.header.array.as_ref().map(|place| place.array) else { continue };
            match groups.iter_mut().find(|(of, _)| *of == id) {
                Some((_, group)) => group.push(part),
                None => groups.push((id, vec![part])),
            }
        }
        parts = Vec::new();
        for (array, header) in groups.into_iter().filter_map(|(_, group)| joined(group, known)) {
            match header.array {
                Some(_) => {
                    let is_there = array.is_enough();
                    parts.push(Part { address: Address::Array(array.address), header, is_there });
                }
                None => found.push(array),
            }
        }
    }
    found
}

/// The array of these members, with its header.
fn joined(members: Vec<Part>, known: &dyn KnownMembers) -> Option<(FoundArray, MediumHeader)> {
    let first = members.first()?;
    let place = first.header.array.as_ref()?;
    let layout = place.layout().ok()?;
    let said = members.iter().filter_map(|member| member.header.array.as_ref());
    let said = said.flat_map(|place| place.rebuilt.iter().copied());
    let rebuilt = RebuiltMember::newest(known.rebuilt(place.array).into_iter().chain(said));
    let is_replaced = |header: &MediumHeader, member: u32| {
        rebuilt.iter().any(|now| now.member == member && now.medium != header.medium)
    };
    let header = first.header.of_array()?;
    let somewhere = first.address.tapes().into_iter().next()?;
    let unknown = Address::Tape(TapeAddress { tape: None, ..somewhere.recorded() });
    let mut places: Vec<Option<Part>> = (0..layout.members()).map(|_| None).collect();
    for member in members {
        let place = member.header.array.as_ref().filter(|place| place.layout() == Ok(layout));
        let place = place.filter(|place| !is_replaced(&member.header, place.member));
        let place = place.and_then(|place| places.get_mut(place.member as usize));
        if let Some(place) = place {
            place.get_or_insert(member);
        }
    }
    let found = places.iter().flatten().filter(|member| member.is_there).count();
    let address = |place: Option<Part>| place.map_or_else(|| unknown.clone(), |p| p.address);
    let address = ArrayAddress { layout, members: places.into_iter().map(address).collect() };
    let (medium, label) = (header.medium, header.label.clone());
    Some((FoundArray { medium, label, address, found }, header))
}

#[cfg(test)]
mod tests {
    use capstan_format::array::Layout;
    use capstan_format::record::{FORMAT_VERSION, Protection};

    use super::*;
    use capstan_address::LibraryName;

    fn header(id: u8) -> MediumHeader {
        let header = MediumHeader {
            format: FORMAT_VERSION,
            incompatible: 0,
            compatible: 0,
            medium: MediumId([id; 16]),
            label: format!("array-{id}"),
            block_size: 64 << 10,
            created_us: 0,
            protection: Protection::None,
            cell: None,
            array: None,
            drive_key: None,
        };
        header.as_array()
    }

    fn tape(barcode: &str) -> TapeAddress {
        let library = LibraryName::Virtual("/v".into());
        TapeAddress { library, drive: None, tape: Some(barcode.to_owned()), spool: None }
    }

    fn members(of: &MediumHeader, name: &str, barcodes: &[&str]) -> Vec<FoundTape> {
        let layout = Layout::of(name, barcodes.len()).unwrap();
        let one = |(place, barcode): (usize, &&str)| {
            let id = MediumId([barcode.as_bytes()[0]; 16]);
            (tape(barcode), of.of_member(id, layout, place))
        };
        barcodes.iter().enumerate().map(one).collect()
    }

    #[test]
    fn members_come_to_their_places_however_they_lie() {
        let mut tapes = members(&header(1), "rait5", &["A", "B", "C"]);
        tapes.extend(members(&header(2), "rait1", &["D", "E"]));
        tapes.reverse();
        // Another tape that says it is one of them.
        tapes.push((tape("F"), members(&header(1), "rait5", &["A", "B", "C"])[1].1.clone()));
        let found = arrays_of(tapes, &());
        let shown: Vec<_> =
            found.iter().map(|f| (f.label.as_str(), f.address.to_string())).collect();
        let expected = [
            ("array-2", "rait1:vtape:/v?tape=D,vtape:/v?tape=E"),
            ("array-1", "rait5:vtape:/v?tape=A,vtape:/v?tape=B,vtape:/v?tape=C"),
        ];
        assert_eq!(shown, expected.map(|(label, shown)| (label, shown.to_owned())));
        assert!(found.iter().all(FoundArray::is_enough));
    }

    /// What is known of an array.
    struct Known(Vec<RebuiltMember>);

    impl KnownMembers for Known {
        fn rebuilt(&self, _: MediumId) -> Vec<RebuiltMember> {
            self.0.clone()
        }

        fn unfit(&self, _: &dyn crate::host::OpenArray) -> Vec<(usize, String)> {
            Vec::new()
        }
    }

    #[test]
    fn what_was_replaced_is_no_member() {
        let mut tapes = members(&header(1), "rait5", &["A", "B", "C"]);
        let new = members(&header(1), "rait5", &["A", "X", "C"]).swap_remove(1);
        let now = RebuiltMember { member: 1, medium: new.1.medium, turn: 1 };
        let shown =
            |tapes, known: &dyn KnownMembers| arrays_of(tapes, known)[0].address.to_string();
        // The database knows it though the new one is not here.
        let without = "rait5:vtape:/v?tape=A,vtape:/v,vtape:/v?tape=C";
        assert_eq!(shown(tapes.clone(), &Known(vec![now])), without);
        // It says so itself.
        let (tape, mut says) = new;
        says.array.as_mut().unwrap().rebuilt.push(now);
        tapes.push((tape, says));
        let with = "rait5:vtape:/v?tape=A,vtape:/v?tape=X,vtape:/v?tape=C";
        assert_eq!(shown(tapes.clone(), &()), with);
        let newer = RebuiltMember { medium: MediumId([9; 16]), turn: 2, ..now };
        assert_eq!(shown(tapes, &Known(vec![newer])), without);
    }

    #[test]
    fn what_lacks_is_a_tape_somewhere() {
        let mut tapes = members(&header(1), "rait5", &["A", "B", "C"]);
        tapes.remove(1);
        let found = arrays_of(tapes.clone(), &());
        let shown = found[0].address.to_string();
        assert_eq!(shown, "rait5:vtape:/v?tape=A,vtape:/v,vtape:/v?tape=C");
        assert_eq!(shown.parse::<Address>().unwrap(), Address::Array(found[0].address.clone()));
        assert_eq!((found[0].found, found[0].is_enough()), (2, true));
        tapes.remove(1);
        assert!(!arrays_of(tapes, &())[0].is_enough());
    }

    #[test]
    fn arrays_are_members_of_arrays() {
        let outer = Layout::of("rait1", 2).unwrap();
        let inner = |place| header(1).of_member(MediumId([7 + place as u8; 16]), outer, place);
        let mut tapes = members(&inner(0), "rait0", &["A", "B"]);
        tapes.extend(members(&inner(1), "rait0", &["C", "D"]));
        let shown = |tapes| arrays_of(tapes, &())[0].address.to_string();
        let (all, one_place) = (tapes.clone(), tapes[..2].to_vec());
        assert_eq!(
            shown(all),
            "rait1:(rait0:vtape:/v?tape=A,vtape:/v?tape=B),(rait0:vtape:/v?tape=C,vtape:/v?tape=D)"
        );
        assert_eq!(shown(one_place), "rait1:(rait0:vtape:/v?tape=A,vtape:/v?tape=B),vtape:/v");
        // Half of a place is nothing.
        tapes.remove(3);
        assert_eq!(arrays_of(tapes.clone(), &())[0].found, 1);
        tapes.remove(0);
        let broken = &arrays_of(tapes, &())[0];
        assert_eq!((broken.found, broken.is_enough()), (0, false));
    }
}
