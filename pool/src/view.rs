//! A pool that is written to, as it was at one moment.
//!
//! Blocks of the last synced group are not overwritten for two groups after they are freed. A
//! view holds back all freed space for as long as it lives, so that whatever its uberblock leads
//! to stays as it is.

use crate::allocation::Space;
use crate::error::ImportError;
use crate::import::read_config;
use crate::pool::Pool;
use cenote_dmu::ObjectSet;
use std::sync::Arc;

/// Keeps freed space from being used again.
#[derive(Debug)]
pub(crate) struct Hold(Arc<Space>);

impl Hold {
    pub fn new(space: &Arc<Space>) -> Self {
        space.hold();
        Self(Arc::clone(space))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.release_hold();
    }
}

impl Pool {
    /// The pool as of the last group that is on disk, for reading only. While it lives no freed
    /// space is used again.
    ///
    /// # Errors
    /// If the pool's metadata cannot be read.
    pub fn view(&self) -> Result<Self, ImportError> {
        let hold = self.syncer().map(|syncer| Hold::new(&syncer.space));
        let uberblock = self.uberblock();
        let cache = Arc::clone(self.cache());
        let mos = ObjectSet::open(cache, self.mos().id(), uberblock.root, None)?;
        let config = read_config(&mos)?;
        self.as_of(config, uberblock, mos, hold)
    }
}
