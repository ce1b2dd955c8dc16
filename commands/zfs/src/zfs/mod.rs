//! `zfs`: finds the subcommand, its usage, its exit code.

mod allow;
mod bookmarks;
mod change;
mod clones;
mod create;
mod dependents;
mod diff;
mod get;
mod holds;
mod key_server;
mod keys;
mod list;
mod material;
mod mount;
mod program;
mod project;
mod properties;
pub mod receive;
mod redact;
mod rollback;
mod select;
pub mod send;
mod snapshots;
mod sort;
mod space;
mod topics;
mod upgrade;
mod usage;
mod wait;
pub mod writes;

pub use keys::{
    load_below as load_keys_below, load_from_files as load_keys_from_files,
    not_in_files as keys_not_in_files, read_key,
};

use cenote_words::context::{Context, Outcome};
use cenote_words::program::{CommandLine, Program};
use cenote_words::version;

pub use mount::{is_legacy, mountable};
pub use select::reason;
pub use writes::tell_of_unshared;

pub use change::{full_name, named_twice, new_key, tell_of_kept, wants_key};

/// Other names of subcommands.
const ALIASES: [(&str, &str); 3] = [
    ("snap", "snapshot"),
    ("recv", "receive"),
    ("umount", "unmount"),
];

/// The command.
pub const PROGRAM: Program = Program {
    name: "zfs",
    summary: "manage ZFS file systems, volumes and snapshots",
    about: "A dataset is a file system, a volume, a snapshot or a bookmark in a pool, which\n\
            zpool(8) manages. Its name is POOL/PATH, POOL/PATH@SNAPSHOT or POOL/PATH#BOOKMARK.\n\
            The commands have the options, the output and the exit codes of OpenZFS.",
    groups: topics::GROUPS,
    aliases: &ALIASES,
    below_all: usage::BELOW_ALL,
    below_one: usage::below_one,
    is_missing: writes::is_missing,
    dispatch,
};

/// Runs `zfs` with its arguments (the command's own name left out).
pub fn run(arguments: &[String], context: &mut Context) -> u8 {
    PROGRAM.run(arguments, context)
}

fn dispatch(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    match line.name() {
        "list" => list::run(line, context),
        "get" => get::run(line, context),
        "mount" => mount::mount(line, context),
        "unmount" => mount::unmount(line, context),
        "load-key" => keys::load(line, context),
        "unload-key" => keys::unload(line, context),
        "userspace" | "groupspace" | "projectspace" => space::run(line, context),
        "holds" => holds::run(line, context),
        "project" => project::run(line, context),
        "wait" => wait::run(line, context),
        "diff" => diff::run(line, context),
        "program" => program::run(line, context),
        "version" => version::run("zfs", line, context),
        "create" => create::create(line, context),
        "set" => change::set(line, context),
        _ => writes::run(line, context),
    }
}
