//! What `cenote help COMMAND` and `cenote COMMAND --help` print.

use crate::command::{Command, Run, rows};
use crate::reading::options::POOL_FLAGS;

/// The help of a command, with the options for pools if it opens one.
pub fn text(command: &Command) -> String {
    let pool_options = match command.run {
        Run::Asking(_) => return command.help(),
        Run::Reading(_) => format!("{POOL_TITLE}{}{POOL_NAMES}", rows(POOL_FLAGS)),
        Run::Alone(_) => String::new(),
    };
    format!("{}\n{pool_options}{EXIT_CODES}", command.help())
}

const POOL_TITLE: &str = "Finding and opening the pool (it is only ever read):\n";

const POOL_NAMES: &str = "\
A pool is given by its name or its guid, a place in it as POOL/DATASET[@SNAPSHOT]:/PATH.

";

const EXIT_CODES: &str = "\
Exit codes:
  0  everything was done and nothing is wrong
  1  something could not be done, or damage was found; standard error says what
  2  the command line is wrong; nothing was done
  3  a signal stopped the command; run again, it goes on
";
