//! All blocks of a pool: from the uberblock through the object directory and every dataset.
//!
//! A bare walk for tests: plain blocks with checksums that need no salt, nothing encrypted.

use cenote_base::{Guid, Txg};
use cenote_codec::Endian;
use cenote_codec::checksum::{fletcher2, fletcher4, sha256};
use cenote_codec::compress::{Compression, decompress};
use cenote_ondisk::dnode::Dnode;
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind, Dva, ObjectType, Objset};
use cenote_vdev::IoContext;
use cenote_vdev::{IndirectEntry, Shape};
use std::collections::HashSet;

/// Whether stored bytes are the pointer's; `None` for checksums that need a salt.
pub fn verify(pointer: &BlockPointer, bytes: &[u8]) -> Option<bool> {
    let endian = match pointer.is_little_endian() {
        true => Endian::Little,
        false => Endian::Big,
    };
    let words = match pointer.checksum_kind()? {
        ChecksumKind::Fletcher2 => fletcher2(bytes, endian),
        ChecksumKind::Fletcher4 => fletcher4(bytes, endian),
        ChecksumKind::Sha256 => sha256(bytes),
        _ => return None,
    };
    Some(words == pointer.checksum())
}

fn is_plain(pointer: &BlockPointer) -> bool {
    !pointer.is_hole() && !pointer.is_embedded() && !pointer.is_gang() && !pointer.uses_crypt()
}

pub fn read(vdevs: &Shape, pointer: &BlockPointer) -> Option<Vec<u8>> {
    let size = pointer.physical_size() as usize;
    let accept = |bytes: &[u8]| verify(pointer, bytes) == Some(true);
    let birth = pointer.physical_birth();
    let mut copies = pointer.dvas();
    let read = copies.find_map(|dva| vdevs.read(dva, size, birth, &accept, &IoContext::USER).ok());
    read.map(|outcome| outcome.bytes)
}

/// The logical contents of a block, stored plainly or embedded.
fn contents(vdevs: &Shape, pointer: &BlockPointer) -> Option<Vec<u8>> {
    let stored = match pointer.embedded_payload() {
        Some(payload) => payload,
        None if is_plain(pointer) => read(vdevs, pointer)?,
        None => return None,
    };
    let kind = match pointer.compression()? {
        CompressionKind::Lz4 => Compression::Lz4,
        CompressionKind::Lzjb => Compression::Lzjb,
        CompressionKind::Zle => Compression::Zle,
        CompressionKind::Zstd => Compression::Zstd,
        CompressionKind::Off | CompressionKind::Empty => return Some(stored),
        _ => return None,
    };
    let mut out = vec![0; pointer.logical_size() as usize];
    decompress(kind, &stored, &mut out).ok()?;
    Some(out)
}

/// Collects the plain blocks of a pool.
#[derive(Default)]
pub struct Walk {
    pub blocks: Vec<BlockPointer>,
    seen: HashSet<[u64; 4]>,
    /// Blocks that could not be read or decoded.
    pub failures: Vec<BlockPointer>,
    /// The mapping of a removed vdev, if there is one.
    pub mappings: Vec<IndirectEntry>,
}

/// The entries of a mapping object: 24 bytes each, source in sectors and target (format/1c 6).
fn mapping_entries(blocks: &[Vec<u8>], count: u64) -> Vec<IndirectEntry> {
    let bytes = blocks.concat();
    let word =
        |bytes: &[u8], i: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[8 * i + k]));
    let entries = bytes.chunks_exact(24).take(count as usize);
    entries
        .map(|entry| IndirectEntry {
            source: (word(entry, 0) & (u64::MAX >> 1)) * 512,
            target: Dva {
                word0: word(entry, 1),
                word1: word(entry, 2),
            },
            // No leaf missed anything: any group will do.
            copied_in: Txg(4),
        })
        .collect()
}

impl Walk {
    pub fn of_pool(vdevs: &Shape, root: &BlockPointer) -> Self {
        let mut walk = Self::default();
        let mut objsets = vec![*root];
        while let Some(pointer) = objsets.pop() {
            walk.objset(vdevs, &pointer, &mut objsets);
        }
        walk
    }

    /// Notes a block; false if it was known or is of no use here.
    fn note(&mut self, pointer: &BlockPointer) -> bool {
        if !is_plain(pointer) || verify(pointer, &[]).is_none() {
            return false;
        }
        let dva = pointer.dva(0);
        let id = [dva.word0, dva.word1, pointer.physical_birth().0, 0];
        let is_new = self.seen.insert(id);
        if is_new {
            self.blocks.push(*pointer);
        }
        is_new
    }

    fn objset(&mut self, vdevs: &Shape, pointer: &BlockPointer, objsets: &mut Vec<BlockPointer>) {
        if !self.note(pointer) {
            return;
        }
        let objset = contents(vdevs, pointer).and_then(|bytes| Objset::decode(&bytes).ok());
        let Some(objset) = objset else {
            return self.failures.push(*pointer);
        };
        for block in self.tree(vdevs, &objset.meta_dnode, true) {
            let mut at = 0;
            while at + 512 <= block.len() {
                let Ok(Some(dnode)) = Dnode::decode(&block[at..]) else {
                    at += 512;
                    continue;
                };
                at += 512 * dnode.slots();
                // The births object has a bonus of 8 bytes, the mapping's is longer.
                let is_mapping =
                    dnode.object_type == ObjectType::UINT64_METADATA && dnode.bonus.len() >= 24;
                let data = self.tree(vdevs, &dnode, is_mapping);
                if is_mapping {
                    let count = dnode.bonus[16..24].try_into().map(u64::from_le_bytes);
                    self.mappings = mapping_entries(&data, count.expect("8 bytes"));
                }
                if let Some(spill) = &dnode.spill {
                    self.note(spill);
                }
                // A dataset's object set is at byte 128 of its bonus.
                if dnode.bonus_type == ObjectType::DSL_DATASET
                    && let Some(bytes) = dnode.bonus.get(128..256)
                {
                    objsets.extend(BlockPointer::decode(bytes).ok());
                }
            }
        }
    }

    /// Notes all blocks of an object; returns the contents of its data blocks if `wanted`.
    fn tree(&mut self, vdevs: &Shape, dnode: &Dnode, wanted: bool) -> Vec<Vec<u8>> {
        let mut stack: Vec<BlockPointer> = dnode.block_pointers.iter().rev().copied().collect();
        let mut data = Vec::new();
        while let Some(pointer) = stack.pop() {
            let is_new = self.note(&pointer);
            let level = pointer.level().get();
            if pointer.is_hole() || (level == 0 && !wanted) || (level > 0 && !is_new) {
                continue;
            }
            let Some(bytes) = contents(vdevs, &pointer) else {
                if is_plain(&pointer) {
                    self.failures.push(pointer);
                }
                continue;
            };
            if level == 0 {
                data.push(bytes);
                continue;
            }
            let below = bytes.chunks_exact(128).rev();
            stack.extend(below.filter_map(|bytes| BlockPointer::decode(bytes).ok()));
        }
        data
    }
}

/// Checksum errors per leaf.
pub fn checksum_errors(vdevs: &Shape) -> Vec<(Guid, u64)> {
    let mut found = Vec::new();
    let mut stack = vec![vdevs.status()];
    while let Some(status) = stack.pop() {
        if status.children.is_empty() {
            found.push((status.guid, status.figures.checksum_errors));
        }
        stack.extend(status.children);
    }
    found
}

/// The birth that a vdev read of a pointer goes by.
pub fn birth(pointer: &BlockPointer) -> Txg {
    pointer.physical_birth()
}
