//! `cenote manifest`.

use super::Command;
use super::arguments::{Arguments, flag, option};
use super::engine;
use super::source::pool_source;
use super::spec::Spec;
use crate::context::{Context, Outcome, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "manifest",
    summary: "List every file of a dataset with its checksum",
    synopsis: "[OPTION]... POOL/DATASET[@SNAPSHOT]",
    about: "One JSON object: for each path its type, mode, owner, times, size, target, xattrs.",
    flags: &[
        flag(None, "sha256", "read every file and add its checksum"),
        option(Some('o'), "output", "FILE", "write to a file"),
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
