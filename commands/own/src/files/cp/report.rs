//! The results of a copy, and its problems.

use super::attributes::Losses;
use crate::reading::failure::{Exit, Failure, complain, posix_words};
use crate::reading::output::{Output, escaped};
use crate::reading::place::Place;
use cenote_words::format::number::counted;
use cenote_words::progress::{Progress, Style};
use serde_json::json;
use std::io;

/// The maximum number of problems in the report; further ones are only counted.
const PROBLEMS_MAX: usize = 1000;

/// The outcome of a copy.
#[derive(Debug, Default)]
pub struct Report {
    /// Entries copied, directories included.
    pub entries: u64,
    /// Entries that an earlier run had copied.
    pub entries_before: u64,
    /// Bytes of content written.
    pub bytes: u64,
    /// Entries that lost their owner for lack of privilege.
    owners_lost: u64,
    /// Extended attributes lost for lack of privilege.
    privileged_lost: u64,
    problems: Vec<String>,
    problem_count: u64,
    is_over: bool,
    is_interrupted: bool,
    /// Whether the last action was to save the journal in the middle of a file.
    has_partial: bool,
}

impl Report {
    /// Whether to end the command.
    pub fn ends(&self) -> bool {
        self.is_over || self.is_interrupted
    }

    /// Records a signal.
    pub fn interrupted(&mut self) {
        self.is_interrupted = true;
    }

    /// Records that the journal was saved in the middle of a file, and whether the copy stopped
    /// there.
    pub fn partial_saved(&mut self, stopped: bool) {
        self.has_partial = stopped;
    }

    /// Whether the journal was saved in the middle of a file.
    pub fn saved_partial(&self) -> bool {
        self.has_partial
    }

    fn push(&mut self, problem: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    /// Reports a problem and continues.
    pub fn problem(&mut self, progress: &Progress, problem: String) {
        progress.interrupt(|| complain(&problem));
        self.push(problem);
    }

    /// Reports why a source was not copied completely.
    pub fn failed(&mut self, failure: &Failure) {
        failure.report();
        self.push(failure.to_string());
        self.is_over = true;
    }

    /// Records which attributes of a file were lost.
    pub fn losses(&mut self, progress: &Progress, place: &Place, losses: Losses) {
        self.owners_lost += u64::from(losses.owner);
        self.privileged_lost += losses.privileged;
        for (name, error) in losses.refused {
            let name = escaped(&name);
            let words = match error.kind() {
                // File systems return these for an attribute larger than their limit.
                io::ErrorKind::StorageFull | io::ErrorKind::ArgumentListTooLong => {
                    "the target's file system has no room for so large an attribute".to_owned()
                }
                _ => error.to_string(),
            };
            self.problem(
                progress,
                format!("{place}: extended attribute {name}: {words}"),
            );
        }
        if let Some(error) = losses.unreadable {
            let words = posix_words(&error);
            self.problem(progress, format!("{place}: extended attributes: {words}"));
        }
    }

    fn exit(&self) -> Exit {
        match () {
            () if self.is_interrupted => Exit::Interrupted,
            () if self.problem_count > 0 => Exit::Problems,
            () => Exit::Good,
        }
    }

    /// Prints the summary and returns the exit code.
    pub fn print(&self, style: Style) -> Result<Exit, Failure> {
        if style == Style::Json {
            let mut output = Output::new();
            output.json(&json!({
                "complete": !self.ends() && self.problem_count == 0,
                "interrupted": self.is_interrupted,
                "entries": self.entries,
                "entries_before": self.entries_before,
                "bytes": self.bytes,
                "owners_lost": self.owners_lost,
                "privileged_attributes_lost": self.privileged_lost,
                "problem_count": self.problem_count,
                "problems": self.problems,
            }))?;
            output.flush()?;
            return Ok(self.exit());
        }
        if self.owners_lost > 0 {
            let files = counted(self.owners_lost, "file");
            complain(&format!(
                "{files} without the owner: only root (or CAP_CHOWN) can change it"
            ));
        }
        if self.privileged_lost > 0 {
            let attributes = counted(self.privileged_lost, "extended attribute");
            complain(&format!(
                "{attributes} of trusted. and security. left out: only root can set them"
            ));
        }
        if self.problem_count > 1 {
            complain(&format!("{} problems in all", self.problem_count));
        }
        if self.is_interrupted {
            complain("interrupted; run the same command again to resume");
        }
        Ok(self.exit())
    }
}
