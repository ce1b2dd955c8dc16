//! The subcommands that change datasets: parses them, looks up their operands, and refuses some.

use cenote_control::model::properties::{Effect, dataset_effect};
use cenote_control::model::{
    DatasetKind, Depth, KindSet, Property, PropertySelection, Request, Source,
};

use super::change;
use super::select;
use cenote_words::context::{Context, Outcome, failed, usage};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;

/// The messages for missing operands of a subcommand, one for each that it requires.
fn required(command: &str) -> &'static [&'static str] {
    match command {
        "destroy" | "rollback" | "allow" | "unallow" => &["missing dataset argument"],
        "snapshot" | "receive" => &["missing snapshot argument"],
        "clone" | "rename" => &[
            "missing source dataset argument",
            "missing target dataset argument",
        ],
        "promote" => &["missing clone filesystem argument"],
        "bookmark" => &["missing source argument", "missing bookmark argument"],
        "inherit" => &["missing property argument", "missing dataset argument"],
        "hold" | "release" => &["", ""],
        "change-key" => &["Missing dataset argument"],
        "redact" => &[
            "missing snapshot argument",
            "missing bookmark argument",
            "missing redaction snapshot argument",
        ],
        "zone" | "unzone" => &["missing arguments", "missing arguments"],
        _ => &[],
    }
}

/// Subcommands that are refused.
const MISSING: [&str; 2] = ["zone", "unzone"];

/// Whether a subcommand is always refused.
pub fn is_missing(command: &str) -> bool {
    MISSING.contains(&command)
}

/// Runs one of them.
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    if let Some(message) = required(line.name()).get(parsed.operands.len()) {
        return usage(*message);
    }
    let command = context.command.clone();
    match line.name() {
        "send" => super::send::run(&parsed, context),
        "receive" => super::receive::run(&parsed, command, context),
        "destroy" => destroy(&parsed, command, context),
        "rename" if parsed.operands[0].contains('@') => {
            super::snapshots::rename(&parsed, command, context)
        }
        "rename" => change::rename(&parsed, command, context),
        "rollback" => super::rollback::run(&parsed, command, context),
        "clone" => super::clones::clone(&parsed, command, context),
        "promote" => super::clones::promote(&parsed, command, context),
        "bookmark" => super::bookmarks::create(&parsed, command, context),
        "redact" => super::redact::run(&parsed, command, context),
        "hold" | "release" => super::snapshots::hold(line.name(), &parsed, command, context),
        "snapshot" => super::snapshots::snapshot(&parsed, command, context),
        "inherit" => change::inherit(&parsed, command, context),
        "upgrade" => super::upgrade::upgrade(&parsed, command, context),
        "share" => share(&parsed, context),
        "unshare" => unshare(&parsed, context),
        "change-key" => change::change_key(&parsed, command, context),
        "allow" => super::allow::allow(&parsed, command, context),
        "unallow" => super::allow::unallow(&parsed, command, context),
        refused => {
            assert!(is_missing(refused), "help calls missing what is refused");
            refuse_zone(refused, &parsed, context)
        }
    }
}

/// A namespace sees the datasets of its own in OpenZFS because one kernel module serves all
/// namespaces and hides from each what is not its.
const WHY_NOT_ZONED: &str = "only OpenZFS's kernel module can give datasets to user namespaces. \
    To use the file system in a container, bind its mount point there, or run 'cenote daemon' \
    in the container with a pool of its own";

/// Refuses `zone` and `unzone`, whose error message names the dataset.
fn refuse_zone(command: &str, parsed: &Parsed, context: &mut Context) -> Outcome {
    let dataset = parsed.operands.get(1).cloned().unwrap_or_default();
    select::require(std::slice::from_ref(&dataset), context)?;
    failed(format!("cannot {command} '{dataset}': {WHY_NOT_ZONED}"))
}

fn destroy(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let name = &parsed.operands[0];
    if let Some((dataset, snapshots)) = name.split_once('@') {
        if parsed.operands.len() > 1 {
            return usage("too many arguments");
        }
        select::require(&[dataset.to_owned()], context)?;
        return super::snapshots::destroy(dataset, snapshots, parsed, command, context);
    }
    if name.contains('#') {
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
