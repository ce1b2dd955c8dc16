//! One account for all memory whose size the input decides.
//!
//! Caches, decompression buffers and scan queues lease bytes here before they allocate. A pool
//! that claims absurd sizes then meets [`MemoryExceeded`] and not the system's out-of-memory
//! killer. Leases give back what they took when dropped.

use crate::rt::ranks::MemoryWaiters;
use crate::rt::{Condvar, Instant, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A limit in bytes and how much of it is leased.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: u64,
    leased: AtomicU64,
    /// How many wait for leases to come back.
    waiting: Mutex<u64, MemoryWaiters>,
    returned: Condvar,
}

/// The budget has no room for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} bytes wanted, {leased} of the {limit} allowed are in use; raise --memory")]
pub struct MemoryExceeded {
    /// Bytes asked for.
    pub wanted: u64,
    /// Bytes leased at that moment.
    pub leased: u64,
    /// The budget's limit in bytes.
    pub limit: u64,
}

impl MemoryBudget {
    /// A budget of `limit` bytes, all free.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit,
            leased: AtomicU64::new(0),
            waiting: Mutex::new(0),
            returned: Condvar::new(),
        })
    }

    /// Leases `bytes` until the returned value is dropped.
    pub fn lease(self: &Arc<Self>, bytes: u64) -> Result<MemoryLease, MemoryExceeded> {
        let limit = self.limit;
        let take = |leased: u64| leased.checked_add(bytes).filter(|total| *total <= limit);
        match self
            .leased
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        {
            Ok(_) => Ok(MemoryLease {
                budget: Arc::clone(self),
                bytes,
            }),
            Err(leased) => Err(MemoryExceeded {
                wanted: bytes,
                leased,
                limit,
            }),
        }
    }

    /// As [`Self::lease`], waiting for up to `patience` until others give back enough.
    ///
    /// The caller must hold no lease while it waits; otherwise two callers could wait for each
    /// other. A request for more than the limit is refused at once.
    pub fn lease_patiently(
        self: &Arc<Self>,
        bytes: u64,
        patience: Duration,
    ) -> Result<MemoryLease, MemoryExceeded> {
        let refused = match self.lease(bytes) {
            Ok(lease) => return Ok(lease),
            Err(refused) if bytes > self.limit => return Err(refused),
            Err(refused) => refused,
        };
        let end = Instant::now() + patience;
        let mut waiting = self.waiting.lock();
        *waiting += 1;
        // A lease that is dropped reads `waiting` under the lock, so no return is missed from
        // here on.
        let outcome = loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lease(bytes) {
                Ok(lease) => break Ok(lease),
                Err(_) if left.is_zero() => break Err(refused),
                Err(_) => {}
            }
            (waiting, _) = self.returned.wait_timeout(waiting, left);
        };
        *waiting -= 1;
        outcome
    }

    /// As [`Self::lease`], for what is kept and could be done without: refused unless half of the
    /// budget is left for what must be had.
    pub fn lease_spare(self: &Arc<Self>, bytes: u64) -> Result<MemoryLease, MemoryExceeded> {
        let lease = self.lease(bytes)?;
        let leased = self.leased();
        match leased <= self.limit / 2 {
            true => Ok(lease),
            false => Err(MemoryExceeded {
                wanted: bytes,
                leased,
                limit: self.limit,
            }),
        }
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes leased now.
    pub fn leased(&self) -> u64 {
        self.leased.load(Ordering::Relaxed)
    }
}

/// Bytes taken from a [`MemoryBudget`], given back on drop.
#[derive(Debug)]
pub struct MemoryLease {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl MemoryLease {
    /// The size of the lease in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        let before = self.budget.leased.fetch_sub(self.bytes, Ordering::Relaxed);
        assert!(
            before >= self.bytes,
            "a lease gives back what it took, once"
        );
        if *self.budget.waiting.lock() > 0 {
            self.budget.returned.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_up_to_the_limit_and_gives_back() {
        let budget = MemoryBudget::new(100);
        let first = budget.lease(60).expect("60 of 100 fit");
        let refused = budget.lease(41).expect_err("101 of 100 do not fit");
        assert_eq!(
            refused,
            MemoryExceeded {
                wanted: 41,
                leased: 60,
                limit: 100
            }
        );
        drop(first);
        assert_eq!(budget.leased(), 0);
        assert!(
            budget.lease(u64::MAX).is_err(),
            "a sum past 2^64 is refused, not wrapped"
        );
    }

    #[test]
    fn what_could_be_done_without_leaves_half() {
        let budget = MemoryBudget::new(100);
        let kept: Vec<_> = (0..10).map_while(|_| budget.lease_spare(10).ok()).collect();
        assert_eq!((kept.len(), budget.leased()), (5, 50));
        assert!(budget.lease(50).is_ok());
    }

    #[test]
    fn the_patient_get_what_others_give_back() {
        let budget = MemoryBudget::new(100);
        let first = budget.lease(60).expect("60 of 100 fit");
        let patience = Duration::from_millis(20);
        assert!(
            budget.lease_patiently(50, patience).is_err(),
            "no lease is returned"
        );
        assert!(
            budget.lease_patiently(101, Duration::MAX).is_err(),
            "refused at once"
        );
        let waiter = {
            let budget = Arc::clone(&budget);
            let lease = move || budget.lease_patiently(50, Duration::from_secs(60)).is_ok();
            crate::rt::spawn("waiter", lease).expect("a thread")
        };
        crate::rt::sleep(patience);
        drop(first);
        assert!(waiter.join().expect("no panic"));
        assert_eq!(budget.leased(), 0);
    }
}
