//! A lost member of an array written anew, from what the others have.

use std::io;

use capstan_address::Address;
use capstan_engine::buffer::Buffer;
use capstan_format::array::stamp::{Role, Stamp};
use capstan_format::id::SegmentNumber;
use capstan_medium::error::io_error;
use capstan_medium::host::arrays::{Follow, NewId, Rebuilt};
use capstan_medium::names::{GONE_SUFFIX, segment_number};
use capstan_medium::storage::Storage;
use capstan_medium::{Device, DeviceError};

use super::make::{is_blank_place, make_member};
use super::open::Opened;
use super::storage::{ArraySegment, number_of, write_attached};
use super::unfinished::Mark;
use super::writable::member_device;
use crate::host::LocalDevices;

/// Writes a member of an array anew, on a blank device, or in a store where that was begun before and did not end. The array is
/// to be held meanwhile.
pub fn member(
    host: &LocalDevices,
    array: &Opened,
    place: usize,
    onto: &Address,
    new_id: NewId<'_>,
    follow: Follow<'_>,
) -> Result<Rebuilt, DeviceError> {
    let at = onto.to_string();
    let mark = Mark::new(host, array.storage.header().medium, place, onto)?;
    mark.clear()?;
    if !is_blank_place(host, std::slice::from_ref(onto))? {
        return Err(DeviceError::NotBlank(at));
    }
    let id = new_id().map_err(io_error("make a new medium in", &at))?;
    array.storage.note_rebuilt(place, id);
    let header = array.storage.header_of(id, place);
    mark.put()?;
    make_member(host, onto, &header, new_id)?;
    let mut locks = Vec::new();
    let mut device = member_device(host, onto, &mut locks)?;
    let mut names = array.storage.list().map_err(io_error("list", &array.address.to_string()))?;
    names.sort_by_key(|name| number_of(name));
    let mut rebuilt = Rebuilt::default();
    for name in names.iter().filter(|name| number_of(name).is_some()) {
        let failed = || io_error("read", &format!("{name} of {}", array.address));
        let number = number_of(name).unwrap_or(SegmentNumber(0));
        if let Some(attachment) = array.storage.attachment(number).map_err(failed())? {
            match array.storage.read_attachment(&attachment) {
                Ok(contents) => {
                    device.advance(number);
                    device.begin_segment()?;
                    rebuilt.bytes += write_attached(&mut *device, &header, attachment, &contents)?;
                    device.end_segment()?;
                    device.commit()?;
                }
                Err(_) => rebuilt.damaged.push(number),
            }
            continue;
        }
        let segment = array.storage.open_segment(name).map_err(failed())?;
        device.advance(number);
        device.begin_segment()?;
        let (bytes, whole) = write_segment(&segment, place, &mut *device, follow)?;
        device.end_segment()?;
        device.commit()?;
        rebuilt.segments += 1;
        rebuilt.bytes += bytes;
        if !whole {
            rebuilt.damaged.push(number);
        }
    }
    for store in onto.stores() {
        let target = host.site(&store)?.open().map_err(io_error("open", &at))?;
        for name in names.iter().filter(|name| is_beside(name)) {
            let failed = io_error("copy", &format!("{name} to {at}"));
            copy(&*array.storage, &*target, name).map_err(failed)?;
        }
        target.sync().map_err(io_error("synchronise", &at))?;
    }
    // The one that was replaced must not be taken for the member when it comes back. Tapes keep their headers.
    if !Address::Array(array.address.clone()).is_sequential() {
        let failed = io_error("write the headers of", &array.address.to_string());
        array.storage.say_rebuilt(place).map_err(failed)?;
    }
    mark.remove()?;
    Ok(rebuilt)
}

/// Writes what a member has of a segment; returns its bytes, and whether it is whole.
fn write_segment(
    segment: &ArraySegment,
    place: usize,
    device: &mut dyn Device,
    follow: Follow<'_>,
) -> Result<(u64, bool), DeviceError> {
    let (mut bytes, mut whole) = (0, true);
    let mut write = |device: &mut dyn Device, block: &[u8]| {
        bytes += block.len() as u64;
        let stopped = || DeviceError::Io {
            action: "go on with".into(),
            path: "the member".to_owned(),
            source: io::Error::other(
                "it was stopped; do it again, on tape or an array after erasing it",
            ),
        };
        match follow(block.len() as u64) {
            true => device.write(block),
            false => Err(stopped()),
        }
    };
    let common = |block: &mut Buffer, len: usize| {
        let is_whole = Stamp::check(&block[..len]).is_ok();
        if is_whole {
            let crc = Stamp::crc_of(&block[..len]);
            let stamp = Stamp { role: Role::Common, member: place as u8, stripe: 0, crc };
            stamp.put(&mut block[..len]);
        }
        is_whole
    };
    let mut block = Buffer::new(segment.map().header_len() as usize);
    let len = segment.read_common(0, &mut block);
    whole &= common(&mut block, len);
    write(device, &block[..len])?;
    for stripe in 0..segment.map().stripes() {
        let role = segment.map().layout().role_of(stripe, place);
        let len = segment.map().len_of(stripe, role) as usize;
        if len == 0 {
            continue;
        }
        if block.len() < len {
            block = Buffer::new(len);
        }
        let out = &mut block[..len];
        if segment.member_block(stripe, place, out).is_none() {
            // It is known for damaged wherever it is read.
            out.fill(0);
            whole = false;
        }
        write(device, out)?;
    }
    device.begin_catalog()?;
    let mut at = segment.map().catalog_at();
    loop {
        let len = segment.read_common(at, &mut block);
        if len == 0 {
            return Ok((bytes, whole));
        }
        whole &= common(&mut block, len);
        write(device, &block[..len])?;
        at += len as u64;
    }
}

/// Whether a file lies beside the segments and is the same on all members.
fn is_beside(name: &str) -> bool {
    let is_idb_backup = name.starts_with("idb-") && name.ends_with(".capstan");
    crate::store::is_our_name(name)
        && (is_idb_backup
            || capstan_medium::held::is_lock_name(name) && !name.ends_with(".new")
            || segment_number(name, GONE_SUFFIX).is_some())
}

fn copy(from: &dyn Storage, to: &dyn Storage, name: &str) -> io::Result<()> {
    let (file, mut block) = (from.open(name)?, Buffer::new(1 << 20));
    let mut copied = to.create(name)?;
    let mut at = 0;
    loop {
        let n = file.read_at(&mut block, at)?;
        if n == 0 {
            return copied.sync();
        }
        copied.append(&block[..n])?;
        at += n as u64;
    }
}
