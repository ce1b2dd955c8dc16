//! Bookmarks made and destroyed.

use crate::command::{By, run};
use crate::errors::parse_name;
use crate::registry::imported::Imported;
use crate::registry::table::Registry;
use crate::registry::walk::{is_within, walk_heads};
use cenote_control::model::{ControlError, Response};
use cenote_dsl::write::{CreateBookmarks, DestroyBookmarks};
use cenote_dsl::{DatasetName, NameKind};

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
        true => with_those_below(registry, &imported, &source, &bookmark)?,
        false => vec![(source, bookmark)],
    };
    run(&imported, CreateBookmarks { bookmarks }, by)?;
    Ok(Response::Done)
}

/// The pairs of snapshot and bookmark of a dataset and all below it that have such a snapshot.
/// Datasets whose names are too long for one of the two are left out.
fn with_those_below(
    registry: &Registry,
    imported: &Imported,
    source: &DatasetName,
    bookmark: &DatasetName,
) -> Result<Vec<(DatasetName, DatasetName)>, ControlError> {
    let refused = |reason: &str| ControlError::SnapshotRefused {
        name: bookmark.as_str().to_owned(),
        reason: reason.to_owned(),
    };
    if source.kind() != NameKind::Snapshot {
        return Err(refused(
            "the source of recursive bookmarks must be a snapshot",
        ));
    }
    let top = source.dataset();
    if bookmark.dataset() != top {
        return Err(refused(
            "recursive bookmarks are made in the dataset of the snapshot",
        ));
    }
    // A mistyped name must not succeed because some dataset below has such a snapshot.
    registry.dataset(source)?;
    let parts = (source.after_delimiter(), bookmark.after_delimiter());
    let (snapshot, mark) = (parts.0.unwrap_or_default(), parts.1.unwrap_or_default());
    let mut pairs = Vec::new();
    walk_heads(imported.dsl(), |head| {
        let source = parse_name(&format!("{}@{snapshot}", head.name()));
        let bookmark = parse_name(&format!("{}#{mark}", head.name()));
        if let (true, Ok(source), Ok(bookmark)) = (is_within(head.name(), &top), source, bookmark) {
            pairs.push((source, bookmark));
        }
    });
    pairs.retain(|(source, _)| registry.dataset(source).is_ok());
    Ok(pairs)
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
