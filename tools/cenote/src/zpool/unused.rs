//! Devices that a pool has and that are not used yet: nobody is to rely on them.
//!
//! Pools with log and cache devices are made, opened and written to, and OpenZFS uses these
//! devices. Here there is neither an intent log nor a second level of the cache so far.

use crate::context::Context;
use cenote_control::model::{AllocationClass, NewVdev, NewVdevRole, VdevTree};

/// What is said of log and cache devices of a pool; `None` if it has none.
fn sentence(has_logs: bool, has_caches: bool) -> Option<String> {
    let (which, effect) = match (has_logs, has_caches) {
        (false, false) => return None,
        (true, false) => ("log", "fsync does not become faster"),
        (false, true) => ("cache", "reads do not become faster"),
        (true, true) => ("log and cache", "neither fsync nor reads become faster"),
    };
    Some(format!(
        "note: this version does not use {which} devices yet: {effect}. OpenZFS uses them when it \
         imports the pool. 'zpool remove' frees them."
    ))
}

/// Says so when such devices become part of a pool.
pub fn note_new(vdevs: &[NewVdev], context: &mut Context) {
    let has = |role| vdevs.iter().any(|vdev| vdev.role == role);
    if let Some(text) = sentence(has(NewVdevRole::Log), has(NewVdevRole::Cache)) {
        context.complain(&text);
    }
    context.complain_of_record();
}

/// What `zpool status` says of a pool that is written to; empty if there is nothing to say.
pub fn text(tree: &VdevTree) -> String {
    let mut tops = tree.root.children.iter();
    let has_logs = tops.any(|top| top.class == AllocationClass::Log);
    match sentence(has_logs, !tree.cache.is_empty()) {
        Some(text) => format!("\n{text}\n"),
        None => String::new(),
    }
}
