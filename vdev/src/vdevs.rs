//! The open vdevs of a pool, and how they change.
//!
//! The tree itself never changes while somebody uses it: it is a [`Shape`], which everybody who
//! reads or writes gets from here. A change of the configuration makes a new one, which those who
//! come later get. Whoever is under way ends with the old one; devices, counters and notes of
//! what was missed belong to both.

use crate::error::VdevError;
use crate::options::OpenOptions;
use crate::shape::Shape;
use cenote_base::Guid;
use cenote_device::Device;
use cenote_ondisk::VdevConfig;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The open vdevs of a pool.
#[derive(Debug)]
pub struct Vdevs {
    shape: RwLock<Arc<Shape>>,
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

    /// The vdevs as they are now: for one read, one write, one question. Whoever keeps this does
    /// not see changes.
    pub fn shape(&self) -> Arc<Shape> {
        Arc::clone(&self.shape.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Goes over to the tree below `root`, with devices for what is new in it.
    ///
    /// Vdevs that were there before, by guid, keep their open devices, counters, mappings and
    /// missed txgs. Reads and writes under way end on the tree as it was; that is right for
    /// additions, whereas who takes something away must see to it that nothing refers to it.
    ///
    /// # Errors
    /// As [`Self::open`]; then nothing has changed.
    pub fn change(
        &self,
        root: &VdevConfig,
        opened: &HashMap<Guid, Arc<dyn Device>>,
    ) -> Result<(), VdevError> {
        let mut shape = self.shape.write().unwrap_or_else(PoisonError::into_inner);
        *shape = Arc::new(shape.changed(root, opened)?);
        Ok(())
    }

    /// Goes on with other devices for leaves whose own were gone: `root` is the tree as it is.
    ///
    /// A device that was away may have lost what it had taken and not yet made durable. If others
    /// have the same, the leaf counts as having missed that; if not, `is_complete`, which is asked
    /// in any case and with the new devices in place, has to know that nothing of it is lost.
    ///
    /// # Errors
    /// [`VdevError::Unflushed`] if something is; then nothing has changed. Otherwise as
    /// [`Self::open`].
    pub fn reopen(
        &self,
        root: &VdevConfig,
        devices: &HashMap<Guid, Arc<dyn Device>>,
        is_complete: impl FnOnce() -> bool,
    ) -> Result<(), VdevError> {
        let before = self.shape();
        self.set_shape(Arc::new(before.changed(root, devices)?));
        let is_complete = is_complete();
        let forgotten = before.forget_unflushed(devices.keys());
        if forgotten.is_err() && !is_complete {
            self.set_shape(before);
            return forgotten;
        }
        Ok(())
    }

    fn set_shape(&self, shape: Arc<Shape>) {
        *self.shape.write().unwrap_or_else(PoisonError::into_inner) = shape;
    }

    /// Sets whom to ask how much of what may be dirty is dirty, in percent; only the first call
    /// counts. The more, the more writes of transaction groups go at once.
    pub fn set_write_load(&self, ask: impl Fn() -> u64 + Send + Sync + 'static) {
        self.shape().load.set(ask);
    }
}
