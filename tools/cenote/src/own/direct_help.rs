//! What there is to say about the commands that `direct` runs: they parse their own command lines.

use super::Command;
use super::arguments::{Arguments, Flag, flag, option};
use crate::context::{Context, Outcome, failed};

const JSON: Flag = flag(Some('j'), "json", "print JSON");
const ALL: Flag = flag(Some('a'), "all", "names that begin with a dot too");

/// Options of every command that opens a pool by itself.
pub const DIRECT_POOL_FLAGS: &[Flag] = &[
    option(
        Some('d'),
        "device",
        "PATH",
        "look for the pool in this file, device or directory (may be repeated)",
    ),
    option(
        None,
        "key",
        "[DATASET=]LOCATION",
        "an encryption key: a path, 'prompt', or '-' for standard input (may be repeated)",
    ),
    option(
        Some('T'),
        "txg",
        "NUMBER",
        "open the pool as of this transaction group",
    ),
    flag(
        Some('F'),
        "rewind",
        "go back a little if the newest state cannot be read",
    ),
    flag(Some('X'), "extreme-rewind", "go back as far as it takes"),
    flag(None, "checkpoint", "open the pool's checkpoint"),
    flag(Some('m'), "missing-log", "do without a missing log device"),
    flag(
        None,
        "replay",
        "show files as after the intent log's replay",
    ),
    option(
        None,
        "memory",
        "SIZE",
        "use at most so much memory for caches and buffers",
    ),
];

const fn command(
    name: &'static str,
    summary: &'static str,
    synopsis: &'static str,
    about: &'static str,
    flags: &'static [Flag],
) -> Command {
    Command {
        name,
        summary,
        synopsis,
        about,
        flags,
        is_direct: true,
        opens_pools: false,
        run: not_here,
    }
}

/// Only reached for a command that `direct` does not have.
fn not_here(_: &Arguments, _: &mut Context) -> Outcome {
    failed("not available in this version")
}

/// The commands.
pub const COMMANDS: [Command; 11] = [
    command(
        "ls",
        "List directories",
        "[OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH...",
        "",
        &[
            flag(Some('l'), "long", "mode, links, owner, size, time"),
            ALL,
            flag(Some('R'), "recursive", "and all below"),
            JSON,
        ],
    ),
    command(
        "tree",
        "Show a directory and all below it",
        "[OPTION]... POOL/DATASET[@SNAPSHOT][:/PATH]",
        "",
        &[
            ALL,
            flag(None, "directories", "only directories"),
            option(Some('L'), "depth", "NUMBER", "go no deeper than this"),
        ],
    ),
    command(
        "cat",
        "Write files to standard output",
        "[OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH...",
        "",
        &[],
    ),
    command(
        "cp",
        "Copy files out of a pool",
        "[OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH... DESTINATION",
        "An interrupted copy goes on where it stopped when the same command is run again.",
        &[flag(
            Some('a'),
            "archive",
            "directories, owners, times, links, xattrs, ACLs, holes",
        )],
    ),
    command(
        "stat",
        "Show everything about files",
        "[OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH...",
        "",
        &[
            flag(Some('L'), "dereference", "follow symbolic links"),
            JSON,
        ],
    ),
    command(
        "find",
        "Find files by name, type, size or time",
        "[OPTION]... POOL/DATASET[@SNAPSHOT][:/PATH] [CONDITION]...",
        "Conditions, all of which must hold, as in find(1): -name -iname -path -type -size -mtime\n\
         -mmin -newer -links -inum -uid -gid -empty -maxdepth -mindepth, ! before one to turn it\n\
         round; -print0 or -json for the form of the output.",
        &[],
    ),
    command(
        "du",
        "Show how much space files take",
        "[OPTION]... POOL/DATASET[@SNAPSHOT][:/PATH]...",
        "",
        &[
            flag(Some('h'), "human-readable", "sizes with units"),
            flag(Some('s'), "summarize", "only the total of each argument"),
            flag(Some('a'), "all", "files too, not only directories"),
            flag(
                Some('b'),
                "apparent-size",
                "sizes as files state them, not what is allocated",
            ),
            option(
                None,
                "max-depth",
                "NUMBER",
                "go no deeper than this in the output",
            ),
            JSON,
        ],
    ),
    command(
        "manifest",
        "List everything in a dataset as JSON",
        "[OPTION]... POOL/DATASET[@SNAPSHOT]",
        "For each path its type, mode, owner, times, size, target and extended attributes.",
        &[
            flag(None, "sha256", "read every file and add its checksum"),
            flag(Some('r'), "recursive", "and every dataset below"),
        ],
    ),
    command(
        "dump",
        "Copy a volume into a file",
        "[OPTION]... POOL/VOLUME[@SNAPSHOT] FILE|-",
        "Holes stay holes where the destination can have them.",
        &[
            flag(Some('f'), "force", "write over what is there"),
            flag(Some('k'), "keep-going", "zeros for what cannot be read"),
            flag(Some('q'), "quiet", "no progress bar"),
            JSON,
        ],
    ),
    command(
        "verify",
        "Read and check every block of a pool",
        "[OPTION]... POOL",
        "Exits with 0 when all is well and 1 when data is damaged.",
        &[
            flag(
                None,
                "all-copies",
                "every copy and all parity, not only what a read needs",
            ),
            JSON,
        ],
    ),
    command(
        "inspect",
        "Look at the structures of a pool",
        "[OPTION]... WHAT [POOL | POOL/DATASET[@SNAPSHOT]] [NUMBER]",
        "WHAT is one of: labels, uberblocks, config, objects, datasets, object, block, spacemaps,\n\
         intent-log.",
        &[JSON],
    ),
];
