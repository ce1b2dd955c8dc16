//! The DSL crypto key object: a ZAP with a dataset's wrapped keys.
//!
//! Source: format/2d 1 and 2. This module has the names of its entries and the numbers of suites
//! and key formats; [`CryptoKey`] gathers them from the ZAP's entries.

use crate::DecodeError;
use crate::zap::{Key, Value};
use cenote_base::{Guid, ObjectId};

/// Bytes of the wrapped HMAC key.
pub const HMAC_KEY_SIZE: usize = 64;
/// Bytes of the entry with the wrapped master key, of which the suite's key length is used.
pub const MASTER_KEY_SIZE: usize = 32;
/// Bytes of the wrapping IV.
pub const IV_SIZE: usize = 12;
/// Bytes of the wrapping MAC.
pub const MAC_SIZE: usize = 16;
/// The version that is written; 0 is read.
pub const VERSION: u64 = 1;

/// Names of the entries.
#[expect(missing_docs, reason = "named as the fields of a crypto key")]
pub mod entries {
    pub const SUITE: &str = "DSL_CRYPTO_SUITE";
    pub const GUID: &str = "DSL_CRYPTO_GUID";
    pub const VERSION: &str = "DSL_CRYPTO_VERSION";
    pub const IV: &str = "DSL_CRYPTO_IV";
    pub const MAC: &str = "DSL_CRYPTO_MAC";
    pub const MASTER_KEY: &str = "DSL_CRYPTO_MASTER_KEY_1";
    pub const HMAC_KEY: &str = "DSL_CRYPTO_HMAC_KEY_1";
    pub const ROOT: &str = "DSL_CRYPTO_ROOT_DDOBJ";
    pub const REFERENCES: &str = "DSL_CRYPTO_REFCOUNT";
    pub const KEY_FORMAT: &str = "keyformat";
    pub const SALT: &str = "pbkdf2salt";
    pub const ITERATIONS: &str = "pbkdf2iters";
}

const STRUCTURE: &str = "crypto key";

/// How a dataset is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as the property's values")]
pub enum EncryptionSuite {
    Aes128Ccm,
    Aes192Ccm,
    Aes256Ccm,
    Aes128Gcm,
    Aes192Gcm,
    Aes256Gcm,
}

impl EncryptionSuite {
    /// The suite with this number. 1 (on) is aes-256-gcm; 0 and 2 are no suite.
    pub fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            3 => Self::Aes128Ccm,
            4 => Self::Aes192Ccm,
            5 => Self::Aes256Ccm,
            6 => Self::Aes128Gcm,
            7 => Self::Aes192Gcm,
            1 | 8 => Self::Aes256Gcm,
            _ => return None,
        })
    }

    /// The number in the key object.
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

    /// The value of the property `encryption`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes128Ccm => "aes-128-ccm",
            Self::Aes192Ccm => "aes-192-ccm",
            Self::Aes256Ccm => "aes-256-ccm",
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes192Gcm => "aes-192-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
        }
    }

    /// Bytes of the master key.
    pub fn key_length(self) -> usize {
        match self {
            Self::Aes128Ccm | Self::Aes128Gcm => 16,
            Self::Aes192Ccm | Self::Aes192Gcm => 24,
            Self::Aes256Ccm | Self::Aes256Gcm => 32,
        }
    }
}

/// How the wrapping key is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the property's values")]
pub enum KeyFormat {
    None,
    Raw,
    Hex,
    Passphrase,
}

impl KeyFormat {
    /// The format with this number.
    pub fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            1 => Self::Raw,
            2 => Self::Hex,
            3 => Self::Passphrase,
            _ => return None,
        })
    }

    /// The number in the key object.
    pub fn number(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Raw => 1,
            Self::Hex => 2,
            Self::Passphrase => 3,
        }
    }

    /// The value of the property `keyformat`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Raw => "raw",
            Self::Hex => "hex",
            Self::Passphrase => "passphrase",
        }
    }
}

/// The entries of a key object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CryptoKey {
    /// The suite.
    pub suite: EncryptionSuite,
    /// Identifies the master key.
    pub guid: Guid,
    /// 1, or 0 in keys of old releases (errata 3).
    pub version: u64,
    /// IV of the wrapping.
    pub iv: [u8; IV_SIZE],
    /// MAC of the wrapping.
    pub mac: [u8; MAC_SIZE],
    /// The wrapped master key; the suite's key length of it is used.
    pub master_key: [u8; MASTER_KEY_SIZE],
    /// The wrapped HMAC key.
    pub hmac_key: [u8; HMAC_KEY_SIZE],
    /// The directory of the encryption root.
    pub root_directory: ObjectId,
    /// How many directories share the key object.
    pub references: u64,
    /// How the wrapping key is given.
    pub key_format: KeyFormat,
    /// Salt of a passphrase.
    pub pbkdf2_salt: u64,
    /// Iterations of a passphrase.
    pub pbkdf2_iterations: u64,
}

impl CryptoKey {
    /// Gathers the entries of the ZAP.
    pub fn from_entries<'a>(
        all: impl IntoIterator<Item = (&'a Key, &'a Value)>,
    ) -> Result<Self, DecodeError> {
        let all: Vec<_> = all.into_iter().collect();
        let find = |name: &'static str| {
            let entry = all.iter().find(|(key, _)| key.as_str() == Some(name));
            entry.map(|(_, value)| *value)
        };
        let number = |name| {
            find(name)
                .and_then(Value::as_u64)
                .ok_or(DecodeError::Missing {
                    structure: STRUCTURE,
                    key: name,
                })
        };
        let optional = |name| find(name).and_then(Value::as_u64).unwrap_or(0);
        let suite = number(entries::SUITE)?;
        let format = number(entries::KEY_FORMAT)?;
        Ok(Self {
            suite: EncryptionSuite::from_number(suite).ok_or(bad("suite", suite))?,
            guid: Guid(number(entries::GUID)?),
            version: match optional(entries::VERSION) {
                version @ 0..=VERSION => version,
                version => return Err(bad("version", version)),
            },
            iv: bytes(find(entries::IV), entries::IV)?,
            mac: bytes(find(entries::MAC), entries::MAC)?,
            master_key: bytes(find(entries::MASTER_KEY), entries::MASTER_KEY)?,
            hmac_key: bytes(find(entries::HMAC_KEY), entries::HMAC_KEY)?,
            root_directory: ObjectId(number(entries::ROOT)?),
            references: optional(entries::REFERENCES),
            key_format: KeyFormat::from_number(format).ok_or(bad("keyformat", format))?,
            pbkdf2_salt: optional(entries::SALT),
            pbkdf2_iterations: optional(entries::ITERATIONS),
        })
    }
}

/// The bytes of an entry of exactly this length.
fn bytes<const N: usize>(value: Option<&Value>, key: &'static str) -> Result<[u8; N], DecodeError> {
    let bytes = value.and_then(Value::as_bytes);
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or(DecodeError::Missing {
        structure: STRUCTURE,
        key,
    })
}

fn bad(field: &'static str, value: u64) -> DecodeError {
    DecodeError::BadValue {
        structure: STRUCTURE,
        field,
        value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<(Key, Value)> {
        let number = |name: &str, value| (Key::Name(name.into()), Value::from_u64(value));
        let bytes = |name: &str, length| {
            let value = Value {
                integer_size: 1,
                bytes: vec![7; length],
            };
            (Key::Name(name.into()), value)
        };
        vec![
            number("DSL_CRYPTO_SUITE", 8),
            number("DSL_CRYPTO_GUID", 5),
            number("DSL_CRYPTO_VERSION", 1),
            bytes("DSL_CRYPTO_IV", 12),
            bytes("DSL_CRYPTO_MAC", 16),
            bytes("DSL_CRYPTO_MASTER_KEY_1", 32),
            bytes("DSL_CRYPTO_HMAC_KEY_1", 64),
            number("DSL_CRYPTO_ROOT_DDOBJ", 9),
            number("DSL_CRYPTO_REFCOUNT", 1),
            number("keyformat", 3),
            number("pbkdf2salt", 10),
            number("pbkdf2iters", 350_000),
        ]
    }

    fn gather(entries: &[(Key, Value)]) -> Result<CryptoKey, DecodeError> {
        CryptoKey::from_entries(entries.iter().map(|(key, value)| (key, value)))
    }

    #[test]
    fn entries_are_gathered_and_required() {
        let key = gather(&entries()).expect("complete");
        assert_eq!(
            (key.suite.name(), key.suite.key_length()),
            ("aes-256-gcm", 32)
        );
        assert_eq!(
            (key.key_format, key.pbkdf2_iterations),
            (KeyFormat::Passphrase, 350_000)
        );
        let optional = [
            "DSL_CRYPTO_VERSION",
            "DSL_CRYPTO_REFCOUNT",
            "pbkdf2salt",
            "pbkdf2iters",
        ];
        for i in 0..entries().len() {
            let mut entries = entries();
            let (name, _) = entries.remove(i);
            let required = !optional.contains(&name.as_str().expect("text"));
            assert_eq!(gather(&entries).is_err(), required, "without {name:?}");
        }
        for number in 3..=8 {
            let suite = EncryptionSuite::from_number(number).expect("a suite");
            assert_eq!(suite.number(), number);
        }
        for number in 0..=3 {
            let format = KeyFormat::from_number(number).expect("a format");
            assert_eq!(format.number(), number);
        }
    }
}
