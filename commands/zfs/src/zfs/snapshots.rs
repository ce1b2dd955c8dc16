//! `zfs snapshot`, `hold` and `release`, and `zfs destroy` and `rename` of snapshots.

use super::change::{ask, pairs};
use super::dependents::{clones_of, dependents};
use cenote_control::model::{Change, ControlError, Dataset, Response, SnapshotChange};
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::format::number::nicebytes;
use cenote_words::getopt::Parsed;
use cenote_words::ranges::{named_snapshots, reclaimed_by};
use cenote_words::texts::with_context;

/// No snapshot of the list exists.
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
        // The reference answers a missing dataset with the usage.
        if super::select::require(&[dataset.to_owned()], context).is_err() {
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
    let found = named_snapshots(
        dataset,
        snapshots,
        parsed.has("r") || parsed.has("R"),
        context,
    )?;
    if found.is_empty() {
        return failed(NONE_FOUND);
    }
    let (dry_run, force) = (parsed.has("n"), parsed.has("f"));
    let takes_clones = parsed.has("R");
    let is_refused = !takes_clones && !parsed.has("d") && tell_of_clones(&found, context)?;
    if is_refused && !dry_run {
        return Err(Stop::Code(1));
    }
    let clones = match takes_clones {
        true => clones_of(&found),
        false => Vec::new(),
    };
    if parsed.has("v") || parsed.has("p") {
        let mut going = match takes_clones {
            true => dependents(&found, context)?,
            false => Vec::new(),
        };
        going.extend(found.iter().map(|row| row.name.clone()));
        for name in &going {
            let line = match (parsed.has("p"), dry_run) {
                (true, _) => format!("destroy\t{name}"),
                (false, true) => format!("would destroy {name}"),
                (false, false) => format!("will destroy {name}"),
            };
            context.line(&line);
        }
    }
    let names: Vec<String> = found.into_iter().map(|row| row.name).collect();
    if parsed.has("v") || parsed.has("p") {
        print_reclaimed(&names, parsed.has("p"), dry_run, context);
    }
    if dry_run {
        return Ok(u8::from(is_refused));
    }
    destroy_clones(&clones, force, &command, context)?;
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

/// Reports the dependents of each snapshot with clones. Returns whether there are any.
fn tell_of_clones(found: &[Dataset], context: &mut Context) -> Result<bool, Stop> {
    let mut is_any = false;
    for row in found {
        let names = dependents(std::slice::from_ref(row), context)?;
        if !names.is_empty() {
            is_any = true;
            context.complain(&format!(
                "cannot destroy '{}': snapshot has dependent clones\n\
                 use '-R' to destroy the following datasets:\n{}",
                row.name,
                names.join("\n")
            ));
        }
    }
    Ok(is_any)
}

/// Destroys clones with all their dependents; stops at the first error.
fn destroy_clones(
    clones: &[String],
    force: bool,
    command: &str,
    context: &mut Context,
) -> Result<(), Stop> {
    for clone in clones {
        let change = Change::DestroyDataset {
            dataset: clone.clone(),
            recursive: true,
            clones: true,
            force,
            dry_run: false,
        };
        let failures = match ask(change, command.to_owned(), context) {
            Ok(Response::Failures { failures, .. }) => failures,
            // It was a clone of two snapshots, and was destroyed with the other one.
            Ok(_) | Err(ControlError::NoSuchDataset { .. }) => Vec::new(),
            Err(error) => vec![(clone.clone(), error)],
        };
        if let Some((name, error)) = failures.first() {
            return failed(with_context(&format!("cannot destroy '{name}'"), error));
        }
    }
    Ok(())
}

/// Prints how much space is freed. If that is unknown (in pools before version 26), prints nothing,
/// because destroying does not depend on it.
fn print_reclaimed(names: &[String], exact: bool, dry_run: bool, context: &mut Context) {
    let Ok(rows) = reclaimed_by(names, context) else {
        return;
    };
    let bytes = rows.iter().map(|row| row.frees);
    let bytes = bytes.fold(0_u64, u64::saturating_add);
    context.line(&match (exact, dry_run) {
        (true, _) => format!("reclaim\t{bytes}"),
        (false, true) => format!("would reclaim {}", nicebytes(bytes)),
        (false, false) => format!("will reclaim {}", nicebytes(bytes)),
    });
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
    parsed.only(&["r"])?;
    let [from, to] = parsed.operands.as_slice() else {
        return usage("too many arguments");
    };
    super::select::require(std::slice::from_ref(from), context)?;
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
