//! `cenote unmount`.

use std::path::Path;

use cenote_control::model::Request;

use super::Command;
use super::arguments::{Arguments, flag};
use crate::context::{Context, Outcome, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "unmount",
    summary: "Unmount what is mounted at a directory",
    synopsis: "DIRECTORY...",
    about: "",
    flags: &[flag(Some('f'), "force", "although files are open")],
    opens_pools: false,
    run,
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    if arguments.operands.is_empty() {
        return usage("");
    }
    for directory in &arguments.operands {
        let path = context.directory.join(Path::new(directory));
        // A mount whose daemon died cannot be resolved; its name as given will do.
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        let request = Request::Unmount {
            target: path.to_string_lossy().into_owned(),
            force: arguments.has("force"),
            unload_key: false,
        };
        if let Err(error) = context.ask(request) {
            return failed(format!("cannot unmount '{}': {error}", path.display()));
        }
    }
    Ok(0)
}
