use super::*;

fn fixed(key_and_flags: u8, information: Option<i32>, asc: u8, ascq: u8) -> Vec<u8> {
    let mut bytes = vec![0; 18];
    bytes[0] = if information.is_some() { 0xf0 } else { 0x70 };
    bytes[2] = key_and_flags;
    bytes[3..7].copy_from_slice(&information.unwrap_or(0x5555_5555).to_be_bytes());
    bytes[7] = 10;
    (bytes[12], bytes[13]) = (asc, ascq);
    bytes
}

#[test]
fn a_filemark_of_a_real_drive() {
    let sense = Sense::decode(&fixed(0x80, Some(65536), 0, 1)).unwrap();
    assert!(sense.filemark && !sense.end_of_medium && !sense.wrong_length && !sense.deferred);
    assert_eq!((sense.key, sense.information), (NO_SENSE, Some(65536)));
    assert!(!sense.is_harmless());
}

#[test]
fn a_block_longer_than_asked_for_has_a_negative_rest() {
    let sense = Sense::decode(&fixed(0x20, Some(-1000), 0, 0)).unwrap();
    assert!(sense.wrong_length);
    assert_eq!(sense.information, Some(-1000));
}

#[test]
fn what_is_not_stated_as_valid_is_not_taken() {
    assert_eq!(Sense::decode(&fixed(0x20, None, 0, 0)).unwrap().information, None);
}

#[test]
fn both_formats_say_the_same() {
    let described = [
        0x72, 0x00, 0x00, 0x02, 0, 0, 0, 16, // header
        0x00, 0x0a, 0x80, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc, 0x18, // information
        0x04, 0x02, 0x00, 0x60, // stream commands: end of medium and wrong length
    ];
    let same = Sense::decode(&fixed(0x60, Some(-1000), 0, 2)).unwrap();
    assert_eq!(Sense::decode(&described), Some(same));
}

#[test]
fn descriptors_beyond_the_stated_length_are_not_read() {
    let bytes = [0x72, 0, 0, 0, 0, 0, 0, 0, 0x04, 0x02, 0x00, 0x80];
    assert!(!Sense::decode(&bytes).unwrap().filemark);
}

#[test]
fn deferred_errors_say_so() {
    let mut bytes = fixed(0x03, None, 0x0c, 0);
    bytes[0] = 0x71;
    let sense = Sense::decode(&bytes).unwrap();
    assert!(sense.deferred && !sense.is_harmless());
    assert!(sense.to_string().starts_with("an earlier command"), "{sense}");
}

#[test]
fn no_sense_data_are_none() {
    assert_eq!(Sense::decode(&[]), None);
    assert_eq!(Sense::decode(&[0; 18]), None);
}

#[test]
fn early_warning_is_harmless_and_end_of_data_is_not() {
    assert!(Sense::decode(&fixed(0x40, None, 0, 0)).unwrap().is_harmless());
    assert!(Sense::decode(&fixed(0x40, None, 0, 2)).unwrap().is_harmless());
    // tgt reports the end of data with key 0 when spacing over filemarks.
    let end = Sense::decode(&fixed(0x00, None, 0, 5)).unwrap();
    assert!(end.is_end_of_data() && !end.is_harmless());
}

#[test]
fn texts_are_for_operators() {
    let sense = Sense { key: 3, asc: 0x11, ascq: 0, ..Sense::default() };
    let text = sense.to_string();
    assert!(text.contains("3/11/00") && text.contains("; "), "{text}");
    // An unknown qualifier falls back to the code's own text, an unknown code to the key's.
    assert_eq!(Sense { ascq: 0x7f, ..sense }.what(), sense.what());
    assert_eq!(Sense { asc: 0xfe, ..sense }.what(), texts::key_text(3));
}

#[test]
fn the_table_is_sorted_and_speaks_plainly() {
    for pair in texts::TEXTS.windows(2) {
        assert!((pair[0].0, pair[0].1) < (pair[1].0, pair[1].1), "{:02x?}", pair[1]);
    }
    for (asc, ascq, what, _) in texts::TEXTS {
        assert!(!what.is_empty() && !what.ends_with('.'), "{asc:02x}/{ascq:02x}");
    }
}
