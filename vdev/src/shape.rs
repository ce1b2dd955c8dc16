//! The vdevs as they are between two changes of the pool's configuration.

use crate::class::AllocationClass;
use crate::error::VdevError;
use crate::geometry::deflate_ratio;
use crate::options::OpenOptions;
use crate::state::{VdevAux, VdevState};
use crate::tree::{self, Layout, Top, Tree};
use crate::write_load::WriteLoad;
use cenote_base::{BLOCK_SIZE_MAX, Env, Guid, Txg, VdevId};
use cenote_device::Device;
use cenote_injection::LeafFaults;
use cenote_ondisk::VdevConfig;
use std::collections::HashMap;
use std::sync::Arc;

/// An open tree that does not change. What happened to a leaf is shared with the next shape.
#[derive(Debug)]
pub struct Shape {
    pub(crate) tree: Tree,
    /// What holds for these vdevs as long as they are open.
    options: OpenOptions,
    /// How urgent writing is.
    pub(crate) load: Arc<WriteLoad>,
}

impl Shape {
    /// Opens the tree below `root` over the devices that were found, by guid.
    ///
    /// Missing devices are no error: [`Self::status`] tells what is left. Errors are trees that
    /// no software of ours can read.
    pub(crate) fn open(
        root: &VdevConfig,
        opened: &HashMap<Guid, Arc<dyn Device>>,
        options: &OpenOptions,
    ) -> Result<Self, VdevError> {
        Ok(Self {
            tree: tree::build(root, opened, options)?,
            options: options.clone(),
            load: Arc::default(),
        })
    }

    /// The tree below `root` after a change. Vdevs that were there already, by guid, keep their
    /// state and their open devices. The exceptions are leaves for which `opened` has another
    /// device, and those that are not to be open any more.
    pub(crate) fn changed(
        &self,
        root: &VdevConfig,
        opened: &HashMap<Guid, Arc<dyn Device>>,
    ) -> Result<Self, VdevError> {
        let mut options = self.options.clone();
        options
            .problems
            .retain(|guid, _| !opened.contains_key(guid));
        let mut devices = opened.clone();
        let closed: HashMap<Guid, VdevAux> = self.to_close().into_iter().collect();
        for leaf in root
            .leaves()
            .filter(|leaf| !opened.contains_key(&leaf.guid))
        {
            match (self.device_of(leaf.guid), closed.get(&leaf.guid)) {
                (Some(_), Some(aux)) => drop(options.problems.insert(leaf.guid, *aux)),
                (Some(device), None) => drop(devices.insert(leaf.guid, Arc::clone(device))),
                (None, _) => {}
            }
        }
        let mut tree = tree::build(root, &devices, &options)?;
        for (guid, leaf) in &tree.leaf_of {
            if let Some(old) = self.tree.leaf_of.get(guid) {
                tree.leaves[*leaf].go_on(&self.tree.leaves[*old]);
            }
        }
        let old_nodes = self.tree.nodes.iter();
        let old_nodes: HashMap<Guid, usize> = old_nodes
            .enumerate()
            .filter(|(_, node)| node.guid != Guid(0))
            .map(|(index, node)| (node.guid, index))
            .collect();
        for node in &mut tree.nodes {
            let old = old_nodes.get(&node.guid).map(|old| &self.tree.nodes[*old]);
            if let (Some(_), Some(old)) = (&node.counters, old) {
                node.counters.clone_from(&old.counters);
            }
        }
        for position in 0..tree.tops.len() {
            if let Some(old) = self.continued(&tree, position) {
                tree.tops[position].go_on(old);
            }
        }
        Ok(Self {
            tree,
            options,
            load: Arc::clone(&self.load),
        })
    }

    /// What the top-level vdev at this position of another tree was in this one: a disk that
    /// became a mirror is the same vdev, with another guid.
    fn continued(&self, tree: &Tree, position: usize) -> Option<&Top> {
        let old = self.tree.tops.get(position)?;
        let guid = tree.nodes[tree.tops[position].node].guid;
        if guid != Guid(0) && self.tree.nodes[old.node].guid == guid {
            return Some(old);
        }
        let leaves_below = |tree: &Tree, top: usize| -> Vec<Guid> {
            let below = |node: &usize| {
                let mut node = *node;
                while node != 0 && node != top {
                    node = tree.nodes[node].parent;
                }
                node == top
            };
            let leaves = tree.leaves.iter().map(|leaf| leaf.node).filter(below);
            leaves.map(|node| tree.nodes[node].guid).collect()
        };
        let before = leaves_below(&self.tree, old.node);
        let now = leaves_below(tree, tree.tops[position].node);
        before.iter().any(|leaf| now.contains(leaf)).then_some(old)
    }

    /// Whose clock tells how long requests take.
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.options.env
    }

    /// The faults that are made on purpose in a leaf.
    pub fn faults_of(&self, leaf: Guid) -> Option<&Arc<LeafFaults>> {
        Some(&self.tree.leaves[*self.tree.leaf_of.get(&leaf)?].faults)
    }

    /// Whether a leaf's device is open.
    pub fn is_open(&self, leaf: Guid) -> bool {
        self.device_of(leaf).is_some()
    }

    fn device_of(&self, leaf: Guid) -> Option<&Arc<dyn Device>> {
        let leaf = self.tree.leaf_of.get(&leaf)?;
        self.tree.leaves[*leaf].device.as_ref()
    }

    /// The leaves whose devices `next` does not have any more, by number.
    pub(crate) fn leaving(&self, next: &Self) -> Vec<usize> {
        let is_left = |leaf: &usize| {
            let device = self.tree.leaves[*leaf].device.as_ref();
            device.is_some_and(|device| {
                let kept = next.device_of(self.guid_of_leaf(*leaf));
                !kept.is_some_and(|kept| Arc::ptr_eq(kept, device))
            })
        };
        (0..self.tree.leaves.len()).filter(is_left).collect()
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
        Some(*class)
    }

    /// Sets what a top-level vdev's space is for, once its ZAP was read.
    pub fn set_class(&self, vdev: VdevId, class: AllocationClass) {
        if let Some(top) = self.top(vdev) {
            *top.class.write() = class;
        }
    }
}

impl Top {
    /// Takes over what was learned of the same vdev since the pool was opened.
    fn go_on(&mut self, old: &Top) {
        let class = *old.class.read();
        *self.class.get_mut() = class;
        if let (Layout::Indirect(place), Layout::Indirect(known)) = (&mut self.layout, &old.layout)
        {
            let known = known.read();
            *place.get_mut() = known.clone();
        }
    }

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
