//! SHA-256 and SHA-512/256.

use super::digest_words;
use crate::{Endian, Words};
use sha2::{Digest, Sha256};

/// SHA-256 of `data` as the four big-endian words that ZFS stores on every host.
pub fn sha256(data: &[u8]) -> Words {
    sha256_pieces(&[data])
}

/// SHA-256 of the concatenation of `pieces`, for blocks whose embedded checksum field is replaced
/// by a verifier while it is computed (format/2a 3.5).
pub fn sha256_pieces(pieces: &[&[u8]]) -> Words {
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update(piece);
    }
    digest_words(&hash.finalize().into(), Endian::Big)
}

/// SHA-512/256 (the FIPS variant with its own initial values) of `data`.
pub fn sha512_256(data: &[u8]) -> [u8; 32] {
    super::sha512::hash(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn fips_examples() {
        let words = [
            0xba7816bf8f01cfea,
            0x414140de5dae2223,
            0xb00361a396177a9c,
            0xb410ff61f20015ad,
        ];
        assert_eq!(sha256(b"abc"), words);
        assert_eq!(sha256_pieces(&[b"a", b"", b"bc"]), words);
        let digest = hex("53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23");
        assert_eq!(sha512_256(b"abc")[..], digest);
    }
}
