//! What all streams of one request share.

use super::input::Link;
use super::plan::Plan;
use super::words::of_change;
use crate::command::By;
use crate::context::Context;
use crate::mounts::table::Mounts;
use crate::registry::imported::Imported;
use cenote_control::model::{ControlError, Receive};
use cenote_history::{Events, WithEvents};

/// One request.
pub(super) struct Session<'a> {
    pub context: &'a Context,
    pub mounts: &'a Mounts,
    pub asked: &'a Receive,
    pub by: &'a By<'a>,
    pub link: &'a Link<'a>,
}

impl Session<'_> {
    /// Carries out a task; `is_noted` is the one that the history has.
    pub fn run<T: Events + 'static>(
        &self,
        imported: &Imported,
        plan: &Plan<'_>,
        task: T,
        is_noted: bool,
    ) -> Result<T, ControlError> {
        let command = match is_noted {
            true => self.by.command,
            false => "",
        };
        let actor = self.by.actor.clone();
        let task = WithEvents { task, actor };
        let done = imported.pool.run_command(task, &self.by.actor, command);
        let done = done.map_err(|error| of_change(plan.wants(), &plan.name, error))?;
        Ok(done.task)
    }
}
