//! Changes of a tree of encryption roots, each with what must be so afterwards.
//!
//! One method decides for all changes whether they are allowed: the change is made to a copy of the
//! forest, and the rule of [`Forest::stray`] is checked for all datasets.

use super::forest::{Forest, Tree};
use super::{material, named, new_dataset, run, user_key, with_key};
use cenote_base::{Guid, ObjectId};
use cenote_dsl::DslError;
use cenote_dsl::write::{
    BeginReceive, ChangeKey, CloneDataset, CreateSnapshots, DestroyDataset, DestroySnapshots,
    Encryption, EndReceive, KeyOwner, Postponed, PromoteDataset, RECEIVE_CHILD, ReceiveInto,
    RenameDataset, RollbackDataset, SyncTask,
};
use cenote_ondisk::objset::ObjsetKind;
use cenote_pool::Pool;
use cenote_tests::random::Random;
use std::collections::BTreeMap;

/// How often each kind of change was done and refused.
pub type Counts = BTreeMap<&'static str, (u64, u64)>;

/// Datasets of one tree, at most.
const DATASETS_MAX: usize = 14;

/// A pool, and what is known of its keys.
pub struct Grove {
    pool: Option<Pool>,
    random: Random,
    made: u64,
    /// The key of each encryption root.
    secrets: BTreeMap<ObjectId, u8>,
    counts: Counts,
    /// Whether changes are printed, and only those made that others can repeat.
    is_traced: bool,
}

/// What became of a change.
struct Outcome {
    kind: &'static str,
    is_done: bool,
}

impl Grove {
    pub fn new(seed: u64, pool: Pool) -> Self {
        let mut grove = Self {
            pool: Some(pool),
            random: Random::new(seed),
            made: 0,
            secrets: BTreeMap::new(),
            counts: Counts::new(),
            is_traced: std::env::var_os(super::TRACE).is_some(),
        };
        grove.trace(&format!("tree {seed}"), true);
        grove.create(true);
        grove.create(true);
        grove
    }

    fn pool(&self) -> &Pool {
        self.pool.as_ref().expect("open")
    }

    pub fn close(&mut self) {
        let pool = self.pool.take().expect("open");
        pool.export().expect("written");
    }

    pub fn open(&mut self, pool: Pool) {
        self.pool = Some(pool);
        self.check();
    }

    pub fn add_to(&self, counts: &mut Counts) {
        for (kind, (done, refused)) in &self.counts {
            let sum = counts.entry(kind).or_default();
            sum.0 += done;
            sum.1 += refused;
        }
    }

    pub fn steps(&mut self, steps: u64) {
        for _ in 0..steps {
            let outcome = self.step();
            let count = self.counts.entry(outcome.kind).or_default();
            match outcome.is_done {
                true => count.0 += 1,
                false => count.1 += 1,
            }
            self.check();
        }
    }

    /// All keys open the right datasets, and no others do.
    fn check(&mut self) {
        let (pool, forest) = (self.pool(), Forest::of(self.pool()));
        forest.check();
        let dsl = pool.dsl();
        let roots = forest.roots();
        for root in &roots {
            let directory = dsl.directory_of(*root).expect("there");
            let name = directory.name();
            if dsl.keys().is_loaded(*root) {
                dsl.unload_key(&directory).expect("unloaded");
            }
            let secret = self.secrets[root];
            let wrong = dsl.load_key(&directory, &material(!secret), false);
            assert!(matches!(wrong, Err(DslError::WrongKey { .. })), "{name}");
            let loaded = dsl.load_key(&directory, &material(secret), false);
            loaded.unwrap_or_else(|error| panic!("{name}: {error}; {forest:#?}"));
        }
        forest.open_all(pool);
        // Some changes need a key that is not there.
        for root in roots {
            if self.random.below(8) == 0 && !self.is_traced {
                let dsl = self.pool().dsl();
                let directory = dsl.directory_of(root).expect("there");
                dsl.unload_key(&directory).expect("unloaded");
            }
        }
    }

    fn step(&mut self) -> Outcome {
        let is_full = Forest::of(self.pool()).0.len() >= DATASETS_MAX;
        match self.random.below(20) {
            0 | 1 if !is_full => self.create(true),
            2..=4 if !is_full => self.create(false),
            5 | 6 => self.snapshot(),
            7..=9 if !is_full => self.copy(),
            10 | 11 => self.promote(),
            12 | 13 => self.change_key(true),
            14 => self.change_key(false),
            15 if !self.is_traced => self.receive(),
            16 if !self.is_traced => self.destroy(),
            17 if !self.is_traced => self.roll_back(),
            _ => self.rename(),
        }
    }

    /// Prints a change for others to repeat.
    fn trace(&self, words: &str, is_done: bool) {
        if self.is_traced {
            println!("{} {words}", if is_done { "done" } else { "refused" });
        }
    }

    fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    fn pick(&mut self) -> String {
        let forest = Forest::of(self.pool());
        let is_shown = |tree: &&Tree| !tree.name.contains('%');
        let trees: Vec<&Tree> = forest.0.values().filter(is_shown).collect();
        self.random.choose(&trees).name.clone()
    }

    /// A name that is new.
    fn new_name(&mut self) -> String {
        format!("{}/n{}", self.pick(), self.number())
    }

    /// Some snapshot of a dataset.
    fn pick_snapshot(&mut self) -> Option<String> {
        let name = self.pick();
        let head = self.pool().dsl().dataset(&named(&name)).expect("there");
        let snapshots = head.listed_snapshots().expect("readable");
        if snapshots.is_empty() {
            return None;
        }
        let chosen = &self.random.choose(&snapshots).name;
        Some(format!("{name}@{}", String::from_utf8_lossy(chosen)))
    }

    /// Carries out a change that leads to the forest `after`, and must be refused if there is none.
    fn tell<T: SyncTask + 'static>(
        &mut self,
        (kind, words): (&'static str, &str),
        task: T,
        after: Option<&Forest>,
    ) -> Outcome {
        let before = Forest::of(self.pool());
        let result = run(self.pool(), task).map(drop);
        let is_done = result.is_ok();
        self.trace(&format!("{kind} {words}"), is_done);
        let found = Forest::of(self.pool());
        let expected = after.filter(|_| is_done).unwrap_or(&before);
        assert_eq!(found, *expected, "{kind} {words}: {result:?}");
        assert!(
            !is_done || after.is_some(),
            "{kind} {words} was not refused"
        );
        // With all keys loaded, and nothing else in the way, it would have been done.
        if let (Err(DslError::LeavesEncryptionRoot { .. }), Some(_)) = (&result, after) {
            panic!("{kind} {words}: {result:?} in {before:#?}");
        }
        Outcome { kind, is_done }
    }

    fn create(&mut self, is_root: bool) -> Outcome {
        let (name, secret) = (self.new_name(), self.number() as u8);
        let (kind, encryption) = match is_root {
            true => ("root", with_key(&name, secret)),
            false if self.random.below(6) == 0 => ("plain", Encryption::Off),
            false => ("create", Encryption::Inherit),
        };
        let made = run(self.pool(), new_dataset(&name, encryption));
        if is_root {
            let id = Forest::of(self.pool()).id(&name);
            self.secrets.insert(id, secret);
        }
        let is_done = made.is_ok();
        self.trace(&format!("{kind} {name} {}", u64::from(secret)), is_done);
        assert!(is_done || matches!(made, Err(DslError::KeyRequired { .. })));
        let kind = "create";
        Outcome { kind, is_done }
    }

    fn snapshot(&mut self) -> Outcome {
        let name = format!("{}@s{}", self.pick(), self.number());
        let before = Forest::of(self.pool());
        let (names, properties) = (vec![named(&name)], Vec::new());
        let task = CreateSnapshots { names, properties };
        self.tell(("snapshot", &name), task, Some(&before))
    }

    fn copy(&mut self) -> Outcome {
        let kind = "clone";
        let (Some(origin), name) = (self.pick_snapshot(), self.new_name()) else {
            let is_done = false;
            return Outcome { kind, is_done };
        };
        let task = CloneDataset {
            origin: named(&origin),
            name: named(&name),
            properties: Vec::new(),
            created: None,
        };
        let is_done = run(self.pool(), task).is_ok();
        self.trace(&format!("{kind} {origin} {name}"), is_done);
        Outcome { kind, is_done }
    }

    fn rename(&mut self) -> Outcome {
        let (from, to) = (self.pick(), self.new_name());
        let before = Forest::of(self.pool());
        let id = before.id(&from);
        let parent = to.rsplit_once('/').expect("not the pool").0;
        let target = before.id(parent);
        let is_inside = parent == from || parent.starts_with(&format!("{from}/"));
        let mut after = before.clone();
        for tree in after.0.values_mut() {
            match tree.name.strip_prefix(&from) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                    tree.name = format!("{to}{rest}");
                }
                _ => {}
            }
        }
        let tree = after.0.get_mut(&id).expect("there");
        let is_moved = tree.parent != Some(target);
        tree.parent = Some(target);
        // OpenZFS leaves clones of other datasets within the root that they are in, or nowhere.
        let root = before.0[&id].root.filter(|root| *root != id);
        let leaves = is_moved && root.is_some() && root != before.0[&target].root;
        let is_possible = !is_inside && !leaves && after.stray().is_none();
        let task = RenameDataset {
            from: named(&from),
            to: named(&to),
        };
        let words = format!("{from} {to}");
        self.tell(
            ("rename", &words),
            task,
            Some(&after).filter(|_| is_possible),
        )
    }

    fn promote(&mut self) -> Outcome {
        let name = self.pick();
        let before = Forest::of(self.pool());
        let id = before.id(&name);
        let task = PromoteDataset { name: named(&name) };
        let Some(origin) = before.0[&id].origin else {
            return self.tell(("promote of no clone", &name), task, None);
        };
        let from = origin.directory;
        let mut after = before.clone();
        let above = after.0[&from].origin;
        for (other, tree) in &mut after.0 {
            if *other == id {
                tree.origin = above;
            } else if *other == from {
                tree.origin = Some(super::forest::Origin {
                    directory: id,
                    txg: origin.txg,
                });
            } else if let Some(of) = &mut tree.origin
                && of.directory == from
                && of.txg <= origin.txg
            {
                of.directory = id;
            }
            if tree.root == Some(from) {
                tree.root = Some(id);
            }
        }
        let is_possible = after.stray().is_none();
        let outcome = self.tell(
            ("promote", &name),
            task,
            Some(&after).filter(|_| is_possible),
        );
        if outcome.is_done
            && let Some(secret) = self.secrets.remove(&from)
        {
            self.secrets.insert(id, secret);
        }
        outcome
    }

    fn change_key(&mut self, is_new: bool) -> Outcome {
        let (name, secret) = (self.pick(), self.number() as u8);
        let before = Forest::of(self.pool());
        let id = before.id(&name);
        let tree = &before.0[&id];
        let root = match is_new {
            true => Some(id),
            false => tree.parent.and_then(|parent| before.0[&parent].root),
        };
        let root = root.filter(|root| is_new || *root != id);
        let is_possible = tree.root.is_some()
            && tree.origin.is_none()
            && root.is_some()
            && (is_new || tree.root == Some(id));
        let mut after = before.clone();
        for (other, changed) in &mut after.0 {
            if changed.root == tree.root && before.is_heir(*other, id) {
                changed.root = root;
            }
        }
        let key = is_new.then(|| user_key(&name, secret));
        let task = ChangeKey::new(named(&name), key);
        let kind = if is_new { "key" } else { "inherit" };
        let after = Some(&after).filter(|_| is_possible);
        let words = format!("{name} {}", u64::from(secret));
        let outcome = self.tell((kind, &words), task, after);
        if outcome.is_done && is_new {
            self.secrets.insert(id, secret);
        }
        outcome
    }

    /// Destroys a dataset, its snapshots first.
    fn destroy(&mut self) -> Outcome {
        let name = self.pick();
        let head = self.pool().dsl().dataset(&named(&name)).expect("there");
        let snapshots = head.listed_snapshots().expect("readable");
        let names: Vec<_> = snapshots
            .iter()
            .filter_map(|entry| named(&name).snapshot(&entry.name).ok())
            .collect();
        drop(head);
        let before = Forest::of(self.pool());
        let id = before.id(&name);
        let task = DestroySnapshots {
            names,
            defer: false,
        };
        self.tell(("destroy snapshots of", &name), task, Some(&before));
        let mut after = before.clone();
        after.0.remove(&id);
        let task = DestroyDataset { name: named(&name) };
        let outcome = self.tell(("destroy", &name), task, Some(&after));
        if outcome.is_done {
            self.secrets.remove(&id);
        }
        outcome
    }

    fn roll_back(&mut self) -> Outcome {
        let kind = "rollback";
        let Some(snapshot) = self.pick_snapshot() else {
            let is_done = false;
            return Outcome { kind, is_done };
        };
        let before = Forest::of(self.pool());
        let task = RollbackDataset {
            snapshot: named(&snapshot),
        };
        self.tell((kind, &snapshot), task, Some(&before))
    }

    /// Receives what has no contents: into a new dataset, or upon a snapshot by way of a hidden
    /// clone, below which keys change meanwhile.
    fn receive(&mut self) -> Outcome {
        let kind = "receive";
        let is_new = self.random.below(2) == 0;
        let (name, into) = match (is_new, self.pick_snapshot()) {
            (false, Some(base)) => {
                let base = self.pool().dsl().dataset(&named(&base)).expect("there");
                let name = base.name().dataset().to_string();
                (name, ReceiveInto::Existing(Some(base.id())))
            }
            _ => (self.new_name(), ReceiveInto::New),
        };
        let snapshot = format!("r{}", self.number());
        let task = BeginReceive {
            name: named(&name),
            snapshot: snapshot.clone(),
            into,
            kind: ObjsetKind::Other,
            ignores_case: false,
            properties: Vec::new(),
            postponed: Postponed::default(),
            refused: Vec::new(),
            encryption: Encryption::Inherit,
            keys: None,
            redaction: None,
            resume: None,
            created: None,
        };
        let Ok(begun) = run(self.pool(), task) else {
            let is_done = false;
            return Outcome { kind, is_done };
        };
        Forest::of(self.pool()).check();
        self.change_key(true);
        let received = begun.created.expect("made");
        let end = EndReceive {
            name: named(&name),
            snapshot,
            received,
            force: true,
            guid: Guid(self.random.next_u64()),
            creation_time: 1,
            ivset_guid: None,
            keys: None,
            key_owner: KeyOwner::Unknown,
            refused: Vec::new(),
        };
        let ended = run(self.pool(), end).map(drop);
        let is_done = ended.is_ok();
        if let Err(error) = ended {
            assert!(matches!(error, DslError::MoreRecent { .. }), "{error:?}");
            let name = named(&name)
                .child(RECEIVE_CHILD.as_bytes())
                .expect("a name");
            run(self.pool(), DestroyDataset { name }).expect("given up");
        }
        Outcome { kind, is_done }
    }
}
