//! How urgent the writing of transaction groups is.
//!
//! The vdevs do not know what waits above them. Whoever does gives them a way to ask: they do so
//! before each write, and let the more writes go at once the higher the answer is.

use std::fmt;
use std::sync::OnceLock;

type Ask = Box<dyn Fn() -> u64 + Send + Sync>;

/// Tells how much of what may be dirty is dirty.
#[derive(Default)]
pub(crate) struct WriteLoad(OnceLock<Ask>);

impl WriteLoad {
    /// Sets whom to ask, once for all.
    pub(crate) fn set(&self, ask: impl Fn() -> u64 + Send + Sync + 'static) {
        // Whoever comes second would be asking the same pool.
        let _ = self.0.set(Box::new(ask));
    }

    /// The share in percent; everything while nobody can be asked.
    pub(crate) fn percent(&self) -> u64 {
        self.0.get().map_or(100, |ask| ask())
    }
}

impl fmt::Debug for WriteLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteLoad").field(&self.percent()).finish()
    }
}
