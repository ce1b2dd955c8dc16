//! `zfs rollback`.
//!
//! With `-r` newer snapshots and bookmarks are destroyed first, with `-R` also their clones.

use super::change::ask;
use cenote_control::model::{
    Change, Dataset, DatasetKind, Depth, KindSet, PropertySelection, Request, RollBack,
};
use cenote_words::context::{Context, Outcome, Stop, failed, usage};
use cenote_words::getopt::Parsed;
use cenote_words::texts::{cannot_open, with_context};

/// Maximum number of names that an error lists.
const NAMES_MAX: usize = 32;

/// `zfs rollback [-rRf] SNAPSHOT`
pub fn run(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let [snapshot] = parsed.operands.as_slice() else {
        return usage("too many arguments");
    };
    super::select::require(std::slice::from_ref(snapshot), context)?;
    let Some((dataset, _)) = snapshot.split_once('@') else {
        return failed(format!(
            "cannot open '{snapshot}': operation not applicable to datasets of this type"
        ));
    };
    let what = format!("cannot rollback to '{snapshot}'");
    let newer = newer_than(dataset, snapshot, context)?;
    let (with_snapshots, with_clones) = (parsed.has("r") || parsed.has("R"), parsed.has("R"));
    if !newer.is_empty() && !with_snapshots {
        return failed(format!(
            "{what}: more recent snapshots or bookmarks exist\n\
             use '-r' to force deletion of the following snapshots and bookmarks:\n{}",
            listed(newer.iter().map(|row| row.name.as_str()))
        ));
    }
    let clones = clones_of(&newer);
    if !clones.is_empty() && !with_clones {
        return failed(format!(
            "{what}: clones of previous snapshots exist\n\
             use '-R' to force deletion of the following clones and dependents:\n{}",
            listed(clones.iter().map(String::as_str))
        ));
    }
    let change = Change::RollBack(RollBack {
        snapshot: snapshot.clone(),
        newer: newer.into_iter().map(|row| row.name).collect(),
        clones,
        force: parsed.has("f"),
    });
    match ask(change, command, context) {
        Ok(_) => Ok(0),
        Err(error) => failed(with_context(&what, &error)),
    }
}

/// The snapshots and bookmarks of a dataset that are newer than one of its snapshots, with their
/// clones.
fn newer_than(dataset: &str, snapshot: &str, context: &mut Context) -> Result<Vec<Dataset>, Stop> {
    let request = Request::DatasetList {
        roots: vec![dataset.to_owned()],
        depth: Depth::Levels(1),
        kinds: KindSet::of(DatasetKind::Snapshot).union(KindSet::of(DatasetKind::Bookmark)),
        properties: PropertySelection::Named(vec!["clones".to_owned()]),
    };
    let mut rows = match context.ask_datasets(request) {
        Ok(listing) => listing.rows,
        Err(error) => return failed(cannot_open(dataset, &error)),
    };
    let own = |row: &Dataset| row.name.split(['@', '#']).next() == Some(dataset);
    rows.retain(own);
    let Some(txg) = rows
        .iter()
        .find(|row| row.name == snapshot)
        .map(|row| row.create_txg)
    else {
        return Ok(Vec::new());
    };
    rows.retain(|row| row.create_txg > txg);
    rows.sort_by_key(|row| (row.create_txg, row.name.clone()));
    Ok(rows)
}

/// The clones of the rows.
fn clones_of(rows: &[Dataset]) -> Vec<String> {
    let lists = rows.iter().filter_map(|row| row.property("clones"));
    let clones = lists.filter_map(|clones| clones.value.text());
    let names = clones.flat_map(|list| list.split(','));
    let names = names.filter(|name| !name.is_empty() && *name != "-");
    names.map(str::to_owned).collect()
}

fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    let mut lines: Vec<&str> = names.take(NAMES_MAX).collect();
    if count > NAMES_MAX {
        lines.push("Output limited to 32 snapshots/bookmarks");
    }
    lines.join("\n")
}
