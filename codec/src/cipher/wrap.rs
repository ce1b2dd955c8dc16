//! Wrapping: how a dataset's master and HMAC keys are stored under the user's key (format/2d 2).

use super::block::{BlockKey, MasterKey};
use super::hash::HmacKey;
use super::{AuthenticationFailed, NONCE_LENGTH, Suite, TAG_LENGTH};
use sha1::Sha1;
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

/// Why a user's key material is no wrapping key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrappingKeyError {
    /// A raw key has 32 bytes.
    #[error("a raw key has 32 bytes, not {0}")]
    RawLength(usize),
    /// A hexadecimal key has 64 digits and nothing else.
    #[error("a hex key has 64 hexadecimal digits")]
    Hex,
    /// PBKDF2 needs at least one iteration, and a count of 32 bits.
    #[error("{0} iterations are not possible")]
    Iterations(u64),
}

/// The 32-byte key that the user holds, or that a passphrase turns into.
///
/// The bytes stay at one place until they are wiped, wherever their owner is moved to.
#[derive(Clone)]
pub struct WrappingKey(Box<Zeroizing<[u8; 32]>>);

impl WrappingKey {
    fn zero() -> Self {
        Self(Box::default())
    }

    /// The key itself, to be handed to another process of the same user.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// `keyformat=raw`.
    ///
    /// # Errors
    /// Unless `bytes` has length 32.
    pub fn from_raw(bytes: &[u8]) -> Result<Self, WrappingKeyError> {
        let mut key = Self::zero();
        if bytes.len() != key.0.len() {
            return Err(WrappingKeyError::RawLength(bytes.len()));
        }
        key.0.copy_from_slice(bytes);
        Ok(key)
    }

    /// `keyformat=hex`, without line end.
    ///
    /// # Errors
    /// Unless `digits` are 64 hexadecimal digits.
    pub fn from_hex(digits: &[u8]) -> Result<Self, WrappingKeyError> {
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return Err(WrappingKeyError::Hex);
        }
        let mut key = Self::zero();
        for (byte, pair) in key.0.iter_mut().zip(pairs) {
            let digit = |at: usize| (pair[at] as char).to_digit(16).ok_or(WrappingKeyError::Hex);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Ok(key)
    }

    /// `keyformat=passphrase`: PBKDF2-HMAC-SHA1; takes a good part of a second at the usual
    /// 350,000 iterations.
    ///
    /// # Errors
    /// If `iterations` is 0 or needs more than 32 bits.
    pub fn from_passphrase(
        passphrase: &[u8],
        salt: u64,
        iterations: u64,
    ) -> Result<Self, WrappingKeyError> {
        let error = WrappingKeyError::Iterations(iterations);
        let rounds = u32::try_from(iterations)
            .ok()
            .filter(|count| *count > 0)
            .ok_or(error)?;
        let mut key = Self::zero();
        pbkdf2::pbkdf2_hmac::<Sha1>(passphrase, &salt.to_le_bytes(), rounds, &mut **key.0);
        Ok(key)
    }
}

impl fmt::Debug for WrappingKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WrappingKey(..)")
    }
}

/// What the wrapped keys are bound to, so that they cannot be moved to another key object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyIdentity {
    /// `DSL_CRYPTO_GUID`.
    pub guid: u64,
    /// `DSL_CRYPTO_SUITE`.
    pub suite: Suite,
    /// `DSL_CRYPTO_VERSION`: 1, or 0 where the entry is absent.
    pub version: u64,
}

impl KeyIdentity {
    /// The clear bytes of wrapping: all three numbers, but the guid alone in version 0.
    fn clear_bytes(&self) -> Vec<u8> {
        let words = [self.guid, self.suite.number(), self.version];
        let count = if self.version == 0 { 1 } else { 3 };
        words[..count]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }
}

/// The stored entries of a DSL crypto key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrappedKeys {
    /// `DSL_CRYPTO_IV`.
    pub nonce: [u8; NONCE_LENGTH],
    /// `DSL_CRYPTO_MAC`.
    pub tag: [u8; TAG_LENGTH],
    /// `DSL_CRYPTO_MASTER_KEY_1`: as many bytes as the suite's key has, then zeros.
    pub master: [u8; 32],
    /// `DSL_CRYPTO_HMAC_KEY_1`.
    pub hmac: [u8; 64],
}

/// Opens the master and HMAC keys of a dataset with the user's key.
///
/// # Errors
/// If the wrapping key is the wrong one or the entries are damaged.
pub fn unwrap_keys(
    wrapping: &WrappingKey,
    identity: &KeyIdentity,
    wrapped: &WrappedKeys,
) -> Result<(MasterKey, HmacKey), AuthenticationFailed> {
    let length = identity.suite.key_length();
    let mut text = Zeroizing::new(Vec::with_capacity(length + 64));
    text.extend_from_slice(&wrapped.master[..length]);
    text.extend_from_slice(&wrapped.hmac);
    let cipher = BlockKey::new(identity.suite.with_long_key(), wrapping.expose());
    cipher.decrypt(
        &wrapped.nonce,
        &identity.clear_bytes(),
        &mut text,
        &wrapped.tag,
    )?;
    let mut master = [0; 32];
    master[..length].copy_from_slice(&text[..length]);
    let mut hmac = [0; 64];
    hmac.copy_from_slice(&text[length..]);
    let keys = (MasterKey::new(identity.suite, master), HmacKey::new(hmac));
    master.zeroize();
    hmac.zeroize();
    Ok(keys)
}

/// Seals a dataset's keys under the user's key; `nonce` must be fresh and random.
pub fn wrap_keys(
    wrapping: &WrappingKey,
    identity: &KeyIdentity,
    nonce: [u8; NONCE_LENGTH],
    master: &MasterKey,
    hmac: &HmacKey,
) -> WrappedKeys {
    assert_eq!(
        master.suite(),
        identity.suite,
        "the identity is the master key's"
    );
    let length = identity.suite.key_length();
    let mut text = Zeroizing::new(Vec::with_capacity(length + 64));
    text.extend_from_slice(master.bytes());
    text.extend_from_slice(hmac.bytes());
    let cipher = BlockKey::new(identity.suite.with_long_key(), wrapping.expose());
    let tag = cipher
        .encrypt(&nonce, &identity.clear_bytes(), &mut text)
        .expect("96 bytes are no long message");
    let mut wrapped = WrappedKeys {
        nonce,
        tag,
        master: [0; 32],
        hmac: [0; 64],
    };
    wrapped.master[..length].copy_from_slice(&text[..length]);
    wrapped.hmac.copy_from_slice(&text[length..]);
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn pbkdf2_is_the_salt_in_little_endian() {
        // RFC 6070's salt "salt" has 4 bytes; here it is the 8 bytes "saltSALT". The expected key
        // was computed with Python's
        // hashlib.pbkdf2_hmac("sha1", b"password", b"saltSALT", 4096, 32).
        let salt = u64::from_le_bytes(*b"saltSALT");
        let key = WrappingKey::from_passphrase(b"password", salt, 4096).expect("valid count");
        let expected = hex(PBKDF2_EXPECTED);
        assert_eq!(key.0[..], expected);
        let result = WrappingKey::from_passphrase(b"password", salt, 0);
        assert_eq!(result.err(), Some(WrappingKeyError::Iterations(0)));
        assert!(WrappingKey::from_passphrase(b"password", salt, 1 << 32).is_err());
    }

    const PBKDF2_EXPECTED: &str =
        "1ec9431ed2c5898eb33d37baa7316c2b10109c674e69f9f142d30fe5dec27bc1";

    #[test]
    fn raw_and_hex_keys() {
        let digits = b"00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
        let key = WrappingKey::from_hex(digits).expect("64 digits");
        assert_eq!(key.0[..4], [0, 0x11, 0x22, 0x33]);
        assert_eq!(key.0[31], 0xff);
        assert!(WrappingKey::from_hex(&digits[1..]).is_err());
        assert!(WrappingKey::from_hex(&[b'g'; 64]).is_err());
        assert!(WrappingKey::from_hex(&[b'+'; 64]).is_err());
        assert_eq!(
            *WrappingKey::from_raw(&[5; 32]).expect("32 bytes").expose(),
            [5; 32]
        );
        let result = WrappingKey::from_raw(&[5; 33]);
        assert_eq!(result.err(), Some(WrappingKeyError::RawLength(33)));
    }

    #[test]
    fn wrapped_keys_are_bound_to_their_identity() {
        let wrapping = WrappingKey::from_raw(&[9; 32]).expect("32 bytes");
        for number in 3..=8 {
            let suite = Suite::from_number(number).expect("a suite");
            for version in [0, 1] {
                let identity = KeyIdentity {
                    guid: 0x1234_5678_9abc,
                    suite,
                    version,
                };
                let master = MasterKey::new(suite, [3; 32]);
                let hmac = HmacKey::new([4; 64]);
                let wrapped = wrap_keys(&wrapping, &identity, [1; 12], &master, &hmac);
                assert!(
                    wrapped.master[suite.key_length()..]
                        .iter()
                        .all(|byte| *byte == 0)
                );
                let (back, back_hmac) =
                    unwrap_keys(&wrapping, &identity, &wrapped).expect("the same identity");
                assert_eq!(
                    (back.bytes(), back_hmac.bytes()),
                    (master.bytes(), hmac.bytes())
                );

                let other = KeyIdentity {
                    guid: 1,
                    ..identity
                };
                assert!(unwrap_keys(&wrapping, &other, &wrapped).is_err());
                let other = KeyIdentity {
                    version: version + 1,
                    ..identity
                };
                assert!(unwrap_keys(&wrapping, &other, &wrapped).is_err());
                assert!(
                    unwrap_keys(
                        &WrappingKey::from_raw(&[8; 32]).expect("32 bytes"),
                        &identity,
                        &wrapped
                    )
                    .is_err()
                );
            }
        }
    }
}
