//! Creating encrypted datasets and rewrapping their keys (format/2d 2 and 10).
//!
//! A new encrypted dataset draws a master key and an HMAC key, which never change. They are stored
//! wrapped by a user's key: the dataset's own if it becomes an encryption root, else its parent's.
//! Changing the user's key therefore rewrites the key objects of all datasets below that share it,
//! but no data.
//!
//! The user's key is derived before a task is queued: stretching a passphrase takes a good part of
//! a second, and would block the pool's syncing thread for that time.

use crate::crypto_key::CryptoKey;
use crate::directory::Directory;
use crate::error::DslError;
use crate::key_material::{KeyFormat, wrapping_key};
use crate::name::DatasetName;
use crate::property::stored::Stored;
use crate::write::context::{SyncContext, SyncTask};
use crate::write::properties::Setting;
use cenote_base::{Env, ObjectId};
use cenote_codec::cipher::{
    HmacKey, KeyIdentity, MasterKey, NONCE_LENGTH, Suite, WrappedKeys, WrappingKey,
};
use cenote_dmu::zap::ZapValue;
use cenote_io::ObjsetKeys;
use cenote_ondisk::ObjectType;
use cenote_ondisk::crypto_key::{self, EncryptionSuite, KeyFormat as StoredFormat, entries};
use cenote_ondisk::dsl_dir;
use cenote_ondisk::features;
use cenote_ondisk::stream::CryptKeydata;
use std::collections::BTreeMap;
use std::sync::Arc;
use zeroize::Zeroizing;

const KEY_LOCATION: &str = "keylocation";
const NEEDS_FORMAT: &str = "Keyformat required for new encryption root.";

/// How a new key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewKeyFormat {
    /// 32 bytes.
    Raw,
    /// 64 hexadecimal digits.
    Hex,
    /// Words, stretched by PBKDF2 with a new salt.
    Passphrase {
        /// `pbkdf2iters`.
        iterations: u64,
    },
}

/// A user's key, ready to wrap datasets' keys.
#[derive(Clone, Debug)]
pub struct UserKey {
    wrapping: WrappingKey,
    format: StoredFormat,
    salt: u64,
    iterations: u64,
    location: Option<String>,
}

impl UserKey {
    /// Derives the key of the encryption root `name` from what its user gave; `location` is where
    /// the user keeps it.
    ///
    /// # Errors
    /// If the material is no key of that format, or no random numbers are available.
    pub fn derive(
        name: &DatasetName,
        material: &[u8],
        format: NewKeyFormat,
        location: &str,
        env: &dyn Env,
    ) -> Result<Self, DslError> {
        let (format, stored, salt, iterations) = match format {
            NewKeyFormat::Raw => (KeyFormat::Raw, StoredFormat::Raw, 0, 0),
            NewKeyFormat::Hex => (KeyFormat::Hex, StoredFormat::Hex, 0, 0),
            NewKeyFormat::Passphrase { iterations } => {
                let salt = u64::from_le_bytes(random(env)?);
                let format = KeyFormat::Passphrase { salt, iterations };
                (format, StoredFormat::Passphrase, salt, iterations)
            }
        };
        let wrapping = wrapping_key(material, format);
        let wrapping = wrapping.map_err(|source| DslError::BadKeyMaterial {
            name: name.clone(),
            source,
        })?;
        Ok(Self {
            wrapping,
            format: stored,
            salt,
            iterations,
            location: Some(location.to_owned()),
        })
    }

    /// The key by which a dataset's keys are wrapped, if it is loaded.
    fn of_loaded(key: &CryptoKey, context: &SyncContext<'_>) -> Option<Self> {
        Some(Self {
            wrapping: context.dsl.keys().wrapping_key(key.root())?,
            format: key.stored.key_format,
            salt: key.stored.pbkdf2_salt,
            iterations: key.stored.pbkdf2_iterations,
            location: None,
        })
    }
}

/// Whether a new dataset is encrypted.
#[derive(Clone, Debug, Default)]
pub enum Encryption {
    /// As its parent is, with its parent's key.
    #[default]
    Inherit,
    /// Not, even below an encrypted dataset.
    Off,
    /// It is.
    On {
        /// The cipher; `None` for that of its parent, or aes-256-gcm.
        suite: Option<EncryptionSuite>,
        /// The key that makes it an encryption root; `None` for its parent's.
        key: Option<UserKey>,
    },
}

/// What a new dataset's keys will be wrapped by.
#[derive(Clone, Debug)]
pub struct KeyPlan {
    suite: EncryptionSuite,
    key: UserKey,
    /// The encryption root; `None` for the dataset itself.
    root: Option<ObjectId>,
}

pub(crate) fn random<const N: usize>(env: &dyn Env) -> Result<[u8; N], DslError> {
    let mut bytes = [0; N];
    let filled = env.fill_random(&mut bytes);
    filled.map_err(|source| DslError::Randomness { source })?;
    Ok(bytes)
}

fn codec_suite(suite: EncryptionSuite) -> Suite {
    Suite::from_number(suite.number()).expect("both tables are those of format/2d 1")
}

impl SyncContext<'_> {
    /// Decides how a new dataset's keys are wrapped; `None` if it is not encrypted.
    ///
    /// # Errors
    /// If it would need its parent's key and that is not loaded, or has none; or if the pool lacks
    /// the feature.
    pub fn plan_encryption(
        &self,
        name: &DatasetName,
        parent: Option<&Directory>,
        wanted: &Encryption,
    ) -> Result<Option<KeyPlan>, DslError> {
        let above = match parent {
            Some(parent) => parent.crypto_key()?,
            None => None,
        };
        let (suite, key) = match (wanted, above) {
            (Encryption::Off, _) | (Encryption::Inherit, None) => return Ok(None),
            (Encryption::Inherit, Some(_)) => (None, None),
            (Encryption::On { suite, key }, _) => (*suite, key.as_ref()),
        };
        if self.dsl.features().get(features::ENCRYPTION).is_none() {
            return Err(DslError::FeatureDisabled {
                feature: "encryption".to_owned(),
            });
        }
        let suite = suite.or(above.map(|key| key.stored.suite));
        let suite = suite.unwrap_or(EncryptionSuite::Aes256Gcm);
        if let Some(key) = key {
            let (key, root) = (key.clone(), None);
            return Ok(Some(KeyPlan { suite, key, root }));
        }
        let name = || name.clone();
        let above = above.ok_or_else(|| DslError::KeyRefused {
            name: name(),
            problem: NEEDS_FORMAT,
        })?;
        let key = UserKey::of_loaded(above, self);
        let key = key.ok_or_else(|| DslError::KeyRequired { name: name() })?;
        let root = Some(above.root());
        Ok(Some(KeyPlan { suite, key, root }))
    }

    /// Gives a new dataset its keys, before it has an object set.
    pub fn create_keys(
        &self,
        directory: ObjectId,
        head: ObjectId,
        plan: &KeyPlan,
    ) -> Result<Arc<ObjsetKeys>, DslError> {
        let env = self.pool.env().as_ref();
        let suite = codec_suite(plan.suite);
        let master = Zeroizing::new(random(env)?);
        let hmac = Zeroizing::new(random(env)?);
        let (master, hmac) = (MasterKey::new(suite, *master), HmacKey::new(*hmac));
        let keys = Arc::new(ObjsetKeys::new(master, hmac));
        let identity = KeyIdentity {
            guid: self.random_guid()?,
            suite,
            version: crypto_key::VERSION,
        };
        let object = self.create_table(ObjectType::ZAP_METADATA)?;
        for (name, value) in [
            (entries::SUITE, suite.number()),
            (entries::GUID, identity.guid),
            (entries::VERSION, identity.version),
            (entries::REFERENCES, 1),
        ] {
            self.set_number(object, name.as_bytes(), value)?;
        }
        let root = plan.root.unwrap_or(directory);
        self.wrap(object, root, &identity, &keys, &plan.key)?;
        self.set_extension(directory, dsl_dir::fields::CRYPTO_KEY, object.0)?;
        self.use_dataset_feature(head, features::ENCRYPTION)?;
        if plan.root.is_none() {
            self.set_key_location(directory, plan.key.location.as_deref())?;
        }
        let wrapping = plan.root.is_none().then(|| plan.key.wrapping.clone());
        let store = self.dsl.keys();
        store.add(root, wrapping, object, &keys);
        Ok(keys)
    }

    /// Gives a new dataset the keys that came with a raw stream, wrapped as its sender keeps them;
    /// the dataset is an encryption root.
    pub(crate) fn adopt_keys(
        &self,
        directory: ObjectId,
        head: ObjectId,
        data: &CryptKeydata,
    ) -> Result<(), DslError> {
        let object = self.create_table(ObjectType::ZAP_METADATA)?;
        let zap = self.mos().zap(object)?;
        for (name, number) in [
            (entries::SUITE, data.suite),
            (entries::GUID, data.guid.0),
            (entries::VERSION, data.version),
            (entries::REFERENCES, 1),
            (entries::ROOT, directory.0),
            (entries::KEY_FORMAT, data.key_format),
            (entries::SALT, data.pbkdf2_salt),
            (entries::ITERATIONS, data.pbkdf2_iterations),
        ] {
            self.set_number(object, name.as_bytes(), number)?;
        }
        for (name, bytes) in [
            (entries::IV, data.iv.as_slice()),
            (entries::MAC, &data.mac),
            (entries::MASTER_KEY, &data.master_key),
            (entries::HMAC_KEY, &data.hmac_key),
        ] {
            zap.update(self.tx, name, &ZapValue::from_bytes(bytes))?;
        }
        self.set_extension(directory, dsl_dir::fields::CRYPTO_KEY, object.0)?;
        self.use_dataset_feature(head, features::ENCRYPTION)?;
        self.set_key_location(directory, Some("prompt"))
    }

    /// Stores a family's keys as the user's key wraps them.
    fn wrap(
        &self,
        object: ObjectId,
        root: ObjectId,
        identity: &KeyIdentity,
        keys: &ObjsetKeys,
        by: &UserKey,
    ) -> Result<(), DslError> {
        let nonce: [u8; NONCE_LENGTH] = random(self.pool.env().as_ref())?;
        let wrapped: WrappedKeys = keys.wrap(&by.wrapping, identity, nonce);
        let zap = self.mos().zap(object)?;
        for (name, bytes) in [
            (entries::IV, wrapped.nonce.as_slice()),
            (entries::MAC, &wrapped.tag),
            (entries::MASTER_KEY, &wrapped.master),
            (entries::HMAC_KEY, &wrapped.hmac),
        ] {
            zap.update(self.tx, name, &ZapValue::from_bytes(bytes))?;
        }
        for (name, number) in [
            (entries::ROOT, root.0),
            (entries::KEY_FORMAT, by.format.number()),
            (entries::SALT, by.salt),
            (entries::ITERATIONS, by.iterations),
        ] {
            zap.update(self.tx, name, &ZapValue::from_u64(number))?;
        }
        Ok(())
    }

    pub(super) fn set_key_location(
        &self,
        directory: ObjectId,
        location: Option<&str>,
    ) -> Result<(), DslError> {
        let setting = Setting {
            name: KEY_LOCATION.to_owned(),
            value: location.map(|text| Stored::Text(text.to_owned())),
        };
        self.apply_settings(directory, &[setting])
    }

    /// The key objects whose keys change with those of `top`.
    fn families(&self, top: &Arc<Directory>, root: ObjectId) -> Result<Vec<Family>, DslError> {
        let mut families = BTreeMap::new();
        for heir in self.heirs(top, root)? {
            self.add_family(&heir, &mut families)?;
        }
        if top.id() != root {
            return Ok(families.into_values().collect());
        }
        // Those that the root does not reach any more would be lost with its old key.
        for stray in self.keyed_by(root)? {
            match self.add_family(&stray, &mut families) {
                // Its number was another root's before, whose key this is not.
                Err(DslError::WrongKey { .. }) => {}
                added => added?,
            }
        }
        Ok(families.into_values().collect())
    }

    fn add_family(
        &self,
        directory: &Directory,
        families: &mut BTreeMap<ObjectId, Family>,
    ) -> Result<(), DslError> {
        let Some(key) = directory.crypto_key()? else {
            return Ok(());
        };
        if families.contains_key(&key.object) {
            return Ok(());
        }
        let keys = self.dsl.objset_keys(directory)?;
        let keys = keys.ok_or_else(|| DslError::KeyRefused {
            name: directory.name().clone(),
            problem: "Key must be loaded.",
        })?;
        let key = CryptoKey::clone(key);
        families.insert(key.object, Family { key, keys });
        Ok(())
    }
}

/// The keys that one key object holds.
#[derive(Debug)]
struct Family {
    key: CryptoKey,
    keys: Arc<ObjsetKeys>,
}

/// Wraps the keys of a dataset, and of all below that share its key, with another one.
#[derive(Debug)]
pub struct ChangeKey {
    name: DatasetName,
    /// `None` for the parent's.
    key: Option<UserKey>,
    families: Vec<Family>,
}

impl ChangeKey {
    /// Gives a dataset a new key, which makes it an encryption root if it is none; without one, it
    /// gets its parent's key and ceases to be a root.
    pub fn new(name: DatasetName, key: Option<UserKey>) -> Self {
        let families = Vec::new();
        Self {
            name,
            key,
            families,
        }
    }

    fn refusal(&self, problem: &'static str) -> DslError {
        let name = self.name.clone();
        DslError::KeyRefused { name, problem }
    }

    fn directory(&self, context: &SyncContext<'_>) -> Result<Arc<Directory>, DslError> {
        let found = context.dsl.directory(&self.name)?;
        found.ok_or_else(|| DslError::NoSuchDataset {
            name: self.name.clone(),
        })
    }

    /// The user's key and the encryption root from now on.
    fn outcome(
        &self,
        context: &SyncContext<'_>,
        directory: &Directory,
    ) -> Result<(UserKey, ObjectId), DslError> {
        if let Some(key) = &self.key {
            return Ok((key.clone(), directory.id()));
        }
        let parent = directory.parent();
        let above = match parent {
            Some(parent) => parent.crypto_key()?,
            None => None,
        };
        let above = above.ok_or_else(|| self.refusal("Parent must be encrypted."))?;
        // The former origin of a promoted clone has its key from the clone, which may be below it.
        if above.root() == directory.id() {
            return Err(self.refusal("Parent has its key from this dataset."));
        }
        let key = UserKey::of_loaded(above, context);
        let key = key.ok_or_else(|| self.refusal("Parent key must be loaded."))?;
        Ok((key, above.root()))
    }
}

impl SyncTask for ChangeKey {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let directory = self.directory(context)?;
        let key = directory.crypto_key()?;
        let key = key.ok_or_else(|| self.refusal("Dataset not encrypted."))?;
        if directory.origin().is_some() {
            return Err(self.refusal("Cannot change key for clones: they use their origin's."));
        }
        if self.key.is_none() && key.root() != directory.id() {
            let problem = "Key inheriting can only be performed on encryption roots.";
            return Err(self.refusal(problem));
        }
        self.outcome(context, &directory)?;
        // While the task has them, the keys cannot be unloaded.
        self.families = context.families(&directory, key.root())?;
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let directory = self.directory(context)?;
        let (key, root) = self.outcome(context, &directory)?;
        for family in &self.families {
            let stored = &family.key.stored;
            let identity = KeyIdentity {
                guid: stored.guid.0,
                suite: codec_suite(stored.suite),
                version: stored.version,
            };
            context.wrap(family.key.object, root, &identity, &family.keys, &key)?;
        }
        let id = directory.id();
        context.set_key_location(id, key.location.as_deref())?;
        let store = context.dsl.keys();
        if root == id {
            store.add_root(root, key.wrapping.clone());
        }
        for family in std::mem::take(&mut self.families) {
            store.add(root, None, family.key.object, &family.keys);
        }
        if root != id {
            store.forget_root(id);
        }
        Ok(())
    }
}
