//! A key that was changed at the sender of a raw stream (format/4 7.2).
//!
//! A raw increment contains the dataset's keys as they are wrapped at the sender now. If the user's
//! key was changed there, the copy adopts the new wrapping, so that the same key opens both.
//!
//! A dataset that is no encryption root uses its root's key. It adopts a wrapping only if its root
//! here seems to have the same key: for a passphrase, the salts must be equal. Otherwise the
//! dataset would be wrapped by a key that its root does not have.
//!
//! A package also says which datasets are encryption roots at the sender. A new dataset arrives as
//! a root of its own, and joins its parent's root if the package says so. A dataset that became a
//! root at the sender becomes one here.

use crate::crypto_key::CryptoKey;
use crate::dataset::Dataset;
use crate::directory::Directory;
use crate::error::DslError;
use crate::name::DatasetName;
use crate::write::context::{SyncContext, SyncTask};
use crate::write::properties::RECEIVED;
use cenote_base::ObjectId;
use cenote_dmu::zap::ZapValue;
use cenote_ondisk::crypto_key::{CryptoKey as StoredKey, KeyFormat, entries};
use cenote_ondisk::stream::CryptKeydata;
use std::sync::Arc;

/// Whose user key wraps a dataset's keys at the sender of a raw stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOwner {
    /// The stream does not say.
    Unknown,
    /// The dataset is an encryption root.
    Dataset,
    /// Its parent's encryption root.
    Parent,
}

/// The keys of a dataset as they will be stored.
#[derive(Debug)]
pub(crate) struct NewWrapping {
    /// The key object, with the encryption root from now on.
    key: CryptoKey,
    /// The encryption root until now.
    root_before: ObjectId,
    /// Other key objects that get the new root, too.
    followers: Vec<ObjectId>,
}

const KEY_LOCATION: &str = "keylocation";
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
fn is_given_alike(one: &StoredKey, other: &StoredKey) -> bool {
    one.key_format == other.key_format
        && one.pbkdf2_salt == other.pbkdf2_salt
        && one.pbkdf2_iterations == other.pbkdf2_iterations
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
    /// The key object of `target` as it will be, if the wrapping of `data` is to be taken over, or
    /// its encryption root changes.
    ///
    /// # Errors
    /// If another key of an encryption root is loaded: what is made below it would be wrapped by
    /// that one.
    pub(crate) fn plan_wrapping(
        &self,
        target: &Dataset,
        data: &CryptKeydata,
        owner: KeyOwner,
    ) -> Result<Option<NewWrapping>, DslError> {
        let directory = target.directory();
        let Some(key) = directory.crypto_key()? else {
            return Ok(None);
        };
        if key.stored.guid != data.guid {
            return Ok(None);
        }
        let Some(new) = key.rewrapped(data) else {
            return Ok(None);
        };
        if let Some(moved) = self.plan_root(directory, (key, &new), owner)? {
            return Ok(Some(moved));
        }
        if is_same(&key.stored, data) {
            return Ok(None);
        }
        let loaded = self.dsl.keys().wrapping_key(key.root());
        let opens = loaded.map(|loaded| new.unwrap(&loaded).is_ok());
        let kept_root = |new| NewWrapping {
            key: new,
            root_before: key.root(),
            followers: Vec::new(),
        };
        if key.root() == directory.id() {
            return match opens {
                Some(false) => Err(DslError::KeyRefused {
                    name: directory.name().clone(),
                    problem: OTHER_KEY_LOADED,
                }),
                Some(true) | None => Ok(Some(kept_root(new))),
            };
        }
        let is_alike = self.fits_root(key.root(), &new)?;
        Ok((is_alike && opens != Some(false)).then(|| kept_root(new)))
    }

    /// Whether the user's key of an encryption root seems to open `new`.
    fn fits_root(&self, root: ObjectId, new: &CryptoKey) -> Result<bool, DslError> {
        let root = self.dsl.directory_of(root)?;
        let of_root = root.crypto_key()?;
        Ok(of_root.is_some_and(|of_root| is_given_alike(&of_root.stored, &new.stored)))
    }

    /// The keys `new` with another encryption root, if the sender's is another one. A clone has its
    /// key from its origin, and keeps its root.
    fn plan_root(
        &self,
        directory: &Arc<Directory>,
        (key, new): (&CryptoKey, &CryptoKey),
        owner: KeyOwner,
    ) -> Result<Option<NewWrapping>, DslError> {
        if directory.origin().is_some() {
            return Ok(None);
        }
        let found = match owner {
            KeyOwner::Unknown => None,
            KeyOwner::Dataset => self.become_root(directory, key, new),
            KeyOwner::Parent => match self.join_parent(directory, key, new)? {
                // Its parent's root may become one only with a later stream. This one has the
                // keys, so the dataset is a root by itself until then.
                None if key.stored != new.stored && !self.fits_root(key.root(), new)? => {
                    self.become_root(directory, key, new)
                }
                found => found,
            },
        };
        Ok(found.map(|(root, followers)| {
            let mut key_after = new.clone();
            key_after.stored.root_directory = root;
            NewWrapping {
                key: key_after,
                root_before: key.root(),
                followers,
            }
        }))
    }

    /// The dataset itself as the encryption root, if it is none yet. If the root's key is loaded,
    /// it must open the new keys, too: what is open stays open.
    fn become_root(
        &self,
        directory: &Directory,
        key: &CryptoKey,
        new: &CryptoKey,
    ) -> Option<(ObjectId, Vec<ObjectId>)> {
        let loaded = self.dsl.keys().wrapping_key(key.root());
        let stays_open = loaded.is_none_or(|loaded| new.unwrap(&loaded).is_ok());
        (key.root() != directory.id() && stays_open).then(|| (directory.id(), Vec::new()))
    }

    /// The encryption root of the parent, and the key objects that get this root together with the
    /// dataset's own. `None` if the dataset has the root already, or the user's key of the root
    /// would not open all these keys as far as that shows.
    fn join_parent(
        &self,
        directory: &Arc<Directory>,
        key: &CryptoKey,
        new: &CryptoKey,
    ) -> Result<Option<(ObjectId, Vec<ObjectId>)>, DslError> {
        let Some(parent) = directory.parent() else {
            return Ok(None);
        };
        let Some(above) = parent.crypto_key()? else {
            return Ok(None);
        };
        let root = above.root();
        if root == key.root() || !self.has_key_from(parent, root, directory.id())? {
            return Ok(None);
        }
        let loaded = self.dsl.keys().wrapping_key(root);
        // What is open stays open.
        if loaded.is_none() && self.dsl.keys().is_loaded(key.root()) {
            return Ok(None);
        }
        let fits = |wrapped: &CryptoKey| {
            let opens = |loaded| wrapped.unwrap(loaded).is_ok();
            is_given_alike(&above.stored, &wrapped.stored) && loaded.as_ref().is_none_or(opens)
        };
        if !fits(new) {
            return Ok(None);
        }
        let mut followers = Vec::new();
        if key.root() == directory.id() {
            for heir in self.keyed_by(directory.id())? {
                let heir = heir.crypto_key()?.filter(|heir| heir.object != key.object);
                match heir {
                    None => {}
                    Some(heir) if fits(heir) => followers.push(heir.object),
                    Some(_) => return Ok(None),
                }
            }
        }
        Ok(Some((root, followers)))
    }

    /// Takes over a wrapping, and the encryption root with it.
    pub(crate) fn take_wrapping(
        &self,
        directory: ObjectId,
        new: &NewWrapping,
    ) -> Result<(), DslError> {
        let (root, before) = (new.key.root(), new.root_before);
        self.store_wrapping(&new.key)?;
        if root == before {
            return Ok(());
        }
        let store = self.dsl.keys();
        for object in new.followers.iter().chain([&new.key.object]) {
            self.set_number(*object, entries::ROOT.as_bytes(), root.0)?;
            store.set_root_of(*object, root);
        }
        if root == directory {
            store.copy_root(before, root);
            // The place of the sender's key means nothing here.
            return self.set_key_location(directory, Some("prompt"));
        }
        if before == directory {
            store.forget_root(directory);
        }
        let table = self.directory(directory)?.properties;
        self.remove_entry(table, format!("{KEY_LOCATION}{RECEIVED}").as_bytes())?;
        self.set_key_location(directory, None)
    }

    fn store_wrapping(&self, new: &CryptoKey) -> Result<(), DslError> {
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

/// Makes a dataset that came as an encryption root its parent's heir, if the user's key of the
/// parent's root seems to open it.
///
/// `zfs change-key -i` needs the keys for this. Here the sender says that they are the same.
#[derive(Debug)]
pub struct InheritKey {
    /// The dataset.
    pub name: DatasetName,
}

impl SyncTask for InheritKey {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        context.dsl.dataset(&self.name).map(drop)
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let head = context.dsl.dataset(&self.name)?;
        let directory = head.directory();
        let Some(key) = directory.crypto_key()? else {
            return Ok(());
        };
        match context.plan_root(directory, (key, key), KeyOwner::Parent)? {
            Some(new) => context.take_wrapping(directory.id(), &new),
            None => Ok(()),
        }
    }
}
