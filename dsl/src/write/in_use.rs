//! Which heads of a pool are open for writing, and which must stay as they are.

use super::open_head::Head;
use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known of heads, by their numbers.
#[derive(Debug, Default)]
pub(super) struct InUse {
    pub(super) open: BTreeMap<ObjectId, Arc<Head>>,
    /// How many keep each.
    pub(super) kept: BTreeMap<ObjectId, u64>,
}

/// Open heads, and kept ones.
#[derive(Debug, Default)]
pub struct Heads {
    in_use: Mutex<InUse, ranks::Heads>,
}

impl Heads {
    pub(super) fn lock(&self) -> MutexGuard<'_, InUse> {
        self.in_use.lock()
    }
}
