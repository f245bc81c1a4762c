//! POSIX ACLs as Linux keeps them in extended attributes: which users and groups they name (linux/posix_acl_xattr.h).
//!
//! The value is a version (u32, 2), then entries of 8 bytes: tag (u16), permissions (u16), id (u32), all little-endian.

use std::collections::HashMap;
use std::sync::Arc;

use crate::entry::Xattr;

const VERSION: [u8; 4] = 2u32.to_le_bytes();
/// The length of an entry.
const LEN: usize = 8;
const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Who is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Whose {
    /// A user.
    User,
    /// A group.
    Group,
}

/// An entry of an ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AclEntry {
    /// What it is: 1 the owner, 2 a user, 4 the owner's group, 8 a group, 16 the mask, 32 others.
    pub tag: u16,
    /// 4 read, 2 write, 1 execute.
    pub permissions: u16,
    /// The user or group, where the tag names one.
    pub id: u32,
}

impl AclEntry {
    /// Whom it names.
    pub const fn named(&self) -> Option<(Whose, u32)> {
        match self.tag {
            0x02 => Some((Whose::User, self.id)),
            0x08 => Some((Whose::Group, self.id)),
            _ => None,
        }
    }
}

/// The names that users and groups of ACLs had where they came from.
pub type AclNames = HashMap<(Whose, u32), Arc<[u8]>>;

/// Whether an extended attribute of that name is an ACL.
pub fn is_acl(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

/// The entries of an ACL; `None` if the value is none.
pub fn entries(value: &[u8]) -> Option<impl Iterator<Item = AclEntry>> {
    let entries = value.strip_prefix(&VERSION)?;
    let (entries, rest) = entries.as_chunks::<LEN>();
    (rest.is_empty() && !entries.is_empty()).then(|| {
        entries.iter().map(|&[t0, t1, p0, p1, i0, i1, i2, i3]| AclEntry {
            tag: u16::from_le_bytes([t0, t1]),
            permissions: u16::from_le_bytes([p0, p1]),
            id: u32::from_le_bytes([i0, i1, i2, i3]),
        })
    })
}

/// The users and groups that the ACLs among these attributes name.
pub fn named(xattrs: &[Xattr]) -> impl Iterator<Item = (Whose, u32)> {
    let acls = xattrs.iter().filter(|(name, _)| is_acl(name));
    acls.filter_map(|(_, value)| entries(value)).flatten().filter_map(|entry| entry.named())
}

/// The same ACL with other users and groups: what `map` makes of each that it names. What is no ACL stays as it is.
pub fn mapped(value: &[u8], map: &mut dyn FnMut(Whose, u32) -> u32) -> Vec<u8> {
    let Some(entries) = entries(value) else { return value.to_vec() };
    let of_here = |entry: AclEntry| AclEntry {
        id: entry.named().map_or(entry.id, |(whose, id)| map(whose, id)),
        ..entry
    };
    let mut entries: Vec<AclEntry> = entries.map(of_here).collect();
    // As the kernel and libacl order them.
    entries.sort_by_key(|entry| (entry.tag, entry.named()));
    let mut value = VERSION.to_vec();
    for AclEntry { tag, permissions, id } in entries {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// Whether two files have the same extended attributes. Users and groups of ACLs are told by name where both have one, as a restore
/// does.
pub fn are_same(a: (&[Xattr], Option<&AclNames>), b: (&[Xattr], Option<&AclNames>)) -> bool {
    let name = |names: Option<&AclNames>, of| names.and_then(|names| names.get(&of)).cloned();
    if a.0 == b.0 {
        return named(a.0).all(|of| match (name(a.1, of), name(b.1, of)) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        });
    }
    let same = |((name_a, value_a), (name_b, value_b)): (&Xattr, &Xattr)| {
        name_a == name_b
            && (value_a == value_b && !is_acl(name_a)
                || is_acl(name_a)
                    && by_name(value_a, a.1).is_some_and(|of| Some(of) == by_name(value_b, b.1)))
    };
    a.0.len() == b.0.len() && a.0.iter().zip(b.0).all(same)
}

/// Who has which permissions, by name where it is known.
type ByName = Vec<(u16, Option<Result<Arc<[u8]>, u32>>, u16)>;

fn by_name(value: &[u8], names: Option<&AclNames>) -> Option<ByName> {
    let who = |(whose, id)| match names.and_then(|names| names.get(&(whose, id))) {
        Some(name) => Ok(name.clone()),
        None => Err(id),
    };
    let mut all: ByName = entries(value)?
        .map(|entry| (entry.tag, entry.named().map(who), entry.permissions))
        .collect();
    all.sort();
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = VERSION.to_vec();
        for (tag, permissions, id) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(permissions.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }

    fn names(of: &[(Whose, u32, &str)]) -> AclNames {
        of.iter().map(|(whose, id, name)| ((*whose, *id), name.as_bytes().into())).collect()
    }

    const NONE: u32 = u32::MAX;

    #[test]
    fn users_and_groups_are_mapped_and_nothing_else() {
        let value = acl(&[
            (1, 6, NONE),
            (2, 7, 5),
            (2, 4, 9),
            (4, 4, NONE),
            (8, 1, 5),
            (16, 5, NONE),
            (32, 0, NONE),
        ]);
        let xattrs = vec![(ACCESS.to_vec(), value.clone()), (b"user.x".to_vec(), value.clone())];
        let whom: Vec<_> = named(&xattrs).collect();
        assert_eq!(whom, [(Whose::User, 5), (Whose::User, 9), (Whose::Group, 5)]);
        let mapped = mapped(&value, &mut |whose, id| match (whose, id) {
            (Whose::User, 5) => 11,
            (Whose::Group, 5) => 6,
            _ => id,
        });
        let expected = acl(&[
            (1, 6, NONE),
            (2, 4, 9),
            (2, 7, 11),
            (4, 4, NONE),
            (8, 1, 6),
            (16, 5, NONE),
            (32, 0, NONE),
        ]);
        assert_eq!(mapped, expected);
    }

    #[test]
    fn what_is_no_acl_stays_and_names_nobody() {
        let good = acl(&[(2, 6, 3)]);
        let newer = [&3u32.to_le_bytes()[..], &good[4..]].concat();
        for bad in [&[][..], &good[..3], &good[..4], &good[..11], &newer] {
            assert!(entries(bad).is_none());
            assert_eq!(mapped(bad, &mut |_, _| 0), bad);
        }
    }

    #[test]
    fn who_has_another_number_elsewhere_is_the_same() {
        let of = |value| vec![(ACCESS.to_vec(), value)];
        let there = of(acl(&[(2, 6, 5), (2, 4, 7)]));
        let here = of(acl(&[(2, 4, 7), (2, 6, 11)]));
        let then = names(&[(Whose::User, 5, "ann")]);
        let now = names(&[(Whose::User, 11, "ann")]);
        assert!(are_same((&there, Some(&then)), (&here, Some(&now))));
        assert!(!are_same((&there, None), (&here, Some(&now))));
        // The same number is somebody else.
        let other = names(&[(Whose::User, 5, "ben")]);
        assert!(!are_same((&there, Some(&then)), (&there, Some(&other))));
        assert!(are_same((&there, Some(&then)), (&there, None)));
        assert!(!are_same((&there, Some(&then)), (&[], None)));
        let less = of(acl(&[(2, 4, 7), (2, 4, 11)]));
        assert!(!are_same((&there, Some(&then)), (&less, Some(&now))));
    }
}
