//! The order of datasets in listings.
//!
//! By default a dataset precedes its snapshots, which are in order of creation. Datasets are in
//! plain byte order of their names (`a`, `a-b`, `a/b`). With keys, rows without the property come
//! last in both directions, and ties use the default order.

use std::cmp::Ordering;

use cenote_control::model::{Dataset, DatasetKind, Value};

use super::properties::value_of;
use cenote_words::format::property::Wanted;

/// One `-s` or `-S`.
#[derive(Clone, Debug)]
pub struct SortKey {
    /// The property.
    pub wanted: Wanted,
    /// Largest first.
    pub descending: bool,
}

/// Sorts `rows`.
pub fn sort(rows: &mut [Dataset], keys: &[SortKey]) {
    rows.sort_by(|a, b| {
        let by_key = |key: &SortKey| compare_key(a, b, key);
        let decided = keys.iter().map(by_key).find(|order| order.is_ne());
        decided.unwrap_or_else(|| compare_default(a, b))
    });
}

fn compare_default(a: &Dataset, b: &Dataset) -> Ordering {
    // The part before `@`, and whether there is an `@`: a dataset precedes its snapshots.
    let head = |row: &'_ Dataset| row.name.find('@').unwrap_or(row.name.len());
    let (end_a, end_b) = (head(a), head(b));
    let heads = a.name.as_bytes()[..end_a].cmp(&b.name.as_bytes()[..end_b]);
    let (snapshot_a, snapshot_b) = (end_a < a.name.len(), end_b < b.name.len());
    let heads = heads.then(snapshot_a.cmp(&snapshot_b));
    if heads.is_ne() || !snapshot_a {
        return heads;
    }
    let by_txg = a.create_txg.cmp(&b.create_txg);
    by_txg.then_with(|| a.name.cmp(&b.name))
}

fn compare_key(a: &Dataset, b: &Dataset, key: &SortKey) -> Ordering {
    if key.wanted.name == "name" {
        return directed(a.name.as_bytes().cmp(b.name.as_bytes()), key);
    }
    if key.wanted.name == "type" {
        return directed(kind_number(a.kind).cmp(&kind_number(b.kind)), key);
    }
    let value = |row| value_of(row, &key.wanted).map_or(Value::None, |property| property.value);
    match (value(a), value(b)) {
        (Value::None, Value::None) => Ordering::Equal,
        (Value::None, _) => Ordering::Greater,
        (_, Value::None) => Ordering::Less,
        (Value::Number(a), Value::Number(b)) => directed(a.cmp(&b), key),
        (Value::Text(a), Value::Text(b)) => directed(a.as_bytes().cmp(b.as_bytes()), key),
        (Value::Number(_), Value::Text(_)) => directed(Ordering::Less, key),
        (Value::Text(_), Value::Number(_)) => directed(Ordering::Greater, key),
    }
}

fn directed(order: Ordering, key: &SortKey) -> Ordering {
    if key.descending {
        order.reverse()
    } else {
        order
    }
}

/// The reference sorts kinds by their numbers: file systems, snapshots, volumes, bookmarks.
fn kind_number(kind: DatasetKind) -> u8 {
    match kind {
        DatasetKind::Filesystem => 1,
        DatasetKind::Snapshot => 2,
        DatasetKind::Volume => 4,
        DatasetKind::Bookmark => 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zfs::properties::property;
    use cenote_control::model::Property;

    fn row(name: &str, create_txg: u64, used: Option<u64>) -> Dataset {
        let kind = match name {
            name if name.contains('@') => DatasetKind::Snapshot,
            name if name.contains('#') => DatasetKind::Bookmark,
            _ => DatasetKind::Filesystem,
        };
        let used = used.map(|used| Property::read_only("used", used));
        Dataset {
            name: name.to_owned(),
            kind,
            create_txg,
            properties: used.into_iter().collect(),
        }
    }

    fn names(mut rows: Vec<Dataset>, keys: &[SortKey]) -> Vec<String> {
        sort(&mut rows, keys);
        rows.into_iter().map(|row| row.name).collect()
    }

    #[test]
    fn datasets_by_bytes_and_snapshots_by_age() {
        let rows = ["t/a/b", "t/a-b", "t/a@z", "t/a", "t/a#m", "t/a@b", "t"];
        let txgs = [1, 1, 5, 1, 1, 9, 1];
        let rows = rows
            .iter()
            .zip(txgs)
            .map(|(name, txg)| row(name, txg, None));
        let expected = ["t", "t/a", "t/a@z", "t/a@b", "t/a#m", "t/a-b", "t/a/b"];
        assert_eq!(names(rows.collect(), &[]), expected);
    }

    #[test]
    fn rows_without_the_property_go_last_both_ways() {
        for (descending, expected) in [(false, ["b", "c", "a"]), (true, ["c", "b", "a"])] {
            let rows = vec![
                row("a", 1, None),
                row("b", 1, Some(1)),
                row("c", 1, Some(2)),
            ];
            let key = SortKey {
                wanted: property("used").expect("in the table"),
                descending,
            };
            assert_eq!(names(rows, &[key]), expected);
        }
    }
}
