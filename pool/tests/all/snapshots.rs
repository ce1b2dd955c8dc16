//! Snapshots and what is done with them, at random: compared with a model, with the sums that the
//! pool must keep after each step, and judged by OpenZFS.

use crate::common::{self, Bench};
use crate::tree::{Tree, named};
use cenote_base::ObjectId;
use cenote_dmu::zap::ZapValue;
use cenote_dmu::{NewObject, TxCost};
use cenote_dsl::DslError;
use cenote_dsl::write::{
    CreateSnapshots, DestroyDataset, DestroySnapshots, HoldSnapshots, SyncContext, SyncTask,
};
use cenote_ondisk::ObjectType;
use cenote_ondisk::scan::SCAN_WORDS;
use cenote_pool::{NewVdev, VdevShape};
use cenote_sim::Disks;
use cenote_tests::referee;
use cenote_vdev::AllocationClass::Normal;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const DISK: usize = 128 << 20;

fn vdev(shape: VdevShape, disks: &Disks) -> NewVdev {
    NewVdev {
        shape,
        class: Normal,
        leaves: disks.leaves(),
    }
}

/// OpenZFS checks the disks.
fn judge(disks: &Disks, pool: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    disks.save(dir.path()).expect("room");
    referee::judge(dir.path(), pool);
}

fn run(pool: &'static str, seed: u64, shape: VdevShape, count: usize, steps: usize) {
    println!("{pool}, seed {seed}");
    let disks = common::disks(count, DISK);
    let opened = Bench::new(pool).create(vec![vdev(shape, &disks)]);
    let mut tree = Tree::new(seed, opened, &[]);
    tree.create_secret();
    tree.steps(steps);
    tree.close();
    tree.open(&disks);
    tree.compare();
    tree.steps(steps);
    tree.close();
    judge(&disks, pool);
}

/// The keys that OpenZFS notes in its manifest of what it did.
fn keys_in(manifest: &str) -> Vec<String> {
    let text = std::fs::read(manifest).expect("written");
    let manifest: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let datasets = manifest["datasets"].as_array().expect("a list");
    let keys = datasets
        .iter()
        .filter_map(|dataset| dataset["key"].as_str());
    keys.map(str::to_owned).collect()
}

/// Takes the devices out of a directory.
fn take(dir: &Path) -> Arc<Disks> {
    let entries = std::fs::read_dir(dir).expect("readable").flatten();
    let paths = entries.map(|entry| entry.path());
    let images = paths.filter(|path| path.extension().is_some_and(|ending| ending == "img"));
    let take = |path| {
        let image = std::fs::read(&path).expect("readable");
        std::fs::remove_file(path).expect("removed");
        image
    };
    common::disks_of(images.map(take))
}

/// Pools that OpenZFS made and worked on, changed here, and again by OpenZFS.
fn run_found(seed: u64, options: &[&str], steps: usize) {
    println!("{options:?}, seed {seed}");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    if !common::openzfs(dir, "tank", "create", options) {
        return;
    }
    let has_features = !options.contains(&"version=28");
    let mut keys = Vec::new();
    for round in 0..2 {
        let churn = (2 * seed + round).to_string();
        let manifest = dir.join("manifest").display().to_string();
        let mut churn = vec!["--seed", &churn, "--ops", "150", "--manifest", &manifest];
        if has_features {
            churn.push("--encrypt");
        }
        assert!(crate::common::openzfs(dir, "tank", "churn", &churn));
        keys.extend(keys_in(&manifest));
        let disks = take(dir);
        let mut tree = Tree::new(seed, Tree::import(&disks), &keys);
        tree.compare();
        tree.steps(steps);
        tree.close();
        disks.save(dir).expect("room");
        referee::judge(dir, "tank");
    }
}

/// `CENOTE_SEED` chooses what is done.
fn seed() -> u64 {
    let seed = std::env::var("CENOTE_SEED").ok();
    seed.map_or(1, |seed| seed.parse().expect("a number"))
}

#[test]
fn at_random() {
    run("snaps", seed(), VdevShape::Single, 1, 90);
}

#[test]
fn at_random_on_raidz() {
    run(
        "snapsz",
        seed() + 100,
        VdevShape::Raidz { parity: 1 },
        3,
        40,
    );
}

#[test]
fn in_pools_of_openzfs() {
    run_found(seed(), &["--layout", "single"], 70);
}

#[test]
fn in_pools_without_features() {
    run_found(seed(), &["-o", "version=28"], 25);
}

/// Makes a scrub that is to visit two datasets, and is in a third.
struct BeginScan([ObjectId; 3]);

impl SyncTask for BeginScan {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let queue = context.create_table(ObjectType(38))?;
        let zap = context.mos().zap(queue)?;
        let mut words = [0; SCAN_WORDS];
        words[..3].copy_from_slice(&[1, 1, queue.0]);
        words[4] = context.txg().0;
        // The dedup tables are behind it.
        words[15] = 1;
        words[19] = self.0[0].0;
        for next in &self.0[1..] {
            zap.update_u64(context.tx, &format!("{:x}", next.0), 0)?;
        }
        let directory = context.mos().zap(ObjectId(1))?;
        directory.update(context.tx, "scan", &ZapValue::from_u64s(&words))?;
        Ok(())
    }
}

/// A scrub resumes with the datasets that replaced those it was to visit. OpenZFS, which resumes
/// this scrub, would abort on a number that is no dataset's.
#[test]
fn while_a_scan_is_under_way() {
    let disks = common::disks(1, DISK);
    let pool = Bench::new("scan").create(vec![vdev(VdevShape::Single, &disks)]);
    let mut tree = Tree::new(1, pool, &[]);
    let id = |name: &str| {
        let dataset = tree.pool().dsl().dataset(&named(&format!("scan/{name}")));
        dataset.expect("there").id()
    };
    let run = |task| tree.pool().run_task(task).map(drop).expect("done");
    let snapshots = |names: &[&str]| {
        let names = names.iter().map(|name| named(&format!("scan/{name}")));
        let (names, properties) = (names.collect(), Vec::new());
        let task = CreateSnapshots { names, properties };
        tree.pool().run_task(task).expect("made");
    };
    let destroy = |name: &str| DestroySnapshots {
        names: vec![named(&format!("scan/{name}"))],
        defer: false,
    };
    let scan = || {
        let scan = tree.pool().dsl().scan().expect("readable").expect("begun");
        let queue = tree.pool().mos().zap(scan.queue.expect("there is one"));
        let entries = queue.expect("readable").entries();
        let keys = entries.map(|entry| {
            let key = entry.expect("readable").key;
            let key = key.as_str().expect("text").to_owned();
            ObjectId(u64::from_str_radix(&key, 16).expect("a number"))
        });
        (ObjectId(scan.position[0]), keys.collect::<BTreeSet<_>>())
    };
    let begin = BeginScan([id("a"), id("b"), id("a/c")]);
    tree.pool().run_task(begin).expect("begun");
    snapshots(&["a@1", "b@1"]);
    assert_eq!(scan(), (id("a@1"), BTreeSet::from([id("b@1"), id("a/c")])));
    snapshots(&["a@2", "b@2"]);
    run(destroy("a@1"));
    run(destroy("b@1"));
    assert_eq!(scan(), (id("a@2"), BTreeSet::from([id("b@2"), id("a/c")])));
    run(destroy("a@2"));
    let name = named("scan/a/c");
    tree.pool()
        .run_task(DestroyDataset { name })
        .expect("destroyed");
    assert_eq!(scan(), (id("a"), BTreeSet::from([id("b@2")])));
    tree.forget("scan/a/c");
    tree.close();
    judge(&disks, "scan");
}

/// The pair of numbers in the first and in the last of 20 snapshots; in each both are the same, and
/// none has an earlier one than the snapshot before.
fn pairs_in_snapshots(tree: &Tree, name: &str, numbers: &[ObjectId; 2]) -> (Option<u64>, u64) {
    let (mut first, mut last) = (None, 0);
    for number in 0..20 {
        let snapshot = named(&format!("{name}@{number}"));
        let snapshot = tree.pool().dsl().dataset(&snapshot).expect("there");
        let set = snapshot.object_set().expect("opens");
        let found = numbers.map(|id| {
            let mut bytes = [0; 8];
            let object = set.object(id).expect("there");
            object.read(0, &mut bytes).expect("readable");
            u64::from_le_bytes(bytes)
        });
        assert!(
            found[0] == found[1] && found[0] >= last,
            "{last}, {found:?}"
        );
        last = found[0];
        first.get_or_insert(last);
    }
    (first, last)
}

/// Two numbers that change together: no snapshot has one of them without the other, and a later
/// one has no earlier ones.
#[test]
fn while_the_head_is_written() {
    let disks = common::disks(1, DISK);
    let pool = Bench::new("busy").create(vec![vdev(VdevShape::Single, &disks)]);
    let mut tree = Tree::new(1, pool, &[]);
    let name = "busy/a";
    let dataset = tree.pool().dsl().dataset(&named(name)).expect("there");
    let gate = Arc::clone(tree.pool().gate().expect("writable"));
    let head = tree.pool().dsl().open_for_writing(&dataset, &gate);
    let head = head.expect("opens");
    let tx = gate.begin(TxCost::default()).expect("not suspended");
    let make = || {
        let new = NewObject::new(ObjectType(25), 4096);
        head.set().allocate(&tx, new).expect("there is room")
    };
    let pair = [make(), make()];
    drop(tx);
    let numbers = pair.each_ref().map(|object| object.id());
    let is_over = AtomicBool::new(false);
    let writes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                count += 1;
                let tx = gate.begin(TxCost::default()).expect("not suspended");
                for object in &pair {
                    let at = count % 64 * 4096;
                    object
                        .write(&tx, at, &count.to_le_bytes())
                        .expect("written");
                    object.write(&tx, 0, &count.to_le_bytes()).expect("written");
                }
                writes.store(count, Ordering::Relaxed);
            }
        });
        for number in 0..20 {
            let before = writes.load(Ordering::Relaxed);
            while writes.load(Ordering::Relaxed) == before {
                std::thread::yield_now();
            }
            let names = vec![named(&format!("{name}@{number}"))];
            let properties = Vec::new();
            let task = CreateSnapshots { names, properties };
            tree.pool().run_task(task).expect("made");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let (first, last) = pairs_in_snapshots(&tree, name, &numbers);
    // Two groups may follow each other before the writer comes to write again.
    assert!(first < Some(last), "{last} in all of them");
    let problems = cenote_dsl::check(tree.pool().dsl());
    assert!(problems.is_empty(), "{problems:#?}");
    drop((pair, head));
    tree.close();
    judge(&disks, "busy");
}

/// Puts a temporary hold on a snapshot, as OpenZFS does when it sends one.
struct HoldForNow(ObjectId, &'static str);

impl SyncTask for HoldForNow {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        const TABLE: &str = "tmp_userrefs";
        let table = match context.dsl.object_directory().object(TABLE)? {
            Some(table) => table,
            None => {
                let table = context.create_table(ObjectType::SNAPSHOT_REFCOUNT_TAGS)?;
                context.set_directory_number(TABLE, table.0)?;
                table
            }
        };
        let table = context.mos().zap(table)?;
        let (ObjectId(id), tag) = (self.0, self.1);
        let now = ZapValue::from_u64(1);
        table.update(context.tx, format!("{id:x}-{tag}").as_bytes(), &now)?;
        // Of a snapshot that is no more, and of nothing.
        for odd in ["ffffff-gone", "no number"] {
            table.update(context.tx, odd.as_bytes(), &now)?;
        }
        Ok(())
    }
}

/// A crash of OpenZFS during a send left a snapshot that could not be destroyed.
#[test]
fn temporary_holds_end_at_an_import() {
    let disks = common::disks(1, DISK);
    let pool = Bench::new("held").create(vec![vdev(VdevShape::Single, &disks)]);
    let snapshots = || [named("held@sent"), named("held@going")];
    for name in snapshots() {
        let (names, properties) = (vec![name], Vec::new());
        pool.run_task(CreateSnapshots { names, properties })
            .expect("made");
    }
    let hold = |tag: &str| snapshots().map(|name| (name, tag.to_owned())).to_vec();
    let holds = hold("send-1");
    pool.run_task(HoldSnapshots { holds }).expect("held");
    let id = |name| pool.dsl().dataset(&name).expect("there").id();
    let [sent, going] = snapshots().map(id);
    pool.run_task(HoldForNow(sent, "send-1")).expect("noted");
    let names = vec![named("held@going")];
    let defer = true;
    pool.run_task(DestroySnapshots { names, defer })
        .expect("deferred");
    pool.export().expect("written");
    drop(pool);

    let pool = Tree::import(&disks);
    let holds = |name| pool.dsl().dataset(&name).expect("there").hold_count();
    pool.sync().expect("written");
    let [first, second] = snapshots();
    assert_eq!(holds(first).expect("readable"), 0);
    assert_eq!(holds(second).expect("readable"), 1, "that one is for good");
    pool.run_task(HoldForNow(going, "send-1")).expect("noted");
    pool.export().expect("written");
    drop(pool);

    let pool = Tree::import(&disks);
    pool.sync().expect("written");
    let gone = pool.dsl().dataset(&named("held@going")).map(drop);
    assert!(gone.is_err(), "it went with its last hold");
    pool.export().expect("written");
    drop(pool);
    judge(&disks, "held");
}
