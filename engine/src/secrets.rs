//! Keys and holds.

use cenote_control::model::{ControlError, Hold, Response, Secret};
use cenote_dsl::{Dataset, DatasetName, DslError, NameKind};
use std::time::Duration;

use super::Engine;
use super::datasets::walk_heads;
use super::errors::{of_dsl, parse_name};

/// How long the files of an ended mount may take to be closed.
const LETTING_GO: Duration = Duration::from_secs(2);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

impl Engine {
    pub(super) fn load_key(
        &self,
        dataset: &str,
        key: &Secret,
        dry_run: bool,
    ) -> Result<Response, ControlError> {
        let (imported, found) = self.registry.dataset(&parse_name(dataset)?)?;
        let dsl = found.dsl();
        dsl.load_key(found.directory(), key.expose(), dry_run)
            .map_err(of_dsl)?;
        // The key is there, whatever becomes of the volumes that waited for it.
        match imported.replay_volumes().into_iter().next() {
            Some((_, error)) if !dry_run => Err(error),
            _ => Ok(Response::Done),
        }
    }

    pub(super) fn unload_key(&self, dataset: &str) -> Result<Response, ControlError> {
        let (imported, found) = self.registry.dataset(&parse_name(dataset)?)?;
        let until = self.env.monotonic() + LETTING_GO;
        loop {
            imported.close_idle_heads(found.directory().id())?;
            match found.dsl().unload_key(found.directory()) {
                // Threads that served a mount which is gone may still be letting go of its files.
                Err(DslError::KeyBusy { .. })
                    if !self.mounts.is_used(dataset) && self.env.monotonic() < until =>
                {
                    self.env.sleep(LOOK_INTERVAL);
                }
                result => {
                    result.map_err(of_dsl)?;
                    return Ok(Response::Done);
                }
            }
        }
    }

    pub(super) fn holds(&self, snapshot: &str, recursive: bool) -> Result<Response, ControlError> {
        let name = parse_name(snapshot)?;
        let (NameKind::Snapshot, Some(last)) = (name.kind(), name.after_delimiter()) else {
            return Err(ControlError::WrongKind {
                dataset: snapshot.to_owned(),
            });
        };
        let imported = self.registry.pool_of(&name)?;
        let mut holds = Vec::new();
        if !recursive {
            let (_, found) = self.registry.dataset(&name)?;
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
}

fn is_within(name: &DatasetName, top: &DatasetName) -> bool {
    let rest = name.as_str().strip_prefix(top.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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
