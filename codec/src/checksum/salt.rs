//! The pool's salt with the keyed states of the three salted checksums.

use super::edonr::EdonR;
use super::skein::Skein;
use std::fmt;

/// The pool's 32-byte checksum salt, with each salted function's state after the salt.
///
/// The states cost a few microseconds, so one `Salt` is made per pool and shared (format/2a 3.4).
#[derive(Clone)]
pub struct Salt {
    bytes: [u8; 32],
    skein: Skein,
    edonr: EdonR,
}

impl Salt {
    /// Prepares the keyed states from `org.illumos:checksum_salt`.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self {
            bytes,
            skein: Skein::keyed(&bytes, 256),
            edonr: EdonR::salted(&bytes),
        }
    }

    /// The salt itself.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// Skein-512-256 with the salt as MAC key.
    pub fn skein(&self, data: &[u8]) -> [u8; 32] {
        first_half(&self.skein.hash(data))
    }

    /// Edon-R-512 over the salt's block and `data`, cut to 32 bytes.
    pub fn edonr(&self, data: &[u8]) -> [u8; 32] {
        first_half(&self.edonr.hash(data))
    }

    /// Keyed BLAKE3.
    pub fn blake3(&self, data: &[u8]) -> [u8; 32] {
        *blake3::keyed_hash(&self.bytes, data).as_bytes()
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Salt").finish_non_exhaustive()
    }
}

fn first_half(digest: &[u8; 64]) -> [u8; 32] {
    let mut half = [0; 32];
    half.copy_from_slice(&digest[..32]);
    half
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn blake3_known_answer() {
        // The official vectors: this key, input of 3 bytes 0, 1, 2.
        let salt = Salt::new(*b"whats the Elvish word for friend");
        let expected = hex("39e67b76b5a007d4921969779fe666da67b5213b096084ab674742f0d5ec62b9");
        assert_eq!(salt.blake3(&[0, 1, 2])[..], expected);
    }

    #[test]
    fn the_salt_matters_to_all_three() {
        let (one, two) = (Salt::new([1; 32]), Salt::new([2; 32]));
        assert_ne!(one.skein(b"data"), two.skein(b"data"));
        assert_ne!(one.edonr(b"data"), two.edonr(b"data"));
        assert_ne!(one.blake3(b"data"), two.blake3(b"data"));
    }
}
