//! Native encryption: authenticated ciphers, the key hierarchy and keyed hashes.
//!
//! ```text
//! passphrase --PBKDF2--> wrapping key --AEAD--> master key, HMAC key   (once per dataset)
//! master key + 8-byte salt --HKDF--> block key                         (salt of each block)
//! block key + 12-byte nonce, clear bytes --AEAD--> ciphertext, 16-byte tag
//! ```
//!
//! The cipher is AES in CCM or GCM mode with 128, 192 or 256 bits (format/2d 1). Which bytes of a
//! block are encrypted and which only authenticated depends on its type and is the caller's
//! business: it gathers the bytes to encrypt into one buffer. Keys are wiped when dropped.

mod block;
mod ccm;
#[cfg(target_arch = "x86_64")]
mod ccm_x86;
mod hash;
mod wrap;

pub use block::{BlockKey, MasterKey};
pub use hash::{HmacKey, hmac_sha512, sha512};
pub use wrap::{KeyIdentity, WrappedKeys, WrappingKey, WrappingKeyError, unwrap_keys, wrap_keys};

/// Bytes of a nonce (IV), for blocks and for key wrapping alike.
pub const NONCE_LENGTH: usize = 12;

/// Bytes of an authentication tag (MAC).
pub const TAG_LENGTH: usize = 16;

/// The longest message that CCM can take: its length field has 3 bytes beside a 12-byte nonce.
pub const CCM_MESSAGE_MAX: usize = (1 << 24) - 1;

/// The cipher of a dataset, by the numbers of `DSL_CRYPTO_SUITE` (format/2d 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// Number 3.
    Aes128Ccm,
    /// Number 4.
    Aes192Ccm,
    /// Number 5.
    Aes256Ccm,
    /// Number 6.
    Aes128Gcm,
    /// Number 7.
    Aes192Gcm,
    /// Number 8, also what `encryption=on` means.
    Aes256Gcm,
}

impl Suite {
    /// The suite with this stored number; 0 to 2 (inherit, on, off) are property values only.
    pub fn from_number(number: u64) -> Option<Self> {
        match number {
            3 => Some(Self::Aes128Ccm),
            4 => Some(Self::Aes192Ccm),
            5 => Some(Self::Aes256Ccm),
            6 => Some(Self::Aes128Gcm),
            7 => Some(Self::Aes192Gcm),
            8 => Some(Self::Aes256Gcm),
            _ => None,
        }
    }

    /// The stored number.
    pub fn number(self) -> u64 {
        match self {
            Self::Aes128Ccm => 3,
            Self::Aes192Ccm => 4,
            Self::Aes256Ccm => 5,
            Self::Aes128Gcm => 6,
            Self::Aes192Gcm => 7,
            Self::Aes256Gcm => 8,
        }
    }

    /// Bytes of the master key and of block keys: 16, 24 or 32.
    pub fn key_length(self) -> usize {
        match self {
            Self::Aes128Ccm | Self::Aes128Gcm => 16,
            Self::Aes192Ccm | Self::Aes192Gcm => 24,
            Self::Aes256Ccm | Self::Aes256Gcm => 32,
        }
    }

    /// Whether the mode is GCM (else CCM).
    pub fn is_gcm(self) -> bool {
        matches!(self, Self::Aes128Gcm | Self::Aes192Gcm | Self::Aes256Gcm)
    }

    /// The same mode with a 256-bit key, which is what wraps keys of every length.
    fn with_long_key(self) -> Self {
        if self.is_gcm() {
            Self::Aes256Gcm
        } else {
            Self::Aes256Ccm
        }
    }
}

/// The tag does not belong to these bytes under this key: wrong key, or altered bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the authentication tag does not match")]
pub struct AuthenticationFailed;

/// A message of 16 MiB or more, which CCM cannot express ([`CCM_MESSAGE_MAX`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("AES-CCM takes fewer than 16 MiB, not {0} bytes")]
pub struct MessageTooLong(pub usize);
