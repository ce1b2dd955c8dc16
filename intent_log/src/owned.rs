//! The blocks that a log owns: they are freed with it (format/2e 4).
//!
//! A log's blocks belong to no object, so nothing but the chain itself leads to them. They are
//! listed before the log's header is cleared. The caller that clears it frees them in the same
//! transaction group: a crash never finds the one without the other.

use crate::chain::{ChainBlock, PointingRecord};
use crate::error::IntentLogError;
use crate::log::IntentLog;
use cenote_ondisk::BlockPointer;
use cenote_ondisk::intent_log::block::sequence;
use std::collections::HashSet;

/// The blocks of a chain that was claimed, or of one that is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedBlocks {
    /// Blocks of the chain, the last of them perhaps never written.
    pub chain: Vec<BlockPointer>,
    /// Blocks that writes were put in.
    pub writes: Vec<BlockPointer>,
    /// Cloned blocks: the log holds one reference to each.
    pub clones: Vec<BlockPointer>,
}

impl OwnedBlocks {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &BlockPointer> {
        self.chain.iter().chain(&self.writes).chain(&self.clones)
    }

    /// Leaves out what `is_kept` says no to.
    pub fn retain(&mut self, is_kept: impl Fn(&BlockPointer) -> bool) {
        for blocks in [&mut self.chain, &mut self.writes, &mut self.clones] {
            blocks.retain(&is_kept);
        }
    }
}

impl IntentLog {
    /// The blocks to free when the log is destroyed.
    ///
    /// Works without keys. Of an unclaimed chain only the blocks themselves count: those that its
    /// records point to were never marked allocated.
    ///
    /// # Errors
    /// If a block of the chain cannot be read for another reason than that it was never written.
    pub fn owned_blocks(&self) -> Result<OwnedBlocks, IntentLogError> {
        match self.known_blocks() {
            (owned, None) => Ok(owned),
            (_, Some(error)) => Err(error),
        }
    }

    /// The blocks that records of a claimed log wrote beside it, of one of its blocks.
    ///
    /// A claim may end within a block: at a record whose data was never written, or before a block
    /// that could not be read then. Later records own nothing. What they point to was not marked
    /// allocated, and may belong to another block by now.
    pub fn owned_writes(&self, block: &ChainBlock) -> impl Iterator<Item = BlockPointer> {
        self.owned_records(block).map(|(_, pointer)| pointer)
    }

    /// The same, each with the number of its record.
    pub fn owned_records(&self, block: &ChainBlock) -> impl Iterator<Item = (u64, BlockPointer)> {
        let claimed = self.header().claim_txg;
        let writes = self
            .claimed_records(block)
            .filter_map(|record| Some((record.sequence, record.write?)));
        writes.filter(move |(_, pointer)| {
            pointer.logical_birth() >= claimed && !pointer.is_embedded()
        })
    }

    /// The clones to which a block of a claimed log holds references, the same way.
    fn owned_clones(&self, block: &ChainBlock) -> impl Iterator<Item = BlockPointer> {
        let claimed = self.header().claim_txg;
        let records = self.claimed_records(block);
        let counted = records.filter(move |record| record.txg >= claimed);
        counted.flat_map(|record| record.clones)
    }

    fn claimed_records(&self, block: &ChainBlock) -> impl Iterator<Item = PointingRecord> {
        let last = self.header().last_claimed_record();
        let records = block.pointing_records();
        records.take_while(move |record| record.sequence <= last)
    }

    /// The same as far as the chain can be read, and why it cannot be read further. What the last
    /// pointer leads to is left out then: it may be no block of a log at all.
    pub fn known_blocks(&self) -> (OwnedBlocks, Option<IntentLogError>) {
        let header = self.header();
        let last = match self.is_claimed() {
            true => header.claim_block_sequence,
            false => u64::MAX,
        };
        let mut owned = OwnedBlocks::default();
        let mut seen = HashSet::new();
        let mut failure = None;
        let mut chain = self.chain();
        while sequence(chain.end()) <= last {
            let Some(block) = chain.next() else {
                break;
            };
            let block = match block {
                Ok(block) => block,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            };
            owned.chain.push(block.pointer);
            if !self.is_claimed() {
                continue;
            }
            for pointer in self.owned_writes(&block) {
                if seen.insert([pointer.words[0], pointer.words[1]]) {
                    owned.writes.push(pointer);
                }
            }
            owned.clones.extend(self.owned_clones(&block));
        }
        let end = *chain.end();
        if failure.is_none() && !end.is_hole() && sequence(&end) <= last {
            owned.chain.push(end);
        }
        (owned, failure)
    }
}
