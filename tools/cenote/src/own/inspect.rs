//! `cenote inspect`.

use super::Command;
use super::arguments::{Arguments, flag, option};
use super::engine;
use super::source::pool_source;
use super::spec::Spec;
use crate::context::{Context, Outcome, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "inspect",
    summary: "Look at the structures of a pool",
    synopsis: "[OPTION]... WHAT [POOL | POOL/DATASET[@SNAPSHOT]] [NUMBER]",
    about: "WHAT is one of: labels, uberblocks, config, objects (the object directory), datasets, object,\n            block, spacemaps, intent-log.",
    flags: &[
        option(None, "level", "NUMBER", "block: the level"),
        option(None, "block", "NUMBER", "block: its number at that level"),
        flag(None, "raw", "block: as stored"),
    ],
    opens_pools: true,
    run,
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let Some(word) = arguments.operands.last() else {
        return usage("");
    };
    let spec = match Spec::parse(word) {
        Ok(spec) => spec,
        Err(error) => return failed(error.to_string()),
    };
    let source = pool_source(spec.pool(), arguments, context)?;
    engine::unavailable(&source)
}
