//! Block devices of this machine that a dead daemon left, for commands without a daemon.

use cenote_words::context::Context;

pub use cenote_serve::{status_without_daemon, stop_without_daemon};

/// Reports block devices of this machine that a daemon left. Returns whether there are any.
pub fn complain_of_left(context: &mut Context) -> bool {
    let left = status_without_daemon().left;
    for disk in &left {
        context.complain(&format!(
            "{} of {} waits until its pool is imported; 'cenote ublk stop {}' removes it",
            disk.device, disk.dataset, disk.device
        ));
    }
    !left.is_empty()
}
