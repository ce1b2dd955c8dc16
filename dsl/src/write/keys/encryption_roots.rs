//! From which dataset each encrypted dataset has its key (format/2d 2 and 10).
//!
//! An encrypted dataset that is no encryption root has its key from exactly one other dataset: a
//! clone from its origin, with which it shares the key object, any other dataset from its parent.
//! The rule that every change of the tree must keep: *these links lead to the encryption root that
//! the key object names, and never in a circle.*
//!
//! ```text
//!   R  root                R <- e        (parent)
//!   R/e   R/e@1            e <- K        (origin; K may be anywhere)
//!   K     clone of R/e@1   K <- K/c      (parent)
//! ```
//!
//! `zfs change-key` follows the links downwards from the dataset whose key changes, here and in
//! OpenZFS: it visits children that are no clones, and clones of the snapshots. A dataset that the
//! links do not reach keeps keys that are wrapped by a user's key which is nowhere any more, and is
//! lost. Two changes can break the rule: a move below a dataset with another root, and one by which
//! two datasets have their key from each other. OpenZFS 2.3 refuses the first and takes the second,
//! as `zfs rename R/e K/e` above, or the promotion of a clone that is a child of its own origin.
//! Both are refused here.
//!
//! Pools may come with datasets that broke the rule before. So a root whose own key changes, or
//! that hands its office over, looks at all datasets of the pool and not only along the links.

use crate::directory::Directory;
use crate::error::DslError;
use crate::write::context::SyncContext;
use cenote_base::ObjectId;
use std::collections::HashSet;
use std::sync::Arc;

const OUTSIDE: &str = "cannot move encrypted child outside of its encryption root\n\
                       use 'zfs change-key' to make it an encryption root first";
const BELOW_OWN_CLONE: &str = "an encrypted dataset cannot have its key from its own clone\n\
                               move it elsewhere, or use 'zfs change-key' to make it an \
                               encryption root first";

impl SyncContext<'_> {
    /// The dataset that an encrypted dataset has its key from, if it is no encryption root.
    fn key_giver(&self, directory: &Arc<Directory>) -> Result<Option<Arc<Directory>>, DslError> {
        match directory.origin() {
            Some(origin) => {
                let origin = self.dsl.dataset_of(origin)?;
                Ok(Some(Arc::clone(origin.directory())))
            }
            None => Ok(directory.parent().cloned()),
        }
    }

    /// Whether `from` has its key from `root`, and not by way of `without`.
    pub(crate) fn has_key_from(
        &self,
        from: &Arc<Directory>,
        root: ObjectId,
        without: ObjectId,
    ) -> Result<bool, DslError> {
        let mut seen = HashSet::new();
        let mut at = Some(Arc::clone(from));
        while let Some(directory) = at {
            let key = directory.crypto_key()?;
            let is_of_root = key.is_some_and(|key| key.root() == root);
            if !is_of_root || directory.id() == without || !seen.insert(directory.id()) {
                return Ok(false);
            }
            if directory.id() == root {
                return Ok(true);
            }
            at = self.key_giver(&directory)?;
        }
        Ok(false)
    }

    /// Refuses to move a dataset to where it could not have its key any more.
    pub(crate) fn check_moved_key(
        &self,
        directory: &Arc<Directory>,
        parent: &Arc<Directory>,
    ) -> Result<(), DslError> {
        let is_moved = directory.parent().map(|old| old.id()) != Some(parent.id());
        let Some(key) = directory.crypto_key()?.filter(|_| is_moved) else {
            return Ok(());
        };
        if key.root() == directory.id() {
            return Ok(());
        }
        let refused = |problem| {
            let name = directory.name().clone();
            Err(DslError::LeavesEncryptionRoot { name, problem })
        };
        let above = parent.crypto_key()?;
        if above.is_none_or(|above| above.root() != key.root()) {
            return refused(OUTSIDE);
        }
        // A clone has its key from its origin, wherever it is.
        let is_clone = directory.origin().is_some();
        match is_clone || self.has_key_from(parent, key.root(), directory.id())? {
            true => Ok(()),
            false => refused(BELOW_OWN_CLONE),
        }
    }

    /// A dataset and all that have their key from it: those whose keys change with its own.
    pub(crate) fn heirs(
        &self,
        top: &Arc<Directory>,
        root: ObjectId,
    ) -> Result<Vec<Arc<Directory>>, DslError> {
        let mut heirs = Vec::new();
        let mut seen = HashSet::new();
        let mut stack = vec![Arc::clone(top)];
        while let Some(directory) = stack.pop() {
            let key = directory.crypto_key()?;
            let is_heir = key.is_some_and(|key| key.root() == root);
            if !is_heir || !seen.insert(directory.id()) {
                continue;
            }
            for child in directory.children()? {
                let child = directory.open_child(&child)?;
                if child.origin().is_none() {
                    stack.push(child);
                }
            }
            if let Some(clones) = directory.phys().clones {
                for entry in self.mos().zap(clones)?.entries() {
                    if let Some(head) = entry?.value.as_u64() {
                        let head = self.dsl.dataset_of(ObjectId(head))?;
                        stack.push(Arc::clone(head.directory()));
                    }
                }
            }
            heirs.push(directory);
        }
        Ok(heirs)
    }

    /// All datasets of the pool whose keys name this encryption root.
    pub(crate) fn keyed_by(&self, root: ObjectId) -> Result<Vec<Arc<Directory>>, DslError> {
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut stack = vec![self.dsl.root()?];
        while let Some(directory) = stack.pop() {
            if !seen.insert(directory.id()) {
                continue;
            }
            for child in directory.children()? {
                stack.push(directory.open_child(&child)?);
            }
            if directory
                .crypto_key()?
                .is_some_and(|key| key.root() == root)
            {
                found.push(directory);
            }
        }
        Ok(found)
    }
}
