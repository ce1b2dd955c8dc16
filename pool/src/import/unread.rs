//! Metadata that an import reads, and that files can be read without.
//!
//! A pool is often imported read-only to rescue its data. Metadata that only writing needs must not
//! prevent that: an unreadable table is noted and replaced by a harmless default. A pool that is
//! imported for writing needs all tables, because a writer without the allocations would overwrite
//! data.
//!
//! | table | what only reads does without it |
//! | --- | --- |
//! | metaslab arrays, space maps, their logs | the space in use is not known |
//! | feature tables | the label has said which features are in use |
//! | allocation classes | a vdev is shown as one for everything |
//! | dirty time logs | what a device missed is found out by checksums |
//! | mappings of removed vdevs | blocks that were moved from there cannot be read |
//! | `$ORIGIN` | datasets that are no clones may be shown as such |
//!
//! All imports need the object directory, the configuration and the list of datasets. One dataset
//! with an unreadable object set does not affect the others, nor keep the pool from being written
//! to ([`crate::import::claim`]).

use crate::error::ImportError;
use std::fmt;

/// Tables that are named at most: each top-level vdev has a few, each leaf one.
const NAMED_MAX: usize = 100;

/// A table that could not be read when a pool was imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadTable {
    /// Which, and what is not known without it.
    pub what: String,
    /// Why.
    pub reason: String,
}

impl fmt::Display for UnreadTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be read: {}", self.what, self.reason)
    }
}

/// Tables that could not be read so far, and whether that is allowed.
#[derive(Debug)]
pub(crate) struct Unread {
    is_allowed: bool,
    tables: Vec<UnreadTable>,
}

impl Unread {
    /// Of an import that reads only, or of one for writing.
    pub(crate) fn new(reads_only: bool) -> Self {
        Self {
            is_allowed: reads_only,
            tables: Vec::new(),
        }
    }

    pub(crate) fn is_allowed(&self) -> bool {
        self.is_allowed
    }

    /// What was read, or its default with a note why it was not.
    pub(crate) fn or_default<T: Default, E: Into<ImportError>>(
        &mut self,
        what: impl fmt::Display,
        read: Result<T, E>,
    ) -> Result<T, ImportError> {
        let error = match read {
            Ok(read) => return Ok(read),
            Err(error) => error.into(),
        };
        if !self.is_allowed {
            let what = what.to_string();
            let source = Box::new(error);
            return Err(ImportError::NeededForWriting { what, source });
        }
        self.note(what, &error);
        Ok(T::default())
    }

    pub(crate) fn note(&mut self, what: impl fmt::Display, error: &dyn fmt::Display) {
        if self.tables.len() < NAMED_MAX {
            self.tables.push(UnreadTable {
                what: what.to_string(),
                reason: error.to_string(),
            });
        }
    }

    pub(crate) fn into_tables(self) -> Vec<UnreadTable> {
        self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reading_does_without() {
        let damaged = || Err::<u64, _>(ImportError::NoCheckpoint);
        let mut unread = Unread::new(true);
        let read = unread.or_default("the table of x", damaged());
        assert!(matches!(read, Ok(0)));
        let tables = unread.into_tables();
        let text = "the table of x cannot be read: the pool has no checkpoint";
        assert_eq!(tables[0].to_string(), text);
        let refused = Unread::new(false).or_default("the table of x", damaged());
        let text = refused.expect_err("needed").to_string();
        assert!(text.starts_with("the table of x"), "{text}");
        assert!(text.contains("readonly=on"), "{text}");
    }
}
