//! Master keys, and the block keys derived from them that encrypt blocks.

use super::ccm::{self, Direction, Portable};
#[cfg(target_arch = "x86_64")]
use super::ccm_x86::AesNi;
use super::hash::hmac_sha512_raw;
use super::{AuthenticationFailed, MessageTooLong, NONCE_LENGTH, Suite, TAG_LENGTH};
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes128Gcm, Aes256Gcm, AesGcm};
use std::fmt;
use zeroize::Zeroizing;

type Aes192Gcm = AesGcm<aes::Aes192, U12>;

/// The secret of a dataset's clone family, from which every block key is derived.
///
/// The bytes stay at one place until they are wiped, wherever their owner is moved to.
#[derive(Clone)]
pub struct MasterKey {
    suite: Suite,
    /// `suite.key_length()` bytes, the rest zero.
    bytes: Box<Zeroizing<[u8; 32]>>,
    /// The extraction half of HKDF, which does not depend on the block's salt.
    extracted: Box<Zeroizing<[u8; 64]>>,
}

impl MasterKey {
    /// A key of `suite` from the front of `bytes`; those beyond its key length do not count.
    pub fn new(suite: Suite, bytes: [u8; 32]) -> Self {
        let length = suite.key_length();
        let mut own: Box<Zeroizing<[u8; 32]>> = Box::default();
        own[..length].copy_from_slice(&bytes[..length]);
        let mut extracted: Box<Zeroizing<[u8; 64]>> = Box::new(Zeroizing::new([0; 64]));
        extracted.copy_from_slice(&hmac_sha512_raw(&[], &[&own[..length]]));
        Self {
            suite,
            bytes: own,
            extracted,
        }
    }

    /// The cipher that the key is for.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The key itself, for wrapping.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.suite.key_length()]
    }

    /// The key of all blocks that have this `salt`: HKDF-SHA512 with the salt as info, one
    /// expansion round because no key is longer than a hash (format/2d 3).
    pub fn block_key(&self, salt: [u8; 8]) -> BlockKey {
        let key = Zeroizing::new(self.expand(salt));
        BlockKey::new(self.suite, &key[..self.suite.key_length()])
    }

    fn expand(&self, salt: [u8; 8]) -> [u8; 64] {
        hmac_sha512_raw(&self.extracted[..], &[&salt, &[1]])
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MasterKey")
            .field("suite", &self.suite)
            .finish_non_exhaustive()
    }
}

enum Cipher {
    Gcm128(Aes128Gcm),
    Gcm192(Aes192Gcm),
    Gcm256(Aes256Gcm),
    Ccm(Portable),
    #[cfg(target_arch = "x86_64")]
    CcmVector(AesNi),
}

/// An expanded cipher key, ready to encrypt and decrypt.
pub struct BlockKey {
    cipher: Box<Cipher>,
}

impl BlockKey {
    /// `key` must have the suite's key length.
    pub(super) fn new(suite: Suite, key: &[u8]) -> Self {
        assert_eq!(
            key.len(),
            suite.key_length(),
            "the caller cuts keys to the suite's length"
        );
        let cipher = Self::gcm(suite, key).or_else(|| Self::ccm(key));
        Self {
            cipher: Box::new(cipher.expect("the key has a length of AES")),
        }
    }

    fn gcm(suite: Suite, key: &[u8]) -> Option<Cipher> {
        match suite {
            Suite::Aes128Gcm => Aes128Gcm::new_from_slice(key).ok().map(Cipher::Gcm128),
            Suite::Aes192Gcm => Aes192Gcm::new_from_slice(key).ok().map(Cipher::Gcm192),
            Suite::Aes256Gcm => Aes256Gcm::new_from_slice(key).ok().map(Cipher::Gcm256),
            Suite::Aes128Ccm | Suite::Aes192Ccm | Suite::Aes256Ccm => None,
        }
    }

    fn ccm(key: &[u8]) -> Option<Cipher> {
        #[cfg(target_arch = "x86_64")]
        if let Some(cipher) = AesNi::new(key) {
            return Some(Cipher::CcmVector(cipher));
        }
        Portable::new(key).map(Cipher::Ccm)
    }

    /// Decrypts `buffer` in place and checks `tag` over it and the clear bytes `aad`.
    ///
    /// # Errors
    /// If the tag does not match; no plaintext is left in `buffer` then.
    pub fn decrypt(
        &self,
        nonce: &[u8; NONCE_LENGTH],
        aad: &[u8],
        buffer: &mut [u8],
        tag: &[u8; TAG_LENGTH],
    ) -> Result<(), AuthenticationFailed> {
        match &*self.cipher {
            Cipher::Gcm128(cipher) => gcm_decrypt(cipher, nonce, aad, buffer, tag),
            Cipher::Gcm192(cipher) => gcm_decrypt(cipher, nonce, aad, buffer, tag),
            Cipher::Gcm256(cipher) => gcm_decrypt(cipher, nonce, aad, buffer, tag),
            Cipher::Ccm(cipher) => ccm_decrypt(cipher, nonce, aad, buffer, tag),
            #[cfg(target_arch = "x86_64")]
            Cipher::CcmVector(cipher) => ccm_decrypt(cipher, nonce, aad, buffer, tag),
        }
    }

    /// Encrypts `buffer` in place and returns the tag over it and the clear bytes `aad`.
    ///
    /// The nonce must not have been used with this key before.
    ///
    /// # Errors
    /// Only with CCM, if `buffer` has 16 MiB or more.
    pub fn encrypt(
        &self,
        nonce: &[u8; NONCE_LENGTH],
        aad: &[u8],
        buffer: &mut [u8],
    ) -> Result<[u8; TAG_LENGTH], MessageTooLong> {
        match &*self.cipher {
            Cipher::Gcm128(cipher) => gcm_encrypt(cipher, nonce, aad, buffer),
            Cipher::Gcm192(cipher) => gcm_encrypt(cipher, nonce, aad, buffer),
            Cipher::Gcm256(cipher) => gcm_encrypt(cipher, nonce, aad, buffer),
            Cipher::Ccm(cipher) => ccm::run(cipher, nonce, aad, buffer, Direction::Encrypt),
            #[cfg(target_arch = "x86_64")]
            Cipher::CcmVector(cipher) => ccm::run(cipher, nonce, aad, buffer, Direction::Encrypt),
        }
    }
}

impl fmt::Debug for BlockKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("BlockKey(..)")
    }
}

fn gcm_decrypt<A: aes_gcm::KeySizeUser>(
    cipher: &AesGcm<A, U12>,
    nonce: &[u8; NONCE_LENGTH],
    aad: &[u8],
    buffer: &mut [u8],
    tag: &[u8; TAG_LENGTH],
) -> Result<(), AuthenticationFailed>
where
    AesGcm<A, U12>: AeadInOut<NonceSize = U12, TagSize = aes_gcm::aead::consts::U16>,
{
    cipher
        .decrypt_inout_detached(&(*nonce).into(), aad, buffer.into(), &(*tag).into())
        .map_err(|_| AuthenticationFailed)
}

fn gcm_encrypt<A: aes_gcm::KeySizeUser>(
    cipher: &AesGcm<A, U12>,
    nonce: &[u8; NONCE_LENGTH],
    aad: &[u8],
    buffer: &mut [u8],
) -> Result<[u8; TAG_LENGTH], MessageTooLong>
where
    AesGcm<A, U12>: AeadInOut<NonceSize = U12, TagSize = aes_gcm::aead::consts::U16>,
{
    let length = buffer.len();
    cipher
        .encrypt_inout_detached(&(*nonce).into(), aad, buffer.into())
        .map(Into::into)
        .map_err(|_| MessageTooLong(length))
}

fn ccm_decrypt(
    cipher: &impl ccm::Blocks,
    nonce: &[u8; NONCE_LENGTH],
    aad: &[u8],
    buffer: &mut [u8],
    tag: &[u8; TAG_LENGTH],
) -> Result<(), AuthenticationFailed> {
    let computed = ccm::run(cipher, nonce, aad, buffer, Direction::Decrypt)
        .map_err(|MessageTooLong(_)| AuthenticationFailed)?;
    // One pass without early exit, so that timing does not tell how much of a tag was right.
    let difference = computed
        .iter()
        .zip(tag)
        .fold(0, |all, (a, b)| all | (a ^ b));
    if std::hint::black_box(difference) == 0 {
        return Ok(());
    }
    buffer.fill(0);
    Err(AuthenticationFailed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;
    use proptest::prelude::*;

    const SUITES: [Suite; 6] = [
        Suite::Aes128Ccm,
        Suite::Aes192Ccm,
        Suite::Aes256Ccm,
        Suite::Aes128Gcm,
        Suite::Aes192Gcm,
        Suite::Aes256Gcm,
    ];

    fn nonce(text: &str) -> [u8; 12] {
        hex(text).try_into().expect("12 bytes")
    }

    #[test]
    fn gcm_test_cases_4_10_16() {
        // McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B.
        let key = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
        let plain = hex(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
             1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        );
        let aad = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let nonce = nonce("cafebabefacedbaddecaf888");
        let cases = [
            (
                Suite::Aes128Gcm,
                "42831ec2",
                "5bc94fbc3221a5db94fae95ae7121a47",
            ),
            (
                Suite::Aes192Gcm,
                "3980ca0b",
                "2519498e80f1478f37ba55bd6d27618c",
            ),
            (
                Suite::Aes256Gcm,
                "522dc1f0",
                "76fc6ece0f4e1768cddf8853bb2d551b",
            ),
        ];
        for (suite, start, expected_tag) in cases {
            let key = BlockKey::new(suite, &hex(key)[..suite.key_length()]);
            let mut buffer = plain.clone();
            let tag = key.encrypt(&nonce, &aad, &mut buffer).expect("short");
            assert_eq!(buffer[..4], hex(start));
            assert_eq!(tag[..], hex(expected_tag));
            key.decrypt(&nonce, &aad, &mut buffer, &tag)
                .expect("what was just encrypted");
            assert_eq!(buffer, plain);
        }
    }

    #[test]
    fn hkdf_known_answer() {
        // HKDF-SHA512 by Python's hmac module: key 0, 1, .. 31, no salt, info a0 .. a7.
        let master = MasterKey::new(Suite::Aes256Gcm, std::array::from_fn(|at| at as u8));
        let key = master.expand(std::array::from_fn(|at| 0xa0 + at as u8));
        let expected = hex("eca74b820b8c08db83943fba7d14602698473e5d881973ae0873dad3cbd288d0");
        assert_eq!(key[..32], expected);
    }

    #[test]
    fn short_suites_use_only_their_part_of_the_bytes() {
        let mut bytes = [7; 32];
        let short = MasterKey::new(Suite::Aes128Gcm, bytes);
        bytes[16..].fill(9);
        let same = MasterKey::new(Suite::Aes128Gcm, bytes);
        assert_eq!(short.bytes(), &[7; 16]);
        assert_eq!(short.extracted, same.extracted);
    }

    proptest! {
        #[test]
        fn round_trip_and_every_alteration_fails(
            master in any::<[u8; 32]>(),
            salt in any::<[u8; 8]>(),
            nonce in any::<[u8; 12]>(),
            aad in proptest::collection::vec(any::<u8>(), 0..100),
            plain in proptest::collection::vec(any::<u8>(), 1..600),
            at in any::<prop::sample::Index>(),
        ) {
            for suite in SUITES {
                let key = MasterKey::new(suite, master).block_key(salt);
                let mut sealed = plain.clone();
                let tag = key.encrypt(&nonce, &aad, &mut sealed).expect("short");
                prop_assert_ne!(&sealed, &plain);
                let mut buffer = sealed.clone();
                prop_assert_eq!(key.decrypt(&nonce, &aad, &mut buffer, &tag), Ok(()));
                prop_assert_eq!(&buffer, &plain);

                let mut buffer = sealed.clone();
                buffer[at.index(plain.len())] ^= 1;
                let result = key.decrypt(&nonce, &aad, &mut buffer, &tag);
                prop_assert_eq!(result, Err(AuthenticationFailed));
                let mut other = aad.clone();
                other.push(0);
                let result = key.decrypt(&nonce, &other, &mut sealed.clone(), &tag);
                prop_assert_eq!(result, Err(AuthenticationFailed));
                let mut wrong = tag;
                wrong[at.index(16)] ^= 0x80;
                let result = key.decrypt(&nonce, &aad, &mut sealed, &wrong);
                prop_assert_eq!(result, Err(AuthenticationFailed));
                let other = MasterKey::new(suite, master).block_key(salt.map(|byte| !byte));
                let result = other.decrypt(&nonce, &aad, &mut sealed, &tag);
                prop_assert_eq!(result, Err(AuthenticationFailed));
            }
        }
    }

    #[test]
    fn only_clear_bytes_still_have_a_tag() {
        for suite in SUITES {
            let key = MasterKey::new(suite, [1; 32]).block_key([2; 8]);
            let tag = key.encrypt(&[3; 12], b"clear", &mut []).expect("empty");
            assert_eq!(key.decrypt(&[3; 12], b"clear", &mut [], &tag), Ok(()));
            let result = key.decrypt(&[3; 12], b"clean", &mut [], &tag);
            assert_eq!(result, Err(AuthenticationFailed));
        }
    }

    #[test]
    fn suites_have_the_numbers_of_the_format() {
        for (suite, number) in SUITES.into_iter().zip(3..) {
            assert_eq!(suite.number(), number);
            assert_eq!(Suite::from_number(number), Some(suite));
        }
        assert_eq!([0, 1, 2, 9, 64].map(Suite::from_number), [None; 5]);
    }
}
