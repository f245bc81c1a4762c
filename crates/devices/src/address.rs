//! Device names as people write them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::DeviceError;

/// A device, as named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A directory: `file:/path`, or a plain path.
    File(PathBuf),
    /// Nothing is kept: `null:`, or `null:rate=50` to take at most that many MB (10^6 bytes) a second.
    Null {
        /// Bytes per second that it takes, if limited.
        rate: Option<u64>,
    },
}

impl FromStr for Address {
    type Err = DeviceError;

    fn from_str(s: &str) -> Result<Self, DeviceError> {
        let bad = || DeviceError::BadAddress(s.to_owned());
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
        let path = s.strip_prefix("file:").unwrap_or(s);
        // `scheme:` of a device this version does not drive is an error, not a directory of that name.
        let scheme = path.split_once(':').map(|(scheme, _)| scheme);
        let looks_like_scheme = scheme.is_some_and(|scheme| {
            !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric())
        });
        if path.is_empty() || (looks_like_scheme && !s.starts_with("file:")) {
            return Err(bad());
        }
        Ok(Self::File(PathBuf::from(path)))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Null { rate: None } => f.write_str("null:"),
            Self::Null { rate: Some(rate) } => write!(f, "null:rate={}", rate / 1_000_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_people_write_them() {
        let file = |p: &str| Address::File(PathBuf::from(p));
        assert_eq!("file:/a b".parse::<Address>().unwrap(), file("/a b"));
        assert_eq!("/mnt/x".parse::<Address>().unwrap(), file("/mnt/x"));
        assert_eq!("./a:b".parse::<Address>().unwrap(), file("./a:b"));
        assert_eq!("null:".parse::<Address>().unwrap(), Address::Null { rate: None });
        assert_eq!(
            "null:rate=50".parse::<Address>().unwrap(),
            Address::Null { rate: Some(50_000_000) }
        );
        for bad in ["", "file:", "null:x", "null:rate=0", "scsi:/dev/sg3", "s3://b/p"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
