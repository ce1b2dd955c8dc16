//! One program under several names.
//!
//! Called as `zpool` or `zfs` it takes their command lines and prints what they print, and so
//! as `zstream` of send streams; as `mount.zfs` it serves mount(8); as `cenote` it has commands of
//! its own, of which `cenote daemon` keeps pools open for all the others. Which name counts is
//! decided by `argv[0]`, which may also be `arcstat` or `arc_summary`; `cenote zpool …`,
//! `cenote zfs …` and `cenote zstream …` do the same without links.

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
use cenote_zfs_commands::{mount_helper, zfs, zpool};

fn main() -> ExitCode {
    cenote_device::return_large_buffers();
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let name = Path::new(&name).file_name().unwrap_or_default().to_owned();
    let mut rest: Vec<OsString> = arguments.collect();
    let called = match name.to_str() {
        Some(name @ ("zpool" | "zfs" | zstream::NAME | mount_helper::NAME)) => name.to_owned(),
        Some(zstream::DUMP_NAME) => {
            rest.insert(0, "dump".into());
            zstream::NAME.to_owned()
        }
        Some(name @ ("arcstat" | "zarcstat" | "arc_summary" | "zarcsummary")) => {
            let command = match name.ends_with("stat") {
                true => "arcstat",
                false => "arc-summary",
            };
            rest.insert(0, command.into());
            "cenote".to_owned()
        }
        Some(mount_helper::NAME_BY_TYPE) => mount_helper::NAME.to_owned(),
        _ => match rest.first().and_then(|word| word.to_str()) {
            Some(word @ ("zpool" | "zfs" | zstream::NAME)) => {
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
    let mut context = context(resumes(&called, rest.first()));
    let code = match called.as_str() {
        "zpool" => zpool::run(&words(rest), &mut context),
        "zfs" => zfs::run(&words(rest), &mut context),
        mount_helper::NAME => mount_helper::run(&words(rest), &mut context),
        _ => cenote::run(rest, &mut context),
    };
    ExitCode::from(context.finish(code))
}

/// Names of pools and datasets are ASCII; what is not UTF-8 will be refused by name.
fn words(arguments: Vec<OsString>) -> Vec<String> {
    let lossy = |word: OsString| word.to_string_lossy().into_owned();
    arguments.into_iter().map(lossy).collect()
}

/// Commands that only look, or bring pools of their own: with them the pools of a daemon that died
/// do not come back.
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
        ],
    ),
];

/// Whether a command works on pools that are imported.
fn resumes(called: &str, word: Option<&OsString>) -> bool {
    let mut lookers = LOOKERS.iter().filter(|(program, _)| *program == called);
    let looks = |words: &[&str]| word.is_none_or(|word| words.iter().any(|known| word == known));
    !lookers.any(|(_, words)| looks(words))
}

/// Disks are looked at here, as the daemon does, while none runs.
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
