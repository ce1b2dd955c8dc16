//! The open vdevs of a pool, and how they change.
//!
//! The tree itself never changes while it is in use. It is a [`Shape`], which every reader and
//! writer gets from here. A change of the configuration makes a new one for later requests.
//! Requests under way end with the old one; devices, counters and notes of what was missed belong
//! to both.

use crate::access::LeftLeaf;
use crate::error::VdevError;
use crate::kept::Kept;
use crate::options::OpenOptions;
use crate::shape::Shape;
use crate::txg_set::TxgSet;
use cenote_base::Guid;
use cenote_base::rt::{RwLock, ranks};
use cenote_device::Device;
use cenote_ondisk::VdevConfig;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The open vdevs of a pool.
#[derive(Debug)]
pub struct Vdevs {
    shape: RwLock<Arc<Shape>, ranks::Shape>,
}

/// A change of the tree.
#[derive(Clone, Copy, Debug)]
pub struct Reshape<'a> {
    /// The tree as it is to be.
    pub root: &'a VdevConfig,
    /// Devices for leaves that have none yet, or are to have another, opened for writing.
    pub devices: &'a HashMap<Guid, Arc<dyn Device>>,
    /// What leaves have missed, as far as that is not known yet.
    pub missed: &'a [(Guid, TxgSet)],
}

impl Vdevs {
    /// Opens the tree below `root` over the devices that were found, by guid.
    ///
    /// Missing devices are no error: [`Shape::status`] tells what is left. Errors are trees that
    /// no software of ours can read.
    pub fn open(
        root: &VdevConfig,
        opened: &HashMap<Guid, Arc<dyn Device>>,
        options: &OpenOptions,
    ) -> Result<Self, VdevError> {
        let shape = Shape::open(root, opened, options)?;
        let shape = RwLock::new(Arc::new(shape));
        Ok(Self { shape })
    }

    /// The vdevs as they are now: for one read, one write, one question. A caller that keeps this
    /// does not see changes.
    pub fn shape(&self) -> Arc<Shape> {
        Arc::clone(&self.shape.read())
    }

    /// Goes over to the tree below `root`, with devices for what is new in it: to which something
    /// was added, or of which other values changed. See [`Self::reshape`] for all other changes.
    ///
    /// # Errors
    /// As [`Self::open`]; then nothing has changed.
    pub fn change(
        &self,
        root: &VdevConfig,
        opened: &HashMap<Guid, Arc<dyn Device>>,
    ) -> Result<(), VdevError> {
        let left = self.reshape(&Reshape {
            root,
            devices: opened,
            missed: &[],
        })?;
        assert!(
            left.is_empty(),
            "what leaves is for the caller to look after"
        );
        Ok(())
    }

    /// Goes over to another tree: a leaf became a mirror or the other way round, is being
    /// replaced, has a spare beside it, went offline or came back, is to count as faulted or
    /// degraded. States come from the configuration.
    ///
    /// Vdevs that were there before, by guid, keep their open devices, counters, mappings and
    /// missed txgs. So does a top-level vdev at its position that got another guid and kept a
    /// leaf. Reads and writes under way end on the tree as it was; new leaves do not get these
    /// writes, which `missed` has to allow for: of a leaf that is attached in txg T it is
    /// everything before T + 3 (format/1c 7).
    ///
    /// Devices that are no longer in the tree, or whose leaves are offline or removed, are
    /// released. When this returns, no thread writes to them and what was written is flushed. What
    /// a leaf that stays in the tree did not get or did not flush, it has missed.
    ///
    /// A caller that takes a leaf away must check that it is not [needed](Shape::is_required).
    ///
    /// # Errors
    /// As [`Self::open`]; then nothing has changed.
    pub fn reshape(&self, change: &Reshape<'_>) -> Result<Vec<LeftLeaf>, VdevError> {
        let before = {
            let mut shape = self.shape.write();
            let next = shape.changed(change.root, change.devices)?;
            for (leaf, missed) in change.missed {
                next.add_missed(*leaf, missed);
            }
            std::mem::replace(&mut *shape, Arc::new(next))
        };
        let left = before.leaving(&self.shape()).into_iter();
        Ok(left.filter_map(|leaf| before.let_go(leaf)).collect())
    }

    /// Replaces the devices of leaves that were gone: `root` is the tree as it is.
    ///
    /// A device that was away may have lost what it had taken and not yet made durable. One that is
    /// an older copy lacks what was made durable, too. If other leaves have the same blocks, the
    /// leaf counts as having missed them. Otherwise `look` must prove that nothing of it is lost.
    /// `look` is called in any case, with the new devices in place. Returns those of the leaves
    /// that lack any block that it knows of.
    ///
    /// # Errors
    /// [`VdevError::Unflushed`] if something is lost; then nothing has changed. Otherwise as
    /// [`Self::open`].
    pub fn reopen(
        &self,
        root: &VdevConfig,
        devices: &HashMap<Guid, Arc<dyn Device>>,
        look: impl FnOnce() -> Kept,
    ) -> Result<HashSet<Guid>, VdevError> {
        let before = self.shape();
        self.set_shape(Arc::new(before.changed(root, devices)?));
        let kept = look();
        let accepted = before.accept(&kept, devices.keys());
        if accepted.is_err() {
            self.set_shape(before);
        }
        let lacking = kept.lacking.into_iter();
        accepted.map(|()| lacking.filter(|leaf| devices.contains_key(leaf)).collect())
    }

    fn set_shape(&self, shape: Arc<Shape>) {
        *self.shape.write() = shape;
    }

    /// Sets whom to ask how much of what may be dirty is dirty, in percent; only the first call
    /// counts. The more, the more writes of transaction groups go at once.
    pub fn set_write_load(&self, ask: impl Fn() -> u64 + Send + Sync + 'static) {
        self.shape().load.set(ask);
    }
}
