//! POSIX ACLs as archives have them: text (star's manual page, `SCHILY.acl.*`; acl_from_text(3)), with numeric ids,
//! made from the extended attribute in which Linux keeps them (linux/posix_acl_xattr.h).

use std::fmt::Write as _;

const VERSION: u32 = 2;

/// The pax keyword for an extended attribute that is an ACL.
pub(super) fn keyword(xattr: &[u8]) -> Option<&'static [u8]> {
    match xattr {
        b"system.posix_acl_access" => Some(b"SCHILY.acl.access"),
        b"system.posix_acl_default" => Some(b"SCHILY.acl.default"),
        _ => None,
    }
}

/// The ACL as text, an entry per line; `None` if the value is no ACL.
pub(super) fn text(value: &[u8]) -> Option<String> {
    let (version, entries) = value.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != VERSION || entries.is_empty() || entries.len() % 8 != 0 {
        return None;
    }
    let mut text = String::new();
    for entry in entries.chunks_exact(8) {
        let short = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        match short(0) {
            0x01 => text.push_str("user::"),
            0x02 => write!(text, "user:{id}:").ok()?,
            0x04 => text.push_str("group::"),
            0x08 => write!(text, "group:{id}:").ok()?,
            0x10 => text.push_str("mask::"),
            0x20 => text.push_str("other::"),
            _ => return None,
        }
        for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
            text.push(if short(2) & bit != 0 { letter } else { '-' });
        }
        text.push('\n');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(perm.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }

    #[test]
    fn acls_read_as_acl_from_text_wants_them() {
        let none = u32::MAX;
        let value = acl(&[
            (1, 6, none),
            (2, 7, 1000),
            (4, 4, none),
            (8, 1, 50),
            (16, 5, none),
            (32, 0, none),
        ]);
        assert_eq!(
            text(&value).unwrap(),
            "user::rw-\nuser:1000:rwx\ngroup::r--\ngroup:50:--x\nmask::r-x\nother::---\n"
        );
    }

    #[test]
    fn what_is_no_acl_has_no_text() {
        let good = acl(&[(1, 6, 0)]);
        assert!(text(&good).is_some());
        for bad in [&[][..], &good[..3], &good[..4], &good[..11], &acl(&[(3, 6, 0)])] {
            assert_eq!(text(bad), None, "{bad:?}");
        }
        let newer = [&3u32.to_le_bytes()[..], &good[4..]].concat();
        assert_eq!(text(&newer), None);
    }
}
