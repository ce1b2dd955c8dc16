//! Labels and uberblocks of a pool's devices: found, changed, and sealed again.

use super::vdev::TopVdev;
use super::{Devices, Write};
use anyhow::{Context, Result, bail};
use cenote_base::{Txg, VdevId};
use cenote_codec::Endian;
use cenote_codec::checksum::sha256;
use cenote_ondisk::embedded_checksum::{self, TRAILER_SIZE, Trailer};
use cenote_ondisk::label::{self, LABELS, UberblockRing};
use cenote_ondisk::{BlockPointer, PoolConfig, Uberblock, VdevConfig, byteswap};
use std::collections::{BTreeMap, HashMap};

/// The offset of the root block pointer in an uberblock: format/1 1.3.
const ROOT_POINTER_OFFSET: usize = 0x28;

/// What the labels say.
pub(super) struct Labels {
    /// The top-level vdevs that blocks can be written to.
    pub tops: Vec<TopVdev>,
    /// The newest uberblock.
    pub best: Uberblock,
    /// Where it stands: device, offset and size of each copy.
    slots: Vec<(usize, u64, usize)>,
}

impl Labels {
    /// Reads the labels of all devices.
    pub fn read(devices: &Devices) -> Result<Self> {
        let mut best: Option<Uberblock> = None;
        let mut slots = Vec::new();
        let mut by_guid = HashMap::new();
        let mut trees: BTreeMap<VdevId, (Txg, bool, VdevConfig)> = BTreeMap::new();
        for device in 0..devices.count() {
            let Some(config) = config(devices, device)? else {
                continue;
            };
            by_guid.extend(config.guid.map(|guid| (guid, device)));
            let Some(tree) = config.vdev_tree else {
                continue;
            };
            for (offset, size, uberblock) in uberblocks(devices, device, tree.ashift)? {
                match best.as_ref().map(|best| uberblock.rank().cmp(&best.rank())) {
                    Some(std::cmp::Ordering::Less) => continue,
                    Some(std::cmp::Ordering::Equal) => {}
                    Some(std::cmp::Ordering::Greater) | None => slots.clear(),
                }
                slots.push((device, offset, size));
                best = Some(uberblock);
            }
            let txg = config.txg.unwrap_or_default();
            let Some(id) = tree.id else {
                continue;
            };
            if trees.get(&id).is_none_or(|(newest, ..)| *newest < txg) {
                trees.insert(id, (txg, config.is_log, tree));
            }
        }
        let best = best.context("no device has a valid uberblock")?;
        let tops = trees
            .values()
            .filter_map(|(_, is_log, tree)| TopVdev::new(tree, &by_guid, *is_log, &best));
        Ok(Self {
            tops: tops.collect(),
            best,
            slots,
        })
    }

    /// The writes that make `root` the newest uberblock's root.
    ///
    /// For a big-endian host the whole uberblock is written in that order, as it writes no other.
    pub fn set_root(
        &self,
        devices: &Devices,
        root: &BlockPointer,
        endian: Endian,
    ) -> Result<Vec<Write>> {
        let mut writes = self.edit_uberblock(devices, |slot| {
            let end = ROOT_POINTER_OFFSET + root.encode().len();
            slot[ROOT_POINTER_OFFSET..end].copy_from_slice(&root.encode());
            if endian == Endian::Big {
                byteswap::swap_array::<8>(slot);
            }
        })?;
        if endian == Endian::Big {
            writes.iter_mut().for_each(seal_big_endian);
        }
        Ok(writes)
    }

    /// The writes that change the newest uberblock, its checksum made right for each place.
    pub fn edit_uberblock(
        &self,
        devices: &Devices,
        edit: impl Fn(&mut [u8]),
    ) -> Result<Vec<Write>> {
        let mut writes = Vec::new();
        for (device, offset, size) in &self.slots {
            let mut bytes = devices.read(*device, *offset, *size)?;
            edit(&mut bytes[..*size - TRAILER_SIZE]);
            writes.push(sealed(*device, *offset, bytes));
        }
        Ok(writes)
    }
}

/// The writes that change the configuration in every label of `device`.
pub(super) fn edit_config(
    devices: &Devices,
    device: usize,
    edit: impl Fn(&mut [u8]),
) -> Result<Vec<Write>> {
    let mut writes = Vec::new();
    for start in label_starts(devices, device)? {
        let offset = start + label::CONFIG_OFFSET;
        let size = usize::try_from(label::CONFIG_SIZE)?;
        let mut bytes = devices.read(device, offset, size)?;
        edit(&mut bytes[..size - TRAILER_SIZE]);
        writes.push(sealed(device, offset, bytes));
    }
    Ok(writes)
}

/// A piece of a label with its checksum made right for `offset`.
fn sealed(device: usize, offset: u64, mut bytes: Vec<u8>) -> Write {
    let position = bytes.len() - TRAILER_SIZE;
    let verifier = embedded_checksum::label_verifier(offset);
    embedded_checksum::prepare(&mut bytes, position, verifier);
    let checksum = sha256(&bytes);
    embedded_checksum::seal(&mut bytes, position, checksum);
    Write {
        device,
        offset,
        bytes,
    }
}

/// Seals a piece of a label as a big-endian host does.
fn seal_big_endian(write: &mut Write) {
    let position = write.bytes.len() - TRAILER_SIZE;
    put_big_endian(&mut write.bytes, position, &[embedded_checksum::MAGIC]);
    let verifier = embedded_checksum::label_verifier(write.offset);
    put_big_endian(&mut write.bytes, position + 8, &verifier);
    let checksum = sha256(&write.bytes);
    put_big_endian(&mut write.bytes, position + 8, &checksum);
}

fn put_big_endian(bytes: &mut [u8], at: usize, words: &[u64]) {
    for (place, word) in bytes[at..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}

fn label_starts(devices: &Devices, device: usize) -> Result<Vec<u64>> {
    let size = devices.size(device)?;
    let starts = (0..LABELS).map(|index| label::label_offset(size, index));
    match starts.collect::<Option<Vec<u64>>>() {
        Some(starts) => Ok(starts),
        None => bail!("device {device} is too small for labels"),
    }
}

/// The first configuration on `device` that decodes, or `None` for spares and noise.
fn config(devices: &Devices, device: usize) -> Result<Option<PoolConfig>> {
    for start in label_starts(devices, device)? {
        let size = usize::try_from(label::CONFIG_SIZE)?;
        let piece = devices.read(device, start + label::CONFIG_OFFSET, size)?;
        if let Ok(list) = label::decode_config(&piece)
            && let Ok(config) = PoolConfig::decode(&list)
        {
            return Ok(Some(config));
        }
    }
    Ok(None)
}

/// The valid uberblocks of a device, with offset and size of their slots.
fn uberblocks(
    devices: &Devices,
    device: usize,
    ashift: Option<u32>,
) -> Result<Vec<(u64, usize, Uberblock)>> {
    let ring = UberblockRing::new(ashift.unwrap_or(label::ASHIFT_MIN));
    let mut found = Vec::new();
    for start in label_starts(devices, device)? {
        for slot in 0..ring.slots() {
            let offset = start + label::UBERBLOCK_RING_OFFSET + ring.slot_offset(slot);
            let size = usize::try_from(ring.slot_size())?;
            let bytes = devices.read(device, offset, size)?;
            if let Ok(uberblock) = Uberblock::decode(&bytes)
                && is_sealed(&bytes, offset)
            {
                found.push((offset, size, uberblock));
            }
        }
    }
    Ok(found)
}

fn is_sealed(bytes: &[u8], offset: u64) -> bool {
    let Ok(trailer) = Trailer::at_end(bytes) else {
        return false;
    };
    let mut bytes = bytes.to_vec();
    trailer.install_verifier(&mut bytes, embedded_checksum::label_verifier(offset));
    sha256(&bytes) == trailer.checksum
}
