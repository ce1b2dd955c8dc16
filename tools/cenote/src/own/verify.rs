//! `cenote verify`.

use super::Command;
use super::arguments::{Arguments, flag, option};
use super::engine;
use super::source::pool_source;
use super::spec::Spec;
use crate::context::{Context, Outcome, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "verify",
    summary: "Read and check every block of a pool",
    synopsis: "[OPTION]... POOL",
    about: "Exits with 0 when all is well, 1 when data is damaged, 2 when the check could not be done.",
    flags: &[
        flag(
            None,
            "all-copies",
            "every copy and all parity, not only what a read needs",
        ),
        option(
            None,
            "dataset",
            "NAME",
            "only this dataset or snapshot (may be repeated)",
        ),
        option(None, "report", "FILE", "write the findings as JSON"),
        option(
            None,
            "resume",
            "FILE",
            "keep the progress here, and go on from it",
        ),
        option(
            Some('j'),
            "threads",
            "NUMBER",
            "how many; all cores by default",
        ),
        flag(Some('q'), "quiet", "no progress bar"),
    ],
    opens_pools: true,
    run,
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let Some(word) = arguments.operands.first() else {
        return usage("");
    };
    let spec = match Spec::parse(word) {
        Ok(spec) => spec,
        Err(error) => return failed(error.to_string()),
    };
    for dataset in arguments.all("dataset") {
        if let Err(error) = Spec::parse(dataset) {
            return failed(error.to_string());
        }
    }
    let source = pool_source(spec.pool(), arguments, context)?;
    engine::unavailable(&source)
}
