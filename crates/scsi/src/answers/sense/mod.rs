//! What a device says went wrong: sense data in fixed and descriptor format, decoded without trust.

mod texts;

use std::fmt;

use crate::bytes::{part, u8_at, u32_at, u64_at};

/// Sense key 0: nothing is wrong; the flags say what is the matter.
pub const NO_SENSE: u8 = 0x0;
/// Sense key 1: the drive helped itself.
pub const RECOVERED: u8 = 0x1;
/// Sense key 2: not ready.
pub const NOT_READY: u8 = 0x2;
/// Sense key 3: the medium cannot be read or written here.
pub const MEDIUM_ERROR: u8 = 0x3;
/// Sense key 4: the device is at fault.
pub const HARDWARE_ERROR: u8 = 0x4;
/// Sense key 5: the device does not know that command or field.
pub const ILLEGAL_REQUEST: u8 = 0x5;
/// Sense key 6: something happened since the last command.
pub const UNIT_ATTENTION: u8 = 0x6;
/// Sense key 7: writing or reading is not allowed.
pub const DATA_PROTECT: u8 = 0x7;
/// Sense key 8: nothing is recorded here.
pub const BLANK_CHECK: u8 = 0x8;
/// Sense key d: the block no longer fits on the medium.
pub const VOLUME_OVERFLOW: u8 = 0xd;

/// Sense data, decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sense {
    /// The sense key, 0 to 15.
    pub key: u8,
    /// The additional sense code.
    pub asc: u8,
    /// Its qualifier.
    pub ascq: u8,
    /// It is of an earlier command that was reported as good.
    pub deferred: bool,
    /// A filemark was met.
    pub filemark: bool,
    /// The end of the medium is near or reached (or its begin, going backwards).
    pub end_of_medium: bool,
    /// The block does not have the length that was asked for.
    pub wrong_length: bool,
    /// What is left of what was asked for, where that is stated; negative where a block is longer than asked for.
    pub information: Option<i64>,
}

impl Sense {
    /// Decodes sense data. `None` where there are none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match u8_at(bytes, 0) & 0x7f {
            code @ (0x70 | 0x71) => Some(Self::fixed(bytes, code == 0x71)),
            code @ (0x72 | 0x73) => Some(Self::described(bytes, code == 0x73)),
            _ => None,
        }
    }

    fn fixed(bytes: &[u8], deferred: bool) -> Self {
        let valid = u8_at(bytes, 0) & 0x80 != 0 && bytes.len() >= 7;
        // Old devices state fewer bytes than they send; what is beyond the stated length is not meant.
        let stated = 8 + usize::from(u8_at(bytes, 7));
        let bytes = part(bytes, 0, stated);
        let mut sense = Self {
            key: u8_at(bytes, 2) & 0x0f,
            asc: u8_at(bytes, 12),
            ascq: u8_at(bytes, 13),
            deferred,
            information: valid.then(|| i64::from(u32_at(bytes, 3) as i32)),
            ..Self::default()
        };
        sense.set_flags(u8_at(bytes, 2));
        sense
    }

    fn described(bytes: &[u8], deferred: bool) -> Self {
        let mut sense = Self {
            key: u8_at(bytes, 1) & 0x0f,
            asc: u8_at(bytes, 2),
            ascq: u8_at(bytes, 3),
            deferred,
            ..Self::default()
        };
        let mut rest = part(bytes, 8, u8_at(bytes, 7).into());
        while rest.len() >= 2 {
            let (kind, len) = (rest[0], 2 + usize::from(rest[1]));
            match kind {
                0x00 if u8_at(rest, 2) & 0x80 != 0 && rest.len() >= 12 => {
                    sense.information = Some(u64_at(rest, 4) as i64);
                }
                0x04 => sense.set_flags(u8_at(rest, 3)),
                _ => {}
            }
            rest = part(rest, len, usize::MAX);
        }
        sense
    }

    fn set_flags(&mut self, flags: u8) {
        self.filemark = flags & 0x80 != 0;
        self.end_of_medium = flags & 0x40 != 0;
        self.wrong_length = flags & 0x20 != 0;
    }

    /// Additional sense code and qualifier.
    pub fn code(&self) -> (u8, u8) {
        (self.asc, self.ascq)
    }

    /// The command or a field of it is unknown to the device.
    pub fn is_unsupported(&self) -> bool {
        self.key == ILLEGAL_REQUEST && matches!(self.asc, 0x20 | 0x24 | 0x26)
    }

    /// No more data are recorded.
    pub fn is_end_of_data(&self) -> bool {
        self.key == BLANK_CHECK || self.code() == (0x00, 0x05)
    }

    /// There is no tape.
    pub fn is_no_medium(&self) -> bool {
        self.key == NOT_READY && self.asc == 0x3a
    }

    /// It will be ready by itself.
    pub fn is_becoming_ready(&self) -> bool {
        self.key == NOT_READY
            && matches!(
                self.code(),
                (0x04, 0x00 | 0x01 | 0x04 | 0x05 | 0x07..=0x09 | 0x13) | (0x3e, 0x00)
            )
    }

    /// The device was reset, or has another medium: positions and settings are gone.
    pub fn is_disturbance(&self) -> bool {
        self.key == UNIT_ATTENTION && matches!(self.asc, 0x28 | 0x29)
    }

    /// Media may have been changed: the door of a library was open, or its import/export slots were.
    pub fn is_exchange(&self) -> bool {
        self.key == UNIT_ATTENTION && self.asc == 0x28
    }

    /// The command did what it should, whatever the drive has to remark.
    pub fn is_harmless(&self) -> bool {
        matches!(self.key, NO_SENSE | RECOVERED)
            && !self.deferred
            && !self.filemark
            && !self.wrong_length
            && !self.is_end_of_data()
            && self.code() != (0x00, 0x04)
    }

    /// What it means, in an operator's words.
    pub fn what(&self) -> &'static str {
        texts::text(self.asc, self.ascq).map_or_else(|| texts::key_text(self.key), |text| text.0)
    }

    /// What to do about it; empty where there is nothing to do.
    pub fn advice(&self) -> &'static str {
        match texts::text(self.asc, self.ascq) {
            Some((_, advice)) if !advice.is_empty() => advice,
            _ => texts::key_advice(self.key),
        }
    }
}

impl fmt::Display for Sense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.deferred {
            f.write_str("an earlier command that had been reported as done went wrong: ")?;
        }
        f.write_str(self.what())?;
        write!(f, " (sense {:x}/{:02x}/{:02x})", self.key, self.asc, self.ascq)?;
        match self.advice() {
            "" => Ok(()),
            advice => write!(f, "; {advice}"),
        }
    }
}

#[cfg(test)]
mod tests;
