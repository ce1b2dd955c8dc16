//! Walks over the datasets of a pool.
//!
//! A walk takes a while, and datasets come and go meanwhile. What is gone when the walk gets there
//! is left out; what is read is read as it is then, not as a handle of before remembers it.

use cenote_control::model::ControlError;
use cenote_dsl::{Dataset, DatasetName, Directory, Dsl};
use std::sync::Arc;

/// Calls `each` with every head that lists show; what cannot be read is left out.
pub(crate) fn walk_heads(dsl: &Arc<Dsl>, mut each: impl FnMut(&Dataset)) {
    let mut stack: Vec<Arc<Directory>> = dsl.root().into_iter().collect();
    while let Some(directory) = stack.pop() {
        if let Ok(Some(head)) = directory.head_now() {
            each(&head);
        }
        let children = directory.children_listed_now().ok().flatten();
        for child in children.unwrap_or_default().iter().rev() {
            stack.extend(directory.child_now(child).ok().flatten());
        }
    }
}

/// Whether a name is `top` or below it.
pub(crate) fn is_within(name: &DatasetName, top: &DatasetName) -> bool {
    let rest = name.as_str().strip_prefix(top.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Reads by a handle, or by name if the tree changed; `None` if what it is about is gone.
pub(crate) fn read_or_gone<T>(
    dsl: &Dsl,
    by_handle: impl FnOnce() -> Result<T, ControlError>,
    by_name: impl FnMut() -> Result<T, ControlError>,
) -> Result<Option<T>, ControlError> {
    match dsl.by_handle_or_name(by_handle, by_name) {
        Ok(read) => Ok(Some(read)),
        Err(ControlError::NoSuchDataset { .. } | ControlError::NoSuchBookmark { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
