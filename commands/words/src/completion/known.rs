//! The candidates of each kind: from the tables, and from the daemon if one is running.

use super::operands::Operand;
use crate::context::Context;
use crate::vdev_rows::VDEV_WORDS;
use cenote_control::model::properties::{DATASET, POOL, PropertyInfo, find};
use cenote_control::model::{
    Dataset, DatasetKind, Depth, KindSet, PropertySelection, Request, Response, Vdev, VdevNaming,
};
use std::time::Duration;

/// Asks the shell to complete file names itself.
pub const FILES: &str = ":files";
/// Asks the shell to complete directories.
const DIRECTORIES: &str = ":directories";

/// The prefix of features as properties of a pool.
const FEATURE: &str = "feature@";

/// How long to list datasets.
const LIMIT: Duration = Duration::from_millis(500);

/// What is known of the line that is being completed.
#[derive(Debug)]
pub struct Candidates<'a> {
    /// The typed part of the current word.
    pub current: &'a str,
    /// The operands before it.
    pub operands: &'a [String],
}

/// The candidates of these kinds.
pub fn answer(
    wanted: &[Operand],
    candidates: &Candidates<'_>,
    context: &mut Context,
) -> Vec<String> {
    let mut found = Vec::new();
    for kind in wanted {
        found.extend(of_kind(kind, candidates, context));
    }
    found.sort();
    found.dedup();
    found
}

fn of_kind(kind: &Operand, candidates: &Candidates<'_>, context: &mut Context) -> Vec<String> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    match kind {
        Operand::Pool => pools(context),
        Operand::Dataset(kinds) => datasets(*kinds, candidates.current, context),
        Operand::NewSnapshot => {
            let heads = datasets(KindSet::HEADS, candidates.current, context);
            heads.into_iter().map(|name| format!("{name}@")).collect()
        }
        Operand::Property {
            of_pool,
            with_value,
        } => {
            let current = candidates.current;
            match current.strip_prefix(FEATURE).filter(|_| *of_pool) {
                Some(typed) => features(typed, *with_value),
                None => properties(if *of_pool { POOL } else { DATASET }, *with_value, current),
            }
        }
        Operand::Device => devices(candidates.operands, context),
        Operand::VdevWord => owned(&VDEV_WORDS),
        Operand::File => owned(&[FILES]),
        Operand::Directory => owned(&[DIRECTORIES]),
        Operand::Setting { with_value } => {
            let names = cenote_base::settings::list().into_iter();
            let names = names.filter(|setting| setting.has_effect());
            let mark = if *with_value { "=" } else { "" };
            names
                .map(|setting| format!("{}{mark}", setting.name))
                .collect()
        }
        Operand::Word(word) => vec![word.clone()],
    }
}

fn pools(context: &mut Context) -> Vec<String> {
    let request = Request::PoolList {
        pools: Vec::new(),
        properties: PropertySelection::Named(Vec::new()),
        vdevs: false,
    };
    match context.ask(request) {
        Ok(Response::Pools { pools, .. }) => pools.into_iter().map(|pool| pool.name).collect(),
        _ => Vec::new(),
    }
}

/// Lists datasets one level below the typed part: a pool may have many thousands.
fn datasets(kinds: KindSet, current: &str, context: &mut Context) -> Vec<String> {
    let list = |root: Option<&str>, kinds, context: &mut Context| {
        let request = Request::DatasetList {
            roots: root.map(str::to_owned).into_iter().collect(),
            depth: match root {
                Some(_) => Depth::Levels(1),
                None => Depth::Roots,
            },
            kinds,
            properties: PropertySelection::Named(Vec::new()),
        };
        context.glance(request, LIMIT).unwrap_or_default()
    };
    let names = |rows: Vec<Dataset>| rows.into_iter().map(|row| row.name).collect::<Vec<_>>();
    if let Some(end) = current.find(['@', '#']) {
        let kind = match current.as_bytes().get(end) {
            Some(b'@') => DatasetKind::Snapshot,
            _ => DatasetKind::Bookmark,
        };
        return match kinds.has(kind) {
            true => names(list(Some(&current[..end]), KindSet::of(kind), context)),
            false => Vec::new(),
        };
    }
    let root = current.rfind('/').map(|end| &current[..end]);
    // Volumes are below file systems, and both have snapshots.
    let heads = list(root, KindSet::HEADS, context);
    let is_past = !kinds.meets(KindSet::HEADS);
    let mark = match kinds.has(DatasetKind::Snapshot) {
        true => "@",
        false => "#",
    };
    let mut found = Vec::new();
    for row in heads {
        let is_meant = kinds.has(row.kind) || row.kind == DatasetKind::Filesystem;
        match is_past {
            true => found.push(format!("{}{mark}", row.name)),
            false if is_meant => found.push(row.name),
            false => {}
        }
    }
    found
}

fn properties(table: &'static [PropertyInfo], with_value: bool, current: &str) -> Vec<String> {
    if !with_value {
        return table.iter().map(|info| info.name.to_owned()).collect();
    }
    let Some((name, _)) = current.split_once('=') else {
        let settable = table.iter().filter(|info| info.editable || info.inherits);
        return settable.map(|info| format!("{}=", info.name)).collect();
    };
    let Some(info) = find(table, name) else {
        return Vec::new();
    };
    let words = info.values.split('|').map(str::trim);
    // Placeholders (`<size>`, `512 to 1M, power of 2`) are not values.
    let words = words.filter(|word| {
        !word.is_empty()
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_[].,".contains(c))
    });
    let words = words.flat_map(spelled_out);
    words.map(|word| format!("{name}={word}")).collect()
}

/// Expands a form in a table of values: `gzip-[1-9]` into nine words, `sha256[,verify]` into two.
fn spelled_out(form: &str) -> Vec<String> {
    let parts = form.strip_suffix(']').and_then(|form| form.split_once('['));
    let Some((lead, choice)) = parts else {
        return vec![form.to_owned()];
    };
    if choice.starts_with(',') {
        return vec![lead.to_owned(), format!("{lead}{choice}")];
    }
    // The ranges in the table are all numbers.
    let ranges = choice.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u16>().ok()?..=last.parse().ok()?)
    });
    let numbers = ranges.flatten();
    numbers.map(|number| format!("{lead}{number}")).collect()
}

/// Features whose names begin with the typed part.
fn features(typed: &str, with_value: bool) -> Vec<String> {
    let named = |mark: &str| {
        let names = crate::FEATURES.iter();
        names.map(|name| format!("{FEATURE}{name}{mark}")).collect()
    };
    match (with_value, typed.split_once('=')) {
        (false, _) => named(""),
        (true, None) => named("="),
        (true, Some((name, _))) => {
            let states = ["enabled", "disabled"].into_iter();
            states
                .map(|state| format!("{FEATURE}{name}={state}"))
                .collect()
        }
    }
}

/// The devices of the pool that an operand names.
fn devices(operands: &[String], context: &mut Context) -> Vec<String> {
    let request = Request::PoolList {
        pools: operands.to_vec(),
        properties: PropertySelection::Named(Vec::new()),
        vdevs: true,
    };
    let Ok(Response::Pools { pools, .. }) = context.ask(request) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for tree in pools.iter().filter_map(|pool| pool.vdevs.as_ref()) {
        let mut left: Vec<&Vdev> = vec![&tree.root];
        left.extend(&tree.cache);
        left.extend(&tree.spares);
        while let Some(vdev) = left.pop() {
            if vdev.children.is_empty() {
                found.push(vdev.name(VdevNaming::default()));
            }
            left.extend(&vdev.children);
        }
    }
    found
}
