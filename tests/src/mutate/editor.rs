//! Changes to blocks, carried up to the uberblock with every checksum right.

use super::byte_order;
use super::labels::Labels;
use super::tree::{Node, Tree};
use super::{Devices, Write};
use anyhow::{Context, Result, ensure};
use cenote_base::Txg;
use cenote_codec::compress::compress;
use cenote_codec::{Compression, Endian, checksum};
use cenote_ondisk::block_pointer::EMBEDDED_PAYLOAD_MAX;
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind, Dva, wire};
use std::collections::BTreeMap;

const WORD_PROPERTIES: usize = 6;
const WORD_CHECKSUM: usize = 12;
const ZSTD_LEVEL: i32 = 3;

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
    /// Whether blocks stay where they are as far as they fit.
    is_in_place: bool,
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
            is_in_place: false,
        }
    }

    /// The same, for a pool that is written to afterwards: its space maps know the old places of
    /// blocks, and would give new ones to others, so blocks stay where they are if they fit.
    pub fn in_place(self, is_in_place: bool) -> Self {
        Self {
            is_in_place,
            ..self
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

    /// Writes a block of `content` where the old one is, or into the pointer; `None` if it does not
    /// fit there.
    fn overwrite(
        &self,
        writes: &mut Vec<Write>,
        old: &BlockPointer,
        content: &[u8],
    ) -> Option<BlockPointer> {
        if old.is_embedded() {
            let payload = squeezed(old, content, EMBEDDED_PAYLOAD_MAX)?;
            return embedded_in(old, &payload);
        }
        let tops = &self.labels.tops;
        let first = tops.iter().find(|top| top.id == old.dva(0).vdev())?;
        if content.len() as u64 != old.logical_size() {
            return None;
        }
        let small = squeezed(old, content, content.len()).map(|mut small| {
            small.resize(small.len().next_multiple_of(1 << first.ashift), 0);
            small
        });
        let small = small.filter(|small| small.len() < content.len());
        let kind = small.as_ref().and_then(|_| old.compression());
        let stored = small.unwrap_or_else(|| content.to_vec());
        let mut own = Vec::new();
        for dva in old.dvas() {
            let vdev = tops.iter().find(|top| top.id == dva.vdev())?;
            let birth = old.physical_birth();
            if dva.is_gang() || vdev.allocated(stored.len() as u64, birth) > dva.asize() {
                return None;
            }
            own.extend(vdev.write(dva.offset(), &stored, birth));
        }
        writes.extend(own);
        let mut new = *old;
        let sectors = stored.len() as u64 / 512 - 1;
        let kind = kind.unwrap_or(CompressionKind::Off);
        let properties = wire::with_bits(old.words[WORD_PROPERTIES], 16, 16, sectors);
        let properties = wire::with_bits(properties, 32, 7, u64::from(kind.number()));
        let sum = ChecksumKind::Fletcher4 as u64;
        new.words[WORD_PROPERTIES] = wire::with_bits(properties, 40, 8, sum);
        new.words[WORD_CHECKSUM..].copy_from_slice(&checksum::fletcher4(&stored, Endian::Little));
        Some(new)
    }

    /// Writes a block of `content` uncompressed to unused space; returns the pointer to it.
    fn write(
        &mut self,
        writes: &mut Vec<Write>,
        node: &Node,
        content: &[u8],
        endian: Endian,
    ) -> Result<BlockPointer> {
        if self.is_in_place
            && endian == Endian::Little
            && let Some(pointer) = self.overwrite(writes, &node.pointer, content)
        {
            return Ok(pointer);
        }
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

/// `content` compressed as the block before it was; `None` if that takes more than `most` bytes.
fn squeezed(old: &BlockPointer, content: &[u8], most: usize) -> Option<Vec<u8>> {
    let kind = match old.compression()? {
        CompressionKind::Lzjb => Compression::Lzjb,
        CompressionKind::Gzip(level) => Compression::Gzip(level),
        CompressionKind::Zle => Compression::Zle,
        CompressionKind::Lz4 => Compression::Lz4,
        CompressionKind::Zstd => Compression::Zstd,
        _ => return None,
    };
    let mut stored = vec![0; most];
    let length = compress(kind, ZSTD_LEVEL, content, most, &mut stored)?;
    stored.truncate(length);
    Some(stored)
}

/// `old`, an embedded pointer, with this payload in its place.
fn embedded_in(old: &BlockPointer, payload: &[u8]) -> Option<BlockPointer> {
    let mut padded = payload.to_vec();
    padded.resize(EMBEDDED_PAYLOAD_MAX, 0);
    let mut new = *old;
    let places = (0..new.words.len()).filter(|word| ![WORD_PROPERTIES, 10].contains(word));
    for (word, bytes) in places.zip(padded.chunks_exact(8)) {
        new.words[word] = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    // The size is in bytes here: format/2a 1.7.
    let size = u64::try_from(payload.len()).ok()?.checked_sub(1)?;
    new.words[WORD_PROPERTIES] = wire::with_bits(old.words[WORD_PROPERTIES], 25, 7, size);
    Some(new)
}
