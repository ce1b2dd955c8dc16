//! The subcommands that change datasets: parses them, looks up their operands, and refuses some.

use cenote_control::model::properties::{Effect, dataset_effect};
use cenote_control::model::{
    DatasetKind, Depth, KindSet, Property, PropertySelection, Request, Source,
};

use super::change;
use super::select;
use cenote_words::command_line;
use cenote_words::context::{Context, Outcome, failed, usage};
use cenote_words::getopt::{Grammar, Parsed};
use cenote_words::texts::unavailable;

/// One subcommand: its options and the message for missing operands.
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
        ("no-preserve-encryption", "U", false),
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
        "",
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
    write("share", "a", &[]),
    write("unshare", "a", &[]),
    write("receive", "o:x:dehMnuvFsAc", &["missing snapshot argument"]),
    write("allow", "esldugchL", &["missing dataset argument"]),
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
const MISSING: [&str; 8] = [
    "program", "project", "allow", "unallow", "redact", "wait", "zone", "unzone",
];

/// Whether a subcommand is always refused.
pub fn is_missing(command: &str) -> bool {
    MISSING.contains(&command)
}

/// The options of one of these subcommands.
///
/// If it is not one of them.
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
        "share" => share(&parsed, context),
        "unshare" => unshare(&parsed, context),
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

/// Subcommands whose error message names one operand.
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
        select::require(std::slice::from_ref(needed), context)?;
    }
    refuse(&what, needed, context)
}

fn refuse(what: &str, name: &str, context: &mut Context) -> Outcome {
    let pool = name.split(['/', '@', '#']).next().unwrap_or_default();
    let reason = unavailable(pool, context);
    failed(format!("{what}: {reason}"))
}

fn destroy(parsed: &Parsed, arguments: &[String], context: &mut Context) -> Outcome {
    let name = &parsed.operands[0];
    if let Some((dataset, snapshots)) = name.split_once('@') {
        if parsed.operands.len() > 1 {
            return usage("too many arguments");
        }
        select::require(&[dataset.to_owned()], context)?;
        let command = command_line("zfs destroy", arguments);
        return super::snapshots::destroy(dataset, snapshots, parsed, command, context);
    }
    if name.contains('#') {
        let command = command_line("zfs destroy", arguments);
        return super::bookmarks::destroy(name, parsed, command, context);
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

/// The properties by which OpenZFS shares a file system, and the protocols' names.
const SHARING: [&str; 2] = ["sharenfs", "sharesmb"];

/// `zfs share -a | [nfs | smb] DATASET`: refused, because nothing would be shared.
fn share(parsed: &Parsed, context: &mut Context) -> Outcome {
    let names: Vec<String> = match (parsed.has("a"), parsed.operands.last()) {
        (true, _) => Vec::new(),
        (false, Some(name)) => vec![name.clone()],
        (false, None) => return usage("missing dataset argument"),
    };
    if !names.is_empty() {
        select::require(&names, context)?;
    }
    let protocol = match parsed.operands.first().map(String::as_str) {
        Some("smb") => "sharesmb",
        _ => "sharenfs",
    };
    if let Some(name) = names.first() {
        return failed(format!(
            "cannot share '{name}': {}",
            why_not_shared(protocol)
        ));
    }
    match tell_of_unshared(&[], "cannot share", context) {
        0 => Ok(0),
        _ => Ok(1),
    }
}

/// `zfs unshare [nfs | smb] -a | DATASET`.
fn unshare(parsed: &Parsed, context: &mut Context) -> Outcome {
    if parsed.has("a") {
        // Nothing is shared.
        return Ok(0);
    }
    let Some(name) = parsed.operands.last() else {
        return usage("missing filesystem argument");
    };
    if !name.starts_with('/') {
        select::require(std::slice::from_ref(name), context)?;
    }
    failed(format!("cannot unshare '{name}': not currently shared"))
}

fn why_not_shared(property: &str) -> &'static str {
    match dataset_effect(property) {
        Effect::Refused(reason) => reason,
        Effect::Kept(_) | Effect::Obeyed => "not available in this version",
    }
}

/// Reports each file system of these pools, or of all, that OpenZFS would share. Returns how many
/// there are. File systems that only inherit the property are not named.
pub fn tell_of_unshared(pools: &[String], what: &str, context: &mut Context) -> usize {
    let request = Request::DatasetList {
        roots: pools.to_vec(),
        depth: Depth::All,
        kinds: KindSet::of(DatasetKind::Filesystem),
        properties: PropertySelection::Named(SHARING.map(str::to_owned).to_vec()),
    };
    let rows = context.ask_datasets(request).map(|listing| listing.rows);
    let mut count = 0;
    for row in rows.unwrap_or_default() {
        for name in SHARING {
            let own = |property: &&Property| {
                let is_own = matches!(property.source, Source::Local | Source::Received);
                is_own && property.value.text().is_some_and(|value| value != "off")
            };
            if row.property(name).filter(own).is_some() {
                count += 1;
                let reason = why_not_shared(name);
                context.complain(&format!("{what} '{}' ({name} is set): {reason}", row.name));
            }
        }
    }
    count
}
