//! Files without a name that are not freed yet: `zfs wait`.

use crate::errors::{of_files, parse_name};
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, Response};

/// How many there are in a file system that is open for writing; in others nothing is freed.
pub(crate) fn delete_queue(registry: &Registry, dataset: &str) -> Result<Response, ControlError> {
    let (imported, head) = registry.dataset(&parse_name(dataset)?)?;
    let files = imported.heads.nameless(head.id());
    let files = files.map_err(|error| of_files(dataset, &error))?;
    Ok(Response::DeleteQueue { files })
}
