//! The text of a token that people copy: bytes, deflated, with a checksum, in hexadecimal digits.
//!
//! It is `1-CHECKSUM-LENGTH-DATA`: DATA is what the token says, deflated, in hex; LENGTH its size
//! before deflating; CHECKSUM the first word of fletcher4 over the deflated bytes (format/4 6).
//! What the bytes mean is the caller's matter.

use crate::Endian;
use crate::checksum::fletcher4;
use crate::compress::{self, Compression};
use std::fmt::Write;

const VERSION: u32 = 1;
const ZLIB_LEVEL: u8 = 6;

/// The largest list that is unpacked: ten thousand times what a token has without redaction.
const PACKED_SIZE_MAX: usize = 1 << 20;

/// What is wrong with a token, in OpenZFS's words (format/4 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenProblem {
    /// It does not have four parts, or its numbers are none.
    #[error("resume token is corrupt (invalid format)")]
    Format,
    /// It is of another version.
    #[error("resume token is corrupt (invalid version {0})")]
    Version(u32),
    /// Its data is not made of hexadecimal digits.
    #[error("resume token is corrupt (payload is not hex-encoded)")]
    Digits,
    /// Its data is not what it was.
    #[error("resume token is corrupt (incorrect checksum)")]
    Checksum,
    /// Its data does not expand to the length that it claims.
    #[error("resume token is corrupt (decompression failed)")]
    Compression,
    /// It has no list, or one with entries missing.
    #[error("resume token is corrupt (nvlist_unpack failed)")]
    List,
}

/// The text of a token that says `packed`; `None` if it cannot be deflated, which a few hundred
/// bytes can.
pub fn to_text(packed: &[u8]) -> Option<String> {
    // Deflate stores what it cannot shrink with a few bytes more for each 64 KiB.
    let mut deflated = vec![0; packed.len() + packed.len() / 1024 + 64];
    let kind = Compression::Gzip(ZLIB_LEVEL);
    let length = compress::compress(kind, 0, packed, deflated.len(), &mut deflated)?;
    deflated.truncate(length);
    let checksum = fletcher4(&deflated, Endian::Little)[0];
    let mut text = format!("{VERSION}-{checksum:x}-{:x}-", packed.len());
    for byte in &deflated {
        write!(text, "{byte:02x}").expect("a string takes everything");
    }
    Some(text)
}

/// What a token that a user gave says.
///
/// # Errors
/// [`TokenProblem`] says what is wrong with it.
pub fn from_text(text: &str) -> Result<Vec<u8>, TokenProblem> {
    let mut parts = text.split('-');
    let mut part = || parts.next().ok_or(TokenProblem::Format);
    let version = part()?.parse().map_err(|_| TokenProblem::Format)?;
    let checksum = u64::from_str_radix(part()?, 16).map_err(|_| TokenProblem::Format)?;
    let size = usize::from_str_radix(part()?, 16).map_err(|_| TokenProblem::Format)?;
    let digits = part()?;
    if version != VERSION {
        return Err(TokenProblem::Version(version));
    }
    let deflated = unhex(digits.as_bytes()).ok_or(TokenProblem::Digits)?;
    if fletcher4(&deflated, Endian::Little)[0] != checksum {
        return Err(TokenProblem::Checksum);
    }
    if size > PACKED_SIZE_MAX {
        return Err(TokenProblem::Compression);
    }
    let mut packed = vec![0; size];
    compress::decompress(Compression::Gzip(ZLIB_LEVEL), &deflated, &mut packed)
        .map_err(|_| TokenProblem::Compression)?;
    Ok(packed)
}

/// The bytes of pairs of hexadecimal digits.
fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = digits.chunks_exact(2);
    pairs
        .map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8))
        .collect()
}
