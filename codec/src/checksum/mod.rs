//! Block checksums: what a block pointer's 256 bits are compared with.
//!
//! Every function takes the bytes **as stored** (after compression and encryption, with the zero
//! padding) and returns four words, or a digest that [`digest_words`] turns into words. Which
//! function a block uses, and how protected blocks fold the words, is the caller's knowledge
//! (format/2a 3). Fletcher is a sum and only detects accidents; the others are cryptographic, and
//! three of them are salted per pool so that an attacker cannot prepare colliding blocks.

mod edonr;
mod fletcher;
#[cfg(target_arch = "x86_64")]
mod fletcher_x86;
mod salt;
mod sha;
mod sha512;
#[cfg(target_arch = "x86_64")]
mod sha512_x86;
mod skein;
#[cfg(target_arch = "x86_64")]
mod skein_x86;

pub use fletcher::{Fletcher4, fletcher2, fletcher4};
pub use salt::Salt;
pub use sha::{sha256, sha256_pieces, sha512_256};

use crate::{Endian, Words};

/// The words of a 32-byte digest on a block of byte order `endian`.
///
/// SHA-512/256, Skein, Edon-R and BLAKE3 digests are read in the block's own order; SHA-256 is
/// always big-endian, which [`sha256`] does by itself (format/2a 3.3).
pub fn digest_words(digest: &[u8; 32], endian: Endian) -> Words {
    let (words, _) = digest.as_chunks::<8>();
    std::array::from_fn(|word| match endian {
        Endian::Little => u64::from_le_bytes(words[word]),
        Endian::Big => u64::from_be_bytes(words[word]),
    })
}
