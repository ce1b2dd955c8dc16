//! `cenote tree`.

use super::Command;
use super::arguments::{Arguments, flag, option};
use super::engine;
use super::source::pool_source;
use super::spec::Spec;
use crate::context::{Context, Outcome, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "tree",
    summary: "Show a directory and all below it",
    synopsis: "[OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH",
    about: "",
    flags: &[
        option(Some('L'), "level", "NUMBER", "go no deeper than this"),
        flag(Some('a'), "all", "names that begin with a dot too"),
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
