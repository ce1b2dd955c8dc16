//! `zfs snapshot`, `hold` and `release`, and `zfs destroy` and `rename` of snapshots.
//!
//! Ranges (`@a%c`) are looked up here, in the order in which the snapshots were made.

use super::change::{ask, pairs};
use crate::context::{Context, Outcome, Stop, failed, mismatch, usage};
use crate::getopt::Parsed;
use crate::texts::{cannot_open, with_context};
use cenote_control::model::{
    Change, ControlError, Dataset, DatasetKind, Depth, KindSet, PropertySelection, Request,
    Response, SnapshotChange,
};

/// No snapshot of the list is there.
const NONE_FOUND: &str = "could not find any snapshots to destroy; check snapshot names.";

/// `zfs snapshot [-r] [-o P=V]… DATASET@SNAPSHOT…`
pub fn snapshot(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let names = &parsed.operands;
    for name in names {
        let Some((dataset, _)) = name.split_once('@') else {
            return usage(format!(
                "cannot create snapshot '{name}': missing '@' delimiter"
            ));
        };
        // The reference answers a missing dataset with its usage.
        if super::writes::require(&[dataset.to_owned()], context).is_err() {
            return usage("");
        }
    }
    let change = Change::Snapshots(SnapshotChange::Create {
        names: names.clone(),
        recursive: parsed.has("r"),
        properties: pairs(parsed)?,
    });
    let failures = failures(ask(change, command, context), names)?;
    for (name, error) in &failures {
        let is_of_one = matches!(
            error,
            ControlError::Exists { .. }
                | ControlError::SnapshotsOfSame { .. }
                | ControlError::BadName { .. }
        );
        let what = match is_of_one {
            true => format!("cannot create snapshot '{name}'"),
            false => "cannot create snapshots ".to_owned(),
        };
        context.complain(&with_context(&what, error));
    }
    if !failures.is_empty() && names.len() > 1 {
        context.complain("no snapshots were created");
    }
    Ok(u8::from(!failures.is_empty()))
}

/// `zfs destroy [-dnpRrv] DATASET@SNAPSHOTS`
pub fn destroy(
    dataset: &str,
    snapshots: &str,
    parsed: &Parsed,
    command: String,
    context: &mut Context,
) -> Outcome {
    let found = doomed(
        dataset,
        snapshots,
        parsed.has("r") || parsed.has("R"),
        context,
    )?;
    if found.is_empty() {
        return failed(NONE_FOUND);
    }
    let dry_run = parsed.has("n");
    if parsed.has("v") || parsed.has("p") {
        for row in &found {
            let name = &row.name;
            let line = match (parsed.has("p"), dry_run) {
                (true, _) => format!("destroy\t{name}"),
                (false, true) => format!("would destroy {name}"),
                (false, false) => format!("will destroy {name}"),
            };
            context.line(&line);
        }
    }
    if dry_run {
        return Ok(0);
    }
    let names: Vec<String> = found.into_iter().map(|row| row.name).collect();
    let change = Change::Snapshots(SnapshotChange::Destroy {
        names: names.clone(),
        defer: parsed.has("d"),
    });
    let failures = failures(ask(change, command, context), &names)?;
    for (name, error) in &failures {
        let what = match name.is_empty() {
            true => "cannot destroy snapshots".to_owned(),
            false => format!("cannot destroy snapshot {name}"),
        };
        context.complain(&with_context(&what, error));
    }
    Ok(u8::from(!failures.is_empty()))
}

/// `zfs hold|release [-r] TAG SNAPSHOT…`
pub fn hold(verb: &str, parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let (tag, names) = match parsed.operands.split_first() {
        Some((tag, names)) if !names.is_empty() => (tag.clone(), names.to_vec()),
        _ => return usage(""),
    };
    let is_hold = verb == "hold";
    if is_hold && tag.starts_with('.') {
        return failed("tag may not start with '.'");
    }
    if let Some(name) = names.iter().find(|name| !name.contains('@')) {
        return failed(format!("'{name}' is not a snapshot"));
    }
    let recursive = parsed.has("r");
    let change = Change::Snapshots(match is_hold {
        true => SnapshotChange::Hold {
            names: names.clone(),
            tag,
            recursive,
        },
        false => SnapshotChange::Release {
            names: names.clone(),
            tag,
            recursive,
        },
    });
    let failures = failures(ask(change, command, context), &names)?;
    for (name, error) in &failures {
        let is_of_one = matches!(
            error,
            ControlError::NoSuchDataset { .. }
                | ControlError::SnapshotRefused { .. }
                | ControlError::BadName { .. }
        );
        let what = match (is_of_one, is_hold) {
            (true, true) => format!("cannot hold snapshot '{name}'"),
            (true, false) => format!("cannot release hold from snapshot '{name}'"),
            (false, true) => "cannot hold".to_owned(),
            (false, false) => "cannot release".to_owned(),
        };
        context.complain(&with_context(&what, error));
    }
    Ok(u8::from(!failures.is_empty()))
}

/// `zfs rename [-r] DATASET@A DATASET@B`
pub fn rename(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let [from, to] = parsed.operands.as_slice() else {
        return usage("too many arguments");
    };
    super::writes::require(std::slice::from_ref(from), context)?;
    let (dataset, name) = match to.split_once('@') {
        Some((dataset, name)) => (dataset, name),
        None => ("", to.as_str()),
    };
    let own = from.split('@').next().unwrap_or_default();
    if !dataset.is_empty() && dataset != own {
        return failed(format!(
            "cannot rename to '{to}': snapshots must be part of same dataset"
        ));
    }
    let change = Change::Snapshots(SnapshotChange::Rename {
        from: from.clone(),
        to: name.to_owned(),
        recursive: parsed.has("r"),
    });
    match ask(change, command, context) {
        Ok(_) => Ok(0),
        Err(error) => failed(with_context(&format!("cannot rename '{from}'"), &error)),
    }
}

fn failures(
    answer: Result<Response, ControlError>,
    names: &[String],
) -> Result<Vec<(String, ControlError)>, Stop> {
    match answer {
        Ok(Response::Failures { failures, .. }) => Ok(failures),
        Ok(_) => failed(with_context("cannot change snapshots", &mismatch())),
        Err(error) => Ok(vec![(names.first().cloned().unwrap_or_default(), error)]),
    }
}

/// The snapshots that a list of names and ranges means, of a dataset or of all below it, too.
fn doomed(
    dataset: &str,
    list: &str,
    recursive: bool,
    context: &mut Context,
) -> Result<Vec<Dataset>, Stop> {
    let request = Request::DatasetList {
        roots: vec![dataset.to_owned()],
        depth: match recursive {
            true => Depth::All,
            false => Depth::Levels(1),
        },
        kinds: KindSet::of(DatasetKind::Snapshot),
        properties: PropertySelection::Named(Vec::new()),
    };
    let mut rows = match context.ask_datasets(request) {
        Ok(listing) => match listing.failures.first() {
            Some((name, error)) => return failed(cannot_open(name, error)),
            None => listing.rows,
        },
        Err(error) => return failed(cannot_open(dataset, &error)),
    };
    let head = |row: &Dataset| row.name.split('@').next().unwrap_or_default().to_owned();
    rows.retain(|row| recursive || head(row) == dataset);
    rows.sort_by_cached_key(|row| (head(row), row.create_txg));
    let mut doomed = Vec::new();
    for of_one in rows.chunk_by(|a, b| head(a) == head(b)) {
        let wanted = chosen(of_one, list)?;
        let rows = of_one.iter().zip(wanted);
        doomed.extend(
            rows.filter(|(_, wanted)| *wanted)
                .map(|(row, _)| row.clone()),
        );
    }
    Ok(doomed)
}

/// Which of a dataset's snapshots, in the order they were made, a list means.
fn chosen(snapshots: &[Dataset], list: &str) -> Result<Vec<bool>, Stop> {
    let mut wanted = vec![false; snapshots.len()];
    let position = |name: &str| {
        let named = |row: &Dataset| row.name.split_once('@').is_some_and(|(_, own)| own == name);
        snapshots.iter().position(named)
    };
    for word in list.split(',') {
        let Some((first, last)) = word.split_once('%') else {
            if let Some(at) = position(word) {
                wanted[at] = true;
            }
            continue;
        };
        if last.contains('%') {
            return failed(format!("cannot destroy snapshots: invalid range '{word}'"));
        }
        let from = match first.is_empty() {
            true => Some(0),
            false => position(first),
        };
        let to = match last.is_empty() {
            true => snapshots.len().checked_sub(1),
            false => position(last),
        };
        if let (Some(from), Some(to)) = (from, to) {
            wanted
                .iter_mut()
                .take(to + 1)
                .skip(from)
                .for_each(|one| *one = true);
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Vec<Dataset> {
        let row = |(txg, name): (usize, &&str)| Dataset {
            name: format!("tank/a@{name}"),
            kind: DatasetKind::Snapshot,
            create_txg: txg as u64,
            properties: Vec::new(),
        };
        names.iter().enumerate().map(row).collect()
    }

    #[test]
    fn ranges_are_in_the_order_of_their_making() {
        let rows = of(&["z", "m", "a", "k"]);
        let which = |list: &str| {
            let chosen = chosen(&rows, list).map_err(|_| "refused").expect("a list");
            let names = rows.iter().zip(chosen).filter(|(_, wanted)| *wanted);
            names
                .map(|(row, _)| row.name[7..].to_owned())
                .collect::<String>()
        };
        assert_eq!(which("m%k"), "mak");
        assert_eq!(which("%m"), "zm");
        assert_eq!(which("a%"), "ak");
        assert_eq!(which("%"), "zmak");
        assert_eq!(which("k,z"), "zk");
        assert_eq!(which("k%m"), "");
        assert_eq!(which("none,a"), "a");
        assert_eq!(which("none%a"), "");
    }
}
