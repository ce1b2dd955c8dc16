//! What one leaf missed: its dirty time logs (format/1c 7).
//!
//! A txg is *missing* if the leaf was not given all that was written in it, or did not take it.
//! That is what is stored with the pool. A resilver copies to the leaf what it misses, and strikes
//! the txg off when it has ended. What it could not copy is *unrepaired* meanwhile, and missing
//! afterwards. What is unrepaired counts as missing from the scan's next note on, so that it is not
//! forgotten if the pool goes down. A leaf that was out of use for a while, however short, may have
//! lost part of what it got. So *outages* are counted: a resilver counts only for leaves that had
//! none.
//!
//! What a failed flush may have lost is missing and *in doubt*: the writer may still have it and
//! write it again. Then it is struck off, unless the leaf missed something else of that txg.

use crate::txg_set::TxgSet;
use cenote_base::Txg;
use cenote_base::rt::{RwLock, RwLockReadGuard, RwLockWriteGuard, ranks};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(Debug, Default)]
struct Logs {
    missing: TxgSet,
    unrepaired: TxgSet,
    /// Those missing txgs that would not be missing if all were written again.
    doubtful: TxgSet,
}

/// The logs of a leaf.
#[derive(Debug, Default)]
pub(crate) struct Missed {
    /// So that the usual empty log costs no lock.
    any: AtomicBool,
    logs: RwLock<Logs, ranks::MissedWrites>,
    /// The last txg that was noted as missed: most notes say the same again.
    last: AtomicU64,
    /// The missing txgs are to be stored.
    has_changed: AtomicBool,
    outages: AtomicU64,
}

impl Missed {
    fn read(&self) -> RwLockReadGuard<'_, Logs> {
        self.logs.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Logs> {
        self.logs.write()
    }

    fn set_missing(&self, logs: &mut Logs, missing: TxgSet) {
        self.any.store(!missing.is_empty(), Ordering::Release);
        self.last.store(0, Ordering::Release);
        logs.missing = missing;
    }

    /// Replaces the missing txgs by what is stored.
    pub(crate) fn set(&self, missing: TxgSet) {
        self.set_missing(&mut self.write(), missing);
    }

    /// Adds txgs that turn out to be missing.
    pub(crate) fn add(&self, missed: &TxgSet) {
        let mut logs = self.write();
        logs.doubtful = logs.doubtful.without(missed);
        let missing = logs.missing.with(missed);
        if missing != logs.missing {
            self.set_missing(&mut logs, missing);
            self.has_changed.store(true, Ordering::Release);
        }
    }

    /// Notes that the leaf may lack something of these txgs, which may be written again.
    pub(crate) fn doubt(&self, txgs: &TxgSet) {
        let mut logs = self.write();
        let new = txgs.without(&logs.missing);
        if !new.is_empty() {
            logs.doubtful = logs.doubtful.with(&new);
            let missing = logs.missing.with(&new);
            self.set_missing(&mut logs, missing);
            self.has_changed.store(true, Ordering::Release);
        }
    }

    /// Ends all doubts: what was in doubt `is_there`, or is missing for good.
    pub(crate) fn settle_doubts(&self, is_there: bool) {
        if !self.is_any() {
            return;
        }
        let mut logs = self.write();
        let doubtful = std::mem::take(&mut logs.doubtful);
        if is_there && !doubtful.is_empty() {
            let missing = logs.missing.without(&doubtful);
            self.set_missing(&mut logs, missing);
            self.has_changed.store(true, Ordering::Release);
        }
    }

    /// Notes that the leaf does not have all that it should have of `txg`.
    pub(crate) fn note(&self, txg: Txg) {
        if txg.0 == 0 || self.last.load(Ordering::Acquire) == txg.0 {
            return;
        }
        let mut logs = self.write();
        if logs.missing.insert(txg) {
            self.any.store(true, Ordering::Release);
            self.has_changed.store(true, Ordering::Release);
        } else if !logs.doubtful.is_empty() {
            let certain = TxgSet::from_ranges([txg..Txg(txg.0 + 1)]);
            logs.doubtful = logs.doubtful.without(&certain);
        }
        drop(logs);
        self.last.store(txg.0, Ordering::Release);
    }

    /// Notes that something of `txg` could not be brought to the leaf.
    pub(crate) fn note_unrepaired(&self, txg: Txg) {
        self.write().unrepaired.insert(txg);
    }

    /// The missing txgs.
    pub(crate) fn missing(&self) -> TxgSet {
        match self.any.load(Ordering::Acquire) {
            true => self.read().missing.clone(),
            false => TxgSet::default(),
        }
    }

    /// Whether anything is missing.
    pub(crate) fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether a txg is missing.
    pub(crate) fn contains(&self, txg: Txg) -> bool {
        self.any.load(Ordering::Acquire) && self.read().missing.contains(txg)
    }

    /// Whether the missing txgs changed since the last time this was asked.
    pub(crate) fn take_changed(&self) -> bool {
        self.has_changed.swap(false, Ordering::AcqRel)
    }

    /// Notes that the leaf is out of use, if only for a moment.
    pub(crate) fn note_outage(&self) {
        self.outages.fetch_add(1, Ordering::AcqRel);
    }

    /// How often the leaf was out of use.
    pub(crate) fn outages(&self) -> u64 {
        self.outages.load(Ordering::Acquire)
    }

    /// Notes that something of any of these txgs may not have been brought to the leaf.
    pub(crate) fn note_all_unrepaired(&self, txgs: &TxgSet) {
        let mut logs = self.write();
        logs.unrepaired = logs.unrepaired.with(txgs);
    }

    /// What could not be brought to the leaf since the scan began.
    pub(crate) fn unrepaired(&self) -> TxgSet {
        self.read().unrepaired.clone()
    }

    /// What is unrepaired is missing.
    pub(crate) fn keep_unrepaired(&self) {
        let unrepaired = self.unrepaired();
        if !unrepaired.is_empty() {
            self.add(&unrepaired);
        }
    }

    /// A scan begins: what the one before could not repair is missing, and this one has tried
    /// nothing yet.
    pub(crate) fn begin_resilver(&self) {
        self.keep_unrepaired();
        self.write().unrepaired = TxgSet::default();
    }

    /// What was missing of these txgs is there.
    pub(crate) fn strike(&self, txgs: &TxgSet) {
        let mut logs = self.write();
        let missing = logs.missing.without(txgs);
        if missing != logs.missing {
            self.set_missing(&mut logs, missing);
            self.has_changed.store(true, Ordering::Release);
        }
    }

    /// A resilver that looked after these txgs has ended.
    pub(crate) fn end_resilver(&self, txgs: &TxgSet) {
        let mut logs = self.write();
        let unrepaired = std::mem::take(&mut logs.unrepaired);
        let missing = logs.missing.without(txgs).with(&unrepaired);
        if missing != logs.missing {
            self.set_missing(&mut logs, missing);
            self.has_changed.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(range: std::ops::Range<u64>) -> TxgSet {
        TxgSet::from_ranges([Txg(range.start)..Txg(range.end)])
    }

    #[test]
    fn what_is_noted_is_to_be_stored_once() {
        let missed = Missed::default();
        missed.set(set(5..7));
        assert!(!missed.take_changed(), "that is stored already");
        for txg in [7, 7, 8, 7] {
            missed.note(Txg(txg));
        }
        missed.note(Txg(0));
        assert_eq!(missed.missing(), set(5..9));
        assert!(missed.take_changed() && !missed.take_changed());
        missed.add(&set(6..8));
        assert!(!missed.take_changed(), "no news");
        missed.add(&set(9..10));
        assert!(missed.take_changed() && missed.contains(Txg(9)));
    }

    #[test]
    fn what_is_written_again_was_not_missed() {
        let missed = Missed::default();
        missed.note(Txg(5));
        missed.doubt(&set(5..9));
        assert_eq!(missed.missing(), set(5..9));
        // Of this one a write fails, too, while the others are written again.
        missed.note(Txg(7));
        missed.settle_doubts(true);
        assert_eq!(missed.missing(), set(5..6).with(&set(7..8)));
        missed.doubt(&set(20..21));
        missed.settle_doubts(false);
        missed.settle_doubts(true);
        assert!(missed.contains(Txg(20)), "it was not written again");
    }

    #[test]
    fn a_resilver_strikes_off_what_it_brought() {
        let missed = Missed::default();
        missed.set(set(5..20));
        missed.note_unrepaired(Txg(6));
        missed.begin_resilver();
        missed.note_unrepaired(Txg(12));
        // What is written meanwhile and missed is not the resilver's.
        missed.note(Txg(30));
        missed.end_resilver(&set(5..20));
        let rest = set(12..13).with(&set(30..31));
        assert_eq!(missed.missing(), rest);
        assert!(missed.take_changed());
        missed.end_resilver(&rest);
        assert!(missed.missing().is_empty() && !missed.contains(Txg(12)));
    }
}
