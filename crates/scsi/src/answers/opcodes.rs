//! Which commands a device has and how long it wants for them: REPORT SUPPORTED OPERATION CODES.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::bytes::{part, u8_at, u16_at, u32_at};

/// Length asked for.
pub const LEN: u32 = 16 * 1024;
/// No device is waited for longer than this, whatever it recommends.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The commands of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opcodes {
    /// By operation code and service action; the time that the device recommends.
    known: BTreeMap<(u8, u16), Option<Duration>>,
}

impl Opcodes {
    /// Decodes the list of all commands. `None` where it has none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = part(bytes, 4, u32_at(bytes, 0) as usize);
        let mut known = BTreeMap::new();
        while rest.len() >= 8 {
            let flags = u8_at(rest, 5);
            let (with_action, with_times) = (flags & 1 != 0, flags & 2 != 0);
            let action = if with_action { u16_at(rest, 2) } else { 0 };
            let times = part(rest, 8, 12);
            known.insert((rest[0], action), with_times.then(|| recommended(times)).flatten());
            rest = part(rest, if with_times { 20 } else { 8 }, usize::MAX);
        }
        (!known.is_empty()).then_some(Self { known })
    }

    /// Whether the device has a command.
    pub fn has(&self, opcode: u8) -> bool {
        self.known.range((opcode, 0)..=(opcode, u16::MAX)).next().is_some()
    }

    /// How long the device wants for a command.
    pub fn timeout(&self, opcode: u8) -> Option<Duration> {
        self.known.range((opcode, 0)..=(opcode, u16::MAX)).filter_map(|(_, time)| *time).max()
    }
}

fn recommended(times: &[u8]) -> Option<Duration> {
    let seconds = Duration::from_secs(u32_at(times, 8).into());
    (!seconds.is_zero() && u16_at(times, 0) >= 10).then_some(seconds.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_with_and_without_times() {
        let mut bytes = vec![0, 0, 0, 28];
        bytes.extend_from_slice(&[
            0x92, 0, 0, 0, 0, 2, 0, 16, 0, 10, 0, 0, 0, 0, 0, 60, 0, 0, 0x0b, 0xb8,
        ]);
        bytes.extend_from_slice(&[0x34, 0, 0, 6, 0, 1, 0, 10]);
        let opcodes = Opcodes::decode(&bytes).unwrap();
        assert!(opcodes.has(0x92) && opcodes.has(0x34) && !opcodes.has(0x2b));
        assert_eq!(opcodes.timeout(0x92), Some(Duration::from_secs(3000)));
        assert_eq!(opcodes.timeout(0x34), None);
    }

    #[test]
    fn an_empty_list_says_nothing() {
        assert_eq!(Opcodes::decode(&[0, 0, 0, 0]), None);
        assert_eq!(Opcodes::decode(&[0xff; 7]), None);
    }

    #[test]
    fn nobody_waits_for_136_years() {
        let bytes =
            [0, 0, 0, 20, 1, 0, 0, 0, 0, 2, 0, 6, 0, 10, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(Opcodes::decode(&bytes).unwrap().timeout(1), Some(LONGEST));
    }
}
