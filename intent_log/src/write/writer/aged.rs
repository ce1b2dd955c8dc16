//! Small changes that nobody asked for go to the log, too, once their group is late.
//!
//! The kernel does not pass sync(2) to FUSE servers, so a group is written when it is a second old
//! (`cenote_dmu::txg`). A large one takes longer, and one busy writer is enough to make it large:
//! a crash then loses what others did meanwhile. So while the oldest change waits for longer than
//! it should, the pool calls [`LogWriter::commit_aged`] about once a second.
//!
//! What is written here is written twice, so each call has a limit in bytes. Operations on names
//! come first, in their order. Once all of these are taken, so are the objects whose lists are
//! small, beginning behind the object that was taken last. A stream is not small: its group, which
//! it makes large, is written soon for its size.
//!
//! Nobody waits for this, and it waits for no group. Each list that it takes is one that a commit
//! of the object would take: a crash finds nothing that `fsync` could not have left.

use super::{Aged, Ending, LogWriter, StageGuard, State, Step, Target};
use crate::write::chain::Stage;

/// Bytes that a call puts into the log at most.
const AGED_BYTES_MAX: u64 = 4 << 20;
/// Bytes of an object's list at most.
const LIST_BYTES_MAX: u64 = 1 << 20;

/// What a call finds to do.
enum Look {
    Done(Aged),
    StartChain,
    Commit(Target),
}

impl State {
    fn look_for_aged(&mut self) -> Look {
        if self.lists.is_empty() || self.ending != Ending::No || self.aging.is_off {
            return Look::Done(Aged::Nothing);
        }
        if self.hole_txg > self.synced {
            return Look::Done(Aged::NeedsGroup);
        }
        match self.chain.stage {
            Stage::Live { .. } => {}
            Stage::Absent if !self.is_writing => {
                self.is_writing = true;
                return Look::StartChain;
            }
            Stage::Absent | Stage::Starting { .. } | Stage::Broken { .. } => {
                return Look::Done(Aged::NeedsGroup);
            }
        }
        let limits = (AGED_BYTES_MAX, LIST_BYTES_MAX);
        let items = self.lists.take_small(limits, &mut self.aging.next);
        match items.is_empty() {
            true => Look::Done(Aged::Nothing),
            false => Look::Commit(self.enqueue(items)),
        }
    }
}

impl LogWriter {
    /// Says whether changes that are late go to the log, which they do at first.
    pub fn set_aging(&self, is_on: bool) {
        self.lock().aging.is_off = !is_on;
    }

    /// Commits small changes, whose group is late, if the log can take them at once. The caller
    /// has no transaction, and no lock of an object.
    pub fn commit_aged(&self) -> Aged {
        let synced = self.params.space.durable_txg();
        let _guard = StageGuard(self);
        let look = {
            let mut state = self.lock();
            state.note_synced(synced);
            state.look_for_aged()
        };
        let target = match look {
            Look::Done(aged) => return aged,
            Look::StartChain => {
                self.start_chain();
                return Aged::NeedsGroup;
            }
            Look::Commit(target) => target,
        };
        loop {
            match self.next_step(target) {
                Step::Done(_) => return Aged::Committed,
                Step::WaitForOthers => {}
                // The operations are in a hole: commits wait for their group.
                Step::WaitForGroup => return Aged::NeedsGroup,
                Step::StartChain => {
                    self.start_chain();
                    return Aged::NeedsGroup;
                }
                Step::Write(job) => self.write(job),
                Step::Flush(job) => self.flush(job),
            }
        }
    }
}
