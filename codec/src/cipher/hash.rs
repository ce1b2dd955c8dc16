//! The keyed and plain SHA-512 of authenticated blocks, object sets and indirect blocks.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha512};
use std::fmt;
use zeroize::Zeroizing;

/// The 64-byte HMAC key that belongs to a master key.
///
/// The bytes stay at one place until they are wiped, wherever their owner is moved to.
#[derive(Clone)]
pub struct HmacKey(Box<Zeroizing<[u8; 64]>>);

impl HmacKey {
    /// A key from its 64 bytes.
    pub fn new(bytes: [u8; 64]) -> Self {
        Self(Box::new(Zeroizing::new(bytes)))
    }

    /// The key's bytes, for wrapping.
    pub fn bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

impl fmt::Debug for HmacKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HmacKey(..)")
    }
}

/// HMAC-SHA512 of the concatenated `pieces`.
pub fn hmac_sha512(key: &HmacKey, pieces: &[&[u8]]) -> [u8; 64] {
    hmac_sha512_raw(key.bytes(), pieces)
}

/// HMAC-SHA512 under a key of any length.
pub(super) fn hmac_sha512_raw(key: &[u8], pieces: &[&[u8]]) -> [u8; 64] {
    let mut mac = <Hmac<Sha512> as KeyInit>::new_from_slice(key)
        .expect("HMAC takes keys of every length, hashing long ones");
    for piece in pieces {
        mac.update(piece);
    }
    mac.finalize().into_bytes().into()
}

/// Plain SHA-512 of the concatenated `pieces`.
pub fn sha512(pieces: &[&[u8]]) -> [u8; 64] {
    let mut hash = Sha512::new();
    for piece in pieces {
        hash.update(piece);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn fips_and_rfc_4231_examples() {
        let expected = hex(
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        );
        assert_eq!(sha512(&[b"a", b"bc"])[..], expected);
        // RFC 4231 test case 1: 20 bytes 0x0b, "Hi There".
        let expected = hex(
            "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde\
             daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
        );
        assert_eq!(
            hmac_sha512_raw(&[0x0b; 20], &[b"Hi ", b"There"])[..],
            expected
        );
        // A shorter key is padded with zeros, so the 64-byte key gives the same result.
        let mut key = [0; 64];
        key[..20].fill(0x0b);
        assert_eq!(
            hmac_sha512(&HmacKey::new(key), &[b"Hi There"])[..],
            expected
        );
    }
}
