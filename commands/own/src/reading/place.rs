//! A file in a pool, for messages.

use std::fmt;

/// A file in a pool, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The dataset's or snapshot's full name.
    pub dataset: String,
    /// The path from its root; a leading slash changes nothing.
    pub path: Vec<u8>,
}

impl Place {
    /// A place in `dataset`.
    pub fn new(dataset: &str, path: impl Into<Vec<u8>>) -> Self {
        Self {
            dataset: dataset.into(),
            path: path.into(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.strip_prefix(b"/").unwrap_or(&self.path);
        write!(f, "{}:/{}", self.dataset, String::from_utf8_lossy(path))
    }
}
