//! Pure transformations of bytes: checksums, compression, ciphers and raidz parity.
//!
//! Nothing here does I/O, keeps state between calls (other than pooled scratch memory) or knows
//! what a block means. Each algorithm is bit-exact with OpenZFS's on-disk format; where a vector
//! kernel exists, a portable twin defines what it must compute and the tests compare the two.
//!
//! **Invariant**: no function panics on, or allocates in proportion to, what stored bytes claim;
//! sizes come from the caller, which takes them from a checked block pointer.

#![deny(unsafe_code)]

pub mod checksum;
pub mod cipher;
pub mod compress;
pub mod parity;
pub mod token_text;

pub use compress::{Compression, DecompressError};

/// The byte order in which a block was written (bit B of its block pointer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// Least significant byte first: what every current host writes.
    Little,
    /// Most significant byte first: written by SPARC and POWER hosts.
    Big,
}

/// Four checksum words as they stand in a block pointer.
pub type Words = [u64; 4];

#[cfg(test)]
mod testing {
    /// Bytes of a hexadecimal string; spaces are skipped.
    pub(crate) fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text
            .bytes()
            .filter(|digit| !digit.is_ascii_whitespace())
            .collect();
        digits
            .chunks(2)
            .map(|pair| {
                let pair = std::str::from_utf8(pair).expect("hexadecimal digits are ASCII");
                u8::from_str_radix(pair, 16).expect("a test's own constant")
            })
            .collect()
    }
}
