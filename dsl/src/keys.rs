//! Encryption keys of datasets: how they are stored, loaded and shared.
//!
//! Sources: format/2d 2 and 10. A directory's `com.datto:crypto_key_obj` names the object with
//! the wrapped master and HMAC keys of its clone family; the object names the *encryption root*,
//! the directory at which the user's key is given. Children that inherit have objects of their
//! own, wrapped with the same user's key. So a load keeps the wrapping key under the root's
//! directory, and each family's keys are unwrapped when first needed and shared from then on.
//! Unloading drops both; key types wipe themselves.

use crate::crypto_key::CryptoKey;
use crate::directory::Directory;
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::key_material::wrapping_key;
use cenote_codec::cipher::WrappingKey;
use cenote_io::ObjsetKeys;
use cenote_ondisk::DecodeError;
use std::sync::Arc;

/// Whether a dataset's key is there (`keystatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStatus {
    /// The dataset is not encrypted.
    None,
    /// Its key is not loaded.
    Unavailable,
    /// Its key is loaded.
    Available,
}

impl Dsl {
    /// Whether a dataset is encrypted and its key loaded.
    pub fn key_status(&self, directory: &Directory) -> Result<KeyStatus, DslError> {
        Ok(match directory.crypto_key()? {
            None => KeyStatus::None,
            Some(key) if self.keys().is_loaded(key.root()) => KeyStatus::Available,
            Some(_) => KeyStatus::Unavailable,
        })
    }

    /// The encryption root of a dataset; `None` for an unencrypted one.
    pub fn encryption_root(
        self: &Arc<Self>,
        directory: &Arc<Directory>,
    ) -> Result<Option<Arc<Directory>>, DslError> {
        let Some(key) = directory.crypto_key()? else {
            return Ok(None);
        };
        let mut at = Some(directory);
        while let Some(directory) = at {
            if directory.id() == key.root() {
                return Ok(Some(Arc::clone(directory)));
            }
            at = directory.parent();
        }
        // The root of a clone family may be beside, not above, until the clone is promoted.
        self.directory_of(key.root()).map(Some)
    }

    /// The keys of a directory's object sets, if it is encrypted and its key loaded.
    pub(crate) fn objset_keys(
        &self,
        directory: &Directory,
    ) -> Result<Option<Arc<ObjsetKeys>>, DslError> {
        let Some(key) = directory.crypto_key()? else {
            return Ok(None);
        };
        let object = key.object;
        if let Some((_, keys)) = self.keys().lock().families.get(&object) {
            return Ok(Some(Arc::clone(keys)));
        }
        let mut loaded = self.keys().lock();
        let Some(wrapping) = loaded.wrapping.get(&key.root()) else {
            return Ok(None);
        };
        let keys = key.unwrap(wrapping).map_err(|_| DslError::WrongKey {
            name: directory.name().clone(),
        })?;
        let keys = Arc::new(keys);
        let entry = (key.root(), Arc::clone(&keys));
        loaded.families.insert(object, entry);
        Ok(Some(keys))
    }

    /// The encryption root `directory`, or the reason why it is none.
    fn own_crypto_key<'d>(
        self: &Arc<Self>,
        directory: &'d Arc<Directory>,
    ) -> Result<&'d CryptoKey, DslError> {
        let name = || directory.name().clone();
        let key = directory.crypto_key()?;
        let key = key.ok_or_else(|| DslError::NotEncrypted { name: name() })?;
        if key.root() != directory.id() {
            let root = self.directory_of(key.root())?.name().clone();
            return Err(DslError::NotEncryptionRoot { name: name(), root });
        }
        Ok(key)
    }

    /// Opens the keys of an encryption root with what the user gave; `dry_run` only checks it.
    ///
    /// The check is the unwrapping itself, which is authenticated. Deriving the key from a
    /// passphrase takes a good part of a second.
    ///
    /// # Errors
    /// Unless the dataset is an encryption root, its key not loaded yet and the material right.
    pub fn load_key(
        self: &Arc<Self>,
        directory: &Arc<Directory>,
        material: &[u8],
        dry_run: bool,
    ) -> Result<(), DslError> {
        let name = || directory.name().clone();
        let key = self.own_crypto_key(directory)?;
        if !dry_run && self.keys().is_loaded(directory.id()) {
            return Err(DslError::KeyLoaded { name: name() });
        }
        let format = key.format().ok_or_else(|| {
            let (structure, key_name) = ("crypto key", "keyformat");
            let source = DecodeError::Missing {
                structure,
                key: key_name,
            };
            DslError::decode(key.object, source)
        })?;
        let wrapping = wrapping_key(material, format).map_err(|source| {
            let name = name();
            DslError::BadKeyMaterial { name, source }
        })?;
        self.take_wrapping_key(directory, wrapping, dry_run)
    }

    /// As [`Self::load_key`], with the key that was derived from what the user gave.
    pub fn load_wrapping_key(
        self: &Arc<Self>,
        directory: &Arc<Directory>,
        wrapping: &[u8],
    ) -> Result<(), DslError> {
        let wrapping = WrappingKey::from_raw(wrapping).map_err(|_| DslError::WrongKey {
            name: directory.name().clone(),
        })?;
        self.take_wrapping_key(directory, wrapping, false)
    }

    fn take_wrapping_key(
        self: &Arc<Self>,
        directory: &Arc<Directory>,
        wrapping: WrappingKey,
        dry_run: bool,
    ) -> Result<(), DslError> {
        let key = self.own_crypto_key(directory)?;
        let keys = key.unwrap(&wrapping).map_err(|_| DslError::WrongKey {
            name: directory.name().clone(),
        })?;
        if dry_run {
            return Ok(());
        }
        let keys = Arc::new(keys);
        let mut loaded = self.keys().lock();
        loaded.wrapping.insert(directory.id(), wrapping);
        loaded.families.insert(key.object, (directory.id(), keys));
        Ok(())
    }

    /// The keys that are loaded, each with its encryption root.
    ///
    /// For other processes of the same user. Never pass them to another user.
    pub fn loaded_keys(self: &Arc<Self>) -> Result<Vec<(Arc<Directory>, WrappingKey)>, DslError> {
        // Looking for names reads the pool, so not under the lock.
        let loaded = self.keys().lock().wrapping.clone();
        let named = loaded
            .into_iter()
            .map(|(root, key)| Ok((self.directory_of(root)?, key)));
        named.collect()
    }

    /// Wipes the keys of an encryption root and all that was decrypted with them.
    ///
    /// # Errors
    /// If the key is not loaded, or something below the root is open.
    pub fn unload_key(self: &Arc<Self>, directory: &Arc<Directory>) -> Result<(), DslError> {
        let name = || directory.name().clone();
        self.own_crypto_key(directory)?;
        self.objsets.forget_encrypted();
        let mut loaded = self.keys().lock();
        let root = directory.id();
        if !loaded.wrapping.contains_key(&root) {
            return Err(DslError::KeyNotLoaded { name: name() });
        }
        let mut families = loaded.families.values();
        // Two references would be ours and another's: an open object set.
        if families.any(|(of, keys)| *of == root && Arc::strong_count(keys) > 1) {
            return Err(DslError::KeyBusy { name: name() });
        }
        loaded.wrapping.remove(&root);
        loaded.families.retain(|_, (of, _)| *of != root);
        drop(loaded);
        self.mos().cache().forget_decoded();
        Ok(())
    }
}
