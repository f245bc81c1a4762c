//! The headers of an archive's members: ustar, what does not fit it as pax records, and the map of a file with holes.

use std::io::{self, Write};

use capstan_format::acl::AclNames;
use capstan_format::entry::Entry;
use tar::{Builder, EntryType, Header};

use super::acl;
use capstan_port::disk::archive::Planned;

/// A file with holes as GNU tar stores it (GNU tar manual, "PAX Format, Version 1.0"): under a name that a tool which
/// does not know the format may safely use, its data after a map of where they belong.
pub(super) struct Sparse {
    name: Vec<u8>,
    pub stored_as: Vec<u8>,
    real_size: u64,
    pub map: Vec<u8>,
    pub data: u64,
}

impl Sparse {
    /// `None` for a file without holes.
    pub fn of(plan: &Planned, name: &[u8]) -> Option<Self> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for piece in &plan.pieces {
            match ranges.last_mut() {
                Some((from, len)) if from.saturating_add(*len) == piece.offset => *len += piece.len,
                _ => ranges.push((piece.offset, piece.len)),
            }
        }
        if ranges == [(0, plan.len)] || plan.len == 0 {
            return None;
        }
        let data = ranges.iter().fold(0_u64, |sum, r| sum.saturating_add(r.1));
        if ranges.last().is_none_or(|(from, len)| from.saturating_add(*len) < plan.len) {
            ranges.push((plan.len, 0));
        }
        let mut map = format!("{}\n", ranges.len()).into_bytes();
        for (from, len) in ranges {
            map.extend_from_slice(format!("{from}\n{len}\n").as_bytes());
        }
        map.resize(map.len().next_multiple_of(512), 0);
        let (dir, file) = match name.iter().rposition(|b| *b == b'/') {
            Some(at) => (&name[..=at], &name[at + 1..]),
            None => (&b""[..], name),
        };
        let stored_as = [dir, b"GNUSparseFile.0/", file].concat();
        Some(Self { name: name.to_vec(), stored_as, real_size: plan.len, map, data })
    }
}

/// The names of whom an entry names, as far as archives have names.
#[derive(Default)]
pub(super) struct Names<'a> {
    /// The owner's.
    pub user: Option<&'a [u8]>,
    /// The group's.
    pub group: Option<&'a [u8]>,
    /// Of whom its ACLs name.
    pub acl: Option<&'a AclNames>,
}

/// The ustar header; what does not fit it stands in the pax records before it.
pub(super) fn header(
    e: &Entry,
    name: &[u8],
    link: &[u8],
    names: &Names<'_>,
    entry_type: EntryType,
    size: u64,
) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(entry_type);
    header.set_mode(e.mode.into());
    header.set_uid(u64::from(e.uid).min(0o777_7777));
    header.set_gid(u64::from(e.gid).min(0o777_7777));
    header.set_mtime(u64::try_from(e.mtime.sec).unwrap_or(0));
    header.set_size(size.min(0o777_7777_7777));
    if let Some(ustar) = header.as_ustar_mut() {
        let fit = |to: &mut [u8], from: &[u8]| {
            let n = from.len().min(to.len());
            to[..n].copy_from_slice(&from[..n]);
        };
        fit(&mut ustar.name, name);
        fit(&mut ustar.linkname, link);
        // GNU tar gives files to whom these name, and only shows what pax records have. One that was cut would be somebody else.
        for (to, owner) in [(&mut ustar.uname, names.user), (&mut ustar.gname, names.group)] {
            if let Some(owner) = owner.filter(|owner| owner.len() < to.len()) {
                fit(to, owner);
            }
        }
        if matches!(entry_type, EntryType::Char | EntryType::Block) {
            ustar.set_device_major(e.rdev.0);
            ustar.set_device_minor(e.rdev.1);
        }
    }
    header.set_cksum();
    header
}

/// The pax records of an entry (POSIX.1-2017, pax, "pax Extended Header").
pub(super) fn append_pax<W: Write>(
    archive: &mut Builder<W>,
    e: &Entry,
    name: &[u8],
    link: &[u8],
    names: &Names<'_>,
    size: u64,
    sparse: Option<&Sparse>,
) -> io::Result<()> {
    let mut records: Vec<u8> = Vec::new();
    let mut add = |key: &[u8], value: &[u8]| {
        // A record's length counts its own digits.
        let rest = key.len() + value.len() + 3;
        let mut len = rest + 1;
        while rest + len.to_string().len() != len {
            len = rest + len.to_string().len();
        }
        records.extend_from_slice(format!("{len} ").as_bytes());
        records.extend_from_slice(key);
        records.push(b'=');
        records.extend_from_slice(value);
        records.push(b'\n');
    };
    if name.len() > 100 {
        add(b"path", name);
    }
    if link.len() > 100 {
        add(b"linkpath", link);
    }
    if e.mtime.nsec != 0 || e.mtime.sec < 0 {
        // Negative times count their fraction downwards.
        let ns = i128::from(e.mtime.sec) * 1_000_000_000 + i128::from(e.mtime.nsec);
        let (sign, ns) = if ns < 0 { ("-", -ns) } else { ("", ns) };
        let text = format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        add(b"mtime", text.as_bytes());
    }
    if size > 0o777_7777_7777 {
        add(b"size", size.to_string().as_bytes());
    }
    if e.uid > 0o777_7777 {
        add(b"uid", e.uid.to_string().as_bytes());
    }
    if e.gid > 0o777_7777 {
        add(b"gid", e.gid.to_string().as_bytes());
    }
    if let Some(user) = names.user {
        add(b"uname", user);
    }
    if let Some(group) = names.group {
        add(b"gname", group);
    }
    if let Some(sparse) = sparse {
        add(b"GNU.sparse.major", b"1");
        add(b"GNU.sparse.minor", b"0");
        add(b"GNU.sparse.name", &sparse.name);
        add(b"GNU.sparse.realsize", sparse.real_size.to_string().as_bytes());
    }
    for (key, value) in &e.xattrs {
        if let Some((keyword, text)) = acl::keyword(key).zip(acl::text(value, names.acl)) {
            add(keyword, text.as_bytes());
        }
        add(&[b"SCHILY.xattr.", key.as_slice()].concat(), value);
    }
    if records.is_empty() {
        return Ok(());
    }
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::XHeader);
    header.set_path("pax")?;
    header.set_mode(0o600);
    header.set_size(records.len() as u64);
    header.set_cksum();
    archive.append(&header, records.as_slice())
}
