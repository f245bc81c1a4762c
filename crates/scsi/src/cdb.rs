//! Command descriptor blocks: the bytes of each command, its name in an operator's words, and its time.

use std::time::Duration;

/// A command as it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cdb {
    bytes: [u8; 16],
    len: usize,
}

/// The longest block that SSC's 6-byte commands can name.
pub const TRANSFER_MAX: usize = 0xff_ffff;

impl Cdb {
    fn new<const N: usize>(head: [u8; N]) -> Self {
        let mut bytes = [0; 16];
        bytes[..N].copy_from_slice(&head);
        Self { bytes, len: N }
    }

    fn put(mut self, at: usize, value: &[u8]) -> Self {
        self.bytes[at..at + value.len()].copy_from_slice(value);
        self
    }

    fn put_u24(self, at: usize, value: u32) -> Self {
        self.put(at, &value.to_be_bytes()[1..])
    }

    /// The bytes that go to the device.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The operation code.
    pub fn opcode(&self) -> u8 {
        self.bytes[0]
    }

    /// What the device is doing meanwhile, for messages: "writing a block".
    pub fn doing(&self) -> &'static str {
        match self.opcode() {
            0x00 => "being asked whether it is ready",
            0x01 => "rewinding",
            0x05 => "stating its block sizes",
            0x07 | 0x37 => "taking the inventory",
            0x08 => "reading a block",
            0x0a => "writing a block",
            0x10 if self.bytes[2..5] == [0; 3] => "writing its buffer to tape",
            0x10 => "writing a filemark",
            0x11 => "spacing",
            0x12 => "saying what it is",
            0x15 | 0x55 => "changing its settings",
            0x16 => "being reserved",
            0x17 => "being released",
            0x19 => "erasing",
            0x1a | 0x5a => "stating its settings",
            0x1b if self.bytes[4] & 1 != 0 => "loading the medium",
            0x1b => "unloading the medium",
            0x1e => "locking or unlocking the medium",
            0x2b | 0x92 => "locating",
            0x34 => "saying its position",
            0x4d => "stating its counters",
            0xa0 => "listing its logical units",
            0xa2 => "stating its encryption",
            0xa3 => "stating what it can do",
            0xa5 => "moving a medium",
            0xb5 => "taking an encryption key",
            0xb8 => "stating its inventory",
            _ => "carrying out a command",
        }
    }

    /// How long it may take on the slowest device that still works. What the device itself recommends
    /// ([`crate::answers::opcodes`]) replaces it where that is longer.
    pub fn timeout(&self) -> Duration {
        let minutes = match self.opcode() {
            // A whole tape is wound, or repositioning and retries of 8 MiB blocks at the slowest speed.
            0x01 | 0x08 | 0x0a | 0x10 | 0x11 | 0x2b | 0x92 => 60,
            // Loading a new LTO-9 medium optimises it: up to two hours.
            0x1b => 150,
            // A robot of a large library that has to look into every slot.
            0x07 | 0x37 => 120,
            0xa5 => 20,
            0xb8 => 15,
            // A whole LTO-9 tape takes 13 hours at its full speed; drives that erase do not always have that.
            0x19 => 24 * 60,
            // The rest answers from memory, but may wait for what another host started.
            _ => 3,
        };
        Duration::from_secs(minutes * 60)
    }

    /// May be sent again after the device was reset or got another medium: it does not depend on where the tape stands, nor
    /// on which it is.
    pub fn is_repeatable(&self) -> bool {
        !matches!(self.opcode(), 0x08 | 0x0a | 0x10 | 0x11 | 0x19 | 0x2b | 0x92 | 0xa5)
    }

    /// The allocation length in a way that any 16-bit field takes.
    fn length16(len: usize) -> [u8; 2] {
        u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes()
    }
}

/// TEST UNIT READY
pub fn test_unit_ready() -> Cdb {
    Cdb::new([0; 6])
}

/// INQUIRY, the standard data or a page.
pub fn inquiry(page: Option<u8>, len: usize) -> Cdb {
    let [high, low] = Cdb::length16(len);
    Cdb::new([0x12, page.is_some().into(), page.unwrap_or(0), high, low, 0])
}

/// REPORT LUNS
pub fn report_luns(len: u32) -> Cdb {
    Cdb::new([0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).put(6, &len.to_be_bytes())
}

/// REWIND
pub fn rewind() -> Cdb {
    Cdb::new([0x01, 0, 0, 0, 0, 0])
}

/// READ BLOCK LIMITS
pub fn read_block_limits() -> Cdb {
    Cdb::new([0x05, 0, 0, 0, 0, 0])
}

/// READ(6) of one block of variable length. A block of another length is reported.
pub fn read(len: usize) -> Cdb {
    Cdb::new([0x08, 0, 0, 0, 0, 0]).put_u24(2, len.min(TRANSFER_MAX) as u32)
}

/// WRITE(6) of one block of variable length.
pub fn write(len: usize) -> Cdb {
    Cdb::new([0x0a, 0, 0, 0, 0, 0]).put_u24(2, len.min(TRANSFER_MAX) as u32)
}

/// WRITE FILEMARKS(6); none and not immediate: writes the buffer to tape.
pub fn write_filemarks(count: u32, immediate: bool) -> Cdb {
    Cdb::new([0x10, immediate.into(), 0, 0, 0, 0]).put_u24(2, count)
}

/// ERASE(6): the whole tape from where it stands (long), or so little that nothing is recorded from there on.
pub fn erase(long: bool) -> Cdb {
    Cdb::new([0x19, long.into(), 0, 0, 0, 0])
}

/// What SPACE goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Blocks; ends at a filemark.
    Blocks,
    /// Filemarks.
    Filemarks,
    /// To the end of what is recorded.
    EndOfData,
}

/// The farthest that one SPACE(6) goes.
pub const SPACE_MAX: i64 = 0x7f_ffff;

/// SPACE(6); negative goes backwards. `count` is within ±[`SPACE_MAX`].
pub fn space(over: Over, count: i32) -> Cdb {
    let code = match over {
        Over::Blocks => 0,
        Over::Filemarks => 1,
        Over::EndOfData => 3,
    };
    Cdb::new([0x11, code, 0, 0, 0, 0]).put_u24(2, count as u32 & 0xff_ffff)
}

/// LOCATE(10), within the partition.
pub fn locate10(object: u32) -> Cdb {
    Cdb::new([0x2b, 0, 0, 0, 0, 0, 0, 0, 0, 0]).put(3, &object.to_be_bytes())
}

/// LOCATE(16) to a logical object, within the partition.
pub fn locate16(object: u64) -> Cdb {
    Cdb::new([0x92, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).put(4, &object.to_be_bytes())
}

/// READ POSITION, short (0) or long (6) form.
pub fn read_position(long: bool) -> Cdb {
    Cdb::new([0x34, if long { 6 } else { 0 }, 0, 0, 0, 0, 0, 0, 0, 0])
}

/// MODE SENSE(6): a page with the block descriptor.
pub fn mode_sense6(page: u8, subpage: u8, len: u8) -> Cdb {
    Cdb::new([0x1a, 0, page & 0x3f, subpage, len, 0])
}

/// MODE SENSE(10): a page with the block descriptor.
pub fn mode_sense10(page: u8, subpage: u8, len: usize) -> Cdb {
    Cdb::new([0x5a, 0, page & 0x3f, subpage, 0, 0, 0, 0, 0, 0]).put(7, &Cdb::length16(len))
}

/// MODE SELECT(6)
pub fn mode_select6(with_page: bool, len: u8) -> Cdb {
    Cdb::new([0x15, if with_page { 0x10 } else { 0 }, 0, 0, len, 0])
}

/// MODE SELECT(10)
pub fn mode_select10(with_page: bool, len: usize) -> Cdb {
    let flags = if with_page { 0x10 } else { 0 };
    Cdb::new([0x55, flags, 0, 0, 0, 0, 0, 0, 0, 0]).put(7, &Cdb::length16(len))
}

/// LOG SENSE of a page's current cumulative values.
pub fn log_sense(page: u8, len: usize) -> Cdb {
    Cdb::new([0x4d, 0, 0x40 | (page & 0x3f), 0, 0, 0, 0, 0, 0, 0]).put(7, &Cdb::length16(len))
}

/// LOAD UNLOAD
pub fn load_unload(load: bool) -> Cdb {
    Cdb::new([0x1b, 0, 0, 0, load.into(), 0])
}

/// PREVENT ALLOW MEDIUM REMOVAL
pub fn prevent_removal(prevent: bool) -> Cdb {
    Cdb::new([0x1e, 0, 0, 0, prevent.into(), 0])
}

/// RESERVE(6) of the whole device.
pub fn reserve() -> Cdb {
    Cdb::new([0x16, 0, 0, 0, 0, 0])
}

/// RELEASE(6)
pub fn release() -> Cdb {
    Cdb::new([0x17, 0, 0, 0, 0, 0])
}

/// REPORT SUPPORTED OPERATION CODES, with timeouts where wanted.
pub fn report_opcodes(with_timeouts: bool, len: u32) -> Cdb {
    let options = if with_timeouts { 0x80 } else { 0 };
    Cdb::new([0xa3, 0x0c, options, 0, 0, 0, 0, 0, 0, 0, 0, 0]).put(6, &len.to_be_bytes())
}

/// INITIALIZE ELEMENT STATUS: the changer looks into every slot.
pub fn initialize_element_status() -> Cdb {
    Cdb::new([0x07, 0, 0, 0, 0, 0])
}

/// READ ELEMENT STATUS of one type of elements with volume tags, and with the drives' identities where wanted.
pub fn read_element_status(kind: u8, from: u16, count: u16, identify: bool, len: u32) -> Cdb {
    Cdb::new([0xb8, 0x10 | (kind & 0x0f), 0, 0, 0, 0, identify.into(), 0, 0, 0, 0, 0])
        .put(2, &from.to_be_bytes())
        .put(4, &count.to_be_bytes())
        .put_u24(7, len)
}

/// MOVE MEDIUM
pub fn move_medium(robot: u16, source: u16, target: u16) -> Cdb {
    Cdb::new([0xa5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        .put(2, &robot.to_be_bytes())
        .put(4, &source.to_be_bytes())
        .put(6, &target.to_be_bytes())
}

/// SECURITY PROTOCOL IN: a page of the drive's encryption.
pub fn security_in(page: u16, len: u32) -> Cdb {
    security(0xa2, page, len)
}

/// SECURITY PROTOCOL OUT: a page of the drive's encryption.
pub fn security_out(page: u16, len: u32) -> Cdb {
    security(0xb5, page, len)
}

fn security(opcode: u8, page: u16, len: u32) -> Cdb {
    Cdb::new([opcode, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        .put(2, &page.to_be_bytes())
        .put(6, &len.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_standard() {
        assert_eq!(write(0x12_3456).bytes(), [0x0a, 0, 0x12, 0x34, 0x56, 0]);
        assert_eq!(space(Over::Blocks, -1).bytes(), [0x11, 0, 0xff, 0xff, 0xff, 0]);
        assert_eq!(space(Over::Filemarks, 2).bytes(), [0x11, 1, 0, 0, 2, 0]);
        assert_eq!(locate10(0x0102_0304).bytes(), [0x2b, 0, 0, 1, 2, 3, 4, 0, 0, 0]);
        let locate = [0x92, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0];
        assert_eq!(locate16(0x0102_0304_0506_0708).bytes(), locate);
        let status = [0xb8, 0x14, 1, 0, 0, 2, 1, 0, 2, 0, 0, 0];
        assert_eq!(read_element_status(4, 256, 2, true, 512).bytes(), status);
        let moving = [0xa5, 0, 0, 1, 3, 232, 1, 0, 0, 0, 0, 0];
        assert_eq!(move_medium(1, 1000, 256).bytes(), moving);
        assert_eq!(security_out(0x10, 52).bytes(), [0xb5, 0x20, 0, 0x10, 0, 0, 0, 0, 0, 52, 0, 0]);
        assert_eq!(log_sense(0x2e, 512).bytes(), [0x4d, 0, 0x6e, 0, 0, 0, 0, 2, 0, 0]);
        assert_eq!(inquiry(Some(0x80), 252).bytes(), [0x12, 1, 0x80, 0, 252, 0]);
        assert_eq!(write_filemarks(1, true).bytes(), [0x10, 1, 0, 0, 1, 0]);
        assert_eq!(erase(true).bytes(), [0x19, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn what_moves_the_tape_from_where_it_stands_is_never_repeated() {
        let never = [
            read(1),
            write(1),
            write_filemarks(1, true),
            erase(false),
            space(Over::Blocks, 1),
            locate16(7),
            move_medium(0, 1, 2),
        ];
        assert!(never.iter().all(|cdb| !cdb.is_repeatable()));
        assert!([rewind(), read_position(true), inquiry(None, 36)].iter().all(Cdb::is_repeatable));
    }
}
