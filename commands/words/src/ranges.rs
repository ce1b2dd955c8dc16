//! Lists of snapshots on command lines (`FS@a,b`, `FS@a%c`), and related requests.
//!
//! Ranges are resolved here, in the order in which the snapshots were created.

use crate::context::{Context, Stop, failed};
use crate::texts::cannot_open;
use cenote_control::model::{
    ControlError, Dataset, DatasetKind, Depth, KindSet, Part, PropertySelection, Request,
    SnapshotSpace,
};

/// The snapshots that a list of names and ranges selects, of a dataset or also of its descendants.
pub fn named_snapshots(
    dataset: &str,
    list: &str,
    recursive: bool,
    context: &mut Context,
) -> Result<Vec<Dataset>, Stop> {
    let request = Request::DatasetList {
        roots: vec![dataset.to_owned()],
        depth: match recursive {
            true => Depth::All,
            false => Depth::Levels(1),
        },
        kinds: KindSet::of(DatasetKind::Snapshot),
        properties: PropertySelection::Named(vec!["clones".to_owned()]),
    };
    let mut rows = match context.ask_datasets(request) {
        Ok(listing) => match listing.failures.first() {
            Some((name, error)) => return failed(cannot_open(name, error)),
            None => listing.rows,
        },
        Err(error) => return failed(cannot_open(dataset, &error)),
    };
    let head = |row: &Dataset| row.name.split('@').next().unwrap_or_default().to_owned();
    rows.retain(|row| recursive || head(row) == dataset);
    rows.sort_by_cached_key(|row| (head(row), row.create_txg));
    let mut named = Vec::new();
    for of_one in rows.chunk_by(|a, b| head(a) == head(b)) {
        let wanted = chosen(of_one, list)?;
        let rows = of_one.iter().zip(wanted);
        named.extend(
            rows.filter(|(_, wanted)| *wanted)
                .map(|(row, _)| row.clone()),
        );
    }
    Ok(named)
}

/// How much space destroying snapshots would free.
pub fn reclaimed_by(
    names: &[String],
    context: &mut Context,
) -> Result<Vec<SnapshotSpace>, ControlError> {
    let snapshots = names.to_vec();
    snapshot_rows(Request::ReclaimedBy { snapshots }, context)
}

/// Lists snapshots and the space they use.
pub fn snapshot_rows(
    request: Request,
    context: &mut Context,
) -> Result<Vec<SnapshotSpace>, ControlError> {
    let mut rows = Vec::new();
    context.ask_in_parts(request, &mut |part| {
        if let Part::SnapshotSpace(more) = part {
            rows.extend(more);
        }
    })?;
    Ok(rows)
}

/// Which of a dataset's snapshots, in order of creation, a list selects.
fn chosen(snapshots: &[Dataset], list: &str) -> Result<Vec<bool>, Stop> {
    let mut wanted = vec![false; snapshots.len()];
    let position = |name: &str| {
        let named = |row: &Dataset| row.name.split_once('@').is_some_and(|(_, own)| own == name);
        snapshots.iter().position(named)
    };
    for word in list.split(',') {
        let Some((first, last)) = word.split_once('%') else {
            if let Some(at) = position(word) {
                wanted[at] = true;
            }
            continue;
        };
        if last.contains('%') {
            return failed(format!("cannot destroy snapshots: invalid range '{word}'"));
        }
        let from = match first.is_empty() {
            true => Some(0),
            false => position(first),
        };
        let to = match last.is_empty() {
            true => snapshots.len().checked_sub(1),
            false => position(last),
        };
        if let (Some(from), Some(to)) = (from, to) {
            wanted
                .iter_mut()
                .take(to + 1)
                .skip(from)
                .for_each(|one| *one = true);
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Vec<Dataset> {
        let row = |(txg, name): (usize, &&str)| Dataset {
            name: format!("tank/a@{name}"),
            kind: DatasetKind::Snapshot,
            create_txg: txg as u64,
            properties: Vec::new(),
        };
        names.iter().enumerate().map(row).collect()
    }

    #[test]
    fn ranges_are_in_the_order_of_their_making() {
        let rows = of(&["z", "m", "a", "k"]);
        let which = |list: &str| {
            let chosen = chosen(&rows, list).map_err(|_| "refused").expect("a list");
            let names = rows.iter().zip(chosen).filter(|(_, wanted)| *wanted);
            names
                .map(|(row, _)| row.name[7..].to_owned())
                .collect::<String>()
        };
        assert_eq!(which("m%k"), "mak");
        assert_eq!(which("%m"), "zm");
        assert_eq!(which("a%"), "ak");
        assert_eq!(which("%"), "zmak");
        assert_eq!(which("k,z"), "zk");
        assert_eq!(which("k%m"), "");
        assert_eq!(which("none,a"), "a");
        assert_eq!(which("none%a"), "");
    }
}
