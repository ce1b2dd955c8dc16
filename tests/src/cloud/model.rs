//! What the files are after each of a number of changes.

use crate::random::Random;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The digest of each file's contents.
pub(super) type Files = BTreeMap<String, [u8; 32]>;

/// A change.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A file gets new contents: their seed and length.
    Put(String, u64, u64),
    /// A file goes.
    Remove(String),
}

/// The files after each change, from none on.
#[derive(Debug)]
pub(super) struct Model {
    states: Vec<Files>,
    confirmed: usize,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            states: vec![Files::new()],
            confirmed: 0,
        }
    }
}

impl Model {
    pub(super) fn push(&mut self, change: Change) {
        let mut files = self.states.last().cloned().unwrap_or_default();
        match change {
            Change::Put(name, seed, length) => {
                files.insert(name, digest(&contents(seed, length)));
            }
            Change::Remove(name) => {
                files.remove(&name);
            }
        }
        self.states.push(files);
    }

    /// How many changes there were.
    pub(super) fn now(&self) -> usize {
        self.states.len() - 1
    }

    /// Everything so far is in the store.
    pub(super) fn confirm(&mut self) {
        self.confirmed = self.now();
    }

    /// So many changes cannot be undone any more.
    pub(super) fn confirmed(&self) -> usize {
        self.confirmed
    }

    /// After how many changes, at least `from`, the files were so; the most of them.
    pub(super) fn find(&self, files: &Files, from: usize) -> Option<usize> {
        (from..self.states.len())
            .rev()
            .find(|at| self.states[*at] == *files)
    }

    /// What came after so many changes never was.
    pub(super) fn go_back(&mut self, at: usize) {
        self.states.truncate(at + 1);
    }
}

/// The contents of a file.
pub(super) fn contents(seed: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(length).expect("a file fits in memory")];
    Random::new(seed).fill(&mut bytes);
    bytes
}

pub(super) fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_found_and_gone_back_to() {
        let mut model = Model::default();
        model.push(Change::Put("a".into(), 1, 10));
        model.confirm();
        model.push(Change::Remove("a".into()));
        let mut found = Files::new();
        assert_eq!(model.find(&found, model.confirmed()), Some(2));
        found.insert("a".into(), digest(&contents(1, 10)));
        assert_eq!(model.find(&found, model.confirmed()), Some(1));
        assert_eq!(model.find(&found, model.now()), None);
        model.go_back(1);
        assert_eq!(model.now(), 1);
    }
}
