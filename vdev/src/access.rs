//! Whether a device may still be used.
//!
//! A handle is a device only as long as its name leads to it ([`Lead`]). One that *strayed* takes
//! nothing any more: what is written to it would be lost with the handle. It is read where no
//! other device has the bytes, and it is what it was if its name leads to it again.
//!
//! A device that leaves the pool, for good or for a while, may be another's as soon as it is let
//! go. Writes that are under way on an older shape of the tree must not reach it any more then.
//! So each write enters here, and letting go waits for those that are inside and keeps out all
//! others.

use cenote_base::Guid;
use cenote_base::rt::{RwLock, RwLockReadGuard, ranks};
use cenote_device::{Device, Lead};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A device that was released.
#[derive(Debug)]
pub struct LeftLeaf {
    /// The leaf that it was.
    pub leaf: Guid,
    /// The device, still open: its labels may have to be cleared. The caller must call
    /// [`Device::unlock`] when it is done.
    pub device: Arc<dyn Device>,
}

/// The right to use one device.
#[derive(Debug, Default)]
pub(crate) struct Access {
    is_over: RwLock<bool, ranks::VdevAccess>,
    strayed: AtomicU8,
}

/// How a device strayed, as [`Access`] keeps it.
const DELETED: u8 = 1;
const ELSEWHERE: u8 = 2;

/// A use of the device, as long as this lives.
pub(crate) type Entered<'a> = RwLockReadGuard<'a, bool>;

impl Access {
    /// Begins a use of the device; `None` if it was released.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let is_over = self.is_over.read();
        (!*is_over).then_some(is_over)
    }

    /// Whether the device was released.
    pub(crate) fn is_over(&self) -> bool {
        // While [`Self::end`] holds the lock, the use counts as not over yet.
        self.is_over.try_read().is_some_and(|is_over| *is_over)
    }

    /// Notes where the device's name leads; whether it strayed just now.
    pub(crate) fn note_lead(&self, lead: Lead) -> bool {
        let strayed = match lead {
            Lead::Here | Lead::Nowhere => 0,
            Lead::Deleted => DELETED,
            Lead::Elsewhere => ELSEWHERE,
        };
        self.strayed.swap(strayed, Ordering::AcqRel) == 0 && strayed != 0
    }

    /// Where the name of a device leads that strayed.
    pub(crate) fn strayed(&self) -> Option<Lead> {
        match self.strayed.load(Ordering::Acquire) {
            DELETED => Some(Lead::Deleted),
            ELSEWHERE => Some(Lead::Elsewhere),
            _ => None,
        }
    }

    /// Releases the device: returns when all uses have ended.
    pub(crate) fn end(&self) {
        *self.is_over.write() = true;
    }
}
