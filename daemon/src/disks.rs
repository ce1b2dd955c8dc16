//! Disks of this machine that daemons left, for commands that find no daemon.

use cenote_words::context::Context;

pub use cenote_serve::{status_without_daemon, stop_without_daemon};

/// Names disks of this machine that daemons left; whether there are any.
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
