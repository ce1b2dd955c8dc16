//! How urgent the writing of transaction groups is.
//!
//! The vdevs do not know what waits above them. The layer above sets a function that tells them.
//! They call it before each write, and the higher the result, the more writes go at once.

use std::fmt;
use std::sync::OnceLock;

type Ask = Box<dyn Fn() -> u64 + Send + Sync>;

/// The share of dirty data in what may be dirty.
#[derive(Default)]
pub(crate) struct WriteLoad(OnceLock<Ask>);

impl WriteLoad {
    /// Sets the function to call, once for all.
    pub(crate) fn set(&self, ask: impl Fn() -> u64 + Send + Sync + 'static) {
        // A second caller belongs to the same pool, so its function gives the same answers.
        let _ = self.0.set(Box::new(ask));
    }

    /// The share in percent; 100 while no function is set.
    pub(crate) fn percent(&self) -> u64 {
        self.0.get().map_or(100, |ask| ask())
    }
}

impl fmt::Debug for WriteLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteLoad").field(&self.percent()).finish()
    }
}
