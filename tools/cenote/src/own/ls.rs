//! `cenote ls`.

use super::Command;
use super::arguments::{Arguments, flag};
use super::engine;
use super::source::pool_source;
use super::spec::Spec;
use crate::context::{Context, Outcome, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "ls",
    summary: "List directories",
    synopsis: "[OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH...",
    about: "",
    flags: &[
        flag(Some('l'), "long", "mode, links, owner, size, time"),
        flag(Some('a'), "all", "names that begin with a dot too"),
        flag(Some('i'), "inode", "object numbers"),
        flag(Some('R'), "recursive", "and all below"),
        flag(Some('n'), "numeric", "owners as numbers"),
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
