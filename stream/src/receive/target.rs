//! Where a stream goes.

use cenote_dmu::TxgGate;
use cenote_dsl::write::{Head, ResumePoint};
use std::sync::Arc;

/// Why there is no room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The pool has no space.
    Pool,
    /// A quota is reached.
    Quota,
}

/// Says whether a dataset may grow.
pub trait Room {
    /// Refuses `bytes` more.
    fn check(&self, bytes: u64) -> Result<(), Full>;
}

/// Where a stream goes.
pub struct Target<'a> {
    /// The head.
    pub head: Arc<Head>,
    /// The pool's gate.
    pub gate: Arc<TxgGate>,
    /// Whether it may grow.
    pub room: &'a dyn Room,
    /// Where an earlier attempt stopped; zeros if there was none.
    pub resumed: ResumePoint,
    /// Whether another stream may go on where this one is cut.
    pub is_resumable: bool,
    /// Objects that the stream does not have are to go: it is full, and the head is a clone.
    pub replaces: bool,
    /// Asked now and then whether to give up.
    pub is_cancelled: &'a dyn Fn() -> bool,
}
