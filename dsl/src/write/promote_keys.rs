//! What a promotion does to keys (format/2d 10): an encryption root that loses its snapshots to a
//! clone hands its office over, too.
//!
//! The keys themselves stay as they are, wrapped by the same user's key: that they name another
//! root is not authenticated, so no key need be loaded.

use super::context::SyncContext;
use super::promote::Promotion;
use super::properties::Setting;
use crate::directory::Directory;
use crate::error::DslError;
use crate::property::stored::StoredProperties;
use cenote_base::ObjectId;
use cenote_ondisk::crypto_key::entries;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

const KEY_LOCATION: &str = "keylocation";

impl SyncContext<'_> {
    /// Refuses to promote what would then have its key from a directory that is not above it.
    pub(super) fn check_promoted_keys(&self, promotion: &Promotion) -> Result<(), DslError> {
        let clone = promotion.clone.directory();
        let Some(key) = clone.crypto_key()? else {
            return Ok(());
        };
        let is_handed_over = key.root() == promotion.origin_head.directory().id();
        let is_inside = clone.ancestry().any(|above| above.id() == key.root());
        match is_handed_over || is_inside {
            true => Ok(()),
            false => Err(DslError::LeavesEncryptionRoot {
                name: clone.name().clone(),
            }),
        }
    }

    /// Makes a promoted clone the encryption root, if its origin was it.
    pub(super) fn promote_keys(&self, promotion: &Promotion) -> Result<(), DslError> {
        let (clone, origin) = (
            promotion.clone.directory(),
            promotion.origin_head.directory(),
        );
        let (to, from) = (clone.id(), origin.id());
        let key = clone.crypto_key()?;
        if key.is_none_or(|key| key.root() != from) {
            return Ok(());
        }
        for object in self.key_objects_of(origin, from)? {
            self.set_number(object, entries::ROOT.as_bytes(), to.0)?;
        }
        let stored = self.mos().zap(origin.phys().properties)?;
        let stored = StoredProperties::load(&stored)?;
        let mut setting = Setting {
            name: KEY_LOCATION.to_owned(),
            value: stored.get(KEY_LOCATION).cloned(),
        };
        self.apply_settings(to, std::slice::from_ref(&setting))?;
        setting.value = None;
        self.apply_settings(from, &[setting])?;
        self.dsl.keys().move_root(from, to);
        Ok(())
    }

    /// The key objects that `root` wraps: at and below a directory and its clones. What is below
    /// a former root that is a clone now has its keys from there, too.
    fn key_objects_of(
        &self,
        top: &Arc<Directory>,
        root: ObjectId,
    ) -> Result<BTreeSet<ObjectId>, DslError> {
        let mut objects = BTreeSet::new();
        let mut seen = HashSet::new();
        let mut stack = vec![Arc::clone(top)];
        while let Some(directory) = stack.pop() {
            let is_new = seen.insert(directory.id());
            let key = directory.crypto_key()?;
            let Some(key) = key.filter(|key| is_new && key.root() == root) else {
                continue;
            };
            objects.insert(key.object);
            for child in directory.children()? {
                stack.push(directory.open_child(&child)?);
            }
            let Some(clones) = directory.phys().clones else {
                continue;
            };
            for entry in self.mos().zap(clones)?.entries() {
                if let Some(head) = entry?.value.as_u64() {
                    let head = self.dsl.dataset_of(ObjectId(head))?;
                    stack.push(Arc::clone(head.directory()));
                }
            }
        }
        Ok(objects)
    }
}
