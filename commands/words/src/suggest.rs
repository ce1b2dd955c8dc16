//! Suggestions for words that the daemon did not know.
//!
//! A suggestion is a courtesy. It is printed after the command has failed. The search covers only
//! the wrong word's surroundings: the children of its parent, or the values of its property. It is
//! dropped if it would cause a noticeable delay.

use cenote_control::model::properties::{DATASET, POOL, PropertyInfo, VDEV, find};
use cenote_control::model::{Dataset, DatasetKind, Depth, KindSet, PropertySelection, Request};
use std::time::Duration;

use crate::context::{Context, Wrong};
use crate::texts::{property_question, question};

/// How long to search for names.
const LIMIT: Duration = Duration::from_millis(100);

/// Prints a suggestion for the word of the command line that was wrong.
pub fn suggest(program: &str, words: &[String], context: &mut Context) {
    let tables: &[&'static [PropertyInfo]] = match program {
        "zpool" => &[POOL, VDEV],
        _ => &[DATASET],
    };
    let question = match context.wrong.take() {
        None => return,
        Some(Wrong::Name(name)) => of_name(program, &name, context),
        Some(Wrong::Property(name)) => of_property(&name, tables),
        Some(Wrong::Value(name)) => of_value(&name, tables, words),
    };
    if let Some(line) = question.lines().find(|line| !line.is_empty()) {
        context.complain(line);
    }
}

/// The mount options of `-o`.
pub const MOUNT_OPTIONS: [&str; 17] = [
    "ro",
    "rw",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "strictatime",
    "diratime",
    "nodiratime",
    "exec",
    "noexec",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "xattr",
    "noxattr",
];

/// Whether the properties are those of file systems.
fn program_mounts(tables: &[&'static [PropertyInfo]]) -> bool {
    tables
        .iter()
        .any(|table| find(table, "mountpoint").is_some())
}

/// Nothing for a name that exists: something else is wrong with it.
fn of_property(name: &str, tables: &[&'static [PropertyInfo]]) -> String {
    if let Some(feature) = name.strip_prefix("feature@") {
        return question(feature, crate::FEATURES.iter().copied());
    }
    if tables.iter().any(|table| find(table, name).is_some()) {
        return String::new();
    }
    let questions = tables.iter().map(|table| property_question(name, table));
    questions.collect()
}

/// The value is looked for in the command line: `NAME=VALUE`.
fn of_value(name: &str, tables: &[&'static [PropertyInfo]], words: &[String]) -> String {
    let info = tables.iter().find_map(|table| find(table, name));
    let Some(info) = info else {
        let is_option = words
            .iter()
            .any(|word| word.split(',').any(|word| word == name));
        return match is_option && program_mounts(tables) {
            true => question(name, MOUNT_OPTIONS),
            false => of_property(name, tables),
        };
    };
    let value = words.iter().find_map(|word| {
        let (start, value) = word.split_once('=')?;
        let attached = start.strip_prefix("-o").or(start.strip_prefix("-O"));
        let given = attached.unwrap_or(start);
        let names = [info.name, info.alias];
        (!given.is_empty() && names.contains(&given)).then_some(value)
    });
    let known = info.values.split('|').map(str::trim);
    // Placeholders (`<size>`, `1M`) are not values.
    let known = known.filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
    value.map_or(String::new(), |value| question(value, known))
}

/// Searches the children of the deepest existing ancestor.
fn of_name(program: &str, wrong: &str, context: &mut Context) -> String {
    let heads = KindSet::of(DatasetKind::Filesystem).union(KindSet::of(DatasetKind::Volume));
    let pool = wrong.split(['/', '@', '#']).next().unwrap_or(wrong);
    let list = |roots, depth, kinds, context: &mut Context| {
        let request = Request::DatasetList {
            roots,
            depth,
            kinds,
            properties: PropertySelection::Named(Vec::new()),
        };
        context.glance(request, LIMIT)
    };
    let Some(pools) = list(Vec::new(), Depth::Roots, heads, context) else {
        return String::new();
    };
    if program == "zpool" || !pools.iter().any(|row| row.name == pool) {
        return question(pool, pools.iter().map(|row| row.name.as_str()));
    }
    // From the pool down, one level at a time: each is a short list.
    let mut above = pool.to_owned();
    while above.len() < wrong.len() {
        let rest = &wrong[above.len()..];
        let end = rest[1..]
            .find(['/', '@', '#'])
            .map_or(rest.len(), |at| at + 1);
        let next = format!("{above}{}", &rest[..end]);
        let kinds = match rest.as_bytes().first() {
            Some(b'@') => KindSet::of(DatasetKind::Snapshot),
            Some(b'#') => KindSet::of(DatasetKind::Bookmark),
            _ => heads,
        };
        let Some(rows) = list(vec![above.clone()], Depth::Levels(1), kinds, context) else {
            return String::new();
        };
        let is_there = rows.iter().any(|row| row.name == next);
        if !is_there {
            return sibling(&above, &next, &rows);
        }
        above = next;
    }
    String::new()
}

/// The name below `above` nearest to a wrong one: only the last components are compared.
fn sibling(above: &str, wrong: &str, rows: &[Dataset]) -> String {
    let own = |name: &str| name.get(above.len() + 1..).map(str::to_owned);
    let known: Vec<String> = rows.iter().filter_map(|row| own(&row.name)).collect();
    let word = own(wrong).unwrap_or_default();
    let near = cenote_base::nearest(&word, known.iter().map(String::as_str));
    let divider = wrong.get(above.len()..=above.len()).unwrap_or_default();
    let full: Vec<String> = near
        .iter()
        .map(|near| format!("{above}{divider}{near}"))
        .collect();
    let full: Vec<&str> = full.iter().map(String::as_str).collect();
    cenote_base::question(&full).unwrap_or_default()
}
