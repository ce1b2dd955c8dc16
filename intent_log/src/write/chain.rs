//! The chain of one log: its blocks, and what each group has to do with them.

use cenote_base::{Txg, VdevId};
use cenote_ondisk::BlockPointer;
use cenote_ondisk::intent_log::IntentLogHeader;
use std::collections::VecDeque;

/// A block that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub pointer: BlockPointer,
    /// The last group of any of its records.
    pub max_txg: Txg,
    /// The position of the last operation of its batch.
    pub position: u64,
}

/// How far the chain is.
#[derive(Debug, Default)]
pub(super) enum Stage {
    /// There is none: the header on disk is empty, or will be before any commit returns.
    #[default]
    Absent,
    /// The first block is allocated. From the group on whose header leads to it the chain counts.
    Starting {
        first: BlockPointer,
        header: Option<Txg>,
    },
    /// Blocks can be added.
    Live {
        blocks: VecDeque<Written>,
        /// The next block: named by the last one, and not written yet.
        tail: BlockPointer,
    },
    /// Something failed: nothing can be added. What was written still counts until its groups are
    /// on disk.
    Broken {
        /// All blocks, to be freed.
        blocks: Vec<BlockPointer>,
        /// Those that were written before.
        written: Vec<Written>,
    },
}

/// The chain, and blocks that are none of it any more.
#[derive(Debug, Default)]
pub(super) struct Chain {
    pub stage: Stage,
    /// To be freed, each in a group that knows it.
    retired: Vec<BlockPointer>,
    /// Written blocks that a group frees which is not on disk yet: after a crash they still count.
    leaving: Vec<Written>,
}

/// What a group has to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSync {
    /// The header that the group is to have; `None` if that stays as it is.
    pub header: Option<IntentLogHeader>,
    /// Blocks that the group frees.
    pub freed: Vec<BlockPointer>,
}

fn header_to(first: BlockPointer) -> Option<IntentLogHeader> {
    Some(IntentLogHeader {
        log: first,
        ..IntentLogHeader::default()
    })
}

impl Chain {
    /// Applies the headers and frees of groups that are on disk now.
    pub fn note_synced(&mut self, synced: Txg) {
        self.leaving.retain(|block| block.max_txg > synced);
        if let Stage::Starting {
            first,
            header: Some(header),
        } = self.stage
            && header <= synced
        {
            self.stage = Stage::Live {
                blocks: VecDeque::new(),
                tail: first,
            };
        }
    }

    /// Whether there is no chain, and no block to be freed.
    pub fn is_gone(&self) -> bool {
        matches!(self.stage, Stage::Absent) && self.retired.is_empty()
    }

    /// Whether a block of the chain, written or not, is on one of these vdevs.
    pub fn is_on(&self, is_meant: impl Fn(VdevId) -> bool) -> bool {
        let is_there = |block: &BlockPointer| block.dvas().any(|dva| is_meant(dva.vdev()));
        match &self.stage {
            Stage::Absent => false,
            Stage::Starting { first, .. } => is_there(first),
            Stage::Live { blocks, tail } => {
                is_there(tail) || blocks.iter().any(|block| is_there(&block.pointer))
            }
            Stage::Broken { blocks, .. } => blocks.iter().any(is_there),
        }
    }

    /// The blocks that a replay would need after a crash now: those up to a position, which are
    /// durable, with records of groups that are not on disk.
    pub fn promised(&self, durable: u64, synced: Txg) -> Vec<BlockPointer> {
        let (blocks, written) = match &self.stage {
            Stage::Absent | Stage::Starting { .. } => (None, None),
            Stage::Live { blocks, .. } => (Some(blocks.iter()), None),
            Stage::Broken { written, .. } => (None, Some(written.iter())),
        };
        let staying = blocks
            .into_iter()
            .flatten()
            .chain(written.into_iter().flatten());
        let needed = self.leaving.iter().chain(staying).filter(|block| {
            let is_durable = block.position <= durable;
            is_durable && block.max_txg > synced
        });
        needed.map(|block| block.pointer).collect()
    }

    /// Adds written blocks; the last of them names `tail`. `false` if the chain broke meanwhile:
    /// then they are only kept to be freed.
    pub fn add(&mut self, written: Vec<Written>, next: BlockPointer) -> bool {
        match &mut self.stage {
            Stage::Live { blocks, tail } => {
                assert_eq!(written.first().map(|first| first.pointer), Some(*tail));
                blocks.extend(written);
                *tail = next;
                true
            }
            Stage::Broken { blocks, .. } => {
                // The first of them was the chain's tail, which is known there.
                let others = written.iter().skip(1).map(|block| block.pointer);
                blocks.extend(others.chain([next]));
                false
            }
            Stage::Absent | Stage::Starting { .. } => {
                unreachable!("a chain that is being written to does not end")
            }
        }
    }

    /// Frees blocks that nothing names when their group is synced.
    pub fn retire(&mut self, allocated: Vec<BlockPointer>) {
        self.retired.extend(allocated);
    }

    /// Nothing more can be added. `allocated` are blocks that only the failed ones name.
    pub fn fail(&mut self, allocated: Vec<BlockPointer>) {
        match &mut self.stage {
            Stage::Live { blocks, tail } => {
                let known = blocks.iter().map(|block| block.pointer).chain([*tail]);
                let all = known.chain(allocated).collect();
                self.stage = Stage::Broken {
                    blocks: all,
                    written: std::mem::take(blocks).into(),
                };
            }
            Stage::Broken { blocks, .. } => blocks.extend(allocated),
            Stage::Absent | Stage::Starting { .. } => self.retired.extend(allocated),
        }
    }

    /// What the group `txg` has to do. The chain `ends` if everything that it has, or should have
    /// had, is in this group or in earlier ones, and no thread is adding to it.
    pub fn sync(&mut self, txg: Txg, ends: bool) -> LogSync {
        let mut freed = Vec::new();
        let header = match &mut self.stage {
            Stage::Absent => None,
            Stage::Starting { first, header } => {
                // Born in a group that is still open: that one will name it.
                match first.physical_birth() <= txg {
                    true => {
                        header.get_or_insert(txg);
                        header_to(*first)
                    }
                    false => None,
                }
            }
            Stage::Live { blocks, tail } => {
                let is_done = |block: &mut Written| {
                    block.max_txg <= txg && block.pointer.physical_birth() <= txg
                };
                while let Some(done) = blocks.pop_front_if(is_done) {
                    freed.push(done.pointer);
                    self.leaving.push(done);
                }
                header_to(blocks.front().map_or(*tail, |first| first.pointer))
            }
            Stage::Broken { .. } => None,
        };
        let header = match ends {
            true => self.end().or(header),
            false => header,
        };
        let due = |pointer: &mut BlockPointer| pointer.physical_birth() <= txg;
        freed.extend(self.retired.extract_if(.., due));
        LogSync { header, freed }
    }

    /// Ends the chain: its blocks are retired. Returns the header, unless there was none.
    fn end(&mut self) -> Option<IntentLogHeader> {
        match std::mem::take(&mut self.stage) {
            Stage::Absent => return None,
            Stage::Starting { first, .. } => self.retired.push(first),
            Stage::Live { blocks, tail } => {
                let pointers = blocks.iter().map(|block| block.pointer);
                self.retired.extend(pointers.chain([tail]));
                self.leaving.extend(blocks);
            }
            Stage::Broken { blocks, written } => {
                self.retired.extend(blocks);
                self.leaving.extend(written);
            }
        }
        Some(IntentLogHeader::default())
    }
}
