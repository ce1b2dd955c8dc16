//! `cenote space`: where space is used, and how much of it destroying snapshots would free.
//!
//! For each snapshot the daemon reports how much destroying it frees in addition to the older ones.
//! The command adds that up: by age, over a list or a range, or until it is enough. Snapshots with
//! clones or holds are kept, and no sum includes them.

use cenote_control::model::{
    ControlError, DatasetKind, Depth, KeptBy, KindSet, PropertySelection, Request, SnapshotSpace,
};

use std::collections::HashSet;

use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, Stop, failed, usage};
use cenote_words::format::date::{Form, date};
use cenote_words::format::json::{Json, Object};
use cenote_words::format::number::nicebytes;
use cenote_words::format::table::{Column, table};
use cenote_words::ranges::{named_snapshots, reclaimed_by, snapshot_rows};
use cenote_words::texts::cannot_open;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// The ages of the overview: minimum ages in seconds.
const AGES: [(&str, u64); 7] = [
    ("1 year", 365 * DAY),
    ("90 days", 90 * DAY),
    ("30 days", 30 * DAY),
    ("7 days", 7 * DAY),
    ("1 day", DAY),
    ("1 hour", HOUR),
    ("0", 0),
];

/// The properties that break down a dataset's space, with their columns and names in JSON.
const PARTS: [(&str, &str, &str); 5] = [
    ("used", "USED", "used"),
    ("usedbydataset", "DATASET", "by_dataset"),
    ("usedbysnapshots", "SNAPSHOTS", "by_snapshots"),
    (
        "usedbyrefreservation",
        "REFRESERVATION",
        "by_refreservation",
    ),
    ("usedbychildren", "CHILDREN", "by_children"),
];

/// The command.
pub const COMMAND: Command = Command {
    name: "space",
    summary: "Show where space is, and which snapshots would give it back",
    synopsis: "[-sHp] POOL[/DATASET] | [-rHp] DATASET@SNAPSHOTS | [-rHp] --free SIZE DATASET",
    about: "Without SNAPSHOTS: the datasets, and what destroying all snapshots from a certain age\n\
            on would give back. SNAPSHOTS are names and ranges, as in 'zfs destroy':\n\
            'a,b', 'a%c', '%c', '%'. The answer is what destroying them together would free:\n\
            more than the sum of what each of them uses. --free says how many of the oldest\n\
            snapshots to destroy to free SIZE. Snapshots with clones or holds are kept:\n\
            no sum includes them.",
    flags: flags! {
        'j' "json" _ "print JSON";
        's' "snapshots" _ "each snapshot, the oldest first";
        'r' "recursive" _ "datasets below, too";
        _ "free" "SIZE" "how many of the oldest snapshots to destroy to free SIZE";
        'H' "scripted" _ "no headers, columns separated by tabs";
        'p' "parsable" _ "exact numbers";
    },
    run: Run::Asking(run),
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let [name] = arguments.operands.as_slice() else {
        return usage("");
    };
    let Some(name) = name.to_str() else {
        return failed(format!("'{}' is no dataset", name.to_string_lossy()));
    };
    let wanted = arguments.size("free")?;
    arguments.only(match (name.contains('@'), wanted) {
        (false, None) => &["json", "snapshots", "scripted", "parsable"],
        _ => &["json", "recursive", "free", "scripted", "parsable"],
    })?;
    match (name.split_once('@'), wanted) {
        (Some(_), Some(_)) => usage("--free chooses the snapshots itself"),
        (Some((dataset, list)), None) => of_list(dataset, list, arguments, context),
        (None, None) => overview(name, arguments, context),
        (None, Some(bytes)) => enough(name, bytes, arguments, context),
    }
}

fn ask_for(
    dataset: &str,
    recursive: bool,
    context: &mut Context,
) -> Result<Vec<SnapshotSpace>, Stop> {
    let request = Request::SnapshotSpace {
        dataset: dataset.to_owned(),
        recursive,
    };
    snapshot_rows(request, context).map_err(|error| refused(dataset, &error))
}

fn refused(name: &str, error: &ControlError) -> Stop {
    Stop::Failed(cannot_open(name, error))
}

/// A size, formatted as requested.
fn shown(bytes: u64, arguments: &Arguments) -> String {
    match arguments.has("parsable") {
        true => bytes.to_string(),
        false => nicebytes(bytes),
    }
}

fn right(header: &str) -> Column {
    Column {
        right: true,
        ..Column::text(header)
    }
}

fn sum<'a>(rows: impl Iterator<Item = &'a SnapshotSpace>) -> u64 {
    rows.fold(0, |sum, row| sum.saturating_add(row.frees))
}

/// A dataset and the bytes of its [`PARTS`].
struct Share {
    name: String,
    parts: Vec<u64>,
}

/// A dataset and its descendants.
fn shares(name: &str, context: &mut Context) -> Result<Vec<Share>, Stop> {
    let request = Request::DatasetList {
        roots: vec![name.to_owned()],
        depth: Depth::All,
        kinds: KindSet::of(DatasetKind::Filesystem).union(KindSet::of(DatasetKind::Volume)),
        properties: PropertySelection::Named(PARTS.map(|(name, ..)| name.to_owned()).to_vec()),
    };
    let listing = context.ask_datasets(request);
    let listing = listing.map_err(|error| refused(name, &error))?;
    if let Some((name, error)) = listing.failures.first() {
        return Err(refused(name, error));
    }
    let share = |row: &cenote_control::model::Dataset| Share {
        name: row.name.clone(),
        parts: PARTS
            .iter()
            .map(|(name, ..)| {
                let value = row.property(name).and_then(|part| part.value.number());
                value.unwrap_or(0)
            })
            .collect(),
    };
    let mut shares: Vec<Share> = listing.rows.iter().map(share).collect();
    shares.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(shares)
}

fn overview(name: &str, arguments: &Arguments, context: &mut Context) -> Outcome {
    let shares = shares(name, context)?;
    let rows = ask_for(name, true, context)?;
    if arguments.has("json") {
        let datasets: Vec<Json> = shares.iter().map(share_json).collect();
        let ages: Vec<Json> = AGES
            .iter()
            .map(|(_, age)| age_json(*age, &of_age(&rows, *age, context.now)))
            .collect();
        let mut top = Object::new();
        top.put("datasets", datasets);
        top.put("snapshots", rows.iter().map(row_json).collect::<Vec<_>>());
        top.put("ages", ages);
        context.line(&Json::from(top).to_string());
        return Ok(0);
    }
    if arguments.has("snapshots") {
        print_rows(&rows, arguments, context);
        return Ok(0);
    }
    let mut columns = vec![Column::text("NAME")];
    columns.extend(PARTS.map(|(_, header, _)| right(header)));
    let cells = |share: &Share| {
        let parts = share.parts.iter().map(|bytes| shown(*bytes, arguments));
        [share.name.clone()].into_iter().chain(parts).collect()
    };
    let cells: Vec<Vec<String>> = shares.iter().map(cells).collect();
    context.print(&table(&columns, &cells, arguments.has("scripted")));
    if !rows.is_empty() {
        context.line("");
        print_ages(&rows, arguments, context);
    }
    Ok(0)
}

/// The snapshots that are at least `age` seconds old.
fn of_age(rows: &[SnapshotSpace], age: u64, now: u64) -> Vec<&SnapshotSpace> {
    let latest = now.checked_sub(age);
    let is_old = |row: &&SnapshotSpace| age == 0 || latest.is_some_and(|last| row.created <= last);
    rows.iter().filter(is_old).collect()
}

fn print_ages(rows: &[SnapshotSpace], arguments: &Arguments, context: &mut Context) {
    let columns = [
        Column::text("SNAPSHOTS OLDER THAN"),
        right("COUNT"),
        right("STAY"),
        right("GIVE BACK"),
    ];
    let mut cells = Vec::new();
    for (word, age) in AGES {
        let old = of_age(rows, age, context.now);
        let stay = old.iter().filter(|row| row.kept_by.is_some()).count();
        let word = match arguments.has("parsable") {
            true => age.to_string(),
            false => word.to_owned(),
        };
        let freed = shown(sum(old.iter().copied()), arguments);
        cells.push(vec![word, old.len().to_string(), stay.to_string(), freed]);
    }
    context.print(&table(&columns, &cells, arguments.has("scripted")));
}

fn kept(row: &SnapshotSpace) -> &'static str {
    match row.kept_by {
        None => "-",
        Some(KeptBy::Holds) => "holds",
        Some(KeptBy::Clones) => "clones",
        Some(KeptBy::System) => "system",
    }
}

fn print_rows(rows: &[SnapshotSpace], arguments: &Arguments, context: &mut Context) {
    let columns = [
        Column::text("NAME"),
        Column::text("CREATED"),
        right("USED"),
        right("REFERENCED"),
        right("GIVES BACK"),
        Column::text("KEPT BY"),
    ];
    let cells = |row: &SnapshotSpace| {
        let created = match arguments.has("parsable") {
            true => row.created.to_string(),
            false => date(row.created, Form::Minute, &context.zone),
        };
        let sizes = [row.used, row.referenced, row.frees].map(|bytes| shown(bytes, arguments));
        let [used, referenced, frees] = sizes;
        let kept = kept(row).to_owned();
        vec![row.name.clone(), created, used, referenced, frees, kept]
    };
    let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
    context.print(&table(&columns, &cells, arguments.has("scripted")));
}

/// How much destroying the named snapshots would free.
fn of_list(dataset: &str, list: &str, arguments: &Arguments, context: &mut Context) -> Outcome {
    let found = named_snapshots(dataset, list, arguments.has("recursive"), context)?;
    if found.is_empty() {
        return failed("there are no such snapshots");
    }
    let names: Vec<String> = found.into_iter().map(|row| row.name).collect();
    let rows = reclaimed_by(&names, context).map_err(|error| refused(dataset, &error))?;
    answer(&rows, arguments, context);
    Ok(0)
}

/// The fewest of the oldest snapshots that together free `bytes`.
fn enough(dataset: &str, bytes: u64, arguments: &Arguments, context: &mut Context) -> Outcome {
    let chain = ask_for(dataset, arguments.has("recursive"), context)?;
    let mut rows = chain.clone();
    rows.retain(|row| row.kept_by.is_none());
    let all = sum(rows.iter());
    rows = fewest(rows, bytes);
    answer(&rows, arguments, context);
    if !arguments.has("json") && !arguments.has("scripted") {
        for list in lists(&chain, &rows) {
            context.line(&format!("zfs destroy {list}"));
        }
    }
    if all < bytes {
        let all = shown(all, arguments);
        context.complain(&format!("cenote space: all snapshots give back {all} only"));
        return Ok(1);
    }
    Ok(0)
}

/// The oldest snapshots, until they free `bytes` or none is left. Snapshots of a dataset stay in
/// their order, so those of other datasets between them do not change what each frees.
fn fewest(mut rows: Vec<SnapshotSpace>, bytes: u64) -> Vec<SnapshotSpace> {
    rows.sort_by_key(|row| row.create_txg);
    let mut freed = 0_u64;
    let few = rows.into_iter().take_while(|row| {
        let is_short = freed < bytes;
        freed = freed.saturating_add(row.frees);
        is_short
    });
    let mut few: Vec<SnapshotSpace> = few.collect();
    few.sort_by(|a, b| (head(a), a.create_txg).cmp(&(head(b), b.create_txg)));
    few
}

/// Snapshots as arguments for `zfs destroy`, a list for each dataset. Ranges contain only chosen
/// snapshots. `chain` has all snapshots, grouped by dataset and in order.
fn lists(chain: &[SnapshotSpace], chosen: &[SnapshotSpace]) -> Vec<String> {
    let names: HashSet<&str> = chosen.iter().map(|row| row.name.as_str()).collect();
    let is_chosen = |row: &SnapshotSpace| names.contains(row.name.as_str());
    let own = |row: &SnapshotSpace| row.name.split('@').nth(1).unwrap_or_default().to_owned();
    let mut lists = Vec::new();
    for of_one in chain.chunk_by(|a, b| head(a) == head(b)) {
        let runs = of_one.chunk_by(|a, b| is_chosen(a) == is_chosen(b));
        let words = runs.filter_map(|run| match run {
            [first, ..] if !is_chosen(first) => None,
            [only] => Some(own(only)),
            [first, .., last] => Some(format!("{}%{}", own(first), own(last))),
            [] => None,
        });
        let words: Vec<String> = words.collect();
        if let (Some(row), false) = (of_one.first(), words.is_empty()) {
            lists.push(format!("{}@{}", head(row), words.join(",")));
        }
    }
    lists
}

fn head(row: &SnapshotSpace) -> &str {
    row.name.split('@').next().unwrap_or_default()
}

/// Prints snapshots and how much space they free together.
fn answer(rows: &[SnapshotSpace], arguments: &Arguments, context: &mut Context) {
    let freed = sum(rows.iter());
    if arguments.has("json") {
        let mut top = Object::new();
        top.put("snapshots", rows.iter().map(row_json).collect::<Vec<_>>());
        top.put("frees", freed);
        context.line(&Json::from(top).to_string());
        return;
    }
    print_rows(rows, arguments, context);
    let freed = shown(freed, arguments);
    context.line(&match arguments.has("scripted") {
        true => format!("reclaim\t{freed}"),
        false => format!("would give back {freed}"),
    });
}

fn share_json(share: &Share) -> Json {
    let mut object = Object::new();
    object.put("name", share.name.as_str());
    for ((_, _, key), bytes) in PARTS.iter().zip(&share.parts) {
        object.put(key, *bytes);
    }
    object.into()
}

fn age_json(age: u64, rows: &[&SnapshotSpace]) -> Json {
    let mut object = Object::new();
    object.put("older_than", age);
    object.put("count", rows.len() as u64);
    let stay = rows.iter().filter(|row| row.kept_by.is_some()).count();
    object.put("stay", stay as u64);
    object.put("frees", sum(rows.iter().copied()));
    object.into()
}

fn row_json(row: &SnapshotSpace) -> Json {
    let mut object = Object::new();
    object.put("name", row.name.as_str());
    object.put("created", row.created);
    object.put("used", row.used);
    object.put("referenced", row.referenced);
    object.put("frees", row.frees);
    if row.kept_by.is_some() {
        object.put("kept_by", kept(row));
    }
    object.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, create_txg: u64, frees: u64) -> SnapshotSpace {
        SnapshotSpace {
            name: name.to_owned(),
            created: create_txg * 10,
            create_txg,
            used: 0,
            referenced: 0,
            frees,
            kept_by: None,
        }
    }

    #[test]
    fn the_fewest_oldest_that_are_enough() {
        let rows = || vec![row("t/a@1", 1, 5), row("t/a@3", 3, 0), row("t/b@2", 2, 7)];
        let names = |bytes: u64| {
            let few = fewest(rows(), bytes);
            few.into_iter().map(|row| row.name).collect::<Vec<_>>()
        };
        assert!(names(0).is_empty());
        assert_eq!(names(5), ["t/a@1"]);
        assert_eq!(names(6), ["t/a@1", "t/b@2"]);
        assert_eq!(names(99), ["t/a@1", "t/a@3", "t/b@2"]);
    }

    #[test]
    fn ranges_hold_nothing_else() {
        let names = ["t/a@1", "t/a@2", "t/a@3", "t/a@4", "t/b@9"];
        let chain: Vec<_> = (1..)
            .zip(names)
            .map(|(txg, name)| row(name, txg, 1))
            .collect();
        let chosen = |at: &[usize]| at.iter().map(|at| chain[*at].clone()).collect::<Vec<_>>();
        assert_eq!(
            lists(&chain, &chosen(&[0, 1, 3, 4])),
            ["t/a@1%2,4", "t/b@9"]
        );
        assert_eq!(lists(&chain, &chosen(&[4])), ["t/b@9"]);
    }

    #[test]
    fn ages_are_counted_backwards() {
        let rows = [row("t@1", 1, 5), row("t@9", 9, 1)];
        assert_eq!(of_age(&rows, 80, 95).len(), 1);
        assert_eq!(of_age(&rows, 0, 5).len(), 2, "clocks go back");
        assert!(of_age(&rows, 80, 5).is_empty());
    }
}
