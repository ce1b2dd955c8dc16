//! Notes about devices in a pool that this version does not use yet.
//!
//! Pools with cache devices can be created, imported and written, and OpenZFS uses these devices.
//! Cenote has no second-level cache yet.

use cenote_control::model::{NewVdev, NewVdevRole, VdevTree};
use cenote_words::context::Context;

/// The note about a pool with cache devices.
const SENTENCE: &str = "note: this version does not use cache devices yet: reads do not become \
                        faster. OpenZFS uses them when it imports the pool. 'zpool remove' frees \
                        them.";

/// Prints the note when such devices are added to a pool.
pub fn note_new(vdevs: &[NewVdev], context: &mut Context) {
    if vdevs.iter().any(|vdev| vdev.role == NewVdevRole::Cache) {
        context.complain(SENTENCE);
    }
    context.complain_of_record();
}

/// The note in `zpool status` of a writable pool; empty without such devices.
pub fn text(tree: &VdevTree) -> String {
    match tree.cache.is_empty() {
        true => String::new(),
        false => format!("\n{SENTENCE}\n"),
    }
}
