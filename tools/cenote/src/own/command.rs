//! What runs a command that talks to the daemon.

use crate::command::Arguments;
use crate::context::{Context, Outcome};

/// One command.
pub type Command = crate::command::Command<fn(&Arguments, &mut Context) -> Outcome>;
