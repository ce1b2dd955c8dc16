//! Checks that every option of every command is used.
//!
//! `zpool import -E` and `zfs send -U` were once accepted, and no code read them. So each
//! subcommand is run with each of its options, against a daemon that accepts everything. Other
//! operands and options are added as needed. The parser records which options were looked up
//! (`getopt`). An option that no run looks up does nothing. And no command may succeed if it has
//! ignored a given option.

use std::collections::BTreeSet;
use std::fmt::Write;

use cenote_control::model::{Part, Request, Response};
use cenote_control::protocol::{CallError, Interrupt};

use super::run_words;
use super::world::Canned;
use cenote_words::context::{Daemon, UNREAD};
use cenote_words::getopt::{Known, watch};
use cenote_words::testing::Ran;

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

/// The subcommands of a program, from its overview.
fn subcommands(program: &str) -> Vec<String> {
    let overview = run_words(&[program, "help"], Willing(Canned::tank())).out;
    let mut names: Vec<String> = Vec::new();
    for line in overview.lines().filter_map(|line| line.strip_prefix('\t')) {
        match line.split(' ').next() {
            // Subcommands that are refused as a whole have no options.
            _ if line.contains("(not available") => drop(names.pop()),
            None | Some("") => {}
            Some(name) if names.last().is_some_and(|last| last == name) => {}
            Some(name) => names.push(name.to_owned()),
        }
    }
    names
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
fn is_asked_for(start: &[&str], option: &Known, faults: &mut String) -> bool {
    let spelled = match (option.letter, option.long) {
        (Some(letter), _) => format!("-{letter}"),
        (None, long) => format!("--{}", long.unwrap_or_default()),
    };
    let arguments = if option.takes { ARGUMENTS } else { &[""][..] };
    for companions in COMPANIONS {
        for operands in OPERANDS {
            for argument in arguments {
                let mut words = start.to_vec();
                words.push(&spelled);
                words.extend(Some(*argument).filter(|argument| !argument.is_empty()));
                words.extend_from_slice(companions);
                words.extend_from_slice(operands);
                if tried(&words, faults).asked.contains(&option.name) {
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
    for program in ["zpool", "zfs"] {
        for command in subcommands(program) {
            let start = [program, command.as_str()];
            let declared = tried(&start, &mut faults).declared;
            let mut names = BTreeSet::new();
            for option in declared
                .iter()
                .filter(|option| names.insert(option.name.clone()))
            {
                count += 1;
                if !is_asked_for(&start, option, &mut faults) {
                    let _ = writeln!(
                        faults,
                        "{program} {command}: nothing reads '{}'",
                        option.name
                    );
                }
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
    for program in ["zpool", "zfs"] {
        for command in subcommands(program) {
            let start = [program, command.as_str()];
            let declared = tried(&start, &mut faults).declared;
            for option in declared.iter().filter(|option| !option.takes) {
                let Some(letter) = option.letter else {
                    continue;
                };
                let spelled = format!("-{letter}");
                for operands in OPERANDS {
                    let mut words = start.to_vec();
                    words.push(&spelled);
                    words.extend_from_slice(operands);
                    tried(&words, &mut faults);
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

/// Previously, options were only in the code and in the synopsis; no help explained them.
#[test]
fn every_option_is_explained_and_no_other() {
    let mut faults = String::new();
    for program in [&crate::zpool::PROGRAM, &crate::zfs::PROGRAM] {
        let groups = program.groups.iter().flat_map(|group| group.iter());
        let names: Vec<&str> = groups.map(|(name, _)| *name).collect();
        let topics: Vec<&str> = program.topics.iter().map(|topic| topic.name).collect();
        assert_eq!(names, topics, "{}", program.name);
        for topic in program.topics {
            let start = [program.name, topic.name, "tank", "tank", "tank"];
            let mut ignored = String::new();
            let declared = tried(&start, &mut ignored).declared;
            let taken: BTreeSet<(String, bool)> = declared
                .iter()
                .flat_map(|known| {
                    let letter = known
                        .letter
                        .map(|letter| (format!("-{letter}"), known.takes));
                    let long = known.long.map(|long| (format!("--{long}"), known.takes));
                    letter.into_iter().chain(long)
                })
                .collect();
            let told: BTreeSet<(String, bool)> = topic
                .flags
                .iter()
                .flat_map(|flag| {
                    let takes = flag.value.is_some();
                    let letter = flag.short.map(|letter| (format!("-{letter}"), takes));
                    let long = Some(flag.long).filter(|long| !long.is_empty());
                    letter
                        .into_iter()
                        .chain(long.map(|long| (format!("--{long}"), takes)))
                })
                .collect();
            if taken != told {
                let (name, topic) = (program.name, topic.name);
                let _ = writeln!(
                    faults,
                    "{name} {topic}: takes {taken:?}\n  explains {told:?}"
                );
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}
