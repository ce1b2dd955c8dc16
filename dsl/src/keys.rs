//! Encryption keys of datasets: how they are stored, loaded and shared.
//!
//! Sources: format/2d 2 and 10. A directory's `com.datto:crypto_key_obj` names the object with
//! the wrapped master and HMAC keys of its clone family; the object names the *encryption root*,
//! the directory at which the user's key is given. Children that inherit have objects of their
//! own, wrapped with the same user's key. So a load keeps the wrapping key under the root's
//! directory, and each family's keys are unwrapped when first needed and shared from then on.
//! Unloading drops both; key types wipe themselves.

use crate::directory::Directory;
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::key_material::{KeyFormat, wrapping_key};
use cenote_base::{Guid, ObjectId};
use cenote_codec::cipher::{
    KeyIdentity, NONCE_LENGTH, Suite, TAG_LENGTH, WrappedKeys, WrappingKey, unwrap_keys,
};
use cenote_dmu::Zap;
use cenote_io::ObjsetKeys;
use cenote_ondisk::DecodeError;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const STRUCTURE: &str = "DSL crypto key";

/// The contents of a DSL crypto key object.
#[derive(Clone, Debug)]
pub struct CryptoKey {
    /// The object.
    pub object: ObjectId,
    /// What the wrapped keys are bound to: guid, suite, version.
    pub identity: KeyIdentity,
    /// The wrapped keys.
    pub wrapped: WrappedKeys,
    /// The encryption root's directory.
    pub root: ObjectId,
    /// Directories that share the object.
    pub references: Option<u64>,
    /// `keyformat` as stored: 1 raw, 2 hex, 3 passphrase.
    pub format: u64,
    /// `pbkdf2salt`.
    pub salt: u64,
    /// `pbkdf2iters`.
    pub iterations: u64,
}

impl CryptoKey {
    /// Reads the key object of a clone family.
    pub(crate) fn load(dsl: &Dsl, object: ObjectId) -> Result<Self, DslError> {
        let zap = dsl.mos().zap(object)?;
        let read = || -> Result<Self, DslError> {
            let number =
                |key: &'static str| -> Result<Option<u64>, DslError> { Ok(zap.lookup_u64(key)?) };
            let suite = number("DSL_CRYPTO_SUITE")?.unwrap_or(0);
            let suite = Suite::from_number(suite).ok_or_else(|| {
                let field = "suite";
                let (structure, value) = (STRUCTURE, suite);
                DslError::decode(
                    object,
                    DecodeError::BadValue {
                        structure,
                        field,
                        value,
                    },
                )
            })?;
            Ok(Self {
                object,
                identity: KeyIdentity {
                    guid: required(&zap, "DSL_CRYPTO_GUID")?,
                    suite,
                    version: number("DSL_CRYPTO_VERSION")?.unwrap_or(0),
                },
                wrapped: WrappedKeys {
                    nonce: bytes::<NONCE_LENGTH>(&zap, "DSL_CRYPTO_IV")?,
                    tag: bytes::<TAG_LENGTH>(&zap, "DSL_CRYPTO_MAC")?,
                    master: bytes::<32>(&zap, "DSL_CRYPTO_MASTER_KEY_1")?,
                    hmac: bytes::<64>(&zap, "DSL_CRYPTO_HMAC_KEY_1")?,
                },
                root: ObjectId(required(&zap, "DSL_CRYPTO_ROOT_DDOBJ")?),
                references: number("DSL_CRYPTO_REFCOUNT")?,
                format: number("keyformat")?.unwrap_or(0),
                salt: number("pbkdf2salt")?.unwrap_or(0),
                iterations: number("pbkdf2iters")?.unwrap_or(0),
            })
        };
        read()
    }

    /// The random id of the master key.
    pub fn guid(&self) -> Guid {
        Guid(self.identity.guid)
    }

    /// How the user's key is written.
    pub fn key_format(&self) -> Result<KeyFormat, DslError> {
        match self.format {
            1 => Ok(KeyFormat::Raw),
            2 => Ok(KeyFormat::Hex),
            3 => Ok(KeyFormat::Passphrase {
                salt: self.salt,
                iterations: self.iterations,
            }),
            value => {
                let (structure, field) = (STRUCTURE, "keyformat");
                let source = DecodeError::BadValue {
                    structure,
                    field,
                    value,
                };
                Err(DslError::decode(self.object, source))
            }
        }
    }
}

fn missing(zap: &Zap, key: &'static str) -> DslError {
    let structure = STRUCTURE;
    DslError::decode(zap.object().id(), DecodeError::Missing { structure, key })
}

fn required(zap: &Zap, key: &'static str) -> Result<u64, DslError> {
    zap.lookup_u64(key)?.ok_or_else(|| missing(zap, key))
}

fn bytes<const N: usize>(zap: &Zap, key: &'static str) -> Result<[u8; N], DslError> {
    let value = zap.lookup(key.as_bytes())?;
    let bytes = value.as_ref().and_then(|value| value.as_bytes());
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| missing(zap, key))
}

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

/// The keys that are loaded in one pool.
#[derive(Debug, Default)]
pub struct KeyStore {
    loaded: Mutex<Loaded>,
}

#[derive(Debug, Default)]
struct Loaded {
    /// The user's keys, by the directory of the encryption root.
    wrapping: HashMap<ObjectId, WrappingKey>,
    /// Unwrapped keys by key object, with the encryption root that they came from.
    families: HashMap<ObjectId, (ObjectId, Arc<ObjsetKeys>)>,
}

impl KeyStore {
    fn lock(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the key of this encryption root is loaded.
    pub fn is_loaded(&self, root: ObjectId) -> bool {
        self.lock().wrapping.contains_key(&root)
    }
}

impl Dsl {
    /// The key object of a directory's clone family; `None` for an unencrypted dataset.
    pub fn crypto_key(&self, directory: &Directory) -> Result<Option<CryptoKey>, DslError> {
        match directory.crypto_key()? {
            Some(object) => CryptoKey::load(self, object).map(Some),
            None => Ok(None),
        }
    }

    /// Whether a dataset is encrypted and its key loaded.
    pub fn key_status(&self, directory: &Directory) -> Result<KeyStatus, DslError> {
        Ok(match self.crypto_key(directory)? {
            None => KeyStatus::None,
            Some(key) if self.keys().is_loaded(key.root) => KeyStatus::Available,
            Some(_) => KeyStatus::Unavailable,
        })
    }

    /// The encryption root of a dataset; `None` for an unencrypted one.
    pub fn encryption_root(
        self: &Arc<Self>,
        directory: &Arc<Directory>,
    ) -> Result<Option<Arc<Directory>>, DslError> {
        let Some(key) = self.crypto_key(directory)? else {
            return Ok(None);
        };
        let mut at = Some(directory);
        while let Some(directory) = at {
            if directory.id() == key.root {
                return Ok(Some(Arc::clone(directory)));
            }
            at = directory.parent();
        }
        // The root of a clone family may be beside, not above, until the clone is promoted.
        self.directory_of(key.root).map(Some)
    }

    /// The keys of a directory's object sets, if it is encrypted and its key loaded.
    pub(crate) fn objset_keys(
        &self,
        directory: &Directory,
    ) -> Result<Option<Arc<ObjsetKeys>>, DslError> {
        let Some(object) = directory.crypto_key()? else {
            return Ok(None);
        };
        if let Some((_, keys)) = self.keys().lock().families.get(&object) {
            return Ok(Some(Arc::clone(keys)));
        }
        let key = CryptoKey::load(self, object)?;
        let mut loaded = self.keys().lock();
        let Some(wrapping) = loaded.wrapping.get(&key.root) else {
            return Ok(None);
        };
        let unwrapped = unwrap_keys(wrapping, &key.identity, &key.wrapped);
        let (master, hmac) = unwrapped.map_err(|_| DslError::WrongKey {
            name: directory.name().clone(),
        })?;
        let keys = Arc::new(ObjsetKeys::new(master, hmac));
        let entry = (key.root, Arc::clone(&keys));
        loaded.families.insert(object, entry);
        Ok(Some(keys))
    }

    /// The encryption root `directory`, or the reason why it is none.
    fn own_crypto_key(self: &Arc<Self>, directory: &Arc<Directory>) -> Result<CryptoKey, DslError> {
        let name = || directory.name().clone();
        let key = self.crypto_key(directory)?;
        let key = key.ok_or_else(|| DslError::NotEncrypted { name: name() })?;
        if key.root != directory.id() {
            let root = self.directory_of(key.root)?.name().clone();
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
        let wrapping = wrapping_key(material, key.key_format()?).map_err(|source| {
            let name = name();
            DslError::BadKeyMaterial { name, source }
        })?;
        let unwrapped = unwrap_keys(&wrapping, &key.identity, &key.wrapped);
        let (master, hmac) = unwrapped.map_err(|_| DslError::WrongKey { name: name() })?;
        if dry_run {
            return Ok(());
        }
        let keys = Arc::new(ObjsetKeys::new(master, hmac));
        let mut loaded = self.keys().lock();
        loaded.wrapping.insert(directory.id(), wrapping);
        loaded.families.insert(key.object, (directory.id(), keys));
        Ok(())
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
