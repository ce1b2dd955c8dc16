//! Transactions and the gate through which they enter a transaction group.
//!
//! A pool's changes reach the disk in groups. One group is *open*: transactions hold it while
//! they modify objects in memory. To sync it the pool *quiesces*: new transactions wait until
//! those under way are done, the group's changes freeze, and the next group opens. So there are
//! at most two generations of changes in memory, the open one and the frozen one that is being
//! written, and a change never waits for the disk unless too much is dirty already.
//!
//! Dirty bytes are bounded here. From a share of the limit on, each transaction is delayed, the
//! more the closer the limit, so that writers slow down to the disks' pace and do not stop and
//! go.
//!
//! A thread must not begin a transaction while it holds another: the first could be what the
//! quiescing waits for.

use crate::error::DmuError;
use crate::object_set::ObjectSet;
use cenote_base::Txg;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a transaction is expected to cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxCost {
    /// Bytes of memory that its changes will keep until they are on disk.
    pub dirty_bytes: u64,
}

/// How much may be dirty, and when writers feel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleLimits {
    /// Bytes that may be dirty at once; beyond them transactions wait.
    pub dirty_bytes_max: u64,
    /// Share of the maximum, in percent, from which transactions are delayed.
    pub delay_percent_min: u64,
    /// Share of the maximum, in percent, at which a sync is due before its time.
    pub sync_percent: u64,
    /// Nanoseconds of delay for each transaction when half of the delaying range is used.
    pub delay_scale_ns: u64,
}

impl ThrottleLimits {
    /// The limits of a machine with `bytes` of memory: a tenth of it, at most 4 GiB.
    pub fn of_memory(bytes: u64) -> Self {
        Self {
            dirty_bytes_max: (bytes / 10).clamp(16 << 20, 4 << 30),
            delay_percent_min: 60,
            sync_percent: 20,
            delay_scale_ns: 500_000,
        }
    }
}

/// No transaction is delayed for longer than this.
const DELAY_MAX: Duration = Duration::from_millis(100);

/// Why the syncing thread was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncReason {
    /// The time was up.
    Timeout,
    /// Somebody waits for the open group to be on disk.
    Requested,
    /// Enough is dirty.
    Dirty,
    /// The pool is suspended.
    Suspended,
}

/// What a group left behind when it was frozen.
#[derive(Debug)]
pub struct Quiesced {
    /// The frozen group.
    pub txg: Txg,
    /// The object sets that it changed, the meta object set never among them.
    pub dirty_sets: Vec<Arc<ObjectSet>>,
}

#[derive(Debug)]
struct State {
    open: Txg,
    synced: Txg,
    holders: u64,
    quiescing: bool,
    /// The newest group that somebody wants on disk.
    wanted: Txg,
    reserved: u64,
    dirty_sets: Vec<Arc<ObjectSet>>,
    suspended: Option<Arc<str>>,
}

/// The gate of one pool.
#[derive(Debug)]
pub struct TxgGate {
    limits: Mutex<ThrottleLimits>,
    state: Mutex<State>,
    /// Bytes dirty in all object sets, both generations.
    dirty: AtomicU64,
    /// Something changed that a transaction waits for: the group opened, or bytes were synced.
    enter: Condvar,
    /// The last holder left, or the syncing thread has a reason to look.
    work: Condvar,
    /// A group was synced.
    done: Condvar,
}

impl TxgGate {
    /// A gate whose first open group follows the last one on disk.
    pub fn new(last_synced: Txg, limits: ThrottleLimits) -> Arc<Self> {
        let state = State {
            open: Txg(last_synced.0 + 1),
            synced: last_synced,
            holders: 0,
            quiescing: false,
            wanted: last_synced,
            reserved: 0,
            dirty_sets: Vec::new(),
            suspended: None,
        };
        Arc::new(Self {
            limits: Mutex::new(limits),
            state: Mutex::new(state),
            dirty: AtomicU64::new(0),
            enter: Condvar::new(),
            work: Condvar::new(),
            done: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limits in force.
    pub fn limits(&self) -> ThrottleLimits {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the limits.
    pub fn set_limits(&self, limits: ThrottleLimits) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
        self.enter.notify_all();
    }

    /// The group that transactions enter now.
    pub fn open_txg(&self) -> Txg {
        self.lock().open
    }

    /// The last group that is on disk.
    pub fn synced_txg(&self) -> Txg {
        self.lock().synced
    }

    /// Bytes dirty now.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed)
    }

    /// Whether the open group has changes, or somebody waits for it to be on disk.
    pub fn has_changes(&self) -> bool {
        let state = self.lock();
        !state.dirty_sets.is_empty() || state.wanted >= state.open
    }

    /// Enters the open group; waits while too much is dirty.
    pub fn begin(self: &Arc<Self>, cost: TxCost) -> Result<Transaction, DmuError> {
        self.delay(cost);
        let limit = self.limits().dirty_bytes_max;
        let mut state = self.lock();
        loop {
            if let Some(cause) = &state.suspended {
                return Err(suspended(cause));
            }
            let used = self.dirty_bytes() + state.reserved;
            // A transaction larger than the limit may go alone.
            let fits = used == 0 || used.saturating_add(cost.dirty_bytes) <= limit;
            if fits && !state.quiescing {
                break;
            }
            if !fits {
                let open = state.open;
                state.wanted = state.wanted.max(open);
                self.work.notify_all();
            }
            state = self
                .enter
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.holders += 1;
        state.reserved += cost.dirty_bytes;
        let txg = state.open;
        Ok(Transaction {
            txg,
            hold: Some(Hold {
                gate: Arc::clone(self),
                reserved: cost.dirty_bytes,
            }),
        })
    }

    /// Holds a transaction up in proportion to what is dirty.
    fn delay(&self, cost: TxCost) {
        let limits = self.limits();
        let max = limits.dirty_bytes_max;
        let min = max / 100 * limits.delay_percent_min;
        let dirty = self.dirty_bytes();
        if dirty / 100 > max / 10_000 * limits.sync_percent {
            self.work.notify_all();
        }
        if dirty <= min || cost.dirty_bytes == 0 || dirty >= max {
            return;
        }
        let nanoseconds =
            u128::from(limits.delay_scale_ns) * u128::from(dirty - min) / u128::from(max - dirty);
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
        std::thread::sleep(Duration::from_nanos(nanoseconds).min(DELAY_MAX));
    }

    /// Freezes the open group and opens the next, once all transactions in it have ended.
    ///
    /// The caller syncs the frozen group and says so with [`Self::synced`] before it calls this
    /// again.
    pub fn quiesce(&self) -> Quiesced {
        let mut state = self.lock();
        assert!(!state.quiescing, "one thread syncs");
        assert_eq!(
            state.synced.0 + 1,
            state.open.0,
            "the group before is on disk"
        );
        state.quiescing = true;
        while state.holders > 0 {
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let txg = state.open;
        state.open = Txg(txg.0 + 1);
        state.quiescing = false;
        let dirty_sets = std::mem::take(&mut state.dirty_sets);
        drop(state);
        self.enter.notify_all();
        Quiesced { txg, dirty_sets }
    }

    /// Notes that `txg` is on disk.
    pub fn synced(&self, txg: Txg) {
        let mut state = self.lock();
        assert!(txg < state.open && txg > state.synced);
        state.synced = txg;
        drop(state);
        self.done.notify_all();
        self.enter.notify_all();
    }

    /// Asks for the open group to be synced soon; returns it.
    pub fn request_sync(&self) -> Txg {
        let mut state = self.lock();
        let open = state.open;
        state.wanted = state.wanted.max(open);
        self.work.notify_all();
        open
    }

    /// Waits until `txg` is on disk, and asks for that if nobody has.
    pub fn wait_synced(&self, txg: Txg) -> Result<(), DmuError> {
        let mut state = self.lock();
        loop {
            if state.synced >= txg {
                return Ok(());
            }
            if let Some(cause) = &state.suspended {
                return Err(suspended(cause));
            }
            if state.wanted < txg {
                state.wanted = txg;
                self.work.notify_all();
            }
            state = self
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The syncing thread's wait: until `timeout` is over or a sync is due before.
    pub fn wait_for_work(&self, timeout: Duration) -> SyncReason {
        let end = Instant::now() + timeout;
        let mut state = self.lock();
        loop {
            let limits = self.limits();
            let threshold = limits.dirty_bytes_max / 100 * limits.sync_percent;
            let left = end.saturating_duration_since(Instant::now());
            match () {
                () if state.suspended.is_some() => return SyncReason::Suspended,
                () if state.wanted >= state.open => return SyncReason::Requested,
                () if self.dirty_bytes() >= threshold => return SyncReason::Dirty,
                () if left.is_zero() => return SyncReason::Timeout,
                () => {}
            }
            let woken = self.work.wait_timeout(state, left);
            (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stops the pool's changes: whoever waits or begins from now on gets an error.
    pub fn suspend(&self, cause: &str) {
        self.lock().suspended = Some(cause.into());
        self.enter.notify_all();
        self.work.notify_all();
        self.done.notify_all();
    }

    /// What the pool was suspended for, if it is.
    pub fn suspended(&self) -> Option<Arc<str>> {
        self.lock().suspended.clone()
    }

    pub(crate) fn add_dirty_set(&self, set: &Arc<ObjectSet>) {
        self.lock().dirty_sets.push(Arc::clone(set));
    }

    pub(crate) fn add_dirty(&self, bytes: u64) {
        self.dirty.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove_dirty(&self, bytes: u64) {
        let before = self.dirty.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "bytes become clean once");
        // Taken and given back, so that nobody looks just before and waits just after.
        drop(self.lock());
        self.enter.notify_all();
    }
}

fn suspended(cause: &Arc<str>) -> DmuError {
    DmuError::Suspended {
        cause: cause.to_string(),
    }
}

/// The right to change objects in one transaction group; ends when dropped.
#[derive(Debug)]
pub struct Transaction {
    txg: Txg,
    hold: Option<Hold>,
}

#[derive(Debug)]
struct Hold {
    gate: Arc<TxgGate>,
    reserved: u64,
}

impl Transaction {
    /// The transaction in which the syncing thread changes the meta object set.
    pub fn syncing(txg: Txg) -> Self {
        Self { txg, hold: None }
    }

    /// The group.
    pub fn txg(&self) -> Txg {
        self.txg
    }

    /// Whether this is the syncing thread's.
    pub fn is_syncing(&self) -> bool {
        self.hold.is_none()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        assert!(state.holders > 0 && state.reserved >= self.reserved);
        state.holders -= 1;
        state.reserved -= self.reserved;
        let is_last = state.holders == 0 && state.quiescing;
        drop(state);
        if is_last {
            self.gate.work.notify_all();
        }
        if self.reserved > 0 {
            self.gate.enter.notify_all();
        }
    }
}
