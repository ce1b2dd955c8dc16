//! The subcommands that change datasets: recognised, their operands looked up, and refused.

use cenote_control::model::{ControlError, Depth, KindSet, PropertySelection};

use super::properties::property;
use super::select::{self, Selection};
use crate::context::{Context, Outcome, Stop, failed, usage};
use crate::getopt::{Grammar, Parsed};

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

/// Runs one of them.
pub fn run(command: &str, arguments: &[String], context: &mut Context) -> Outcome {
    if command == "set" {
        return set(arguments, context);
    }
    let Some(write) = WRITES.iter().find(|write| write.name == command) else {
        return failed(format!("zfs {command} is not available in this version"));
    };
    let grammar = Grammar {
        letters: write.letters,
        long: write.long,
    };
    let parsed = grammar.parse(arguments)?;
    if let Some(message) = write.missing.get(parsed.operands.len()) {
        return usage(*message);
    }
    match command {
        "send" => send(&parsed, context),
        "receive" => receive(&parsed, context),
        "destroy" => destroy(&parsed.operands[0], context),
        "create" => create(&parsed.operands[0], context),
        "snapshot" => snapshot(&parsed.operands, context),
        "inherit" => inherit(&parsed, context),
        "upgrade" => upgrade(&parsed, context),
        "share" | "unshare" | "wait" => quiet(command, &parsed, context),
        "hold" | "release" => {
            require(&parsed.operands[1..], context)?;
            refuse(&format!("cannot {command}"))
        }
        "change-key" => {
            require(&parsed.operands[..1], context)?;
            context.complain(&format!("Key change error: {}", read_only()));
            Err(Stop::Code(255))
        }
        _ => with_context(command, &parsed, context),
    }
}

/// Subcommands whose refusal names one operand.
fn with_context(command: &str, parsed: &Parsed, context: &mut Context) -> Outcome {
    let operand = |index: usize| parsed.operands.get(index).cloned().unwrap_or_default();
    let (first, second) = (operand(0), operand(1));
    let last = parsed.operands.last().cloned().unwrap_or_default();
    let (needed, what) = match command {
        "rollback" => (&first, format!("cannot rollback to '{first}'")),
        "clone" => (&first, format!("cannot create '{second}'")),
        "promote" => (&first, format!("cannot promote '{first}'")),
        "rename" => (&first, format!("cannot rename '{first}'")),
        "bookmark" => (
            &first,
            format!("cannot create bookmark '{}'", bookmark(&first, &second)),
        ),
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
    refuse(&what)
}

/// `#b` is short for a bookmark of the source's dataset.
fn bookmark(source: &str, name: &str) -> String {
    match name.strip_prefix('#') {
        Some(_) => format!(
            "{}{name}",
            source.split(['@', '#']).next().unwrap_or(source)
        ),
        None => name.to_owned(),
    }
}

fn read_only() -> String {
    let pool = String::new();
    ControlError::PoolReadOnly { pool }.to_string()
}

fn refuse(what: &str) -> Outcome {
    failed(format!("{what}: {}", read_only()))
}

/// Complains about names that do not exist, as the reference does before anything else.
fn require(names: &[String], context: &mut Context) -> Result<(), Stop> {
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

fn set(arguments: &[String], context: &mut Context) -> Outcome {
    let parsed = Grammar::letters("u").parse(arguments)?;
    if parsed.operands.is_empty() {
        return usage("missing arguments");
    }
    let is_pair = |word: &&String| word.contains('=');
    let pairs = parsed.operands.iter().take_while(is_pair).count();
    if pairs == 0 {
        return usage("missing property=value argument(s)");
    }
    let (pairs, names) = parsed.operands.split_at(pairs);
    if names.is_empty() {
        return usage("missing dataset name(s)");
    }
    require(names, context)?;
    for name in names {
        let what = format!("cannot set property for '{name}'");
        let unknown = pairs
            .iter()
            .map(|pair| pair.split('=').next().unwrap_or_default());
        let unknown = unknown.into_iter().find(|name| property(name).is_none());
        match unknown {
            Some(property) => {
                context.complain(&format!("{what}: invalid property '{property}'"));
            }
            None => context.complain(&format!("{what}: {}", read_only())),
        }
    }
    Err(Stop::Code(255))
}

fn inherit(parsed: &Parsed, context: &mut Context) -> Outcome {
    let (name, datasets) = (&parsed.operands[0], &parsed.operands[1..]);
    let Some(wanted) = property(name) else {
        return usage(format!("invalid property '{name}'"));
    };
    require(datasets, context)?;
    let lines = datasets.iter().map(|dataset| {
        format!(
            "cannot inherit {} for '{dataset}': {}",
            wanted.name,
            read_only()
        )
    });
    failed(lines.collect::<Vec<_>>().join("\n"))
}

fn create(name: &str, context: &mut Context) -> Outcome {
    if let Err(fault) = crate::texts::check_name(name, false, false) {
        return failed(format!("cannot create '{name}': {fault}"));
    }
    let Some((parent, _)) = name.rsplit_once('/') else {
        return failed(format!("cannot create '{name}': missing dataset name"));
    };
    let pool = name.split('/').next().unwrap_or(parent);
    let known = cenote_control::model::Request::PoolList {
        pools: vec![pool.to_owned()],
        properties: PropertySelection::Named(Vec::new()),
        vdevs: false,
    };
    if let Ok(cenote_control::model::Response::Pools { failures, .. }) = context.ask(known)
        && !failures.is_empty()
    {
        return failed(format!("cannot create '{name}': no such pool '{pool}'"));
    }
    refuse(&format!("cannot create '{name}'"))
}

fn destroy(name: &str, context: &mut Context) -> Outcome {
    if let Some((dataset, _)) = name.split_once('@') {
        require(&[dataset.to_owned()], context)?;
        return refuse("cannot destroy snapshots");
    }
    if let Some((dataset, _)) = name.split_once('#') {
        require(&[dataset.to_owned()], context)?;
        return refuse(&format!("cannot destroy bookmark '{name}'"));
    }
    require(&[name.to_owned()], context)?;
    refuse(&format!("cannot destroy '{name}'"))
}

fn snapshot(names: &[String], context: &mut Context) -> Outcome {
    for name in names {
        let Some((dataset, _)) = name.split_once('@') else {
            return usage(format!(
                "cannot create snapshot '{name}': missing '@' delimiter"
            ));
        };
        // The reference answers a missing dataset with its usage.
        if require(&[dataset.to_owned()], context).is_err() {
            return usage("");
        }
    }
    refuse("cannot create snapshots ")
}

fn send(parsed: &Parsed, context: &mut Context) -> Outcome {
    if parsed.has("s") && !parsed.has("R") {
        return usage("skip-missing flag can only be used in conjunction with replicate");
    }
    let name = match (parsed.has("t"), parsed.operands.as_slice()) {
        (true, []) => return failed("zfs send is not available in this version"),
        (true, _) => return usage("invalid flags combined with -t"),
        (false, []) => return usage("missing snapshot argument"),
        (false, [name]) => name,
        (false, _) => return usage("too many arguments"),
    };
    require(std::slice::from_ref(name), context)?;
    failed(format!(
        "cannot send '{name}': not available in this version"
    ))
}

fn receive(parsed: &Parsed, context: &mut Context) -> Outcome {
    if parsed.operands.len() > 1 {
        return usage("too many arguments");
    }
    let target = &parsed.operands[0];
    if parsed.has("A") {
        require(std::slice::from_ref(target), context)?;
        return refuse(&format!("cannot destroy '{target}'"));
    }
    refuse("cannot receive new filesystem stream")
}

fn upgrade(parsed: &Parsed, context: &mut Context) -> Outcome {
    if parsed.has("v") {
        context.line("The following filesystem versions are supported:\n");
        context.line("VER  DESCRIPTION");
        context.line("---  --------------------------------------------------------");
        let versions = [
            "Initial ZFS filesystem version",
            "Enhanced directory entries",
            "Case insensitive and filesystem user identifier (FUID)",
            "userquota, groupquota properties",
            "System attributes",
        ];
        for (index, words) in versions.iter().enumerate() {
            context.line(&format!("{:2}   {words}", index + 1));
        }
        context.line("");
        return Ok(0);
    }
    if let Some(name) = parsed.operands.first() {
        require(std::slice::from_ref(name), context)?;
        return refuse(&format!("cannot upgrade '{name}'"));
    }
    context.line("This system is currently running ZFS filesystem version 5.\n");
    context.line("All filesystems are formatted with the current version.");
    Ok(0)
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
