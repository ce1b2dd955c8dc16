//! What the checks look at and what they find.

use std::fmt;

/// One place that breaks one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, from the root of the workspace.
    pub path: String,
    /// The line, from 1; 0 when it is about the file as a whole.
    pub line: usize,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// A text file of the workspace.
pub(super) struct TextFile {
    /// From the root of the workspace, with `/` between the parts.
    pub path: String,
    /// The contents.
    pub text: String,
}

impl TextFile {
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub fn problem(&self, line: usize, message: impl Into<String>) -> Problem {
        Problem {
            path: self.path.clone(),
            line,
            message: message.into(),
        }
    }
}
