//! Errors that crossed read and decide as they did before.

use std::io;

use capstan_address::Address;
use capstan_engine::problem::{Explain, Problem};
use capstan_format::FormatError;
use capstan_format::id::SegmentNumber;
use capstan_medium::DeviceError;
use capstan_medium::tape::{Media, Spot, TapeError};

fn said() -> Problem {
    Problem::new("what it says").hint("what to do")
}

fn of_tapes() -> Vec<TapeError> {
    let (drive, tape) = (|| "drive 1".to_owned(), || "A00001L9".to_owned());
    let (library, path) = (|| "vtape:/v".to_owned(), || "/v/tape".to_owned());
    vec![
        TapeError::NoTape { drive: drive() },
        TapeError::WriteProtected { tape: tape() },
        TapeError::EndOfMedium { tape: tape() },
        TapeError::Medium { tape: tape(), at: 1 << 40 },
        TapeError::Untried { drive: 1, what: "a".into(), why: "b".into() },
        TapeError::CannotEncrypt { drive: drive() },
        TapeError::Unsuited { tape: tape(), said: said() },
        TapeError::NoDrive {
            library: library(),
            tape: tape(),
            media: Media { generation: 7, type_m: true, worm: true },
            drives: "two".into(),
            to_write: true,
        },
        TapeError::Worm { tape: tape() },
        TapeError::Cleans { tape: tape() },
        TapeError::CannotDecrypt { tape: tape() },
        TapeError::KeyNotOpen { tape: tape() },
        TapeError::TooLong { tape: tape(), at: 3, length: 9, asked: 4 },
        TapeError::BlockSize { drive: drive(), most: 9, length: 10 },
        TapeError::BeyondEnd { tape: tape(), spot: Spot { file: 1, block: 2, object: None } },
        TapeError::Offline { drive: drive() },
        TapeError::Io {
            action: "open".into(),
            path: path(),
            source: io::Error::from_raw_os_error(5),
        },
        TapeError::Damaged { path: path(), problem: "p".into() },
        TapeError::NotATape { path: path(), problem: "p".into() },
        TapeError::BadTape { tape: tape(), said: said() },
        TapeError::NoDriveFree { library: library(), holder: "me".into() },
        TapeError::Busy { what: "it".into(), holder: "me".into() },
        TapeError::Device(said()),
        TapeError::Unreachable(said()),
        TapeError::Robot { library: library(), problem: said() },
        TapeError::Away { library: library(), problem: said() },
        TapeError::OthersAway(said()),
        TapeError::Library { library: library(), problem: said() },
    ]
}

fn io_error(source: io::Error) -> DeviceError {
    DeviceError::Io { action: "write to".into(), path: "/m".into(), source }
}

fn all() -> Vec<DeviceError> {
    let path = || "/m".to_owned();
    let address = "iscsi://x".parse::<Address>().unwrap_err();
    let newer = FormatError::Newer { what: "medium".into(), found: 9, known: 1 };
    let damaged = FormatError::Checksum("medium header");
    let mut all = vec![
        DeviceError::Address(address),
        DeviceError::NotOurs(path()),
        DeviceError::NotBlank(path()),
        DeviceError::NoMedium(path()),
        DeviceError::Medium { path: path(), source: newer },
        DeviceError::Medium { path: "vtape:/v?tape=A".into(), source: damaged },
        DeviceError::Medium { path: path(), source: FormatError::UnknownFeatures(6) },
        DeviceError::HeaderLost { path: path() },
        DeviceError::TapeHeaderLost { path: path(), label: "a b".into() },
        DeviceError::TapeUnread(path()),
        DeviceError::SpoolFailed(said()),
        DeviceError::Spool {
            action: "make".into(),
            path: path(),
            source: io::ErrorKind::StorageFull.into(),
        },
        DeviceError::NoRoom { path: path(), least_mib: 3 },
        DeviceError::MediumFull { label: "m".into(), path: path(), least_mib: 3 },
        DeviceError::KeepsNothing,
        DeviceError::WhichTape(path()),
        DeviceError::KeepsNoAttachment,
        DeviceError::TooFewDrives { library: path(), drives: 1, tapes: 2 },
        DeviceError::HeaderStays(path()),
        DeviceError::HostLost(said()),
        DeviceError::Busy { path: path(), holder: "me".into() },
        DeviceError::BlockSize { path: path(), have: 1, want: 2 },
        DeviceError::ArrayMember { path: path(), place: " (x)".into() },
        DeviceError::NotOfArray { path: path(), problem: said() },
        DeviceError::MemberLost(said()),
        DeviceError::ArrayOutOfStep { given: SegmentNumber(1), number: SegmentNumber(2) },
    ];
    for source in of_tapes() {
        let array = "rait5:a,b,c".to_owned();
        let source = Box::new(DeviceError::from(source));
        all.push(DeviceError::ArrayBroken { array, lost: 2, members: 3, spare: 1, source });
    }
    all.extend(of_tapes().into_iter().map(DeviceError::from));
    all.extend(of_tapes().into_iter().map(|tape| io_error(io::Error::other(tape))));
    all.extend((1..120).map(|number| io_error(io::Error::from_raw_os_error(number))));
    all.push(io_error(io::Error::other("other bytes than were written")));
    all.push(io_error(io::ErrorKind::UnexpectedEof.into()));
    all
}

#[test]
fn errors_that_crossed_read_and_decide_as_before() {
    for e in all() {
        let sent = capstan_wire::encode(&e).unwrap();
        let came: DeviceError = capstan_wire::decode(&sent).unwrap();
        let told = |e: &DeviceError| {
            let of_tape = e.of_tape().map(|tape| {
                let decides = [
                    tape.is_away(),
                    tape.is_failure(),
                    tape.blames_drive(),
                    tape.is_unreachable(),
                    tape.needs_key(),
                    tape.spares_tape(),
                    tape.is_busy(),
                    tape.blames_tape(),
                    tape.tells_on_tape(),
                    tape.is_of_kind(),
                    tape.is_no_tape(),
                ];
                (tape.to_string(), tape.problem(), decides)
            });
            let decides = [
                e.is_full(),
                e.is_of_spool(),
                e.is_no_medium(),
                e.is_used(),
                e.is_busy(),
                e.spares_medium(),
                e.tells_on_medium(),
                e.blames_drive(),
                e.blames_medium(),
                e.is_unreachable(),
                e.is_out_of_reach(),
            ];
            (e.to_string(), e.problem(), decides, of_tape)
        };
        assert_eq!(told(&came), told(&e));
        assert_eq!(std::mem::discriminant(&came), std::mem::discriminant(&e));
        if let (DeviceError::Medium { source, .. }, DeviceError::Medium { source: came, .. }) =
            (&e, &came)
        {
            let is_newer = |e: &FormatError| {
                matches!(e, FormatError::Newer { .. } | FormatError::UnknownFeatures(_))
            };
            assert_eq!(is_newer(source), is_newer(came));
        }
    }
}
