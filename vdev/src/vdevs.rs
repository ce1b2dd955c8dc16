//! The open vdevs of a pool: what can be asked about them beside reading.

use crate::error::VdevError;
use crate::geometry::deflate_ratio;
use crate::leaf::VdevCounters;
use crate::state::{VdevAux, VdevState};
use crate::tree::{self, Layout, Top, Tree};
use cenote_base::{BLOCK_SIZE_MAX, Guid, Txg, VdevId};
use cenote_device::Device;
use cenote_ondisk::uberblock::RaidzReflow;
use cenote_ondisk::{VdevConfig, VdevKind};
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

/// What a top-level vdev's space is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AllocationClass {
    /// Everything that has no class of its own.
    #[default]
    Normal,
    /// Intent logs only.
    Log,
    /// Metadata, and small blocks if so configured.
    Special,
    /// Dedup tables.
    Dedup,
}

/// What opening needs to know beside configuration and devices.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Progress of a raidz expansion, from the uberblock.
    pub reflow: Option<RaidzReflow>,
    /// Why leaves cannot be used although their device was found.
    pub problems: HashMap<Guid, VdevAux>,
}

/// The open vdevs of a pool.
#[derive(Debug)]
pub struct Vdevs {
    pub(crate) tree: Tree,
}

/// What a vdev did since it was opened: a copy of its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in VdevCounters")]
pub struct VdevFigures {
    pub read_operations: u64,
    pub read_bytes: u64,
    pub read_errors: u64,
    pub write_operations: u64,
    pub write_bytes: u64,
    pub write_errors: u64,
    pub checksum_errors: u64,
}

impl From<&VdevCounters> for VdevFigures {
    fn from(counters: &VdevCounters) -> Self {
        let [read_errors, write_errors, checksum_errors] = counters.new_errors();
        Self {
            read_operations: counters.read_operations.get(),
            read_bytes: counters.read_bytes.get(),
            read_errors,
            write_operations: counters.write_operations.get(),
            write_bytes: counters.write_bytes.get(),
            write_errors,
            checksum_errors,
        }
    }
}

/// A vdev as `zpool status` and `zpool iostat` show it, with everything below.
#[derive(Clone, Debug)]
pub struct VdevStatus {
    /// The type.
    pub kind: VdevKind,
    /// The guid; 0 for holes.
    pub guid: Guid,
    /// Position among the siblings.
    pub id: Option<VdevId>,
    /// Parity, of raidz and draid.
    pub parity: u64,
    /// Where the configuration says the device was.
    pub path: Option<PathBuf>,
    /// What was opened, if anything.
    pub device: Option<String>,
    /// Size of that device in bytes, labels and all.
    pub device_size: Option<u64>,
    /// Health.
    pub state: VdevState,
    /// Why it is not healthy.
    pub aux: VdevAux,
    /// Of top-level vdevs, what the space is for.
    pub class: Option<AllocationClass>,
    /// A spare in use.
    pub is_spare: bool,
    /// What it did.
    pub figures: VdevFigures,
    /// The vdevs below, in order.
    pub children: Vec<VdevStatus>,
}

impl Vdevs {
    /// Opens the tree below `root` over the devices that were found, by guid.
    ///
    /// Missing devices are no error: [`Self::status`] tells what is left. Errors are trees that
    /// no software of ours can read.
    pub fn open(
        root: &VdevConfig,
        opened: &HashMap<Guid, Arc<dyn Device>>,
        options: &OpenOptions,
    ) -> Result<Self, VdevError> {
        let tree = tree::build(root, opened, options)?;
        Ok(Self { tree })
    }

    /// Top-level vdevs, with holes and removed ones.
    pub fn top_count(&self) -> usize {
        self.tree.tops.len()
    }

    pub(crate) fn top(&self, vdev: VdevId) -> Option<&Top> {
        self.tree.tops.get(usize::try_from(vdev.0).ok()?)
    }

    /// State of a top-level vdev.
    pub fn top_state(&self, vdev: VdevId) -> Option<(VdevState, VdevAux)> {
        let node = self.top(vdev)?.node;
        Some(self.states()[node])
    }

    /// State of the whole pool.
    pub fn state(&self) -> (VdevState, VdevAux) {
        self.states()[0]
    }

    /// Stored bytes of the smallest allocation on a vdev, which is the size of its dynamic gang
    /// headers (format/1d 6).
    pub fn allocation_min(&self, vdev: VdevId) -> Option<usize> {
        let top = self.top(vdev)?;
        let bytes = match &top.layout {
            Layout::Draid { geometry, .. } => geometry.allocation_min(),
            _ => 1 << top.ashift,
        };
        usize::try_from(bytes).ok()
    }

    /// Whether blocks on a vdev have parity beside them.
    pub fn has_parity(&self, vdev: VdevId) -> bool {
        let layout = self.top(vdev).map(|top| &top.layout);
        matches!(layout, Some(Layout::Raidz { .. } | Layout::Draid { .. }))
    }

    /// log2 of a vdev's allocation unit.
    pub fn ashift(&self, vdev: VdevId) -> Option<u32> {
        Some(self.top(vdev)?.ashift)
    }

    /// Bytes that `size` stored bytes take on a vdev when born in `birth` (format/1c 1 to 4).
    ///
    /// `None` without such a vdev, and for more bytes than a block can have.
    pub fn asize(&self, vdev: VdevId, size: u64, birth: Txg) -> Option<u64> {
        let top = self.top(vdev)?;
        (size <= BLOCK_SIZE_MAX).then(|| top.block_asize(size, birth))
    }

    /// Accounted 512-byte units per 512 bytes of a vdev's space (format/1c 5).
    pub fn deflate_ratio(&self, vdev: VdevId) -> Option<u64> {
        let top = self.top(vdev)?;
        Some(match &top.layout {
            Layout::Raidz { geometry, .. } => geometry.deflate_ratio(),
            Layout::Draid { geometry, .. } => geometry.deflate_ratio(),
            _ => deflate_ratio(top.block_asize(128 << 10, Txg(0))),
        })
    }

    /// Start and length in bytes of a vdev's metaslab.
    pub fn metaslab(&self, vdev: VdevId, index: u64) -> Option<(u64, u64)> {
        let top = self.top(vdev)?;
        if let Layout::Draid { geometry, .. } = &top.layout {
            return geometry.metaslab(index, top.metaslab_shift);
        }
        let length = 1u64.checked_shl(top.metaslab_shift)?;
        Some((index.checked_mul(length)?, length))
    }

    /// What a top-level vdev's space is for.
    pub fn class(&self, vdev: VdevId) -> Option<AllocationClass> {
        let class = self.top(vdev)?.class.read();
        Some(*class.unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets what a top-level vdev's space is for, once its ZAP was read.
    pub fn set_class(&self, vdev: VdevId, class: AllocationClass) {
        if let Some(top) = self.top(vdev) {
            *top.class.write().unwrap_or_else(PoisonError::into_inner) = class;
        }
    }

    /// Sets the txgs that a leaf missed: what was born in them is read from it last.
    ///
    /// A guid that is no leaf's is ignored.
    pub fn set_dtl(&self, leaf: Guid, missed: &[Range<Txg>]) {
        let ranges = missed.iter().map(|range| range.start.0..range.end.0);
        if let Some(leaf) = self.tree.leaf_of.get(&leaf) {
            self.tree.leaves[*leaf].set_missed(ranges.collect());
        }
    }

    /// The whole tree with states and figures.
    pub fn status(&self) -> VdevStatus {
        let states = self.states();
        let mut done: Vec<Option<VdevStatus>> = Vec::new();
        done.resize_with(self.tree.nodes.len(), || None);
        // Children have higher numbers than their parents.
        for index in (0..self.tree.nodes.len()).rev() {
            let node = &self.tree.nodes[index];
            let children = node.children.iter();
            let children = children.filter_map(|child| done[*child].take()).collect();
            let leaf = node.leaf.map(|leaf| &self.tree.leaves[leaf]);
            let counters = leaf.map(|leaf| &leaf.counters).or(node.counters.as_deref());
            let device = leaf.and_then(|leaf| leaf.device.as_ref());
            let class = match node.parent {
                0 if index > 0 => node.id.and_then(|id| self.class(id)),
                _ => None,
            };
            done[index] = Some(VdevStatus {
                kind: node.kind.clone(),
                guid: node.guid,
                id: node.id,
                parity: node.parity,
                path: node.path.clone(),
                device: device.map(|device| device.description()),
                device_size: device.map(|device| device.size()),
                state: states[index].0,
                aux: states[index].1,
                class,
                is_spare: node.is_spare,
                figures: counters.map(VdevFigures::from).unwrap_or_default(),
                children,
            });
        }
        done[0].take().expect("there is always a root")
    }
}

impl Top {
    /// Bytes that `size` stored bytes take here when born in `birth`.
    pub(crate) fn block_asize(&self, size: u64, birth: Txg) -> u64 {
        match &self.layout {
            Layout::Raidz { geometry, .. } => geometry.asize(size, birth),
            Layout::Draid { geometry, .. } => geometry.asize(size),
            _ => size.next_multiple_of(1 << self.ashift),
        }
    }

    /// What addresses here are multiples of.
    pub(crate) fn alignment(&self) -> u64 {
        match &self.layout {
            Layout::Raidz { .. } => 1 << self.ashift,
            Layout::Draid { geometry, .. } => geometry.stripe_bytes(),
            _ => cenote_base::SECTOR_SIZE,
        }
    }
}
