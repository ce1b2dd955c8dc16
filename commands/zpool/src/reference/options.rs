//! Checks that every option of every command is used.
//!
//! `zpool import -E` and `zfs send -U` were once accepted, and no code read them. So each
//! subcommand is run with each of its options, against a daemon that accepts everything. Other
//! operands and options are added as needed. The parser records which options were looked up
//! (`getopt`). An option that no run looks up does nothing. And no command may succeed if it has
//! ignored a given option.

use cenote_zfs_commands::zfs;
use std::fmt::Write;

use cenote_control::model::{Part, Request, Response};
use cenote_control::protocol::{CallError, Interrupt};

use super::run_words;
use super::world::Canned;
use cenote_words::context::{Daemon, UNREAD};
use cenote_words::flag::Flag;
use cenote_words::getopt::watch;
use cenote_words::program::{Program, Topic};
use cenote_words::testing::{Ran, faults_of_synopsis};

/// A daemon that accepts every request.
struct Willing(Canned);

impl Daemon for Willing {
    fn call(
        &mut self,
        request: Request,
        on_part: &mut dyn FnMut(Part) -> Interrupt,
    ) -> Result<Response, CallError> {
        match request {
            Request::Noted { asked, .. } => self.call(*asked, on_part),
            request @ (Request::PoolList { .. }
            | Request::PoolStatus { .. }
            | Request::DatasetList { .. }
            | Request::Holds { .. }
            | Request::MountList) => self.0.call(request, on_part),
            Request::ImportSearch { .. } => Ok(Response::Candidates {
                candidates: Vec::new(),
                unreadable: Vec::new(),
            }),
            Request::Import { .. } => Ok(Response::Imported {
                pools: vec!["tank".to_owned()],
                failures: Vec::new(),
                rewound: None,
                diagnoses: Vec::new(),
                cut_short: Vec::new(),
                unread: Vec::new(),
            }),
            _ => Ok(Response::Done),
        }
    }
}

/// Operands for the commands.
const OPERANDS: &[&[&str]] = &[
    &[],
    &["tank"],
    &["tank/fs"],
    &["tank/fs@a2"],
    &["tank/fs#bm"],
    &["all", "tank"],
    &["tank", "/tmp/d0"],
    &["tank", "/tmp/d0", "/tmp/new"],
    &["tank", "new"],
    &["new", "/tmp/new"],
    &["tank/new"],
    &["tank/fs", "tank/new"],
    &["tank/fs@a2", "tank/fs@new"],
    &["tank/fs@a2", "tank/new"],
    &["tank/fs@a2", "tank/fs#new"],
    &["tag", "tank/fs@a2"],
    &["compression", "tank/fs"],
    &["compression=on", "tank/fs"],
];

/// Options that others require.
const COMPANIONS: &[&[&str]] = &[
    &[],
    &["-n"],
    &["-F"],
    &["-R"],
    &["-j"],
    &["-d"],
    &["-v"],
    &["-R", "/mnt"],
    &["-V", "1M"],
    &["-o", "name"],
    &["-F", "-n"],
];

/// Arguments for the options.
const ARGUMENTS: &[&str] = &[
    "1",
    "name",
    "user",
    "snapshot",
    "1M",
    "/tmp/key",
    "tank/fs@a2",
    "compression=on",
    "ashift=12",
    "tank/fs",
    "scrub",
    "u",
    "all",
    "local",
    "posixuser",
];

const PROGRAMS: [&Program; 2] = [&crate::PROGRAM, &zfs::PROGRAM];

/// The subcommands of both programs that are not refused as a whole.
fn subcommands() -> impl Iterator<Item = (&'static str, &'static Topic)> {
    PROGRAMS.iter().flat_map(|program| {
        let done = program
            .topics()
            .filter(|topic| !(program.is_missing)(topic.name));
        done.map(|topic| (program.name, topic))
    })
}

fn tried(words: &[&str], faults: &mut String) -> watch::Seen {
    watch::take();
    let Ran { err, .. } = run_words(words, Willing(Canned::tank()));
    if let Some(line) = err.lines().find(|line| line.starts_with(UNREAD)) {
        let _ = writeln!(faults, "{}: {line}", words.join(" "));
    }
    watch::take()
}

/// Whether any run of a command with this option looks it up.
fn is_asked_for(start: &[&str], option: &Flag, faults: &mut String) -> bool {
    let spelled = match option.short {
        Some(letter) => format!("-{letter}"),
        None => format!("--{}", option.long),
    };
    let arguments = if option.value.is_some() {
        ARGUMENTS
    } else {
        &[""][..]
    };
    for companions in COMPANIONS {
        for operands in OPERANDS {
            for argument in arguments {
                let mut words = start.to_vec();
                words.push(&spelled);
                words.extend(Some(*argument).filter(|argument| !argument.is_empty()));
                words.extend_from_slice(companions);
                words.extend_from_slice(operands);
                if tried(&words, faults).asked.contains(&option.letter()) {
                    return true;
                }
            }
        }
    }
    false
}

#[test]
fn every_option_of_every_command_is_asked_for() {
    let mut faults = String::new();
    let mut count = 0;
    for (program, topic) in subcommands() {
        for option in topic.flags {
            count += 1;
            if !is_asked_for(&[program, topic.name], option, &mut faults) {
                let (name, option) = (topic.name, option.letter());
                let _ = writeln!(faults, "{program} {name}: nothing reads '{option}'");
            }
        }
    }
    assert!(count > 200, "only {count} options were tried");
    assert!(faults.is_empty(), "{faults}");
}

/// A command that succeeds has used all its options.
#[test]
fn no_option_is_ignored_where_a_command_ends_well() {
    let mut faults = String::new();
    for (program, topic) in subcommands() {
        let without_value = topic.flags.iter().filter(|flag| flag.value.is_none());
        for letter in without_value.filter_map(|flag| flag.short) {
            let spelled = format!("-{letter}");
            for operands in OPERANDS {
                let mut words = vec![program, topic.name, &spelled];
                words.extend_from_slice(operands);
                tried(&words, &mut faults);
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

/// What OpenZFS prints in a synopsis but does not accept, and neither do we.
const ONLY_SHOWN: &str = "zpool add: shows -a, which is not an option";

/// The synopses are OpenZFS's words. Previously, `zpool prefetch` accepted an option `--power` that
/// no text showed.
#[test]
fn synopses_show_the_options_of_the_table() {
    let mut faults = Vec::new();
    for program in PROGRAMS {
        for topic in program.topics() {
            let found = faults_of_synopsis(&topic.synopsis.join("\n"), topic.flags, true);
            let found = found
                .iter()
                .map(|fault| format!("{} {}: {fault}", program.name, topic.name));
            faults.extend(found);
        }
    }
    assert_eq!(faults, [ONLY_SHOWN]);
}
