//! How many more devices may fail before data is lost.
//!
//! The shape of a vdev does not say that. A mirror of three with two devices away is worse than a
//! mirror of two; a raidz1 whose failed disk was replaced by a spare is as good as new. So the
//! devices that hold everything are counted, not the children:
//!
//! - a *leaf* is lost by one failure, and by none if it does not hold everything now: it is away,
//!   or has not received everything yet (a resilver or rebuild runs or is due);
//! - a *mirror*, and a device with its *spare* or its *replacement*, is lost when all its children
//!   are: the sum of what they take;
//! - a *raidz* or *dRAID* with parity p is lost when p + 1 children are: the sum over the p + 1
//!   children that take least;
//! - a *pool* is lost when one vdev is that holds its data: the least of them. Logs and caches hold
//!   none.
//!
//! A distributed spare is space on the other devices of its dRAID. A row of blocks has at most one
//! column on each device, and the spare's part of the row counts as one. So another failure costs a
//! row one column at most, whether a spare has that column or not. One more failure does not lose a
//! device whose spare is complete, only the other devices count. A dRAID has enough of them: its
//! spares replace fewer devices than it has beside one group.
//!
//! *Invariant: failing any set of fewer leaves than [`failures_to_loss`] says leaves every block
//! readable, and some set of as many does not* (the model in `redundancy_tests.rs` tries all sets).
//!
//! Deliberately absent: which writes a device missed. Two devices that missed different writes
//! count as if neither could help the other; a vdev in use then counts as one that cannot lose any.

use cenote_control::model::{AllocationClass, Vdev, VdevKind, VdevState};

/// No number of failures loses data.
const NEVER: u64 = u64::MAX;

/// How many leaves have to fail until data of a vdev is lost; 0 if that is so already.
///
/// `u64::MAX` for vdevs without data.
pub fn failures_to_loss(vdev: &Vdev) -> u64 {
    // Trees are at most twenty deep by their decoder.
    let children = || vdev.children.iter().map(failures_to_loss);
    match vdev.kind {
        VdevKind::Root => {
            let tops = vdev.children.iter().filter(|top| holds_data(top));
            tops.map(failures_to_loss).min().unwrap_or(NEVER)
        }
        VdevKind::Mirror | VdevKind::Spare | VdevKind::Replacing => {
            children().fold(0, u64::saturating_add)
        }
        VdevKind::Raidz { parity } | VdevKind::Draid { parity, .. } => {
            let mut children: Vec<u64> = children().collect();
            children.sort_unstable();
            let weakest = children
                .iter()
                .take(usize::try_from(parity).map_or(4, |p| p + 1));
            weakest.copied().fold(0, u64::saturating_add)
        }
        VdevKind::Hole | VdevKind::Indirect => NEVER,
        VdevKind::DraidSpare if holds_everything(vdev) => NEVER,
        VdevKind::DraidSpare | VdevKind::Disk | VdevKind::File | VdevKind::Missing => {
            u64::from(holds_everything(vdev))
        }
    }
}

/// How many more leaves a vdev can lose; `None` if it has lost too many already.
pub fn failures_left(vdev: &Vdev) -> Option<u64> {
    match failures_to_loss(vdev) {
        0 if is_in_use(vdev) => Some(0),
        failures => failures.checked_sub(1),
    }
}

/// How many leaves a vdev can lose when all is well with it.
pub fn failures_by_design(vdev: &Vdev) -> u64 {
    match vdev.kind {
        VdevKind::Mirror => (vdev.children.len() as u64).saturating_sub(1),
        VdevKind::Raidz { parity } | VdevKind::Draid { parity, .. } => parity,
        // A spare or replacement in progress is temporary.
        _ => 0,
    }
}

/// Whether a top-level vdev has data of the pool.
pub fn holds_data(top: &Vdev) -> bool {
    let is_log = top.class == AllocationClass::Log;
    !is_log && !matches!(top.kind, VdevKind::Hole | VdevKind::Indirect)
}

/// Whether a vdev answers.
fn is_in_use(vdev: &Vdev) -> bool {
    matches!(vdev.state, VdevState::Online | VdevState::Degraded)
}

/// Whether a device is receiving what it missed.
pub fn is_receiving(leaf: &Vdev) -> bool {
    leaf.is_resilvering || leaf.is_rebuilding
}

/// Whether a leaf gives all that is asked of it.
fn holds_everything(leaf: &Vdev) -> bool {
    is_in_use(leaf) && !leaf.resilver_deferred && !is_receiving(leaf)
}

#[cfg(test)]
#[path = "redundancy_tests.rs"]
mod tests;
