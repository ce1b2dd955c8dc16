//! One account for all memory whose size the input decides.
//!
//! Caches, decompression buffers and scan queues lease bytes here before they allocate. A pool
//! that claims absurd sizes then meets [`MemoryExceeded`] and not the system's out-of-memory
//! killer. Leases give back what they took when dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A limit in bytes and how much of it is leased.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: u64,
    leased: AtomicU64,
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
}
