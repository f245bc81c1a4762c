//! Every decoder of what a device answers, given any bytes. Shared with `fuzz/`.

use capstan_scsi::element::{self, ElementKind};
use capstan_scsi::log::LogPage;
use capstan_scsi::mode::{self, ModeData};
use capstan_scsi::opcodes::Opcodes;
use capstan_scsi::sense::Sense;
use capstan_scsi::{encryption, inquiry, position};

pub fn all(bytes: &[u8]) {
    sense(bytes);
    elements(bytes);
    pages(bytes);
    positions(bytes);
}

fn sense(bytes: &[u8]) {
    if let Some(sense) = Sense::decode(bytes) {
        assert!(sense.key <= 0x0f);
        let text = sense.to_string();
        assert!(text.is_ascii() && !text.contains('\n'));
    }
}

/// Each element takes at least four bytes, no address comes twice, and barcodes cannot drive a terminal.
fn elements(bytes: &[u8]) {
    let found = element::decode(bytes);
    assert!(found.len() * 4 <= bytes.len());
    assert!(found.windows(2).all(|pair| pair[0].address < pair[1].address));
    for element in found {
        assert!(element.barcode.iter().all(|b| b.bytes().all(|c| (b' '..=b'~').contains(&c))));
        assert!(element.drive.is_none() || element.kind == ElementKind::Drive);
    }
}

fn pages(bytes: &[u8]) {
    let inquiry = inquiry::Inquiry::decode(bytes);
    assert!(inquiry.vendor.len() <= 8 && inquiry.product.len() <= 16);
    let _ = inquiry::serial(bytes);
    assert!(inquiry::designators(bytes).len() * 4 <= bytes.len());
    for long in [false, true] {
        let data = ModeData::decode(bytes, long);
        assert!(data.page.len() <= bytes.len());
        for code in [mode::PAGE_COMPRESSION, mode::PAGE_CONFIGURATION, mode::PAGE_ELEMENTS] {
            let page = data.page(code).unwrap_or_default();
            let _ =
                (mode::compression(page), mode::old_compression(page), mode::element_ranges(page));
            let _ = data.select(0, &mode::with_compression(page, true), long);
        }
    }
    for code in 0..0x40 {
        if let Some(page) = LogPage::decode(bytes, code) {
            capstan_scsi::log::Statistics::default().add(code, &page);
            assert!(page.alerts().len() <= 64);
        }
    }
    let _ = LogPage::decode_list(bytes);
    let _ = (encryption::status(bytes), encryption::next_block(bytes));
    assert!(encryption::algorithms(bytes).len() * 4 <= bytes.len());
    if let Some(opcodes) = Opcodes::decode(bytes) {
        let _ = (opcodes.has(0x92), opcodes.timeout(0x92));
    }
}

/// What is believed is never more than what was said.
fn positions(bytes: &[u8]) {
    for reported in
        [position::decode_short(bytes), position::decode_long(bytes)].into_iter().flatten()
    {
        assert!(reported.object > 0 || reported.beginning);
        assert!(reported.file.is_none_or(|file| file <= reported.object));
    }
}
