//! Attachments of an array of tapes: whole on each member, under the same number.

use std::io;

use capstan_format::attachment::{Attachment, AttachmentHeader};
use capstan_format::id::SegmentNumber;
use capstan_format::record::MediumHeader;
use capstan_medium::{Device, DeviceError, NewAttachment};

use super::StoredMember;

/// What has that number, if it is an attachment on any of these members.
pub(super) fn find(
    members: &[StoredMember],
    number: SegmentNumber,
) -> io::Result<Option<Attachment>> {
    let (mut failed, mut asked) = (None, false);
    for member in members {
        match member.storage.attachment(number) {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => asked = true,
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    failed.filter(|_| !asked).map_or(Ok(None), Err)
}

/// The contents of an attachment, from the first member that has them whole.
pub(super) fn read(members: &[StoredMember], of: &Attachment) -> io::Result<Vec<u8>> {
    let mut failed = None;
    for member in members {
        match member.storage.read_attachment(of) {
            Ok(contents) => return Ok(contents),
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    Err(failed.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

/// Writes an attachment on each of these members, behind all that any of them has. It counts as written where all have it.
pub(super) fn append(
    members: &[StoredMember],
    new: &NewAttachment,
    least: SegmentNumber,
) -> Result<SegmentNumber, DeviceError> {
    let mut number = least;
    for member in members {
        let last = member.segments()?.into_iter().max().unwrap_or(SegmentNumber(0));
        number = number.max(SegmentNumber(last.0.saturating_add(1)));
    }
    let mut failed = None;
    for member in members {
        match member.storage.attach(new, number) {
            Ok(given) if given == number => {}
            Ok(given) => {
                failed = failed.or(Some(DeviceError::ArrayOutOfStep { given, number }));
            }
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    failed.map_or(Ok(number), Err)
}

/// Writes an attachment on a member that is written anew, which has that header; returns its bytes.
pub(in crate::rait) fn write(
    device: &mut dyn Device,
    medium: &MediumHeader,
    attachment: Attachment,
    contents: &[u8],
) -> Result<u64, DeviceError> {
    let failed = |source| DeviceError::Medium { path: medium.label.clone(), source };
    let header = AttachmentHeader { medium: medium.clone(), attachment };
    let (first, last) = (header.encode().map_err(failed)?, header.end(contents).map_err(failed)?);
    let mut bytes = (first.len() + last.len()) as u64;
    device.write(&first)?;
    for block in header.blocks(contents) {
        bytes += block.len() as u64;
        device.write(&block)?;
    }
    device.begin_catalog()?;
    device.write(&last)?;
    Ok(bytes)
}
