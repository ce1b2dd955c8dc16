//! Log devices that were given up after a failure, and work again.
//!
//! Without its log device a pool only commits more slowly, so one failure is enough to stop using
//! it. The device is retried from time to time, and used when it answers. A missing one is searched
//! for like others ([`super::returning`]).

use crate::pool::Pool;
use cenote_base::Guid;

impl Pool {
    /// Tries to use a log device again that was given up. Returns whether it answers.
    pub fn try_log(&self, leaf: Guid) -> bool {
        let Some(syncer) = self.syncer() else {
            return false;
        };
        let is_back = self.vdevs().try_log(leaf) || self.is_exchanged(leaf);
        if is_back {
            // Its labels are of the moment when it failed.
            syncer.config().touch();
            let _ = self.look_for_resilver();
        }
        is_back
    }

    /// Whether the device was unreadable at its old path, was found again, and answers there.
    fn is_exchanged(&self, leaf: Guid) -> bool {
        if self.vdevs().can_be_read(leaf) {
            return false;
        }
        // A device that is not found now may be found the next time.
        let reopened = self.reopen(vec![leaf]);
        reopened.is_ok() && self.vdevs().try_log(leaf)
    }
}
