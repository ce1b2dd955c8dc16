//! Holds: what keeps snapshots from being destroyed.

use super::names::{existing, in_each_pool};
use crate::command::{By, NotedOnce, run};
use crate::errors::{of_dsl, parse_name};
use crate::mounts::table::Mounts;
use crate::registry::table::Registry;
use crate::registry::walk::{is_within, read_or_gone, walk_heads};
use cenote_control::model::{ControlError, Hold, Response};
use cenote_dsl::write::{HoldSnapshots, ReleaseSnapshots};
use cenote_dsl::{Dataset, DatasetName, NameKind};

pub(crate) fn holds(
    registry: &Registry,
    snapshot: &str,
    recursive: bool,
) -> Result<Response, ControlError> {
    let name = parse_name(snapshot)?;
    let (NameKind::Snapshot, Some(last)) = (name.kind(), name.after_delimiter()) else {
        return Err(ControlError::WrongKind {
            dataset: snapshot.to_owned(),
        });
    };
    let imported = registry.pool_of(&name)?;
    let mut holds = Vec::new();
    if !recursive {
        holds = imported
            .dsl()
            .of_one_moment(|| holds_of(&registry.dataset(&name)?.1))?;
        return Ok(Response::Holds { holds });
    }
    let top = name.dataset();
    let mut found = false;
    let mut failure = None;
    walk_heads(imported.dsl(), |head| {
        if failure.is_some() || !is_within(head.name(), &top) {
            return;
        }
        let read = || match head.snapshot(last.as_bytes()) {
            Ok(Some(snapshot)) => holds_of(&snapshot).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(of_dsl(error)),
        };
        match read_or_gone(imported.dsl(), read, read).map(Option::flatten) {
            Ok(Some(more)) => {
                found = true;
                holds.extend(more);
            }
            Ok(None) => {}
            Err(error) => failure = Some(error),
        }
    });
    match failure {
        Some(error) => Err(error),
        None if !found => Err(ControlError::NoSuchDataset {
            dataset: snapshot.to_owned(),
        }),
        None => {
            holds.sort_by(|a, b| (&a.snapshot, &a.tag).cmp(&(&b.snapshot, &b.tag)));
            Ok(Response::Holds { holds })
        }
    }
}

fn holds_of(snapshot: &Dataset) -> Result<Vec<Hold>, ControlError> {
    let holds = snapshot.holds().map_err(of_dsl)?.into_iter();
    let hold = |hold: cenote_dsl::Hold| Hold {
        snapshot: snapshot.name().as_str().to_owned(),
        tag: hold.tag,
        time: hold.time,
    };
    Ok(holds.map(hold).collect())
}

/// Holds snapshots under a tag, and with `recursive` the same of all datasets below.
pub(super) fn hold(
    registry: &Registry,
    names: &[String],
    tag: &str,
    recursive: bool,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let wanted = existing(registry, names, recursive)?;
    let mut noted = NotedOnce::new(by);
    in_each_pool(wanted, |names| {
        let imported = registry.pool_of(&names[0])?;
        let holds = tagged(names, tag);
        noted.change(names[0].as_str(), |by| {
            run(&imported, HoldSnapshots { holds }, by)
        })?;
        Ok(())
    })
}

/// Gives up the holds with a tag. With `recursive` those datasets below that have none are passed
/// over.
pub(super) fn release(
    registry: &Registry,
    mounts: &Mounts,
    names: &[String],
    (tag, recursive): (&str, bool),
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let mut wanted = existing(registry, names, recursive)?;
    if recursive {
        for names in wanted.values_mut() {
            let all = names.clone();
            names.retain(|name| has_tag(registry, name, tag));
            if names.is_empty() {
                *names = all;
            }
        }
    }
    let mut noted = NotedOnce::new(by);
    in_each_pool(wanted, |names| {
        let imported = registry.pool_of(&names[0])?;
        let holds = tagged(names, tag);
        noted.change(names[0].as_str(), |by| {
            run(&imported, ReleaseSnapshots { holds }, by)
        })?;
        // What only waited for this is destroyed now.
        mounts.forget_snapshots(imported.name());
        Ok(())
    })
}

fn has_tag(registry: &Registry, name: &DatasetName, tag: &str) -> bool {
    let holds = registry.dataset(name).map(|(_, snapshot)| snapshot.holds());
    matches!(holds, Ok(Ok(holds)) if holds.iter().any(|hold| hold.tag == tag))
}

fn tagged(names: &[DatasetName], tag: &str) -> Vec<(DatasetName, String)> {
    names
        .iter()
        .map(|name| (name.clone(), tag.to_owned()))
        .collect()
}
