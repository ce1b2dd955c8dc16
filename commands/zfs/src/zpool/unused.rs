//! Devices that a pool has and that are not used yet: nobody is to rely on them.
//!
//! Pools with cache devices are made, opened and written to, and OpenZFS uses these devices. Here
//! there is no second level of the cache so far.

use cenote_control::model::{NewVdev, NewVdevRole, VdevTree};
use cenote_words::context::Context;

/// What is said of a pool with cache devices.
const SENTENCE: &str = "note: this version does not use cache devices yet: reads do not become \
                        faster. OpenZFS uses them when it imports the pool. 'zpool remove' frees \
                        them.";

/// Says so when such devices become part of a pool.
pub fn note_new(vdevs: &[NewVdev], context: &mut Context) {
    if vdevs.iter().any(|vdev| vdev.role == NewVdevRole::Cache) {
        context.complain(SENTENCE);
    }
    context.complain_of_record();
}

/// What `zpool status` says of a pool that is written to; empty if there is nothing to say.
pub fn text(tree: &VdevTree) -> String {
    match tree.cache.is_empty() {
        true => String::new(),
        false => format!("\n{SENTENCE}\n"),
    }
}
