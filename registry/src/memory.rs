//! One owner for the memory of all pools.
//!
//! The daemon has one limit. A third of it, and at least what two of the largest blocks take, is
//! for blocks under way: budgets that all pools lease from. The rest is for caches, divided among
//! the pools: half of it in equal shares, so that no pool starves, and half by recent reads. A
//! single pool gets all. The shares are set again when a pool is imported or exported, and every
//! [`LOOK_INTERVAL`]; they never add up to more than the caches may have.
//!
//! Tasks that wait for memory show that the system runs out of it. The caches then give back a
//! quarter at each check, down to a floor. They grow again slowly when the pressure is over.

use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_base::settings;
use cenote_cache::{BlockCache, CacheLimits};
use cenote_pool::Buffers;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::imported::Imported;

/// With less than this, blocks of 16 MiB might not fit.
pub const MEMORY_MIN: u64 = 64 << 20;
/// The default limit of a daemon.
const MEMORY_DEFAULT: u64 = 256 << 20;
/// The least bytes for the caches together.
const CACHES_MIN: u64 = 1 << 20;
/// Two blocks of 16 MiB, and some more.
const READS_MIN: u64 = 40 << 20;

/// How often the shares are set again.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Under pressure caches keep at least 1 / `FLOOR_PART` of their limit.
const FLOOR_PART: u64 = 16;
/// Afterwards they grow by 1 / `GROWTH_PART` at each check.
const GROWTH_PART: u64 = 32;
/// Waiting for memory for more than 1 / `STALLED_PART` of the time is pressure.
const STALLED_PART: u32 = 20;
/// At each check, a pool's recent reads are reduced by 1 / `FORGOTTEN_PART`.
const FORGOTTEN_PART: u64 = 8;

/// What the system says about its memory.
pub trait MemoryGauge: Send + Sync {
    /// For how long tasks have waited for memory, since any point in time.
    fn stalled(&self) -> Duration;

    /// Whether hardly any memory is left: less than `zfs_arc_sys_free`.
    fn is_short(&self) -> bool;

    /// The share of the machine's memory that is available, in percent, if it is known.
    fn available_percent(&self) -> Option<u64> {
        None
    }
}

/// A system whose memory is never short.
#[derive(Clone, Copy, Debug, Default)]
pub struct AmpleMemory;

impl MemoryGauge for AmpleMemory {
    fn stalled(&self) -> Duration {
        Duration::ZERO
    }

    fn is_short(&self) -> bool {
        false
    }
}

/// The daemon's memory.
pub struct Memory {
    /// What the caches may have in calm times, unless `zfs_arc_max` says otherwise.
    caches: u64,
    /// Whether that is also the most.
    is_given: bool,
    buffers: Buffers,
    gauge: Box<dyn MemoryGauge>,
    state: Mutex<State, ranks::MemoryShares>,
}

#[derive(Debug)]
struct State {
    /// When the shares were last checked.
    looked: Duration,
    /// What the gauge said then.
    stalled: Duration,
    /// What the caches may have now.
    allowance: u64,
    /// By guid: bytes read until the last look, and what is remembered of them.
    readers: BTreeMap<u64, Reader>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reader {
    bytes_read: u64,
    need: u64,
}

impl Memory {
    /// With `limit` bytes for everything, which is not to be exceeded if it `is_given`.
    pub fn new(
        limit: Option<u64>,
        is_given: bool,
        gauge: Box<dyn MemoryGauge>,
        now: Duration,
    ) -> Self {
        let limit = limit.unwrap_or(MEMORY_DEFAULT).max(MEMORY_MIN);
        let reads = (limit / 9 * 2).max(READS_MIN);
        let buffers = Buffers::new(reads);
        let caches = limit.saturating_sub(reads + buffers.scans.limit());
        let stalled = gauge.stalled();
        Self {
            caches: caches.max(CACHES_MIN),
            is_given,
            buffers,
            gauge,
            state: Mutex::new(State {
                looked: now,
                stalled,
                allowance: caches.max(CACHES_MIN),
                readers: BTreeMap::new(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.caches_max(0) + self.buffers.reads.limit() + self.buffers.scans.limit()
    }

    /// What the caches may have in calm times while `dirty` bytes are not on disk yet.
    ///
    /// A limit that was given holds for those too, so that the caches make room for them.
    fn caches_max(&self, dirty: u64) -> u64 {
        let most = match (settings::arc_bytes_max(), self.is_given) {
            (None, _) => self.caches,
            (Some(bytes), true) => bytes.min(self.caches),
            (Some(bytes), false) => bytes,
        };
        let left = match self.is_given {
            true => most.min(self.caches.saturating_sub(dirty)),
            false => most,
        };
        left.max(CACHES_MIN)
    }

    /// Bytes in use.
    pub fn used(&self, pools: &[Arc<Imported>]) -> u64 {
        let cached = |pool: &Arc<Imported>| pool.pool.cache().bytes().iter().sum::<u64>();
        let buffers = self.buffers.reads.leased() + self.buffers.scans.leased();
        pools.iter().map(cached).sum::<u64>() + buffers + dirty(pools)
    }

    /// Makes room for one pool more than `pools`, and says what it may have.
    pub fn admit(&self, pools: &[Arc<Imported>]) -> (u64, Buffers) {
        let allowance = self.lock().allowance;
        let share = allowance / (pools.len() as u64 + 1);
        let caches: Vec<_> = pools.iter().map(|pool| pool.pool.cache()).collect();
        // Each existing pool gives up the same part of what it has.
        let limits: Vec<u64> = caches.iter().map(|cache| total(cache)).collect();
        let sum = limits.iter().sum::<u64>().max(1);
        for (cache, limit) in caches.iter().zip(limits) {
            let rest = u128::from(allowance - share) * u128::from(limit) / u128::from(sum);
            set(cache, limit.min(u64::try_from(rest).unwrap_or(u64::MAX)));
        }
        (share, self.buffers.clone())
    }

    /// Divides the caches' memory among `pools`, which are not what they were.
    pub fn divide(&self, pools: &[Arc<Imported>]) {
        let mut state = self.lock();
        let known = |guid: &u64| pools.iter().any(|pool| pool.pool.guid().0 == *guid);
        state.readers.retain(|guid, _| known(guid));
        apply(&state, pools);
    }

    /// Goes over to what the settings say now, at once.
    pub fn apply_settings(&self, pools: &[Arc<Imported>]) {
        let mut state = self.lock();
        state.allowance = self.caches_max(dirty(pools));
        apply(&state, pools);
    }

    /// Adjusts the shares to recent reads and the system's memory pressure, if it is time.
    pub fn look(&self, pools: &[Arc<Imported>], now: Duration) {
        let mut state = self.lock();
        let elapsed = now.saturating_sub(state.looked);
        if elapsed < LOOK_INTERVAL || pools.is_empty() {
            return;
        }
        state.looked = now;
        let before = state.allowance;
        let stalled = self.gauge.stalled();
        let waited = stalled.saturating_sub(state.stalled);
        state.stalled = stalled;
        let pressed = waited * STALLED_PART > elapsed || self.gauge.is_short();
        let available = self.gauge.available_percent();
        let wanted = settings::ARC_LOTSFREE_PERCENT.get();
        settings::set_memory_short(available.is_some_and(|available| available < wanted));
        let cached = self.used(pools);
        let most = self.caches_max(dirty(pools));
        state.allowance = allowance(most, before, pressed.then_some(cached));
        let mut any_read = false;
        for imported in pools {
            let pipeline = imported.pool.cache().pipeline();
            let bytes_read = pipeline.counters().bytes_read.get();
            let reader = state.readers.entry(imported.pool.guid().0).or_default();
            let read = bytes_read.saturating_sub(reader.bytes_read);
            reader.bytes_read = bytes_read;
            reader.need = reader.need - reader.need / FORGOTTEN_PART + read;
            any_read |= read > 0;
        }
        // While no pool is read, keep the shares: the cached blocks are the best guess for later.
        if any_read || state.allowance != before {
            apply(&state, pools);
        }
    }
}

/// What the caches may have next: less under pressure, when they hold `pressed` bytes.
fn allowance(most: u64, now: u64, pressed: Option<u64>) -> u64 {
    match pressed {
        Some(cached) => {
            let kept = settings::arc_bytes_min().unwrap_or(most / FLOOR_PART);
            let has = now.min(cached);
            let back = (has >> settings::ARC_SHRINK_SHIFT.get()).max(1);
            has.saturating_sub(back).max(kept).min(most)
        }
        None => now.saturating_add(most / GROWTH_PART).min(most),
    }
}

/// Divides `total`: half equally, half in proportion to `needs`.
fn shares(total: u64, needs: &[u64]) -> Vec<u64> {
    let count = needs.len().max(1) as u64;
    let sum: u128 = needs.iter().map(|need| u128::from(*need)).sum();
    let (equal, by_need) = match sum {
        0 => (total / count, 0),
        _ => (total / 2 / count, u128::from(total / 2)),
    };
    let part = |need: &u64| {
        let part = by_need * u128::from(*need) / sum.max(1);
        equal + u64::try_from(part).expect("at most half of the total")
    };
    needs.iter().map(part).collect()
}

/// Bytes of changes that are not on disk yet.
fn dirty(pools: &[Arc<Imported>]) -> u64 {
    let of = |pool: &Arc<Imported>| pool.pool.gate().map_or(0, |gate| gate.dirty_bytes());
    pools.iter().map(of).sum()
}

fn total(cache: &BlockCache) -> u64 {
    let limits = cache.limits();
    limits.stored + limits.decoded
}

fn set(cache: &BlockCache, bytes: u64) {
    cache.set_limits(CacheLimits::of_total(bytes));
}

/// Sets the shares, first those that become smaller.
fn apply(state: &State, pools: &[Arc<Imported>]) {
    let need = |pool: &Arc<Imported>| {
        let reader = state.readers.get(&pool.pool.guid().0);
        reader.map_or(0, |reader| reader.need)
    };
    let needs: Vec<u64> = pools.iter().map(need).collect();
    let shares = shares(state.allowance, &needs);
    assert!(
        shares.iter().sum::<u64>() <= state.allowance,
        "within the limit"
    );
    for shrink in [true, false] {
        for (imported, share) in pools.iter().zip(&shares) {
            let cache = imported.pool.cache();
            if (*share < total(cache)) == shrink {
                set(cache, *share);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_exceed_what_there_is() {
        assert_eq!(shares(100, &[5]), [100]);
        assert_eq!(shares(100, &[0]), [100]);
        assert_eq!(shares(120, &[0, 0, 0]), [40, 40, 40]);
        assert_eq!(
            shares(120, &[7, 0, 0]),
            [80, 20, 20],
            "the idle keep a part"
        );
        assert!(shares(100, &[]).is_empty());
        let many = [u64::MAX, u64::MAX, 1, 0];
        assert!(
            shares(u64::MAX, &many)
                .iter()
                .map(|s| u128::from(*s))
                .sum::<u128>()
                <= u128::from(u64::MAX)
        );
    }

    #[test]
    fn pressure_takes_quickly_and_calm_gives_back_slowly() {
        let most = 3200;
        assert_eq!(allowance(most, 3200, Some(3000)), 2250);
        assert_eq!(allowance(most, 3200, Some(100)), 200, "the floor");
        settings::ARC_SHRINK_SHIFT.set(1).expect("in range");
        assert_eq!(allowance(most, 3200, Some(3000)), 1500);
        settings::ARC_SHRINK_SHIFT.reset();
        let mut now = 200;
        for _ in 0..30 {
            now = allowance(most, now, None);
        }
        assert_eq!(now, most);
    }

    #[test]
    fn a_small_limit_still_holds_the_largest_blocks() {
        for limit in [0, MEMORY_MIN, 512 << 20, 16 << 30] {
            let memory = Memory::new(Some(limit), true, Box::new(AmpleMemory), Duration::ZERO);
            let (share, buffers) = memory.admit(&[]);
            assert!(buffers.reads.limit() >= 2 * (16 << 20));
            let all = share + buffers.reads.limit() + buffers.scans.limit();
            assert!(all <= limit.max(MEMORY_MIN), "{all} of {limit}");
        }
    }
}
