//! Putting a batch into objects and a commit.
//!
//! Small batches go into the commit, which is compressed: a quiet transaction group is one put. Of
//! a larger one the metadata may still fit, or at least the labels, which are written again with
//! each group and would only leave dead bytes in data objects. The rest goes into data objects, in
//! the order of addresses, so that neighbours become one extent, and metadata apart from contents.
//! Equal buffers of metadata are stored once: the copies that ZFS keeps of its metadata protect
//! nothing in a store that keeps copies itself.

use crate::error::{CloudError, Result};
use crate::extent_map::Piece;
use crate::format::commit::NewObject;
use crate::format::data::DataBuilder;
use crate::format::{Class, Extent, Hash, ObjectNumber, SECTOR, Target, Uuid, WriterId, key};
use crate::map::Place;
use crate::queue::Pending;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes at both ends of a device that ZFS has its labels in (format/1).
const LABELS: u64 = 512 << 10;
/// Bytes that go inline at most before compression.
const INLINE_PLAIN_MAX: u64 = 1 << 20;

/// How objects are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    pub(crate) uuid: Uuid,
    pub(crate) writer: WriterId,
    /// Bytes of the device.
    pub(crate) size: u64,
    /// The number of the next object.
    pub(crate) next: ObjectNumber,
    /// Bytes of a data object.
    pub(crate) object_bytes: u64,
    /// Bytes of inline bytes, compressed.
    pub(crate) inline_bytes: u64,
}

/// A data object that is to be put.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) key: String,
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) object: NewObject,
}

/// What a commit consists of.
#[derive(Debug, Default)]
pub(crate) struct Package {
    pub(crate) objects: Vec<Packed>,
    pub(crate) extents: Vec<Extent>,
    pub(crate) inline: Vec<u8>,
}

/// A range with its bytes.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) start: u64,
    pub(crate) class: Class,
    pub(crate) bytes: Arc<Vec<u8>>,
    /// Which of them.
    pub(crate) range: std::ops::Range<usize>,
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }

    fn length(&self) -> u64 {
        self.range.len() as u64
    }

    fn sectors(&self) -> u64 {
        self.length() / SECTOR
    }
}

/// Whether sectors from `start` on are in a label of a device of `size` bytes.
pub(crate) fn is_label(size: u64, start: u64, sectors: u64) -> bool {
    // The labels at the end begin at a multiple of their size, 256 KiB.
    let end = size / (LABELS / 2) * (LABELS / 2);
    let (first, last) = (start * SECTOR, (start + sectors) * SECTOR);
    last <= LABELS || first >= end.saturating_sub(LABELS)
}

/// The ranges of a batch with their bytes, and the discarded ones.
///
/// # Errors
/// Bytes that the log does not give any more.
pub(crate) fn chunks(
    pieces: impl Iterator<Item = Piece<Pending>>,
) -> Result<(Vec<Chunk>, Vec<Extent>)> {
    let mut chunks = Vec::new();
    let mut holes = Vec::new();
    for piece in pieces {
        let Some((payload, sector)) = &piece.value.bytes else {
            holes.push(Extent {
                start: piece.start,
                sectors: piece.sectors,
                target: Target::Hole,
            });
            continue;
        };
        let from = usize::try_from(sector * SECTOR).expect("within a payload");
        let length = usize::try_from(piece.sectors * SECTOR).expect("within a payload");
        chunks.push(Chunk {
            start: piece.start,
            class: piece.value.class,
            bytes: payload.all()?,
            range: from..from + length,
        });
    }
    Ok((chunks, holes))
}

/// Packs chunks, in the order of their addresses.
pub(crate) fn pack(packing: &Packing, chunks: &[Chunk], holes: Vec<Extent>) -> Package {
    let size = packing.size;
    let rules: [&dyn Fn(&Chunk) -> bool; 3] = [
        &|_| true,
        &|chunk| chunk.class == Class::Metadata,
        &|chunk| is_label(size, chunk.start, chunk.sectors()),
    ];
    let mut package = Package::default();
    let mut rest: Vec<&Chunk> = chunks.iter().collect();
    for rule in rules {
        let inside: Vec<&Chunk> = chunks.iter().filter(|chunk| rule(chunk)).collect();
        if let Some((bytes, extents)) = inline(&inside, packing.inline_bytes) {
            package.inline = bytes;
            package.extents = extents;
            rest.retain(|chunk| !rule(chunk));
            break;
        }
    }
    for class in [Class::Metadata, Class::Contents] {
        let own = rest.iter().filter(|chunk| chunk.class == class);
        let own: Vec<&Chunk> = own.copied().collect();
        pack_class(packing, class, &own, &mut package);
    }
    package.extents.extend(holes);
    package.extents.sort_unstable_by_key(|extent| extent.start);
    merge_neighbours(&mut package.extents);
    package
}

/// Packs chunks of data objects alone: what compaction and checkpoints move.
pub(crate) fn pack_into_objects(packing: &Packing, chunks: &[Chunk]) -> Package {
    let mut package = Package::default();
    for class in [Class::Metadata, Class::Contents] {
        let own: Vec<&Chunk> = chunks.iter().filter(|chunk| chunk.class == class).collect();
        pack_class(packing, class, &own, &mut package);
    }
    package.extents.sort_unstable_by_key(|extent| extent.start);
    merge_neighbours(&mut package.extents);
    package
}

/// The chunks as inline bytes, if there are some and they fit.
fn inline(chunks: &[&Chunk], limit: u64) -> Option<(Vec<u8>, Vec<Extent>)> {
    let total: u64 = chunks.iter().map(|chunk| chunk.length()).sum();
    if chunks.is_empty() || total > INLINE_PLAIN_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    let mut extents = Vec::new();
    let mut known: HashMap<Hash, u64> = HashMap::new();
    for chunk in chunks {
        let here = bytes.len() as u64 / SECTOR;
        let sector = *known.entry(Hash::of(chunk.bytes())).or_insert(here);
        if sector == here {
            bytes.extend_from_slice(chunk.bytes());
        }
        extents.push(Extent {
            start: chunk.start,
            sectors: chunk.sectors(),
            target: Target::Inline {
                sector,
                class: chunk.class,
            },
        });
    }
    let mut packed = vec![0; zstd_safe::compress_bound(bytes.len())];
    let length = zstd_safe::compress(&mut packed[..], &bytes, 1);
    let fits = length.is_ok_and(|length| length as u64 <= limit);
    (fits || bytes.len() as u64 <= limit).then_some((bytes, extents))
}

/// Places as a checkpoint has them: the inline bytes that they point to, equal ones once.
pub(crate) fn inline_extents(pieces: impl Iterator<Item = Piece<Place>>) -> (Vec<Extent>, Vec<u8>) {
    let mut inline = Vec::new();
    let mut extents = Vec::new();
    let mut known: HashMap<Hash, u64> = HashMap::new();
    for piece in pieces {
        let target = match piece.value {
            Place::Hole => Target::Hole,
            Place::Data { object, sector } => Target::Data { object, sector },
            Place::Inline {
                bytes,
                sector,
                class,
            } => {
                let from = (sector * SECTOR) as usize;
                let own = &bytes.0[from..from + (piece.sectors * SECTOR) as usize];
                let here = inline.len() as u64 / SECTOR;
                let sector = *known.entry(Hash::of(own)).or_insert(here);
                if sector == here {
                    inline.extend_from_slice(own);
                }
                Target::Inline { sector, class }
            }
        };
        extents.push(Extent {
            start: piece.start,
            sectors: piece.sectors,
            target,
        });
    }
    (extents, inline)
}

fn pack_class(packing: &Packing, class: Class, chunks: &[&Chunk], package: &mut Package) {
    let mut chunks = chunks.iter().peekable();
    while chunks.peek().is_some() {
        let mut builder = DataBuilder::new(class);
        let mut known: HashMap<Hash, u64> = HashMap::new();
        let mut placed: Vec<(&Chunk, u64)> = Vec::new();
        while let Some(chunk) = chunks.peek() {
            let is_full = builder.length() + chunk.length() > packing.object_bytes;
            if is_full && builder.length() > 0 {
                break;
            }
            let bytes = chunk.bytes();
            // Contents are rarely equal, and large.
            let digest = (class == Class::Metadata).then(|| Hash::of(bytes));
            let found = digest.and_then(|digest| known.get(&digest).copied());
            let sector = match found {
                Some(sector) => {
                    builder.repeat(chunk.start, sector, bytes);
                    sector
                }
                None => builder.push(chunk.start, bytes),
            };
            if let Some(digest) = digest {
                known.insert(digest, sector);
            }
            placed.push((chunk, sector));
            chunks.next();
        }
        let number = ObjectNumber(packing.next.0 + package.objects.len() as u64);
        let (bytes, base) = builder.finish(packing.uuid, number);
        for (chunk, sector) in placed {
            package.extents.push(Extent {
                start: chunk.start,
                sectors: chunk.sectors(),
                target: Target::Data {
                    object: number,
                    sector: base + sector,
                },
            });
        }
        package.objects.push(Packed {
            key: key::data(packing.writer, number),
            object: NewObject {
                number,
                length: bytes.len() as u64,
                class,
            },
            bytes: Arc::new(bytes),
        });
    }
}

/// Merges extents that continue each other.
fn merge_neighbours(extents: &mut Vec<Extent>) {
    extents.dedup_by(|next, kept| {
        let goes_on = kept.end() == next.start && kept.target.advanced(kept.sectors) == next.target;
        if goes_on {
            kept.sectors += next.sectors;
        }
        goes_on
    });
}

/// The failure of a put whose name has other bytes.
pub(crate) fn cloned(key: &str) -> CloudError {
    CloudError::Cloned { key: key.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::data::DataTable;

    const PACKING: Packing = Packing {
        uuid: Uuid([1; 16]),
        writer: WriterId(2),
        size: 64 << 20,
        next: ObjectNumber(5),
        object_bytes: 1 << 20,
        inline_bytes: 64 << 10,
    };

    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        crate::simulation::Random::new(seed).fill(&mut bytes);
        bytes
    }

    fn chunk(start: u64, class: Class, bytes: Vec<u8>) -> Chunk {
        Chunk {
            start,
            class,
            range: 0..bytes.len(),
            bytes: Arc::new(bytes),
        }
    }

    #[test]
    fn a_small_batch_is_one_put() {
        let chunks = [
            chunk(100, Class::Metadata, noise(1, 4096)),
            chunk(108, Class::Metadata, noise(1, 4096)),
            chunk(4000, Class::Contents, vec![3; 512 << 10]),
        ];
        let package = pack(&PACKING, &chunks, Vec::new());
        assert!(package.objects.is_empty());
        assert_eq!(package.inline.len(), 4096 + (512 << 10), "the copy is free");
        assert_eq!(package.extents.len(), 3);
    }

    #[test]
    fn classes_are_kept_apart_and_labels_inline() {
        let chunks = [
            chunk(8, Class::Metadata, noise(9, 2048)),
            chunk(2000, Class::Metadata, noise(1, 700 << 10)),
            chunk(4000, Class::Contents, noise(2, 700 << 10)),
            chunk(5400, Class::Contents, noise(3, 300 << 10)),
            chunk(6000, Class::Contents, noise(4, 300 << 10)),
        ];
        let hole = Extent {
            start: 1000,
            sectors: 8,
            target: Target::Hole,
        };
        let package = pack(&PACKING, &chunks, vec![hole]);
        assert_eq!(package.inline.len(), 2048);
        let classes: Vec<Class> = package.objects.iter().map(|o| o.object.class).collect();
        assert_eq!(classes, [Class::Metadata, Class::Contents, Class::Contents]);
        assert_eq!(package.extents.len(), 5, "neighbours in one object are one");
        for packed in &package.objects {
            let number = packed.object.number;
            let table = DataTable::decode(PACKING.uuid, number, &packed.bytes);
            assert_eq!(table.map(|table| table.class), Ok(packed.object.class));
        }
    }

    #[test]
    fn labels_are_at_both_ends() {
        let size = (10 << 20) + 4096;
        assert!(is_label(size, 0, 1024));
        assert!(!is_label(size, 1023, 2));
        let end = (10 << 20) / SECTOR;
        assert!(is_label(size, end - 1024, 1024));
        assert!(!is_label(size, end - 1025, 2));
    }
}
