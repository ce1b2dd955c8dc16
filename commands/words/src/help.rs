//! What `cenote help COMMAND` and `cenote COMMAND --help` print.

use crate::command::{Command, EXIT_CODES, POOL_FLAGS, Run};
use crate::flag::rows;

/// The help of a command, with the options for pools if it opens one.
pub fn text(command: &Command) -> String {
    let pool_options = match command.run {
        Run::Asking(_) | Run::Describing(_) => return command.help(),
        Run::Reading(_) => format!("{POOL_TITLE}{}{POOL_NAMES}", rows(POOL_FLAGS)),
        Run::Alone(_) => String::new(),
    };
    let codes: String = EXIT_CODES
        .iter()
        .map(|(code, text)| format!("  {code}  {text}\n"))
        .collect();
    format!("{}\n{pool_options}Exit codes:\n{codes}", command.help())
}

const POOL_TITLE: &str = "Finding and opening the pool (it is only ever read):\n";

const POOL_NAMES: &str = "\
A pool is given by its name or its guid, a place in it as POOL/DATASET[@SNAPSHOT]:/PATH.

";
