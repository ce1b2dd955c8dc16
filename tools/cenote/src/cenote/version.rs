//! `cenote version`.

use cenote_words::command::{Arguments, Command, JSON, Run};
use cenote_words::context::{Context, Outcome};
use cenote_words::format::json::{Json, Object};

/// The command.
pub const COMMAND: Command = Command {
    name: "version",
    summary: "Print the version",
    synopsis: "",
    about: "",
    flags: &[JSON],
    run: Run::Asking(run),
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version in one line.
pub fn print(context: &mut Context) -> u8 {
    context.line(&format!("cenote {VERSION}"));
    0
}

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    if arguments.has("json") {
        let mut object = Object::new();
        object.put("version", VERSION);
        context.line(&Json::from(object).to_string());
        return Ok(0);
    }
    Ok(print(context))
}
