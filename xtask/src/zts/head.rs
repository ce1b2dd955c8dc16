//! The commit that results belong to.

use crate::workspace;
use anyhow::{Result, ensure};

/// The commit that is checked out.
pub(super) struct Head {
    /// Its full name.
    pub commit: String,
    /// Whether files differ from it.
    pub is_changed: bool,
}

impl Head {
    /// What results are marked with; `+` for changes that are in no commit.
    pub fn stamp(&self) -> String {
        let mark = if self.is_changed { "+" } else { "" };
        format!("{}{mark}", &self.commit[..self.commit.len().min(12)])
    }

    /// Asks git.
    pub fn read() -> Result<Self> {
        let ask = |arguments: &[&str]| -> Result<String> {
            let output = workspace::git().args(arguments).output()?;
            ensure!(output.status.success(), "git {} failed", arguments[0]);
            Ok(String::from_utf8(output.stdout)?.trim().to_owned())
        };
        // Results and the table made from them are no change of the program.
        let changed = ask(&[
            "status",
            "--porcelain",
            "--untracked-files=no",
            "--",
            ":!tests/peer/zts/results.tsv",
            ":!docs",
        ])?;
        Ok(Self {
            commit: ask(&["rev-parse", "HEAD"])?,
            is_changed: !changed.is_empty(),
        })
    }
}
