//! A tape that is to become a member of a new array: kept in its drive from the look at it until it has its header.
//!
//! An array has several tapes. Between the look at the first and the writing of the last, another session may have taken one of
//! them; what it wrote there must not be written over.

use std::sync::Arc;

use capstan_address::TapeAddress;
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_medium::DeviceError;
use capstan_medium::tape::TapeError;

use super::on_tape::refuse_used_but;
use super::writer::write_header;
use crate::drives::Tape;
use crate::host::LocalDevices;

/// A tape on which nothing is that must stay; nobody else gets it.
pub(crate) struct Claim(Arc<Tape>);

impl Claim {
    /// Takes a tape that is blank, or holds one of these media or members and no segment of it. Nothing is written.
    pub fn on(
        host: &LocalDevices,
        address: &TapeAddress,
        may_go: &[MediumId],
    ) -> Result<Self, DeviceError> {
        let tape = Tape::of(host.tapes(), address);
        if !tape.pin() {
            let holder = "this session".to_owned();
            return Err(TapeError::Busy { what: tape.name(), holder }.into());
        }
        let claim = Self(tape);
        refuse_used_but(host, &claim.0, address, may_go)?;
        Ok(claim)
    }

    /// Makes it the medium of that header.
    pub fn make(&self, header: &MediumHeader) -> Result<(), DeviceError> {
        write_header(&self.0, header)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.unpin();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{address, open, plain_header, write};
    use super::*;
    use crate::rait::make::make;
    use capstan_address::Address;
    use capstan_address::ArrayAddress;
    use capstan_medium::Device;
    use capstan_medium::host::{Media, Tapes};
    use capstan_tape::vtl::library::{Design, Library};

    /// A library of three drives and so many tapes.
    fn tapes(dir: &std::path::Path, count: u32) -> Vec<TapeAddress> {
        let first = address(dir);
        let design = Design {
            drives: 3,
            slots: count,
            ..Library::open(&dir.join("vtl")).unwrap().design().clone()
        };
        let library = dir.join("three");
        Library::create(&library, &design, count).unwrap();
        let tape = |n| TapeAddress {
            library: capstan_address::LibraryName::Virtual(library.clone()),
            ..first.with_tape(&format!("V{n:05}L9"))
        };
        (1..=count).map(tape).collect()
    }

    fn array(tapes: &[TapeAddress]) -> ArrayAddress {
        let names: Vec<_> = tapes.iter().map(|tape| tape.to_string()).collect();
        let Ok(Address::Array(array)) = format!("rait5:{}", names.join(",")).parse() else {
            panic!("{names:?}")
        };
        array
    }

    fn makes(
        host: &LocalDevices,
        tapes: &[TapeAddress],
        may_go: &[MediumId],
    ) -> Result<(), DeviceError> {
        let new_id = || Ok(MediumId([7; 16]));
        make(host, &array(tapes), &plain_header().as_array(), may_go, &new_id)
    }

    #[test]
    fn what_another_wrote_since_is_not_written_over_and_nothing_is_begun() {
        let dir = tempfile::tempdir().unwrap();
        let (host, tapes) = (LocalDevices::default(), tapes(dir.path(), 3));
        let mut device = open(&host, &tapes[1]);
        write(&mut device, 4);
        device.commit().unwrap();
        drop(device);
        host.release_idle();
        // Whose medium it is does not matter: there is a segment.
        for may_go in [&[][..], &[plain_header().medium]] {
            let e = makes(&host, &tapes, may_go).unwrap_err();
            assert!(e.is_used(), "{e}");
            host.release_idle();
        }
        assert_eq!(
            host.medium(&Address::Tape(tapes[1].clone())).unwrap().segments().unwrap().len(),
            1
        );
        for tape in [&tapes[0], &tapes[2]] {
            assert!(host.is_blank(&Address::Tape(tape.clone())).unwrap());
        }
        host.release_idle();
    }

    #[test]
    fn a_free_tape_is_given_up_only_where_that_was_said_and_one_in_use_is_not_had() {
        let dir = tempfile::tempdir().unwrap();
        let (host, tapes) = (LocalDevices::default(), tapes(dir.path(), 3));
        drop(open(&host, &tapes[0]));
        assert!(makes(&host, &tapes, &[]).unwrap_err().is_used());
        let written = open(&host, &tapes[2]);
        assert!(makes(&host, &tapes, &[plain_header().medium]).unwrap_err().is_busy());
        drop(written);
        makes(&host, &tapes, &[plain_header().medium]).unwrap();
        assert!(host.header_on(&tapes[0]).unwrap().is_array());
        host.release_idle();
    }
}
