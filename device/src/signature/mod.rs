//! What other software keeps on a device: file systems, swap, volumes of LVM, MD and LUKS,
//! partition tables.
//!
//! A device that is about to become part of a pool loses its contents, so a mistyped name must be
//! caught. Software marks what it owns by a *signature*: a few bytes at a place that the format
//! fixes. The places and bytes are public facts of the formats. They are those that `blkid(8)` and
//! `wipefs(8)` of util-linux use, and so are the names here. Most signatures are in one table
//! (`table`). Two bytes alone are no proof, nor is one place enough for software that writes at the
//! end of a device: these are in `checked`.
//!
//! Labels of ZFS are no signature here: the layers above read them.
//!
//! Once a pool takes a device, its signatures are wiped. Otherwise udev, `blkid`, or the next
//! administrator would believe that the device is still what it was. Only what identifies the old
//! contents is overwritten, as `wipefs` does it. Second copies that programs look for only on
//! request (superblocks of ext4 in later groups, the mirrors of btrfs) stay: no scan of devices
//! finds them.
//!
//! **What is not here**: the parts of a partition table, see [`partitions`](crate::partitions);
//! formats whose only mark is a checksum (the RAID of some mainboards).

mod checked;
mod probe;
mod table;
#[cfg(test)]
mod tests;

use crate::{Device, DeviceError};
use probe::Probe;
pub use probe::{Signature, SignatureKind};

/// Wiping one signature can lay bare another; more than this is no device but a riddle.
const WIPES_MAX: usize = 8;

/// The signatures of other software on a device, each name once.
///
/// # Errors
/// If the device cannot be read.
pub fn signatures(device: &dyn Device) -> Result<Vec<Signature>, DeviceError> {
    let probe = Probe::new(device)?;
    let mut found: Vec<Signature> = Vec::new();
    let mut add = |signature: Signature| {
        let known = found.iter_mut().find(|known| known.name == signature.name);
        match known {
            Some(known) => known.places.extend(signature.places),
            None => found.push(signature),
        }
    };
    table::find(&probe)?.into_iter().for_each(&mut add);
    checked::find(&probe)?.into_iter().for_each(&mut add);
    checked::settle(&mut found);
    Ok(found)
}

/// Takes the signatures of other software off a device.
///
/// # Errors
/// If the device cannot be read or written.
pub fn wipe_signatures(device: &dyn Device) -> Result<(), DeviceError> {
    for _ in 0..WIPES_MAX {
        let found = signatures(device)?;
        if found.is_empty() {
            return Ok(());
        }
        for place in found.into_iter().flat_map(|signature| signature.places) {
            device.write_at(place.at, &vec![0; place.length])?;
        }
        device.flush()?;
    }
    Ok(())
}
