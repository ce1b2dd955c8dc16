//! `zfs`: which subcommand, its usage, its exit code.

mod change;
mod diff;
mod get;
mod holds;
mod keys;
mod list;
mod material;
mod mount;
mod properties;
mod select;
mod sort;
mod space;
mod synopsis;
mod usage;
mod writes;

pub use keys::{load_below as load_keys_below, read_key};

use crate::context::{Context, Outcome, Stop};
use crate::version;

pub use change::new_key;

/// Other names of subcommands.
const ALIASES: [(&str, &str); 3] = [
    ("snap", "snapshot"),
    ("recv", "receive"),
    ("umount", "unmount"),
];

/// Runs `zfs` with its arguments (the command's own name left out).
pub fn run(arguments: &[String], context: &mut Context) -> u8 {
    let Some(command) = arguments.first() else {
        context.complain("missing command");
        usage::overview_on_error(context);
        return 2;
    };
    let rest = &arguments[1..];
    match command.as_str() {
        "-?" | "--help" => return usage::overview(context),
        "help" => return usage::help(rest, context),
        "-V" | "--version" => return version::print("zfs", context),
        _ => {}
    }
    let alias = ALIASES.iter().find(|(alias, _)| alias == command);
    let command = alias.map_or(command.as_str(), |(_, name)| name);
    if !usage::is_subcommand(command) {
        context.complain(&format!("unrecognized command '{command}'"));
        usage::overview_on_error(context);
        return 2;
    }
    match dispatch(command, rest, context) {
        Ok(code) | Err(Stop::Code(code)) => code,
        Err(Stop::Failed(message)) => {
            context.complain(&message);
            1
        }
        Err(Stop::Usage(message)) => {
            if !message.is_empty() {
                context.complain(&message);
            }
            usage::subcommand(command, context);
            2
        }
    }
}

fn dispatch(command: &str, arguments: &[String], context: &mut Context) -> Outcome {
    match command {
        "list" => list::run(arguments, context),
        "get" => get::run(arguments, context),
        "mount" => mount::mount(arguments, context),
        "unmount" => mount::unmount(arguments, context),
        "load-key" => keys::load(arguments, context),
        "unload-key" => keys::unload(arguments, context),
        "userspace" | "groupspace" | "projectspace" => space::run(command, arguments, context),
        "holds" => holds::run(arguments, context),
        "diff" => diff::run(arguments, context),
        "version" => version::run("zfs", arguments, context),
        "create" => change::create(arguments, context),
        "set" => change::set(arguments, context),
        _ => writes::run(command, arguments, context),
    }
}
