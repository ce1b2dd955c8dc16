//! From operations to the contents of blocks: records are encoded, large writes split.
//!
//! The first block's size was fixed before its contents were known; the others are as large as what
//! is left. A record never crosses a block, so the rest of a block may stay empty.

use super::records::{Body, Data, Item};
use super::sizes::block_size_for;
use cenote_base::{ObjectId, Txg};
use cenote_ondisk::intent_log::block::CHAIN_SIZE;
use cenote_ondisk::intent_log::record::{Record, RecordBody, WriteData, record_type};
use cenote_ondisk::intent_log::{RECORD_ALIGNMENT, set_sequence};

/// Bytes of a write record before its data.
const WRITE_HEAD: usize = 192;
/// A write is split for the sake of a block's rest if so many bytes of it go there.
const PIECE_MIN: usize = 4096;

/// What one block is to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// Bytes of the block.
    pub size: usize,
    /// Records, numbered.
    pub records: Vec<u8>,
    /// The last group of any of them.
    pub max_txg: Txg,
}

impl Contents {
    fn of_size(size: usize) -> Self {
        Self {
            size,
            ..Self::default()
        }
    }

    fn room(&self) -> usize {
        self.size - CHAIN_SIZE - self.records.len()
    }

    /// Bytes of the block that are in use.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        CHAIN_SIZE + self.records.len()
    }
}

/// Bytes that an operation takes in a block of its own.
fn size_of(item: &Item) -> usize {
    match &item.body {
        Body::Encoded(bytes) => bytes.len(),
        Body::Write { data, .. } => {
            let length = match data {
                Data::Copied(bytes) => bytes.len(),
                Data::Later(length) => usize::try_from(*length).unwrap_or(usize::MAX),
            };
            length.saturating_add(WRITE_HEAD + RECORD_ALIGNMENT)
        }
    }
}

struct Packer<'a> {
    done: Vec<Contents>,
    current: Contents,
    /// The number of the last record.
    sequence: &'a mut u64,
    /// Bytes of operations that are not packed yet.
    left: usize,
}

impl Packer<'_> {
    fn push(&mut self, mut record: Vec<u8>, txg: Txg) {
        assert!(
            record.len().is_multiple_of(RECORD_ALIGNMENT) && record.len() <= self.current.room(),
            "a record of {} bytes does not fit into a block with room for {}",
            record.len(),
            self.current.room()
        );
        *self.sequence += 1;
        set_sequence(&mut record, *self.sequence);
        self.current.records.extend_from_slice(&record);
        self.current.max_txg = self.current.max_txg.max(txg);
    }

    /// Begins another block, for a record of `size` bytes and more.
    fn next_block(&mut self, size: usize) {
        let next = Contents::of_size(block_size_for(self.left, size));
        self.done.push(std::mem::replace(&mut self.current, next));
    }

    fn write(&mut self, txg: Txg, object: ObjectId, mut offset: u64, mut data: &[u8]) {
        loop {
            let room = self.current.room().saturating_sub(WRITE_HEAD);
            let room = room / RECORD_ALIGNMENT * RECORD_ALIGNMENT;
            let piece_min = data.len().min(PIECE_MIN);
            if room < piece_min {
                self.next_block(WRITE_HEAD + piece_min.next_multiple_of(RECORD_ALIGNMENT));
                continue;
            }
            let (piece, rest) = data.split_at(data.len().min(room));
            let record = Record {
                record_type: record_type::WRITE,
                case_insensitive: false,
                txg,
                sequence: 0,
                body: RecordBody::Write {
                    object,
                    offset,
                    length: piece.len() as u64,
                    data: WriteData::Immediate(piece),
                },
            };
            self.push(record.encode(), txg);
            self.left = self.left.saturating_sub(piece.len());
            offset += piece.len() as u64;
            data = rest;
            if data.is_empty() {
                return;
            }
        }
    }
}

/// Fills blocks with operations, the first of which is of `first_size` bytes. Each is numbered.
pub(super) fn pack(items: Vec<Item>, first_size: usize, sequence: &mut u64) -> Vec<Contents> {
    let left = items.iter().map(size_of).fold(0, usize::saturating_add);
    let mut packer = Packer {
        done: Vec::new(),
        current: Contents::of_size(first_size),
        sequence,
        left,
    };
    for item in items {
        let size = size_of(&item);
        match item.body {
            Body::Encoded(record) => {
                if record.len() > packer.current.room() {
                    packer.next_block(record.len());
                }
                packer.push(record, item.txg);
                packer.left = packer.left.saturating_sub(size);
            }
            Body::Write {
                object,
                offset,
                data: Data::Copied(data),
            } if !data.is_empty() => {
                packer.write(item.txg, object, offset, &data);
                packer.left = packer.left.saturating_sub(size - data.len());
            }
            // Empty, or gone when it was to be read.
            Body::Write { .. } => {}
        }
    }
    packer.done.push(packer.current);
    packer.done
}

#[cfg(test)]
mod tests {
    use super::super::sizes::{BLOCK_SIZE_MAX, RECORD_SIZE_MAX};
    use super::*;
    use cenote_base::rt::World;
    use cenote_base::settings;
    use cenote_ondisk::intent_log::record::Records;

    fn write(offset: u64, length: usize) -> Item {
        Item {
            serial: 0,
            txg: Txg(7),
            body: Body::Write {
                object: ObjectId(5),
                offset,
                data: Data::Copied((0..length).map(|i| (i / 13) as u8).collect()),
            },
        }
    }

    fn other(length: usize) -> Item {
        let name = vec![b'n'; length];
        let record = Record {
            record_type: record_type::REMOVE,
            case_insensitive: false,
            txg: Txg(6),
            sequence: 0,
            body: RecordBody::Remove {
                directory: ObjectId(3),
                name: &name,
            },
        };
        Item {
            serial: 0,
            txg: Txg(6),
            body: Body::Encoded(record.encode()),
        }
    }

    /// Puts the data of all write records together, and checks the numbers of all.
    fn written(blocks: &[Contents]) -> (Vec<u8>, u64) {
        let (mut bytes, mut last) = (Vec::new(), 0);
        for block in blocks {
            assert!(block.used() <= block.size && block.size.is_multiple_of(4096));
            for record in Records::new(&block.records) {
                let record = record.expect("valid");
                assert_eq!(record.sequence, last + 1);
                last = record.sequence;
                if let RecordBody::Write {
                    offset,
                    data: WriteData::Immediate(data),
                    ..
                } = record.body
                {
                    assert_eq!(offset, bytes.len() as u64);
                    bytes.extend(data);
                }
            }
        }
        (bytes, last)
    }

    #[test]
    fn large_writes_are_split_and_nothing_is_lost() {
        for length in [1, 4095, 4096, 100_000, 131_072, 500_003] {
            for first in [4096, 8192, BLOCK_SIZE_MAX] {
                let mut sequence = 0;
                let items = vec![other(5), write(0, length), other(200)];
                let blocks = pack(items, first, &mut sequence);
                let (bytes, last) = written(&blocks);
                let expected: Vec<u8> = (0..length).map(|i| (i / 13) as u8).collect();
                assert_eq!(bytes, expected, "{length} after {first}");
                assert_eq!(last, sequence);
                assert!(blocks.len() <= length / 120_000 + 3, "{length}: {first}");
            }
        }
    }

    #[test]
    fn a_block_that_is_too_small_only_leads_on() {
        let mut sequence = 40;
        let blocks = pack(vec![other(6000)], 4096, &mut sequence);
        assert_eq!(blocks.len(), 2);
        assert!(blocks[0].records.is_empty() && blocks[0].max_txg == Txg(0));
        assert_eq!((blocks[1].size, blocks[1].max_txg), (8192, Txg(6)));
        assert_eq!(sequence, 41);
    }

    #[test]
    fn blocks_are_as_large_as_the_setting_allows() {
        World::simulated(1).run(|| {
            settings::ZIL_BLOCK_SIZE_MAX.set(5000).expect("in range");
            for length in [1, 3700, 4096, 100_000] {
                let items = vec![write(0, length), other(6000), other(20)];
                let blocks = pack(items, 4096, &mut 0);
                let (bytes, last) = written(&blocks);
                assert_eq!(bytes.len(), length);
                assert!(last >= 3);
                assert!(blocks.iter().all(|block| block.size <= 8192), "{length}");
            }
            settings::ZIL_BLOCK_SIZE_MAX.set(4096).expect("in range");
            let longest = other(RECORD_SIZE_MAX - 41);
            let blocks = pack(vec![other(20), longest, other(20)], 4096, &mut 0);
            let sizes: Vec<usize> = blocks.iter().map(|block| block.size).collect();
            assert_eq!(sizes, [4096, BLOCK_SIZE_MAX, 4096]);
        });
    }

    #[test]
    fn the_longest_record_fits() {
        let longest = other(RECORD_SIZE_MAX - 41);
        let blocks = pack(vec![longest], 4096, &mut 0);
        assert_eq!(blocks[1].used(), BLOCK_SIZE_MAX);
    }
}
