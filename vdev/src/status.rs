//! The tree as `zpool status` and `zpool iostat` show it.

use crate::class::AllocationClass;
use crate::counters::VdevFigures;
use crate::leaf::Leaf;
use crate::shape::Shape;
use crate::state::{VdevAux, VdevState};
use crate::statistics::ClassFigures;
use cenote_base::{Guid, VdevId};
use cenote_ondisk::VdevKind;
use std::path::PathBuf;
use std::time::Duration;

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

impl Shape {
    /// For each leaf its requests by class, in the order of [`IoClass::ALL`](crate::IoClass::ALL).
    pub fn leaf_requests(&self) -> Vec<(Guid, Vec<ClassFigures>)> {
        let leaves = self.tree.leaves.iter();
        let figures = leaves.map(|leaf| {
            let figures = leaf.counters.requests.figures(leaf.queue.depths());
            (self.tree.nodes[leaf.node].guid, figures)
        });
        figures.collect()
    }

    /// Leaves with a request under way that began at least so long ago.
    pub fn waiting_for(&self, at_least: Duration) -> Vec<Guid> {
        let is_late = |leaf: &&Leaf| {
            let (now, oldest) = (leaf.env.monotonic(), leaf.queue.oldest());
            oldest.is_some_and(|begun| now.saturating_sub(begun) >= at_least)
        };
        let late = self.tree.leaves.iter().filter(is_late);
        late.map(|leaf| self.tree.nodes[leaf.node].guid).collect()
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
            let counters = leaf.map(|leaf| &*leaf.counters);
            let counters = counters.or(node.counters.as_deref());
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
