//! The output of a subcommand, and its errors.

use super::node::Node;
use crate::reading::failure::Failure;
use crate::reading::output::Output;

/// The output of a subcommand.
pub struct Printer {
    pub output: Output,
    pub is_json: bool,
}

impl Printer {
    /// Prints a value.
    pub fn node(&mut self, node: impl Into<Node>) -> Result<(), Failure> {
        let node = node.into();
        match self.is_json {
            true => self.output.json_pretty(&node.json()),
            false => self.output.text(&node.text()),
        }
    }

    /// Prints one item of many: a line of JSON, or a line of text.
    pub fn row(&mut self, node: impl Into<Node>, text: &str) -> Result<(), Failure> {
        match self.is_json {
            true => self.output.json(&node.into().json()),
            false => self.output.line(text),
        }
    }

    /// Prints a line in text output only.
    pub fn title(&mut self, text: &str) -> Result<(), Failure> {
        match self.is_json {
            true => Ok(()),
            false => self.output.line(text),
        }
    }

    /// Reports a problem and continues.
    pub fn complain(&mut self, message: &str) {
        self.output.complain(message);
    }
}

/// Wraps an error of a lower layer about `what`.
pub(super) fn failed<E: Into<cenote_dsl::DslError>>(
    what: impl Into<String>,
) -> impl FnOnce(E) -> Failure {
    let what = what.into();
    move |source| Failure::Metadata {
        what,
        source: Box::new(source.into()),
    }
}
