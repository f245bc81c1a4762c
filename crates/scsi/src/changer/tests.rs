use super::*;
use crate::answers::element::DriveName;
use crate::transport::{CHECK_CONDITION, Left, Outcome, TransportError};

fn element(kind: ElementKind, address: u16, barcode: Option<&str>) -> Element {
    Element {
        kind,
        address,
        full: barcode.is_some(),
        barcode: barcode.map(str::to_owned),
        accessible: true,
        put_in_by_operator: false,
        exception: None,
        source: None,
        drive: None,
    }
}

fn drive(address: u16, name: &str, whole: bool) -> Element {
    let drive = Some(DriveName { text: name.to_owned(), whole });
    Element { drive, ..element(ElementKind::Drive, address, None) }
}

fn identity(serial: &str) -> Identity {
    let (vendor, product, revision) = ("HP".to_owned(), "Ultrium".to_owned(), String::new());
    Identity { vendor, product, revision, serial: serial.to_owned() }
}

#[test]
fn drives_are_matched_where_it_is_certain() {
    let known = [identity("S1"), identity("S2"), identity("S3")];
    let all = Inventory {
        elements: vec![drive(256, "S2", true), drive(257, "HP      Ultrium         S3", true)],
    };
    assert_eq!(all.match_drives(&known), BTreeMap::from([(256, 1), (257, 2)]));
    // The last name is cut off: what is left of it fits one drive that nobody else is.
    let cut = Inventory {
        elements: vec![drive(256, "S2", true), drive(257, "S1", true), drive(258, "S", false)],
    };
    assert_eq!(cut.match_drives(&known), BTreeMap::from([(256, 1), (257, 0), (258, 2)]));
    // It fits two: nobody knows.
    let unsure = Inventory { elements: vec![drive(256, "S2", true), drive(258, "S", false)] };
    assert_eq!(unsure.match_drives(&known), BTreeMap::from([(256, 1)]));
    // Two drives of the same serial number are a fault that is not guessed away.
    assert!(all.match_drives(&[identity("S2"), identity("S2")]).is_empty());
}

#[test]
fn a_medium_goes_home() {
    let mut inventory = Inventory {
        elements: vec![
            element(ElementKind::Slot, 1, Some("A")),
            element(ElementKind::Slot, 2, None),
            element(ElementKind::Slot, 3, None),
            element(ElementKind::ImportExport, 9, None),
        ],
    };
    let loaded = Element { source: Some(3), ..element(ElementKind::Drive, 256, Some("B")) };
    assert_eq!(inventory.home_of(&loaded).map(|e| e.address), Some(3));
    inventory.elements[2] = element(ElementKind::Slot, 3, Some("C"));
    assert_eq!(inventory.home_of(&loaded).map(|e| e.address), Some(2));
    inventory.elements[1].exception = Some((0x3b, 0x18));
    assert_eq!(inventory.home_of(&loaded), None);
    assert_eq!(inventory.free_export().map(|e| e.address), Some(9));
    assert_eq!(inventory.find("C").map(|e| e.address), Some(3));
}

/// A changer that says nothing but what it is, where its elements are, and once that somebody was at its mail slots.
struct Opened(Vec<Outcome>);

impl Transport for Opened {
    fn execute(
        &mut self,
        cdb: &[u8],
        data: Data<'_>,
        _: std::time::Duration,
    ) -> Result<Outcome, TransportError> {
        let answer = match (cdb[0], cdb[1]) {
            (0x12, 0) => vec![0x08, 0x80, 5, 2, 31],
            (0x12, _) => vec![0x08, 0x80, 0, 0],
            (0x1a, _) => [&[23, 0, 0, 0, 0x1d, 18][..], &[0; 18]].concat(),
            _ => return Ok(self.0.pop().unwrap_or_default()),
        };
        if let Data::In(buffer) = data {
            buffer[..answer.len()].copy_from_slice(&answer);
        }
        Ok(Outcome::default())
    }

    fn left(&mut self, _: std::time::Duration) -> Left {
        Left::No
    }

    fn reconnect(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn max_transfer(&self) -> usize {
        1 << 20
    }

    fn name(&self) -> &str {
        "opened"
    }
}

#[test]
fn that_somebody_was_at_the_tapes_is_not_lost_where_the_changer_is_opened() {
    let attention = |code: u8, qualifier: u8| {
        let mut sense = vec![0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, code, qualifier];
        sense.resize(18, 0);
        Outcome { status: CHECK_CONDITION, sense, residual: 0 }
    };
    let open = |said| {
        let mut changer = Changer::on(Box::new(Opened(said))).unwrap();
        let first = changer.take_exchanged();
        assert!(!changer.take_exchanged(), "it is told once");
        first
    };
    // Mail slots were open, the door was; a reset is no such news.
    assert!(open(vec![attention(0x28, 1), attention(0x28, 1)]));
    assert!(open(vec![Outcome::default(), attention(0x28, 0), attention(0x29, 0)]));
    assert!(!open(vec![attention(0x29, 0), attention(0x29, 0)]));
    assert!(!open(Vec::new()));
}
