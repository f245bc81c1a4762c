//! Where a command writes to.

use std::fmt;
use std::str::FromStr;

use capstan_address::{Address, AddressError};
use capstan_engine::problem::{Explain, Problem};

/// Where a backup goes: a device, or the medium that a pool chooses.
#[derive(Debug, Clone)]
pub enum Destination {
    /// A device.
    Device(Address),
    /// A pool.
    Pool(String),
}

impl FromStr for Destination {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        match text.strip_prefix("pool:") {
            Some("") => Err(Problem::new("it names no pool").hint("write pool:NAME")),
            Some(name) => Ok(Self::Pool(name.to_owned())),
            None => text.parse().map(Self::Device).map_err(|e: AddressError| e.problem()),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(address) => address.fmt(f),
            Self::Pool(name) => write!(f, "pool:{name}"),
        }
    }
}

impl Destination {
    /// The device; of a pool it is not known yet.
    pub fn device(&self) -> Address {
        match self {
            Self::Device(address) => address.clone(),
            Self::Pool(_) => Address::Null { rate: None },
        }
    }

    /// The pool, if it is one.
    pub fn pool(&self) -> Option<String> {
        match self {
            Self::Device(_) => None,
            Self::Pool(name) => Some(name.clone()),
        }
    }
}
