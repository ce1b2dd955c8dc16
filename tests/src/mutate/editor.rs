//! Changes to blocks, carried up to the uberblock with every checksum right.

use super::byte_order;
use super::labels::Labels;
use super::tree::{Node, Tree};
use super::{Devices, Write};
use anyhow::{Context, Result, ensure};
use cenote_base::Txg;
use cenote_codec::{Endian, checksum};
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind, Dva, wire};
use std::collections::BTreeMap;

const WORD_PROPERTIES: usize = 6;
const WORD_CHECKSUM: usize = 12;

/// Unused space for new blocks, on one top-level vdev.
pub(super) struct FreeSpace {
    vdev: usize,
    start: u64,
    end: u64,
}

impl FreeSpace {
    /// The largest stretch at the end of a vdev on which no device ever held data.
    pub fn find(devices: &Devices, labels: &Labels) -> Result<Self> {
        let mut best: Option<Self> = None;
        let vdevs = labels.tops.iter().enumerate();
        for (index, vdev) in vdevs.filter(|(_, vdev)| !vdev.is_log) {
            let (start, end) = vdev.unused(devices)?;
            let size = end.saturating_sub(start);
            if best
                .as_ref()
                .is_none_or(|best| best.end - best.start < size)
            {
                best = Some(Self {
                    vdev: index,
                    start,
                    end: end.max(start),
                });
            }
        }
        best.context("no vdev can be written to")
    }
}

/// Blocks being changed.
pub(super) struct Editor<'a> {
    devices: &'a Devices,
    labels: &'a Labels,
    tree: &'a Tree,
    free: &'a FreeSpace,
    /// Where the next block goes.
    cursor: u64,
    changed: BTreeMap<usize, Vec<u8>>,
    /// Writes of blocks that are no node's.
    extra: Vec<Write>,
}

impl<'a> Editor<'a> {
    /// An editor with nothing changed yet.
    pub fn new(
        devices: &'a Devices,
        labels: &'a Labels,
        tree: &'a Tree,
        free: &'a FreeSpace,
    ) -> Self {
        Self {
            devices,
            labels,
            tree,
            free,
            cursor: free.start,
            changed: BTreeMap::new(),
            extra: Vec::new(),
        }
    }

    /// Space for a block of `size` bytes that may hold its own address.
    pub fn reserve(&mut self, size: u64, birth: Txg) -> Result<Dva> {
        let vdev = &self.labels.tops[self.free.vdev];
        let size = size.next_multiple_of(1 << vdev.ashift);
        let offset = vdev.allocate(&mut self.cursor, self.free.end, size, birth)?;
        Ok(Dva::new(vdev.id, offset, vdev.allocated(size, birth)))
    }

    /// Writes `content` to reserved space.
    pub fn fill(&mut self, dva: Dva, mut content: Vec<u8>, birth: Txg) {
        let vdev = &self.labels.tops[self.free.vdev];
        content.resize(content.len().next_multiple_of(1 << vdev.ashift), 0);
        let writes = vdev.write(dva.offset(), &content, birth);
        self.extra.extend(writes);
    }

    /// The contents of node `index`, to be changed.
    pub fn content(&mut self, index: usize) -> &mut Vec<u8> {
        let tree = self.tree;
        self.changed
            .entry(index)
            .or_insert_with(|| tree.nodes[index].content.clone())
    }

    /// The writes that put all changes into the pool.
    pub fn commit(self) -> Result<Vec<Write>> {
        self.commit_as(Endian::Little)
    }

    /// The same, the changed blocks and the uberblock as a host of this byte order writes them.
    pub fn commit_as(mut self, endian: Endian) -> Result<Vec<Write>> {
        let mut writes = std::mem::take(&mut self.extra);
        // Parents stand before their children: going backwards meets each node once.
        while let Some((index, mut content)) = self.changed.pop_last() {
            let node = &self.tree.nodes[index];
            if endian == Endian::Big {
                let (level, kind) = (node.pointer.level(), node.pointer.object_type());
                byte_order::to_big_endian(&mut content, level, kind)?;
            }
            let pointer = self.write(&mut writes, node, &content, endian)?;
            match node.parent {
                Some((parent, at)) => {
                    assert!(parent < index, "parents are read before their children");
                    let bytes = pointer.encode();
                    self.content(parent)[at..at + bytes.len()].copy_from_slice(&bytes);
                }
                None => writes.extend(self.labels.set_root(self.devices, &pointer, endian)?),
            }
        }
        Ok(writes)
    }

    /// Writes a block of `content` uncompressed to unused space; returns the pointer to it.
    fn write(
        &mut self,
        writes: &mut Vec<Write>,
        node: &Node,
        content: &[u8],
        endian: Endian,
    ) -> Result<BlockPointer> {
        let size = content.len() as u64;
        ensure!(
            size > 0 && size.is_multiple_of(512),
            "a block of {size} bytes"
        );
        let vdev = &self.labels.tops[self.free.vdev];
        let birth = node.pointer.logical_birth();
        let offset = vdev.allocate(&mut self.cursor, self.free.end, size, birth)?;
        let allocated = vdev.allocated(size, birth);
        writes.extend(vdev.write(offset, content, birth));
        let dva = Dva::new(vdev.id, offset, allocated);
        Ok(pointer_to(&node.pointer, dva, content, endian))
    }
}

/// The pointer to a copy of `content` at `dva`, in other respects like `old`.
fn pointer_to(old: &BlockPointer, dva: Dva, content: &[u8], endian: Endian) -> BlockPointer {
    let sectors = content.len() as u64 / 512 - 1;
    let mut new = BlockPointer::HOLE;
    new.words[0] = dva.word0;
    new.words[1] = dva.word1;
    // Level, type, byte order stay; neither embedded nor dedup nor encrypted.
    let kept = old.words[WORD_PROPERTIES] & (0x9fff_u64 << 48);
    let properties = wire::with_bits(kept, 0, 16, sectors);
    let properties = wire::with_bits(properties, 16, 16, sectors);
    let off = u64::from(CompressionKind::Off.number());
    let properties = wire::with_bits(properties, 32, 7, off);
    let properties = wire::with_bits(properties, 63, 1, u64::from(endian == Endian::Little));
    new.words[WORD_PROPERTIES] = wire::with_bits(properties, 40, 8, ChecksumKind::Fletcher4 as u64);
    new.words[10] = old.words[10];
    new.words[11] = old.fill();
    let sum = checksum::fletcher4(content, endian);
    new.words[WORD_CHECKSUM..].copy_from_slice(&sum);
    new
}
