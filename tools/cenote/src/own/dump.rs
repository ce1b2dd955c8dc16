//! `cenote dump`.

use super::Command;
use super::arguments::{Arguments, flag};
use super::engine;
use super::source::pool_source;
use super::spec::Spec;
use crate::context::{Context, Outcome, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "dump",
    summary: "Copy a volume into a file",
    synopsis: "[OPTION]... POOL/VOLUME[@SNAPSHOT] FILE|-",
    about: "Holes stay holes where the destination can have them.",
    flags: &[
        flag(Some('q'), "quiet", "no progress bar"),
        flag(None, "resume", "go on where an interrupted dump stopped"),
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
