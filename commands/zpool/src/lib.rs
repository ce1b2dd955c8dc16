//! OpenZFS's command `zpool`: finds the subcommand, its usage, its exit code.
//!
//! Names, options, output and exit codes are OpenZFS's. The commands get everything about pools
//! from the daemon, as types of `cenote_control`; of the on-disk format they have only tables. What
//! they have in common with `zfs` is in its crate. The module `reference` compares the output of
//! both programs with OpenZFS's transcripts, byte by byte.

#![forbid(unsafe_code)]

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
#[cfg(test)]
mod reference;
mod remove;
mod scripts;
mod scrub;
mod split;
mod status;
mod status_dedup;
mod status_json;
mod status_options;
mod status_scan;
mod status_texts;
mod status_treatment;
mod topics;
mod unused;
mod usage;
mod vdev_spec;
mod writes;

use cenote_words::context::{Context, Outcome};
use cenote_words::program::{CommandLine, Program};
use cenote_words::version;

/// The command.
pub const PROGRAM: Program = Program {
    name: "zpool",
    summary: "manage ZFS pools",
    about: "A pool is made of devices and holds file systems and volumes, which zfs(8) manages.\n\
            The commands have the options, the output and the exit codes of OpenZFS. They ask the\n\
            daemon of cenote-daemon(1) and start it where that is needed.",
    groups: topics::GROUPS,
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

fn dispatch(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    match line.name() {
        "list" => list::run(line, context),
        "status" => status::run(line, context),
        "get" => get::run(line, context),
        "import" => import::run(line, context),
        "export" => export::run(line, context),
        "history" => history::run(line, context),
        "events" => events::run(line, context),
        "add" => add::run(line, context),
        "create" => create::create(line, context),
        "destroy" => create::destroy(line, context),
        "set" => create::set(line, context),
        "sync" => create::sync(line, context),
        "trim" => activity::trim(line, context),
        "initialize" => activity::initialize(line, context),
        "wait" => activity::wait(line, context),
        "checkpoint" => checkpoint::run(line, context),
        "scrub" => scrub::scrub(line, context),
        "resilver" => scrub::resilver(line, context),
        "clear" => maintain::clear(line, context),
        "offline" => devices::offline(line, context),
        "attach" => devices::attach(line, context),
        "replace" => devices::replace(line, context),
        "detach" => devices::detach(line, context),
        "remove" => remove::run(line, context),
        "reopen" => devices::reopen(line, context),
        "online" => maintain::online(line, context),
        "labelclear" => maintain::labelclear(line, context),
        "reguid" => maintain::reguid(line, context),
        "upgrade" => maintain::upgrade(line, context),
        "split" => split::run(line, context),
        "iostat" => iostat::run(line, context),
        "version" => version::run("zpool", line, context),
        _ => writes::run(line, context),
    }
}
