//! Dependents of what is to be destroyed: descendants of a dataset, and clones of snapshots.

use cenote_control::model::{
    ControlError, Dataset, DatasetKind, Depth, KindSet, PropertySelection, Request,
};
use cenote_words::context::{Context, Stop, failed};
use cenote_words::texts::cannot_open;
use std::cmp::Reverse;

/// A dataset and all its descendants, in the order of destruction. The dataset is last, and each
/// dataset is preceded by its snapshots, the oldest first.
pub fn doomed(name: &str, context: &mut Context) -> Result<Vec<Dataset>, Stop> {
    let request = Request::DatasetList {
        roots: vec![name.to_owned()],
        depth: Depth::All,
        kinds: KindSet::HEADS.union(KindSet::of(DatasetKind::Snapshot)),
        properties: PropertySelection::Named(vec!["clones".to_owned()]),
    };
    let listing = match context.ask_datasets(request) {
        Ok(listing) => listing,
        Err(error) => return failed(cannot_open(name, &error)),
    };
    let mut rows = listing.rows;
    for (name, error) in &listing.failures {
        match unreadable_head(name, error) {
            Some(row) => rows.push(row),
            None => return failed(cannot_open(name, error)),
        }
    }
    let dataset = |row: &Dataset| row.name.split('@').next().map(str::to_owned);
    let is_head = |row: &Dataset| row.kind != DatasetKind::Snapshot;
    rows.sort_by_cached_key(|row| (Reverse(dataset(row)), is_head(row), row.create_txg));
    Ok(rows)
}

/// A row for a dataset so damaged that even its kind is unreadable. It can only be destroyed, and
/// its snapshots are listed separately.
fn unreadable_head(name: &str, error: &ControlError) -> Option<Dataset> {
    let is_head = !name.contains(['@', '#']);
    (is_head && matches!(error, ControlError::Io { .. })).then(|| Dataset {
        name: name.to_owned(),
        kind: DatasetKind::Filesystem,
        create_txg: 0,
        properties: Vec::new(),
    })
}

/// The clones of snapshots in `doomed` that are not in it themselves.
pub fn clones_of(doomed: &[Dataset]) -> Vec<String> {
    let lists = doomed.iter().filter_map(|row| row.property("clones"));
    let clones = lists.filter_map(|clones| clones.value.text());
    let clones = clones.flat_map(|list| list.split(','));
    let is_doomed = |name: &&str| doomed.iter().any(|row| row.name == *name);
    let left = clones.filter(|name| !name.is_empty() && *name != "-" && !is_doomed(name));
    left.map(str::to_owned).collect()
}

/// What must be destroyed before the rows, because it is a clone of one of them: clones with their
/// snapshots and descendants, and their clones in turn, in the order of destruction.
pub fn dependents(rows: &[Dataset], context: &mut Context) -> Result<Vec<String>, Stop> {
    let mut roots = clones_of(rows);
    let mut groups: Vec<Vec<String>> = Vec::new();
    let mut next = 0;
    while let Some(root) = roots.get(next).cloned() {
        next += 1;
        let below = doomed(&root, context)?;
        let is_new = |clone: &String| !roots.contains(clone);
        let more: Vec<String> = clones_of(&below).into_iter().filter(is_new).collect();
        roots.extend(more);
        groups.push(below.into_iter().map(|row| row.name).collect());
    }
    // A clone of a clone is destroyed first.
    Ok(groups.into_iter().rev().flatten().collect())
}
