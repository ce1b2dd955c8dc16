//! Walks all datasets of a pool.

use super::failure::Failure;
use cenote_dsl::{Dataset, Directory, Dsl, DslError};
use std::sync::Arc;

/// The maximum number of heads in a walk: more than any pool has. It ends the walk if a damaged
/// tree has a cycle.
const HEADS_MAX: usize = 1 << 20;

/// Iterates over the heads of all datasets below a directory, parents first, in order of names.
///
/// A dataset that cannot be opened yields an error, and the walk continues after it.
#[derive(Debug)]
pub struct DatasetWalk {
    pending: Vec<Result<Arc<Directory>, Failure>>,
    left: usize,
}

fn failure(name: &str, source: DslError) -> Failure {
    Failure::Dataset {
        dataset: name.to_owned(),
        source: Box::new(source),
    }
}

impl DatasetWalk {
    /// Walks the whole pool.
    pub fn new(dsl: &Arc<Dsl>) -> Result<Self, Failure> {
        let root = dsl.root();
        let root = root.map_err(|source| failure(dsl.pool_name().as_str(), source))?;
        Ok(Self::below(root))
    }

    /// Walks `directory` and everything below it.
    pub fn below(directory: Arc<Directory>) -> Self {
        Self {
            pending: vec![Ok(directory)],
            left: HEADS_MAX,
        }
    }

    fn push_children(&mut self, directory: &Arc<Directory>) {
        let name = directory.name().as_str();
        match directory.listed_children() {
            Ok(children) => {
                let opened = children.iter().rev().map(|child| {
                    let opened = directory.open_child(child);
                    opened.map_err(|source| failure(name, source))
                });
                self.pending.extend(opened);
            }
            Err(source) => self.pending.push(Err(failure(name, source))),
        }
    }
}

impl Iterator for DatasetWalk {
    type Item = Result<Dataset, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.left = self.left.checked_sub(1)?;
            let directory = match self.pending.pop()? {
                Ok(directory) => directory,
                Err(failure) => return Some(Err(failure)),
            };
            self.push_children(&directory);
            match directory.head() {
                Ok(Some(head)) => return Some(Ok(head)),
                Ok(None) => {}
                Err(source) => return Some(Err(failure(directory.name().as_str(), source))),
            }
        }
    }
}
