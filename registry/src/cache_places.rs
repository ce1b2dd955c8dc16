//! Which cache files a daemon uses, and what marks its entries in them.
//!
//! `cache_file` has the theory; this is the part of the table of pools.

use cenote_base::rt::{Mutex, ranks};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// The daemon's part in cache files.
#[derive(Debug, Default)]
pub struct CacheFiles {
    /// The file of pools whose property names none.
    pub default: Option<PathBuf>,
    /// The socket of the daemon.
    pub owner: String,
    /// By pool: why it is not in the file that it should be in.
    failures: Mutex<BTreeMap<String, String>, ranks::CacheFileName>,
    /// How often a file was written.
    writes: AtomicU64,
}

impl CacheFiles {
    /// The daemon of the socket `owner`.
    pub fn new(default: Option<PathBuf>, owner: String) -> Self {
        Self {
            default,
            owner,
            failures: Mutex::default(),
            writes: AtomicU64::new(0),
        }
    }

    /// A file was written.
    pub fn wrote(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// How often files were written.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Notes that a pool is in its file, or why not.
    pub fn note(&self, pool: &str, failure: Option<String>) {
        let mut failures = self.failures.lock();
        match failure {
            Some(failure) => failures.insert(pool.to_owned(), failure),
            None => failures.remove(pool),
        };
    }

    /// The pools that are not in their files: each with the reason.
    pub fn failures(&self) -> Vec<String> {
        let failures = self.failures.lock();
        let text = |(pool, failure): (&String, &String)| format!("'{pool}': {failure}");
        failures.iter().map(text).collect()
    }
}
