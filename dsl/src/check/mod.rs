//! Recomputes what datasets keep account of, and says where the books are wrong.
//!
//! Source: format/3a 5, "Invariants". OpenZFS keeps these sums as it goes and never adds them up
//! again, so a mistake of any writer stays until something underflows. Each check names its
//! place, what was checked, and both figures. A dataset that cannot be read is one problem and
//! does not keep the others from being checked; sums that would need it are then left out.

mod checker;
mod features;
mod lists;
mod space;
mod tally;

pub use checker::CheckProblem;

use crate::dataset::Dataset;
use crate::directory::Directory;
use crate::dsl::Dsl;
use crate::error::DslError;
use checker::{Checker, Visited};
use std::sync::Arc;

/// Checks the accounting of all datasets and the counts of features.
pub fn check(dsl: &Arc<Dsl>) -> Vec<CheckProblem> {
    let mut checker = Checker::new(dsl);
    match dsl.root() {
        Ok(root) => checker.walk(root),
        Err(error) => checker.unreadable(dsl.pool_name(), error),
    }
    features::check(&mut checker);
    checker.problems
}

impl Checker<'_> {
    fn walk(&mut self, root: Arc<Directory>) {
        let mut stack = vec![(root, None)];
        while let Some((directory, parent)) = stack.pop() {
            if !self.seen.insert(directory.id()) {
                let problem = "two names lead to it";
                let error = DslError::structure(directory.id(), problem);
                self.unreadable(directory.name(), error);
                continue;
            }
            let index = self.directories.len();
            let children = match self.visit(&directory, parent) {
                Ok(children) => children,
                Err(error) => {
                    self.unreadable(directory.name(), error);
                    continue;
                }
            };
            stack.extend(children.into_iter().map(|child| (child, Some(index))));
        }
        self.check_counts();
    }

    /// Checks a directory and its datasets; returns the children.
    fn visit(
        &mut self,
        directory: &Arc<Directory>,
        parent: Option<usize>,
    ) -> Result<Vec<Arc<Directory>>, DslError> {
        use cenote_ondisk::dsl_dir::fields::{FILESYSTEM_COUNT, SNAPSHOT_COUNT};
        let listed = !directory.name().is_hidden();
        let visited = Visited {
            name: directory.name().as_str().to_owned(),
            parent,
            listed,
            filesystem_count: directory.extension_number(FILESYSTEM_COUNT)?,
            snapshot_count: directory.extension_number(SNAPSHOT_COUNT)?,
            snapshots: 0,
        };
        self.directories.push(visited);
        let mut children = Vec::new();
        let entries = directory.children()?;
        let named = directory.child_count()?;
        self.expect(
            directory.name(),
            "the number of child names",
            entries.len() as u64,
            named,
        );
        for entry in entries {
            match directory.open_child(&entry) {
                Ok(child) => children.push(child),
                Err(error) => self.unreadable(directory.name(), error),
            }
        }
        self.tally.add_directory(directory)?;
        match self.datasets(directory) {
            Ok(datasets) => {
                if let Some(visited) = self.directories.last_mut() {
                    let listed = |set: &&Dataset| set.is_snapshot() && !set.name().is_hidden();
                    visited.snapshots = datasets.iter().filter(listed).count() as u64;
                }
                if let Err(error) = space::check_directory(self, directory, &children, &datasets) {
                    self.unreadable(directory.name(), error);
                }
            }
            Err(error) => self.unreadable(directory.name(), error),
        }
        Ok(children)
    }

    /// The head and its snapshots, from the newest to the oldest.
    fn datasets(&mut self, directory: &Arc<Directory>) -> Result<Vec<Dataset>, DslError> {
        let Some(head) = directory.head()? else {
            return Ok(Vec::new());
        };
        let mut snapshots = Vec::new();
        for entry in head.snapshots()?.iter().rev() {
            snapshots.push(head.open_snapshot(entry)?);
        }
        let mut datasets = vec![head];
        datasets.append(&mut snapshots);
        if let Some(head) = datasets.first()
            && let Err(error) = lists::check_livelist(self, head)
        {
            self.unreadable(head.name(), error);
        }
        for dataset in &datasets {
            self.tally.add_dataset(dataset)?;
            if let Err(error) = lists::check_deadlist(self, dataset) {
                self.unreadable(dataset.name(), error);
            }
        }
        Ok(datasets)
    }

    /// Limits count what is below: filesystems without the directory itself, snapshots with.
    fn check_counts(&mut self) {
        let mut below = vec![(0u64, 0u64); self.directories.len()];
        for index in (0..self.directories.len()).rev() {
            let visited = &self.directories[index];
            let (filesystems, snapshots) = below[index];
            let snapshots = snapshots + visited.snapshots;
            if let Some(parent) = visited.parent.filter(|_| visited.listed) {
                below[parent].0 += filesystems + 1;
                below[parent].1 += snapshots;
            }
            let (name, stored) = (
                visited.name.clone(),
                (visited.filesystem_count, visited.snapshot_count),
            );
            if self.incomplete {
                continue;
            }
            if let Some(found) = stored.0 {
                self.expect(&name, "the count of file systems below", filesystems, found);
            }
            if let Some(found) = stored.1 {
                self.expect(&name, "the count of snapshots", snapshots, found);
            }
        }
    }
}
