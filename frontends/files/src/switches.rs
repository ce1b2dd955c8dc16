//! What a mount shows and allows, and how that changes while it is used.

use cenote_posix::DatasetSpace;
use std::sync::atomic::{AtomicU8, Ordering};

/// Whether and how the control directory shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlDirectory {
    /// Not at all.
    Disabled,
    /// It can be entered but is not listed.
    Hidden,
    /// It is listed in the root directory.
    Visible,
}

/// What may change about a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetSwitches {
    /// The property `snapdir`.
    pub control_directory: ControlDirectory,
    /// The property `xattr` is not `off`.
    pub xattr: bool,
    /// Reads may be noted, as far as the properties `atime` and `relatime` want that: the mount
    /// has no option against it.
    pub access_times: bool,
    /// Changes are refused also where the kernel lets them through: by files that were open for
    /// writing before.
    pub refuses_changes: bool,
}

/// What the dataset's properties say about its mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetOptions {
    /// What may change.
    pub switches: DatasetSwitches,
    /// The property `acltype` is `posix`: agreed on with the kernel for a mount's life.
    pub posix_acl: bool,
    /// For `statfs`.
    pub space: DatasetSpace,
}

/// The switches as they are now, in one word.
#[derive(Debug)]
pub(super) struct Live(AtomicU8);

pub(super) const VISIBLE: u8 = 1 << 0;
pub(super) const DISABLED: u8 = 1 << 1;
pub(super) const XATTR: u8 = 1 << 2;
pub(super) const ACCESS_TIMES: u8 = 1 << 3;
pub(super) const REFUSES: u8 = 1 << 4;

impl Live {
    pub(super) fn new(switches: DatasetSwitches) -> Self {
        let live = Self(AtomicU8::new(0));
        live.set(switches);
        live
    }

    pub(super) fn set(&self, switches: DatasetSwitches) {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let control = switches.control_directory;
        let bits = bit(control == ControlDirectory::Visible, VISIBLE)
            | bit(control == ControlDirectory::Disabled, DISABLED)
            | bit(switches.xattr, XATTR)
            | bit(switches.access_times, ACCESS_TIMES)
            | bit(switches.refuses_changes, REFUSES);
        self.0.store(bits, Ordering::Release);
    }

    /// All of them, to see which have changed.
    pub(super) fn bits(&self) -> u8 {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn has(&self, bit: u8) -> bool {
        self.bits() & bit != 0
    }
}
