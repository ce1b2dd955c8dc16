//! `cenote cat`.

use super::Command;
use super::arguments::{Arguments, option};
use super::engine;
use super::source::pool_source;
use super::spec::Spec;
use crate::context::{Context, Outcome, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "cat",
    summary: "Write files to standard output",
    synopsis: "[OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH...",
    about: "",
    flags: &[
        option(None, "from", "BYTES", "begin here"),
        option(None, "length", "BYTES", "write so much"),
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
