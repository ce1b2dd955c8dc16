//! The block tree of a pool, read into memory: all metadata that is not encrypted.
//!
//! Nodes stand behind their parents in the list, so that changes can be carried upwards by going
//! through it backwards. Contents of files and volumes are left out: a reader only copies them.

use super::Devices;
use super::labels::Labels;
use super::vdev::TopVdev;
use anyhow::{Context, Result, ensure};
use cenote_codec::compress::decompress;
use cenote_codec::{Compression, Endian, checksum};
use cenote_ondisk::block_pointer::{BLOCK_POINTER_SIZE, Protection};
use cenote_ondisk::dnode::{DNODE_CORE_SIZE, DNODE_SIZE};
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind, Dnode, ObjectType};
use std::collections::BTreeSet;

/// More blocks than any golden pool has.
const NODES_MAX: usize = 200_000;

/// Where an object set's meta-dnode keeps its block pointers.
const META_DNODE_POINTERS: usize = DNODE_CORE_SIZE;

/// Where a DSL dataset keeps the block pointer of its object set: format/3a 3.
const DATASET_POINTER: usize = 0x80;

/// What a block is to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// An object set.
    Objset,
    /// Block pointers.
    Indirect,
    /// 32 slots of dnodes.
    Dnodes,
    /// The contents of an object.
    Contents,
}

/// A block in memory.
pub(super) struct Node {
    pub pointer: BlockPointer,
    pub content: Vec<u8>,
    pub role: Role,
    /// The node that holds `pointer`, and where in it; `None` for the uberblock.
    pub parent: Option<(usize, usize)>,
    /// The first data block below it, in blocks of the object.
    pub first_block: u64,
    /// The object it belongs to; 0 for object sets and dnodes.
    pub object: u64,
    /// The object set it belongs to, as index of its node.
    pub objset: usize,
    /// log2 of pointers in an indirect block of its object.
    fanout_shift: u32,
    /// Where in `content` pointers to other blocks stand.
    pub pointers: Vec<usize>,
}

/// The tree.
pub(super) struct Tree {
    pub nodes: Vec<Node>,
}

/// A block pointer on the way to being a node.
struct Child {
    pointer: BlockPointer,
    parent: Option<(usize, usize)>,
    first_block: u64,
    object: u64,
    objset: Option<usize>,
    fanout_shift: u32,
}

impl Tree {
    /// Reads everything below the newest uberblock. What cannot be read is left out.
    pub fn read(devices: &Devices, labels: &Labels) -> Result<Self> {
        let mut tree = Self { nodes: Vec::new() };
        let mut seen = BTreeSet::new();
        let mut pending = vec![Child {
            pointer: labels.best.root,
            parent: None,
            first_block: 0,
            object: 0,
            objset: None,
            fanout_shift: 10,
        }];
        while let Some(child) = pending.pop() {
            ensure!(tree.nodes.len() < NODES_MAX, "the pool has too many blocks");
            if !is_wanted(&child.pointer) || !seen.insert(child.pointer.words) {
                continue;
            }
            let Some(content) = read_block(devices, &labels.tops, &child.pointer) else {
                continue;
            };
            let index = tree.nodes.len();
            let node = Node {
                role: role(&child.pointer),
                pointer: child.pointer,
                content,
                parent: child.parent,
                first_block: child.first_block,
                object: child.object,
                objset: child.objset.unwrap_or(index),
                fanout_shift: child.fanout_shift,
                pointers: Vec::new(),
            };
            let children = children(&node, index);
            let mut node = node;
            node.pointers = children.iter().filter_map(|c| Some(c.parent?.1)).collect();
            tree.nodes.push(node);
            pending.extend(children);
        }
        ensure!(!tree.nodes.is_empty(), "the root block cannot be read");
        Ok(tree)
    }
}

fn is_wanted(pointer: &BlockPointer) -> bool {
    let data = [ObjectType::PLAIN_FILE, ObjectType::ZVOL];
    let is_data = pointer.level().0 == 0 && data.contains(&pointer.object_type());
    let is_secret =
        pointer.protection() != Protection::None && pointer.object_type() != ObjectType::OBJSET;
    !(pointer.is_hole() || is_data || is_secret)
}

fn role(pointer: &BlockPointer) -> Role {
    match (pointer.level().0, pointer.object_type()) {
        (1.., _) => Role::Indirect,
        (0, ObjectType::OBJSET) => Role::Objset,
        (0, ObjectType::DNODE) => Role::Dnodes,
        (0, _) => Role::Contents,
    }
}

/// The pointers in `node`, the node of index `index`.
fn children(node: &Node, index: usize) -> Vec<Child> {
    match node.role {
        Role::Contents => Vec::new(),
        Role::Indirect => indirect_children(node, index),
        Role::Objset => objset_children(node, index),
        Role::Dnodes => dnode_children(node, index),
    }
}

fn indirect_children(node: &Node, index: usize) -> Vec<Child> {
    let level = u32::from(node.pointer.level().0);
    let step = 1_u64
        .checked_shl(node.fanout_shift * (level - 1))
        .unwrap_or(0);
    let count = node.content.len() / BLOCK_POINTER_SIZE;
    let pointers = (0..count).filter_map(|entry| {
        let at = entry * BLOCK_POINTER_SIZE;
        let pointer = BlockPointer::decode(&node.content[at..]).ok()?;
        Some(Child {
            pointer,
            parent: Some((index, at)),
            first_block: node.first_block + entry as u64 * step,
            object: node.object,
            objset: Some(node.objset),
            fanout_shift: node.fanout_shift,
        })
    });
    pointers.filter(|child| !child.pointer.is_hole()).collect()
}

fn objset_children(node: &Node, index: usize) -> Vec<Child> {
    match Dnode::decode(&node.content) {
        Ok(Some(dnode)) => object_children(&dnode, 0, 0, index, index),
        _ => Vec::new(),
    }
}

fn dnode_children(node: &Node, index: usize) -> Vec<Child> {
    let mut children = Vec::new();
    let mut at = 0;
    while at + DNODE_SIZE <= node.content.len() {
        let Ok(Some(dnode)) = Dnode::decode(&node.content[at..]) else {
            at += DNODE_SIZE;
            continue;
        };
        let slots_per_block = (node.content.len() / DNODE_SIZE) as u64;
        let object = node.first_block * slots_per_block + (at / DNODE_SIZE) as u64;
        children.extend(object_children(&dnode, at, object, index, node.objset));
        children.extend(dataset_child(&dnode, at, index));
        at += dnode.slots() * DNODE_SIZE;
    }
    children
}

/// The pointers of a dnode at `at` of node `index`.
fn object_children(
    dnode: &Dnode,
    at: usize,
    object: u64,
    index: usize,
    objset: usize,
) -> Vec<Child> {
    let fanout_shift = dnode.indirect_fanout_shift();
    let shift = fanout_shift * u32::from(dnode.levels - 1);
    let step = 1_u64.checked_shl(shift).unwrap_or(0);
    let pointers = dnode.block_pointers.iter().enumerate();
    let mut children: Vec<Child> = pointers
        .map(|(entry, pointer)| Child {
            pointer: *pointer,
            parent: Some((index, at + META_DNODE_POINTERS + entry * BLOCK_POINTER_SIZE)),
            first_block: entry as u64 * step,
            object,
            objset: Some(objset),
            fanout_shift,
        })
        .collect();
    if let Some(pointer) = dnode.spill {
        children.push(Child {
            pointer,
            parent: Some((index, at + dnode.slots() * DNODE_SIZE - BLOCK_POINTER_SIZE)),
            first_block: 0,
            object,
            objset: Some(objset),
            fanout_shift,
        });
    }
    children.retain(|child| !child.pointer.is_hole());
    children
}

/// The object set of a DSL dataset.
fn dataset_child(dnode: &Dnode, at: usize, index: usize) -> Option<Child> {
    if dnode.bonus_type != ObjectType::DSL_DATASET {
        return None;
    }
    let pointer = BlockPointer::decode(dnode.bonus.get(DATASET_POINTER..)?).ok()?;
    let bonus = at + DNODE_CORE_SIZE + dnode.block_pointers.len() * BLOCK_POINTER_SIZE;
    (!pointer.is_hole()).then_some(Child {
        pointer,
        parent: Some((index, bonus + DATASET_POINTER)),
        first_block: 0,
        object: 0,
        objset: None,
        fanout_shift: 10,
    })
}

/// A block's contents from the first copy that can be read.
fn read_block(devices: &Devices, tops: &[TopVdev], pointer: &BlockPointer) -> Option<Vec<u8>> {
    let logical = usize::try_from(pointer.logical_size()).ok()?;
    if let Some(payload) = pointer.embedded_payload() {
        return expand(pointer, &payload, logical).ok();
    }
    let physical = usize::try_from(pointer.physical_size()).ok()?;
    for dva in pointer.dvas().filter(|dva| !dva.is_gang()) {
        let Some(vdev) = tops.iter().find(|vdev| vdev.id == dva.vdev()) else {
            continue;
        };
        let birth = pointer.physical_birth();
        for copy in 0..vdev.copies() {
            if let Some(stored) = vdev.read(devices, copy, dva.offset(), physical, birth)
                && is_right(pointer, &stored)
                && let Ok(content) = expand(pointer, &stored, logical)
            {
                return Some(content);
            }
        }
    }
    None
}

/// Only blocks with the checksum of metadata are vouched for; others count as read.
fn is_right(pointer: &BlockPointer, stored: &[u8]) -> bool {
    pointer.checksum_kind() != Some(ChecksumKind::Fletcher4)
        || checksum::fletcher4(stored, Endian::Little) == pointer.checksum()
}

fn expand(pointer: &BlockPointer, stored: &[u8], logical: usize) -> Result<Vec<u8>> {
    let kind = match pointer.compression().context("a compression function")? {
        CompressionKind::Off => {
            let content = stored.get(..logical).context("stored whole")?;
            return Ok(content.to_vec());
        }
        CompressionKind::Lzjb => Compression::Lzjb,
        CompressionKind::Gzip(level) => Compression::Gzip(level),
        CompressionKind::Zle => Compression::Zle,
        CompressionKind::Lz4 => Compression::Lz4,
        CompressionKind::Zstd => Compression::Zstd,
        other => anyhow::bail!("no block is stored as {}", other.name()),
    };
    let mut content = vec![0; logical];
    decompress(kind, stored, &mut content)?;
    Ok(content)
}
