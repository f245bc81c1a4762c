//! Settings of a drive: block limits, variable blocks, buffering, compression.

use super::Drive;
use crate::answers::mode::{self, Compression, ModeData};
use crate::bytes::{u16_at, u24_at};
use crate::transport::Data;
use crate::{BLOCK_MAX, Error, cdb};

/// Which block lengths the drive, the way to it and our format allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockLimits {
    /// The shortest block.
    pub min: usize,
    /// The longest block.
    pub max: usize,
}

/// What the drive says of the medium in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Medium {
    /// It cannot be written.
    pub write_protected: bool,
    /// Its density code, which tells its generation.
    pub density: u8,
    /// It can be appended to, never overwritten.
    pub worm: bool,
}

impl Drive {
    /// Makes drive and medium ready for use: variable blocks, buffered writing. To be called once a medium is loaded; after
    /// a reset it is done again with the next rewind or locate.
    pub fn prepare(&mut self) -> Result<Medium, Error> {
        self.block_limits()?;
        let data = self.mode(mode::PAGE_NONE)?;
        let as_wanted = data.block_len.is_none_or(|len| len == 0) && data.buffered;
        if !as_wanted {
            match self.select(&data, &[]) {
                // Where blocks are of variable length already, a drive that cannot be set may be as it is.
                Err(e) if e.is_unsupported() && data.block_len.is_none_or(|len| len == 0) => {}
                result => result?,
            }
            self.check_variable()?;
        }
        self.unset = false;
        let worm = self.is_worm(&data)?;
        Ok(Medium { write_protected: data.write_protected, density: data.density, worm })
    }

    /// By the page that says so, or by the code of its type, as drives of LTO have it (3Ch to 9Ch; 38h to 98h are rewritable).
    fn is_worm(&mut self, data: &ModeData) -> Result<bool, Error> {
        const WORM: u8 = 0x01;
        let by_type = matches!(data.medium_type, 0x3c | 0x4c | 0x5c | 0x6c | 0x7c | 0x8c | 0x9c)
            && (0x44..=0x60).contains(&data.density);
        let page = self.page(mode::PAGE_MEDIUM)?;
        Ok(by_type || page.is_some_and(|page| page.get(2).is_some_and(|flags| flags & WORM != 0)))
    }

    fn check_variable(&mut self) -> Result<(), Error> {
        match self.mode(mode::PAGE_NONE)?.block_len {
            None | Some(0) => Ok(()),
            Some(len) => {
                let why = format!("it stays with fixed blocks of {len} bytes");
                Err(self.device.senseless(cdb::mode_select6(false, 0), why))
            }
        }
    }

    /// The block lengths that can be used.
    pub fn block_limits(&mut self) -> Result<BlockLimits, Error> {
        if let Some(limits) = self.limits {
            return Ok(limits);
        }
        let bytes = self.device.answer(cdb::read_block_limits(), 6)?;
        let most = BLOCK_MAX.min(self.device.max_transfer());
        let limits = match (usize::from(u16_at(&bytes, 4)), u24_at(&bytes, 1) as usize) {
            // No limit stated.
            (min, 0) => BlockLimits { min: min.max(1), max: most },
            (min, max) => BlockLimits { min: min.max(1), max: max.min(most) },
        };
        self.limits = Some(limits);
        Ok(limits)
    }

    /// Whether the drive compresses.
    pub fn compression(&mut self) -> Result<Compression, Error> {
        if let Some(page) = self.page(mode::PAGE_COMPRESSION)? {
            return Ok(mode::compression(&page));
        }
        let page = self.page(mode::PAGE_CONFIGURATION)?;
        page.as_deref()
            .and_then(mode::old_compression)
            .ok_or_else(|| self.lacks("compression of its own"))
    }

    /// Switches compression on or off, and sees that it is.
    pub fn set_compression(&mut self, on: bool) -> Result<(), Error> {
        let now = self.compression()?;
        if now.on == on {
            return Ok(());
        }
        if on && !now.capable {
            return Err(self.lacks("compression of its own"));
        }
        let done = match self.page(mode::PAGE_COMPRESSION)? {
            Some(page) => self.set_page(&mode::with_compression(&page, on)),
            None => Err(self.lacks("page of compression")),
        };
        match done {
            Err(e) if e.is_unsupported() => {
                let page = self.page(mode::PAGE_CONFIGURATION)?;
                let page = page.ok_or_else(|| self.lacks("switch for its compression"))?;
                self.set_page(&mode::with_old_compression(&page, on))?;
            }
            done => done?,
        }
        match self.compression()?.on == on {
            true => Ok(()),
            false => Err(self.lacks("switch for its compression")),
        }
    }

    fn set_page(&mut self, page: &[u8]) -> Result<(), Error> {
        let data = self.mode(mode::PAGE_NONE)?;
        self.select(&data, page)
    }

    /// A page of settings, where the drive has it.
    fn page(&mut self, code: u8) -> Result<Option<Vec<u8>>, Error> {
        match self.mode(code) {
            Ok(data) => Ok(data.page(code).map(<[u8]>::to_vec)),
            Err(e) if e.is_unsupported() => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn mode(&mut self, page: u8) -> Result<ModeData, Error> {
        const LEN: u8 = 252;
        let short = cdb::mode_sense6(page, 0, LEN);
        if self.device.may_have(&short) {
            let bytes = self.device.answer(short, LEN.into())?;
            return Ok(ModeData::decode(&bytes, false));
        }
        let bytes = self.device.answer(cdb::mode_sense10(page, 0, LEN.into()), LEN.into())?;
        Ok(ModeData::decode(&bytes, true))
    }

    /// Sets what `data` had, with variable blocks.
    fn select(&mut self, data: &ModeData, page: &[u8]) -> Result<(), Error> {
        let with_page = !page.is_empty();
        let bytes = data.select(0, page, false);
        let short = cdb::mode_select6(with_page, bytes.len() as u8);
        if self.device.may_have(&short) {
            return self.device.run(short, Data::Out(&bytes)).map(drop);
        }
        let bytes = data.select(0, page, true);
        self.device.run(cdb::mode_select10(with_page, bytes.len()), Data::Out(&bytes)).map(drop)
    }

    pub(super) fn lacks(&self, what: &'static str) -> Error {
        Error::Unsupported { device: self.name().to_owned(), what }
    }
}
