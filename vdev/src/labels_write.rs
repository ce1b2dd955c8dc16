//! Writing labels and uberblocks: what commits a transaction group.
//!
//! The order is the caller's (format/1 1.4): flush the data; if the configuration changed, the
//! *even* labels of all leaves; the uberblock into its slot of all four labels; then the *odd*
//! labels. At every moment one of the two pairs of labels fits the newest uberblock. Each step
//! here ends with a flush, so that the next one begins when it is durable.
//!
//! Log devices get the uberblock of every group, and before all other devices. So a log device
//! without the newest uberblock of another device was away, or is an older copy. Without that rule,
//! an older copy would look like a log that has ended.

use crate::DeviceLabels;
use crate::error::{LeafFailures, LeafProblem, VdevError};
use crate::shape::Shape;
use crate::state::VdevState;
use crate::tree::Layout;
use cenote_base::{Guid, Txg, VdevId};
use cenote_codec::checksum::sha256;
use cenote_device::{Device, DeviceError, wipe_signatures};
use cenote_ondisk::embedded_checksum::{TRAILER_SIZE, label_verifier, prepare, seal};
use cenote_ondisk::label::{
    self, BOOT_ENVIRONMENT_OFFSET, BOOT_ENVIRONMENT_SIZE, CONFIG_OFFSET, LABEL_SIZE, LABELS,
    UBERBLOCK_RING_OFFSET, UberblockRing,
};
use cenote_ondisk::{NvList, Uberblock};
use std::collections::HashMap;

/// Which two of the four labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelPhase {
    /// Labels 0 and 2: written before the uberblock.
    Even,
    /// Labels 1 and 3: written after it.
    Odd,
}

impl LabelPhase {
    fn labels(self) -> [usize; 2] {
        match self {
            Self::Even => [0, 2],
            Self::Odd => [1, 3],
        }
    }
}

/// Where an uberblock goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UberblockScope {
    /// To every leaf: the configuration changed.
    All,
    /// To the log devices, and the leaves of up to three other top-level vdevs, the first of them
    /// by this number.
    Some(usize),
}

/// Top-level vdevs that get an uberblock when the configuration did not change, beside the logs.
const TOPS_MAX: usize = 3;

/// Puts the checksum of a block that stands at `device_offset` at its end.
pub(crate) fn seal_at(block: &mut [u8], device_offset: u64) {
    let position = block.len() - TRAILER_SIZE;
    prepare(block, position, label_verifier(device_offset));
    let checksum = sha256(block);
    seal(block, position, checksum);
}

/// The pieces to write to a device, and where.
type Pieces = Vec<(u64, Vec<u8>)>;

/// The configuration for these labels of a device; `None` if the device has no such labels.
fn config_pieces(config: &[u8], device_size: u64, labels: &[usize]) -> Option<Pieces> {
    let piece = |index: &usize| {
        let at = label::label_offset(device_size, *index)? + CONFIG_OFFSET;
        let mut bytes = config.to_vec();
        seal_at(&mut bytes, at);
        Some((at, bytes))
    };
    labels.iter().map(piece).collect()
}

/// The uberblock for its slot of all labels of a device.
fn uberblock_pieces(
    uberblock: &Uberblock,
    ring: UberblockRing,
    slot: u64,
    device_size: u64,
) -> Option<Pieces> {
    let piece = |index| {
        let label = label::label_offset(device_size, index)?;
        let at = label + UBERBLOCK_RING_OFFSET + ring.slot_offset(slot);
        let mut bytes = uberblock.encode().to_vec();
        bytes.resize(usize::try_from(ring.slot_size()).expect("at most 8 KiB"), 0);
        seal_at(&mut bytes, at);
        Some((at, bytes))
    };
    (0..LABELS).map(piece).collect()
}

impl Shape {
    /// Writes each leaf's configuration into two of its labels and makes them durable.
    ///
    /// Leaves that have no device are passed over, and so are guids that are no leaf's.
    ///
    /// # Errors
    /// If a top-level vdev, log devices excepted, has no leaf left with the new labels.
    pub fn write_labels(
        &self,
        configs: &[(Guid, NvList)],
        phase: LabelPhase,
        txg: Txg,
    ) -> Result<(), VdevError> {
        let mut encoded = HashMap::new();
        for (guid, config) in configs {
            let Some(leaf) = self.tree.leaf_of.get(guid) else {
                continue;
            };
            let piece = label::encode_config(config);
            let piece = piece.ok_or(VdevError::ConfigTooLarge { guid: *guid })?;
            encoded.insert(*leaf, piece);
        }
        let mut leaves: Vec<usize> = encoded.keys().copied().collect();
        leaves.retain(|leaf| self.tree.leaves[*leaf].device.is_some());
        leaves.sort_unstable();
        let failures = self.on_leaves(&leaves, |leaf| {
            let pieces = |size| config_pieces(&encoded[&leaf], size, &phase.labels());
            self.write_pieces(leaf, pieces, txg)?;
            self.tree.leaves[leaf].flush()
        });
        let failed = |leaf: &usize| failures.iter().any(|(other, _)| other == leaf);
        let written: Vec<usize> = leaves
            .iter()
            .filter(|leaf| !failed(leaf))
            .copied()
            .collect();
        let mut lost = self.is_cut_off();
        for top in &self.tree.tops {
            let of_top = |leaf: &&usize| self.top_of_leaf(**leaf) == top.node;
            let is_log = self.tree.nodes[top.node].is_log;
            let wanted = leaves.iter().any(|leaf| of_top(&leaf));
            lost |= wanted && !is_log && written.iter().find(of_top).is_none();
        }
        self.report("labels", failures, lost)
    }

    /// Writes the uberblock into its slot of all labels of the leaves in scope and makes it
    /// durable: first on log devices, then on the others. Returns the leaves that have it now.
    ///
    /// # Errors
    /// If not a single leaf took it that is not of a log device.
    pub fn write_uberblock(
        &self,
        uberblock: &Uberblock,
        scope: UberblockScope,
        multihost: bool,
    ) -> Result<Vec<Guid>, VdevError> {
        let (mut taken, _) = self.write_log_uberblocks(uberblock, multihost);
        taken.extend(self.write_main_uberblocks(uberblock, scope, multihost)?);
        Ok(taken)
    }

    /// Writes the uberblock to all log devices and makes it durable. One that fails is given up,
    /// which costs speed only. Returns those that have it, and those that were given up, now or
    /// before.
    pub fn write_log_uberblocks(
        &self,
        uberblock: &Uberblock,
        multihost: bool,
    ) -> (Vec<Guid>, Vec<Guid>) {
        let mut logs = self.uberblock_leaves(UberblockScope::Some(0));
        logs.retain(|leaf| self.is_of_log(*leaf));
        let failures = self.on_leaves(&logs, |leaf| {
            self.write_leaf_uberblock(leaf, uberblock, multihost)
        });
        for (leaf, _) in &failures {
            self.rest_log(*leaf);
        }
        logs.retain(|leaf| failures.iter().all(|(failed, _)| failed != leaf));
        let written = logs.into_iter().map(|leaf| self.guid_of_leaf(leaf));
        (written.collect(), self.resting_logs())
    }

    /// Writes the uberblock to leaves in scope that are of no log devices, and makes it durable.
    /// Returns those that have it now.
    ///
    /// # Errors
    /// If not a single leaf took it.
    pub fn write_main_uberblocks(
        &self,
        uberblock: &Uberblock,
        scope: UberblockScope,
        multihost: bool,
    ) -> Result<Vec<Guid>, VdevError> {
        let mut leaves = self.uberblock_leaves(scope);
        leaves.retain(|leaf| !self.is_of_log(*leaf));
        let failures = self.on_leaves(&leaves, |leaf| {
            self.write_leaf_uberblock(leaf, uberblock, multihost)
        });
        let lost = failures.len() == leaves.len() || self.is_cut_off();
        leaves.retain(|leaf| failures.iter().all(|(failed, _)| failed != leaf));
        self.report("uberblock", failures, lost)?;
        let written = leaves.into_iter().map(|leaf| self.guid_of_leaf(leaf));
        Ok(written.collect())
    }

    fn write_leaf_uberblock(
        &self,
        leaf: usize,
        uberblock: &Uberblock,
        multihost: bool,
    ) -> Result<(), LeafProblem> {
        let ring = self.ring_of(leaf);
        let slot = ring.slot_of_txg(uberblock.txg, multihost);
        let pieces = |size| uberblock_pieces(uberblock, ring, slot, size);
        self.write_pieces(leaf, pieces, uberblock.txg)?;
        self.tree.leaves[leaf].complete_group(uberblock.txg);
        self.tree.leaves[leaf].flush()
    }

    /// Writes a heartbeat into one label of one leaf, both chosen by `pick`, and returns how many
    /// leaves there are to choose from. It need not survive anything: nothing is flushed.
    ///
    /// # Errors
    /// If the leaf did not take it, or there is none.
    pub fn write_heartbeat(&self, uberblock: &Uberblock, pick: u64) -> Result<usize, VdevError> {
        let leaves = self.uberblock_leaves(UberblockScope::All);
        let count = leaves.len() as u64;
        let Some(leaf) = pick.checked_rem(count).map(|index| leaves[index as usize]) else {
            return self.report("heartbeat", Vec::new(), true).map(|()| 0);
        };
        let device = self.tree.leaves[leaf].device.as_ref();
        let ring = self.ring_of(leaf);
        let pieces = device.and_then(|device| {
            uberblock_pieces(uberblock, ring, ring.heartbeat_slot(), device.size())
        });
        let index = pick / count % LABELS as u64;
        let piece = pieces.and_then(|mut pieces| pieces.drain(..).nth(index as usize));
        let (state, aux) = self.tree.leaves[leaf].live_state();
        let written = piece
            .ok_or(LeafProblem::NotOpen(state, aux))
            .and_then(|(at, bytes)| self.tree.leaves[leaf].write_raw(at, &bytes, uberblock.txg));
        match written {
            Ok(()) => Ok(leaves.len()),
            Err(problem) => self
                .report("heartbeat", vec![(leaf, problem)], true)
                .map(|()| 0),
        }
    }

    /// The uberblocks' ring in a leaf's labels.
    fn ring_of(&self, leaf: usize) -> UberblockRing {
        let node = self.top_of_leaf(leaf);
        let top = self.tree.tops.iter().find(|top| top.node == node);
        UberblockRing::new(top.map_or(label::ASHIFT_MIN, |top| top.ashift))
    }

    /// Tells of failures only when they cost too much; the leaves have counted them anyway.
    pub(crate) fn report(
        &self,
        what: &'static str,
        failed: Vec<(usize, LeafProblem)>,
        lost: bool,
    ) -> Result<(), VdevError> {
        let mut failures = LeafFailures::default();
        for (leaf, problem) in failed {
            self.note(&mut failures, leaf, problem);
        }
        match lost {
            true => Err(VdevError::UnwrittenLabels { what, failures }),
            false => Ok(()),
        }
    }

    /// Writes pieces to a leaf, given its device's size.
    fn write_pieces(
        &self,
        leaf: usize,
        pieces: impl Fn(u64) -> Option<Pieces>,
        txg: Txg,
    ) -> Result<(), LeafProblem> {
        let leaf = &self.tree.leaves[leaf];
        let closed = || LeafProblem::NotOpen(leaf.state, leaf.aux);
        let size = leaf.device.as_ref().ok_or_else(closed)?.size();
        for (at, bytes) in pieces(size).ok_or_else(closed)? {
            leaf.write_raw(at, &bytes, txg)?;
        }
        Ok(())
    }

    /// The node of the top-level vdev that a leaf belongs to.
    pub(crate) fn top_of_leaf(&self, leaf: usize) -> usize {
        let mut node = self.tree.leaves[leaf].node;
        while self.tree.nodes[node].parent != 0 {
            node = self.tree.nodes[node].parent;
        }
        node
    }

    /// The leaves that an uberblock goes to.
    fn uberblock_leaves(&self, scope: UberblockScope) -> Vec<usize> {
        let tops = &self.tree.tops;
        let states = self.states();
        let is_concrete = |top: &usize| {
            let is_there = !matches!(
                tops[*top].layout,
                Layout::Indirect(_) | Layout::Hole | Layout::Missing
            );
            is_there && states[tops[*top].node].0 >= VdevState::Degraded
        };
        let is_log = |top: &usize| self.tree.nodes[tops[*top].node].is_log;
        let mut chosen: Vec<usize> = (0..tops.len()).filter(is_concrete).collect();
        if let UberblockScope::Some(first) = scope {
            let (logs, mut others): (Vec<usize>, Vec<usize>) = chosen.into_iter().partition(is_log);
            let count = others.len().max(1);
            others.rotate_left(first % count);
            others.truncate(TOPS_MAX);
            chosen = others;
            chosen.extend(logs);
        }
        let nodes: Vec<usize> = chosen.iter().map(|top| tops[*top].node).collect();
        let leaves = 0..self.tree.leaves.len();
        let in_scope = |leaf: &usize| {
            self.tree.leaves[*leaf].is_writable() && nodes.contains(&self.top_of_leaf(*leaf))
        };
        leaves.filter(in_scope).collect()
    }

    /// Positions of the top-level vdevs that can be written to, with holes and removed ones left
    /// out.
    pub fn writable_tops(&self) -> Vec<VdevId> {
        let states = self.states();
        let tops = self.tree.tops.iter().enumerate();
        let concrete = tops.filter(|(_, top)| {
            let is_there = !matches!(
                top.layout,
                Layout::Indirect(_) | Layout::Hole | Layout::Missing
            );
            is_there && states[top.node].0.is_readable()
        });
        concrete.map(|(id, _)| VdevId(id as u64)).collect()
    }
}

/// Writes a configuration into two labels of a device that is not part of the tree: a spare or a
/// cache device.
///
/// # Errors
/// What the device says; [`DeviceError::OutOfRange`] if it has no room for labels or the list
/// none in a label.
pub fn write_device_labels(
    device: &dyn Device,
    config: &NvList,
    phase: LabelPhase,
) -> Result<(), DeviceError> {
    let config = label::encode_config(config).ok_or_else(|| no_room(device))?;
    let pieces = config_pieces(&config, device.size(), &phase.labels());
    for (at, bytes) in pieces.ok_or_else(|| no_room(device))? {
        device.write_at(at, &bytes)?;
    }
    device.flush()
}

fn no_room(device: &dyn Device) -> DeviceError {
    DeviceError::OutOfRange {
        path: device.path().into(),
        offset: 0,
        length: LABELS as u64 * LABEL_SIZE,
        size: device.size(),
    }
}

/// Writes all four labels of a device from scratch: blank but for an empty boot environment block
/// and, if given, the configuration. Neither the pool that the device belonged to nor other
/// software on it is found any more (format/1e 4).
///
/// # Errors
/// As [`write_device_labels`].
pub fn format_labels(device: &dyn Device, config: Option<&NvList>) -> Result<(), DeviceError> {
    let config = config.map(|config| label::encode_config(config).ok_or_else(|| no_room(device)));
    let config = config.transpose()?;
    wipe_signatures(device)?;
    for index in 0..LABELS {
        let offset = label::label_offset(device.size(), index).ok_or_else(|| no_room(device))?;
        let mut bytes = vec![0; usize::try_from(LABEL_SIZE).expect("256 KiB")];
        let boot = BOOT_ENVIRONMENT_OFFSET as usize;
        let boot = boot..boot + BOOT_ENVIRONMENT_SIZE as usize;
        seal_at(&mut bytes[boot], offset + BOOT_ENVIRONMENT_OFFSET);
        if let Some(config) = &config {
            let start = CONFIG_OFFSET as usize;
            let place = &mut bytes[start..start + config.len()];
            place.copy_from_slice(config);
            seal_at(place, offset + CONFIG_OFFSET);
        }
        device.write_at(offset, &bytes)?;
    }
    device.flush()
}

/// Makes all four labels of a device blank, so that it is no pool's.
///
/// # Errors
/// What the device says.
pub fn clear_labels(device: &dyn Device) -> Result<(), DeviceError> {
    let places = (0..LABELS).filter_map(|index| label::label_offset(device.size(), index));
    clear(device, places)
}

impl DeviceLabels {
    /// Makes those labels blank that say whose the device is. The places of the others may hold
    /// something else by now.
    ///
    /// # Errors
    /// What the device says.
    pub fn clear(&self, device: &dyn Device) -> Result<(), DeviceError> {
        let own = self.labels.iter().filter(|label| label.config.is_some());
        clear(device, own.map(|label| label.offset))
    }
}

fn clear(device: &dyn Device, places: impl Iterator<Item = u64>) -> Result<(), DeviceError> {
    let blank = vec![0; usize::try_from(LABEL_SIZE).expect("256 KiB")];
    for place in places {
        device.write_at(place, &blank)?;
    }
    device.flush()
}
