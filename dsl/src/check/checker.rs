//! What the checks share: the problems and counts that they have found so far.

use super::tally::Tally;
use crate::dsl::Dsl;
use crate::error::DslError;
use cenote_base::ObjectId;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Problems that are collected; a pool with more is broken enough.
const PROBLEMS_MAX: usize = 10_000;

/// One figure that does not add up, or one thing that could not be checked.
#[derive(Debug)]
pub enum CheckProblem {
    /// A stored figure is wrong.
    Mismatch {
        /// The dataset, or the object if it has no name.
        place: String,
        /// What was checked.
        what: &'static str,
        /// The correct value.
        expected: i128,
        /// What is stored.
        found: i128,
    },
    /// Something could not be read.
    Unreadable {
        /// The dataset, or the object if it has no name.
        place: String,
        /// Why.
        error: DslError,
    },
}

impl fmt::Display for CheckProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch {
                place,
                what,
                expected,
                found,
            } => {
                write!(f, "{place}: {what} is {found}, should be {expected}")
            }
            Self::Unreadable { place, error } => write!(f, "{place}: {error}"),
        }
    }
}

/// What the walk has found out, for checks that need all datasets.
pub(super) struct Checker<'d> {
    pub(super) dsl: &'d Arc<Dsl>,
    pub(super) problems: Vec<CheckProblem>,
    pub(super) tally: Tally,
    /// Directories by the order in which the walk met them: parents before children.
    pub(super) directories: Vec<Visited>,
    /// Directories met, so that a directory with two names is not followed twice.
    pub(super) seen: HashSet<ObjectId>,
    /// Something was unreadable, so that sums over everything would be wrong.
    pub(super) incomplete: bool,
}

/// A directory of which the counts are still to be summed.
pub(super) struct Visited {
    pub(super) name: String,
    pub(super) parent: Option<usize>,
    pub(super) listed: bool,
    pub(super) filesystem_count: Option<u64>,
    pub(super) snapshot_count: Option<u64>,
    pub(super) snapshots: u64,
}

impl<'d> Checker<'d> {
    pub(super) fn new(dsl: &'d Arc<Dsl>) -> Self {
        Self {
            dsl,
            problems: Vec::new(),
            tally: Tally::default(),
            directories: Vec::new(),
            seen: HashSet::new(),
            incomplete: false,
        }
    }

    pub(super) fn report(&mut self, problem: CheckProblem) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    pub(super) fn unreadable(&mut self, place: impl fmt::Display, error: DslError) {
        let place = place.to_string();
        self.incomplete = true;
        self.report(CheckProblem::Unreadable { place, error });
    }

    pub(super) fn expect(
        &mut self,
        place: impl fmt::Display,
        what: &'static str,
        expected: impl Into<i128>,
        found: impl Into<i128>,
    ) {
        let (expected, found) = (expected.into(), found.into());
        if expected != found {
            let place = place.to_string();
            self.report(CheckProblem::Mismatch {
                place,
                what,
                expected,
                found,
            });
        }
    }
}
