//! `cenote cp`.

use super::Command;
use super::arguments::{Arguments, flag};
use super::engine;
use super::source::pool_source;
use super::spec::Spec;
use crate::context::{Context, Outcome, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "cp",
    summary: "Copy files out of a pool",
    synopsis: "[OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH... DESTINATION",
    about: "An interrupted copy goes on where it stopped when the same command is run again.",
    flags: &[
        flag(
            Some('a'),
            "archive",
            "directories, owners, times, links, xattrs, ACLs, holes",
        ),
        flag(Some('r'), "recursive", "directories"),
        flag(Some('q'), "quiet", "no progress bar"),
        flag(
            None,
            "keep-going",
            "pass over what cannot be read, and list it at the end",
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
