//! Tapes of an array that leave the house one by one, and come back.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

mod common;

use capstan_format::id::MediumId;
use capstan_idb::{ExportedTape, Idb, LeavingTape};
use common::*;

#[test]
fn tapes_of_an_array_go_and_come_one_by_one() {
    let (_dir, idb) = begun();
    let array = MediumId(nth(1));
    let tapes = ["A", "B", "C"].map(|tape| format!("vtape:/v?tape={tape}"));
    let [a, b, c] = &tapes;
    let out = |idb: &Idb| -> Vec<(String, i64, String)> {
        let of = idb.management(array).unwrap();
        assert_eq!(of.exported_us.is_some(), idb.exported_media().unwrap() == [array]);
        let of_tape = |tape: &String| {
            of.tape_exported(tape).map(|(us, to)| (tape.clone(), us, to.to_owned()))
        };
        tapes.iter().filter_map(of_tape).collect()
    };
    let row = |tape: &String, us, to: &str| (tape.clone(), us, to.to_owned());
    assert_eq!(out(&idb), []);
    idb.export_tape(array, &tapes, b, (7, "bank")).unwrap();
    assert_eq!(out(&idb), [row(b, 7, "bank")]);
    idb.export_tape(array, &tapes, a, (9, "cellar")).unwrap();
    idb.export_tape(array, &tapes, b, (8, "bank")).unwrap();
    assert_eq!(out(&idb), [row(a, 9, "cellar"), row(b, 8, "bank")]);
    let of = idb.management(array).unwrap();
    assert_eq!((of.exported_us, of.exported_to.as_deref()), (Some(9), Some("cellar; bank")));
    let before = of;
    idb.return_tapes(array, &tapes, std::slice::from_ref(a)).unwrap();
    assert_eq!(out(&idb), [row(b, 8, "bank")]);
    idb.return_tapes(array, &tapes, std::slice::from_ref(b)).unwrap();
    assert_eq!(out(&idb), []);

    // What is recorded of the whole is true of each, as every database of before has it.
    idb.set_medium_exported(array, Some((5, "bank"))).unwrap();
    assert_eq!(out(&idb), [row(a, 5, "bank"), row(b, 5, "bank"), row(c, 5, "bank")]);
    assert_eq!(idb.management(array).unwrap().tapes_out, []);
    idb.return_tapes(array, &tapes, std::slice::from_ref(b)).unwrap();
    assert_eq!(out(&idb), [row(a, 5, "bank"), row(c, 5, "bank")]);
    idb.set_medium_exported(array, Some((6, "cellar"))).unwrap();
    idb.export_tape(array, &tapes, c, (7, "")).unwrap();
    assert_eq!(out(&idb), [row(a, 6, "cellar"), row(b, 6, "cellar"), row(c, 7, "")]);
    // Another tape takes the place of one.
    idb.forget_other_tapes(array, &[a.clone(), c.clone()]).unwrap();
    assert_eq!(out(&idb), [row(a, 6, "cellar"), row(c, 7, "")]);
    idb.set_medium_exported(array, None).unwrap();
    assert_eq!(out(&idb), []);
    idb.set_exported_as(array, &before).unwrap();
    assert_eq!(out(&idb), [row(a, 9, "cellar"), row(b, 8, "bank")]);
    let tape = ExportedTape { tape: b.clone(), exported_us: 8, exported_to: "bank".to_owned() };
    assert_eq!(idb.management(array).unwrap().tapes_out[1], tape);
    idb.remove_medium(array).unwrap();
    assert_eq!(idb.exported_media().unwrap(), []);
}

#[test]
fn a_tape_is_to_leave_until_it_did_or_its_medium_is_taken_back() {
    let (_dir, idb) = begun();
    let medium = MediumId(nth(1));
    let tapes = ["A", "B", "C"].map(|tape| format!("vtape:/v?tape={tape}"));
    let ask = |tapes: &[String]| {
        for (tape, asked_us) in tapes.iter().zip(1..) {
            let of = LeavingTape { medium, tape: tape.clone(), asked_us, to: "bank".to_owned() };
            idb.put_leaving(&of).unwrap();
            idb.put_leaving(&of).unwrap();
        }
    };
    let asked = || -> Vec<String> {
        let all = idb.leaving().unwrap().into_iter();
        all.map(|of| format!("{} {} {}", of.tape, of.asked_us, of.to)).collect()
    };
    ask(&tapes);
    assert_eq!(asked()[0], "vtape:/v?tape=A 1 bank");
    assert_eq!(asked().len(), 3);
    idb.export_tape(medium, &tapes, &tapes[0], (7, "cellar")).unwrap();
    assert_eq!(asked().len(), 2);
    idb.return_tapes(medium, &tapes, &tapes[1..2]).unwrap();
    assert_eq!(asked(), ["vtape:/v?tape=C 3 bank"]);
    idb.set_medium_exported(medium, Some((8, "bank"))).unwrap();
    assert_eq!(asked().len(), 0);
    ask(&tapes[..1]);
    idb.set_medium_exported(medium, None).unwrap();
    assert_eq!(asked().len(), 0);
    ask(&tapes);
    idb.remove_medium(medium).unwrap();
    assert_eq!(asked().len(), 0);
}
