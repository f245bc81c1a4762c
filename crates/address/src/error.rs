//! What can be wrong with the name of a device.

use capstan_engine::problem::{Explain, Problem, then};

/// The environment variable that has the secret of an iSCSI login: names of devices are seen by others.
pub const SECRET_VARIABLE: &str = "CAPSTAN_CHAP_SECRET";

/// Why a text names no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The name cannot be understood.
    #[error("'{0}' is not a device{then}", then = then(self.hint()))]
    NoDevice(String),
    /// The name is none of a library or a drive.
    #[error("'{0}' is not a tape library or drive{then}", then = then(self.hint()))]
    NoLibrary(String),
    /// The URL of an iSCSI device cannot be understood.
    #[error("'{url}' is not an iSCSI device: {why}{then}", then = then(self.hint()))]
    BadUrl {
        /// The URL without its secret.
        url: String,
        /// What is wrong.
        why: &'static str,
    },
    /// Names of devices are recorded and shown.
    #[error("the name of {0} was given with its secret, which others would see{then}", then = then(self.hint()))]
    SecretInName(String),
    /// An array's name cannot be understood.
    #[error("'{text}' is no array: {problem}{then}", then = then(self.hint()))]
    BadArray {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// What another host says of a name.
    #[error("{0}")]
    Told(Problem),
}

impl serde::Serialize for AddressError {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.problem().serialize(s)
    }
}

impl<'de> serde::Deserialize<'de> for AddressError {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Problem::deserialize(d).map(Self::Told)
    }
}

impl Explain for AddressError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoDevice(_) => "write a directory as file:/path (or just its path), a tape library or drive as vtape:/path, scsi:/dev/sgN \
                 or iscsi://host/target-iqn/lun, or null:".to_owned(),
            Self::NoLibrary(_) => "write a virtual one as vtape:/path, a changer or drive of this machine as scsi:/dev/sgN, one over iSCSI \
                 as iscsi://host/target-iqn/lun".to_owned(),
            Self::BadUrl { .. } => "write iscsi://[user[%secret]@]host[:port]/target-iqn/lun".to_owned(),
            Self::Told(problem) => return problem.hint.clone(),
            Self::SecretInName(_) => format!("leave it out, and set {SECRET_VARIABLE} to it"),
            Self::BadArray { .. } => "write it as rait5:DEVICE,DEVICE,DEVICE or rait:N+K:DEVICE,…, and arrays in it in parentheses".to_owned(),
        })
    }
}
