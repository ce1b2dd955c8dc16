//! Walks over the datasets of a pool.

use cenote_dsl::{Dataset, DatasetName, Directory, Dsl};
use std::sync::Arc;

/// Calls `each` with every head that lists show; what cannot be read is left out.
pub(crate) fn walk_heads(dsl: &Arc<Dsl>, mut each: impl FnMut(&Dataset)) {
    let mut stack: Vec<Arc<Directory>> = dsl.root().into_iter().collect();
    while let Some(directory) = stack.pop() {
        if let Ok(Some(head)) = directory.head() {
            each(&head);
        }
        for child in directory.listed_children().unwrap_or_default().iter().rev() {
            stack.extend(directory.open_child(child));
        }
    }
}

/// Whether a name is `top` or below it.
pub(crate) fn is_within(name: &DatasetName, top: &DatasetName) -> bool {
    let rest = name.as_str().strip_prefix(top.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
