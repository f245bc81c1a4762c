//! Where a port for bulk data is reached from another host.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where a port is reached: who dials there and shows the ticket speaks to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// Where to dial: host and port.
    pub at: String,
    /// What to show there.
    pub ticket: Ticket,
}

/// What lets a connection in to the one call that waits for it. Its bytes mean nothing to who shows it, and nobody can guess them. In
/// JSON it has hexadecimal digits. It is not shown.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Ticket(pub Vec<u8>);

impl Ticket {
    /// Bytes of a ticket at most.
    pub const LONGEST: usize = 512;
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket")
    }
}

impl Serialize for Ticket {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        s.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for Ticket {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let digits: Option<Vec<u8>> =
            text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
        match digits {
            Some(digits) if digits.len().is_multiple_of(2) && digits.len() / 2 <= Self::LONGEST => {
                Ok(Self(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()))
            }
            _ => Err(D::Error::custom("a ticket is not hexadecimal digits, or too long")),
        }
    }
}
