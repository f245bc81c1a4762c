//! A header file that is damaged or missing: what the segments still say of the medium, and the file written anew.

use capstan_format::FormatError;
use capstan_format::block::{BLOCK_SIZE_MAX, BlockKind};
use capstan_format::record::{MediumHeader, decode_record};
use capstan_medium::error::io_error;
use capstan_medium::header::{header_block, header_in_segment, segments};
use capstan_medium::host::stores::LostHeader;
use capstan_medium::names::{HEADER_NAME, HEADER_TEMPORARY};
use capstan_medium::{DeviceError, OpenMedium};

use super::device::write_header;
use super::{Site, names_it};

/// Looks whether the header file of the medium in a store is damaged or missing. A store with neither a header file nor a
/// segment has no medium, and one whose format is too new has a header.
pub fn lost_header(site: &Site) -> Result<Option<LostHeader>, DeviceError> {
    let at = site.shown();
    let storage = match site.open() {
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => return Ok(None),
        opened => opened.map_err(io_error("open", at))?,
    };
    let numbers = segments(&*storage, at)?;
    let problem = match storage.open(HEADER_NAME) {
        Ok(file) => {
            let failed = |e| io_error("read", &format!("{at}/{HEADER_NAME}"))(e);
            let len = file.len().map_err(failed)?.min(BLOCK_SIZE_MAX.into());
            let mut bytes = vec![0; len as usize];
            let n = file.read_at(&mut bytes, 0).map_err(failed)?;
            match decode_record::<MediumHeader>(BlockKind::MediumHeader, &bytes[..n]) {
                Ok(_) | Err(FormatError::Newer { .. } | FormatError::UnknownFeatures(_)) => {
                    return Ok(None);
                }
                Err(e) => e.to_string(),
            }
        }
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(io_error("open", &format!("{at}/{HEADER_NAME}"))(e));
        }
        Err(_) if numbers.is_empty() => return Ok(None),
        Err(_) => "it is missing".to_owned(),
    };
    let mut headers: Vec<MediumHeader> = Vec::new();
    let mut newest = None;
    for number in &numbers {
        if let Some(header) = header_in_segment(&*storage, *number) {
            headers.retain(|known| *known != header);
            headers.push(header);
            newest = Some(*number);
        }
    }
    Ok(Some(LostHeader { problem, headers, newest, segments: numbers.len() }))
}

/// The medium in a store as one of this header, whatever its header file says.
pub fn medium_of(site: &Site, header: MediumHeader) -> Result<OpenMedium, DeviceError> {
    let storage = site.open().map_err(io_error("open", site.shown()))?;
    Ok(OpenMedium::of_header(storage, site.shown().to_owned(), header))
}

/// Writes the header file of the medium in a store anew, durably, while nobody writes to the medium.
pub fn rewrite_header(site: &Site, header: &MediumHeader) -> Result<(), DeviceError> {
    let at = site.shown();
    let storage = site.open().map_err(io_error("open", at))?;
    // Writers of a medium without a header file have to make one, under this lock.
    let _making = storage.lock_making().map_err(io_error("lock", at))?;
    let _held = match names_it(&*storage, HEADER_NAME) {
        true => Some(storage.lock_header(at)?),
        false => None,
    };
    let block = header_block(header, at)?;
    let write = || -> std::io::Result<()> {
        if storage.list()?.iter().any(|n| n == HEADER_TEMPORARY) {
            storage.remove(HEADER_TEMPORARY)?;
        }
        write_header(&*storage, &block)?;
        storage.replace(HEADER_TEMPORARY, HEADER_NAME)?;
        storage.sync()
    };
    write().map_err(io_error("write the header of the medium in", at))
}
