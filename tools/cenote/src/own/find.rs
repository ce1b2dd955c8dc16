//! `cenote find`.

use super::Command;
use super::arguments::{Arguments, flag, option};
use super::engine;
use super::source::pool_source;
use super::spec::Spec;
use crate::context::{Context, Outcome, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "find",
    summary: "Find files by name, type, size or time",
    synopsis: "POOL/DATASET[@SNAPSHOT]:/PATH [OPTION]...",
    about: "",
    flags: &[
        option(None, "name", "PATTERN", "names like this: * ? [ ]"),
        option(None, "type", "LETTER", "f, d, l, p, s, b or c"),
        option(
            None,
            "size",
            "[+-]SIZE",
            "exactly, at least or at most so big",
        ),
        option(
            None,
            "newer",
            "TIME",
            "changed after this: seconds since the epoch, or YYYY-MM-DD",
        ),
        option(None, "object", "NUMBER", "the object with this number"),
        flag(Some('l'), "long", "mode, links, owner, size, time"),
        flag(
            Some('0'),
            "null",
            "end names with a NUL instead of a newline",
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
