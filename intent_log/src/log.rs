//! A dataset's log as a whole: which records count, and how many there are.

use crate::chain::{Chain, type_name};
use crate::error::IntentLogError;
use cenote_base::Txg;
use cenote_dmu::ObjectSet;
use cenote_ondisk::intent_log::IntentLogHeader;
use cenote_ondisk::intent_log::block::sequence;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The intent log of an open object set.
#[derive(Clone, Debug)]
pub struct IntentLog {
    set: Arc<ObjectSet>,
    header: IntentLogHeader,
}

/// Which records are to be replayed (format/2e 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayWindow {
    /// Records of earlier txgs are in the pool already.
    pub txg_min: Txg,
    /// Records up to this number have been replayed.
    pub sequence_after: u64,
    /// Records beyond this number were not claimed.
    pub sequence_max: u64,
}

impl ReplayWindow {
    /// Whether a record counts.
    pub fn contains(&self, txg: Txg, sequence: u64) -> bool {
        txg >= self.txg_min && sequence > self.sequence_after && sequence <= self.sequence_max
    }
}

/// What is in a log, without regard to what the records say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// Valid blocks.
    pub blocks: u64,
    /// Their sizes together, in bytes.
    pub bytes: u64,
    /// Records by the name of their type, as `zdb` prints it.
    pub records: BTreeMap<&'static str, u64>,
    /// Bytes of records.
    pub record_bytes: u64,
    /// Records that are to be replayed.
    pub replayable: u64,
    /// The lowest and highest number of the records, if there are any.
    pub sequences: Option<(u64, u64)>,
    /// The lowest and highest txg of the records, if there are any.
    pub txgs: Option<(Txg, Txg)>,
    /// Whether an importing system has claimed the chain.
    pub is_claimed: bool,
}

impl IntentLog {
    /// The log of `set`, if it has one. In a snapshot there is none, whatever its header says:
    /// callers do not ask.
    pub fn open(set: &Arc<ObjectSet>) -> Result<Option<Self>, IntentLogError> {
        let header =
            IntentLogHeader::decode(&set.header().intent_log_header).map_err(|source| {
                IntentLogError::Header {
                    objset: set.id(),
                    source,
                }
            })?;
        Ok((!header.log.is_hole()).then(|| Self {
            set: Arc::clone(set),
            header,
        }))
    }

    /// The header in the object set block.
    pub fn header(&self) -> &IntentLogHeader {
        &self.header
    }

    /// The same log as this header says that it ends.
    #[must_use]
    pub fn ending(&self, header: &IntentLogHeader) -> Self {
        Self {
            set: Arc::clone(&self.set),
            header: header.clone(),
        }
    }

    /// The object set that the log is of.
    pub fn set(&self) -> &Arc<ObjectSet> {
        &self.set
    }

    /// Whether a system that imported the pool for writing has claimed the chain.
    pub fn is_claimed(&self) -> bool {
        self.header.claim_txg.0 != 0
    }

    /// The chain's valid blocks in order.
    pub fn chain(&self) -> Chain {
        let claimed = match self.is_claimed() {
            true => self.header.claim_block_sequence,
            false => 0,
        };
        Chain::new(Arc::clone(&self.set), self.header.log, claimed)
    }

    /// Which records a replay on top of the state of `last_synced` would apply; `None` if there
    /// is nothing to replay.
    ///
    /// A claimed log says itself what is left of it. One that was not claimed, as after a crash,
    /// holds what comes after the last txg that was synced.
    pub fn replay_window(&self, last_synced: Txg) -> Option<ReplayWindow> {
        let header = &self.header;
        if !self.is_claimed() {
            let txg_min = Txg(last_synced.0.saturating_add(1));
            return Some(ReplayWindow {
                txg_min,
                sequence_after: 0,
                sequence_max: u64::MAX,
            });
        }
        header.needs_replay().then_some(ReplayWindow {
            txg_min: header.claim_txg,
            sequence_after: header.replay_sequence,
            sequence_max: header.last_claimed_record(),
        })
    }

    /// Checks that the chain did not end before what was claimed.
    ///
    /// The last block that was claimed is one that was allocated and perhaps never written.
    pub fn check_end(&self, chain: &Chain) -> Result<(), IntentLogError> {
        let (end, claimed) = (sequence(chain.end()), self.header.claim_block_sequence);
        if self.is_claimed() && end < claimed {
            let objset = self.set.id();
            return Err(IntentLogError::Short {
                objset,
                sequence: end,
                claimed,
            });
        }
        Ok(())
    }

    /// Counts blocks and records. Works without keys.
    pub fn summary(&self, last_synced: Txg) -> Result<LogSummary, IntentLogError> {
        let window = self.replay_window(last_synced);
        let mut summary = LogSummary {
            is_claimed: self.is_claimed(),
            ..LogSummary::default()
        };
        for block in self.chain() {
            let block = block?;
            summary.blocks += 1;
            summary.bytes += block.pointer.physical_size();
            summary.record_bytes += block.records_size();
            for record in block.headers() {
                let counts =
                    window.is_some_and(|window| window.contains(record.txg, record.sequence));
                summary.replayable += u64::from(counts);
                *summary
                    .records
                    .entry(type_name(record.record_type))
                    .or_default() += 1;
                let (low, high) = summary.sequences.unwrap_or((u64::MAX, 0));
                summary.sequences = Some((low.min(record.sequence), high.max(record.sequence)));
                let (low, high) = summary.txgs.unwrap_or((Txg(u64::MAX), Txg(0)));
                summary.txgs = Some((low.min(record.txg), high.max(record.txg)));
            }
        }
        Ok(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_leaves_out_what_is_in_the_pool() {
        let window = ReplayWindow {
            txg_min: Txg(50),
            sequence_after: 7,
            sequence_max: 9,
        };
        let counts = |txg, sequence| window.contains(Txg(txg), sequence);
        assert!(counts(50, 8) && counts(51, 9));
        assert!(!counts(49, 8), "synced");
        assert!(!counts(50, 7), "replayed");
        assert!(!counts(50, 10), "not claimed");
    }
}
