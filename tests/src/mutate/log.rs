//! Blocks of intent logs: outside the tree, each with its checksum inside.
//!
//! A log block is changed in its place: its checksum covers a verifier from the pointer to it,
//! not a sum, so nothing above it has to change. Encrypted ones are left alone.

use super::tree::{Role, Tree};
use super::vdev::TopVdev;
use super::{Devices, Mutant};
use crate::random::Random;
use anyhow::Result;
use cenote_codec::Endian;
use cenote_codec::checksum::fletcher4;
use cenote_ondisk::embedded_checksum;
use cenote_ondisk::intent_log::IntentLogHeader;
use cenote_ondisk::intent_log::block::{self, LogBlock};
use cenote_ondisk::{BlockPointer, ChecksumKind, wire};

/// Where an object set keeps its log's header: format/2b 3.
const HEADER_OFFSET: usize = 512;

/// Where a block keeps its embedded checksum: format/2e 2.
const TRAILER_OFFSET: usize = 144;

/// More blocks than any golden pool's chain has.
const CHAIN_MAX: usize = 1000;

/// A valid log block.
pub(super) struct Log {
    pointer: BlockPointer,
    /// The vdev's position among those that can be written to.
    vdev: usize,
    content: Vec<u8>,
    /// Bytes that the checksum covers, and where the records are.
    block: LogBlock,
}

/// The blocks of all logs that are not encrypted.
pub(super) fn find(devices: &Devices, tops: &[TopVdev], tree: &Tree) -> Vec<Log> {
    let mut logs = Vec::new();
    for node in tree.nodes.iter().filter(|node| node.role == Role::Objset) {
        let header = node.content.get(HEADER_OFFSET..);
        let Some(Ok(header)) = header.map(IntentLogHeader::decode) else {
            continue;
        };
        let mut pointer = header.log;
        while let Some(log) = read(devices, tops, pointer) {
            let next = log.block.continues(&pointer).then_some(log.block.next);
            logs.push(log);
            match next {
                Some(next) if logs.len() < CHAIN_MAX => pointer = next,
                _ => break,
            }
        }
    }
    logs
}

/// The block that `pointer` leads to, if it is a valid one.
fn read(devices: &Devices, tops: &[TopVdev], pointer: BlockPointer) -> Option<Log> {
    if pointer.is_hole() || pointer.uses_crypt() {
        return None;
    }
    let dva = pointer.dva(0);
    let vdev = tops.iter().position(|vdev| vdev.id == dva.vdev())?;
    let size = usize::try_from(pointer.physical_size()).ok()?;
    let birth = pointer.physical_birth();
    let content = tops[vdev].read(devices, 0, dva.offset(), size, birth)?;
    let block = LogBlock::decode(&content, ChecksumKind::Zilog2).ok()?;
    let is_right = sealed(&pointer, &content, block.covered)? == content;
    is_right.then_some(Log {
        pointer,
        vdev,
        content,
        block,
    })
}

/// `content` with the checksum that it should have.
fn sealed(pointer: &BlockPointer, content: &[u8], covered: usize) -> Option<Vec<u8>> {
    let mut content = content.to_vec();
    embedded_checksum::prepare(&mut content, TRAILER_OFFSET, block::verifier(pointer));
    let sum = fletcher4(content.get(..covered)?, Endian::Little);
    embedded_checksum::seal(&mut content, TRAILER_OFFSET, sum);
    Some(content)
}

/// Some words of a block's records, or of its chain structure, get interesting values.
pub(super) fn mutant(
    logs: &[Log],
    tops: &[TopVdev],
    random: &mut Random,
    interesting: impl Fn(&mut Random, u64) -> u64,
) -> Result<Mutant> {
    let log = random.choose(logs);
    let records = &log.block.records;
    let mut content = log.content.clone();
    let mut done = Vec::new();
    for _ in 0..1 + random.below(4) {
        // Every eighth change hits the pointer to the next block or the count of bytes used.
        let at = match random.below(8) {
            0 => 8 + 8 * random.index(17),
            _ if records.len() < 8 => 8 + 8 * random.index(17),
            // Records begin with their sizes, and most are short.
            1..=3 => records.start + 8 * random.index(records.len().min(512) / 8),
            _ => records.start + 8 * random.index(records.len() / 8),
        };
        let old = wire::u64_le(&content, at, "log block")?;
        let value = interesting(random, old);
        content[at..at + 8].copy_from_slice(&value.to_le_bytes());
        done.push(format!("word at {at} from {old:#x} to {value:#x}"));
    }
    let bytes = sealed(&log.pointer, &content, log.block.covered).unwrap_or(content);
    let offset = log.pointer.dva(0).offset();
    let writes = tops[log.vdev].write(offset, &bytes, log.pointer.physical_birth());
    let sequence = block::sequence(&log.pointer);
    Ok(Mutant {
        description: format!("log block {sequence}: {}", done.join(", ")),
        writes,
        ..Mutant::default()
    })
}
