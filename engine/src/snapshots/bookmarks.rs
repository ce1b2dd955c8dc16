//! Bookmarks made and destroyed.

use super::names::existing;
use crate::command::{By, run};
use crate::errors::parse_name;
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, Response};
use cenote_dsl::DatasetName;
use cenote_dsl::write::{CreateBookmarks, DestroyBookmarks};

pub(super) fn create_bookmark(
    registry: &Registry,
    source: &str,
    bookmark: &str,
    recursive: bool,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let (source, bookmark) = (parse_name(source)?, parse_name(bookmark)?);
    if source.pool() != bookmark.pool() {
        return Err(ControlError::SnapshotRefused {
            name: bookmark.as_str().to_owned(),
            reason: "bookmark is in a different pool".to_owned(),
        });
    }
    let (imported, _) = registry.dataset(&bookmark.dataset())?;
    let bookmarks = match recursive {
        true => with_those_below(registry, &source, &bookmark)?,
        false => vec![(source, bookmark)],
    };
    run(&imported, CreateBookmarks { bookmarks }, by)?;
    Ok(Response::Done)
}

/// The pairs of snapshot and bookmark of a dataset and all below it that have such a snapshot.
fn with_those_below(
    registry: &Registry,
    source: &DatasetName,
    bookmark: &DatasetName,
) -> Result<Vec<(DatasetName, DatasetName)>, ControlError> {
    if bookmark.dataset() != source.dataset() {
        return Err(ControlError::SnapshotRefused {
            name: bookmark.as_str().to_owned(),
            reason: "recursive bookmarks are made in the dataset of the snapshot".to_owned(),
        });
    }
    // A mistyped name must not succeed because some dataset below has such a snapshot.
    registry.dataset(source)?;
    let sources = existing(registry, &[source.as_str().to_owned()], true)?;
    let mark = bookmark.after_delimiter().unwrap_or_default();
    let pair = |source: DatasetName| {
        let bookmark = parse_name(&format!("{}#{mark}", source.dataset()))?;
        Ok((source, bookmark))
    };
    sources.into_values().flatten().map(pair).collect()
}

pub(super) fn destroy_bookmarks(
    registry: &Registry,
    names: &[String],
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let names: Vec<_> = names
        .iter()
        .map(|name| parse_name(name))
        .collect::<Result<_, _>>()?;
    let Some(first) = names.first() else {
        return Ok(Response::Done);
    };
    let imported = registry.pool_of(first)?;
    run(&imported, DestroyBookmarks { names }, by)?;
    Ok(Response::Done)
}
