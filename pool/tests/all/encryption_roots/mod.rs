//! Random trees of encryption roots: every key that opened a dataset before a change opens it
//! afterwards, or the change was refused and changed nothing.
//!
//! A dataset that inherits its key could be moved below another encryption root, and a clone be
//! promoted there. The damage showed only when the key of its old root was changed: the change
//! missed the dataset, so its keys stayed wrapped by the old key, which was lost.
//!
//! `CENOTE_SEED` chooses the first tree and `CENOTE_TREES` the number of trees; `cargo xtask keys`
//! sets both. With `CENOTE_TRACE` the changes are printed. Then only changes are made that can be
//! repeated with OpenZFS: it refuses the same ones.

mod forest;
mod steps;

use crate::common::{self, Bench};
use crate::tree::named;
use cenote_base::RealEnv;
use cenote_device::Opener;
use cenote_dsl::DslError;
use cenote_dsl::write::{
    ChangeKey, CloneDataset, CreateDataset, CreateSnapshots, Encryption, NewKeyFormat,
    PromoteDataset, RenameDataset, SyncTask, UserKey,
};
use cenote_ondisk::objset::ObjsetKind;
use cenote_pool::{ImportOptions, NewVdev, Pool, SyncError, VdevShape, assemble};
use cenote_sim::Disks;
use cenote_tests::referee;
use cenote_vdev::AllocationClass::Normal;
use cenote_vdev::scan;
use forest::Forest;
use std::sync::Arc;
use steps::Grove;

const POOL: &str = "grove";
const TRACE: &str = "CENOTE_TRACE";
const DISK: usize = 64 << 20;
/// Changes of one tree; after half of them the pool is exported and imported.
const STEPS: u64 = 40;

fn number(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(default, |text| text.parse().expect("a number"))
}

fn new_pool(disks: &Disks) -> Pool {
    let vdev = NewVdev {
        shape: VdevShape::Single,
        class: Normal,
        leaves: disks.leaves(),
    };
    Bench::new(POOL).create(vec![vdev])
}

fn import(disks: &Arc<Disks>) -> Pool {
    let candidates = assemble(scan(&disks.paths(), disks.as_ref()));
    let options = ImportOptions {
        opener: Arc::clone(disks) as Arc<dyn Opener>,
        ..common::options()
    };
    let imported = cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new()));
    imported.expect("imported")
}

fn run<T: SyncTask + 'static>(pool: &Pool, task: T) -> Result<T, DslError> {
    match pool.run_task(task) {
        Ok(task) => Ok(task),
        Err(SyncError::Dsl(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

/// A user's key by its number.
fn material(secret: u8) -> [u8; 32] {
    [secret; 32]
}

fn user_key(name: &str, secret: u8) -> UserKey {
    let (format, env) = (NewKeyFormat::Raw, RealEnv::new());
    let key = UserKey::derive(&named(name), &material(secret), format, "prompt", &env);
    key.expect("a key")
}

fn new_dataset(name: &str, encryption: Encryption) -> CreateDataset {
    CreateDataset {
        name: named(name),
        kind: ObjsetKind::Other,
        properties: Vec::new(),
        encryption,
        format: None,
        created: None,
    }
}

fn with_key(name: &str, secret: u8) -> Encryption {
    Encryption::On {
        suite: None,
        key: Some(user_key(name, secret)),
    }
}

fn judge(disks: &Disks) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    disks.save(dir.path()).expect("room");
    referee::judge(dir.path(), POOL);
}

#[test]
fn random_trees_of_encryption_roots_keep_their_keys() {
    let (first, trees) = (number("CENOTE_SEED", 1), number("CENOTE_TREES", 6));
    let mut counts = steps::Counts::default();
    for seed in first..first + trees {
        let disks = common::disks(1, DISK);
        let mut grove = Grove::new(seed, new_pool(&disks));
        grove.steps(STEPS / 2);
        grove.close();
        grove.open(import(&disks));
        grove.steps(STEPS / 2);
        grove.close();
        // OpenZFS takes seconds for each.
        if (seed - first).is_multiple_of(100) {
            judge(&disks);
        }
        grove.add_to(&mut counts);
    }
    println!("seeds {first} to {}: {counts:?}", first + trees - 1);
    for kind in ["rename", "promote", "key", "inherit", "receive"] {
        let done = counts.get(kind).map_or(0, |(done, _)| *done);
        let is_few = trees < 6 || std::env::var_os(TRACE).is_some();
        assert!(is_few || done > 0, "no {kind} was done: {counts:?}");
    }
}

/// A pool with the encryption root `grove/r`, whose key is 1, and with these datasets that inherit
/// it.
struct Small {
    disks: Arc<Disks>,
    pool: Pool,
}

impl Small {
    fn new(names: &[&str]) -> Self {
        let disks = common::disks(1, DISK);
        let pool = new_pool(&disks);
        let small = Self { disks, pool };
        small.root("grove/r", 1);
        for name in names {
            small.run(new_dataset(name, Encryption::Inherit));
        }
        small
    }

    fn run<T: SyncTask + 'static>(&self, task: T) {
        run(&self.pool, task).map(drop).expect("done");
    }

    fn refuses<T: SyncTask + 'static>(&self, task: T) {
        let before = Forest::of(&self.pool);
        match run(&self.pool, task).map(drop) {
            Err(DslError::LeavesEncryptionRoot { .. }) => {}
            other => panic!("not refused: {other:?}"),
        }
        assert_eq!(Forest::of(&self.pool), before);
    }

    fn root(&self, name: &str, secret: u8) {
        self.run(new_dataset(name, with_key(name, secret)));
    }

    fn clone(&self, of: &str, name: &str) {
        let names = vec![named(&format!("{of}@s"))];
        let properties = Vec::new();
        let made = run(&self.pool, CreateSnapshots { names, properties });
        assert!(made.is_ok() || matches!(made, Err(DslError::DatasetExists { .. })));
        self.run(CloneDataset {
            origin: named(&format!("{of}@s")),
            name: named(name),
            properties: Vec::new(),
            created: None,
        });
    }

    fn rename(from: &str, to: &str) -> RenameDataset {
        let (from, to) = (named(from), named(to));
        RenameDataset { from, to }
    }

    fn promote(name: &str) -> PromoteDataset {
        PromoteDataset { name: named(name) }
    }

    fn change_key(&self, name: &str, secret: u8) {
        self.run(ChangeKey::new(named(name), Some(user_key(name, secret))));
    }

    /// Imports the pool again, where each of these roots opens with its key, and all below.
    fn check(self, roots: &[(&str, u8)]) {
        self.pool.export().expect("written");
        drop(self.pool);
        let pool = import(&self.disks);
        for (name, secret) in roots {
            let directory = pool.dsl().directory(&named(name)).expect("readable");
            let directory = directory.expect("there");
            let loaded = pool.dsl().load_key(&directory, &material(*secret), false);
            loaded.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let forest = Forest::of(&pool);
        forest.check();
        forest.open_all(&pool);
        pool.export().expect("written");
    }
}

/// The case that lost a dataset: it inherits from `grove/r`, and goes below `grove/q`.
#[test]
fn a_dataset_stays_with_its_encryption_root() {
    let small = Small::new(&["grove/r/a", "grove/r/b"]);
    small.root("grove/q", 2);
    small.run(new_dataset("grove/q/c", Encryption::Inherit));
    // Within `grove/r`, but below a root that is in between.
    small.root("grove/r/q", 3);
    for to in ["grove/q/a", "grove/q/c/a", "grove/a", "grove/r/q/a"] {
        small.refuses(Small::rename("grove/r/a", to));
    }
    small.run(Small::rename("grove/r/a", "grove/r/b/a"));
    // A root goes where it likes, with all below.
    small.run(Small::rename("grove/q", "grove/r/b/q"));
    small.change_key("grove/r", 4);
    small.check(&[("grove/r", 4), ("grove/r/b/q", 2), ("grove/r/q", 3)]);
}

/// A clone that is promoted is no clone any more, and has its key from its parent.
#[test]
fn a_promoted_clone_stays_with_its_encryption_root() {
    let small = Small::new(&["grove/r/a"]);
    small.root("grove/r/q", 2);
    small.clone("grove/r/a", "grove/r/q/clone");
    small.clone("grove/r/a", "grove/outside");
    small.clone("grove/r/a", "grove/r/inside");
    small.clone("grove/r/a", "grove/r/a/below");
    small.refuses(Small::promote("grove/r/q/clone"));
    small.refuses(Small::promote("grove/outside"));
    // OpenZFS promotes it, and loses both with the next change of the root's key.
    small.refuses(Small::promote("grove/r/a/below"));
    // A name of its own in the same place is no move.
    small.run(Small::rename("grove/outside", "grove/elsewhere"));
    small.refuses(Small::rename("grove/elsewhere", "grove/r/q/elsewhere"));
    small.run(Small::promote("grove/r/inside"));
    small.change_key("grove/r", 3);
    small.check(&[("grove/r", 3), ("grove/r/q", 2)]);
}

/// A dataset below its own clone and that clone would have their keys from each other.
#[test]
fn no_dataset_has_its_key_from_its_own_clone() {
    let small = Small::new(&["grove/r/a", "grove/r/a/in"]);
    small.clone("grove/r/a", "grove/clone");
    small.run(new_dataset("grove/clone/c", Encryption::Inherit));
    for to in ["grove/clone/a", "grove/clone/c/a"] {
        small.refuses(Small::rename("grove/r/a", to));
    }
    small.run(Small::rename("grove/r/a/in", "grove/clone/c/in"));
    small.change_key("grove/r", 2);
    small.check(&[("grove/r", 2)]);
}

/// The key of a dataset is not that of a clone below it whose origin is elsewhere.
#[test]
fn a_clone_keeps_the_key_of_its_origin() {
    let small = Small::new(&["grove/r/a", "grove/r/b"]);
    small.clone("grove/r/a", "grove/r/b/clone");
    small.run(new_dataset("grove/r/b/clone/c", Encryption::Inherit));
    small.change_key("grove/r/b", 2);
    // Before, this took the origin's key along: `grove/r` could not open `grove/r/a` any more.
    let root_of = |small: &Small, name| Forest::of(&small.pool).root_of(name);
    assert_eq!(root_of(&small, "grove/r/a").as_deref(), Some("grove/r"));
    assert_eq!(root_of(&small, "grove/r/b").as_deref(), Some("grove/r/b"));
    small.change_key("grove/r/a", 3);
    let root = root_of(&small, "grove/r/b/clone/c");
    assert_eq!(root.as_deref(), Some("grove/r/a"));
    small.check(&[("grove/r", 1), ("grove/r/b", 2), ("grove/r/a", 3)]);
}

/// A promoted clone below its origin became the root of its own parent, and could inherit that key:
/// its
/// `keylocation` was lost, and it had no root but itself.
#[test]
fn a_root_does_not_inherit_from_its_heirs() {
    let small = Small::new(&[]);
    small.clone("grove/r", "grove/r/clone");
    small.run(Small::promote("grove/r/clone"));
    let inherits = run(&small.pool, ChangeKey::new(named("grove/r/clone"), None));
    assert!(matches!(inherits, Err(DslError::KeyRefused { .. })));
    small.run(Small::promote("grove/r"));
    small.check(&[("grove/r", 1)]);
}
