//! `cenote unmount`.

use std::path::Path;

use cenote_control::model::{ControlError, Request};

use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, Stop, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "unmount",
    summary: "Unmount what is mounted at a directory",
    synopsis: "DIRECTORY...",
    about: "Also removes mounts that a killed daemon left.",
    flags: flags! {
        'f' "force" _ "although files are open";
    },
    run: Run::Asking(run),
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    if arguments.operands.is_empty() {
        return usage("");
    }
    for directory in &arguments.operands {
        let path = context.directory.join(Path::new(directory));
        // The path of a dead daemon's mount cannot be resolved; use it as given.
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        let request = Request::Unmount {
            target: path.to_string_lossy().into_owned(),
            force: arguments.has("force"),
            unload_key: false,
        };
        let error = match context.ask(request) {
            Ok(_) => continue,
            Err(ControlError::NotMounted { .. }) if clear(&path)? => continue,
            Err(error) => error,
        };
        return failed(format!("cannot unmount '{}': {error}", path.display()));
    }
    Ok(0)
}

/// Unmounts what a killed daemon left at `path` and below. Returns whether there was anything.
fn clear(path: &Path) -> Result<bool, Stop> {
    let left = match cenote_fuse::clear_stale_mounts(path) {
        Ok(left) => left,
        Err(error) => return failed(format!("cannot unmount '{}': {error}", path.display())),
    };
    match left.failed.into_iter().next() {
        Some((place, error)) => failed(format!("cannot unmount '{}': {error}", place.display())),
        None => Ok(!left.cleared.is_empty()),
    }
}
