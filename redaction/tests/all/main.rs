//! Redaction lists of snapshots that OpenZFS made, compared with all blocks of all snapshots.

use cenote_base::{ObjectId, RealEnv, Txg};
use cenote_device::SystemOpener;
use cenote_dmu::traverse::{Event, Ordered, Part, Root, Since, Walk};
use cenote_dsl::{Dataset, DatasetName};
use cenote_ondisk::BlockPointer;
use cenote_pool::{ImportOptions, Pool, assemble, import};
use cenote_redaction::{Place, Redaction, RedactionError, Span};
use cenote_tests::golden::Golden;
use cenote_tests::referee::judge_golden;
use cenote_vdev::scan;
use std::collections::BTreeMap;
use std::sync::Arc;

const POOL: &str = "gold_snapshotsclones";

/// What is redacted, and by what.
const CASES: [(&str, &[&str]); 5] = [
    ("kept@0", &["kept@1"]),
    ("kept@0", &["kept@4"]),
    ("kept@0", &["kept@1", "kept@3", "kept@4"]),
    ("kept@1", &["kept@4", "kept@3", "kept@4"]),
    ("promoted@s1", &["promoted@s2"]),
];

fn parsed(name: &str) -> DatasetName {
    DatasetName::parse(&format!("{POOL}/{name}")).expect("a name")
}

fn dataset(pool: &Pool, name: &str) -> Dataset {
    pool.dsl().dataset(&parsed(name)).expect("there")
}

/// The blocks with contents of files, by their places.
fn blocks(snapshot: &Dataset) -> BTreeMap<Place, BlockPointer> {
    let set = snapshot.object_set().expect("readable");
    let root = Root::of_set(&set, Since::logical(Txg(0)));
    let mut blocks = BTreeMap::new();
    for event in Ordered::new(Arc::clone(set.cache()), root, Walk::default()) {
        match event {
            Event::Damage(damage) => panic!("{damage:?}"),
            Event::Block(visit) if visit.part == Part::Tree && visit.is_file_data() => {
                let object = visit.bookmark.object;
                let is_file = set.dnode(object).expect("readable").is_some_and(|dnode| {
                    dnode.object_type == cenote_ondisk::ObjectType::PLAIN_FILE
                });
                if is_file {
                    let block = visit.bookmark.block.0;
                    blocks.insert(Place { object, block }, visit.pointer);
                }
            }
            _ => {}
        }
    }
    blocks
}

/// Makes a list in pieces of so many runs. After each the command begins again.
fn redacted(pool: &Pool, name: &str, (snapshot, by): (&str, &[&str]), pieces: usize) -> Vec<Span> {
    let snapshot = dataset(pool, snapshot);
    let by: Vec<Dataset> = by.iter().map(|one| dataset(pool, one)).collect();
    let bookmark = snapshot
        .name()
        .dataset()
        .bookmark(name.as_bytes())
        .expect("a name");
    for step in 0.. {
        let redaction = Redaction::of(&snapshot, bookmark.clone(), &by);
        let redaction = match redaction {
            Err(RedactionError::Exists { .. }) if step > 0 => break,
            redaction => redaction.expect("possible").in_pieces_of(pieces),
        };
        assert_eq!(redaction.begin().is_some(), step == 0);
        if let Some(begin) = redaction.begin() {
            pool.run_task(begin).expect("made");
        }
        let list = redaction.list();
        assert!(matches!(list, Err(RedactionError::Incomplete)), "{list:?}");
        let others = Redaction::of(&snapshot, bookmark.clone(), &by[..1]);
        if by.len() > 1 {
            assert!(
                matches!(others, Err(RedactionError::Mismatch)),
                "{others:?}"
            );
        }
        let piece = redaction.next(&|| false).expect("readable");
        pool.run_task(piece.expect("incomplete")).expect("stored");
    }
    let found = pool.dsl().bookmark(&bookmark).expect("there");
    let list = cenote_redaction::List::of(pool.dsl(), &found).expect("complete");
    let mut cursor = list.runs_from(Place::default());
    let mut runs = Vec::new();
    let end = Place::of_object(ObjectId(u64::MAX));
    while let Some(run) = cursor.take_before(end).expect("readable") {
        runs.push(run);
    }
    runs
}

/// A block is listed if no redaction snapshot has it at its place; nothing else is.
fn is_right(pool: &Pool, (snapshot, by): (&str, &[&str]), runs: &[Span]) -> usize {
    let own = blocks(&dataset(pool, snapshot));
    let others: Vec<_> = by.iter().map(|one| blocks(&dataset(pool, one))).collect();
    let mut count = 0;
    for (place, pointer) in own {
        let is_kept = others
            .iter()
            .any(|other| other.get(&place) == Some(&pointer));
        let is_listed = runs
            .iter()
            .any(|run| run.start() <= place && place <= run.end());
        assert_eq!(is_listed, !is_kept, "{snapshot} {by:?}: {place:?}");
        count += usize::from(is_listed);
    }
    count
}

/// An interrupted list must be the same as another, and may not be used before it is complete.
#[test]
fn lists_are_right_and_resumed() {
    let Some(golden) = Golden::find("snapshots-clones").expect("readable") else {
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    golden.copy_to(dir.path()).expect("room");
    let candidates = assemble(scan(&[dir.path().to_owned()], &SystemOpener::default()));
    let options = ImportOptions {
        read_only: false,
        hostid: 0x1234,
        force: true,
        ..ImportOptions::default()
    };
    let pool = import(&candidates[0], &options, Arc::new(RealEnv::new())).expect("imported");
    let mut listed = 0;
    for (index, case) in CASES.into_iter().enumerate() {
        let whole = redacted(&pool, &format!("whole{index}"), case, 1 << 10);
        for pieces in [1, 3] {
            let name = format!("pieces{index}of{pieces}");
            assert_eq!(redacted(&pool, &name, case, pieces), whole, "{case:?}");
        }
        listed += is_right(&pool, case, &whole);
    }
    assert!(listed > 0, "the snapshots differ");
    pool.export().expect("written");
    drop(pool);
    judge_golden(dir.path(), &golden);
}
