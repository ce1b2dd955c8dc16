//! Changes: pools made and destroyed, datasets made, renamed and destroyed, properties set.
//!
//! Every change of a pool is a task that its syncing thread carries out; when the answer goes out,
//! the change is on disk. Successful commands are noted in the pool's history.

mod add;
mod contents;
mod datasets;
mod devices;
mod encryption;
mod files;
mod growth;
mod maintenance;
mod pool_settings;
mod pools;
mod properties;
mod replication;
mod snapshots;
mod suspension;
mod treat;
mod vdev_settings;

pub(super) use files::{OpenHeads, settings_of};
pub(super) use growth::Watch;
pub(super) use pool_settings::check_at_import;

use super::Engine;
use super::registry::Imported;
use crate::errors::of_dsl;
use cenote_control::model::{Change, ControlError, Request, Response};
use cenote_control::protocol::{Peer, Reply, Service};
use cenote_dsl::DslError;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_pool::{Actor, SyncError};
use std::collections::HashSet;
use std::sync::Arc;

impl Engine {
    /// Carries out a change and notes the command that asked for it.
    pub(super) fn change(
        &self,
        change: Change,
        command: &str,
        peer: Peer,
    ) -> Result<Response, ControlError> {
        let by = By::new(peer, command);
        match change {
            Change::CreatePool(new) => self.create_pool(&new, &by),
            Change::DestroyPool { pool, force } => self.destroy_pool(&pool, force),
            Change::AddVdevs(added) => self.add_vdevs(&added, &by),
            Change::ClearErrors { pool, device } => {
                self.clear_errors(&pool, device.as_deref(), &by)
            }
            Change::OnlineDevices(online) => self.online(&online, &by),
            Change::SyncPools { pools } => self.sync_pools(&pools),
            Change::SetPoolProperty {
                pool,
                property,
                value,
            } => self.set_pool_property(&pool, &property, &value, &by),
            Change::SetVdevProperty(set) => self.set_vdev_property(&set, &by),
            Change::ReguidPool { pool, guid } => self.reguid_pool(&pool, guid, &by),
            Change::UpgradePool { pool } => self.upgrade_pool(&pool, &by),
            Change::Treat {
                pool,
                devices,
                kind,
                command,
            } => self.treat(&pool, &devices, (kind, command), &by),
            Change::ClearLabels { device, force } => self.clear_labels(&device, force),
            Change::CreateDataset(new) => self.create_dataset(&new, &by),
            Change::DestroyDataset {
                dataset,
                recursive,
                force,
                dry_run,
            } => self.destroy_dataset(&dataset, recursive, force, dry_run, &by),
            Change::Snapshots(change) => self.change_snapshots(change, &by),
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
                self.rename_dataset(&from, &to, how, &by)
            }
            Change::SetProperties {
                datasets,
                properties,
                unmounted,
            } => self.set_properties(&datasets, &properties, unmounted, &by),
            Change::InheritProperty {
                datasets,
                property,
                recursive,
                received,
            } => self.inherit_property(&datasets, &property, (recursive, received), &by),
            Change::ChangeKey {
                dataset,
                properties,
                key,
            } => self.change_key(&dataset, &properties, key.as_ref(), &by),
        }
    }
}

/// Who asks for a change, and how.
pub(super) struct By<'a> {
    actor: Actor,
    command: &'a str,
}

impl<'a> By<'a> {
    fn new(peer: Peer, command: &'a str) -> Self {
        let actor = Actor {
            user: u64::from(peer.uid),
            host: super::candidates::hostname(),
        };
        Self { actor, command }
    }
}

/// A command that changes several datasets, which the history of a pool has once.
pub(super) struct NotedOnce<'a> {
    by: &'a By<'a>,
    quiet: By<'a>,
    /// Where it is noted.
    pools: HashSet<String>,
}

impl<'a> NotedOnce<'a> {
    fn new(by: &'a By<'a>) -> Self {
        let quiet = By {
            actor: by.actor.clone(),
            command: "",
        };
        let pools = HashSet::new();
        Self { by, quiet, pools }
    }

    /// Makes a change of a dataset; if it is the first that succeeds in a pool, with the command.
    fn change<T>(
        &mut self,
        dataset: &str,
        change: impl FnOnce(&By<'_>) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        let pool = dataset.split(['/', '@']).next().unwrap_or(dataset);
        if self.pools.contains(pool) {
            return change(&self.quiet);
        }
        let changed = change(self.by)?;
        self.pools.insert(pool.to_owned());
        Ok(changed)
    }
}

/// Why something is refused, where no property is to be named.
fn refused(reason: impl ToString) -> ControlError {
    ControlError::BadValue {
        name: String::new(),
        reason: reason.to_string(),
    }
}

/// Changes nothing: for commands whose change is not in the pool.
struct Nothing;

impl SyncTask for Nothing {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }
}

impl Engine {
    /// Carries out a request that is no change, and notes its command where it succeeded.
    pub(super) fn noted(
        &self,
        request: Request,
        command: &str,
        peer: Peer,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        let by = By::new(peer, command);
        let pool_of = |dataset: &str| dataset.split('/').next().unwrap_or(dataset).to_owned();
        let pool = match &request {
            // Afterwards there is no history to write to.
            Request::Export { pool, force } => return self.export(pool, *force, Some(&by)),
            Request::LoadKey {
                dataset,
                dry_run: false,
                ..
            }
            | Request::UnloadKey { dataset } => Some(pool_of(dataset)),
            Request::Noted { .. } => {
                let what = "a note about a note".to_owned();
                return Err(ControlError::Unsupported { what });
            }
            _ => None,
        };
        let response = self.handle(request, peer, reply)?;
        let imported = match &response {
            Response::Imported { pools, .. } => pools.as_slice(),
            _ => &[],
        };
        for name in imported.iter().chain(&pool) {
            if let Ok(imported) = self.registry.pool(name) {
                note(&imported, &by);
            }
        }
        Ok(response)
    }
}

/// Notes a command in the history of a pool that is written to. What it did is done: a failure
/// is only reported.
pub(super) fn note(imported: &Imported, by: &By<'_>) {
    if !imported.pool.is_writable() || imported.pool.suspended().is_some() {
        return;
    }
    let noted = imported.pool.run_command(Nothing, &by.actor, by.command);
    if let Err(error) = noted {
        eprintln!("cenote: {}: the history: {error}", imported.name());
    }
}

/// Runs a task in a pool that can be written to, and notes the command.
fn run<T: SyncTask + 'static>(
    imported: &Arc<Imported>,
    task: T,
    by: &By<'_>,
) -> Result<T, ControlError> {
    let pool = imported.name().to_owned();
    if !imported.pool.is_writable() {
        return Err(ControlError::PoolReadOnly { pool });
    }
    if imported.pool.suspended().is_some() {
        return Err(ControlError::Suspended { pool });
    }
    let done = imported.pool.run_command(task, &by.actor, by.command);
    done.map_err(|error| of_sync(imported.name(), error))
}

/// Why a pool did not take a change, in the clients' terms.
pub(super) fn of_sync(pool: &str, error: SyncError) -> ControlError {
    let pool = pool.to_owned();
    match error {
        SyncError::Dsl(error) => of_change(error),
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
        DslError::Busy { name } | DslError::Held { name } => ControlError::DatasetBusy {
            dataset: text(name),
        },
        DslError::HasClones { name } => ControlError::SnapshotCloned {
            snapshot: text(name),
        },
        DslError::SnapshotsOfSame { name } => ControlError::SnapshotsOfSame {
            snapshot: text(name),
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
        DslError::IntoItself { name } => ControlError::IntoItself {
            dataset: text(name),
        },
        DslError::ParentNotFilesystem { name } => ControlError::ParentNotFilesystem {
            dataset: text(name),
        },
        DslError::LeavesEncryptionRoot { .. } => ControlError::BadValue {
            name: String::new(),
            reason: "cannot move encrypted child outside of its encryption root".to_owned(),
        },
        DslError::RootDataset { .. }
        | DslError::IntentLog(_)
        | DslError::KeyRequired { .. }
        | DslError::KeyRefused { .. }
        | DslError::LimitReached { .. }
        | DslError::FeatureDisabled { .. }
        | DslError::OldErrorLog
        | DslError::Format { .. } => ControlError::BadValue {
            name: String::new(),
            reason: error.to_string(),
        },
        _ => of_dsl(error),
    }
}
