//! How a device is opened.

use crate::store::Rates;
use std::time::Duration;

/// When a flush is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// Once the local log is on disk. Without a log it is as [`Self::Writethrough`].
    Writeback,
    /// Once everything is in the store.
    Writethrough,
}

/// What of the contents enters the read cache. Metadata always does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePolicy {
    /// All that is read or written.
    All,
    /// Metadata alone.
    Metadata,
}

/// Which thread uploads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drive {
    /// A thread of the device's own.
    Thread,
    /// Threads that wait, and callers of a step: for tests that a seed decides.
    Manual,
}

/// How a device is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// When a flush is done.
    pub mode: WriteMode,
    /// Open for reading only: nothing is put, and other machines are not blocked.
    pub is_read_only: bool,
    /// Take over a device that was not released.
    pub is_forced: bool,
    /// The name of this host, for the error on hosts that it keeps out.
    pub host: String,
    /// Which thread uploads.
    pub drive: Drive,
    /// Limits of what goes through the line.
    pub rates: Rates,
    /// How long to try while opening. After that requests are tried for ever.
    pub opening_patience: Duration,
    /// What is written is uploaded once it has so many bytes,
    pub batch_bytes: u64,
    /// or once the oldest of it is so old.
    pub batch_age: Duration,
    /// Bytes that a commit names at most.
    pub batch_bytes_max: u64,
    /// Bytes of a data object.
    pub object_bytes: u64,
    /// Bytes that a commit has inline at most, compressed.
    pub inline_bytes: u64,
    /// Writes of at least so many bytes are contents, unless it is said what they are.
    pub contents_bytes_min: u64,
    /// Bytes of writes that are kept in memory until they are in the store. Without a local log
    /// writers wait when it is so much.
    pub memory_bytes: u64,
    /// Bytes of pages of the map that are kept in memory.
    pub map_bytes: u64,
    /// A light checkpoint is made after so many commits,
    pub checkpoint_commits: u64,
    /// a full one once the tail has so many bytes, and an eighth of the map.
    pub tail_bytes_min: u64,
    /// Objects that are dead are kept for so long, for readers that use an older commit.
    pub keep: Duration,
    /// Before a commit is put, the store is asked for the one before it, unless that was done
    /// within this time.
    pub predecessor_interval: Duration,
    /// Objects of which less than this share lives are compacted, in hundredths.
    pub compact_percent: u64,
    /// Bytes that are fetched around metadata.
    pub window_bytes: u64,
    /// Gaps of so many bytes are fetched rather than making two requests.
    pub gap_bytes: u64,
    /// What of the contents enters the read cache.
    pub cache_policy: CachePolicy,
    /// Bytes that are kept in memory of what was fetched, where there is no read cache on disk.
    pub fetched_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: WriteMode::Writeback,
            is_read_only: false,
            is_forced: false,
            host: rustix::system::uname().nodename().to_string_lossy().into(),
            drive: Drive::Thread,
            rates: Rates::default(),
            opening_patience: Duration::from_secs(30),
            batch_bytes: 16 << 20,
            batch_age: Duration::from_secs(30),
            batch_bytes_max: 64 << 20,
            object_bytes: 16 << 20,
            inline_bytes: 256 << 10,
            contents_bytes_min: 32 << 10,
            memory_bytes: 64 << 20,
            map_bytes: 64 << 20,
            checkpoint_commits: 64,
            tail_bytes_min: 8 << 20,
            keep: Duration::from_secs(24 * 3600),
            predecessor_interval: Duration::from_secs(1),
            compact_percent: 25,
            // A round trip of 25 ms at 12 MB/s.
            window_bytes: 320 << 10,
            gap_bytes: 64 << 10,
            cache_policy: CachePolicy::All,
            fetched_bytes: 32 << 20,
        }
    }
}
