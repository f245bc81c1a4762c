//! POSIX ACLs as archives have them: text, as star writes it (star's manual page, `SCHILY.acl.*`). Whoever has a name is named, and
//! the number comes last: `user:ann:rwx:1000`. GNU tar, bsdtar and star read that. Who has no name, or none that could be told apart
//! from what is around it, has the number in its place.

use std::fmt::Write as _;

use capstan_format::acl::{self, AclNames, Whose};

/// The pax keyword for an extended attribute that is an ACL.
pub(super) fn keyword(xattr: &[u8]) -> Option<&'static [u8]> {
    match xattr {
        b"system.posix_acl_access" => Some(b"SCHILY.acl.access"),
        b"system.posix_acl_default" => Some(b"SCHILY.acl.default"),
        _ => None,
    }
}

/// The ACL as text, an entry per line, with these names; `None` if the value is no ACL.
pub(super) fn text(value: &[u8], names: Option<&AclNames>) -> Option<String> {
    let mut text = String::new();
    for entry in acl::entries(value)? {
        let mut number = None;
        match entry.named() {
            Some(of @ (whose, id)) => {
                let kind = if whose == Whose::User { "user" } else { "group" };
                match names.and_then(|names| plain(names.get(&of)?)) {
                    Some(name) => {
                        write!(text, "{kind}:{name}:").ok()?;
                        number = Some(id);
                    }
                    None => write!(text, "{kind}:{id}:").ok()?,
                }
            }
            None => text.push_str(match entry.tag {
                0x01 => "user::",
                0x04 => "group::",
                0x10 => "mask::",
                0x20 => "other::",
                _ => return None,
            }),
        }
        for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
            text.push(if entry.permissions & bit != 0 { letter } else { '-' });
        }
        if let Some(id) = number {
            write!(text, ":{id}").ok()?;
        }
        text.push('\n');
    }
    Some(text)
}

/// A name that can stand in the text of an ACL.
fn plain(name: &[u8]) -> Option<&str> {
    let name = str::from_utf8(name).ok()?;
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !":,#".contains(c);
    // What is all digits would be taken for a number.
    let is_name = !name.is_empty() && !name.bytes().all(|b| b.is_ascii_digit());
    (is_name && name.chars().all(is_plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = 2u32.to_le_bytes().to_vec();
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
            text(&value, None).unwrap(),
            "user::rw-\nuser:1000:rwx\ngroup::r--\ngroup:50:--x\nmask::r-x\nother::---\n"
        );
    }

    #[test]
    fn whoever_has_a_name_is_named_beside_the_number() {
        let value = acl(&[(2, 7, 1000), (2, 4, 1001), (8, 1, 50), (8, 1, 51)]);
        let of = |whose, id, name: &str| ((whose, id), name.as_bytes().into());
        let names = AclNames::from([
            of(Whose::User, 1000, "ann"),
            of(Whose::User, 1001, "4711"),
            of(Whose::Group, 50, "staff"),
            of(Whose::Group, 51, "a:b"),
        ]);
        assert_eq!(
            text(&value, Some(&names)).unwrap(),
            "user:ann:rwx:1000\nuser:1001:r--\ngroup:staff:--x:50\ngroup:51:--x\n"
        );
    }

    #[test]
    fn what_is_no_acl_has_no_text() {
        let good = acl(&[(1, 6, 0)]);
        assert!(text(&good, None).is_some());
        for bad in [&[][..], &good[..3], &good[..4], &good[..11], &acl(&[(3, 6, 0)])] {
            assert_eq!(text(bad, None), None, "{bad:?}");
        }
        let newer = [&3u32.to_le_bytes()[..], &good[4..]].concat();
        assert_eq!(text(&newer, None), None);
    }
}
