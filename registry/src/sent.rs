//! Snapshots that are being sent, and so must stay.
//!
//! They are kept in memory only: a send must not change the pool, which may be read-only, and a
//! crash leaves nothing behind.

use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, ranks};
use std::collections::HashMap;
use std::sync::Arc;

/// How many streams read each snapshot.
type Counts = HashMap<ObjectId, u64>;

/// The snapshots of one pool that are being sent.
#[derive(Clone, Debug, Default)]
pub struct SentSnapshots {
    counts: Arc<Mutex<Counts, ranks::SentSnapshots>>,
}

/// Keeps snapshots from being destroyed while it lives.
#[derive(Debug)]
pub struct Pins {
    counts: Arc<Mutex<Counts, ranks::SentSnapshots>>,
    pinned: Vec<ObjectId>,
}

impl SentSnapshots {
    /// A keeper of snapshots, of none yet.
    pub fn pins(&self) -> Pins {
        Pins {
            counts: Arc::clone(&self.counts),
            pinned: Vec::new(),
        }
    }

    pub(crate) fn is_sent(&self, snapshot: ObjectId) -> bool {
        let counts = self.counts.lock();
        counts.contains_key(&snapshot)
    }
}

impl Pins {
    /// Keeps this one, too.
    pub fn add(&mut self, snapshot: ObjectId) {
        let mut counts = self.counts.lock();
        *counts.entry(snapshot).or_default() += 1;
        self.pinned.push(snapshot);
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        for snapshot in &self.pinned {
            if let Some(count) = counts.get_mut(snapshot) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(snapshot);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_free_when_its_last_stream_ends() {
        let sent = SentSnapshots::default();
        let snapshot = ObjectId(54);
        let (mut one, mut other) = (sent.pins(), sent.pins());
        one.add(snapshot);
        other.add(snapshot);
        drop(one);
        assert!(sent.is_sent(snapshot));
        drop(other);
        assert!(!sent.is_sent(snapshot));
    }
}
