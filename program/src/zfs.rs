//! The pool as a program sees it.

use crate::datum::Datum;
use crate::errors::Errno;

/// What a program can walk through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Bookmarks of a file system or volume.
    Bookmarks,
    /// Datasets directly below a file system.
    Children,
    /// Clones of a snapshot.
    Clones,
    /// Holds of a snapshot: tags and times.
    Holds,
    /// Snapshots of a file system or volume.
    Snapshots,
    /// User properties of a dataset: names, values and sources.
    UserProperties,
    /// The names of the properties that apply to a dataset.
    SystemProperties,
}

/// A change that a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the arguments in zfs-program(8)"
)]
pub enum Operation {
    Destroy {
        dataset: String,
        defer: bool,
    },
    Inherit {
        dataset: String,
        property: String,
    },
    Promote {
        dataset: String,
    },
    RollBack {
        dataset: String,
    },
    SetProperty {
        dataset: String,
        property: String,
        value: String,
    },
    Snapshot {
        dataset: String,
    },
    RenameSnapshot {
        dataset: String,
        from: String,
        to: String,
    },
    Bookmark {
        source: String,
        bookmark: String,
    },
}

/// How a change went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Why it was refused.
    pub error: Option<Errno>,
    /// More about that.
    pub details: Vec<String>,
}

impl Answer {
    /// The change was made, or can be.
    pub const DONE: Self = Self {
        error: None,
        details: Vec::new(),
    };

    /// It was refused.
    pub fn refused(error: Errno) -> Self {
        Self {
            error: Some(error),
            details: Vec::new(),
        }
    }
}

/// A question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// An error of the program.
    Error(String),
    /// Only a transaction group knows the answer.
    NeedsGroup,
    /// The pool's metadata cannot be read, and the program ends.
    Fatal(String),
}

/// The datasets of one pool. Names that are not the pool's are errors.
pub trait Zfs {
    /// Whether the client has disconnected. It is asked often.
    fn is_cancelled(&mut self) -> bool;

    /// Records a message.
    fn debug(&mut self, message: &str);

    /// Whether there is a dataset.
    ///
    /// # Errors
    /// If it could not be in the pool.
    fn exists(&mut self, dataset: &str) -> Result<bool, Refused>;

    /// A property's value, and its source if it has one.
    ///
    /// # Errors
    /// If there is no such dataset or property.
    fn property(
        &mut self,
        dataset: &str,
        property: &str,
    ) -> Result<(Datum, Option<String>), Refused>;

    /// A list. Each item has the values of one step.
    ///
    /// # Errors
    /// If there is no such dataset, or it has no such list.
    fn list(&mut self, list: List, of: &str) -> Result<Vec<Vec<Datum>>, Refused>;

    /// Makes a change, or with `is_dry` only says how it would go.
    ///
    /// # Errors
    /// If that cannot be found out.
    fn operate(&mut self, operation: &Operation, is_dry: bool) -> Result<Answer, Refused>;
}
