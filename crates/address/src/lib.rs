//! Names of devices, as administrators write them, the database records them and hosts send them to each other.
//!
//! Text comes in, values go out, and the other way round. A name is a value: nothing is opened here. Only [`Address::recorded`] and what
//! is like it look at this host's file system, to follow symbolic links of a directory's path.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]

mod array;
mod error;
mod host;
pub mod iscsi;
pub mod store;

pub use array::ArrayAddress;
pub use error::AddressError;
pub use host::{HostName, NoHostName};
pub use store::StoreAddress;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use iscsi::Target;
use store::Writer;

/// A device, as named on the command line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A store, which is read at random and whose medium stays where it is: a directory, `file:/path` or a plain path.
    Store(StoreAddress),
    /// Nothing is kept: `null:`, or `null:rate=50` to take at most that many MB (10^6 bytes) a second.
    Null {
        /// Bytes per second that it takes, if limited.
        rate: Option<u64>,
    },
    /// A tape in a drive or library.
    Tape(TapeAddress),
    /// An array of devices: `rait5:DEVICE,DEVICE,DEVICE`.
    Array(ArrayAddress),
    /// What another program recorded and this one cannot read. Nobody gives such a name, and nothing opens it.
    Unknown(String),
}

/// The size of a spool, if it is not given: ten times the buffer of a large drive, and more.
const SPOOL_SIZE: u64 = 16 << 30;

/// Where a tape is: `vtape:/path` (a virtual library), `scsi:/dev/sgN`, `iscsi://host/target-iqn/lun` (a changer or a
/// drive); behind it, as they are needed, `?drive=N` and `tape=BARCODE`, joined by `&`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TapeAddress {
    /// The library, or the drive that stands alone.
    pub library: LibraryName,
    /// The drive to use, from 1; any, if not given.
    pub drive: Option<u32>,
    /// The tape, by its barcode; chosen by who writes, if not given.
    pub tape: Option<String>,
    /// The spool before it, when it is written.
    pub spool: Option<SpoolPlan>,
}

/// A spool to make.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpoolPlan {
    /// The directory in which the file lies.
    pub dir: PathBuf,
    /// Its size in bytes.
    pub size: u64,
}

/// A library, or a drive that stands alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LibraryName {
    /// The directory of a virtual library.
    Virtual(PathBuf),
    /// A node below `/dev`, or an iSCSI URL.
    Scsi(String),
}

impl TapeAddress {
    /// The same with the library's full path, where it is a directory that is there.
    pub fn resolved(&self) -> Self {
        Self { library: self.library.resolved(), ..self.clone() }
    }

    /// The same library, that tape.
    pub fn with_tape(&self, barcode: &str) -> Self {
        let tape = Some(barcode.to_owned());
        Self { library: self.library.clone(), drive: None, tape, spool: None }
    }

    /// The same as it is recorded: what a session asks for beside the tape is left out.
    pub fn recorded(&self) -> Self {
        Self { drive: None, spool: None, ..self.resolved() }
    }

    fn parse(text: &str) -> Option<Self> {
        let (name, options) = text.split_once('?').unwrap_or((text, ""));
        let library = LibraryName::parse(name)?;
        let mut address = Self { library, drive: None, tape: None, spool: None };
        let (mut dir, mut size) = (None, None);
        for option in options.split('&').filter(|o| !o.is_empty()) {
            match option.split_once('=')? {
                ("drive", n) => address.drive = Some(n.parse().ok().filter(|n| *n > 0)?),
                ("tape", barcode) if is_barcode(barcode) => address.tape = Some(barcode.to_owned()),
                ("spool", path) if path.starts_with('/') => dir = Some(PathBuf::from(path)),
                ("spool-size", text) => size = Some(size_of(text)?),
                _ => return None,
            }
        }
        address.spool = match (dir, size) {
            (Some(dir), size) => Some(SpoolPlan { dir, size: size.unwrap_or(SPOOL_SIZE) }),
            (None, None) => None,
            (None, Some(_)) => return None,
        };
        Some(address)
    }
}

/// Bytes, or with K, M, G, T as powers of 1024.
fn size_of(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor).filter(|size| *size > 0)
}

impl LibraryName {
    /// The same with its full path, where it is a directory that is there.
    pub fn resolved(&self) -> Self {
        match self {
            Self::Virtual(dir) => Self::Virtual(whole(dir)),
            scsi => scsi.clone(),
        }
    }

    fn parse(name: &str) -> Option<Self> {
        match name.split_once(':')? {
            ("vtape", path) if !path.is_empty() => Some(Self::Virtual(PathBuf::from(path))),
            ("scsi", node) if node.starts_with('/') => Some(Self::Scsi(node.to_owned())),
            ("iscsi", _) => {
                // One form of each name: it is recorded, and compared.
                let target = Target::parse(name).ok()?;
                target.secret().is_none().then(|| Self::Scsi(target.to_string()))
            }
            _ => None,
        }
    }
}

impl FromStr for LibraryName {
    type Err = AddressError;

    fn from_str(s: &str) -> Result<Self, AddressError> {
        refuse_url(s)?;
        let plain = Some(s).filter(|s| !s.contains('?'));
        plain.and_then(Self::parse).ok_or_else(|| AddressError::NoLibrary(s.to_owned()))
    }
}

/// Says what is wrong with an iSCSI URL, without the secret that may be in it.
fn refuse_url(text: &str) -> Result<(), AddressError> {
    let name = text.split_once('?').map_or(text, |(name, _)| name);
    if !name.starts_with("iscsi:") {
        return Ok(());
    }
    match Target::parse(name) {
        Err(e) => Err(e),
        Ok(target) if target.secret().is_some() => {
            Err(AddressError::SecretInName(target.to_string()))
        }
        Ok(_) => Ok(()),
    }
}

/// The whole path of a directory of this host, with symbolic links followed where it is there.
fn whole(path: &Path) -> PathBuf {
    let whole = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    whole.unwrap_or_else(|_| path.to_owned())
}

/// Whether a text can be on a tape's sticker.
pub fn is_barcode(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_. $+%".contains(&b);
    (1..=32).contains(&text.len()) && text.bytes().all(fits)
}

impl fmt::Display for LibraryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Virtual(path) => write!(f, "vtape:{}", path.display()),
            Self::Scsi(url) if url.starts_with("iscsi:") => f.write_str(url),
            Self::Scsi(node) => write!(f, "scsi:{node}"),
        }
    }
}

impl fmt::Display for TapeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.library)?;
        let mut sign = '?';
        if let Some(drive) = self.drive {
            write!(f, "{sign}drive={drive}")?;
            sign = '&';
        }
        if let Some(barcode) = &self.tape {
            write!(f, "{sign}tape={barcode}")?;
            sign = '&';
        }
        match &self.spool {
            Some(plan) => {
                write!(f, "{sign}spool={}&spool-size={}", plan.dir.display(), plan.size)
            }
            None => Ok(()),
        }
    }
}

impl Address {
    /// The same as it is recorded: with whole paths, so that it means the same whatever the working directory is; without what a
    /// session asks for beside the medium.
    pub fn recorded(&self) -> Self {
        match self {
            Self::Store(store) => Self::Store(store.recorded()),
            Self::Tape(tape) => Self::Tape(tape.recorded()),
            Self::Array(array) => Self::Array(array.recorded()),
            Self::Null { .. } | Self::Unknown(_) => self.clone(),
        }
    }

    /// The device that was recorded as this text. What cannot be read is kept as it is.
    pub fn of_record(text: String) -> Self {
        Self::read(&text, Writer::Program).unwrap_or(Self::Unknown(text))
    }

    /// A directory.
    pub fn of_directory(path: impl Into<PathBuf>) -> Self {
        Self::Store(path.into().into())
    }

    /// The store that it is, if it is one.
    pub fn as_store(&self) -> Option<&StoreAddress> {
        match self {
            Self::Store(store) => Some(store),
            _ => None,
        }
    }

    /// The tape that it is by itself, if it is one.
    pub fn as_tape(&self) -> Option<&TapeAddress> {
        match self {
            Self::Tape(tape) => Some(tape),
            _ => None,
        }
    }

    /// The tape that it is by itself, if it is one that is named by its barcode; with that.
    pub fn as_named_tape(&self) -> Option<(&TapeAddress, &str)> {
        let tape = self.as_tape()?;
        Some((tape, tape.tape.as_deref()?))
    }

    /// The array that it is, if it is one.
    pub fn as_array(&self) -> Option<&ArrayAddress> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// Itself, or why it cannot be read.
    pub fn known(&self) -> Result<&Self, AddressError> {
        match self {
            Self::Unknown(text) => {
                Err(text.parse::<Self>().err().unwrap_or(AddressError::NoDevice(text.clone())))
            }
            known => Ok(known),
        }
    }

    /// What its name begins with, as `file` or `rait5`.
    pub fn scheme(&self) -> String {
        let name = self.to_string();
        name.split(':').next().unwrap_or_default().to_owned()
    }

    /// Whether its media are read from begin to end best: to go to and fro takes long.
    pub fn is_sequential(&self) -> bool {
        match self {
            Self::Tape(_) => true,
            Self::Array(array) => array.members.iter().any(Self::is_sequential),
            _ => false,
        }
    }

    /// Whether it is a store, or an array of nothing but stores.
    pub fn is_on_stores(&self) -> bool {
        match self {
            Self::Store(_) => true,
            Self::Array(array) => array.members.iter().all(Self::is_on_stores),
            Self::Tape(_) | Self::Null { .. } | Self::Unknown(_) => false,
        }
    }

    /// Whether it is a tape, or an array of nothing but tapes.
    pub fn is_tape(&self) -> bool {
        match self {
            Self::Tape(_) => true,
            Self::Array(array) => array.members.iter().all(Self::is_tape),
            Self::Store(_) | Self::Null { .. } | Self::Unknown(_) => false,
        }
    }

    /// Whether it names no medium: libraries of which whoever writes takes tapes, or drives that stand alone.
    pub fn names_no_medium(&self) -> bool {
        match self {
            Self::Tape(tape) => tape.tape.is_none(),
            Self::Array(array) => array.members.iter().all(Self::names_no_medium),
            Self::Store(_) | Self::Null { .. } | Self::Unknown(_) => false,
        }
    }

    /// The stores that it is: one, those of an array's members, or none.
    pub fn stores(&self) -> Vec<StoreAddress> {
        match self {
            Self::Store(store) => vec![store.clone()],
            Self::Array(array) => array.members.iter().flat_map(Self::stores).collect(),
            _ => Vec::new(),
        }
    }

    /// The directories among its stores.
    pub fn directories(&self) -> Vec<PathBuf> {
        let stores = self.stores();
        stores.iter().filter_map(StoreAddress::directory).map(Path::to_owned).collect()
    }

    /// The tapes that it is: one, those of an array's members, or none.
    pub fn tapes(&self) -> Vec<TapeAddress> {
        match self {
            Self::Tape(tape) => vec![tape.clone()],
            Self::Array(array) => array.members.iter().flat_map(Self::tapes).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether what is written there is gone.
    pub fn keeps_nothing(&self) -> bool {
        match self {
            Self::Null { .. } => true,
            Self::Array(array) => array.members.iter().all(Self::keeps_nothing),
            Self::Store(_) | Self::Tape(_) | Self::Unknown(_) => false,
        }
    }
}

impl serde::Serialize for Address {
    /// Its name: one form for the database, for JSON and for other hosts.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Address {
    /// Reads a name that somebody wrote.
    pub(crate) fn read(s: &str, writer: Writer) -> Result<Self, AddressError> {
        refuse_url(s)?;
        let bad = || AddressError::NoDevice(s.to_owned());
        if let Some(options) = s.strip_prefix("null:") {
            let rate = match options.strip_prefix("rate=") {
                Some(mb) => Some(
                    mb.parse::<u64>()
                        .ok()
                        .filter(|mb| (1..=1_000_000).contains(mb))
                        .ok_or_else(bad)?
                        * 1_000_000,
                ),
                None if options.is_empty() => None,
                None => return Err(bad()),
            };
            return Ok(Self::Null { rate });
        }
        if let Some(tape) = TapeAddress::parse(s) {
            return Ok(Self::Tape(tape));
        }
        if let Some(array) = ArrayAddress::read(s, writer) {
            return array.map(Self::Array);
        }
        if let Some(store) = StoreAddress::parse(s, writer) {
            return Ok(Self::Store(store));
        }
        // `scheme:` of a device this version does not drive is an error, not a directory of that name.
        let scheme = s.split_once(':').map(|(scheme, _)| scheme);
        let looks_like_scheme = scheme.is_some_and(|scheme| {
            !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric())
        });
        match s.is_empty() || looks_like_scheme {
            true => Err(bad()),
            false => Ok(Self::of_directory(s)),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    /// Reads a name as people write them.
    fn from_str(s: &str) -> Result<Self, AddressError> {
        Self::read(s, Writer::Person)
    }
}

impl From<StoreAddress> for Address {
    fn from(store: StoreAddress) -> Self {
        Self::Store(store)
    }
}

impl From<TapeAddress> for Address {
    fn from(tape: TapeAddress) -> Self {
        Self::Tape(tape)
    }
}

impl From<ArrayAddress> for Address {
    fn from(array: ArrayAddress) -> Self {
        Self::Array(array)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(store) => write!(f, "{store}"),
            Self::Tape(tape) => write!(f, "{tape}"),
            Self::Array(array) => write!(f, "{array}"),
            Self::Null { rate: None } => f.write_str("null:"),
            Self::Null { rate: Some(rate) } => write!(f, "null:rate={}", rate / 1_000_000),
            Self::Unknown(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_program_recorded_is_kept() {
        let newer = Address::of_record("s3://bucket/prefix".to_owned());
        assert_eq!(newer, Address::Unknown("s3://bucket/prefix".to_owned()));
        assert_eq!(newer.recorded(), newer);
        assert_eq!(newer.to_string(), "s3://bucket/prefix");
        assert!(
            matches!(newer.known(), Err(AddressError::NoDevice(text)) if text.starts_with("s3:"))
        );
        assert!(!newer.is_on_stores() && !newer.is_sequential() && !newer.keeps_nothing());
        let disk = Address::of_record("/mnt/x".to_owned());
        assert_eq!(disk, Address::of_directory("/mnt/x"));
        assert_eq!(disk.known(), Ok(&disk));
        let on_stores = |text: &str| text.parse::<Address>().unwrap().is_on_stores();
        assert!(on_stores("/a") && on_stores("rait5:/a,/b,/c"));
        assert!(
            !on_stores("vtape:/v?tape=A") && !on_stores("rait1:/a,vtape:/v") && !on_stores("null:")
        );
    }

    #[test]
    fn names_read_as_people_write_them() {
        let file = |p: &str| Address::of_directory(p);
        assert_eq!("file:/a b".parse::<Address>().unwrap(), file("/a b"));
        assert_eq!("/mnt/x".parse::<Address>().unwrap(), file("/mnt/x"));
        assert_eq!("./a:b".parse::<Address>().unwrap(), file("./a:b"));
        assert_eq!("null:".parse::<Address>().unwrap(), Address::Null { rate: None });
        assert_eq!(
            "null:rate=50".parse::<Address>().unwrap(),
            Address::Null { rate: Some(50_000_000) }
        );
        let tape = |library, drive, tape: Option<&str>| {
            Address::Tape(TapeAddress {
                library,
                drive,
                tape: tape.map(str::to_owned),
                spool: None,
            })
        };
        let scsi = |name: &str| LibraryName::Scsi(name.to_owned());
        for (text, address) in [
            ("vtape:/srv/vtl", tape(LibraryName::Virtual("/srv/vtl".into()), None, None)),
            ("scsi:/dev/sg3?drive=2", tape(scsi("/dev/sg3"), Some(2), None)),
            (
                "iscsi://h:3260/iqn.2001-04.com.x:vtl/1?drive=1&tape=A00001L9",
                tape(scsi("iscsi://h:3260/iqn.2001-04.com.x:vtl/1"), Some(1), Some("A00001L9")),
            ),
        ] {
            assert_eq!(text.parse::<Address>().unwrap(), address);
            assert_eq!(address.to_string(), text);
        }
        let short = "iscsi://backup@tapes/iqn.2001-04.com.x:vtl/1".parse::<LibraryName>().unwrap();
        assert_eq!(short.to_string(), "iscsi://backup@tapes:3260/iqn.2001-04.com.x:vtl/1");
        for secret in ["iscsi://u%hush@h/t/1", "iscsi://u%hush@h/t/1?drive=1", "iscsi://u%hush@h"] {
            let text = secret.parse::<Address>().unwrap_err().to_string();
            assert!(!text.contains("hush"), "{text}");
            assert!(secret.parse::<LibraryName>().is_err());
        }
        for bad in ["/dev/sg3", "vtape:", "null:", "scsi:sg3", "scsi:/dev/sg3?drive=x"] {
            assert!(bad.parse::<LibraryName>().is_err(), "{bad}");
        }
        let bad = ["", "file:", "null:x", "null:rate=0", "scsi:sg3", "s3://b/p", "vtape:"];
        for bad in bad.into_iter().chain(["vtape:/v?drive=0", "vtape:/v?tape=", "vtape:/v?x=1"]) {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
