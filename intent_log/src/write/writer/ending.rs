//! How a log ends: for good, when its head is closed, or a chain of it, when a device is removed or
//! lost.
//!
//! Both change the head with the open group, whose sync clears the header. Closing the head waits
//! until that is on disk: a group that finds changes of a closed head suspends the pool. So each
//! change that is made for the log's sake is counted from the decision to make it.

use super::{Ending, LogWriter};
use crate::write::space::LogHold;
use cenote_base::VdevId;
use cenote_dmu::DmuError;

impl LogWriter {
    /// Ends the log: from now on commits wait for groups. The sync of the group that is open now
    /// clears the header and frees all blocks, unless a commit is still running.
    ///
    /// # Errors
    /// If the pool takes no more changes: then the log stays, for the next import to replay.
    pub fn end(&self) -> Result<(), DmuError> {
        {
            let mut state = self.lock();
            state.ending = Ending::ForGood;
            state.holding += 1;
        }
        self.hold().map(drop)
    }

    /// Changes the head with the open group. The caller is counted as holding it already, so that
    /// the log cannot appear ended between the decision and this call.
    pub(super) fn hold(&self) -> Result<Box<dyn LogHold + '_>, DmuError> {
        let hold = self.params.space.hold();
        let mut state = self.lock();
        state.holding -= 1;
        if let Ok(hold) = &hold {
            state.held_txg = state.held_txg.max(hold.txg());
        }
        hold
    }

    /// Ends this chain only: so its blocks leave a device that is to be removed. Until that is done
    /// commits wait for groups; then they begin another chain. Does nothing to a log that is being
    /// ended for good.
    ///
    /// # Errors
    /// If the pool takes no more changes.
    pub fn end_chain(&self) -> Result<(), DmuError> {
        {
            let mut state = self.lock();
            match state.ending {
                Ending::No | Ending::Chain => state.ending = Ending::Chain,
                Ending::ForGood => return Ok(()),
            }
            state.holding += 1;
        }
        self.hold().map(drop)
    }

    /// Whether the chain has a block on one of these vdevs, written or not.
    pub fn is_on(&self, is_meant: impl Fn(VdevId) -> bool) -> bool {
        self.lock().chain.is_on(is_meant)
    }

    /// Whether nothing is left of a log that was ended: it has no block, no thread is in a stage,
    /// and its changes of the head are on disk.
    pub fn has_ended(&self) -> bool {
        let durable = self.params.space.durable_txg();
        let state = self.lock();
        let is_idle = !state.is_writing && !state.is_flushing && state.holding == 0;
        let is_durable = state.held_txg <= durable;
        state.ending == Ending::ForGood && is_idle && is_durable && state.chain.is_gone()
    }
}
