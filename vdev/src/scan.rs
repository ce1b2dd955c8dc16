//! Finding the devices of pools.
//!
//! What `zpool import -d` does first: examine every given device, file and directory, and keep what
//! carries labels. A disk image whose *partition* holds a member shows the ends of that member's
//! labels in odd places of the whole image. Their checksums cover their position, so the whole
//! image counts only when no partition does or its checksums are right.
//!
//! Old labels stay until they are overwritten: after a device got a partition table, or after a
//! smaller device was copied onto it. So one device can be a member of several pools, and each is
//! reported. Opening them shows which of them is still whole.

use crate::DeviceLabels;
use cenote_device::{Candidate, Device, DeviceError, Fit, Opener, search};
use std::cell::RefCell;
use std::path::PathBuf;

/// A device with labels.
#[derive(Debug)]
pub struct Member {
    /// The open device and where it was found.
    pub candidate: Candidate,
    /// What its labels say.
    pub labels: DeviceLabels,
}

/// The outcome of a scan.
#[derive(Debug, Default)]
pub struct Scan {
    /// Devices with labels, in order of the paths. A device with labels of two vdevs is there
    /// once for each.
    pub members: Vec<Member>,
    /// The devices that could not be examined.
    pub failures: Vec<DeviceError>,
}

/// Looks for pool members among `paths`: devices, files (also images of whole disks), and
/// directories of these, which are not searched recursively.
pub fn scan(paths: &[PathBuf], opener: &dyn Opener) -> Scan {
    // The judge reads the labels; those of accepted devices are kept, in order of acceptance,
    // except that a weak whole device comes after its refused partitions.
    let read = RefCell::new(Vec::new());
    let judge = |device: &dyn Device| {
        let labels = DeviceLabels::read(device);
        let fit = labels.fit();
        if fit != Fit::None {
            read.borrow_mut().push((device.description(), labels));
        }
        fit
    };
    let found = search(paths, opener, &judge);
    let mut read: Vec<(String, DeviceLabels)> = read.into_inner();
    let mut members = Vec::with_capacity(found.candidates.len());
    for candidate in found.candidates {
        let description = candidate.device.description();
        let position = read.iter().position(|(name, _)| *name == description);
        let labels = match position {
            Some(position) => read.swap_remove(position).1,
            None => DeviceLabels::read(candidate.device.as_ref()),
        };
        members.extend(labels.by_owner().into_iter().map(|labels| Member {
            candidate: candidate.clone(),
            labels,
        }));
    }
    Scan {
        members,
        failures: found.failures,
    }
}

impl DeviceLabels {
    /// How surely this is a member of a pool.
    fn fit(&self) -> Fit {
        match () {
            () if self.labels.iter().any(|label| label.is_valid()) => Fit::Strong,
            () if !self.uberblocks.is_empty() => Fit::Strong,
            () if self.is_member() => Fit::Weak,
            () => Fit::None,
        }
    }
}
