//! Bookmarks made and destroyed.

use crate::command::{By, run};
use crate::errors::parse_name;
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, Response};
use cenote_dsl::write::{CreateBookmarks, DestroyBookmarks};

pub(super) fn create_bookmark(
    registry: &Registry,
    source: &str,
    bookmark: &str,
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
    let task = CreateBookmarks {
        bookmarks: vec![(source, bookmark)],
    };
    run(&imported, task, by)?;
    Ok(Response::Done)
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
