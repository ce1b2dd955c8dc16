//! The command behind a request: the user that gave it, and its record in the pool's history.
//!
//! Every change of a pool is a task that its syncing thread carries out; when the answer goes out,
//! the change is on disk. Successful commands are noted in the pool's history, in the same group.

use crate::errors::of_sync;
use crate::imported::Imported;
use crate::rights::Rights;
use cenote_base::hostname;
use cenote_control::model::ControlError;
use cenote_control::protocol::Peer;
use cenote_dsl::write::{MadeBy, SyncContext, SyncTask};
use cenote_dsl::{DatasetName, DslError};
use cenote_history::{Events, WithEvents};
use cenote_pool::Actor;
use std::collections::HashSet;
use std::sync::Arc;

/// The origin of a change: the user and the command.
pub struct By<'a> {
    /// The user and the machine.
    pub actor: Actor,
    /// As it is recorded; empty for changes that are part of another record.
    pub command: &'a str,
    /// What the user may do; not set for users that may do everything.
    pub rights: Option<Rights>,
}

impl<'a> By<'a> {
    /// The command of a client.
    pub fn new(peer: Peer, command: &'a str) -> Self {
        let actor = Actor {
            user: u64::from(peer.uid),
            host: hostname(),
        };
        Self {
            actor,
            command,
            rights: Rights::of(peer),
        }
    }

    /// The same to undo what was done of a command that failed, whatever the user may do.
    pub fn undoing(&self) -> By<'static> {
        By {
            rights: None,
            ..self.unnoted()
        }
    }

    /// A task that makes a dataset, with the create-time permissions for the user.
    pub fn making<T>(&self, task: T, name: &DatasetName) -> MadeBy<T> {
        MadeBy {
            task,
            names: vec![name.clone()],
            user: self.actor.user,
        }
    }

    /// Refuses if an ordinary user lacks one of these permissions on a dataset.
    pub fn check(
        &self,
        imported: &Imported,
        name: &DatasetName,
        permissions: &[&str],
    ) -> Result<(), ControlError> {
        match &self.rights {
            Some(rights) => rights.check(imported, name, permissions),
            None => Ok(()),
        }
    }

    /// The user and group that own a new file system: the daemon's for users that may do
    /// everything, so that an unprivileged daemon's user can use it.
    pub fn owner(&self) -> (u64, u64) {
        match &self.rights {
            Some(rights) => (rights.user.id, rights.group.into()),
            None => (
                rustix::process::geteuid().as_raw().into(),
                rustix::process::getegid().as_raw().into(),
            ),
        }
    }

    /// The same for a further part of what the command does, which is not noted.
    pub fn unnoted(&self) -> By<'static> {
        By {
            actor: self.actor.clone(),
            command: "",
            rights: self.rights.clone(),
        }
    }
}

/// A command that changes several datasets, which the history of a pool has once.
pub struct NotedOnce<'a> {
    by: &'a By<'a>,
    quiet: By<'static>,
    /// Where it is noted.
    pools: HashSet<String>,
}

impl<'a> NotedOnce<'a> {
    /// Nothing has changed yet.
    pub fn new(by: &'a By<'a>) -> Self {
        Self {
            by,
            quiet: by.unnoted(),
            pools: HashSet::new(),
        }
    }

    /// Makes a change of a dataset; if it is the first that succeeds in a pool, with the command.
    pub fn change<T>(
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

/// Changes nothing: for commands whose change is not in the pool.
pub struct Nothing;

impl SyncTask for Nothing {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }
}

/// Notes a command in the history of a pool that is written to. What it did is done: a failure
/// is only reported.
pub fn note(imported: &Imported, by: &By<'_>) {
    if !imported.pool.is_writable() || imported.pool.suspended().is_some() {
        return;
    }
    let noted = imported.pool.run_command(Nothing, &by.actor, by.command);
    if let Err(error) = noted {
        log::warn!(
            "pool '{}': the command is not in its history: {error}",
            imported.name()
        );
    }
}

/// Runs a task in a pool that can be written to, and notes the command and what it changed.
pub fn run<T: Events + 'static>(
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
    let actor = by.actor.clone();
    let task = WithEvents { task, actor };
    let done = imported.pool.run_command(task, &by.actor, by.command);
    let done = done.map_err(|error| of_sync(imported.name(), error))?;
    Ok(done.task)
}
