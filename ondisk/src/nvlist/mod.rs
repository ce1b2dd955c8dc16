//! Name-value lists: the self-describing container of labels, configurations and history.
//!
//! Source: format/1a 1. A packed list is a 4-byte header and the list itself:
//!
//! ```text
//! 0 encoding: 0 native, 1 XDR   1 byte order of the packer: 1 little, 0 big   2 zero (2)
//! 4 the list: version (i32, 0), flags (u32), pairs, terminator
//! ```
//!
//! Labels and the MOS use XDR ([`xdr`]), always big-endian; history records and the cache file
//! are native ([`native`]), in the byte order of their writer. Lists nest in lists; decoding
//! keeps an explicit stack, bounded by [`DEPTH_MAX`], and never allocates more than a small
//! multiple of the input. Names and strings are bytes: extended attributes have names that are
//! not UTF-8. A repeated name hides the earlier pair, as in OpenZFS.

mod items;
mod list;
mod native;
mod native_encode;
mod print;
mod xdr;

pub use items::DEPTH_MAX;
pub use list::{FLAG_UNIQUE_NAME, NvList, NvPair, NvValue};
pub use print::print_list;

use items::{STRUCTURE, bad};

use crate::DecodeError;

/// The largest packed list that decodes.
pub const PACKED_SIZE_MAX: usize = 16 << 20;

impl NvList {
    /// Decodes a packed list, XDR or native, with its 4-byte header.
    ///
    /// Bytes after the terminator are ignored: lists stand in zero-padded areas.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_up_to(bytes, PACKED_SIZE_MAX)
    }

    /// As [`Self::decode`], of a list that may be larger than others: up to `size_max` bytes.
    pub fn decode_up_to(bytes: &[u8], size_max: usize) -> Result<Self, DecodeError> {
        let [encoding, order, zero1, zero2] = crate::wire::array(bytes, 0, STRUCTURE)?;
        if zero1 != 0 || zero2 != 0 {
            return bad("header", u64::from(zero1) << 8 | u64::from(zero2));
        }
        let body = &bytes[4..bytes.len().min(size_max)];
        match (encoding, order) {
            (0, 0) => native::decode(body, native::Order::Big),
            (0, 1) => native::decode(body, native::Order::Little),
            (1, 0 | 1) => Self::decode_xdr_body(body),
            (0 | 1, _) => bad("byte order", u64::from(order)),
            _ => bad("encoding", u64::from(encoding)),
        }
    }

    /// Decodes an XDR list that has no 4-byte header.
    pub fn decode_xdr_body(bytes: &[u8]) -> Result<Self, DecodeError> {
        xdr::decode(bytes)
    }

    /// The packed XDR form with its 4-byte header.
    pub fn encode_xdr(&self) -> Vec<u8> {
        xdr::encode(self)
    }

    /// The packed native form, little-endian, with its 4-byte header: of numbers, text, flags,
    /// arrays of numbers and bytes, and lists of those, which is what history records, resume
    /// tokens and send streams have.
    pub fn encode_native(&self) -> Vec<u8> {
        native_encode::encode(self)
    }
}

#[cfg(test)]
mod tests;
