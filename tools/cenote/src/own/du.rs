//! `cenote du`.

use super::Command;
use super::arguments::{Arguments, flag};
use super::engine;
use super::source::pool_source;
use super::spec::Spec;
use crate::context::{Context, Outcome, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "du",
    summary: "Show how much space files take",
    synopsis: "[OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH...",
    about: "",
    flags: &[
        flag(Some('s'), "summarize", "only the total of each argument"),
        flag(Some('b'), "bytes", "exact numbers"),
        flag(
            None,
            "apparent",
            "sizes as files state them, not what is allocated",
        ),
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
    let source = pool_source(spec.pool(), arguments, context)?;
    engine::unavailable(&source)
}
