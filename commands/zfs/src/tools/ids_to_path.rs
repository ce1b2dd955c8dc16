//! `zfs_ids_to_path`: which file an object is, as events and error messages name it.

use cenote_control::model::{ControlError, Request, Response};
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, failed, mismatch, usage};
use cenote_words::texts::{cannot_open, place_text};

/// The command.
pub const COMMAND: Command = Command {
    name: "ids-to-path",
    summary: "Print the path of a file by the numbers of its dataset and of the file",
    synopsis: "[-v] POOL OBJSET OBJECT",
    about: "The numbers are those of events and error messages; the property objsetid is a\n\
            dataset's, the inode number is a file's. The path is where the file system is\n\
            mounted, or else DATASET:/PATH.",
    flags: flags! {
        'v' "in-dataset" _ "print DATASET:/PATH, mounted or not";
    },
    run: Run::Asking(run),
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let words = arguments
        .operands
        .iter()
        .map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    let [pool, objset, object] = words.as_slice() else {
        return usage("");
    };
    let (Ok(objset), Ok(object)) = (objset.parse(), object.parse()) else {
        return usage("OBJSET and OBJECT are numbers");
    };
    let request = Request::ObjectPlace {
        pool: pool.clone(),
        objset,
        object,
        in_dataset: arguments.has("in-dataset"),
    };
    match context.ask(request) {
        Ok(Response::Place { place }) => {
            context.line(&place_text(&place));
            Ok(0)
        }
        Ok(_) => failed(mismatch().to_string()),
        Err(error @ ControlError::NoSuchPool { .. }) => failed(cannot_open(pool, &error)),
        Err(error) => failed(error.to_string()),
    }
}
