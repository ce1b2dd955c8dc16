//! The last transaction groups in figures: how long each was open, waited and was written.
//!
//! The gate notes the moments as groups go through it, which is a few times for each group.

use cenote_base::Txg;
use std::collections::VecDeque;
use std::time::Duration;

/// What transactions met at the gate since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateFigures {
    /// Transactions that entered a group.
    pub assigned: u64,
    /// Those that were delayed because much was dirty.
    pub delayed: u64,
    /// For how long, in nanoseconds.
    pub delayed_ns: u64,
    /// Those that waited because too much was dirty.
    pub full: u64,
}

impl GateFigures {
    pub(crate) fn note_delay(&mut self, delay: Duration) {
        let delay = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.delayed += 1;
        self.delayed_ns = self.delayed_ns.saturating_add(delay);
    }
}

/// What was read and written on devices while a group was synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupIo {
    /// Blocks read.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Blocks written.
    pub writes: u64,
    /// Their bytes.
    pub written_bytes: u64,
}

/// Where a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// It takes transactions.
    Open,
    /// It waits for its last transactions.
    Quiescing,
    /// It is being written.
    Syncing,
    /// It is on disk.
    Committed,
}

/// A group in figures. Moments are of the pool's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupFigures {
    /// Its number.
    pub txg: Txg,
    /// Where it is.
    pub state: GroupState,
    /// When it opened.
    pub opened: Duration,
    /// Bytes that were dirty when it closed.
    pub dirty: u64,
    /// For how long it was open.
    pub open: Duration,
    /// For how long it waited for its last transactions.
    pub quiesce: Duration,
    /// How long it took to write.
    pub sync: Duration,
    /// What that read and wrote.
    pub io: GroupIo,
}

/// Groups that are remembered beside the open one and the one that is written.
const GROUPS_MAX: usize = 100;

/// The groups that are remembered.
#[derive(Debug)]
pub(crate) struct GroupHistory(VecDeque<GroupFigures>);

impl GroupHistory {
    /// Begins with an open group.
    pub fn new(open: Txg, now: Duration) -> Self {
        let mut history = Self(VecDeque::new());
        history.open(open, now);
        history
    }

    /// A group opens, and the one before it is being written.
    pub fn open(&mut self, txg: Txg, now: Duration) {
        if let Some(last) = self.0.back_mut() {
            last.state = GroupState::Syncing;
            last.quiesce = now.saturating_sub(last.opened + last.open);
        }
        self.0.push_back(GroupFigures {
            txg,
            state: GroupState::Open,
            opened: now,
            dirty: 0,
            open: Duration::ZERO,
            quiesce: Duration::ZERO,
            sync: Duration::ZERO,
            io: GroupIo::default(),
        });
        while self.0.len() > GROUPS_MAX + 2 {
            self.0.pop_front();
        }
    }

    fn group(&mut self, txg: Txg) -> Option<&mut GroupFigures> {
        self.0.iter_mut().rev().find(|group| group.txg == txg)
    }

    /// A group takes no more transactions.
    pub fn close(&mut self, txg: Txg, now: Duration, dirty: u64) {
        if let Some(group) = self.group(txg) {
            group.state = GroupState::Quiescing;
            group.open = now.saturating_sub(group.opened);
            group.dirty = dirty;
        }
    }

    /// Says what syncing a group read and wrote.
    pub fn note_io(&mut self, txg: Txg, io: GroupIo) {
        if let Some(group) = self.group(txg) {
            group.io = io;
        }
    }

    /// A group is on disk.
    pub fn synced(&mut self, txg: Txg, now: Duration) {
        if let Some(group) = self.group(txg) {
            group.state = GroupState::Committed;
            group.sync = now.saturating_sub(group.opened + group.open + group.quiesce);
        }
    }

    /// All of them; the open one with what is dirty now.
    pub fn groups(&self, now: Duration, dirty: u64) -> Vec<GroupFigures> {
        let groups = self.0.iter().map(|group| match group.state {
            GroupState::Open => GroupFigures {
                open: now.saturating_sub(group.opened),
                dirty,
                ..*group
            },
            _ => *group,
        });
        groups.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_has_its_times() {
        let at = Duration::from_millis;
        let mut history = GroupHistory::new(Txg(5), at(100));
        history.close(Txg(5), at(130), 77);
        history.open(Txg(6), at(131));
        let io = GroupIo {
            writes: 3,
            ..GroupIo::default()
        };
        history.note_io(Txg(5), io);
        history.synced(Txg(5), at(150));
        let groups = history.groups(at(160), 5);
        let expected = GroupFigures {
            txg: Txg(5),
            state: GroupState::Committed,
            opened: at(100),
            dirty: 77,
            open: at(30),
            quiesce: at(1),
            sync: at(19),
            io,
        };
        assert_eq!(groups[0], expected);
        let open = &groups[1];
        assert_eq!(
            (open.state, open.open, open.dirty),
            (GroupState::Open, at(29), 5)
        );
    }

    #[test]
    fn old_groups_are_forgotten() {
        let mut history = GroupHistory::new(Txg(1), Duration::ZERO);
        for txg in 2..500 {
            history.open(Txg(txg), Duration::ZERO);
        }
        let groups = history.groups(Duration::ZERO, 0);
        assert_eq!((groups.len(), groups[0].txg), (GROUPS_MAX + 2, Txg(398)));
    }
}
