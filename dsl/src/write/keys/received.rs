//! A key that was changed at the sender of a raw stream (format/4 7.2).
//!
//! A raw increment contains the dataset's keys as they are wrapped at the sender now. If the user's
//! key was changed there, the copy adopts the new wrapping, so that the same key opens both.
//!
//! A dataset that is no encryption root uses its root's key. It adopts a wrapping only if its root
//! here seems to have the same key: for a passphrase, the salts must be equal. Otherwise the
//! dataset would be wrapped by a key that its root does not have.

use crate::crypto_key::CryptoKey;
use crate::dataset::Dataset;
use crate::error::DslError;
use crate::write::context::SyncContext;
use cenote_dmu::zap::ZapValue;
use cenote_ondisk::crypto_key::{CryptoKey as StoredKey, KeyFormat, entries};
use cenote_ondisk::stream::CryptKeydata;

/// Why a wrapping cannot be taken over.
const OTHER_KEY_LOADED: &str = "The key was changed where the stream comes from, and the key \
     before it is loaded here. Unload it with 'zfs unload-key', and receive again.";

/// Whether a wrapping is the one that is there.
fn is_same(own: &StoredKey, data: &CryptKeydata) -> bool {
    own.iv == data.iv
        && own.mac == data.mac
        && own.master_key == data.master_key
        && own.hmac_key == data.hmac_key
}

/// Whether the user's key is given in the same way.
fn is_given_alike(own: &StoredKey, data: &CryptKeydata) -> bool {
    own.key_format.number() == data.key_format
        && own.pbkdf2_salt == data.pbkdf2_salt
        && own.pbkdf2_iterations == data.pbkdf2_iterations
}

impl CryptoKey {
    /// The same keys, wrapped as `data` says.
    fn rewrapped(&self, data: &CryptKeydata) -> Option<Self> {
        Some(Self {
            object: self.object,
            stored: StoredKey {
                iv: data.iv,
                mac: data.mac,
                master_key: data.master_key,
                hmac_key: data.hmac_key,
                key_format: KeyFormat::from_number(data.key_format)?,
                pbkdf2_salt: data.pbkdf2_salt,
                pbkdf2_iterations: data.pbkdf2_iterations,
                ..self.stored
            },
        })
    }
}

impl SyncContext<'_> {
    /// The key object of `target` as it will be, if the wrapping of `data` is to be taken over.
    ///
    /// # Errors
    /// If another key of an encryption root is loaded: what is made below it would be wrapped by
    /// that one.
    pub(crate) fn plan_wrapping(
        &self,
        target: &Dataset,
        data: &CryptKeydata,
    ) -> Result<Option<CryptoKey>, DslError> {
        let directory = target.directory();
        let Some(key) = directory.crypto_key()? else {
            return Ok(None);
        };
        if key.stored.guid != data.guid || is_same(&key.stored, data) {
            return Ok(None);
        }
        let Some(new) = key.rewrapped(data) else {
            return Ok(None);
        };
        let loaded = self.dsl.keys().wrapping_key(key.root());
        let opens = loaded.map(|loaded| new.unwrap(&loaded).is_ok());
        if key.root() == directory.id() {
            return match opens {
                Some(false) => Err(DslError::KeyRefused {
                    name: directory.name().clone(),
                    problem: OTHER_KEY_LOADED,
                }),
                Some(true) | None => Ok(Some(new)),
            };
        }
        let root = self.dsl.directory_of(key.root())?;
        let of_root = root.crypto_key()?;
        let is_alike = of_root.is_some_and(|root| is_given_alike(&root.stored, data));
        Ok((is_alike && opens != Some(false)).then_some(new))
    }

    /// Takes over a wrapping.
    pub(crate) fn take_wrapping(&self, new: &CryptoKey) -> Result<(), DslError> {
        let (object, stored) = (new.object, &new.stored);
        let zap = self.mos().zap(object)?;
        for (name, bytes) in [
            (entries::IV, stored.iv.as_slice()),
            (entries::MAC, &stored.mac),
            (entries::MASTER_KEY, &stored.master_key),
            (entries::HMAC_KEY, &stored.hmac_key),
        ] {
            zap.update(self.tx, name, &ZapValue::from_bytes(bytes))?;
        }
        for (name, number) in [
            (entries::KEY_FORMAT, stored.key_format.number()),
            (entries::SALT, stored.pbkdf2_salt),
            (entries::ITERATIONS, stored.pbkdf2_iterations),
        ] {
            zap.update(self.tx, name, &ZapValue::from_u64(number))?;
        }
        Ok(())
    }
}
