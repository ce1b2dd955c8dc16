//! Pools of which tables are damaged that only writing needs.
//!
//! An import that only reads, and with it `cenote ls` and `cp`, failed when a table was damaged
//! that no file depends on. Here each object of the pool's metadata that an import reads is
//! damaged with all its copies: what is in the datasets comes out all the same, with a note that
//! says what is damaged; an import for writing is refused, and says for want of what.

use crate::common;
use cenote_base::{ObjectId, RealEnv, Txg};
use cenote_dmu::ObjectSet;
use cenote_dmu::traverse::{Event, Ordered, Root, Since, Walk};
use cenote_dsl::write::{CreateSnapshots, DestroySnapshots};
use cenote_dsl::{DatasetName, NameKind};
use cenote_ondisk::ObjectType;
use cenote_ondisk::label::DATA_OFFSET;
use cenote_ondisk::object_directory::{OBJECT_DIRECTORY, keys};
use cenote_ondisk::vdev_zap;
use cenote_pool::{ImportError, ImportOptions, Pool, SyncError};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What becomes of an import without a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It cannot be done.
    Needed,
    /// It is done with a note if it only reads, and refused if it is for writing.
    Noted,
    /// Nothing of it is read, or others have the same.
    Any,
}

fn import(dir: &Path, read_only: bool) -> Result<Pool, ImportError> {
    let options = ImportOptions {
        force: true,
        read_only,
        ..common::options()
    };
    let candidates = common::candidates(dir);
    cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new()))
}

/// What is in the datasets: each object's first bytes, by dataset and number.
fn contents(pool: &Pool, names: &[String]) -> BTreeMap<(String, u64), Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in names {
        let parsed = DatasetName::parse(name).expect("a name");
        if parsed.kind() == NameKind::Bookmark {
            continue;
        }
        let dataset = pool.dsl().dataset(&parsed).expect("it opens");
        let set = dataset.object_set().expect("readable");
        for found_object in set.objects(ObjectId(1)) {
            let (id, _) = found_object.expect("readable");
            let object = set.object(id).expect("readable");
            let mut bytes = vec![0; 4096];
            object.read(0, &mut bytes).expect("readable");
            found.insert((name.clone(), object.id().0), bytes);
        }
    }
    found
}

/// The objects that an import reads, with their names.
fn objects(pool: &Pool) -> Vec<(String, ObjectId, Fate)> {
    let directory = pool.dsl().object_directory();
    let mut found = vec![(
        "object directory".to_owned(),
        OBJECT_DIRECTORY,
        Fate::Needed,
    )];
    let fates = [
        (keys::CONFIG, Fate::Needed),
        (keys::ROOT_DATASET, Fate::Any),
        (keys::FEATURES_FOR_READ, Fate::Noted),
        (keys::FEATURES_FOR_WRITE, Fate::Noted),
        (keys::FEATURE_DESCRIPTIONS, Fate::Noted),
        (keys::FEATURE_ENABLED_TXG, Fate::Noted),
        (keys::LOG_SPACE_MAPS, Fate::Noted),
    ];
    for entry in directory.zap().entries() {
        let entry = entry.expect("readable");
        let (Some(key), Some(object)) = (entry.key.as_str(), entry.value.as_u64()) else {
            continue;
        };
        // These are plain numbers.
        if [keys::DEFLATE, keys::CREATION_VERSION].contains(&key) {
            continue;
        }
        let fate = fates.iter().find(|(name, _)| *name == key);
        let fate = fate.map_or(Fate::Any, |(_, fate)| *fate);
        found.push((key.to_owned(), ObjectId(object), fate));
    }
    let mos = pool.mos();
    for top in &pool.vdev_tree().children {
        let array = top.metaslab_array.expect("a concrete vdev");
        found.push(("metaslab array".to_owned(), array, Fate::Noted));
        if let Some(zap) = top.top_zap {
            found.push(("top-level vdev's table".to_owned(), zap, Fate::Noted));
            let unflushed = mos.zap(zap).expect("readable");
            let unflushed = unflushed.lookup_u64(vdev_zap::top::UNFLUSHED_TXGS);
            if let Some(object) = unflushed.expect("readable") {
                let name = "unflushed groups".to_owned();
                found.push((name, ObjectId(object), Fate::Noted));
            }
        }
        for leaf in top.leaves().filter_map(|leaf| leaf.dtl) {
            found.push(("dirty time log".to_owned(), leaf, Fate::Any));
        }
    }
    if let Some(zap) = directory.object(keys::LOG_SPACE_MAPS).expect("readable") {
        for entry in mos.zap(zap).expect("readable").entries() {
            let object = entry.expect("readable").value.as_u64().expect("an object");
            found.push(("log space map".to_owned(), ObjectId(object), Fate::Any));
        }
    }
    found
}

/// Where the blocks of an object are on the only device.
fn blocks(mos: &Arc<ObjectSet>, id: ObjectId) -> Vec<(u64, usize)> {
    let Ok(object) = mos.object(id) else {
        return Vec::new();
    };
    let root = Root::of_object(&object, Since::accounting(Txg(0)));
    let walk = Ordered::new(Arc::clone(mos.cache()), root, Walk::default());
    let mut places = Vec::new();
    for event in walk {
        if let Event::Block(visit) = event {
            let dvas = visit.pointer.dvas();
            let length = usize::try_from(visit.pointer.physical_size()).expect("a block");
            places.extend(dvas.map(|dva| (DATA_OFFSET + dva.offset(), length)));
        }
    }
    places
}

fn overwrite(file: &File, places: &[(u64, usize)], noise: u8) {
    for (offset, length) in places {
        let mut bytes = vec![0; *length];
        file.read_exact_at(&mut bytes, *offset).expect("within");
        bytes.iter_mut().for_each(|byte| *byte ^= noise);
        file.write_all_at(&bytes, *offset).expect("within");
    }
}

#[test]
fn files_are_read_without_what_only_writing_needs() {
    let Some((dir, golden)) = common::golden("quotas") else {
        return;
    };
    let names: Vec<String> = golden.manifest.datasets.keys().cloned().collect();
    let pool = import(dir.path(), true).expect("whole");
    assert_eq!(pool.unread(), []);
    let whole = contents(&pool, &names);
    assert!(whole.len() > 20);
    let table: Vec<_> = objects(&pool)
        .into_iter()
        .map(|(name, id, fate)| (blocks(pool.mos(), id), name, fate))
        .filter(|(places, ..)| !places.is_empty())
        .collect();
    drop(pool);
    assert!(table.len() >= 9, "{table:?}");
    let device: PathBuf = dir.path().join(&golden.manifest.devices[0]);
    let file = OpenOptions::new().read(true).write(true).open(device);
    let file = file.expect("a copy");
    let mut noted = 0;
    for (places, name, fate) in &table {
        overwrite(&file, places, 0x5a);
        match import(dir.path(), true) {
            Err(error) => assert_eq!(*fate, Fate::Needed, "{name}: {error}"),
            Ok(pool) => {
                assert_eq!(contents(&pool, &names), whole, "{name}");
                let is_noted = !pool.unread().is_empty();
                assert!(
                    is_noted || *fate != Fate::Noted,
                    "{name} is not reported as missing"
                );
                noted += usize::from(is_noted);
                drop(pool);
                if is_noted {
                    let refused = import(dir.path(), false).expect_err("it is needed");
                    let text = refused.to_string();
                    assert!(text.contains("cannot be read"), "{name}: {text}");
                    assert!(text.contains("readonly=on"), "{name}: {text}");
                }
            }
        }
        overwrite(&file, places, 0x5a);
    }
    assert!(noted >= 5, "{noted} of {} tables", table.len());
    let pool = import(dir.path(), true).expect("whole again");
    assert_eq!(pool.unread(), []);
}

/// What an import for writing, and the first changes, do without an object.
#[derive(Debug)]
enum Written {
    /// It was refused.
    Refused(String),
    /// A change was refused; others are not.
    Partly(String),
    /// Nothing was missed.
    Whole,
    /// The pool was suspended.
    Suspended(String),
}

/// Imports for writing, and changes what an ordinary day changes.
fn write(dir: &Path, snapshots: &[DatasetName]) -> Written {
    let pool = match import(dir, false) {
        Ok(pool) => pool,
        Err(error) => return Written::Refused(error.to_string()),
    };
    let mut refused = None;
    for round in 0..6 {
        let outcome = match round {
            1 => destroy_snapshots(&pool, snapshots),
            3 => create_snapshot(&pool),
            round => common::change(&pool, round),
        };
        let outcome = outcome.and_then(|()| pool.sync());
        if let Err(error) = outcome {
            refused.get_or_insert(format!("round {round}: {error}"));
        }
    }
    if let Some(cause) = pool.suspended() {
        return Written::Suspended(cause.to_string());
    }
    match (refused, pool.export()) {
        (_, Err(error)) => Written::Suspended(error.to_string()),
        (Some(error), Ok(())) => Written::Partly(error),
        (None, Ok(())) => Written::Whole,
    }
}

fn destroy_snapshots(pool: &Pool, names: &[DatasetName]) -> Result<(), SyncError> {
    let names = names.to_vec();
    let defer = true;
    pool.run_task(DestroySnapshots { names, defer }).map(drop)
}

fn create_snapshot(pool: &Pool) -> Result<(), SyncError> {
    let root = pool.dsl().pool_name().to_string();
    let name = DatasetName::parse(&format!("{root}@new")).expect("a name");
    let names = vec![name];
    let properties = Vec::new();
    pool.run_task(CreateSnapshots { names, properties })
        .map(drop)
}

/// Damages each object of the pool's metadata in turn.
fn write_without_each_object(kind: &str) {
    let Some((dir, golden)) = common::golden(kind) else {
        return;
    };
    let pool = import(dir.path(), true).expect("whole");
    let names = golden.manifest.datasets.keys();
    let names = names.map(|name| DatasetName::parse(name).expect("a name"));
    let snapshots: Vec<_> = names
        .filter(|name| name.kind() == NameKind::Snapshot)
        .collect();
    let directory = pool.dsl().object_directory();
    let of_pool = [keys::SYNC_BPLIST, keys::FREE_BPOBJ];
    let of_pool = of_pool.map(|key| directory.object(key).expect("readable"));
    let mut table = Vec::new();
    for object in pool.mos().objects(ObjectId(1)) {
        let (id, dnode) = object.expect("readable");
        // There may be one for each snapshot: an import reads none of them.
        if dnode.object_type == ObjectType::BPOBJ && !of_pool.contains(&Some(id)) {
            continue;
        }
        let name = format!("{kind}: {id:?}, {:?}", dnode.object_type);
        table.push((name, blocks(pool.mos(), id)));
    }
    drop(pool);
    let (mut refused, mut whole) = (0, 0);
    let mut suspended = Vec::new();
    for (name, places) in table.iter().filter(|(_, places)| !places.is_empty()) {
        golden.copy_to(dir.path()).expect("room");
        let device: PathBuf = dir.path().join(&golden.manifest.devices[0]);
        let file = OpenOptions::new().read(true).write(true).open(device);
        overwrite(&file.expect("a copy"), places, 0x5a);
        match write(dir.path(), &snapshots) {
            Written::Refused(error) => {
                assert!(error.contains("damaged"), "{name}: {error}");
                refused += 1;
            }
            Written::Partly(error) => println!("{name}: {error}"),
            Written::Whole => whole += 1,
            Written::Suspended(cause) => suspended.push(format!("{name}: {cause}")),
        }
    }
    assert_eq!(suspended, [""; 0]);
    assert!(refused > 5 && whole > 0, "{kind}: {refused}, {whole}");
}

/// An import for writing succeeded with a damaged space map, history, dedup or clone table, and the
/// first group that needed it suspended the pool. Later changes behind the failed one waited
/// forever.
#[test]
fn what_an_import_could_see_suspends_no_pool_afterwards() {
    for kind in ["quotas", "dedup", "block-cloning", "checkpoint"] {
        write_without_each_object(kind);
    }
}
