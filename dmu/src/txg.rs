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
//! A gate [`TxgGate::in_memory`] is never quiesced: its only group stays open, and what is
//! changed in it shows what a pool would be like that must not change. What is dirty there is
//! leased from the memory budget, and a transaction that finds no room there is refused.
//!
//! A thread must not begin a transaction while it holds another: the first could be what the
//! quiescing waits for.
//!
//! A transaction that ends while its thread panics has changed objects by halves. Nothing can take
//! that back, so the gate closes for good and its group is never frozen: the disk keeps the groups
//! before it.

use crate::error::DmuError;
use crate::group_history::{GateFigures, GroupFigures, GroupHistory, GroupIo};
use crate::live::undo::UndoLog;
use crate::object_set::ObjectSet;
use cenote_base::rt::{self, Condvar, Mutex, MutexGuard, ranks};
use cenote_base::{Env, MemoryBudget, MemoryExceeded, MemoryLease, Txg, settings};
use cenote_io::Suspension;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

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
    /// The limits of a machine with `bytes` of memory, whatever the settings say: a tenth of it,
    /// at most 4 GiB.
    pub fn of_memory(bytes: u64) -> Self {
        Self {
            dirty_bytes_max: (bytes / 10).clamp(16 << 20, 4 << 30),
            delay_percent_min: settings::DELAY_MIN_DIRTY_PERCENT.default,
            sync_percent: settings::DIRTY_DATA_SYNC_PERCENT.default,
            delay_scale_ns: settings::DELAY_SCALE.default,
        }
    }

    /// What the settings say now.
    pub fn in_force() -> Self {
        Self {
            dirty_bytes_max: settings::dirty_bytes_max(),
            delay_percent_min: settings::DELAY_MIN_DIRTY_PERCENT.get(),
            sync_percent: settings::DIRTY_DATA_SYNC_PERCENT.get(),
            delay_scale_ns: settings::DELAY_SCALE.get(),
        }
    }

    /// Whether a sync is due before its time, when `dirty` bytes are dirty and `data` bytes of
    /// files' contents among them are in the open group.
    ///
    /// On large machines the share alone would keep processors and devices idle while the first
    /// half gigabyte comes in. Metadata does not count for that: changes here and there in a large
    /// directory make all of its blocks dirty, which are written once for each group.
    fn is_sync_due(&self, dirty: u64, data: u64) -> bool {
        let share = share(self.dirty_bytes_max, self.sync_percent);
        dirty >= share || data >= share.min(SYNC_DATA_MAX)
    }

    /// The time that lies between two transactions while `dirty` bytes are dirty.
    ///
    /// Nothing up to the share from which transactions are delayed; then
    /// `scale * (dirty - from) / (max - dirty)`, which is the scale in the middle of the range and
    /// grows without bound towards its end, up to [`DELAY_MAX`].
    fn delay(&self, dirty: u64) -> Duration {
        let max = self.dirty_bytes_max;
        let from = share(max, self.delay_percent_min);
        if dirty <= from {
            return Duration::ZERO;
        }
        let left = max.saturating_sub(dirty);
        let scaled = u128::from(self.delay_scale_ns) * u128::from(dirty - from);
        let nanoseconds = scaled.checked_div(u128::from(left)).unwrap_or(u128::MAX);
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
        Duration::from_nanos(nanoseconds).min(DELAY_MAX)
    }
}

/// `percent` of `bytes`.
fn share(bytes: u64, percent: u64) -> u64 {
    let share = u128::from(bytes) * u128::from(percent) / 100;
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// No transaction is delayed for longer than this behind the one before it.
const DELAY_MAX: Duration = Duration::from_millis(100);

/// Waiting threads check at this interval whether settings have changed.
const SETTINGS_INTERVAL: Duration = Duration::from_secs(1);

/// A group with so much data is written well with little overhead; more only waits.
const SYNC_DATA_MAX: u64 = 64 << 20;

/// What is said when a transaction ended with a panic.
const PANICKED: &str = "a change was cut short by an internal error (a panic) and is not written; \
    export the pool with -f and import it again: it then is as before the last transaction group";

/// A group with no more than this is written when its changes are old, whether or not more come.
const SMALL_GROUP: u64 = 8 << 20;

/// Memory is leased in steps of so many bytes, at least, for changes that stay there.
const LEASE_MIN: u64 = 256 << 10;

/// Writers count as idle if nothing became dirty for so long.
const WRITER_PAUSE: Duration = Duration::from_millis(100);

/// `cenote_dirty_age_max`; `None` if it is off, or if `zfs_txg_timeout` asks for few groups.
fn dirty_age_max() -> Option<Duration> {
    let is_patient = settings::TXG_TIMEOUT.get() > settings::TXG_TIMEOUT.default;
    let age = settings::DIRTY_AGE_MAX.get();
    (age > 0 && !is_patient).then_some(Duration::from_millis(age))
}

/// Why the syncing thread was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncReason {
    /// The time was up.
    Timeout,
    /// A caller waits for the open group to be on disk.
    Requested,
    /// Enough is dirty.
    Dirty,
    /// Changes have waited for as long as they may, and no more are coming.
    Aged,
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

/// Memory for changes that stay there.
#[derive(Debug)]
struct LeasedMemory {
    budget: Arc<MemoryBudget>,
    leases: Vec<MemoryLease>,
    leased: u64,
}

impl LeasedMemory {
    /// Leases what is missing of `bytes`.
    fn cover(&mut self, bytes: u64) -> Result<(), MemoryExceeded> {
        let missing = bytes.saturating_sub(self.leased);
        if missing > 0 {
            let step = missing.max(LEASE_MIN);
            self.leases.push(self.budget.lease(step)?);
            self.leased += step;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct State {
    open: Txg,
    synced: Txg,
    holders: u64,
    quiescing: bool,
    /// The newest group that a caller waits for.
    wanted: Txg,
    reserved: u64,
    dirty_sets: Vec<Arc<ObjectSet>>,
    /// When the open group got its first change, and when the frozen one had.
    dirty_since: Option<Duration>,
    frozen_since: Option<Duration>,
    suspended: Option<Arc<str>>,
    /// When the transaction that was delayed last may proceed.
    last_wakeup: Option<Duration>,
    /// Of a gate whose changes stay in memory.
    memory: Option<LeasedMemory>,
    figures: GateFigures,
    history: GroupHistory,
}

impl State {
    /// Asserts that at most two groups are not on disk: the open one, and the frozen one before it.
    fn assert_ordered(&self) {
        let (open, synced) = (self.open.0, self.synced.0);
        assert!(
            synced < open && open <= synced + 2,
            "group {open} is open, and {synced} is on disk"
        );
    }

    /// Ends changes for good, unless they have ended. Returns the object sets that will not be
    /// written: they hold the gate, so keeping them here would keep the pool in memory and its
    /// devices open. The caller drops them without the lock.
    fn end(&mut self, cause: &str) -> Vec<Arc<ObjectSet>> {
        self.suspended.get_or_insert_with(|| cause.into());
        std::mem::take(&mut self.dirty_sets)
    }
}

/// The gate of one pool.
#[derive(Debug)]
pub struct TxgGate {
    env: Arc<dyn Env>,
    /// Limits that hold whatever the settings say.
    fixed: Option<ThrottleLimits>,
    /// Nothing is ever written.
    is_in_memory: bool,
    /// Where the syncing thread waits for devices that are gone.
    suspension: OnceLock<Arc<Suspension>>,
    state: Mutex<State, ranks::TxgGate>,
    /// Bytes dirty in all object sets, both generations.
    dirty: AtomicU64,
    /// Bytes of files' contents that came into the open group.
    open_data: AtomicU64,
    /// Something changed that a transaction waits for: the group opened, or bytes were synced.
    enter: Condvar,
    /// The last holder left, or the syncing thread has a reason to look.
    work: Condvar,
    /// A group was synced.
    done: Condvar,
}

impl TxgGate {
    /// A gate whose first open group follows the last one on disk; without `limits`, those of
    /// the settings hold.
    pub fn new(
        last_synced: Txg,
        limits: impl Into<Option<ThrottleLimits>>,
        env: Arc<dyn Env>,
    ) -> Arc<Self> {
        Arc::new(Self::with(last_synced, limits.into(), env, None))
    }

    /// A gate whose changes stay in memory that is leased from `budget`, and are never written.
    pub fn in_memory(last_synced: Txg, budget: &Arc<MemoryBudget>, env: Arc<dyn Env>) -> Arc<Self> {
        let limits = ThrottleLimits {
            dirty_bytes_max: u64::MAX,
            ..ThrottleLimits::of_memory(0)
        };
        let memory = LeasedMemory {
            budget: Arc::clone(budget),
            leases: Vec::new(),
            leased: 0,
        };
        Arc::new(Self::with(last_synced, Some(limits), env, Some(memory)))
    }

    fn with(
        last_synced: Txg,
        fixed: Option<ThrottleLimits>,
        env: Arc<dyn Env>,
        memory: Option<LeasedMemory>,
    ) -> Self {
        let is_in_memory = memory.is_some();
        let state = State {
            open: Txg(last_synced.0 + 1),
            synced: last_synced,
            holders: 0,
            quiescing: false,
            wanted: last_synced,
            reserved: 0,
            dirty_sets: Vec::new(),
            dirty_since: None,
            frozen_since: None,
            suspended: None,
            last_wakeup: None,
            memory,
            figures: GateFigures::default(),
            history: GroupHistory::new(Txg(last_synced.0 + 1), env.monotonic()),
        };
        Self {
            env,
            fixed,
            is_in_memory,
            suspension: OnceLock::new(),
            state: Mutex::new(state),
            dirty: AtomicU64::new(0),
            open_data: AtomicU64::new(0),
            enter: Condvar::new(),
            work: Condvar::new(),
            done: Condvar::new(),
        }
    }

    /// Whether changes stay in memory and are never written.
    pub fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    /// Holds changes up, or refuses them, while the group before them waits for devices.
    pub fn heed(&self, suspension: Arc<Suspension>) {
        let _ = self.suspension.set(suspension);
    }

    /// Lets changes look again whether they may enter.
    pub fn wake(&self) {
        drop(self.lock());
        self.enter.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The limits in force.
    pub fn limits(&self) -> ThrottleLimits {
        self.fixed.unwrap_or_else(ThrottleLimits::in_force)
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

    /// Whether the open group has changes, or a caller waits for it to be on disk.
    pub fn has_changes(&self) -> bool {
        let state = self.lock();
        !state.dirty_sets.is_empty() || state.wanted >= state.open
    }

    /// How urgent it is that changes are written, in percent: the share of what may be dirty that
    /// is, or 100 while a caller waits for a group to be on disk.
    pub fn write_load(&self) -> u64 {
        let state = self.lock();
        if state.wanted > state.synced {
            return 100;
        }
        drop(state);
        let max = self.limits().dirty_bytes_max.max(1);
        self.dirty_bytes().saturating_mul(100) / max
    }

    /// Enters the open group. Waits while too much is dirty, and a little before that.
    pub fn begin(self: &Arc<Self>, cost: TxCost) -> Result<Transaction, DmuError> {
        if cost.dirty_bytes > 0 {
            self.delay();
        }
        let mut is_full = false;
        let mut state = self.lock();
        loop {
            if let Some(cause) = &state.suspended {
                return Err(suspended(cause));
            }
            if let Some(suspension) = self.suspension.get()
                && suspension.cause().is_some()
            {
                if let Some(cause) = suspension.refusal() {
                    return Err(suspended(&cause));
                }
                state = self.wait_to_enter(state);
                continue;
            }
            let used = self.dirty_bytes() + state.reserved;
            let limit = self.limits().dirty_bytes_max;
            // A transaction larger than the limit may go alone.
            let fits = used == 0 || used.saturating_add(cost.dirty_bytes) <= limit;
            if fits && !state.quiescing {
                break;
            }
            if !fits {
                state.figures.full += u64::from(!std::mem::replace(&mut is_full, true));
                let open = state.open;
                state.wanted = state.wanted.max(open);
                self.work.notify_all();
            }
            state = self.wait_to_enter(state);
        }
        let used = self.dirty_bytes().saturating_add(state.reserved);
        if let Some(memory) = &mut state.memory {
            memory.cover(used.saturating_add(cost.dirty_bytes))?;
        }
        state.holders += 1;
        state.figures.assigned += 1;
        state.reserved += cost.dirty_bytes;
        let txg = state.open;
        let hold = Hold {
            gate: Arc::clone(self),
            reserved: cost.dirty_bytes,
        };
        Ok(Transaction::new(txg, Some(hold)))
    }

    /// Waits until something changed, or a second is over: settings may change meanwhile.
    fn wait_to_enter<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let woken = self.enter.wait_timeout(state, SETTINGS_INTERVAL);
        woken.0
    }

    /// Holds a transaction up by what is dirty, all that come one after the other: together they
    /// slow down to the pace of the disks, however many threads they are.
    fn delay(&self) {
        let limits = self.limits();
        let dirty = self.dirty_bytes();
        if limits.is_sync_due(dirty, self.open_data.load(Ordering::Relaxed)) {
            self.work.notify_all();
        }
        let delay = limits.delay(dirty);
        if delay.is_zero() || dirty >= limits.dirty_bytes_max {
            return;
        }
        let now = self.env.monotonic();
        let mut state = self.lock();
        let after_last = state.last_wakeup.map_or(now, |last| last + delay);
        let wakeup = after_last.max(now + delay);
        state.last_wakeup = Some(wakeup);
        let delay = wakeup.saturating_sub(now);
        state.figures.note_delay(delay);
        drop(state);
        self.env.sleep(delay);
    }

    /// How often and how long transactions were held up.
    pub fn figures(&self) -> GateFigures {
        self.lock().figures
    }

    /// The last groups, oldest first, and the open one.
    pub fn groups(&self) -> Vec<GroupFigures> {
        let (now, dirty) = (self.env.monotonic(), self.dirty_bytes());
        self.lock().history.groups(now, dirty)
    }

    /// Notes what was read and written on devices while `txg` was synced.
    pub fn note_io(&self, txg: Txg, io: GroupIo) {
        self.lock().history.note_io(txg, io);
    }

    /// Freezes the open group and opens the next, once all transactions in it have ended.
    ///
    /// The caller syncs the frozen group and says so with [`Self::synced`] before it calls this
    /// again.
    ///
    /// # Errors
    /// If the pool is suspended, at the latest when the last of the transactions has ended: what
    /// is in the group must not reach the disk then.
    pub fn quiesce(&self) -> Result<Quiesced, DmuError> {
        assert!(!self.is_in_memory, "what stays in memory is not written");
        let mut state = self.lock();
        assert!(!state.quiescing, "one thread syncs");
        assert_eq!(
            state.synced.0 + 1,
            state.open.0,
            "the group before is on disk"
        );
        state.quiescing = true;
        let txg = state.open;
        let dirty = self.dirty_bytes();
        state.history.close(txg, self.env.monotonic(), dirty);
        while state.holders > 0 {
            state = self.work.wait(state);
        }
        state.quiescing = false;
        if let Some(cause) = &state.suspended {
            let error = suspended(cause);
            drop(state);
            self.enter.notify_all();
            return Err(error);
        }
        state.open = Txg(txg.0 + 1);
        state.assert_ordered();
        state.history.open(Txg(txg.0 + 1), self.env.monotonic());
        self.open_data.store(0, Ordering::Relaxed);
        let dirty_sets = std::mem::take(&mut state.dirty_sets);
        state.frozen_since = state.dirty_since.take();
        drop(state);
        self.enter.notify_all();
        Ok(Quiesced { txg, dirty_sets })
    }

    /// Notes that `txg` is on disk.
    pub fn synced(&self, txg: Txg) {
        let mut state = self.lock();
        assert!(txg < state.open && txg > state.synced);
        state.synced = txg;
        state.assert_ordered();
        state.frozen_since = None;
        state.history.synced(txg, self.env.monotonic());
        drop(state);
        self.done.notify_all();
        self.enter.notify_all();
    }

    /// How long the oldest change may still wait for its group until it is late: half as old again
    /// as `cenote_dirty_age_max` has it. `None` if no change waits, or none may be late.
    pub fn until_late(&self) -> Option<Duration> {
        let age_max = dirty_age_max()?;
        let now = self.env.monotonic();
        let state = self.lock();
        let since = state.frozen_since.or(state.dirty_since)?;
        Some((since + age_max + age_max / 2).saturating_sub(now))
    }

    /// Asks for the open group to be synced soon; returns it.
    pub fn request_sync(&self) -> Txg {
        let mut state = self.lock();
        let open = state.open;
        state.wanted = state.wanted.max(open);
        self.work.notify_all();
        open
    }

    /// Waits until `txg` is on disk, and requests that if needed.
    ///
    /// If the group waits for devices and others are not to wait with it (`failmode=continue`),
    /// that is an error, too; the group may get there later.
    pub fn wait_synced(&self, txg: Txg) -> Result<(), DmuError> {
        if self.is_in_memory {
            return Err(DmuError::MemoryOnly);
        }
        let mut state = self.lock();
        loop {
            if state.synced >= txg {
                return Ok(());
            }
            if let Some(cause) = &state.suspended {
                return Err(suspended(cause));
            }
            let suspension = self.suspension.get();
            if let Some(cause) = suspension.and_then(|waiting| waiting.refusal()) {
                return Err(suspended(&cause));
            }
            if state.wanted < txg {
                state.wanted = txg;
                self.work.notify_all();
            }
            // A wait for devices begins without a notification.
            (state, _) = self.done.wait_timeout(state, SETTINGS_INTERVAL);
        }
    }

    /// The syncing thread's wait: until `timeout` is over or a sync is due before.
    pub fn wait_for_work(&self, timeout: Duration) -> SyncReason {
        self.wait_until(|| timeout, || None)
    }

    /// As [`Self::wait_for_work`], for as long as `zfs_txg_timeout` and `cenote_dirty_age_max` say.
    pub fn wait_for_group(&self) -> SyncReason {
        self.wait_until(
            || Duration::from_secs(settings::TXG_TIMEOUT.get()),
            dirty_age_max,
        )
    }

    fn wait_until(
        &self,
        timeout: impl Fn() -> Duration,
        age_max: impl Fn() -> Option<Duration>,
    ) -> SyncReason {
        let started = self.env.monotonic();
        let mut last_look = (started, self.dirty_bytes());
        let mut state = self.lock();
        loop {
            let limits = self.limits();
            let data = self.open_data.load(Ordering::Relaxed);
            let now = self.env.monotonic();
            let mut left = timeout().saturating_sub(now.saturating_sub(started));
            if let (Some(since), Some(age_max)) = (state.dirty_since, age_max()) {
                let until_aged = self.until_aged((since + age_max, now), &mut last_look);
                if until_aged.is_zero() && state.suspended.is_none() {
                    return SyncReason::Aged;
                }
                left = left.min(until_aged);
            }
            match () {
                () if state.suspended.is_some() => return SyncReason::Suspended,
                () if state.wanted >= state.open => return SyncReason::Requested,
                () if limits.is_sync_due(self.dirty_bytes(), data) => return SyncReason::Dirty,
                () if left.is_zero() => return SyncReason::Timeout,
                () => {}
            }
            let woken = self.work.wait_timeout(state, left.min(SETTINGS_INTERVAL));
            (state, _) = woken;
        }
    }

    /// How long the open group's changes may still wait, if they may until `due`; nothing if it is
    /// time to write them.
    ///
    /// A large group is left to grow while writers are active: more and smaller groups would make
    /// bulk writes slower, and such a group is soon written for its size.
    fn until_aged(&self, (due, now): (Duration, Duration), last: &mut (Duration, u64)) -> Duration {
        let left = due.saturating_sub(now);
        let dirty = self.dirty_bytes();
        if !left.is_zero() || dirty <= SMALL_GROUP {
            return left;
        }
        let pause = now.saturating_sub(last.0);
        if pause < WRITER_PAUSE {
            return WRITER_PAUSE - pause;
        }
        let grew = last.1 != dirty;
        *last = (now, dirty);
        if grew { WRITER_PAUSE } else { Duration::ZERO }
    }

    /// Stops the pool's changes: callers that wait or begin from now on get an error. Returns
    /// `false` if they were stopped already, which keeps its cause.
    pub fn suspend(&self, cause: &str) -> bool {
        let mut state = self.lock();
        let is_first = state.suspended.is_none();
        let unwritten = state.end(cause);
        drop(state);
        drop(unwritten);
        self.enter.notify_all();
        self.work.notify_all();
        self.done.notify_all();
        is_first
    }

    /// Drops changes that will never be written, after the syncing thread has ended. They hold the
    /// gate, which holds them: without this call they would keep an exported pool's memory and
    /// devices.
    pub fn drop_changes(&self) {
        let dirty_sets = std::mem::take(&mut self.lock().dirty_sets);
        // Not under the lock, which they may take when they go.
        drop(dirty_sets);
    }

    /// What the pool was suspended for, if it is.
    pub fn suspended(&self) -> Option<Arc<str>> {
        self.lock().suspended.clone()
    }

    pub(crate) fn add_dirty_set(&self, set: &Arc<ObjectSet>) {
        if self.is_in_memory {
            // Such changes are never written, and the set holds the gate.
            return;
        }
        let now = self.env.monotonic();
        let mut state = self.lock();
        if state.suspended.is_none() {
            state.dirty_sets.push(Arc::clone(set));
            state.dirty_since.get_or_insert(now);
        }
    }

    pub(crate) fn add_dirty(&self, bytes: u64) {
        self.dirty.fetch_add(bytes, Ordering::Relaxed);
    }

    /// As [`Self::add_dirty`] of bytes of a file's contents in the open group, of which `new` were
    /// not dirty there before.
    pub(crate) fn add_dirty_data(&self, bytes: u64, new: u64) {
        self.add_dirty(bytes);
        self.open_data.fetch_add(new, Ordering::Relaxed);
    }

    pub(crate) fn remove_dirty(&self, bytes: u64) {
        let before = self.dirty.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "bytes become clean once");
        // Locking here makes sure that no waiter checks just before and waits just after.
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
    /// How to take its changes back, if it may have to.
    pub(crate) undo: Mutex<Option<UndoLog>, ranks::TransactionUndo>,
}

#[derive(Debug)]
struct Hold {
    gate: Arc<TxgGate>,
    reserved: u64,
}

impl Transaction {
    /// The transaction in which the syncing thread changes the meta object set.
    pub fn syncing(txg: Txg) -> Self {
        Self::new(txg, None)
    }

    fn new(txg: Txg, hold: Option<Hold>) -> Self {
        let undo = Mutex::default();
        Self { txg, hold, undo }
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
        let is_half_done = rt::panicking();
        let mut unwritten = Vec::new();
        if is_half_done {
            // Before the hold is released: with the last one, the group is frozen.
            unwritten = state.end(PANICKED);
        }
        assert!(state.holders > 0 && state.reserved >= self.reserved);
        state.holders -= 1;
        state.reserved -= self.reserved;
        let is_last = state.holders == 0 && state.quiescing;
        drop(state);
        drop(unwritten);
        if is_half_done {
            self.gate.done.notify_all();
            self.gate.work.notify_all();
            self.gate.enter.notify_all();
        }
        if is_last {
            self.gate.work.notify_all();
        }
        if self.reserved > 0 {
            self.gate.enter.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_grows_evenly_and_without_bound() {
        let limits = ThrottleLimits {
            dirty_bytes_max: 1000,
            ..ThrottleLimits::of_memory(0)
        };
        let microseconds = |dirty| limits.delay(dirty).as_micros();
        let found = [0, 600, 700, 800, 900, 960].map(microseconds);
        assert_eq!(found, [0, 0, 166, 500, 1500, 4500]);
        assert_eq!(
            [999, 1000, 2000].map(microseconds),
            [100_000; 3],
            "the most"
        );
    }

    #[test]
    fn a_sync_is_due_by_share_on_small_machines_and_by_size_on_large_ones() {
        let small = ThrottleLimits::of_memory(1 << 30);
        let part = share((1 << 30) / 10, 20);
        assert!(small.is_sync_due(part, 0) && small.is_sync_due(part, part));
        assert!(!small.is_sync_due(part - 1, part - 1));
        let large = ThrottleLimits::of_memory(64 << 30);
        assert!(large.is_sync_due(SYNC_DATA_MAX, SYNC_DATA_MAX));
        assert!(!large.is_sync_due(2 * SYNC_DATA_MAX, SYNC_DATA_MAX - 1));
        assert!(large.is_sync_due(share(4 << 30, 20), 0));
    }
}
