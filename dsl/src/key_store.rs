//! The keys that are loaded in one pool, in memory alone.

use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_codec::cipher::WrappingKey;
use cenote_io::ObjsetKeys;
use std::collections::HashMap;
use std::sync::Arc;

/// The keys that are loaded in one pool.
#[derive(Debug, Default)]
pub struct KeyStore {
    loaded: Mutex<Loaded, ranks::LoadedKeys>,
}

/// What is loaded.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// The user's keys, by the directory of the encryption root.
    pub(crate) wrapping: HashMap<ObjectId, WrappingKey>,
    /// Unwrapped keys by key object, with the encryption root that they came from.
    pub(crate) families: HashMap<ObjectId, (ObjectId, Arc<ObjsetKeys>)>,
}

impl KeyStore {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock()
    }

    /// Whether the key of this encryption root is loaded.
    pub fn is_loaded(&self, root: ObjectId) -> bool {
        self.lock().wrapping.contains_key(&root)
    }

    /// The user's key of an encryption root, if it is loaded.
    pub(crate) fn wrapping_key(&self, root: ObjectId) -> Option<WrappingKey> {
        self.lock().wrapping.get(&root).cloned()
    }

    /// Takes a family's keys as unwrapped by `root`'s, and that one if it is new.
    pub(crate) fn add(
        &self,
        root: ObjectId,
        wrapping: Option<WrappingKey>,
        object: ObjectId,
        keys: &Arc<ObjsetKeys>,
    ) {
        let mut loaded = self.lock();
        if let Some(wrapping) = wrapping {
            loaded.wrapping.insert(root, wrapping);
        }
        loaded.families.insert(object, (root, Arc::clone(keys)));
    }

    /// Takes or replaces the user's key of an encryption root.
    pub(crate) fn add_root(&self, root: ObjectId, wrapping: WrappingKey) {
        self.lock().wrapping.insert(root, wrapping);
    }

    /// Takes the user's key of one encryption root for that of another, which has its office now.
    pub(crate) fn move_root(&self, from: ObjectId, to: ObjectId) {
        let mut loaded = self.lock();
        if let Some(wrapping) = loaded.wrapping.remove(&from) {
            loaded.wrapping.insert(to, wrapping);
        }
        for (root, _) in loaded.families.values_mut() {
            if *root == from {
                *root = to;
            }
        }
    }

    /// The user's key of an encryption root, if it is loaded, is that of another, too.
    pub(crate) fn copy_root(&self, from: ObjectId, to: ObjectId) {
        let mut loaded = self.lock();
        if let Some(wrapping) = loaded.wrapping.get(&from).cloned() {
            loaded.wrapping.insert(to, wrapping);
        }
    }

    /// A family has another encryption root from now on.
    pub(crate) fn set_root_of(&self, object: ObjectId, root: ObjectId) {
        if let Some((of_family, _)) = self.lock().families.get_mut(&object) {
            *of_family = root;
        }
    }

    /// Forgets the user's key of a directory that is no encryption root any more.
    pub(crate) fn forget_root(&self, root: ObjectId) {
        self.lock().wrapping.remove(&root);
    }

    /// Forgets the keys of a destroyed key object: its number may be reused.
    pub(crate) fn forget_family(&self, object: ObjectId) {
        self.lock().families.remove(&object);
    }
}
