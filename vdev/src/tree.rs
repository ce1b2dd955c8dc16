//! Building the tree of vdevs from its configuration and the devices that were found.
//!
//! The configuration is a tree; what reading needs is flatter. Every vdev becomes a *node*, for
//! its state and counters. Every device becomes a *leaf*. Whatever stands below a child of a
//! raidz or draid vdev, or is a top-level vdev itself, and holds the same bytes at the same
//! offsets (a disk, a mirror, a disk being replaced, a disk and its spare) becomes a *slot*: a
//! list of sources that may serve a read. So no read ever walks the tree.

use crate::class::AllocationClass;
use crate::counters::VdevCounters;
use crate::error::VdevError;
use crate::geometry::draid::Draid;
use crate::geometry::raidz::{Raidz, Reflow};
use crate::indirect_mapping::IndirectMapping;
use crate::leaf::Leaf;
use crate::options::OpenOptions;
use crate::state::{self, ChildHealth, VdevAux, VdevState};
use cenote_base::rt::{RwLock, ranks};
use cenote_base::{Guid, VdevId};
use cenote_device::Device;
use cenote_ondisk::label::allocatable_size;
use cenote_ondisk::uberblock::ReflowScratch;
use cenote_ondisk::{VdevConfig, VdevKind};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// No vdev has more allocatable bytes than this: sums of offsets and sizes must not wrap.
const ASIZE_MAX: u64 = 1 << 60;

/// A tree with more vdevs than this is refused: each costs some KiB of counters.
const NODES_MAX: usize = 16_384;

/// A vdev of the tree.
#[derive(Debug)]
pub(crate) struct Node {
    pub kind: VdevKind,
    pub guid: Guid,
    pub id: Option<VdevId>,
    pub path: Option<PathBuf>,
    pub parity: u64,
    pub is_log: bool,
    pub is_spare: bool,
    /// It is brought what it misses in the order of the disk, not by a resilver.
    pub is_rebuilding: bool,
    /// The parent; the root is node 0 and its own parent.
    pub parent: usize,
    /// The child's position, in order; children have higher numbers than their parent.
    pub children: Vec<usize>,
    /// The leaf, if the node is one.
    pub leaf: Option<usize>,
    pub state: VdevState,
    pub aux: VdevAux,
    /// Of interior vdevs; devices have theirs in the leaf.
    pub counters: Option<Arc<VdevCounters>>,
}

/// Something that holds a slot's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A leaf, at the same offset.
    Leaf(usize),
    /// Spare space of the draid vdev at position `top`; the spare itself is a `leaf`.
    DistributedSpare { top: usize, spare: u64, leaf: usize },
}

/// One place for a column or a whole block, with everything that holds it.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub sources: Vec<Source>,
}

/// How a top-level vdev lays out its space.
#[derive(Debug)]
pub(crate) enum Layout {
    /// A disk, a mirror: offsets are the same everywhere.
    Slot(Slot),
    Raidz {
        geometry: Raidz,
        slots: Vec<Slot>,
    },
    Draid {
        geometry: Draid,
        slots: Vec<Slot>,
    },
    /// A removed vdev; the mapping comes once the MOS can be read.
    Indirect(RwLock<Option<Arc<IndirectMapping>>, ranks::IndirectMapping>),
    Hole,
    Missing,
}

/// A top-level vdev.
#[derive(Debug)]
pub(crate) struct Top {
    pub node: usize,
    pub layout: Layout,
    pub ashift: u32,
    /// Allocatable bytes: no address reaches beyond.
    pub asize: u64,
    pub metaslab_shift: u32,
    pub class: RwLock<AllocationClass, ranks::TopClass>,
}

/// The whole tree, flattened.
#[derive(Debug)]
pub(crate) struct Tree {
    pub nodes: Vec<Node>,
    pub leaves: Vec<Leaf>,
    pub tops: Vec<Top>,
    /// Leaves by guid, in an order that is the same each time.
    pub leaf_of: BTreeMap<Guid, usize>,
}

fn bad_config(vdev: &VdevConfig, problem: &'static str) -> VdevError {
    VdevError::BadConfig {
        guid: vdev.guid,
        kind: vdev.kind.name().to_owned(),
        problem,
    }
}

/// State of a leaf from its configuration and from whether it opened, as when OpenZFS opens it.
fn leaf_state(
    config: &VdevConfig,
    is_open: bool,
    problem: Option<VdevAux>,
) -> (VdevState, VdevAux) {
    let state = &config.state;
    if config.kind == VdevKind::DistributedSpare {
        return (VdevState::Healthy, VdevAux::None);
    }
    if state.faulted && !state.removed {
        let is_external = state.aux_state.as_deref() == Some("external");
        let aux = if is_external {
            VdevAux::External
        } else {
            VdevAux::ErrorsExceeded
        };
        return (VdevState::Faulted, aux);
    }
    if state.offline {
        return (VdevState::Offline, VdevAux::None);
    }
    match problem {
        Some(aux @ (VdevAux::Replaced | VdevAux::Deleted)) => (VdevState::Removed, aux),
        Some(aux) => (VdevState::CannotOpen, aux),
        None if !is_open && state.removed => (VdevState::Removed, VdevAux::None),
        None if !is_open => (VdevState::CannotOpen, VdevAux::OpenFailed),
        None if state.degraded => (VdevState::Degraded, VdevAux::ErrorsExceeded),
        None => (VdevState::Healthy, VdevAux::None),
    }
}

/// The least allocatable bytes that a leaf of the top-level vdev must have (format/1 1.2).
pub fn leaf_asize_min(top: &VdevConfig) -> u64 {
    let whole = top.asize >> top.metaslab_shift << top.metaslab_shift;
    let children = top.children.len() as u64;
    match (&top.kind, &top.draid) {
        (VdevKind::Raidz, _) => whole.div_ceil(children.max(1)),
        (VdevKind::Draid, Some(draid)) => {
            whole.div_ceil(children.saturating_sub(draid.spares).max(1))
        }
        _ => whole,
    }
}

/// Builds the tree step by step.
struct Builder<'a> {
    opened: &'a HashMap<Guid, Arc<dyn Device>>,
    options: &'a OpenOptions,
    tree: Tree,
    /// The configuration of each node.
    configs: Vec<&'a VdevConfig>,
}

/// Flattens the tree below `root` over the `opened` devices.
pub(crate) fn build(
    root: &VdevConfig,
    opened: &HashMap<Guid, Arc<dyn Device>>,
    options: &OpenOptions,
) -> Result<Tree, VdevError> {
    if root.kind != VdevKind::Root {
        return Err(VdevError::NoRoot {
            guid: root.guid,
            kind: root.kind.name().to_owned(),
        });
    }
    let tree = Tree {
        nodes: Vec::new(),
        leaves: Vec::new(),
        tops: Vec::new(),
        leaf_of: BTreeMap::new(),
    };
    let mut builder = Builder {
        opened,
        options,
        tree,
        configs: Vec::new(),
    };
    builder.add_nodes(root)?;
    builder.derive_states();
    for position in 0..builder.tree.nodes[0].children.len() {
        let top = builder.top(builder.tree.nodes[0].children[position])?;
        builder.tree.tops.push(top);
    }
    Ok(builder.tree)
}

impl<'a> Builder<'a> {
    /// Makes a node of every vdev, parents first, and a leaf of every device.
    fn add_nodes(&mut self, root: &'a VdevConfig) -> Result<(), VdevError> {
        let mut stack = vec![(root, 0, root)];
        while let Some((config, parent, top)) = stack.pop() {
            if let VdevKind::Unknown(kind) = &config.kind {
                return Err(VdevError::UnknownKind {
                    guid: config.guid,
                    kind: kind.clone(),
                });
            }
            let index = self.tree.nodes.len();
            if index >= NODES_MAX {
                return Err(bad_config(root, "more vdevs than any pool has"));
            }
            if index > 0 && config.kind == VdevKind::Root {
                return Err(bad_config(config, "a root within the tree"));
            }
            self.tree.nodes.push(Node {
                kind: config.kind.clone(),
                guid: config.guid,
                id: config.id,
                path: config.path.clone(),
                parity: config.parity,
                is_log: config.is_log,
                is_spare: config.is_spare,
                is_rebuilding: config.rebuild_txg.is_some(),
                parent,
                children: Vec::with_capacity(config.children.len()),
                leaf: None,
                state: VdevState::Healthy,
                aux: VdevAux::None,
                counters: (!config.kind.is_device()).then(Arc::default),
            });
            self.configs.push(config);
            if index > 0 {
                self.tree.nodes[parent].children.push(index);
            }
            if config.children.is_empty() {
                self.add_leaf(index, config, top);
            }
            let below = config.children.iter().rev();
            stack.extend(below.map(|child| (child, index, if index == 0 { child } else { top })));
        }
        Ok(())
    }

    fn add_leaf(&mut self, index: usize, config: &VdevConfig, top: &VdevConfig) {
        let device = self.opened.get(&config.guid).cloned();
        let problem = self.options.problems.get(&config.guid).copied();
        let is_open = device.is_some();
        let (mut state, mut aux) = match config.kind {
            VdevKind::Hole | VdevKind::Indirect => (VdevState::Healthy, VdevAux::None),
            VdevKind::Missing => (VdevState::CannotOpen, VdevAux::OpenFailed),
            _ => leaf_state(config, is_open, problem),
        };
        let asize = device
            .as_ref()
            .map(|device| allocatable_size(device.size()));
        let is_too_small = asize.is_some_and(|asize| asize < Some(leaf_asize_min(top)));
        if is_too_small && state.is_readable() {
            (state, aux) = (VdevState::CannotOpen, VdevAux::BadLabel);
        }
        let node = &mut self.tree.nodes[index];
        (node.state, node.aux) = (state, aux);
        // What is out of use is closed, so that it can be taken out of the machine or exchanged.
        // When it comes back it is opened by its name, and judged by its labels. Where nothing is
        // written at all, it is read for blocks that no other device has.
        let is_out = matches!(
            state,
            VdevState::Offline | VdevState::Removed | VdevState::Faulted
        );
        let device = device.filter(|device| !is_out || !device.is_writable());
        // Distributed spares have no device, but they can miss things.
        if config.kind.is_device() || config.kind == VdevKind::DistributedSpare {
            node.leaf = Some(self.tree.leaves.len());
            self.tree
                .leaf_of
                .insert(config.guid, self.tree.leaves.len());
            let env = Arc::clone(&self.options.env);
            self.tree
                .leaves
                .push(Leaf::new(index, device, state, aux, env));
        }
    }

    /// States of interior vdevs from their children's, bottom up.
    fn derive_states(&mut self) {
        for index in (0..self.tree.nodes.len()).rev() {
            let node = &self.tree.nodes[index];
            if node.children.is_empty() {
                continue;
            }
            let children: Vec<_> = node
                .children
                .iter()
                .map(|child| {
                    let child = &self.tree.nodes[*child];
                    ChildHealth {
                        state: child.state,
                        aux: child.aux,
                        is_log: child.is_log,
                        counts: !matches!(child.kind, VdevKind::Hole | VdevKind::Indirect),
                    }
                })
                .collect();
            let derived = state::derive(&node.kind, node.parity, &children);
            let node = &mut self.tree.nodes[index];
            (node.state, node.aux) = derived;
        }
    }

    fn top(&self, index: usize) -> Result<Top, VdevError> {
        let config = self.configs[index];
        let layout = match config.kind {
            VdevKind::Hole => Layout::Hole,
            VdevKind::Missing => Layout::Missing,
            VdevKind::Indirect => Layout::Indirect(RwLock::new(None)),
            VdevKind::Raidz => Layout::Raidz {
                geometry: self.raidz(config)?,
                slots: self.child_slots(index)?,
            },
            VdevKind::Draid => Layout::Draid {
                geometry: self.draid(config)?,
                slots: self.child_slots(index)?,
            },
            _ => Layout::Slot(self.slot(index)?),
        };
        let asize = match config.asize {
            0 => self.measured_asize(index, &layout),
            asize => asize,
        };
        if asize > ASIZE_MAX {
            return Err(bad_config(config, "absurd size"));
        }
        let class = if config.is_log {
            AllocationClass::Log
        } else {
            AllocationClass::Normal
        };
        Ok(Top {
            node: index,
            layout,
            ashift: config.ashift.unwrap_or(9),
            asize,
            metaslab_shift: config.metaslab_shift,
            class: RwLock::new(class),
        })
    }

    fn raidz(&self, config: &VdevConfig) -> Result<Raidz, VdevError> {
        let ashift = config.ashift.ok_or(bad_config(config, "no ashift"))?;
        let progress = self.options.reflow;
        let reflow = config.raidz_expanding.then(|| Reflow {
            offset: progress.map_or(0, |reflow| reflow.offset),
            use_scratch: progress.is_some_and(|reflow| reflow.scratch == ReflowScratch::Valid),
        });
        let txgs = config.raidz_expand_txgs.clone();
        let children = config.children.len();
        let raidz = Raidz::new(children, config.parity, ashift, txgs, reflow);
        raidz.ok_or(bad_config(config, "no such raidz geometry"))
    }

    fn draid(&self, config: &VdevConfig) -> Result<Draid, VdevError> {
        let ashift = config.ashift.ok_or(bad_config(config, "no ashift"))?;
        let draid = config.draid.ok_or(bad_config(config, "no geometry"))?;
        if draid.failure_domain_children.is_some() {
            return Err(bad_config(config, "failure domains are not supported"));
        }
        let children = config.children.len();
        let (data, spares, groups) = (draid.data, draid.spares, draid.groups);
        let draid = Draid::new(children, config.parity, data, spares, groups, ashift);
        draid.ok_or(bad_config(config, "no such draid geometry"))
    }

    fn child_slots(&self, index: usize) -> Result<Vec<Slot>, VdevError> {
        let children = self.tree.nodes[index].children.iter();
        children.map(|child| self.slot(*child)).collect()
    }

    /// Everything below a node that holds the node's bytes.
    fn slot(&self, index: usize) -> Result<Slot, VdevError> {
        let mut slot = Slot::default();
        let mut stack = vec![index];
        while let Some(index) = stack.pop() {
            let node = &self.tree.nodes[index];
            match node.kind {
                VdevKind::Disk | VdevKind::File => slot.sources.extend(node.leaf.map(Source::Leaf)),
                VdevKind::Mirror | VdevKind::Replacing | VdevKind::Spare => {
                    stack.extend(node.children.iter().rev());
                }
                VdevKind::DistributedSpare => slot.sources.extend(self.distributed_spare(index)?),
                VdevKind::Missing => {}
                _ => {
                    return Err(bad_config(
                        self.configs[index],
                        "not allowed below another vdev",
                    ));
                }
            }
        }
        Ok(slot)
    }

    fn distributed_spare(&self, index: usize) -> Result<Option<Source>, VdevError> {
        let config = self.configs[index];
        let (guid, spare) = config
            .distributed_spare
            .ok_or(bad_config(config, "does not say whose spare it is"))?;
        let mut tops = self.tree.nodes[0].children.iter();
        let top = tops.position(|top| self.tree.nodes[*top].guid == guid);
        let leaf = self.tree.nodes[index].leaf;
        let leaf = leaf.ok_or(bad_config(config, "has vdevs below it"))?;
        Ok(top.map(|top| Source::DistributedSpare { top, spare, leaf }))
    }

    /// The size of a top-level vdev whose configuration does not say it.
    fn measured_asize(&self, index: usize, layout: &Layout) -> u64 {
        let sizes = self.configs[index].leaves().filter_map(|leaf| {
            let device = self.opened.get(&leaf.guid)?;
            allocatable_size(device.size())
        });
        let child = sizes.min().unwrap_or(0);
        match layout {
            Layout::Slot(_) => child,
            Layout::Raidz { geometry, .. } => geometry.vdev_asize(child),
            Layout::Draid { geometry, .. } => geometry.vdev_asize(child),
            Layout::Indirect(_) | Layout::Hole | Layout::Missing => 0,
        }
    }
}
