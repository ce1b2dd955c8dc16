//! What a pool says of its datasets' keys, and the rule that holds for all of them.

use cenote_base::{ObjectId, Txg};
use cenote_dsl::Directory;
use cenote_pool::Pool;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a dataset is a clone of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub directory: ObjectId,
    pub txg: Txg,
}

/// A dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub name: String,
    pub parent: Option<ObjectId>,
    pub origin: Option<Origin>,
    /// Its encryption root.
    pub root: Option<ObjectId>,
}

/// All datasets by the numbers of their directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forest(pub BTreeMap<ObjectId, Tree>);

impl Forest {
    pub fn of(pool: &Pool) -> Self {
        let mut trees = BTreeMap::new();
        let mut stack = vec![pool.dsl().root().expect("readable")];
        while let Some(directory) = stack.pop() {
            for child in directory.children().expect("readable") {
                if !child.component.starts_with(b"$") {
                    stack.push(directory.open_child(&child).expect("readable"));
                }
            }
            trees.insert(directory.id(), Tree::of(pool, &directory));
        }
        Self(trees)
    }

    pub fn id(&self, name: &str) -> ObjectId {
        let found = self.0.iter().find(|(_, tree)| tree.name == name);
        *found.expect("there").0
    }

    pub fn root_of(&self, name: &str) -> Option<String> {
        let root = self.0[&self.id(name)].root?;
        Some(self.0[&root].name.clone())
    }

    /// The dataset that another has its key from.
    pub fn giver(&self, id: ObjectId) -> Option<ObjectId> {
        let tree = &self.0[&id];
        match tree.origin {
            Some(origin) => Some(origin.directory),
            None => tree.parent,
        }
    }

    /// Whether the dataset has its key from `from`, or is it.
    pub fn is_heir(&self, id: ObjectId, from: ObjectId) -> bool {
        let root = self.0[&id].root;
        let mut at = id;
        for _ in 0..=self.0.len() {
            if at == from {
                return true;
            }
            if Some(at) == root {
                return false;
            }
            match self.giver(at) {
                Some(giver) => at = giver,
                None => return false,
            }
        }
        false
    }

    /// A dataset that does not have its key from its encryption root.
    pub fn stray(&self) -> Option<&Tree> {
        let is_stray = |(id, tree): &(&ObjectId, &Tree)| {
            let Some(root) = tree.root else {
                return false;
            };
            let mut at = **id;
            for _ in 0..=self.0.len() {
                if at == root {
                    return false;
                }
                match self.giver(at).filter(|at| self.0[at].root == Some(root)) {
                    Some(giver) => at = giver,
                    None => return true,
                }
            }
            true
        };
        self.0.iter().find(is_stray).map(|(_, tree)| tree)
    }

    pub fn check(&self) {
        let stray = self.stray();
        assert!(stray.is_none(), "{stray:?} in {self:#?}");
    }

    pub fn roots(&self) -> BTreeSet<ObjectId> {
        self.0.values().filter_map(|tree| tree.root).collect()
    }

    /// Opens all datasets and snapshots, whose keys must be loaded.
    pub fn open_all(&self, pool: &Pool) {
        for (id, tree) in &self.0 {
            let name = &tree.name;
            let directory = pool.dsl().directory_of(*id).expect("there");
            let head = directory.head().expect("readable").expect("a head");
            let opened = head.object_set().map(drop);
            opened.unwrap_or_else(|error| panic!("{name}: {error}; {self:#?}"));
            for entry in head.listed_snapshots().expect("readable") {
                let snapshot = head.open_snapshot(&entry).expect("there");
                let opened = snapshot.object_set().map(drop);
                opened.unwrap_or_else(|error| panic!("{}: {error}", snapshot.name()));
            }
        }
    }
}

impl Tree {
    fn of(pool: &Pool, directory: &Arc<Directory>) -> Self {
        let key = directory.crypto_key().expect("readable");
        let origin = directory.origin().map(|origin| {
            let origin = pool.dsl().dataset_of(origin).expect("there");
            Origin {
                directory: origin.directory().id(),
                txg: origin.phys().creation_txg,
            }
        });
        Self {
            name: directory.name().to_string(),
            parent: directory.parent().map(|parent| parent.id()),
            origin,
            root: key.map(|key| key.root()),
        }
    }
}
