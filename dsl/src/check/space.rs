//! Space: what a directory's figures must be by those of its datasets and children.

use super::checker::Checker;
use crate::dataset::Dataset;
use crate::deadlist::{Deadlist, SpaceTriple};
use crate::directory::Directory;
use crate::error::DslError;
use crate::property::Property;
use cenote_base::{ObjectId, Txg};
use std::sync::Arc;

/// Used, compressed and uncompressed bytes with room for sums and differences.
#[derive(Clone, Copy, Default)]
struct Sum {
    used: i128,
    compressed: i128,
    uncompressed: i128,
}

impl Sum {
    fn add(&mut self, used: u64, compressed: u64, uncompressed: u64) {
        self.used += i128::from(used);
        self.compressed += i128::from(compressed);
        self.uncompressed += i128::from(uncompressed);
    }

    fn add_triple(&mut self, triple: SpaceTriple) {
        self.add(triple.used, triple.compressed, triple.uncompressed);
    }
}

/// Checks a directory by its children and datasets (the head first, then from new to old).
pub(super) fn check_directory(
    checker: &mut Checker<'_>,
    directory: &Arc<Directory>,
    children: &[Arc<Directory>],
    datasets: &[Dataset],
) -> Result<(), DslError> {
    check_breakdown(checker, directory, children);
    let Some(head) = datasets.first() else {
        return Ok(());
    };
    let dsl = directory.dsl();
    let deadlists = datasets
        .iter()
        .map(|dataset| Deadlist::open(dsl, dataset.phys().deadlist))
        .collect::<Result<Vec<_>, _>>()?;
    let origin = match directory.phys().origin {
        Some(origin) => Some(dsl.read_dataset(origin)?.1),
        None => None,
    };
    let mut own = Sum::default();
    let phys = head.phys();
    own.add(
        phys.referenced_bytes,
        phys.compressed_bytes,
        phys.uncompressed_bytes,
    );
    for deadlist in &deadlists {
        own.add_triple(deadlist.totals());
    }
    if let Some(origin) = &origin {
        own.used -= i128::from(origin.referenced_bytes);
        own.compressed -= i128::from(origin.compressed_bytes);
        own.uncompressed -= i128::from(origin.uncompressed_bytes);
    }
    check_totals(checker, directory, children, own);
    check_snapshot_share(
        checker,
        directory,
        &deadlists,
        origin.map(|set| set.creation_txg),
    );
    check_reserve(checker, directory, head)?;
    check_uniques(checker, datasets, &deadlists)?;
    check_chain(checker, datasets)
}

fn check_breakdown(checker: &mut Checker<'_>, directory: &Directory, children: &[Arc<Directory>]) {
    let name = directory.name();
    let phys = directory.phys();
    let Some(part) = directory.breakdown() else {
        return;
    };
    let parts = [
        part.head,
        part.snapshots,
        part.children,
        part.child_reservations,
        part.refreservation,
    ];
    let sum: i128 = parts.into_iter().map(i128::from).sum();
    checker.expect(
        name,
        "the sum of its parts of used space",
        phys.used_bytes,
        sum,
    );
    let used: i128 = children
        .iter()
        .map(|child| i128::from(child.phys().used_bytes))
        .sum();
    checker.expect(name, "the space used by children", used, part.children);
    let reserved = |child: &Arc<Directory>| {
        let phys = child.phys();
        i128::from(phys.reservation.saturating_sub(phys.used_bytes))
    };
    let reserved: i128 = children.iter().map(reserved).sum();
    checker.expect(
        name,
        "the space reserved by children",
        reserved,
        part.child_reservations,
    );
}

/// Head and snapshots together, and the directory's compressed and uncompressed bytes.
fn check_totals(
    checker: &mut Checker<'_>,
    directory: &Directory,
    children: &[Arc<Directory>],
    own: Sum,
) {
    let name = directory.name();
    if let Some(part) = directory.breakdown() {
        let found = i128::from(part.head) + i128::from(part.snapshots);
        checker.expect(
            name,
            "the space used by the dataset and its snapshots",
            own.used,
            found,
        );
    }
    let mut total = own;
    for child in children {
        let phys = child.phys();
        total.add(0, phys.compressed_bytes, phys.uncompressed_bytes);
    }
    let phys = directory.phys();
    checker.expect(
        name,
        "the compressed size",
        total.compressed,
        phys.compressed_bytes,
    );
    checker.expect(
        name,
        "the uncompressed size",
        total.uncompressed,
        phys.uncompressed_bytes,
    );
}

/// What only snapshots hold: what was freed since and was not the origin's.
fn check_snapshot_share(
    checker: &mut Checker<'_>,
    directory: &Directory,
    deadlists: &[Deadlist],
    origin_txg: Option<Txg>,
) {
    let Some(part) = directory.breakdown() else {
        return;
    };
    let is_clone = directory.origin().is_some();
    let after = origin_txg.filter(|_| is_clone).unwrap_or(Txg(0));
    let mut expected = 0i128;
    for deadlist in deadlists {
        let Some(space) = deadlist.space_after(after) else {
            return;
        };
        expected += i128::from(space.used);
    }
    checker.expect(
        directory.name(),
        "the space used by snapshots",
        expected,
        part.snapshots,
    );
}

fn check_reserve(
    checker: &mut Checker<'_>,
    directory: &Directory,
    head: &Dataset,
) -> Result<(), DslError> {
    let Some(part) = directory.breakdown() else {
        return Ok(());
    };
    let reserved = head.stored_number(Property::RefReservation)?;
    let expected = reserved.saturating_sub(head.phys().unique_bytes);
    let what = "the space held by the refreservation";
    checker.expect(directory.name(), what, expected, part.refreservation);
    Ok(())
}

fn check_uniques(
    checker: &mut Checker<'_>,
    datasets: &[Dataset],
    deadlists: &[Deadlist],
) -> Result<(), DslError> {
    let dsl = Arc::clone(checker.dsl);
    for (index, dataset) in datasets.iter().enumerate() {
        let phys = dataset.phys();
        let expected = if index == 0 {
            let before = match phys.previous_snapshot {
                Some(previous) => dsl.read_dataset(previous)?.1.referenced_bytes,
                None => 0,
            };
            let kept = i128::from(before) - i128::from(deadlists[0].totals().used);
            i128::from(phys.referenced_bytes) - kept
        } else {
            let next = &deadlists[index - 1];
            match next.space_after(phys.previous_snapshot_txg) {
                Some(space) => i128::from(space.used),
                None => continue,
            }
        };
        checker.expect(
            dataset.name(),
            "the unique space",
            expected,
            phys.unique_bytes,
        );
    }
    Ok(())
}

/// Snapshots point to one another in the order in which they were made.
fn check_chain(checker: &mut Checker<'_>, datasets: &[Dataset]) -> Result<(), DslError> {
    let number = |id: Option<ObjectId>| id.map_or(0, ObjectId::get);
    for pair in datasets.windows(2) {
        let (newer, older) = (&pair[0], &pair[1]);
        let previous = number(newer.phys().previous_snapshot);
        checker.expect(
            newer.name(),
            "the previous snapshot's number",
            older.id().0,
            previous,
        );
        let txg = newer.phys().previous_snapshot_txg.0;
        let expected = older.phys().creation_txg.0;
        checker.expect(newer.name(), "the previous snapshot's txg", expected, txg);
        let next = number(older.phys().next_snapshot);
        checker.expect(
            older.name(),
            "the next snapshot's number",
            newer.id().0,
            next,
        );
    }
    for snapshot in datasets.iter().skip(1) {
        let clones = snapshot.next_clones()?;
        for clone in &clones {
            let (_, oldest) = checker.dsl.read_dataset(*clone)?;
            let previous = number(oldest.previous_snapshot);
            let what = "the number of the snapshot that a clone begins with";
            checker.expect(snapshot.name(), what, snapshot.id().0, previous);
        }
        let expected = clones.len() as u64 + 1;
        checker.expect(
            snapshot.name(),
            "the number of children",
            expected,
            snapshot.phys().children,
        );
    }
    Ok(())
}
