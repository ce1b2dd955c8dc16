//! `zpool version`, `zfs version`: the OpenZFS release whose command line this is.
//!
//! Replication tools parse these two lines to find out which options exist. So they name the
//! OpenZFS release whose behaviour we follow; `cenote version` prints our own (cli/contract.md 1).

use crate::context::{Context, Outcome, usage};
use crate::format::json::{Object, document};
use crate::topic::CommandLine;

const USERLAND: &str = "zfs-2.3.2-1";
const KERNEL: &str = "zfs-kmod-2.3.2-1";

/// The two lines.
pub fn print(_command: &str, context: &mut Context) -> u8 {
    context.line(USERLAND);
    context.line(KERNEL);
    0
}

/// `version [-j]` of a program.
pub fn run(program: &str, line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    if !parsed.operands.is_empty() {
        return usage("too many arguments");
    }
    if parsed.has("j") {
        let mut version = Object::new();
        version.put("userland", USERLAND);
        version.put("kernel", KERNEL);
        let json = document(&format!("{program} version"), "zfs_version", version);
        context.line(&json.to_string());
        return Ok(0);
    }
    Ok(print(program, context))
}
