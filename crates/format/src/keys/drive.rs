//! The key that a tape drive encrypts a medium with.
//!
//! It travels as the keys of a session do: in a key record, whose id is the medium's, so that it is none for another
//! medium. The key itself comes from the record's contents key.

use super::{Cipher, Key32, KeyError, KeyRecord, KeyRing, Rng, SessionKeys, prim};
use crate::id::{KeyId, MediumId};

const DRIVE_INFO: &[u8] = b"capstan drive key v1";

/// The id of the key record of a medium that its drive encrypts.
pub fn drive_record_id(medium: MediumId) -> KeyId {
    KeyId(medium.0)
}

/// Draws the contents key of a new medium, from which the keys of its tapes come, and wraps it for the active pair of a ring.
pub fn draw_drive_key(
    medium: MediumId,
    ring: &KeyRing,
    rng: &mut Rng,
) -> Result<(KeyRecord, Key32), KeyError> {
    let keys = SessionKeys { id: drive_record_id(medium), ..SessionKeys::draw(rng) };
    // What drives do.
    let record = KeyRecord::wrap(&keys, Cipher::Aes256Gcm, ring, &[], rng)?;
    Ok((record, keys.contents))
}

/// The key of a tape, by the contents key of its key record: `medium` is the tape's own, also where it is a member of an array,
/// which has the record for all its members.
pub fn drive_key(contents: &[u8; 32], medium: MediumId) -> Result<Key32, KeyError> {
    prim::hkdf(&[], contents, &[DRIVE_INFO, medium.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::super::tests::fixed_rng;
    use super::*;
    use crate::array::Layout;
    use crate::keys::{ArgonParams, LockBy, NewLock, Scope, Secret};
    use crate::record::{FEATURE_DRIVE_KEY, FORMAT_VERSION, MediumHeader, Protection};

    const MEDIUM: MediumId = MediumId([5; 16]);

    fn ring(rng: &mut Rng) -> KeyRing {
        let fast = ArgonParams { m_kib: 16, t: 1, p: 1 };
        let by = LockBy::Passphrase("correct horse", fast);
        let lock = NewLock { by, scope: Scope::All, label: "test" };
        KeyRing::create(&lock, 1_700_000_000, rng).unwrap().0
    }

    #[test]
    fn the_record_gives_the_key_again_and_for_this_medium_alone() {
        let mut rng = fixed_rng("drive");
        let ring = ring(&mut rng);
        let (record, drawn) = draw_drive_key(MEDIUM, &ring, &mut rng).unwrap();
        let key = drive_key(&drawn, MEDIUM).unwrap();
        assert_eq!(record.id(), KeyId([5; 16]));
        let read = KeyRecord::from_json(&record.to_json().unwrap()).unwrap();
        let open = read.ring().unlock(&Secret::Passphrase("correct horse")).unwrap();
        let contents = read.unwrap_contents(&open).unwrap();
        assert_eq!(contents, drawn);
        assert_ne!(contents, key, "the drive is not given what opens anything else");
        assert_ne!(drive_key(&contents, MediumId([6; 16])).unwrap(), key);
        let (_, other) = draw_drive_key(MEDIUM, &ring, &mut rng).unwrap();
        assert_ne!(other, drawn, "each medium has a key of its own");
    }

    #[test]
    fn a_header_says_it_and_has_the_key_or_neither() {
        let mut rng = fixed_rng("header");
        let ring = ring(&mut rng);
        let (record, _) = draw_drive_key(MEDIUM, &ring, &mut rng).unwrap();
        let plain = MediumHeader {
            format: FORMAT_VERSION,
            incompatible: 0,
            compatible: 0,
            medium: MEDIUM,
            label: "m".to_owned(),
            block_size: 65536,
            created_us: 0,
            protection: Protection::None,
            cell: None,
            array: None,
            drive_key: None,
        };
        assert!(plain.drive_key_record().is_none() && !plain.is_drive_encrypted());
        let header = plain.clone().drive_encrypted(&record).unwrap();
        header.check().unwrap();
        assert_eq!((header.incompatible, header.is_drive_encrypted()), (2, true));
        assert_eq!(header.drive_key_record().unwrap().unwrap(), record);
        for bad in [
            MediumHeader { incompatible: 0, ..header.clone() },
            MediumHeader { incompatible: FEATURE_DRIVE_KEY, ..plain },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
        // All members of an array, and of arrays in it, have its record.
        let array = header.as_array();
        let layout = Layout::of("rait1", 2).unwrap();
        let inner = array.of_member(MediumId([7; 16]), layout, 1);
        for part in [&array, &inner, &inner.of_member(MediumId([8; 16]), layout, 0)] {
            part.check().unwrap();
            assert_eq!((part.incompatible, part.whole()), (3, MEDIUM));
            assert_eq!(part.drive_key_record().unwrap().unwrap(), record);
        }
        // The record of another medium is none of this one.
        let other = MediumHeader { medium: MediumId([6; 16]), ..header };
        let refused = other.drive_key_record().unwrap().unwrap_err().to_string();
        assert!(refused.contains("another medium's"), "{refused}");
    }

    /// Made with another implementation of HKDF, as docs/keys.md has it.
    #[test]
    fn the_key_is_derived_as_documented() {
        let key = drive_key(&[0x42; 32], MediumId([0x17; 16])).unwrap();
        assert_eq!(key.map(|b| format!("{b:02x}")).concat(), VECTOR);
    }
    const VECTOR: &str = "e90c4519e67b83fab8deb17ed654a5d4fce860d079ced5bfacbf7830706254f7";
}
