//! How many bytes answers may have, so that no server fills our memory.

use crate::refusal::Fault;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that one answer, or several together, may still have.
#[derive(Clone, Debug)]
pub struct Allowance {
    left: Arc<AtomicU64>,
    /// What one of the answers may have.
    each: u64,
}

impl Allowance {
    /// So many bytes for one answer.
    pub fn new(bytes: u64) -> Self {
        Self::shared(bytes, bytes)
    }

    /// So many bytes for several answers, none of which may have more than `each`.
    pub fn shared(bytes: u64, each: u64) -> Self {
        Self {
            left: Arc::new(AtomicU64::new(bytes)),
            each: each.min(bytes),
        }
    }

    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// What is wrong with an answer of so many bytes, for which there is no room: it would be too
    /// long alone, or others take the room now.
    pub(crate) fn fault(&self, bytes: u64) -> Fault {
        match bytes > self.each {
            true => Fault::Long,
            false => Fault::Crowded,
        }
    }

    /// Takes bytes of it, if there are so many.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn together_they_take_no_more_than_there_is() {
        let one = Allowance::new(10);
        let other = one.clone();
        assert!(one.take(6) && !other.take(6) && other.take(4));
        assert_eq!(one.left(), 0);
        assert!(one.take(0) && !one.take(1));
    }
}
