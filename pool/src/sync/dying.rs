//! What becomes of a pool when one of its threads panics.
//!
//! A panic is a bug: the thread's change may be half done, with unknown effects. So the pool takes
//! no more changes. The disk has its last group, and `zpool export -f` and an import return to it.
//! Other pools of the process are not affected.
//! Trims and initializations are the exception: they change nothing of the pool. One that panics
//! ends, the space that it held is given back, and it can be begun again.
//!
//! Waiting threads must not hang. Each of them waits for a value that the panicking thread drops,
//! for the gate, or for devices. The last two waits are ended here.

use super::syncer::Syncer;
use std::sync::Arc;

impl Syncer {
    /// The words for a panic in the work `what`.
    fn died(what: &str, words: &str) -> String {
        format!(
            "an internal error (a panic) ended {what}: {words}; export the pool with -f and import \
             it again: it then is as its last transaction group left it"
        )
    }

    /// Ends all changes after a panic in the work `what`, and all waiting for devices.
    pub(crate) fn die(&self, what: &str, words: &str) {
        self.suspend(&Self::died(what, words));
        self.give_up();
    }

    /// For jobs of the pool: what they do if their work `what` panics.
    pub(crate) fn guard(self: &Arc<Self>, what: &'static str) -> impl Fn(&str) + Send + 'static {
        let syncer = Arc::downgrade(self);
        move |words| {
            if let Some(syncer) = syncer.upgrade() {
                syncer.die(what, words);
            }
        }
    }
}
