//! Which datasets a command line selects (cli/contract-zfs.md 2).

use std::path::Path;

use cenote_control::model::{
    ControlError, Dataset, DatasetKind, Depth, KindSet, PropertySelection, Request, Response,
};

use super::sort::{self, SortKey};
use cenote_words::context::{Context, Stop, usage};
use cenote_words::getopt::Parsed;
use cenote_words::texts::{cannot_open, check_name, question, with_context};

/// What to list.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Operands as given; none means every pool.
    pub operands: Vec<String>,
    /// The depth below them, if given.
    pub depth: Option<Depth>,
    /// Kinds to show.
    pub kinds: KindSet,
    /// Kinds that are allowed as operands although they are not in `kinds`.
    pub operand_kinds: KindSet,
    /// Whether operands may be paths.
    pub paths: bool,
    /// Which properties to request.
    pub properties: PropertySelection,
    /// How to sort.
    pub keys: Vec<SortKey>,
}

/// The datasets, sorted, without duplicates; and whether an operand could not be opened.
#[derive(Debug, Default)]
pub struct Selected {
    /// The datasets.
    pub rows: Vec<Dataset>,
    /// Whether an error was reported.
    pub failed: bool,
}

/// Parses `-t`.
pub fn kinds(list: &str) -> Result<KindSet, Stop> {
    let mut kinds = KindSet::NONE;
    for word in list.split(',') {
        kinds = kinds.union(match word {
            "filesystem" | "fs" => KindSet::of(DatasetKind::Filesystem),
            "volume" | "vol" => KindSet::of(DatasetKind::Volume),
            "snapshot" | "snap" => KindSet::of(DatasetKind::Snapshot),
            "bookmark" => KindSet::of(DatasetKind::Bookmark),
            "all" => KindSet::ALL,
            _ => {
                let known = ["filesystem", "volume", "snapshot", "bookmark", "all"];
                let question = question(word, known);
                return usage(format!("invalid type '{word}'{question}"));
            }
        });
    }
    Ok(kinds)
}

/// Parses `-r` and `-d`; the last one counts.
pub fn depth(parsed: &Parsed) -> Result<Option<Depth>, Stop> {
    let mut depth = None;
    for (name, value) in parsed.in_order(&["r", "d"]) {
        match name {
            "r" => depth = depth.or(Some(Depth::All)),
            _ => match value.parse::<u64>() {
                Ok(levels) => depth = Some(Depth::Levels(levels)),
                Err(_) if value.parse::<i64>().is_ok() => {
                    return usage("Depth can not be negative.");
                }
                Err(_) => return usage(format!("{value} is not an integer")),
            },
        }
    }
    Ok(depth)
}

/// Lists the selected datasets; reports those that do not exist.
pub fn select(selection: &Selection, context: &mut Context) -> Selected {
    let only = |kind| selection.kinds == KindSet::of(kind);
    let implied = only(DatasetKind::Snapshot) || only(DatasetKind::Bookmark);
    let depth = match selection.depth {
        Some(depth) => depth,
        None if selection.operands.is_empty() => Depth::All,
        // `zfs list -t snapshot DATASET` means the dataset's snapshots.
        None if implied => Depth::Levels(1),
        None => Depth::Roots,
    };
    let recursive = depth != Depth::Roots;
    let mut accepted = selection.kinds.union(selection.operand_kinds);
    if recursive {
        accepted = accepted.union(KindSet::HEADS);
    }
    let mut selected = Selected::default();
    let mut roots = Vec::new();
    for operand in &selection.operands {
        match resolve(operand, accepted, selection.paths, context) {
            Ok(name) if roots.contains(&name) => {}
            Ok(name) => roots.push(name),
            Err(message) => {
                context.complain(&message);
                selected.failed = true;
            }
        }
    }
    if roots.is_empty() && !selection.operands.is_empty() {
        return selected;
    }
    // Snapshots and bookmarks have no descendants.
    let names_snapshots = !roots.is_empty() && roots.iter().all(|root| root.contains(['@', '#']));
    let request = Request::DatasetList {
        roots,
        depth,
        // Request roots of any kind, to distinguish a wrong kind from a missing dataset.
        kinds: if recursive && !names_snapshots {
            selection.kinds
        } else {
            KindSet::ALL
        },
        properties: selection.properties.clone(),
    };
    match context.ask_datasets(request) {
        Err(error) => {
            context.complain(&with_context("cannot list datasets", &error));
            selected.failed = true;
        }
        Ok(listing) => {
            selected.failed |= !listing.failures.is_empty();
            for (name, error) in &listing.failures {
                context.complain(&cannot_open(name, error));
            }
            for row in listing.rows {
                keep(row, accepted, &mut selected, context);
            }
        }
    }
    sort::sort(&mut selected.rows, &selection.keys);
    selected.rows.dedup_by(|a, b| a.name == b.name);
    selected
}

fn keep(row: Dataset, accepted: KindSet, selected: &mut Selected, context: &mut Context) {
    if accepted.has(row.kind) {
        selected.rows.push(row);
        return;
    }
    let error = ControlError::WrongKind {
        dataset: row.name.clone(),
    };
    context.complain(&cannot_open(&row.name, &error));
    selected.failed = true;
}

/// The dataset that an operand names, or why it names none.
pub fn resolve(
    operand: &str,
    accepted: KindSet,
    paths: bool,
    context: &mut Context,
) -> Result<String, String> {
    if paths && (operand.starts_with('/') || operand.starts_with("./")) {
        return dataset_at(operand, context);
    }
    let snapshots = accepted.has(DatasetKind::Snapshot);
    let bookmarks = accepted.has(DatasetKind::Bookmark);
    match check_name(operand, snapshots, bookmarks) {
        Ok(()) => Ok(operand.to_owned()),
        Err(fault) => Err(format!("cannot open '{operand}': {fault}")),
    }
}

/// The dataset that is mounted at `path`.
fn dataset_at(path: &str, context: &mut Context) -> Result<String, String> {
    let real = context.directory.join(Path::new(path));
    let real = match std::fs::canonicalize(real) {
        Ok(real) => real,
        Err(error) => return Err(format!("cannot open '{path}': {}", reason(&error))),
    };
    let mounts = match context.ask(Request::MountList) {
        Ok(Response::Mounts { mounts }) => mounts,
        _ => Vec::new(),
    };
    let above = mounts
        .iter()
        .filter(|mount| real.starts_with(&mount.mountpoint));
    let nearest = above.max_by_key(|mount| mount.mountpoint.len());
    match nearest {
        Some(mount) => Ok(mount.dataset.clone()),
        None => Err(format!("'{path}': not a ZFS filesystem")),
    }
}

/// The operating system's message for an error, without its number.
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Reports names that do not exist, first of all, as the reference does.
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
    if select(&selection, context).failed {
        return Err(Stop::Code(1));
    }
    Ok(())
}
