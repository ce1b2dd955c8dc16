//! Walking the chain of log blocks (format/2e 2).

use crate::error::IntentLogError;
use cenote_base::{BlockId, Bookmark, Level, ObjectId, ObjsetId, Txg};
use cenote_codec::Endian;
use cenote_codec::checksum::{fletcher2, fletcher4};
use cenote_dmu::ObjectSet;
use cenote_io::crypt::open_log_block;
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::embedded_checksum::seal;
use cenote_ondisk::intent_log::block::{self, LogBlock};
use cenote_ondisk::intent_log::record::{
    self, HEADER_SIZE, Records, TYPE_CASE_INSENSITIVE, record_type,
};
use cenote_ondisk::{BlockPointer, ChecksumKind, ObjectType, wire};
use std::ops::Range;
use std::sync::Arc;

/// The largest log block that OpenZFS makes (format/2e 2).
const BLOCK_SIZE_MAX: u64 = 128 << 10;

/// Where a write record's pointer stands, and where its data would: one without is indirect.
const WRITE_POINTER: usize = 64;
const WRITE_DATA: usize = 192;
/// Where a clone record's pointers begin.
const CLONE_POINTERS: usize = 72;

/// Blocks of one chain: 16 GiB of the smallest. OpenZFS syncs long before.
const BLOCKS_MAX: u64 = 1 << 22;

/// A log block that is valid: its checksum is right and it continues the chain.
#[derive(Debug)]
pub struct ChainBlock {
    /// The pointer that led here.
    pub pointer: BlockPointer,
    /// The object set that the log is of.
    pub objset: ObjsetId,
    bytes: Vec<u8>,
    records: Range<usize>,
    is_locked: bool,
}

impl ChainBlock {
    /// The block's number in its chain.
    pub fn sequence(&self) -> u64 {
        block::sequence(&self.pointer)
    }

    /// Whether the records' bodies are ciphertext, for want of a key.
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Bytes of records.
    pub fn records_size(&self) -> u64 {
        self.records.len() as u64
    }

    /// The records' headers, which are never encrypted.
    pub fn headers(&self) -> RecordHeaders<'_> {
        RecordHeaders {
            bytes: &self.bytes[self.records.clone()],
        }
    }

    /// The records. Errors are [`cenote_ondisk::DecodeError`]s; see also [`Self::bad_record`].
    pub fn records(&self) -> Result<Records<'_>, IntentLogError> {
        if self.is_locked && !self.records.is_empty() {
            return Err(IntentLogError::KeyNotLoaded {
                objset: self.objset,
            });
        }
        Ok(Records::new(&self.bytes[self.records.clone()]))
    }

    /// The records' headers, each with the bytes of the record. Pointers in those are in clear,
    /// so that a claim needs no key.
    fn raw_records(&self) -> impl Iterator<Item = (RecordHeader, &[u8])> {
        let mut bytes = &self.bytes[self.records.clone()];
        self.headers().map(move |header| {
            let length = usize::try_from(header.length).expect("within the block");
            let (record, rest) = bytes.split_at(length);
            bytes = rest;
            (header, record)
        })
    }

    /// What the records point to, record by record. Pointers are in clear, so that a claim needs
    /// no key.
    pub fn pointing_records(&self) -> impl Iterator<Item = PointingRecord> {
        self.raw_records().map(|(header, record)| {
            let mut pointing = PointingRecord {
                sequence: header.sequence,
                txg: header.txg,
                write: None,
                clones: Vec::new(),
            };
            let decode = |bytes| BlockPointer::decode(bytes).ok();
            match header.record_type {
                record_type::WRITE if record.len() == WRITE_DATA => {
                    let pointer = decode(&record[WRITE_POINTER..]);
                    pointing.write = pointer.filter(|pointer| !pointer.is_hole());
                }
                record_type::CLONE_RANGE if record.len() >= CLONE_POINTERS => {
                    let stored = record[CLONE_POINTERS..].chunks_exact(BLOCK_POINTER_SIZE);
                    let is_block =
                        |pointer: &BlockPointer| !pointer.is_hole() && !pointer.is_embedded();
                    pointing
                        .clones
                        .extend(stored.filter_map(decode).filter(is_block));
                }
                _ => {}
            }
            pointing
        })
    }

    /// The blocks that writes were put in: a claim marks them allocated, unless they were born
    /// before it (format/2e 4).
    pub fn written_blocks(&self) -> impl Iterator<Item = BlockPointer> {
        self.pointing_records().filter_map(|record| record.write)
    }

    /// An error about a record of this block.
    pub fn bad_record(&self, source: cenote_ondisk::DecodeError) -> IntentLogError {
        IntentLogError::BadRecord {
            objset: self.objset,
            sequence: self.sequence(),
            source,
        }
    }
}

/// What a record points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointingRecord {
    /// The record's number.
    pub sequence: u64,
    /// The txg that the operation belongs to.
    pub txg: Txg,
    /// The block that a write was put in, if that is beside the record.
    pub write: Option<BlockPointer>,
    /// The blocks that were cloned.
    pub clones: Vec<BlockPointer>,
}

/// What is in clear of each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// The operation's number (format/2e 3), without the case flag.
    pub record_type: u64,
    /// Bytes of the record.
    pub length: u64,
    /// The txg that the operation belongs to.
    pub txg: Txg,
    /// The record's number, increasing over the chain.
    pub sequence: u64,
}

/// Iterates over record headers; ends where they stop making sense.
#[derive(Clone, Debug)]
pub struct RecordHeaders<'a> {
    bytes: &'a [u8],
}

impl Iterator for RecordHeaders<'_> {
    type Item = RecordHeader;

    fn next(&mut self) -> Option<Self::Item> {
        let word = |offset| wire::u64_le(self.bytes, offset, "log record").ok();
        let header = RecordHeader {
            record_type: word(0)? & !TYPE_CASE_INSENSITIVE,
            length: word(8)?,
            txg: Txg(word(16)?),
            sequence: word(24)?,
        };
        let length = usize::try_from(header.length)
            .ok()
            .filter(|length| *length >= HEADER_SIZE)?;
        self.bytes = self.bytes.get(length..)?;
        Some(header)
    }
}

/// Iterates over the valid blocks of a chain; ends after an error.
#[derive(Debug)]
pub struct Chain {
    set: Arc<ObjectSet>,
    next: BlockPointer,
    blocks: u64,
    /// Blocks below this number were valid when the chain was claimed.
    claimed: u64,
}

impl Chain {
    pub(crate) fn new(set: Arc<ObjectSet>, first: BlockPointer, claimed: u64) -> Self {
        Self {
            set,
            next: first,
            blocks: 0,
            claimed,
        }
    }

    /// The pointer behind the last valid block: what a claim must mark allocated too.
    pub fn end(&self) -> &BlockPointer {
        &self.next
    }

    /// Whether what comes next may be out of reach, as devices are missing. A claim goes as far as
    /// that, and tells what is lost.
    pub fn is_gone(&self) -> bool {
        let vdevs = self.set.cache().pipeline().vdevs();
        let is_lacking = |vdev| vdevs.may_lack_logs(vdev);
        !self.next.is_hole() && self.next.dvas().all(|dva| is_lacking(dva.vdev()))
    }

    fn check_pointer(&self) -> Result<ChecksumKind, &'static str> {
        let pointer = &self.next;
        if pointer.object_type() != ObjectType::INTENT_LOG || pointer.level() != Level(0) {
            return Err("its pointer is not that of a log block");
        }
        let size = pointer.logical_size();
        if pointer.is_embedded() || pointer.is_gang() || size != pointer.physical_size() {
            return Err("its pointer has a form that log blocks do not have");
        }
        if size > BLOCK_SIZE_MAX || size < block::BLOCK_SIZE_MIN as u64 {
            return Err("its size is not that of a log block");
        }
        match pointer.checksum_kind() {
            Some(kind @ (ChecksumKind::Zilog | ChecksumKind::Zilog2)) => Ok(kind),
            _ => Err("its checksum function is not that of a log block"),
        }
    }

    /// Decrypts the records of a block, which `end` there. Whether they stay locked for want of a
    /// key; `None` if they are not what was written.
    fn open(&self, bytes: &mut [u8], end: usize) -> Option<bool> {
        match self.set.keys() {
            _ if !self.next.uses_crypt() => Some(false),
            None => Some(true),
            Some(keys) => {
                let opened = open_log_block(&self.next, bytes, end, keys);
                opened.is_ok().then_some(false)
            }
        }
    }

    fn advance(&mut self) -> Result<Option<ChainBlock>, IntentLogError> {
        if self.next.is_hole() || self.blocks == BLOCKS_MAX {
            return Ok(None);
        }
        let (objset, sequence) = (self.set.id(), block::sequence(&self.next));
        let kind = self
            .check_pointer()
            .map_err(|problem| IntentLogError::BadPointer {
                objset,
                sequence,
                problem,
            })?;
        let bookmark = Bookmark {
            objset,
            object: ObjectId(0),
            level: Level(0),
            block: BlockId(sequence),
        };
        let unreadable = |source| IntentLogError::Unreadable {
            objset,
            sequence,
            source,
        };
        // A writer allocates the next block before it has anything to put there: what follows
        // the last block may be anything, unless it was valid when the chain was claimed.
        let speculative = sequence >= self.claimed;
        // A block that could not be read at the claim may be readable now, but its successors were
        // never claimed.
        if self.claimed > 0 && (sequence > self.claimed || speculative && self.is_gone()) {
            return Ok(None);
        }
        let is_valid = |bytes: &[u8]| judge(&self.next, &mut bytes.to_vec(), kind).is_some();
        let pipeline = self.set.cache().pipeline();
        let read =
            pipeline.read_log_block(&self.next, bookmark, speculative, &is_valid, self.set.io());
        let Some(mut bytes) = read.map_err(unreadable)? else {
            // Losses of a claimed log were reported when it was claimed.
            return match self.claimed == 0 && self.is_gone() {
                true => Err(IntentLogError::Missing { objset, sequence }),
                false => Ok(None),
            };
        };
        let judged = judge(&self.next, &mut bytes, kind);
        let Some(log_block) = judged else {
            return Ok(None);
        };
        if self.next.uses_crypt() && log_block.trailer.big_endian {
            let problem = "it is encrypted and big-endian, which is not supported";
            return Err(IntentLogError::BadPointer {
                objset,
                sequence,
                problem,
            });
        }
        let Some(is_locked) = self.open(&mut bytes, log_block.records.end) else {
            return Ok(None);
        };
        self.blocks += 1;
        let pointer = std::mem::replace(&mut self.next, log_block.next);
        Ok(Some(ChainBlock {
            pointer,
            objset,
            bytes,
            records: log_block.records,
            is_locked,
        }))
    }
}

impl Iterator for Chain {
    type Item = Result<ChainBlock, IntentLogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let result = self.advance();
        if result.is_err() {
            self.blocks = BLOCKS_MAX;
        }
        result.transpose()
    }
}

/// Decodes a block and brings it into little-endian form, if it is valid.
///
/// Validity is the embedded checksum, which covers the verifier and so the block's place in the
/// chain, and a next pointer with the following number (format/2e 2).
pub(crate) fn judge(
    pointer: &BlockPointer,
    bytes: &mut [u8],
    kind: ChecksumKind,
) -> Option<LogBlock> {
    let is_big = block::is_big_endian(bytes, kind).ok()?;
    // The checksum covers the bytes as the writer had them.
    let raw = is_big.then(|| bytes.to_vec());
    if is_big {
        block::swap(bytes, kind).ok()?;
    }
    let mut log_block = LogBlock::decode(bytes, kind).ok()?;
    log_block.trailer.big_endian = is_big;
    let trailer = log_block.trailer;
    let verifier = block::verifier(pointer);
    let actual = match raw {
        Some(mut raw) => {
            trailer.install_verifier(&mut raw, verifier);
            checksum_of(&raw[..log_block.covered], kind, Endian::Big)
        }
        None => {
            trailer.install_verifier(bytes, verifier);
            let actual = checksum_of(&bytes[..log_block.covered], kind, Endian::Little);
            // The MAC of an encrypted block stands there as well.
            seal(bytes, trailer.position, trailer.checksum);
            actual
        }
    };
    let stored = trailer.checksum;
    let is_right = match pointer.uses_crypt() {
        // The last two words hold the MAC; the others are folded (format/2d 9).
        true => [actual[0] ^ actual[2], actual[1] ^ actual[3]] == stored[..2],
        false => actual == stored,
    };
    if !is_right || !log_block.continues(pointer) {
        return None;
    }
    if is_big && !pointer.uses_crypt() {
        record::swap(&mut bytes[log_block.records.clone()]).ok()?;
    }
    Some(log_block)
}

/// Whether these are the bytes of the log block that `pointer` names.
pub fn is_log_block(pointer: &BlockPointer, bytes: &[u8]) -> bool {
    let kind = pointer.checksum_kind();
    kind.is_some_and(|kind| judge(pointer, &mut bytes.to_vec(), kind).is_some())
}

fn checksum_of(bytes: &[u8], kind: ChecksumKind, endian: Endian) -> [u64; 4] {
    match kind {
        ChecksumKind::Zilog2 => fletcher4(bytes, endian),
        _ => fletcher2(bytes, endian),
    }
}

/// The name that `zdb` prints for a record type.
pub(crate) fn type_name(record_type: u64) -> &'static str {
    match record_type {
        record_type::CREATE => "TX_CREATE",
        record_type::MKDIR => "TX_MKDIR",
        record_type::MKXATTR => "TX_MKXATTR",
        record_type::SYMLINK => "TX_SYMLINK",
        record_type::REMOVE => "TX_REMOVE",
        record_type::RMDIR => "TX_RMDIR",
        record_type::LINK => "TX_LINK",
        record_type::RENAME => "TX_RENAME",
        record_type::WRITE => "TX_WRITE",
        record_type::TRUNCATE => "TX_TRUNCATE",
        record_type::SETATTR => "TX_SETATTR",
        record_type::ACL_V0 => "TX_ACL_V0",
        record_type::ACL => "TX_ACL_ACL",
        record_type::CREATE_ACL => "TX_CREATE_ACL",
        record_type::CREATE_ATTR => "TX_CREATE_ATTR",
        record_type::CREATE_ACL_ATTR => "TX_CREATE_ACL_ATTR",
        record_type::MKDIR_ACL => "TX_MKDIR_ACL",
        record_type::MKDIR_ATTR => "TX_MKDIR_ATTR",
        record_type::MKDIR_ACL_ATTR => "TX_MKDIR_ACL_ATTR",
        record_type::WRITE2 => "TX_WRITE2",
        record_type::SETSAXATTR => "TX_SETSAXATTR",
        record_type::RENAME_EXCHANGE => "TX_RENAME_EXCHANGE",
        record_type::RENAME_WHITEOUT => "TX_RENAME_WHITEOUT",
        record_type::CLONE_RANGE => "TX_CLONE_RANGE",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_ondisk::embedded_checksum::{TRAILER_SIZE, Trailer};
    use cenote_ondisk::intent_log::block::{CHAIN_SIZE, encode_chain};

    /// A pointer to block `sequence` of a chain.
    fn pointer(sequence: u64) -> BlockPointer {
        let mut pointer = BlockPointer::HOLE;
        (pointer.words[0], pointer.words[1]) = (8, sequence * 8);
        pointer.words[6] = 1 << 63 | 9 << 48 | 9 << 40 | 2 << 32 | 7 << 16 | 7;
        pointer.words[12..].copy_from_slice(&[11, 22, 54, sequence]);
        pointer
    }

    fn block(sequence: u64, next: u64) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let used = CHAIN_SIZE + 56;
        let chain = encode_chain(&pointer(sequence), &pointer(next), used);
        bytes[..CHAIN_SIZE].copy_from_slice(&chain);
        for (i, word) in [10_u64, 56, 7, 99, 42, 0, 0].into_iter().enumerate() {
            bytes[CHAIN_SIZE + 8 * i..][..8].copy_from_slice(&word.to_le_bytes());
        }
        let checksum = fletcher4(&bytes, Endian::Little);
        seal(&mut bytes, CHAIN_SIZE - TRAILER_SIZE, checksum);
        bytes
    }

    #[test]
    fn a_valid_block_continues_the_chain() {
        let mut bytes = block(5, 6);
        let judged = judge(&pointer(5), &mut bytes, ChecksumKind::Zilog2).expect("valid");
        assert_eq!(block::sequence(&judged.next), 6);
        let headers = RecordHeaders {
            bytes: &bytes[judged.records],
        }
        .collect::<Vec<_>>();
        let header = RecordHeader {
            record_type: 10,
            length: 56,
            txg: Txg(7),
            sequence: 99,
        };
        assert_eq!(headers, [header]);
    }

    #[test]
    fn a_big_endian_block_is_swapped() {
        let mut bytes = block(5, 6);
        // All of this block is 64-bit words.
        bytes.chunks_exact_mut(8).for_each(<[u8]>::reverse);
        let trailer = Trailer::at(&bytes, CHAIN_SIZE - TRAILER_SIZE).expect("has the magic");
        assert!(trailer.big_endian);
        trailer.install_verifier(&mut bytes, block::verifier(&pointer(5)));
        let checksum = fletcher4(&bytes, Endian::Big);
        trailer.install_verifier(&mut bytes, checksum);
        let mut swapped = bytes.clone();
        let judged = judge(&pointer(5), &mut swapped, ChecksumKind::Zilog2).expect("valid");
        assert_eq!(swapped[CHAIN_SIZE..], block(5, 6)[CHAIN_SIZE..]);
        assert_eq!(block::sequence(&judged.next), 6);
        bytes[CHAIN_SIZE] ^= 1;
        assert!(judge(&pointer(5), &mut bytes, ChecksumKind::Zilog2).is_none());
    }

    #[test]
    fn anything_else_is_the_end() {
        let mut jump = block(5, 7);
        assert!(judge(&pointer(5), &mut jump, ChecksumKind::Zilog2).is_none());
        let mut stale = block(4, 5);
        assert!(judge(&pointer(5), &mut stale, ChecksumKind::Zilog2).is_none());
        let mut damaged = block(5, 6);
        damaged[4000] ^= 1;
        assert!(judge(&pointer(5), &mut damaged, ChecksumKind::Zilog2).is_none());
        assert!(judge(&pointer(5), &mut vec![0; 4096], ChecksumKind::Zilog2).is_none());
    }

    #[test]
    fn headers_with_absurd_lengths_end_the_list() {
        let mut bytes = vec![0; 64];
        bytes[8] = 16;
        assert_eq!(
            RecordHeaders { bytes: &bytes }.count(),
            0,
            "shorter than a header"
        );
        bytes[8..16].fill(0xff);
        assert_eq!(
            RecordHeaders { bytes: &bytes }.count(),
            0,
            "longer than the block"
        );
    }
}
