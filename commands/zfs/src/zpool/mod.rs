//! `zpool`: finds the subcommand, its usage, its exit code.

mod activity;
mod add;
mod checkpoint;
mod compatibility;
mod create;
mod devices;
mod events;
mod export;
mod get;
mod history;
mod import;
mod import_list;
mod iostat;
mod layout;
mod list;
mod load_and_mount;
mod maintain;
mod names;
mod numbers;
mod remove;
mod scrub;
mod split;
mod status;
mod status_dedup;
mod status_json;
mod status_options;
mod status_scan;
mod status_texts;
mod status_treatment;
mod synopsis;
mod topics;
mod unused;
mod usage;
mod vdev_spec;
mod writes;

use cenote_words::context::{Context, Outcome};
use cenote_words::program::Program;
use cenote_words::version;

/// The command.
pub const PROGRAM: Program = Program {
    name: "zpool",
    summary: "manage ZFS pools",
    about: "A pool is made of devices and holds file systems and volumes, which zfs(8) manages.\n\
            The commands have the options, the output and the exit codes of OpenZFS. They ask the\n\
            daemon of cenote-daemon(1) and start it where that is needed.",
    topics: topics::TOPICS,
    groups: synopsis::GROUPS,
    aliases: &[],
    below_all: usage::BELOW_ALL,
    below_one: usage::below_one,
    is_missing: writes::is_missing,
    dispatch,
};

/// Runs `zpool` with its arguments (the command's own name left out).
pub fn run(arguments: &[String], context: &mut Context) -> u8 {
    PROGRAM.run(arguments, context)
}

fn dispatch(command: &str, arguments: &[String], context: &mut Context) -> Outcome {
    match command {
        "list" => list::run(arguments, context),
        "status" => status::run(arguments, context),
        "get" => get::run(arguments, context),
        "import" => import::run(arguments, context),
        "export" => export::run(arguments, context),
        "history" => history::run(arguments, context),
        "events" => events::run(arguments, context),
        "add" => add::run(arguments, context),
        "create" => create::create(arguments, context),
        "destroy" => create::destroy(arguments, context),
        "set" => create::set(arguments, context),
        "sync" => create::sync(arguments, context),
        "trim" => activity::trim(arguments, context),
        "initialize" => activity::initialize(arguments, context),
        "wait" => activity::wait(arguments, context),
        "checkpoint" => checkpoint::run(arguments, context),
        "scrub" => scrub::scrub(arguments, context),
        "resilver" => scrub::resilver(arguments, context),
        "clear" => maintain::clear(arguments, context),
        "offline" => devices::offline(arguments, context),
        "attach" => devices::attach(arguments, context),
        "replace" => devices::replace(arguments, context),
        "detach" => devices::detach(arguments, context),
        "remove" => remove::run(arguments, context),
        "reopen" => devices::reopen(arguments, context),
        "online" => maintain::online(arguments, context),
        "labelclear" => maintain::labelclear(arguments, context),
        "reguid" => maintain::reguid(arguments, context),
        "upgrade" => maintain::upgrade(arguments, context),
        "split" => split::run(arguments, context),
        "iostat" => iostat::run(arguments, context),
        "version" => version::run("zpool", arguments, context),
        _ => writes::run(command, arguments, context),
    }
}
