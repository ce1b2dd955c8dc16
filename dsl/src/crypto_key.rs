//! The wrapped keys of a clone family (format/2d 2).

use crate::dsl::Dsl;
use crate::error::DslError;
use crate::key_material::KeyFormat;
use cenote_base::ObjectId;
use cenote_codec::cipher::{
    AuthenticationFailed, KeyIdentity, Suite, WrappedKeys, WrappingKey, unwrap_keys,
};
use cenote_io::ObjsetKeys;
use cenote_ondisk::crypto_key::{CryptoKey as StoredKey, KeyFormat as StoredFormat};

/// A key object has 12 entries.
const ENTRIES_MAX: usize = 64;

/// The wrapped keys of a clone family.
#[derive(Clone, Debug)]
pub struct CryptoKey {
    /// The object.
    pub object: ObjectId,
    /// What it says.
    pub stored: StoredKey,
}

impl CryptoKey {
    /// Reads the key object of a clone family.
    pub(crate) fn load(dsl: &Dsl, object: ObjectId) -> Result<Self, DslError> {
        let zap = dsl.mos().zap(object)?;
        let entries: Vec<_> = zap.entries().take(ENTRIES_MAX).collect::<Result<_, _>>()?;
        let entries = entries.iter().map(|entry| (&entry.key, &entry.value));
        let stored = StoredKey::from_entries(entries);
        let stored = stored.map_err(|source| DslError::decode(object, source))?;
        Ok(Self { object, stored })
    }

    /// The encryption root's directory.
    pub fn root(&self) -> ObjectId {
        self.stored.root_directory
    }

    /// How the user's key is written; `None` for a key object that does not say.
    pub(crate) fn format(&self) -> Option<KeyFormat> {
        Some(match self.stored.key_format {
            StoredFormat::None => return None,
            StoredFormat::Raw => KeyFormat::Raw,
            StoredFormat::Hex => KeyFormat::Hex,
            StoredFormat::Passphrase => KeyFormat::Passphrase {
                salt: self.stored.pbkdf2_salt,
                iterations: self.stored.pbkdf2_iterations,
            },
        })
    }

    /// Opens the family's keys; fails if the user's key is the wrong one.
    pub(crate) fn unwrap(
        &self,
        wrapping: &WrappingKey,
    ) -> Result<ObjsetKeys, AuthenticationFailed> {
        let number = self.stored.suite.number();
        let suite = Suite::from_number(number).expect("both tables are those of format/2d 1");
        let identity = KeyIdentity {
            guid: self.stored.guid.0,
            suite,
            version: self.stored.version,
        };
        let wrapped = WrappedKeys {
            nonce: self.stored.iv,
            tag: self.stored.mac,
            master: self.stored.master_key,
            hmac: self.stored.hmac_key,
        };
        let (master, hmac) = unwrap_keys(wrapping, &identity, &wrapped)?;
        Ok(ObjsetKeys::new(master, hmac))
    }
}
