//! `zfs`: finds the subcommand, its usage, its exit code.

mod bookmarks;
mod change;
mod clones;
mod create;
mod dependents;
mod diff;
mod get;
mod holds;
mod keys;
mod list;
mod material;
mod mount;
mod properties;
pub mod receive;
mod rollback;
mod select;
pub mod send;
mod snapshots;
mod sort;
mod space;
mod synopsis;
mod topics;
mod upgrade;
mod usage;
pub mod writes;

pub use keys::{
    load_below as load_keys_below, load_from_files as load_keys_from_files,
    not_in_files as keys_not_in_files, read_key,
};

use cenote_words::context::{Context, Outcome};
use cenote_words::program::Program;
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
    topics: topics::TOPICS,
    groups: synopsis::GROUPS,
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
        "create" => create::create(arguments, context),
        "set" => change::set(arguments, context),
        _ => writes::run(command, arguments, context),
    }
}
