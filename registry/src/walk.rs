//! Walks over the datasets of a pool.
//!
//! A walk takes a while, and datasets come and go meanwhile. What is gone when the walk gets there
//! is left out; what is read is read as it is then, not as a handle of before remembers it.

use cenote_control::model::ControlError;
use cenote_dsl::{Dataset, DatasetName, Directory, Dsl, DslError};
use std::sync::Arc;

/// Calls `each` with every head that lists show; what cannot be read is left out.
pub fn walk_heads(dsl: &Arc<Dsl>, each: impl FnMut(&Dataset)) {
    walk_heads_aloud(dsl, each, |_, _| {});
}

/// The same; says of which names nothing, or nothing below, can be read, and why.
pub(crate) fn walk_heads_aloud(
    dsl: &Arc<Dsl>,
    mut each: impl FnMut(&Dataset),
    mut unread: impl FnMut(&str, DslError),
) {
    let mut stack: Vec<Arc<Directory>> = match dsl.root() {
        Ok(root) => vec![root],
        Err(error) => {
            unread(dsl.pool_name().as_str(), error);
            return;
        }
    };
    while let Some(directory) = stack.pop() {
        let name = directory.name().as_str();
        match directory.head_now() {
            Ok(Some(head)) => each(&head),
            Ok(None) => {}
            Err(error) => unread(name, error),
        }
        let children = directory.children_listed_now().unwrap_or_else(|error| {
            unread(name, error);
            None
        });
        for child in children.unwrap_or_default().iter().rev() {
            match directory.child_now(child) {
                Ok(child) => stack.extend(child),
                Err(error) => {
                    let child = String::from_utf8_lossy(&child.component);
                    unread(&format!("{name}/{child}"), error);
                }
            }
        }
    }
}

/// Whether a name is `top` or below it.
pub fn is_within(name: &DatasetName, top: &DatasetName) -> bool {
    let rest = name.as_str().strip_prefix(top.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Reads by a handle, or by name if the tree changed; `None` if what it is about is gone.
pub fn read_or_gone<T>(
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
