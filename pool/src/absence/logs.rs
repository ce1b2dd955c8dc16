//! Log devices that were given up for a failure, and answer again.
//!
//! Without its log device a pool only commits more slowly, so one failure is enough to do without
//! it. The device is asked again from time to time, and used when it answers. One that is not to be
//! had any more is looked for as others are that come back ([`super::returning`]).

use crate::pool::Pool;
use cenote_base::Guid;

impl Pool {
    /// Uses a log device again that was given up, if it answers; whether it does.
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

    /// Whether the device cannot be read where it was, was found once more, and answers there.
    fn is_exchanged(&self, leaf: Guid) -> bool {
        if self.vdevs().can_be_read(leaf) {
            return false;
        }
        // What is not to be had now may be the next time.
        let reopened = self.reopen(vec![leaf]);
        reopened.is_ok() && self.vdevs().try_log(leaf)
    }
}
