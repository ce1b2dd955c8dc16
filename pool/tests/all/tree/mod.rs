//! A tree of datasets with their snapshots, clones, holds and bookmarks, and its model.

mod found;
mod steps;

use crate::common;
use crate::model::{ModelObject, Random, World};
use cenote_base::{ObjectId, RealEnv, settings};
use cenote_device::Opener;
use cenote_dsl::write::{CreateDataset, Encryption, NewKeyFormat, SyncTask, UserKey};
use cenote_dsl::{Dataset, DatasetName, DslError, Stored};
use cenote_ondisk::ObjectType;
use cenote_ondisk::objset::ObjsetKind;
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{ImportOptions, Pool, SyncError, assemble};
use cenote_sim::Disks;
use cenote_vdev::scan;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The key of encrypted datasets that are made here.
const SECRET: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Blocks in a part of a livelist.
pub const LIVELIST_MAX_ENTRIES: u64 = 40;

/// What an object set has in it.
#[derive(Clone)]
enum Contents {
    Model(BTreeMap<ObjectId, ModelObject>),
    /// Of a set that is not of ours: a sum of all its objects, if they can be read.
    Sum(Option<u64>),
}

impl Contents {
    fn of(set: &Set, dataset: &Dataset) -> Self {
        match &set.world {
            Some(world) => Self::Model(world.model.clone()),
            None => Self::Sum(found::sum(dataset)),
        }
    }

    fn world(&self, seed: u64) -> Option<World> {
        match self {
            Self::Model(model) => Some(world(seed, model.clone())),
            Self::Sum(_) => None,
        }
    }

    fn compare(&self, dataset: &Dataset) {
        match self {
            Self::Model(model) => {
                world(1, model.clone()).compare(&dataset.object_set().expect("opens"))
            }
            Self::Sum(sum) => assert_eq!(found::sum(dataset), *sum, "{}", dataset.name()),
        }
    }
}

/// A snapshot as it should be.
struct Snap {
    /// Grows with the age.
    id: u64,
    name: String,
    contents: Contents,
    /// The property that it was made with.
    mark: Option<String>,
    tags: BTreeSet<String>,
    is_deferred: bool,
}

/// A dataset as it should be.
struct Set {
    /// `None` for a set that is not of ours.
    world: Option<World>,
    /// From the oldest to the newest.
    snapshots: Vec<Snap>,
    origin: Option<u64>,
    /// Names, and the snapshots that they are of.
    bookmarks: BTreeMap<String, u64>,
}

pub struct Tree {
    pool: Option<Pool>,
    random: Random,
    sets: BTreeMap<String, Set>,
    made: u64,
    /// How often each kind of step was taken.
    counts: BTreeMap<&'static str, u32>,
}

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

pub fn named(text: &str) -> DatasetName {
    DatasetName::parse(text).expect("a name")
}

fn world(seed: u64, model: BTreeMap<ObjectId, ModelObject>) -> World {
    let mut world = World::new(seed);
    world.types = (ObjectType(25), ObjectType(26));
    world.model = model;
    world
}

impl Tree {
    /// The pool's datasets, encrypted ones with the first of `keys` that is theirs.
    pub fn new(seed: u64, pool: Pool, keys: &[String]) -> Self {
        found::load_keys(&pool, keys);
        // However much clones are changed, they keep their livelists, in several parts.
        let set = settings::LIVELIST_MIN_PERCENT_SHARED.set(0);
        set.expect("in its range");
        let set = settings::LIVELIST_MAX_ENTRIES.set(LIVELIST_MAX_ENTRIES);
        set.expect("in its range");
        let mut tree = Self {
            pool: Some(pool),
            random: Random::new(seed),
            sets: BTreeMap::new(),
            made: 0,
            counts: BTreeMap::new(),
        };
        tree.adopt();
        for name in ["a", "b", "a/c"] {
            if tree.sets.len() < 3 {
                tree.create(name);
            }
        }
        tree
    }

    /// The pool that is on these disks.
    pub fn import(disks: &Arc<Disks>) -> Pool {
        let candidates = assemble(scan(&disks.paths(), disks.as_ref()));
        let options = ImportOptions {
            opener: Arc::clone(disks) as Arc<dyn Opener>,
            ..common::options()
        };
        let env = Arc::new(RealEnv::new());
        cenote_pool::import(&candidates[0], &options, env).expect("imported")
    }

    pub fn pool(&self) -> &Pool {
        self.pool.as_ref().expect("open")
    }

    pub fn open(&mut self, disks: &Arc<Disks>) {
        let pool = Self::import(disks);
        found::load_keys(&pool, &[SECRET.to_owned()]);
        self.pool = Some(pool);
    }

    pub fn close(&mut self) {
        println!("{:?}", self.counts);
        let pool = self.pool.take().expect("open");
        let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
        assert!(report.is_clean(), "{report:?}");
        pool.export().expect("written");
    }

    fn run<T: SyncTask + 'static>(&self, task: T) -> Result<T, DslError> {
        match self.pool().run_task(task) {
            Ok(task) => Ok(task),
            Err(SyncError::Dsl(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    /// Makes an encrypted dataset, and one below that inherits its key.
    pub fn create_secret(&mut self) {
        let name = named(&format!("{}/secret", self.pool().name()));
        let env = RealEnv::new();
        let (format, location) = (NewKeyFormat::Hex, "prompt");
        let key = UserKey::derive(&name, SECRET.as_bytes(), format, location, &env);
        let key = Some(key.expect("a key"));
        self.create_with("secret", Encryption::On { suite: None, key });
        self.create("secret/inner");
    }

    /// Takes a dataset out of the model that was destroyed elsewhere.
    pub fn forget(&mut self, name: &str) {
        self.sets.remove(name);
    }

    fn create(&mut self, component: &str) {
        self.create_with(component, Encryption::Inherit);
    }

    fn create_with(&mut self, component: &str, encryption: Encryption) {
        let name = format!("{}/{component}", self.pool().name());
        let task = CreateDataset {
            name: named(&name),
            kind: ObjsetKind::Other,
            properties: Vec::new(),
            encryption,
            format: None,
            created: None,
        };
        self.run(task).expect("made");
        let set = Set {
            world: Some(world(self.random.next(), BTreeMap::new())),
            snapshots: Vec::new(),
            origin: None,
            bookmarks: BTreeMap::new(),
        };
        self.sets.insert(name, set);
    }

    fn pick(&mut self) -> String {
        let index = self.random.below(self.sets.len() as u64) as usize;
        self.sets.keys().nth(index).expect("there are some").clone()
    }

    /// Some snapshot of any dataset, and the dataset.
    fn pick_snapshot(&mut self) -> Option<(String, usize)> {
        for _ in 0..10 {
            let name = self.pick();
            let count = self.sets[&name].snapshots.len() as u64;
            if count > 0 {
                return Some((name, self.random.below(count) as usize));
            }
        }
        None
    }

    fn dataset(&self, name: &str) -> Dataset {
        let dataset = self.pool().dsl().dataset(&named(name));
        dataset.expect("there")
    }

    fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    fn clones_of(&self, snapshot: u64) -> usize {
        let origins = self.sets.values().map(|set| set.origin);
        origins.filter(|origin| *origin == Some(snapshot)).count()
    }

    /// Closes a head that may be open, with all its changes on disk.
    fn close_head(&self, name: &str) {
        self.pool().sync().expect("written");
        let dataset = self.pool().dsl().dataset(&named(name)).expect("there");
        self.pool().dsl().close_head(dataset.id());
    }

    /// Checks all sums. Groups that free what was destroyed follow one another by themselves, so
    /// that one may end during a check. What is wrong stays wrong.
    fn check(&self, kind: &str) {
        const TRIES: usize = 5;
        let mut problems = cenote_dsl::check(self.pool().dsl());
        for _ in 0..TRIES {
            if problems.is_empty() {
                break;
            }
            self.pool().sync().expect("written");
            problems = cenote_dsl::check(self.pool().dsl());
        }
        assert!(problems.is_empty(), "{kind}: {problems:#?}");
    }

    /// Random steps, each of which leaves all sums right.
    pub fn steps(&mut self, steps: usize) {
        for _ in 0..steps {
            let kind = self.step();
            *self.counts.entry(kind).or_default() += 1;
            self.check(kind);
        }
        self.compare();
    }

    /// Compares all heads and snapshots with the model.
    pub fn compare(&self) {
        for (name, set) in &self.sets {
            self.compare_set(name, set);
        }
    }

    fn compare_set(&self, name: &str, set: &Set) {
        let dsl = self.pool().dsl();
        let head = dsl.dataset(&named(name)).expect("there");
        if let Some(world) = &set.world {
            world.compare(&head.object_set().expect("opens"));
        }
        let found = head.listed_snapshots().expect("readable");
        let found: Vec<_> = found
            .iter()
            .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
            .collect();
        let expected: Vec<_> = set.snapshots.iter().map(|snap| snap.name.clone()).collect();
        assert_eq!(found, expected, "snapshots of {name}");
        for snap in &set.snapshots {
            let full = named(&format!("{name}@{}", snap.name));
            let snapshot = dsl.dataset(&full).expect("there");
            snap.contents.compare(&snapshot);
            let own = snapshot.own_properties().expect("readable");
            let mark = own.get(steps::MARK).cloned();
            assert_eq!(mark, snap.mark.clone().map(Stored::Text), "{full}");
            let holds = snapshot.holds().expect("readable");
            let tags: BTreeSet<_> = holds.into_iter().map(|hold| hold.tag).collect();
            assert_eq!(tags, snap.tags, "holds of {full}");
            for (bookmark, of) in &set.bookmarks {
                if *of == snap.id {
                    let bookmark = bookmark.as_bytes();
                    let bookmark = head.bookmark(bookmark).expect("readable").expect("there");
                    let since = head.written_since_bookmark(&bookmark).expect("readable");
                    let expected = head.written_since(&snapshot).expect("readable");
                    assert_eq!(since, expected, "since {}", bookmark.name);
                }
            }
        }
        let found = head.bookmarks().expect("readable").len();
        assert_eq!(found, set.bookmarks.len(), "bookmarks of {name}");
    }
}
