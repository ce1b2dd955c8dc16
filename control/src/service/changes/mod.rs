//! Changes: pools made and destroyed, datasets made, renamed and destroyed, properties set.
//!
//! Every change of a pool is a task that its syncing thread carries out; when the answer goes out,
//! the change is on disk. Successful commands are noted in the pool's history.

mod datasets;
mod devices;
mod files;
mod pools;
mod properties;

pub(super) use files::OpenHeads;

use super::Engine;
use super::registry::Imported;
use crate::model::{Change, ControlError, Response};
use crate::protocol::Peer;
use cenote_dsl::DslError;
use cenote_dsl::write::SyncTask;
use cenote_pool::{Actor, SyncError};
use std::sync::Arc;

impl Engine {
    /// Carries out a change and notes the command that asked for it.
    pub(super) fn change(
        &self,
        change: Change,
        command: &str,
        peer: Peer,
    ) -> Result<Response, ControlError> {
        let actor = Actor {
            user: u64::from(peer.uid),
            host: super::candidates::hostname(),
            command: command.to_owned(),
        };
        match change {
            Change::CreatePool(new) => self.create_pool(&new, &actor),
            Change::DestroyPool { pool, force } => self.destroy_pool(&pool, force),
            Change::SyncPools { pools } => self.sync_pools(&pools),
            Change::SetPoolProperty {
                pool,
                property,
                value,
            } => self.set_pool_property(&pool, &property, &value, &actor),
            Change::ReguidPool { pool, .. } => Err(ControlError::Unsupported {
                what: format!("changing the guid of '{pool}'"),
            }),
            Change::CreateDataset(new) => self.create_dataset(&new, &actor),
            Change::DestroyDataset {
                dataset,
                recursive,
                force,
                dry_run,
            } => self.destroy_dataset(&dataset, recursive, force, dry_run, &actor),
            Change::RenameDataset {
                from,
                to,
                parents,
                force,
                unmounted,
            } => {
                let how = datasets::Renaming {
                    parents,
                    force,
                    unmounted,
                };
                self.rename_dataset(&from, &to, how, &actor)
            }
            Change::SetProperties {
                datasets,
                properties,
                unmounted,
            } => self.set_properties(&datasets, &properties, unmounted, &actor),
            Change::InheritProperty {
                datasets,
                property,
                recursive,
                received,
            } => self.inherit_property(&datasets, &property, (recursive, received), &actor),
            Change::ChangeKey { dataset, .. } => Err(ControlError::Unsupported {
                what: format!("changing the key of '{dataset}'"),
            }),
        }
    }
}

/// Runs a task in a pool that can be written to, and notes the command.
fn run<T: SyncTask + 'static>(
    imported: &Arc<Imported>,
    task: T,
    actor: &Actor,
) -> Result<T, ControlError> {
    let done = imported.pool.run_task(task);
    let done = done.map_err(|error| of_sync(imported.name(), error))?;
    let noted = imported.pool.log_command(actor);
    noted.map_err(|error| of_sync(imported.name(), error))?;
    Ok(done)
}

/// Why a pool did not take a change, in the clients' terms.
fn of_sync(pool: &str, error: SyncError) -> ControlError {
    let pool = pool.to_owned();
    match error {
        SyncError::Refused(error) => of_change(error),
        SyncError::ReadOnly => ControlError::PoolReadOnly { pool },
        SyncError::Stopped { .. } => ControlError::Suspended { pool },
        error => ControlError::Io {
            place: error.to_string(),
        },
    }
}

/// Why a change of datasets is not possible, in the clients' terms.
pub(super) fn of_change(error: DslError) -> ControlError {
    let text = |name: &cenote_dsl::DatasetName| name.as_str().to_owned();
    match &error {
        DslError::DatasetExists { name } => ControlError::Exists { name: text(name) },
        DslError::NoParent { name } => ControlError::NoParent {
            dataset: text(name),
        },
        DslError::HasChildren { name } => ControlError::HasDependents {
            dataset: text(name),
            what: "filesystem has children".to_owned(),
        },
        DslError::HasSnapshots { name } => ControlError::HasDependents {
            dataset: text(name),
            what: "filesystem has children".to_owned(),
        },
        DslError::Busy { name } => ControlError::DatasetBusy {
            dataset: text(name),
        },
        DslError::NoSpaceFor { name } => ControlError::NoSpace {
            dataset: text(name),
        },
        DslError::NoRoom { property, .. } => ControlError::BadValue {
            name: property.clone(),
            reason: match property.contains("quota") {
                true => "size is less than current used or reserved space".to_owned(),
                false => "size is greater than available space".to_owned(),
            },
        },
        DslError::IntoItself { .. } => ControlError::BadValue {
            name: String::new(),
            reason: "New dataset name cannot be a descendant of current dataset name".to_owned(),
        },
        DslError::LeavesEncryptionRoot { .. } => ControlError::BadValue {
            name: String::new(),
            reason: "cannot move encrypted child outside of its encryption root".to_owned(),
        },
        DslError::RootDataset { .. }
        | DslError::LimitReached { .. }
        | DslError::FeatureDisabled { .. }
        | DslError::Format { .. } => ControlError::BadValue {
            name: String::new(),
            reason: error.to_string(),
        },
        _ => error.into(),
    }
}
