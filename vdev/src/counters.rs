//! What vdevs did and suffered since they were opened.

use crate::statistics::LeafStatistics;
use cenote_base::metrics::Counter;
use cenote_base::settings;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a vdev did and suffered since it was opened.
#[derive(Debug, Default)]
pub struct VdevCounters {
    /// Reads.
    pub read_operations: Counter,
    /// Bytes read.
    pub read_bytes: Counter,
    /// Reads that failed.
    pub read_errors: Counter,
    /// Writes.
    pub write_operations: Counter,
    /// Bytes written.
    pub write_bytes: Counter,
    /// Writes that failed.
    pub write_errors: Counter,
    /// Reads that gave other bytes than were written.
    pub checksum_errors: Counter,
    /// Requests that took longer than `zio_slow_io_ms`.
    pub slow_operations: Counter,
    /// Requests that took longer than `zfs_deadman_ziotime_ms`.
    pub hung_operations: Counter,
    /// Bytes written again because a reader found them wrong or missing.
    pub self_healed_bytes: Counter,
    /// Bytes written again by a scrub or resilver.
    pub scan_repaired_bytes: Counter,
    /// Errors of each kind and slow requests, in the order above, that were cleared.
    cleared: [AtomicU64; 4],
    /// Of a leaf: how long its requests took and how large they were.
    pub(crate) requests: LeafStatistics,
}

impl VdevCounters {
    /// Those of a leaf, with its requests by class.
    pub(crate) fn of_leaf() -> Self {
        Self {
            requests: LeafStatistics::of_leaf(),
            ..Self::default()
        }
    }

    fn errors(&self) -> [u64; 4] {
        [
            &self.read_errors,
            &self.write_errors,
            &self.checksum_errors,
            &self.slow_operations,
        ]
        .map(Counter::get)
    }

    /// Notes how long a request took.
    pub(crate) fn note_duration(&self, took: Duration) {
        let limit = settings::SLOW_IO_MS.get();
        if limit != 0 && took > Duration::from_millis(limit) {
            self.slow_operations.add(1);
        }
        if took > Duration::from_millis(settings::DEADMAN_ZIOTIME_MS.get()) {
            self.hung_operations.add(1);
        }
    }

    /// Resets the error counts to zero.
    pub(crate) fn clear_errors(&self) {
        for (cleared, errors) in self.cleared.iter().zip(self.errors()) {
            cleared.store(errors, Ordering::Relaxed);
        }
    }

    /// Failed reads, failed writes, wrong checksums and slow requests since they were last
    /// cleared.
    fn new_errors(&self) -> [u64; 4] {
        let errors = self.errors();
        std::array::from_fn(|kind| {
            errors[kind].saturating_sub(self.cleared[kind].load(Ordering::Relaxed))
        })
    }
}

/// What a vdev did since it was opened: a copy of its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in VdevCounters")]
pub struct VdevFigures {
    pub read_operations: u64,
    pub read_bytes: u64,
    pub read_errors: u64,
    pub write_operations: u64,
    pub write_bytes: u64,
    pub write_errors: u64,
    pub checksum_errors: u64,
    /// Requests that took longer than `zio_slow_io_ms`.
    pub slow_operations: u64,
    /// Requests that took longer than `zfs_deadman_ziotime_ms`.
    pub hung_operations: u64,
    /// Bytes written again because a reader found them wrong or missing.
    pub self_healed_bytes: u64,
    /// Bytes written again by a scrub or resilver.
    pub scan_repaired_bytes: u64,
    /// Failed reads, failed writes, wrong checksums and slow requests, whether cleared or not.
    pub errors_ever: [u64; 4],
}

impl From<&VdevCounters> for VdevFigures {
    fn from(counters: &VdevCounters) -> Self {
        let [read_errors, write_errors, checksum_errors, slow_operations] = counters.new_errors();
        Self {
            read_operations: counters.read_operations.get(),
            read_bytes: counters.read_bytes.get(),
            read_errors,
            write_operations: counters.write_operations.get(),
            write_bytes: counters.write_bytes.get(),
            write_errors,
            checksum_errors,
            slow_operations,
            hung_operations: counters.hung_operations.get(),
            self_healed_bytes: counters.self_healed_bytes.get(),
            scan_repaired_bytes: counters.scan_repaired_bytes.get(),
            errors_ever: counters.errors(),
        }
    }
}
