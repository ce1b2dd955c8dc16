//! Changes that come from commands: carried out and noted in the history in one group.

use crate::pool::Pool;
use crate::sync::{Actor, SyncError, log_command};
use cenote_dsl::DslError;
use cenote_dsl::write::{SyncContext, SyncTask};

/// A task, and the command that asked for it.
struct Noted<T> {
    task: T,
    actor: Actor,
    command: String,
}

impl<T: SyncTask> SyncTask for Noted<T> {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        self.task.check(context)
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        self.task.sync(context)?;
        match self.command.is_empty() {
            true => Ok(()),
            false => log_command(context, &self.actor, &self.command),
        }
    }
}

impl Pool {
    /// Carries out a command's change, notes the command in the pool's history, and waits until
    /// both are on disk. An empty command is not noted.
    ///
    /// # Errors
    /// Why it was refused, or why the pool takes no changes.
    pub fn run_command<T: SyncTask + 'static>(
        &self,
        task: T,
        actor: &Actor,
        command: &str,
    ) -> Result<T, SyncError> {
        let noted = Noted {
            task,
            actor: actor.clone(),
            command: command.to_owned(),
        };
        Ok(self.run_task(noted)?.task)
    }
}
