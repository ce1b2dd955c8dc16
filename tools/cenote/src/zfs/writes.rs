//! The subcommands that change datasets: recognised, their operands looked up, and refused.

use cenote_control::model::{Depth, KindSet, PropertySelection};

use super::change;
use super::select::{self, Selection};
use crate::context::{Context, Outcome, Stop, failed, usage};
use crate::getopt::{Grammar, Parsed};
use crate::texts::unavailable;
use crate::zpool::command_line;

/// One subcommand: its options and what is said when operands are missing.
struct Write {
    name: &'static str,
    letters: &'static str,
    long: &'static [(&'static str, &'static str, bool)],
    missing: &'static [&'static str],
}

const fn write(
    name: &'static str,
    letters: &'static str,
    missing: &'static [&'static str],
) -> Write {
    Write {
        name,
        letters,
        long: &[],
        missing,
    }
}

const SEND: Write = Write {
    name: "send",
    letters: "i:I:RDpVvnPLeht:cwbd:SX:sU",
    long: &[
        ("replicate", "R", false),
        ("skip-missing", "s", false),
        ("redact", "d", true),
        ("props", "p", false),
        ("parsable", "P", false),
        ("dedup", "D", false),
        ("proctitle", "V", false),
        ("verbose", "v", false),
        ("dryrun", "n", false),
        ("large-block", "L", false),
        ("embed", "e", false),
        ("resume", "t", true),
        ("compressed", "c", false),
        ("raw", "w", false),
        ("backup", "b", false),
        ("holds", "h", false),
        ("saved", "S", false),
        ("exclude", "X", true),
    ],
    missing: &[],
};

const WRITES: &[Write] = &[
    write("create", "PnpuvsV:b:o:", &["missing filesystem argument"]),
    write("destroy", "dfnpRrv", &["missing dataset argument"]),
    write("snapshot", "ro:", &["missing snapshot argument"]),
    write("rollback", "rRf", &["missing dataset argument"]),
    write(
        "clone",
        "o:pu",
        &[
            "missing source dataset argument",
            "missing target dataset argument",
        ],
    ),
    write("promote", "", &["missing clone filesystem argument"]),
    write(
        "rename",
        "fpur",
        &[
            "missing source dataset argument",
            "missing target dataset argument",
        ],
    ),
    write(
        "bookmark",
        "r",
        &["missing source argument", "missing bookmark argument"],
    ),
    write(
        "program",
        "nt:m:j",
        &["missing pool argument", "missing file argument"],
    ),
    write(
        "inherit",
        "rS",
        &["missing property argument", "missing dataset argument"],
    ),
    write("upgrade", "rvV:a", &[]),
    write(
        "project",
        "0Cp:cdrsk",
        &["missing file or directory target(s)"],
    ),
    write("share", "al", &[]),
    write("unshare", "a", &["missing filesystem argument"]),
    write("receive", "o:x:dehMnuvFsAc", &["missing snapshot argument"]),
    write("allow", "esl:dugchL", &["missing dataset argument"]),
    write("unallow", "rsldugech", &["missing dataset argument"]),
    write("hold", "r", &["", ""]),
    write("release", "r", &["", ""]),
    write("change-key", "io:l", &["Missing dataset argument"]),
    write("redact", "", &["", "", ""]),
    write("wait", "t:", &["missing dataset argument"]),
    write("zone", "", &["missing arguments", "missing arguments"]),
    write("unzone", "", &["missing arguments", "missing arguments"]),
    SEND,
];

/// Subcommands that are refused.
const MISSING: [&str; 7] = [
    "program", "project", "allow", "unallow", "redact", "zone", "unzone",
];

/// Whether a subcommand is refused, whatever its operands are.
pub fn is_missing(command: &str) -> bool {
    MISSING.contains(&command)
}

/// The options of one of them.
///
/// # Panics
/// If it is none.
pub fn grammar(command: &str) -> Grammar {
    let write = WRITES.iter().find(|write| write.name == command);
    let write = write.expect("only commands that are here are asked for");
    Grammar {
        letters: write.letters,
        long: write.long,
    }
}

/// Runs one of them.
pub fn run(command: &str, arguments: &[String], context: &mut Context) -> Outcome {
    let Some(write) = WRITES.iter().find(|write| write.name == command) else {
        return failed(format!("zfs {command} is not available in this version"));
    };
    let parsed = grammar(command).parse(arguments)?;
    if let Some(message) = write.missing.get(parsed.operands.len()) {
        return usage(*message);
    }
    match command {
        "send" => super::send::run(&parsed, context),
        "receive" => {
            let command = command_line("zfs receive", arguments);
            super::receive::run(&parsed, command, context)
        }
        "destroy" => destroy(&parsed, arguments, context),
        "rename" if !parsed.operands[0].contains('@') => {
            change::rename(&parsed, command_line("zfs rename", arguments), context)
        }
        "rename" if parsed.operands[0].contains('@') => {
            super::snapshots::rename(&parsed, command_line("zfs rename", arguments), context)
        }
        "rollback" => {
            let command = command_line("zfs rollback", arguments);
            super::rollback::run(&parsed, command, context)
        }
        "clone" => super::clones::clone(&parsed, command_line("zfs clone", arguments), context),
        "promote" => {
            super::clones::promote(&parsed, command_line("zfs promote", arguments), context)
        }
        "bookmark" => {
            let command = command_line("zfs bookmark", arguments);
            super::bookmarks::create(&parsed, command, context)
        }
        "hold" | "release" => {
            let line = command_line(&format!("zfs {command}"), arguments);
            super::snapshots::hold(command, &parsed, line, context)
        }
        "snapshot" => {
            let command = command_line("zfs snapshot", arguments);
            super::snapshots::snapshot(&parsed, command, context)
        }
        "inherit" => {
            let command = command_line("zfs inherit", arguments);
            change::inherit(&parsed, command, context)
        }
        "upgrade" => {
            let command = command_line("zfs upgrade", arguments);
            super::upgrade::upgrade(&parsed, command, context)
        }
        "share" | "unshare" | "wait" => quiet(command, &parsed, context),
        "change-key" => {
            let command = command_line("zfs change-key", arguments);
            change::change_key(&parsed, command, context)
        }
        _ => {
            assert!(is_missing(command), "help calls missing what is refused");
            with_context(command, &parsed, context)
        }
    }
}

/// Subcommands whose refusal names one operand.
fn with_context(command: &str, parsed: &Parsed, context: &mut Context) -> Outcome {
    let operand = |index: usize| parsed.operands.get(index).cloned().unwrap_or_default();
    let (first, second) = (operand(0), operand(1));
    let last = parsed.operands.last().cloned().unwrap_or_default();
    let (needed, what) = match command {
        "allow" | "unallow" => (&last, format!("cannot set permissions on '{last}'")),
        "redact" => (&first, format!("cannot redact '{first}'")),
        "zone" | "unzone" => (&second, format!("cannot {command} '{second}'")),
        _ => {
            return failed(format!("zfs {command} is not available in this version"));
        }
    };
    if !needed.starts_with(['@', '#']) {
        require(std::slice::from_ref(needed), context)?;
    }
    refuse(&what, needed, context)
}

fn refuse(what: &str, name: &str, context: &mut Context) -> Outcome {
    let pool = name.split(['/', '@', '#']).next().unwrap_or_default();
    let reason = unavailable(pool, context);
    failed(format!("{what}: {reason}"))
}

/// Complains about names that do not exist, as the reference does before anything else.
pub fn require(names: &[String], context: &mut Context) -> Result<(), Stop> {
    let selection = Selection {
        operands: names.to_vec(),
        depth: Some(Depth::Roots),
        kinds: KindSet::ALL,
        operand_kinds: KindSet::NONE,
        paths: false,
        properties: PropertySelection::Named(Vec::new()),
        keys: Vec::new(),
    };
    if select::select(&selection, context).failed {
        return Err(Stop::Code(1));
    }
    Ok(())
}

fn destroy(parsed: &Parsed, arguments: &[String], context: &mut Context) -> Outcome {
    let name = &parsed.operands[0];
    if let Some((dataset, snapshots)) = name.split_once('@') {
        if parsed.operands.len() > 1 {
            return usage("too many arguments");
        }
        require(&[dataset.to_owned()], context)?;
        let command = command_line("zfs destroy", arguments);
        return super::snapshots::destroy(dataset, snapshots, parsed, command, context);
    }
    if name.contains('#') {
        let command = command_line("zfs destroy", arguments);
        return super::bookmarks::destroy(name, command, context);
    }
    if parsed.operands.len() > 1 {
        return usage("too many arguments");
    }
    if parsed.has("d") {
        return failed(format!(
            "cannot open '{name}': missing '@' delimiter in snapshot name"
        ));
    }
    let command = command_line("zfs destroy", arguments);
    change::destroy(name, parsed, command, context)
}

/// Nothing is shared, nothing is pending: there is nothing to do.
fn quiet(command: &str, parsed: &Parsed, context: &mut Context) -> Outcome {
    if command == "share" && !parsed.has("a") && parsed.operands.is_empty() {
        return usage("missing dataset argument");
    }
    if command != "share" || !parsed.has("a") {
        require(&parsed.operands, context)?;
    }
    Ok(0)
}
