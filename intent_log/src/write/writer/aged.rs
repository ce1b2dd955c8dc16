//! Small changes go to the log without an `fsync`, too, once their group is late.
//!
//! The kernel does not pass sync(2) to FUSE servers, so a group is written when it is a second old
//! (`cenote_dmu::txg`). A large one takes longer, and one busy writer is enough to make it large: a
//! crash then loses what others did meanwhile. So while the oldest change is overdue, the pool
//! calls [`LogWriter::commit_aged`] about once a second.
//!
//! What is written here is written twice, so each call has a limit in bytes. Operations on names
//! come first, in their order. Once all of these are taken, so are the objects whose lists are
//! small, beginning behind the object that was taken last. A stream is not small: its group, which
//! it makes large, is written soon for its size.
//!
//! No caller waits for this, and it waits for no other thread: neither for a group, nor for a
//! thread that is changing an object, which may be waiting for room in a group. So contents are
//! read first, without the stage that other commits need; what cannot be read now stays for the
//! next call. Each list that it takes is one that a commit of the object would take. So after a
//! crash the state is one that `fsync` could have left, too.

use super::{Aged, Ending, LogWriter, StageGuard, State, Step, Target};
use crate::write::chain::Stage;
use crate::write::records::SmallLimits;
use std::collections::BTreeMap;

/// What a call puts into the log at most.
const LIMITS: SmallLimits = SmallLimits {
    all: 4 << 20,
    list: 1 << 20,
};

/// What a call finds to do.
pub(super) enum Look {
    Done(Aged),
    StartChain,
    Commit(Target),
}

impl State {
    /// Takes what is late, with what was read for it by the serial numbers of operations.
    pub(super) fn look_for_aged(&mut self, mut read: BTreeMap<u64, Vec<u8>>) -> Look {
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
        let next = &mut self.aging.next;
        let items = self.lists.take_small(LIMITS, next, &mut read);
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
        let read = self.read_aged();
        let synced = self.params.space.durable_txg();
        let _guard = StageGuard(self);
        let look = {
            let mut state = self.lock();
            state.note_synced(synced);
            state.look_for_aged(read)
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

    /// Reads what small changes need, as far as that is free.
    pub(super) fn read_aged(&self) -> BTreeMap<u64, Vec<u8>> {
        let wanted = {
            let state = self.lock();
            match (&state.chain.stage, state.aging.is_off) {
                (Stage::Live { .. }, false) => state.lists.small_reads(LIMITS, state.aging.next),
                _ => Vec::new(),
            }
        };
        let data = &self.params.data;
        let read = wanted.into_iter().filter_map(|wanted| {
            let bytes = data.read_if_free(wanted.object, wanted.offset, wanted.length)?;
            Some((wanted.serial, bytes))
        });
        read.collect()
    }
}
