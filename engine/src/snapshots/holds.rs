//! Holds: what keeps snapshots from being destroyed.

use crate::errors::{of_dsl, parse_name};
use crate::registry::table::Registry;
use crate::registry::walk::{is_within, walk_heads};
use cenote_control::model::{ControlError, Hold, Response};
use cenote_dsl::{Dataset, NameKind};

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
        let (_, found) = registry.dataset(&name)?;
        add_holds(&found, &mut holds)?;
        return Ok(Response::Holds { holds });
    }
    let top = name.dataset();
    let mut found = false;
    let mut failure = None;
    walk_heads(imported.dsl(), |head| {
        if failure.is_some() || !is_within(head.name(), &top) {
            return;
        }
        match head.snapshot(last.as_bytes()) {
            Ok(Some(snapshot)) => {
                found = true;
                failure = add_holds(&snapshot, &mut holds).err();
            }
            Ok(None) => {}
            Err(error) => failure = Some(of_dsl(error)),
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

fn add_holds(snapshot: &Dataset, holds: &mut Vec<Hold>) -> Result<(), ControlError> {
    for hold in snapshot.holds().map_err(of_dsl)? {
        holds.push(Hold {
            snapshot: snapshot.name().as_str().to_owned(),
            tag: hold.tag,
            time: hold.time,
        });
    }
    Ok(())
}
