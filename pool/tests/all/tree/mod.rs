//! A tree of datasets with their snapshots, and the model of it.

use crate::common;
use crate::model::{ModelObject, Random, World};
use cenote_base::{ObjectId, RealEnv};
use cenote_dmu::TxCost;
use cenote_dsl::DatasetName;
use cenote_dsl::DslError;
use cenote_dsl::write::{CreateDataset, CreateSnapshots, DestroySnapshots, Encryption, SyncTask};
use cenote_ondisk::ObjectType;
use cenote_ondisk::objset::ObjsetKind;
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{Pool, SyncError};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Contents = BTreeMap<ObjectId, ModelObject>;

/// A snapshot as it should be.
struct Snap {
    name: String,
    contents: Contents,
}

/// A dataset as it should be.
struct Set {
    world: World,
    /// From the oldest to the newest.
    snapshots: Vec<Snap>,
}

pub struct Tree {
    pool: Option<Pool>,
    random: Random,
    sets: BTreeMap<String, Set>,
    made: u64,
    /// How often each kind of step was taken.
    pub counts: BTreeMap<&'static str, u32>,
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

impl Tree {
    pub fn new(seed: u64, pool: Pool) -> Self {
        let mut tree = Self {
            pool: Some(pool),
            random: Random::new(seed),
            sets: BTreeMap::new(),
            made: 0,
            counts: BTreeMap::new(),
        };
        for name in ["a", "b", "a/c"] {
            tree.create(name);
        }
        tree
    }

    pub fn pool(&self) -> &Pool {
        self.pool.as_ref().expect("open")
    }

    pub fn open(&mut self, dir: &Path) {
        let candidates = common::candidates(dir);
        let env = Arc::new(RealEnv::new());
        let pool = cenote_pool::import(&candidates[0], &common::options(), env);
        self.pool = Some(pool.expect("imported"));
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

    fn create(&mut self, component: &str) {
        let name = format!("{}/{component}", self.pool().name());
        let task = CreateDataset {
            name: named(&name),
            kind: ObjsetKind::Other,
            properties: Vec::new(),
            encryption: Encryption::Inherit,
            format: None,
            created: None,
        };
        self.run(task).expect("made");
        let mut world = World::new(self.random.next());
        world.types = (ObjectType(25), ObjectType(26));
        let snapshots = Vec::new();
        self.sets.insert(name, Set { world, snapshots });
    }

    fn pick(&mut self) -> String {
        let index = self.random.below(self.sets.len() as u64) as usize;
        self.sets.keys().nth(index).expect("there are some").clone()
    }

    fn new_name(&mut self) -> String {
        self.made += 1;
        format!("s{}", self.made)
    }

    /// Random steps, each of which leaves all sums right.
    pub fn steps(&mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
            let problems = cenote_dsl::check(self.pool().dsl());
            assert!(problems.is_empty(), "{:?}: {problems:#?}", self.counts);
        }
        self.compare();
    }

    fn step(&mut self) {
        let (kind, step): (_, fn(&mut Self)) = match self.random.below(10) {
            0..=4 => ("write", Self::write),
            5..=7 => ("snapshot", Self::snapshot),
            _ => ("destroy", Self::destroy),
        };
        *self.counts.entry(kind).or_default() += 1;
        step(self);
    }

    fn write(&mut self) {
        let name = self.pick();
        let dataset = self.pool().dsl().dataset(&named(&name)).expect("there");
        let gate = Arc::clone(self.pool().gate().expect("writable"));
        let head = self.pool().dsl().open_for_writing(&dataset, &gate);
        let head = head.expect("opens");
        let steps = 1 + self.random.below(40);
        let set = self.sets.get_mut(&name).expect("in the model");
        for _ in 0..steps {
            let tx = gate.begin(TxCost::default()).expect("not suspended");
            set.world.step(head.set(), &tx);
        }
        // What is open is in the next snapshot.
        if self.random.below(2) == 0 {
            self.pool().sync().expect("written");
        }
    }

    fn snapshot(&mut self) {
        let snap = self.new_name();
        let mut sets: Vec<String> = self.sets.keys().cloned().collect();
        let chosen = self.pick();
        if self.random.below(4) > 0 {
            sets.retain(|name| *name == chosen);
        }
        let names = sets.iter().map(|name| named(&format!("{name}@{snap}")));
        let task = CreateSnapshots {
            names: names.collect(),
            properties: Vec::new(),
        };
        self.run(task).expect("made");
        for name in sets {
            let set = self.sets.get_mut(&name).expect("in the model");
            set.snapshots.push(Snap {
                name: snap.clone(),
                contents: set.world.model.clone(),
            });
        }
    }

    fn destroy(&mut self) {
        let name = self.pick();
        let mut names = Vec::new();
        let count = 1 + self.random.below(3);
        for _ in 0..count {
            let set = self.sets.get_mut(&name).expect("in the model");
            if set.snapshots.is_empty() {
                break;
            }
            let index = self.random.below(set.snapshots.len() as u64) as usize;
            let snap = set.snapshots.remove(index);
            names.push(named(&format!("{name}@{}", snap.name)));
        }
        let task = DestroySnapshots {
            names,
            defer: false,
        };
        self.run(task).expect("destroyed");
    }

    /// Compares all heads and snapshots with the model.
    pub fn compare(&self) {
        let dsl = self.pool().dsl();
        for (name, set) in &self.sets {
            let head = dsl.dataset(&named(name)).expect("there");
            set.world.compare(&head.object_set().expect("opens"));
            let found = head.listed_snapshots().expect("readable");
            let found: Vec<_> = found
                .iter()
                .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
                .collect();
            let expected: Vec<_> = set.snapshots.iter().map(|snap| snap.name.clone()).collect();
            assert_eq!(found, expected, "snapshots of {name}");
            for snap in &set.snapshots {
                let name = named(&format!("{name}@{}", snap.name));
                let snapshot = dsl.dataset(&name).expect("there");
                let mut world = World::new(1);
                world.model = snap.contents.clone();
                world.compare(&snapshot.object_set().expect("opens"));
            }
        }
    }
}
