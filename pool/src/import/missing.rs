//! What an import reports about missing devices.

use crate::error::MissingVdev;
use cenote_base::Guid;
use cenote_ondisk::vdev_config::{VdevConfig, VdevKind};

/// The leaves of a top-level vdev that are not here.
pub(crate) fn missing_leaves(
    top: &VdevConfig,
    is_there: impl Fn(Guid) -> bool,
) -> impl Iterator<Item = MissingVdev> {
    let gone = top.leaves().filter(move |leaf| !is_there(leaf.guid));
    gone.map(|leaf| MissingVdev {
        guid: leaf.guid,
        top: top_name(top),
        top_id: top.id.unwrap_or_default(),
        is_top: leaf.guid == top.guid,
        last_path: leaf.path.clone(),
        is_log: top.is_log,
    })
}

/// How `zpool status` names a top-level vdev.
fn top_name(top: &VdevConfig) -> String {
    let id = top.id.unwrap_or_default();
    match top.kind {
        VdevKind::Raidz => format!("raidz{}-{id}", top.parity),
        VdevKind::Draid => format!("draid{}-{id}", top.parity),
        VdevKind::Missing => format!("top-level vdev {id}"),
        VdevKind::Disk | VdevKind::File => format!("top-level vdev {id}"),
        ref kind => format!("{}-{id}", kind.name()),
    }
}
