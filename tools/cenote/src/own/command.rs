//! What a command of ours is: its name, its options, and what it does.

use super::arguments::{Arguments, Flag};
use crate::context::{Context, Outcome};

/// One command.
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// What follows the name in a command line.
    pub synopsis: &'static str,
    /// More about it, or "".
    pub about: &'static str,
    /// Its options.
    pub flags: &'static [Flag],
    /// Runs it.
    pub run: fn(&Arguments, &mut Context) -> Outcome,
}
