//! Compression of frames: none, LZ4 block, Zstandard. Contexts are kept; memory does not depend on the data.

use crate::error::{FormatError, Result};

/// How a frame's payload is compressed. The numbers are those on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Codec {
    /// As it is.
    None = 0,
    /// LZ4 block format, without a length prefix.
    Lz4 = 1,
    /// One Zstandard frame (RFC 8878).
    Zstd = 2,
}

impl Codec {
    /// The codec of that number, if this version of the format knows it.
    pub const fn from_u8(n: u8) -> Option<Self> {
        Some(match n {
            0 => Self::None,
            1 => Self::Lz4,
            2 => Self::Zstd,
            _ => return None,
        })
    }
}

/// What a compressor shall do with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Store.
    Store,
    /// LZ4.
    Lz4,
    /// Zstandard at a level from -7 (fastest) to 19.
    Zstd(i32),
}

/// Compresses frames; one per thread. Holds a Zstandard context, made at first use and told each frame's size.
#[derive(Default)]
pub struct Compressor {
    zstd: Option<(i32, zstd::bulk::Compressor<'static>)>,
}

impl Compressor {
    /// Compresses `plain` into `out` (cleared first). Returns the codec used, or `None` if the result would not be
    /// smaller than `plain` by at least a sixty-fourth: then it is stored as it is and `out` is not to be used.
    pub fn compress(&mut self, method: Method, plain: &[u8], out: &mut Vec<u8>) -> Option<Codec> {
        let most = plain.len() - plain.len().div_ceil(64).min(plain.len());
        let codec = match method {
            Method::Store => return None,
            Method::Lz4 => {
                let bound = lz4::block::compress_bound(plain.len()).ok()?;
                out.resize(bound, 0);
                let n = lz4::block::compress_to_buffer(plain, None, false, out).ok()?;
                out.truncate(n);
                Codec::Lz4
            }
            Method::Zstd(level) => {
                out.clear();
                // Told to fit what is worth keeping, zstd gives up by itself where it does not shrink.
                out.reserve(most.max(64));
                self.zstd(level)?.compress_to_buffer(plain, out).ok()?;
                Codec::Zstd
            }
        };
        (out.len() <= most).then_some(codec)
    }

    fn zstd(&mut self, level: i32) -> Option<&mut zstd::bulk::Compressor<'static>> {
        if !matches!(&self.zstd, Some((at, _)) if *at == level) {
            match &mut self.zstd {
                Some((at, context)) => {
                    context.set_compression_level(level).ok()?;
                    *at = level;
                }
                None => self.zstd = Some((level, zstd::bulk::Compressor::new(level).ok()?)),
            }
        }
        self.zstd.as_mut().map(|(_, c)| c)
    }
}

/// Decompresses frames; one per thread.
#[derive(Default)]
pub struct Decompressor {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Decompressor {
    /// Decompresses `stored` into `out`, which is resized to exactly `len` bytes. `len` has been bounded by the caller.
    pub fn decompress(
        &mut self,
        codec: Codec,
        stored: &[u8],
        len: usize,
        out: &mut Vec<u8>,
        what: &'static str,
    ) -> Result<()> {
        let bad = FormatError::Codec(what);
        out.resize(len, 0);
        let n = match codec {
            Codec::None if stored.len() == len => {
                out.copy_from_slice(stored);
                len
            }
            Codec::None => return Err(bad),
            Codec::Lz4 => {
                let len = i32::try_from(len).map_err(|_| bad.clone())?;
                lz4::block::decompress_to_buffer(stored, Some(len), out).map_err(|_| bad.clone())?
            }
            Codec::Zstd => {
                if self.zstd.is_none() {
                    self.zstd = Some(zstd::bulk::Decompressor::new().map_err(|_| bad.clone())?);
                }
                let Some(context) = self.zstd.as_mut() else { return Err(bad) };
                context.decompress_to_buffer(stored, &mut out[..]).map_err(|_| bad.clone())?
            }
        };
        if n == len { Ok(()) } else { Err(bad) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_reads_back_and_noise_is_stored() {
        let plain: Vec<u8> = (0..100_000u32).map(|i| (i / 100) as u8).collect();
        let mut state = 1u64;
        let noise: Vec<u8> = (0..100_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let (mut c, mut d) = (Compressor::default(), Decompressor::default());
        let (mut packed, mut out) = (Vec::new(), Vec::new());
        for method in [Method::Lz4, Method::Zstd(-3), Method::Zstd(1), Method::Zstd(9)] {
            let codec = c.compress(method, &plain, &mut packed).unwrap();
            assert!(packed.len() < plain.len() / 4);
            d.decompress(codec, &packed, plain.len(), &mut out, "test").unwrap();
            assert_eq!(out, plain);
            assert!(d.decompress(codec, &packed, plain.len() - 1, &mut out, "test").is_err());
            assert_eq!(c.compress(method, &noise, &mut packed), None, "{method:?}");
            assert_eq!(c.compress(method, b"", &mut packed), None);
        }
    }
}
