//! How a log ends: for good, when its head is closed, or a chain of it, when a device is removed or
//! lost.
//!
//! Both change the head with the open group, whose sync clears the header. Closing the head waits
//! until that is on disk: a group that finds changes of a closed head suspends the pool. So each
//! change that is made for the log's sake is counted from the decision to make it.

use super::{Ending, LogWriter, State};
use crate::write::space::LogHold;
use cenote_base::VdevId;
use cenote_dmu::DmuError;

/// A change of the head that a thread decided to make, until the head has it. If the thread panics
/// before that, it is not made.
pub(super) struct Decided<'a>(&'a LogWriter);

impl Drop for Decided<'_> {
    fn drop(&mut self) {
        self.0.lock().holding -= 1;
    }
}

impl LogWriter {
    /// Ends the log: from now on commits wait for groups. The sync of the group that is open now
    /// clears the header and frees all blocks, unless a commit is still running.
    ///
    /// # Errors
    /// If the pool takes no more changes: then the log stays, for the next import to replay.
    pub fn end(&self) -> Result<(), DmuError> {
        let decided = {
            let mut state = self.lock();
            state.ending = Ending::ForGood;
            self.decide(&mut state)
        };
        self.hold(decided).map(drop)
    }

    /// Counts a change of the head that is to be made.
    pub(super) fn decide(&self, state: &mut State) -> Decided<'_> {
        state.holding += 1;
        Decided(self)
    }

    /// Changes the head with the open group. The change is counted already, so that the log cannot
    /// appear ended between the decision and this call.
    pub(super) fn hold(&self, decided: Decided<'_>) -> Result<Box<dyn LogHold + '_>, DmuError> {
        let hold = self.params.space.hold();
        if let Ok(hold) = &hold {
            let mut state = self.lock();
            state.held_txg = state.held_txg.max(hold.txg());
        }
        drop(decided);
        hold
    }

    /// Ends this chain only: so its blocks leave a device that is to be removed. Until that is done
    /// commits wait for groups; then they begin another chain. Does nothing to a log that is being
    /// ended for good.
    ///
    /// # Errors
    /// If the pool takes no more changes.
    pub fn end_chain(&self) -> Result<(), DmuError> {
        let decided = {
            let mut state = self.lock();
            match state.ending {
                Ending::No | Ending::Chain => state.ending = Ending::Chain,
                Ending::ForGood => return Ok(()),
            }
            self.decide(&mut state)
        };
        self.hold(decided).map(drop)
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
