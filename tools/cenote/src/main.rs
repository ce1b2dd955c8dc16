//! One program with several names.
//!
//! `argv[0]` selects the command line. As `zpool`, `zfs`, `zstream`, `zdb`, `zed` and `zinject` it
//! behaves like OpenZFS's programs; as `mount.zfs` it is the helper of mount(8); as `arcstat`,
//! `zgenhostid` and others it is a small program of OpenZFS's. As `cenote` it has commands of its
//! own; `cenote daemon` keeps pools open for all the others. `cenote zpool …`, `cenote zfs …` and
//! `cenote zstream …` work without links.

#![forbid(unsafe_code)]

mod cenote;

use std::ffi::OsString;
use std::io::{BufWriter, IsTerminal, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use cenote_connect::{Connection, LeftDisks};
use cenote_daemon::disks;
use cenote_own_commands::zstream;
use cenote_words::context::Context;
use cenote_zdb as zdb;
use cenote_zed as zed;
use cenote_zfs_commands::{mount_helper, zfs};
use cenote_zinject as zinject;
use cenote_zpool_commands as zpool;

fn main() -> ExitCode {
    cenote_device::return_large_buffers();
    // Without the list, programs that we start get what we got.
    let _ = cenote_device::keep_inherited_from_children();
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let name = Path::new(&name).file_name().unwrap_or_default().to_owned();
    let mut rest: Vec<OsString> = arguments.collect();
    let called = match name.to_str() {
        Some(
            name @ ("zpool"
            | "zfs"
            | zstream::NAME
            | zdb::NAME
            | zed::NAME
            | zinject::NAME
            | mount_helper::NAME),
        ) => name.to_owned(),
        Some(zstream::DUMP_NAME) => {
            rest.insert(0, "dump".into());
            zstream::NAME.to_owned()
        }
        Some(name) if command_of_link(name).is_some() => {
            rest.splice(0..0, command_of_link(name).map(OsString::from));
            "cenote".to_owned()
        }
        Some(mount_helper::NAME_BY_TYPE) => mount_helper::NAME.to_owned(),
        _ => match rest.first().and_then(|word| word.to_str()) {
            Some(
                word @ ("zpool" | "zfs" | zstream::NAME | zdb::NAME | zed::NAME | zinject::NAME),
            ) => {
                let word = word.to_owned();
                rest.remove(0);
                word
            }
            _ => "cenote".to_owned(),
        },
    };
    if called == zstream::NAME {
        return zstream::run(&rest);
    }
    if called == zdb::NAME {
        return zdb::run(&rest);
    }
    let mut context = context(resumes(&called, rest.first()));
    let code = match called.as_str() {
        "zpool" => zpool::run(&words(rest), &mut context),
        "zfs" => zfs::run(&words(rest), &mut context),
        zed::NAME => zed::run(&words(rest), &mut context),
        zinject::NAME => zinject::run(&words(rest), &mut context),
        mount_helper::NAME => mount_helper::run(&words(rest), &mut context),
        _ => cenote::run(rest, &mut context),
    };
    ExitCode::from(context.finish(code))
}

/// Our command behind a link with the name of a small program of OpenZFS.
fn command_of_link(name: &str) -> Option<&'static str> {
    let links = [
        ("arcstat", "arcstat"),
        ("zarcstat", "arcstat"),
        ("arc_summary", "arc-summary"),
        ("zarcsummary", "arc-summary"),
        ("zilstat", "zilstat"),
        ("zgenhostid", "zgenhostid"),
        ("zvol_wait", "zvol-wait"),
        ("zfs_ids_to_path", "ids-to-path"),
    ];
    let mut links = links.iter();
    links
        .find(|(link, _)| *link == name)
        .map(|(_, command)| *command)
}

/// Names of pools and datasets are ASCII; words that are not UTF-8 will be refused by name.
fn words(arguments: Vec<OsString>) -> Vec<String> {
    let lossy = |word: OsString| word.to_string_lossy().into_owned();
    arguments.into_iter().map(lossy).collect()
}

/// Commands that only read, or that bring their own pools. They do not import the pools of a dead
/// daemon again.
const LOOKERS: [(&str, &[&str]); 3] = [
    (
        "zpool",
        &[
            "create",
            "events",
            "get",
            "history",
            "import",
            "iostat",
            "labelclear",
            "list",
            "status",
            "wait",
        ],
    ),
    ("zfs", &["get", "list", "version"]),
    (
        "cenote",
        &[
            "alarm",
            "arc-summary",
            "arcstat",
            "cloud",
            "daemon",
            "device",
            "health",
            "complete",
            "completions",
            "install-links",
            "kstat",
            "man",
            "metrics",
            "settings",
            "space",
            "top",
            "version",
            "zgenhostid",
            "zilstat",
        ],
    ),
];

/// Whether a command works on imported pools.
fn resumes(called: &str, word: Option<&OsString>) -> bool {
    let mut lookers = LOOKERS.iter().filter(|(program, _)| *program == called);
    let looks = |words: &[&str]| word.is_none_or(|word| words.iter().any(|known| word == known));
    !lookers.any(|(_, words)| looks(words))
}

/// Without a daemon, these functions access block devices as the daemon does.
const LEFT_DISKS: LeftDisks = LeftDisks {
    status: disks::status_without_daemon,
    stop: disks::stop_without_daemon,
};

fn context(resumes: bool) -> Context {
    let out = Box::new(BufWriter::new(stdout()));
    let daemon = Box::new(Connection::new(resumes).with_disks(LEFT_DISKS));
    let mut context = Context::new(out, Box::new(stderr()), daemon);
    context.is_terminal = stdout().is_terminal();
    context.zone = jiff::tz::TimeZone::try_system().unwrap_or(jiff::tz::TimeZone::UTC);
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    context.now = since.map_or(0, |time| time.as_secs());
    context.connect = || Box::new(Connection::new(false));
    context.variable = |name| std::env::var(name).ok();
    context.directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    context
}
