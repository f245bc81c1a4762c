use super::*;

/// An element as a library sends it, with a primary volume tag.
fn element(address: u16, flags: u8, barcode: &[u8], source: Option<u16>, name: &[u8]) -> Vec<u8> {
    let mut bytes = address.to_be_bytes().to_vec();
    bytes.extend_from_slice(&[flags, 0, 0, 0, 0, 0, 0]);
    bytes.push(if source.is_some() { 0x80 } else { 0 });
    bytes.extend_from_slice(&source.unwrap_or(0).to_be_bytes());
    let mut tag = [b' '; TAG_LEN];
    tag[..barcode.len()].copy_from_slice(barcode);
    tag[32..].fill(0);
    bytes.extend_from_slice(&tag);
    if !name.is_empty() {
        bytes.extend_from_slice(&[2, 0, 0, name.len() as u8]);
        bytes.extend_from_slice(name);
    }
    bytes
}

fn page(kind: u8, elements: &[Vec<u8>]) -> Vec<u8> {
    let body = elements.concat();
    let mut bytes = vec![kind, 0x80];
    bytes.extend_from_slice(&(elements[0].len() as u16).to_be_bytes());
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

fn answer(pages: &[Vec<u8>]) -> Vec<u8> {
    let body = pages.concat();
    let mut bytes = vec![0, 1, 0, 9];
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

fn drive(serial: &str) -> Identity {
    Identity {
        vendor: "HP".into(),
        product: "Ultrium 6-SCSI".into(),
        revision: "35GD".into(),
        serial: serial.into(),
    }
}

#[test]
fn slots_with_barcodes() {
    let slots = page(
        2,
        &[element(1000, 0x09, b"TAPE01L6", None, b""), element(1001, 0x08, b"", None, b"")],
    );
    let exchange = page(3, &[element(10, 0x3b, b"NEW001L6", None, b"")]);
    let found = decode(&answer(&[slots, exchange]));
    assert_eq!(found.iter().map(|e| e.address).collect::<Vec<_>>(), [10, 1000, 1001]);
    assert!(found[0].put_in_by_operator && found[0].kind == ElementKind::ImportExport);
    assert_eq!(found[1].barcode.as_deref(), Some("TAPE01L6"));
    assert!(!found[2].full && found[2].accessible && found[2].barcode.is_none());
}

#[test]
fn drives_are_matched_by_serial_number() {
    let names: [&[u8]; 2] =
        [b"HP      Ultrium 6-SCSI  DRV0000001", b"HP      Ultrium 6-SCSI  DRV0000002"];
    let drives = page(
        4,
        &[
            element(256, 0x09, b"TAPE01L6", Some(1000), names[0]),
            element(257, 0x08, b"", None, names[1]),
        ],
    );
    let mut bytes = answer(&[drives]);
    let found = decode(&bytes);
    assert_eq!(found[0].source, Some(1000));
    assert!(found[0].drive.as_ref().unwrap().is(&drive("DRV0000001")));
    assert!(!found[0].drive.as_ref().unwrap().may_be(&drive("DRV0000002")));
    // tgt never sends the last eight bytes.
    let end = bytes.len();
    bytes[end - 8..].fill(0);
    let found = decode(&bytes);
    let cut = found[1].drive.as_ref().unwrap();
    assert!(
        !cut.whole && !cut.is(&drive("DRV0000002")) && cut.may_be(&drive("DRV0000002")),
        "{cut:?}"
    );
    assert!(!cut.may_be(&drive("XYZ0000002")));
}

#[test]
fn a_serial_number_alone_is_enough() {
    let drives = page(4, &[element(256, 0x08, b"", None, b"DRV0000001")]);
    let found = decode(&answer(&[drives]));
    assert!(found[0].drive.as_ref().unwrap().is(&drive("DRV0000001")));
    // A drive that states no serial number is nobody's.
    assert!(!found[0].drive.as_ref().unwrap().is(&drive("")));
}

#[test]
fn trouble_with_an_element_is_told() {
    let mut slot = element(1000, 0x05, b"", None, b"");
    (slot[4], slot[5]) = (0x83, 0x01);
    let found = decode(&answer(&[page(2, &[slot])]));
    assert_eq!(found[0].exception, Some((0x83, 0x01)));
    assert!(found[0].full && found[0].barcode.is_none());
}

#[test]
fn lengths_that_lie() {
    let whole =
        answer(&[page(2, &[element(1, 1, b"A", None, b""), element(2, 1, b"B", None, b"")])]);
    for cut in 0..whole.len() {
        assert!(decode(&whole[..cut]).len() <= 2);
    }
    let mut zero = whole.clone();
    (zero[10], zero[11]) = (0, 0);
    assert!(decode(&zero).is_empty());
    let mut huge = whole;
    huge[5..8].fill(0xff);
    assert_eq!(decode(&huge).len(), 2);
}
