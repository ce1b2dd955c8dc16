//! `zfs list` and `zfs get`: walking the datasets and reporting their properties.
//!
//! The walk keeps its own stack and sends what it finds in batches, so that a pool with a million
//! snapshots costs neither depth nor memory. A dataset that cannot be read is one failure among the
//! answers and does not stop the listing.

use cenote_control::model::{
    ControlError, Dataset as Row, DatasetKind, Depth, KindSet, Part, Property, PropertySelection,
    Response,
};
use cenote_control::protocol::Reply;
use cenote_dsl::write::RECEIVE_CHILD;
use cenote_dsl::{Bookmark, Dataset, DatasetName, DatasetType, Directory, NameKind};
use std::collections::HashSet;
use std::sync::Arc;

use super::properties::{bookmark_properties, dataset_properties};
use crate::context::Context;
use crate::errors::{of_dsl, parse_name};
use crate::mounts::table::Mounts;
use crate::registry::imported::Imported;
use crate::registry::walk::read_or_gone;

/// Rows sent at once.
const BATCH: usize = 256;

/// Failures that an answer lists.
const FAILURES_MAX: usize = 1000;

/// What a listing is to answer.
struct Listing<'a> {
    mounts: &'a Mounts,
    reply: &'a mut dyn Reply,
    kinds: KindSet,
    depth: Depth,
    selection: PropertySelection,
    batch: Vec<Row>,
    failures: Vec<(String, ControlError)>,
    sent: u64,
    /// Names sent, where several roots might lead to one dataset.
    seen: Option<HashSet<String>>,
}

pub(crate) fn dataset_list(
    context: &Context,
    mounts: &Mounts,
    roots: &[String],
    depth: Depth,
    kinds: KindSet,
    selection: PropertySelection,
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    let mut listing = Listing {
        mounts,
        reply,
        kinds,
        depth,
        selection,
        batch: Vec::new(),
        failures: Vec::new(),
        sent: 0,
        seen: (roots.len() > 1).then(HashSet::new),
    };
    if roots.is_empty() {
        for imported in context.registry.all() {
            let root = imported.dsl().pool_name().clone();
            listing.list_root(&imported, &root)?;
        }
    }
    for root in roots {
        let found = parse_listed(root).and_then(|name| {
            let imported = context.registry.pool_of(&name)?;
            Ok((name, imported))
        });
        match found {
            Ok((name, imported)) => listing.list_root(&imported, &name)?,
            Err(error) => listing.fail(root, error),
        }
    }
    listing.flush()?;
    Ok(Response::Failures {
        failures: listing.failures,
        done: listing.sent,
    })
}

/// A name that a listing is given. It may be of the hidden child that holds a partial receive.
fn parse_listed(text: &str) -> Result<DatasetName, ControlError> {
    let above = text.strip_suffix(RECEIVE_CHILD);
    let above = above.and_then(|above| above.strip_suffix('/'));
    let above = above.map(parse_name).transpose()?;
    let child = above.filter(|above| above.kind() == NameKind::Head);
    match child.and_then(|above| above.child(RECEIVE_CHILD.as_bytes()).ok()) {
        Some(child) => Ok(child),
        None => parse_name(text),
    }
}

impl Listing<'_> {
    fn fail(&mut self, name: &str, error: ControlError) {
        if self.failures.len() < FAILURES_MAX {
            self.failures.push((name.to_owned(), error));
        }
    }

    fn flush(&mut self) -> Result<(), ControlError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.sent += self.batch.len() as u64;
        self.reply
            .part(Part::Datasets(std::mem::take(&mut self.batch)))
    }

    /// Puts a row into the answer unless its name is there already.
    fn push(&mut self, row: Row) -> Result<(), ControlError> {
        if let Some(seen) = &mut self.seen
            && !seen.insert(row.name.clone())
        {
            return Ok(());
        }
        self.batch.push(row);
        if self.batch.len() < BATCH {
            return Ok(());
        }
        if self.reply.cancelled() {
            return Err(ControlError::Interrupted);
        }
        self.flush()
    }

    fn list_root(
        &mut self,
        imported: &Arc<Imported>,
        name: &DatasetName,
    ) -> Result<(), ControlError> {
        let result: Result<(), ControlError> = match name.kind() {
            NameKind::Head => match imported.dsl().directory(name) {
                Ok(Some(directory)) => return self.walk(imported, directory),
                Ok(None) => Err(ControlError::NoSuchDataset {
                    dataset: name.as_str().to_owned(),
                }),
                Err(error) => Err(of_dsl(error)),
            },
            NameKind::Snapshot => match imported.dsl().dataset(name) {
                Ok(snapshot) => return self.row(imported, &snapshot),
                Err(error) => Err(of_dsl(error)),
            },
            NameKind::Bookmark => match imported.dsl().bookmark(name) {
                Ok(bookmark) => return self.bookmark_row(imported, &bookmark),
                Err(error) => Err(of_dsl(error)),
            },
        };
        if let Err(error) = result {
            self.fail(name.as_str(), error);
        }
        Ok(())
    }

    /// Lists a directory and what is below, parents first.
    fn walk(&mut self, imported: &Arc<Imported>, root: Arc<Directory>) -> Result<(), ControlError> {
        let mut stack = vec![(root, 0)];
        while let Some((directory, level)) = stack.pop() {
            if self.reply.cancelled() {
                return Err(ControlError::Interrupted);
            }
            match directory.head_now() {
                Ok(Some(head)) => {
                    self.row(imported, &head)?;
                    if self.depth.reaches(level + 1) {
                        self.list_past(imported, &head)?;
                    }
                }
                Ok(None) if level == 0 => {
                    let dataset = directory.name().as_str().to_owned();
                    self.fail(
                        directory.name().as_str(),
                        ControlError::NoSuchDataset { dataset },
                    );
                }
                Ok(None) => {}
                Err(error) => self.fail(directory.name().as_str(), of_dsl(error)),
            }
            if !self.depth.reaches(level + 1) {
                continue;
            }
            let children = match directory.children_listed_now() {
                Ok(children) => children.unwrap_or_default(),
                Err(error) => {
                    self.fail(directory.name().as_str(), of_dsl(error));
                    continue;
                }
            };
            for child in children.iter().rev() {
                match directory.child_now(child) {
                    Ok(child) => stack.extend(child.map(|child| (child, level + 1))),
                    Err(error) => self.fail(directory.name().as_str(), of_dsl(error)),
                }
            }
        }
        Ok(())
    }

    /// Lists the snapshots and bookmarks of a head.
    fn list_past(&mut self, imported: &Arc<Imported>, head: &Dataset) -> Result<(), ControlError> {
        if self.kinds.has(DatasetKind::Snapshot) {
            match head.snapshots_listed_now() {
                Ok(snapshots) => {
                    for entry in snapshots.unwrap_or_default() {
                        match head.snapshot_now(&entry) {
                            Ok(Some(snapshot)) => self.row(imported, &snapshot)?,
                            Ok(None) => {}
                            Err(error) => self.fail(head.name().as_str(), of_dsl(error)),
                        }
                    }
                }
                Err(error) => self.fail(head.name().as_str(), of_dsl(error)),
            }
        }
        if self.kinds.has(DatasetKind::Bookmark) {
            let by_name = || imported.dsl().dataset(head.name())?.bookmarks();
            let by_handle = || head.bookmarks().map_err(of_dsl);
            let found = read_or_gone(imported.dsl(), by_handle, || by_name().map_err(of_dsl));
            match found {
                Ok(bookmarks) => {
                    for bookmark in &bookmarks.unwrap_or_default() {
                        self.bookmark_row(imported, bookmark)?;
                    }
                }
                Err(error) => self.fail(head.name().as_str(), error),
            }
        }
        Ok(())
    }

    fn row(&mut self, imported: &Arc<Imported>, dataset: &Dataset) -> Result<(), ControlError> {
        let name = dataset.name();
        let by_name = || {
            let again = imported.dsl().dataset(name).map_err(of_dsl)?;
            self.made(imported, &again)
        };
        let made = read_or_gone(imported.dsl(), || self.made(imported, dataset), by_name);
        match made.map(Option::flatten) {
            Ok(Some(row)) => self.push(row),
            Ok(None) => Ok(()),
            Err(error) => {
                self.fail(name.as_str(), error);
                Ok(())
            }
        }
    }

    /// The row of a dataset, if its kind is requested.
    fn made(
        &self,
        imported: &Arc<Imported>,
        dataset: &Dataset,
    ) -> Result<Option<Row>, ControlError> {
        let kind = kind_of(dataset)?;
        if !self.kinds.has(kind) {
            return Ok(None);
        }
        let properties = dataset_properties(self.mounts, imported, dataset, &self.selection)?;
        let create_txg = dataset.phys().creation_txg.0;
        let name = dataset.name().as_str();
        Ok(Some(make_row(name, kind, create_txg, properties)))
    }

    fn bookmark_row(
        &mut self,
        imported: &Arc<Imported>,
        bookmark: &Bookmark,
    ) -> Result<(), ControlError> {
        let kind = DatasetKind::Bookmark;
        if !self.kinds.has(kind) {
            return Ok(());
        }
        let name = bookmark.name.as_str();
        match bookmark_properties(imported, bookmark, &self.selection) {
            Ok(properties) => {
                let create_txg = bookmark.phys.creation_txg.0;
                self.push(make_row(name, kind, create_txg, properties))
            }
            Err(error) => {
                self.fail(name, error);
                Ok(())
            }
        }
    }
}

fn make_row(name: &str, kind: DatasetKind, create_txg: u64, properties: Vec<Property>) -> Row {
    Row {
        name: name.to_owned(),
        kind,
        create_txg,
        properties,
    }
}

/// What a dataset is.
pub(crate) fn kind_of(dataset: &Dataset) -> Result<DatasetKind, ControlError> {
    if dataset.is_snapshot() {
        return Ok(DatasetKind::Snapshot);
    }
    Ok(match dataset.dataset_type().map_err(of_dsl)? {
        DatasetType::Filesystem => DatasetKind::Filesystem,
        DatasetType::Volume => DatasetKind::Volume,
    })
}
